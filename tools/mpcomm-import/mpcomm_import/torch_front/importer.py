# ===- importer.py - a workload becomes a program --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Puts the pieces together: trace, translate, add the optimizer, write."""

import importlib
import pkgutil

from .. import aten
from ..aten.convert import Converter, mlir_dtype
from ..aten.pointwise import emit_cast
from ..emit.views import View, materialise
from ..errors import ImportFailure, Unsupported
from ..ir.graph import Argument, Builder, Function, Result, Type
from ..ir.program import Program, check_names, check_ranges, keep_used_buffers
from ..ir.simplify import simplify
from .checks import check_memory
from .optimizers import read_optimizer, saved_state
from .tracing import trace as trace_module
from .workload import StateNames, names_of

for _module in pkgutil.iter_modules(aten.__path__):  # registers translations, definitions
    importlib.import_module(f"{aten.__name__}.{_module.name}")

MOVES = ("mpcomm.slice", "mpcomm.reshape", "mpcomm.transpose",
         "mpcomm.broadcast_in_dim")


class Graph:
    """One function being made of one trace. `pool`: see Converter; `left`: of the
    training trace, for another."""

    def __init__(self, workload, names, function, training, pool, left=None):
        self.workload, self.names, self.function = workload, names, function
        self.builder = Builder(function)
        inputs = [("parameter", n) for n, _ in names.parameters]
        inputs += [("buffer", n) for n, _ in names.buffers]
        inputs += [("batch", n) for n in workload.dataset]
        self.arguments = {(kind, name): self.argument(kind, name) for kind, name in inputs}
        self.traced = trace_module(workload, names, training, workload.name, left)
        self.converter = Converter(
            self.builder, self.traced,
            [View.of(self.arguments[i].value) for i in self.traced.inputs],
            workload.name, pool)

    def argument(self, kind, name):
        if kind == "batch":
            tensor = self.workload.example(name)
        else:
            held = self.names.parameters if kind == "parameter" else self.names.buffers
            tensor = dict(held)[name]
        try:
            type = Type(tensor.shape, mlir_dtype(tensor.dtype))
        except Unsupported as error:
            raise ImportFailure(f"{kind} '{name}': {error}") from None
        role = "buffer" if kind == "parameter" and name not in self.names.trained \
            else kind
        return Argument(role, name, type)

    def convert(self):
        outputs = self.converter.run()
        return [None if o is None else self.output(o) for o in outputs]

    def output(self, view):
        if view.base.op is not None:
            self.builder.location = view.base.op.location
        return materialise(self.builder, view)

    def metrics(self, values):
        """The results for the metrics among what follows the loss, and the rest."""
        names = self.traced.metrics
        found = [Result("loss", n, v if v.type.is_float else emit_cast(self.converter, v, "f32"))
                 for n, v in zip(names, values)]
        return found, values[len(names):]

    def buffers(self):
        """Buffer arguments, then large constants."""
        result = [a for a in self.arguments.values() if a.role == "buffer"]
        for name, value in self.converter.constants.items():
            argument = Argument("buffer", name, value.type)
            argument.value = value
            result.append(argument)
        return result

    def seeds(self):
        """The argument that random numbers are drawn from, if any are."""
        if self.converter.seed is None:
            return []
        argument = Argument("rng", "rng.seed", self.converter.seed.type)
        argument.value = self.converter.seed
        return [argument]

    def batch(self):
        return [self.arguments["batch", n] for n in self.workload.dataset]

    def set_ranges(self):
        """mpcomm.range on integer batch arguments that serve as indices. Where tables of
        different sizes are looked up by parts, the range is that of the largest."""
        by_value = {a.value: a for a in self.batch()}
        uses = {}
        for value, found in self.converter.ranges.items():
            part = ()
            while value.op is not None and value.op.name in MOVES:
                part = part_of(value.op)
                value = value.op.operands[0]
            argument = by_value.get(value)
            if argument is not None:
                uses.setdefault(argument, {}).setdefault(part, []).extend(found)
        for argument, parts in uses.items():
            argument.parts = {part: min(size for size, _ in found)
                              for part, found in parts.items()}
            size = argument.parts.get((), max(argument.parts.values()))
            argument.attributes["range"] = (0, size)
            found = [use for part in parts.values() for use in part]
            # What one use ignores, each of the others ignores or can look up.
            argument.ignored = {
                i for _, i in found if i is not None and not 0 <= i < size and
                all(i == other or 0 <= i < rows for rows, other in found)}


def part_of(op):
    """What a slice takes of each sample, as slices; () where it is all of it, or not known."""
    if op.name != "mpcomm.slice":
        return ()
    starts, limits, strides = (op.attributes[n] for n in ("starts", "limits", "strides"))
    if (starts[0], limits[0], strides[0]) != (0, op.operands[0].shape[0], 1):
        return ()
    return tuple(zip(starts[1:], limits[1:], strides[1:]))


def train_function(workload, names, rules, rates, warnings, pool):
    function = Function("train_step")
    graph = Graph(workload, names, function, True, pool)
    warnings += graph.traced.warnings
    loss, *rest = graph.convert()
    b = graph.builder
    metrics, gradients = graph.metrics(rest)
    trained = [n for n, _ in names.parameters if n in names.trained]
    grad_of = dict(zip(trained, gradients))
    for name in trained:
        if grad_of[name] is None:
            warnings.append(f"parameter '{name}' has no gradient and is not trained")
            graph.arguments["parameter", name].role = "buffer"
            del grad_of[name]
    states = {name: rules[name].states(name) for name in grad_of}
    b.location, b.line = "optimizer/step", ""
    step, counted = None, None
    if any(rules[n].counts for n in grad_of):
        step = Argument("optimizer_state", "step", Type((), "f32"))
        one = b.constant(1.0, step.value.type)
        counted = b.create("arith.addf", [step.value, one], [step.value.type])[0]
    function.results = [Result("loss", "loss", loss)] + metrics
    updated = []
    for name, gradient in grad_of.items():
        rule, parameter = rules[name], graph.arguments["parameter", name]
        own = states[name]
        b.location = f"{name}/{rule.kind.lower()}"
        new = rule.emit(b, parameter.value, gradient, [s.value for s in own],
                        step and step.value, counted)
        function.results.append(Result("parameter", name, new[0], parameter))
        updated += [Result("optimizer_state", s.name, v, s)
                    for s, v in zip(own, new[1:])]
    function.results += updated
    if step is not None:
        function.results.append(Result("optimizer_state", "step", counted, step))
    b.location = "buffers"
    for key, view in graph.converter.updates.items():
        function.results.append(Result("buffer", key[1], materialise(b, view),
                                       graph.arguments[key]))
    graph.set_ranges()
    function.arguments = [graph.arguments["parameter", n] for n in grad_of]
    function.arguments += [s for own in states.values() for s in own]
    function.arguments += [step] if step else []
    function.arguments += graph.buffers() + rates + graph.seeds() + graph.batch()
    return graph


def evaluate_function(workload, names, buffers, warnings, pool, left):
    function = Function("evaluate")
    graph = Graph(workload, names, function, False, pool, left)
    warnings += [w for w in graph.traced.warnings if w not in warnings]
    loss, *rest = graph.convert()
    metrics, outputs = graph.metrics(rest)
    for _, name in graph.converter.updates:
        warnings.append(f"buffer '{name}' is written in evaluation mode; @evaluate has "
                        "no state and leaves it as training did")
    graph.set_ranges()
    function.results = [Result("loss", "loss", loss)] + metrics
    function.results += [Result("output", name, value, targets=labels_of(graph, value))
                         for name, value in zip(graph.traced.outputs, outputs)]
    function.arguments = [a for (kind, n), a in graph.arguments.items()
                          if kind == "parameter" and n not in buffers]
    for (kind, name), a in graph.arguments.items():
        if kind == "parameter" and name in buffers:
            a.role = "buffer"
    function.arguments += graph.buffers() + graph.seeds() + graph.batch()
    return graph


def labels_of(graph, output):
    """The name of the targets that are classes of an output's last dimension, or None."""
    for name in names_of(graph.workload.targets):
        value = graph.arguments["batch", name].value
        if not value.type.is_float and len(output.shape) >= 2 and \
                value.shape == output.shape[:-1]:
            return name
    return None


def import_workload(workload):
    """Traces and translates; returns a Program."""
    workload.check()
    names = StateNames(workload.model, workload.optimizer)
    rules, rates = read_optimizer(workload.optimizer, names)
    warnings = []
    pool = dict.fromkeys(n for n, _ in names.parameters + names.buffers)
    train = train_function(workload, names, rules, rates, warnings, pool)
    if not any(r.role == "parameter" for r in train.function.results):
        raise ImportFailure("the optimizer has no parameter to train")
    check_memory(names, {r.name for r in train.function.results})
    frozen = {a.name for a in train.function.arguments if a.role == "buffer"}
    evaluate = evaluate_function(workload, names, frozen, warnings, pool, train.traced.left)
    weights = dict(names.parameters)
    weights.update(names.buffers)
    weights.update({n: t for n, t in pool.items() if t is not None})
    for graph in (train, evaluate):
        simplify(graph.function)
    keep_used_buffers(train.function, evaluate.function)
    for graph in (train, evaluate):
        check_names(graph.function)
        check_ranges(workload, graph.function)
    state = saved_state(workload.optimizer, names, rules)
    kept = {a.name for g in (train, evaluate) for a in g.function.arguments
            if a.role in ("parameter", "buffer")}
    expected = {a.name for a in train.function.arguments if a.role == "optimizer_state"}
    weights = {n: t for n, t in weights.items() if n in kept}
    weights.update({n: t for n, t in state.items() if n in expected})
    return Program(workload.name, [train.function, evaluate.function], weights,
                   workload.dataset, workload.eval_dataset, warnings,
                   {**evaluate.builder.lines, **train.builder.lines})
