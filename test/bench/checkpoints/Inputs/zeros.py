# ===- zeros.py - tensors of zeros in a file -------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# zeros.py FILE NAME=4x2...: f32, in safetensors.

import json
import math
import struct
import sys

header, at = {}, 0
for name, text in (argument.split("=") for argument in sys.argv[2:]):
    shape = [int(size) for size in text.split("x")]
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at := at + 4 * math.prod(shape)]}
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + bytes(at))
