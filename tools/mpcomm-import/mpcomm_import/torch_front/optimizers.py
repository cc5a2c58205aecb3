# ===- optimizers.py - from torch.optim to update ops ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Reads a torch.optim optimizer and emits one update op a parameter.

SGD and Adam have ops of their own for their usual options. Any other rule is
traced (update_tracing.py) and becomes the region of an mpcomm.update.
"""

import inspect
import math
import types

import torch

from ..aten.convert import Converter, mlir_dtype
from ..aten.pointwise import emit_cast
from ..emit.views import View, materialise
from ..errors import ImportFailure, Unsupported
from ..ir.graph import (Argument, Builder, Function, Op, Result, Single, Spelled, Type,
                        Value)
from ..ir.simplify import simplify
from .update_tracing import UpdateTracer, is_number

# Options of a parameter group that must have this value for an op of its own.
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
    """The update of one parameter by an op of its own: the optimizer's kind, its
    options, and the argument that holds its learning rate."""

    def __init__(self, kind, options, rate, parameter):
        self.kind, self.options, self.rate = kind, options, rate
        self.counts = kind != "SGD"
        self.names = STATES[kind] if self.counts or options["momentum"] else []
        self.type = Type(parameter.shape, mlir_dtype(parameter.dtype))

    def states(self, name):
        """The arguments that hold the state of parameter `name`."""
        return [Argument("optimizer_state", f"{name}.{s}", self.type) for s in self.names]

    def emit(self, builder, parameter, gradient, states, step, counted):
        """Returns the next parameter and the next states. Values all; `step` is the
        count of steps before this one, and `counted` that with it."""
        o = self.options
        types = [parameter.type] * (1 + len(states))
        if self.kind == "SGD":
            return builder.create(
                "mpcomm.sgd_update", [parameter, gradient, self.rate.value] + states, types,
                momentum=o["momentum"] if states else None, weight_decay=o["weight_decay"],
                nesterov=bool(states) and o["nesterov"])
        return builder.create(
            "mpcomm.adamw_update",
            [parameter, gradient] + states + [counted, self.rate.value], types,
            beta1=o["betas"][0], beta2=o["betas"][1], eps=o["eps"],
            weight_decay=o["weight_decay"])


class TracedRule:
    """The update of one parameter as it was traced."""

    def __init__(self, kind, update, rate):
        self.kind, self.update, self.rate = kind, update, rate
        nodes = [n for n in update.module.graph.nodes if n.op == "placeholder"]
        counters = {s.key for s in update.states if s.is_counter}
        self.inputs = list(zip(update.inputs, nodes))
        self.counts = bool(counters) or any(
            n.users for i, n in self.inputs if i == "step")
        self.counters = counters | {"step"}
        self.held = [s for s in update.states if not s.is_counter]

    def states(self, name):
        result = []
        for s in self.held:
            type = Type(s.shape, mlir_dtype(s.dtype))
            default = None if not s.initial else Single(s.initial) if type.dtype == "f32" else \
                s.initial if type.dtype == "f64" else \
                Spelled("", f"{s.initial} : {type.dtype}") if type.is_float else \
                Spelled("", f"{int(s.initial)} : {type.dtype}")
            argument = Argument("optimizer_state", f"{name}.{s.key}", type)
            if default is not None:
                argument.attributes["default"] = default
            result.append(argument)
        return result

    def emit(self, builder, parameter, gradient, states, step, counted):
        region, location = Function("update"), builder.location
        inner = Builder(region)
        inner.location = location
        given = {"parameter": parameter, "gradient": gradient,
                 **dict(zip((s.key for s in self.held), states)), "lr": self.rate.value}
        arguments = {}  # name -> (operand, argument of the region)
        for name, operand in list(given.items()) + [("step", step)]:
            is_read = any(n.users for i, n in self.inputs if i == name or (
                name == "step" and i in self.counters))
            if is_read or name not in ("lr", "step"):
                arguments[name] = operand, Value(operand.type)
        inputs = []
        for name, node in self.inputs:
            place = "step" if name in self.counters else name
            value = arguments[place][1] if place in arguments else None
            if value is not None and name in self.counters:
                # A program counts in f32, whatever the optimizer does.
                value = emit_cast(types.SimpleNamespace(builder=inner), value,
                                  mlir_dtype(node.meta["dtype"]))
            inputs.append(value and View.of(value))
        converter = Converter(inner, types.SimpleNamespace(
            graph=self.update.module.graph, inputs=[], constants=self.update.module),
            inputs, location, {})
        views = converter.run()
        if converter.constants:
            raise ImportFailure(f"optimizer {self.kind}: expected an update without large "
                                "constants")
        inner.location = location
        outputs = [materialise(inner, v) for v in views]
        kept = [outputs[0]] + [v for v, s in zip(outputs[1:], self.update.states)
                               if not s.is_counter]
        region.results = [Result("", "", v) for v in kept]
        simplify(region)
        kept = [r.value for r in region.results]
        op = Op("mpcomm.update", [v for v, _ in arguments.values()], {"optimizer": self.kind},
                [v.type for v in kept], location,
                ([(v, location) for _, v in arguments.values()],
                 region.ops + [Op("mpcomm.yield", kept, {}, [], location)]))
        builder.function.ops.append(op)
        return op.results


def own_options(kind, index, group):
    """The options of a group that an op of its own has; None where it needs others."""
    if any(group.get(option, value) != value for option, value in REQUIRED[kind].items()) or \
            any(k not in REQUIRED[kind] and k not in READ[kind] and k not in IGNORED
                for k in group):
        return None
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
    """{parameter name: rule} and the hyperparameter arguments, one learning rate
    for each that differs: `lr`, `lr.1`, …"""
    kind = type(optimizer).__name__
    for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        if getattr(optimizer, hooks, None):
            raise ImportFailure(f"optimizer {kind}: expected a step() without hooks")
    step = vars(optimizer).get("step")  # schedulers of learning rates count steps there
    if step is not None and not (hasattr(step, "_with_counter") or
                                 hasattr(step, "_wrapped_by_lr_sched")):
        raise ImportFailure(f"optimizer {kind}: expected the step() of its class, found one of "
                            "its own")
    has_own = type(optimizer) in {getattr(torch.optim, k) for k in REQUIRED}
    name_of = {id(p): n for n, p in names.parameters}
    rules, rates = {}, {}
    for index, group in enumerate(optimizer.param_groups):
        options = own_options(kind, index, group) if has_own else None
        tracer = UpdateTracer(optimizer, group) if options is None else None
        rate = float(group.get("lr", 0.0))
        if not math.isfinite(rate):
            raise ImportFailure(f"optimizer {kind}: expected lr to be finite in group {index}, "
                                f"found {rate}")
        if rate not in rates:
            rates[rate] = Argument(
                "hyperparameter", "lr" if not rates else f"lr.{len(rates)}",
                Type((), "f32"), default=Single(rate))
        for p in group["params"]:
            name = name_of[id(p)]
            if name not in names.trained:
                continue
            try:
                rules[name] = TracedRule(kind, tracer.trace(p), rates[rate]) if tracer else \
                    Rule(kind, options, rates[rate], p)
            except Unsupported as error:
                raise ImportFailure(f"parameter '{name}': {error}") from None
    return rules, list(rates.values())


def saved_state(optimizer, names, rules):
    """Optimizer state that is already there: {"w.exp_avg": tensor, …, "step"}."""
    result, counts = {}, {}
    for name, p in names.parameters:
        rule = rules.get(name)
        if rule is None:
            continue
        state = dict(optimizer.state.get(p) or {})
        counters = {"step"} if isinstance(rule, Rule) else rule.counters
        if rule.counts:
            counts[name] = 0.0
            if not isinstance(rule, Rule):
                counts[name] = max([0.0] + [s.initial or 0.0 for s in rule.update.states
                                            if s.is_counter])
        for key, value in state.items():
            if key in counters and rule.counts:
                counts[name] = float(value)
            elif isinstance(value, torch.Tensor):
                result[f"{name}.{key}"] = value
            elif is_number(value):
                result[f"{name}.{key}"] = torch.tensor(float(value), dtype=p.dtype if
                                                       p.dtype == torch.float64 else
                                                       torch.float32)
    if len(set(counts.values())) > 1:
        (low, a), (high, b) = (f(((c, n) for n, c in counts.items())) for f in (min, max))
        raise ImportFailure(f"optimizer {type(optimizer).__name__}: expected all parameters to "
                            f"have made as many steps, found {low:g} of '{a}' and {high:g} of "
                            f"'{b}'")
    if any(counts.values()):
        result["step"] = torch.tensor(max(counts.values()), dtype=torch.float32)
    return result


def find_optimizer(name):
    """The class of torch.optim with that name, in any case."""
    known = {n.lower(): c for n, c in vars(torch.optim).items() if isinstance(c, type) and
             issubclass(c, torch.optim.Optimizer) and c is not torch.optim.Optimizer}
    if name.lower() not in known:
        raise ImportFailure(f"--optimizer {name}: expected one of {', '.join(sorted(known))}")
    return known[name.lower()]


def replace_optimizer(workload, name, given):
    """Another kind of optimizer, or other options for every group."""
    kind = find_optimizer(name) if name else type(workload.optimizer)
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
    known = inspect.signature(kind.__init__).parameters
    unknown = sorted(k for k in given if k not in known)
    if unknown:
        raise ImportFailure(f"{kind.__name__} has no option "
                            f"{', '.join(unknown).replace('_', '-')}")
    try:
        workload.optimizer = kind(groups, **{
            k: v for k, v in defaults.items() if k in known})
    except (TypeError, ValueError) as error:
        raise ImportFailure(f"optimizer {kind.__name__}: {error}") from None
