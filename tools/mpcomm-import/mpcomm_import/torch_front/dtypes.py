# ===- dtypes.py - element types of PyTorch -------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""PyTorch's dtypes and those of MLIR."""

import torch

# PyTorch's dtype -> MLIR's. A bool is one byte in memory and i1 in types.
DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.bool: "i1",
}
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}
