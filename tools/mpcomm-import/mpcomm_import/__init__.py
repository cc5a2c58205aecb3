# ===- __init__.py - training steps from PyTorch and JAX ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""mpcomm_import: turns a training step of PyTorch or JAX into a training graph of the
mpcomm dialect.

    import mpcomm_import as mi
    program = mi.trace(mi.Workload(model, loss, optimizer, batch, dataset))
    program.write("step.mlir", weights="w.safetensors", data="d.safetensors")

The command `mpcomm-import` does the same for a file that defines
`workload(...)`.
"""

import importlib

from .errors import ImportFailure, UnsupportedOperators
from .model_file import load_workload

__all__ = ["ImportFailure", "JaxWorkload", "Program", "UnsupportedOperators",
           "Workload", "load_workload", "trace"]

# A model file of one framework loads nothing of the other.
HOMES = {"JaxWorkload": "jax_front.workload", "Program": "ir.program",
         "Workload": "torch_front.workload"}


def __getattr__(name):
    if name in HOMES:
        return getattr(importlib.import_module(f".{HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def trace(workload):
    """Translates a workload; returns a Program."""
    return workload.translate()
