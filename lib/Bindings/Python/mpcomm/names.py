# ===- names.py - PyTorch's names for a program's state -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translates between the state of a program and PyTorch's `state_dict()`s.

A program calls the state of the optimizer by the parameter's name, `fc.weight.exp_avg`,
and counts steps once, as `step`. PyTorch numbers the parameters of an optimizer and has a
count with each. A tensor that a model has under two names is in a program under the first.
"""

import collections
import numbers
from typing import Any, Collection, Dict, List, Mapping, Optional, Tuple

import numpy

from .errors import Error

#: The count of steps that all parameters share in a program.
STEP = "step"

#: Entries of a parameter group that may change: the learning rate, which a program takes at
#: each step; what schedulers note there; and how PyTorch itself would make the step.
FREE = frozenset({"params", "param_names", "lr", "initial_lr", "swa_lr", "max_lr", "min_lr",
                  "max_momentum", "base_momentum", "foreach", "fused", "capturable",
                  "differentiable"})


class ModelNames:
    """The names of a torch.nn.Module: `aliases` has the program's name for each key of
    its state_dict()."""

    def __init__(self, model: Any):
        state = model.state_dict(keep_vars=True)
        first = {}
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            first.setdefault(id(tensor), name)
        self.aliases = {key: first.get(id(t), key) for key, t in state.items()}


class OptimizerNames:
    """The parameter groups of a torch.optim.Optimizer by the parameters' names, and
    what its step() keeps for each parameter.

    kinds    {parameter: {key of its state: None, or the value after a first step}}
    """

    def __init__(self, model: Any, optimizer: Any):
        name_of = {id(p): n for n, p in model.named_parameters()}
        self.groups: List[List[str]] = []
        self.options: List[Dict[str, Any]] = []
        self.kinds: Dict[str, Dict[str, Any]] = {}
        #: Of each group the options that a program has as constants.
        self.constants = [{k: plain(v) for k, v in group.items()
                           if k not in FREE and plain(v) is not None}
                          for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            self.groups.append([name_of[id(p)] for p in group["params"]])
            self.options.append({k: v for k, v in group.items() if k != "params"})
            for p in group["params"]:
                state = optimizer.state.get(p) or first_state(optimizer, group, p)
                self.kinds[name_of[id(p)]] = {
                    k: v.new_zeros((), dtype=v.dtype) if is_tensor(v) else v
                    for k, v in state.items()}

    @property
    def order(self) -> List[str]:
        """Parameters as PyTorch numbers them."""
        return [name for group in self.groups for name in group]

    def rates(self) -> Dict[str, List[int]]:
        """The groups that share each learning rate of a program: the importer makes one
        for each that differs."""
        found: Dict[float, Tuple[str, List[int]]] = {}
        for index, options in enumerate(self.options):
            rate = float(options.get("lr", 0.0))
            name = "lr" if not found else f"lr.{len(found)}"
            found.setdefault(rate, (name, []))[1].append(index)
        return dict(found.values())


def is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "dim")


def plain(value: Any) -> Any:
    """An option of a parameter group as numbers, texts and tuples of these; None if it is
    something else."""
    if isinstance(value, (numbers.Real, str)):
        return value
    if is_tensor(value):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, (tuple, list)):
        parts = tuple(map(plain, value))
        return None if None in parts else parts
    return None


def first_state(optimizer: Any, group: Mapping, parameter: Any) -> Dict[str, Any]:
    """What the optimizer keeps for a parameter after its first step, which is made on a
    copy of both. {} if it cannot make one alone."""
    import torch
    probe = object.__new__(type(optimizer))
    stand_in = torch.nn.Parameter(torch.zeros_like(parameter, memory_format=torch.contiguous_format))
    stand_in.grad = torch.zeros_like(stand_in)
    vars(probe).update({k: v for k, v in vars(optimizer).items() if k != "step"},
                       state=collections.defaultdict(dict),
                       param_groups=[{**group, "params": [stand_in]}])
    try:
        probe.step()
    except Exception:  # whatever a class of the user's raises
        return {}
    return dict(probe.state.get(stand_in) or {})


def is_count(program: Mapping, name: str, key: str, value: Any) -> bool:
    """Whether `key` of a parameter's state is the count that a program has once."""
    return f"{name}.{key}" not in program and STEP in program and not isinstance(value, bool) \
        and (isinstance(value, (int, float)) or is_tensor(value))


def to_pytorch(state: Mapping[str, Any], names: OptimizerNames, trained: Collection[str],
               rates: Mapping[str, float],
               options: Optional[List[Dict[str, Any]]] = None) -> Dict[str, Any]:
    """`optimizer.state_dict()` for the state of a program, {name: tensor}, which updates
    the parameters `trained` at `rates`. `options`: those that the parameter groups have
    now."""
    table: Dict[int, Dict[str, Any]] = {}
    for index, name in enumerate(names.order):
        if name not in trained:
            continue
        own: Dict[str, Any] = {}
        for key, kind in names.kinds[name].items():
            held = state.get(f"{name}.{key}")
            if held is not None:
                own[key] = held if is_tensor(kind) or kind is None else float(held)
            elif is_count(state, name, key, kind):
                count = float(state[STEP])
                own[key] = kind.new_full((), count) if is_tensor(kind) else type(kind)(count)
            elif kind is None or isinstance(kind, (bool, str)):
                own[key] = kind
        if own:
            table[index] = own
    groups, first = [], 0
    for members, own in zip(names.groups, options or names.options):
        groups.append({**own, "params": list(range(first, first + len(members)))})
        first += len(members)
    for rate, indices in names.rates().items():
        for i in indices:
            # A program holds the rate in f32.
            if rate in rates and numpy.float32(groups[i]["lr"]) != numpy.float32(rates[rate]):
                groups[i]["lr"] = rates[rate]
    return {"state": table, "param_groups": groups}


def from_pytorch(saved: Mapping[str, Any], names: OptimizerNames,
                 program: Mapping[str, Any]) -> Dict[str, Any]:
    """The state of a program, {name: value}, for an `optimizer.state_dict()`; {} if that has
    made no step. `program` has the names of the program's state."""
    if not isinstance(saved, Mapping) or not {"state", "param_groups"} <= set(saved):
        raise Error("expected what optimizer.state_dict() returns: a dictionary with 'state' "
                    "and 'param_groups'")
    sizes = [len(g["params"]) for g in saved["param_groups"]]
    expected = [len(g) for g in names.groups]
    if sizes != expected:
        raise Error(f"expected parameter groups of {expected} parameters, found {sizes}")
    numbers = [i for g in saved["param_groups"] for i in g["params"]]
    result: Dict[str, Any] = {}
    counts: Dict[str, float] = {}
    for name, number in zip(names.order, numbers):
        own = saved["state"].get(number) or {}
        for key, value in own.items():
            if f"{name}.{key}" in program:
                result[f"{name}.{key}"] = value
            elif is_count(program, name, key, value):
                counts[name] = float(value)
    if not result and not counts:
        return {}
    needed = [n for n in program if n != STEP and any(
        n == f"{p}.{k}" for p in names.order for k in names.kinds[p])]
    missing = [n for n in needed if result.get(n) is None]
    if missing:
        raise Error("the state of the optimizer lacks " + listed(missing))
    if len(set(counts.values())) > 1:
        (low, a), (high, b) = (f((c, n) for n, c in counts.items()) for f in (min, max))
        raise Error("expected all parameters to have made as many steps, found "
                    f"{low:g} of '{a}' and {high:g} of '{b}'")
    if counts:
        result[STEP] = next(iter(counts.values()))
    return result


def listed(names: List[str], most: int = 5) -> str:
    """Names for a message: the first few, and how many more."""
    shown = ", ".join(f"'{n}'" for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
