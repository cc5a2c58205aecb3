# ===- workload.py - a training set-up of JAX -----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The JaxWorkload: a step or a loss and an optimizer of optax, their state, and data."""

import dataclasses
from typing import Any, Callable, Dict, Optional

import jax
import numpy as np

from ..errors import ImportFailure
from ..model_file import TrainingSetup
from . import trace as jax_trace


@dataclasses.dataclass
class JaxWorkload(TrainingSetup):
    """One training set-up: a whole step,

    step           step(state, batch) -> (state, loss); what else it returns is dropped
    state          its initial state: a flax TrainState, or any pytree of arrays

    or what one is made of,

    loss           loss(params, batch) -> loss or (loss, anything); with a model_state,
                   loss(params, model_state, batch) -> (loss, model_state)
    params         a pytree of arrays
    optimizer      an optax.GradientTransformation
    model_state    a pytree of what the model keeps beside its parameters, as running
                   statistics

    and

    batch          samples in a step of one rank
    dataset        {name: array}; the first dimension counts samples. The batch that
                   functions get is a dictionary with these names
    eval_dataset   the same for held-out samples, or None
    evaluate       evaluate(state, batch) -> loss or (loss, output), or None. Without
                   `step`, the state is {"params", "opt_state"[, "model_state"]}
    rng            whether step or loss has a last parameter, a key of jax.random, which
                   is another one in each step and on each rank
    name           of the program; default: the model file's
    """

    batch: int
    dataset: Dict[str, Any]
    step: Optional[Callable] = None
    state: Any = None
    loss: Optional[Callable] = None
    params: Any = None
    optimizer: Any = None
    model_state: Any = None
    eval_dataset: Optional[Dict[str, Any]] = None
    evaluate: Optional[Callable] = None
    rng: bool = False
    name: str = ""

    def check(self):
        if (self.step is None) == (self.loss is None):
            raise ImportFailure("expected either `step` or `loss`")
        if self.step is not None and self.state is None:
            raise ImportFailure("expected a `state` for `step`")
        if self.loss is not None and (self.params is None or
                                      not hasattr(self.optimizer, "update")):
            raise ImportFailure("expected `params` and an `optimizer` of optax for `loss`")
        if not isinstance(self.batch, int) or self.batch < 1:
            raise ImportFailure(f"expected a batch of at least 1, found {self.batch}")
        self.dataset = self.read_data("dataset", self.dataset)
        if self.eval_dataset is not None:
            self.eval_dataset = self.read_data("evaluation dataset", self.eval_dataset)

    def read_data(self, kind, data):
        """The arrays of a dataset in the types that JAX computes with."""
        if list(data) != list(self.dataset):
            raise ImportFailure(f"expected the {kind} to have the arrays "
                                f"{', '.join(self.dataset)}, found {', '.join(data)}")
        result = {name: jax_trace.array(values) for name, values in data.items()}
        for name, values in result.items():
            if values.ndim == 0:
                raise ImportFailure(f"{kind} '{name}': expected an array whose first "
                                    "dimension counts samples")
            if values.dtype.kind == "u":
                raise ImportFailure(f"{kind} '{name}': no arrays of {values.dtype}; convert "
                                    "to float32 or int32")
            like = np.asarray(self.dataset[name])
            if values.shape[1:] != like.shape[1:]:
                raise ImportFailure(f"{kind} '{name}': samples differ in shape from the "
                                    "training set's")
        counts = {name: len(values) for name, values in result.items()}
        if len(set(counts.values())) != 1:
            raise ImportFailure(f"{kind}: numbers of samples differ: " + ", ".join(
                f"{n} has {k}" for n, k in counts.items()))
        if min(counts.values()) < self.batch:
            raise ImportFailure(f"{kind}: expected at least one batch of {self.batch} "
                                f"samples, found {min(counts.values())}")
        return result

    def example(self):
        """The type of a batch."""
        return {name: jax.ShapeDtypeStruct((self.batch, *values.shape[1:]), values.dtype)
                for name, values in self.dataset.items()}

    def initial_state(self):
        if self.step is not None:
            return self.state
        state = {"params": self.params, "opt_state": self.optimizer.init(self.params)}
        if self.model_state is not None:
            state["model_state"] = self.model_state
        return state

    def whole_step(self):
        """step(state, batch[, key]) -> (state, loss)."""
        if self.step is not None:
            return self.step

        def step(state, batch, *key):
            import optax
            held = [state["model_state"]] if self.model_state is not None else []
            has_aux = isinstance(jax.eval_shape(self.loss, state["params"], *held, batch,
                                                *key), tuple)
            result, gradients = jax.value_and_grad(self.loss, has_aux=has_aux)(
                state["params"], *held, batch, *key)
            updates, opt_state = self.optimizer.update(gradients, state["opt_state"],
                                                       state["params"])
            new = {"params": optax.apply_updates(state["params"], updates),
                   "opt_state": opt_state}
            if held:
                new["model_state"] = result[1]
            return new, result[0] if has_aux else result
        return step

    def translate(self):
        from .importer import import_workload
        return import_workload(self)

    def replace_optimizer(self, kind, options):
        raise ImportFailure("the options of optimizers are PyTorch's; give `workload` of the "
                            "model file a parameter, as -O lr=0.1")
