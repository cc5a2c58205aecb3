# ===- optimizers.py - from torch.optim to update ops ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Reads a torch.optim optimizer and emits one update op a parameter."""

import math

import torch

from .errors import ImportFailure
from .ir import Argument, Single, Type

# Options of a parameter group that must have this value.
REQUIRED = {
    "SGD": {"dampening": 0, "maximize": False, "differentiable": False},
    "AdamW": {"amsgrad": False, "maximize": False, "differentiable": False},
    "Adam": {"amsgrad": False, "maximize": False, "differentiable": False,
             "weight_decay": 0},
}
READ = {
    "SGD": ["lr", "momentum", "weight_decay", "nesterov"],
    "AdamW": ["lr", "betas", "eps", "weight_decay"],
    "Adam": ["lr", "betas", "eps", "weight_decay"],
}
# Options that choose an implementation and not a result.
IGNORED = {"params", "foreach", "capturable", "fused", "initial_lr",
           "decoupled_weight_decay"}
STATES = {"SGD": ["momentum_buffer"], "AdamW": ["exp_avg", "exp_avg_sq"],
          "Adam": ["exp_avg", "exp_avg_sq"]}


class Rule:
    """The update of one parameter: the optimizer's kind, its options, and the
    argument that holds its learning rate."""

    def __init__(self, kind, options, rate):
        self.kind, self.options, self.rate = kind, options, rate

    @property
    def states(self):
        if self.kind == "SGD" and not self.options["momentum"]:
            return []
        return STATES[self.kind]


def check_group(kind, index, group):
    """The options of a group; ImportFailure for what the ops cannot express."""
    for option, value in REQUIRED[kind].items():
        if group.get(option, value) != value:
            if kind == "Adam" and option == "weight_decay":
                raise ImportFailure("optimizer Adam: weight_decay adds to the gradient "
                                    "there; use AdamW, or weight_decay = 0")
            raise ImportFailure(f"optimizer {kind}: expected {option} = {value} in "
                                f"group {index}, found {group[option]}")
    known = set(REQUIRED[kind]) | set(READ[kind]) | IGNORED
    unknown = sorted(k for k in group if k not in known)
    if unknown:
        raise ImportFailure(f"optimizer {kind}: unknown option {', '.join(unknown)} in "
                            f"group {index}")
    options = {}
    for name in READ[kind]:
        value = group[name]
        for number in value if name == "betas" else [value]:
            if not (math.isfinite(number) and number >= 0):
                raise ImportFailure(f"optimizer {kind}: expected {name} to be finite and "
                                    f"not negative in group {index}, found {value}")
        options[name] = tuple(map(float, value)) if name == "betas" else \
            bool(value) if name == "nesterov" else float(value)
    return options


def read_optimizer(optimizer, names):
    """{parameter name: Rule} and the hyperparameter arguments, one learning rate
    for each that differs: `lr`, `lr.1`, …"""
    kind = type(optimizer).__name__
    known = {getattr(torch.optim, k): k for k in REQUIRED}
    if type(optimizer) not in known:
        raise ImportFailure(f"optimizer {kind}: expected torch.optim.SGD, AdamW or "
                            "Adam")
    name_of = {id(p): n for n, p in names.parameters}
    rules, rates = {}, {}
    for index, group in enumerate(optimizer.param_groups):
        options = check_group(kind, index, group)
        rate = options.pop("lr")
        if rate not in rates:
            rates[rate] = Argument(
                "hyperparameter", "lr" if not rates else f"lr.{len(rates)}",
                Type((), "f32"), default=Single(rate))
        for p in group["params"]:
            if name_of[id(p)] in names.trained:
                rules[name_of[id(p)]] = Rule(kind, options, rates[rate])
    return rules, list(rates.values())


def saved_state(optimizer, names):
    """Optimizer state that is already there: {"w.exp_avg": tensor, …, "step"}."""
    name_of = {id(p): n for n, p in names.parameters}
    result = {}
    for p, state in optimizer.state.items():
        for key, value in state.items():
            if value is None or id(p) not in name_of:
                continue
            if key == "step":
                result["step"] = torch.as_tensor(float(value), dtype=torch.float32)
            else:
                result[f"{name_of[id(p)]}.{key}"] = value
    return result


def replace_optimizer(workload, name, given):
    """Another kind of optimizer, or other options for every group."""
    kind = {None: type(workload.optimizer), "sgd": torch.optim.SGD,
            "adamw": torch.optim.AdamW}[name]
    if kind is type(workload.optimizer) and not given:
        return
    groups = workload.optimizer.param_groups
    if kind is type(workload.optimizer):
        defaults = {k: v for k, v in groups[0].items() if k != "params"}
        groups = [{k: v for k, v in {**g, **given}.items()} for g in groups]
    else:
        defaults = {"lr": groups[0]["lr"], **given}
        groups = [{"params": g["params"], "lr": given.get("lr", g["lr"])}
                  for g in groups]
    known = kind([torch.zeros(1)], lr=0.1).defaults
    unknown = sorted(k for k in given if k not in known)
    if unknown:
        raise ImportFailure(f"{kind.__name__} has no option "
                            f"{', '.join(unknown).replace('_', '-')}")
    try:
        workload.optimizer = kind(groups, **{k: v for k, v in defaults.items()
                                             if k in known})
    except ValueError as error:
        raise ImportFailure(f"optimizer {kind.__name__}: {error}") from None


def emit_update(builder, rule, parameter, gradient, states, step):
    """Returns the next parameter and the next states. Values all."""
    o = rule.options
    types = [parameter.type] * (1 + len(states))
    if rule.kind == "SGD":
        return builder.create(
            "mpcomm.sgd_update", [parameter, gradient, rule.rate.value] + states, types,
            momentum=o["momentum"] if states else None, weight_decay=o["weight_decay"],
            nesterov=bool(states) and o["nesterov"])
    return builder.create(
        "mpcomm.adamw_update",
        [parameter, gradient] + states + [step, rule.rate.value], types,
        beta1=o["betas"][0], beta2=o["betas"][1], eps=o["eps"],
        weight_decay=o["weight_decay"])
