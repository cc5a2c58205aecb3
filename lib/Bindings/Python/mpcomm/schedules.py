# ===- schedules.py - learning rates --------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Learning rates: numbers, schedules, or whatever sets those of a torch.optim.Optimizer.

A schedule is a function of the step, counted from 0. Those below are the schedules of
`mpcomm-run --lr-schedule`, number for number.
"""

import math
from typing import Any, Callable, List, Mapping, Sequence, Union

from .errors import Error
from .names import plain

Schedule = Callable[[int], float]
#: What `lr` of a Session may be.
LearningRate = Union[None, float, Schedule, Sequence[Union[float, Schedule]], Any]


class Constant:
    """The rate `lr` in every step, after `warmup` steps in which it rises to that."""

    def __init__(self, lr: float, warmup: int = 0, total: int = 0):
        if not (math.isfinite(lr) and lr >= 0):
            raise Error(f"expected a learning rate that is finite and not negative, found {lr}")
        if warmup < 0 or total < 0:
            raise Error("expected warmup and total of at least 0 steps")
        self.lr, self.warmup, self.total = float(lr), int(warmup), int(total)

    def decay(self, t: float) -> float:
        """The factor on the rate when the fraction `t` of the steps after the warm-up
        is done."""
        return 1.0

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        if self.total <= self.warmup:
            return self.lr
        return self.lr * self.decay(min(1.0, (step - self.warmup) / (self.total - self.warmup)))


class Cosine(Constant):
    """Falls from `lr` after the warm-up to 0 in step `total`, as half a cosine."""

    def __init__(self, lr: float, total: int, warmup: int = 0):
        super().__init__(lr, warmup, total)

    def decay(self, t: float) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * t))


class Linear(Cosine):
    """Falls from `lr` after the warm-up to 0 in step `total`, in a line."""

    def decay(self, t: float) -> float:
        return 1.0 - t


def optimizer_of(source: Any) -> Any:
    """A torch.optim.Optimizer, or the one that a scheduler of torch.optim.lr_scheduler sets;
    else None."""
    optimizer = getattr(source, "optimizer", source)
    return optimizer if hasattr(optimizer, "param_groups") else None


class Rates:
    """The learning rates of each step, for the hyperparameters of a program.

    source     what `lr` of a Session is
    names      the program's learning rates: lr, lr.1, …
    groups     for each of these the indices of the parameter groups that have it
    constants  for each parameter group the options that the program was compiled with
    """

    def __init__(self, source: LearningRate, names: Sequence[str],
                 groups: Sequence[Sequence[int]],
                 constants: Sequence[Mapping[str, Any]] = ()):
        self.names, self.groups = list(names), [list(g) for g in groups]
        self.optimizer = optimizer_of(source)
        self.constants = list(constants)
        optimizer = self.optimizer
        if optimizer is not None:
            if not self.groups:
                raise Error("a learning rate from an optimizer or a scheduler needs a program "
                            "that knows its parameter groups; see Program.bind")
            known = 1 + max(i for g in self.groups for i in g)
            if len(optimizer.param_groups) != known:
                raise Error(f"expected an optimizer of {known} parameter groups, found "
                            f"{len(optimizer.param_groups)}")
            # A scheduler warns where its optimizer has never made a step; ours are made
            # by the program.
            optimizer._opt_called = True
            optimizer._step_count = max(1, getattr(optimizer, "_step_count", 0))
            self.at(0)  # what does not fit is an error now
            return
        sources = source if isinstance(source, (list, tuple)) else [source]
        if len(sources) != len(self.names):
            one = "a learning rate" if len(self.names) == 1 else f"{len(self.names)} learning rates"
            raise Error(f"expected {one} ({', '.join(self.names) or 'none'}), found "
                        f"{len(sources)}")
        self.functions = [s if callable(s) else Constant(s) for s in sources]

    def at(self, step: int) -> List[float]:
        """The rates of step `step`, counted from 0, in the order of `names`."""
        if self.optimizer is None:
            rates = [float(f(step)) for f in self.functions]
        else:
            tables = self.optimizer.param_groups  # load_state_dict makes new ones
            self.check_constants(tables)
            rates = [self.shared(tables, name, group)
                     for name, group in zip(self.names, self.groups)]
        for name, rate in zip(self.names, rates):
            if not 0.0 <= rate < math.inf:
                raise Error(f"step {step}: expected a learning rate '{name}' that is finite and "
                            f"not negative, found {rate}")
        return rates

    @staticmethod
    def shared(tables: Sequence[Mapping], name: str, group: Sequence[int]) -> float:
        """The rate of parameter groups that have one in the program."""
        rate = tables[group[0]]["lr"]
        for i in group[1:]:
            if tables[i]["lr"] != rate:
                raise Error(
                    f"parameter groups {group[0]} and {i} have one learning rate in the "
                    f"program, '{name}', because they had equal ones when it was compiled; "
                    f"found {rate} and {tables[i]['lr']}. Give groups whose rates will "
                    "differ different ones before mpcomm.compile, and before the scheduler "
                    "is made")
        return float(rate)

    def check_constants(self, tables: Sequence[Mapping]) -> None:
        """Refuses an optimizer of which another option than a learning rate has changed."""
        for index, (table, constants) in enumerate(zip(tables, self.constants)):
            for name, value in constants.items():
                found = table.get(name, value)
                if found is value or plain(found) == value:
                    continue
                hint = "; a scheduler that changes it, as OneCycleLR and CyclicLR do, needs " \
                    "cycle_momentum=False" if name in ("momentum", "betas") else ""
                raise Error(
                    f"parameter group {index}: expected {name}={value}, with which the program "
                    f"was compiled, found {plain(found)}. Of an optimizer, only learning rates "
                    f"can change; compile again with the new value, or set it back{hint}")
