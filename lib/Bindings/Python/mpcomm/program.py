# ===- program.py - a compiled training step ------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The Program: what `compile` returns and a Session runs."""

import os
import shutil
import weakref
from typing import Any, Dict, List, Mapping, Optional

from .errors import Error
from .names import ModelNames, OptimizerNames, from_pytorch


class Program:
    """A program file, and what is known of the model that it was compiled from.

    path     the program file, `step.so`. It is code: open only files that you trust
    batch    names of the tensors of a batch in the order of the example, or []

    `mpcomm.compile` makes it of a model; Program("step.so") opens a file that
    `mpcomm-compile` wrote. A Program can be pickled; it takes the state with it that the
    model has at that time.
    """

    def __init__(self, path: str, *, weights: Optional[Mapping[str, Any]] = None,
                 folder: Optional[str] = None, batch: Optional[List[str]] = None,
                 batch_kind: str = "mapping"):
        if not isinstance(path, (str, os.PathLike)):
            raise Error("expected a Program or the path of a program file, found "
                        f"{type(path).__name__}; mpcomm.compile makes a Program of a model")
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            raise Error(f"{self.path}: no such file")
        self.batch, self.batch_kind = batch or [], batch_kind
        self._weights = dict(weights or {})
        if folder is not None:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._model = self._optimizer = None
        self._saved_optimizer: Optional[Mapping[str, Any]] = None  # of a copy that was pickled
        self.model_names: Optional[ModelNames] = None
        self.optimizer_names: Optional[OptimizerNames] = None

    def bind(self, model: Any, optimizer: Any = None) -> "Program":
        """Lets a Session start from the state of `model` and `optimizer`, and speak their
        names in `state_dict()` and `optimizer_state_dict()`. `compile` does it for what it
        has compiled; a program file needs it. Returns self."""
        self._model, self._optimizer = model, optimizer
        self.model_names = ModelNames(model)
        if optimizer is not None:
            self.optimizer_names = OptimizerNames(model, optimizer)
        return self

    @property
    def optimizer(self) -> Any:
        """The optimizer that the program was compiled from or bound to, in this process."""
        return self._optimizer

    def save(self, path: str) -> None:
        """Copies the program file, for `mpcomm-run` or for Program(path)."""
        shutil.copyfile(self.path, path)

    def initial_state(self, program: Mapping[str, Any]) -> Dict[str, Any]:
        """{name: tensor} of the state that a session starts from: that which model and
        optimizer have now. `program` has the names of the program's state."""
        state, saved = self.model_state(), self.optimizer_state()
        if saved is not None and self.optimizer_names is not None:
            state.update(from_pytorch(saved, self.optimizer_names, program))
        return {name: value for name, value in state.items() if name in program}

    def model_state(self) -> Dict[str, Any]:
        """What was imported, with the values that the model has now."""
        state = dict(self._weights)
        if self._model is not None and self.model_names is not None:
            held = self._model.state_dict()
            state.update({name: held[key] for key, name in self.model_names.aliases.items()})
        return state

    def optimizer_state(self) -> Optional[Mapping[str, Any]]:
        """`state_dict()` of the optimizer as it is now; None if there is none."""
        return self._saved_optimizer if self._optimizer is None else \
            self._optimizer.state_dict()

    def __getstate__(self) -> Dict[str, Any]:
        return dict(vars(self), _weights={n: getattr(t, "detach", lambda t=t: t)()
                                          for n, t in self.model_state().items()},
                    _saved_optimizer=self.optimizer_state(), _model=None, _optimizer=None)

    @staticmethod
    def is_program(path: str) -> bool:
        """Whether a file may be a program: those are shared objects."""
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"

    def __repr__(self) -> str:
        return f"mpcomm.Program({self.path!r})"
