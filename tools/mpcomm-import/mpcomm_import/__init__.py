# ===- __init__.py - training steps from PyTorch ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""mpcomm_import: turns a PyTorch model, its loss and its optimizer into a
training graph of the mpcomm dialect.

    import mpcomm_import as mi
    program = mi.trace(mi.Workload(model, loss, optimizer, batch, dataset))
    program.write("step.mlir", weights="w.safetensors", data="d.safetensors")

The command `mpcomm-import` does the same for a file that defines
`workload(...)`.
"""

from .errors import ImportFailure, UnsupportedOperators
from .importer import Program, import_workload
from .workload import Workload, load_workload

trace = import_workload

__all__ = ["ImportFailure", "Program", "UnsupportedOperators", "Workload",
           "import_workload", "load_workload", "trace"]
