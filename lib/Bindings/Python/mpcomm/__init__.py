# ===- __init__.py - training by compiled programs ------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""mpcomm: compiles a training step for many ranks, and trains with it.

    program = mpcomm.compile(model, loss, optimizer, example_batch, mesh="dp:4")
    with mpcomm.Session(program) as session:
        for batch in loader:
            loss = session.step(batch)
        model.load_state_dict(session.state_dict())

`compile` needs PyTorch (or JAX), a Session needs only NumPy. Ranks are started by
torchrun, mpirun, srun or `mpcomm.launch`.
"""

from .callbacks import JsonLines, Record, TensorBoard
from .compile import compile
from .errors import CompileError, Error
from .launch import launch
from .program import Program
from .schedules import Constant, Cosine, Linear
from .session import Session

__version__ = "0.1.0"
__all__ = ["CompileError", "Constant", "Cosine", "Error", "JsonLines", "Linear", "Program",
           "Record", "Session", "TensorBoard", "compile", "launch"]
