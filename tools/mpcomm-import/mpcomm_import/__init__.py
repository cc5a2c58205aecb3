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
from .workload import Workload, load_workload

__all__ = ["ImportFailure", "Program", "UnsupportedOperators", "Workload",
           "import_workload", "load_workload", "trace"]


def __getattr__(name):
    """Tracing needs much of PyTorch; a model file that is trained by PyTorch
    itself should not load it."""
    if name in ("Program", "import_workload", "trace"):
        from . import importer
        return getattr(importer, "import_workload" if name == "trace" else name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
