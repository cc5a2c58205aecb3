# ===- importer.py - a workload becomes a program --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Puts the pieces together: trace, translate, add the optimizer, write."""

import dataclasses
import functools

import torch

from . import (aten_activation, aten_loss, aten_movement,  # noqa: F401 (register)
               aten_neural, aten_pointwise, aten_random, aten_vision,
               aten_write, decompositions, safetensors)
from .checks import check_memory, check_names, check_ranges
from .convert import Converter, mlir_dtype
from .errors import ImportFailure, Unsupported, UnsupportedOperators
from .ir import Argument, Builder, Function, Result, Type
from .optimizers import emit_update, read_optimizer, saved_state
from .pretty import pretty
from .printer import print_module
from .simplify import simplify
from .tracing import trace as trace_module
from .views import View, materialise
from .workload import StateNames

MOVES = ("mpcomm.slice", "mpcomm.reshape", "mpcomm.transpose",
         "mpcomm.broadcast_in_dim")


@dataclasses.dataclass
class Program:
    """What an import makes; `weights` has the tensors of the arguments that
    are state, `functions` the graphs in memory, `lines` the lines of the model
    for each location."""

    name: str
    functions: list
    weights: dict
    dataset: dict
    eval_dataset: dict
    warnings: list
    lines: dict

    @property
    def generic(self):
        return print_module(self.name, self.functions)

    @functools.cached_property
    def text(self):
        """The program as mpcomm-opt verifies and prints it, see pretty.py."""
        text, messages = pretty(self.generic, self.lines)
        self.warnings += messages
        return text

    def write(self, mlir=None, weights=None, data=None, eval_data=None):
        """Writes the files that have a name, all of them or none."""
        files = [(weights, self.weights), (data, self.dataset),
                 (eval_data, self.eval_dataset)]
        files = [(path, safetensors.writer(t)) for path, t in files if path]
        if mlir:
            text = self.text.encode()
            files.append((mlir, lambda file: file.write(text)))
        safetensors.write_files(files)


class Graph:
    """One function being made of one trace. `pool`: see Converter; `left`: of the
    training trace, for another."""

    def __init__(self, workload, names, function, training, pool, left=None):
        self.workload, self.names, self.function = workload, names, function
        self.builder = Builder(function)
        self.traced = trace_module(workload, names, training, workload.name, left)
        self.arguments = {}
        for kind, name in self.traced.inputs:
            self.arguments[kind, name] = self.argument(kind, name)
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
        """mpcomm.range on integer batch arguments that serve as indices."""
        by_value = {a.value: a for a in self.batch()}
        uses = {}
        for value, found in self.converter.ranges.items():
            while value.op is not None and value.op.name in MOVES:
                value = value.op.operands[0]
            argument = by_value.get(value)
            if argument is not None:
                uses.setdefault(argument, []).extend(found)
        for argument, found in uses.items():
            size = min(size for size, _ in found)
            argument.attributes["range"] = (0, size)
            # What one use ignores, each of the others ignores or can look up.
            argument.ignored = {
                i for _, i in found if i is not None and not 0 <= i < size and
                all(i == other or 0 <= i < rows for rows, other in found)}


def train_function(workload, names, rules, rates, warnings, pool):
    function = Function("train_step")
    graph = Graph(workload, names, function, True, pool)
    warnings += graph.traced.warnings
    loss, *gradients = graph.convert()
    b = graph.builder
    trained = [n for n, _ in names.parameters if n in names.trained]
    grad_of = dict(zip(trained, gradients))
    for name in trained:
        if grad_of[name] is None:
            warnings.append(f"parameter '{name}' has no gradient and is not trained")
            graph.arguments["parameter", name].role = "buffer"
            del grad_of[name]
    states = {}
    for name in grad_of:
        type = graph.arguments["parameter", name].value.type
        for state in rules[name].states:
            key = f"{name}.{state}"
            states[key] = Argument("optimizer_state", key, type)
    b.location, b.line = "optimizer/step", ""
    step, counted = None, None
    if any(rules[n].kind != "SGD" for n in grad_of):
        step = Argument("optimizer_state", "step", Type((), "f32"))
        one = b.constant(1.0, step.value.type)
        counted = b.create("arith.addf", [step.value, one], [step.value.type])[0]
    function.results = [Result("loss", "loss", loss)]
    updated = []
    for name, gradient in grad_of.items():
        rule, parameter = rules[name], graph.arguments["parameter", name]
        own = [states[f"{name}.{s}"] for s in rule.states]
        b.location = f"{name}/{rule.kind.lower()}"
        new = emit_update(b, rule, parameter.value, gradient,
                          [s.value for s in own], counted)
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
    function.arguments += list(states.values()) + ([step] if step else [])
    function.arguments += graph.buffers() + rates + graph.seeds() + graph.batch()
    return graph


def evaluate_function(workload, names, buffers, warnings, pool, left):
    function = Function("evaluate")
    graph = Graph(workload, names, function, False, pool, left)
    loss, output = graph.convert()
    for _, name in graph.converter.updates:
        warnings.append(f"buffer '{name}' is written in evaluation mode; @evaluate has "
                        "no state and leaves it as training did")
    graph.set_ranges()
    targets = None
    for name in workload.targets:
        value = graph.arguments["batch", name].value
        if value.type.is_float or len(output.shape) < 2:
            continue
        if value.shape == output.shape[:-1]:
            targets = name
            break
    function.results = [Result("loss", "loss", loss),
                        Result("output", "output", output, targets=targets)]
    function.arguments = [a for (kind, n), a in graph.arguments.items()
                          if kind == "parameter" and n not in buffers]
    for (kind, name), a in graph.arguments.items():
        if kind == "parameter" and name in buffers:
            a.role = "buffer"
    function.arguments += graph.buffers() + graph.batch()
    return graph


def dropout_modules(model):
    """[(name, operator)] of modules that would draw random numbers in a way that
    has no op: whole channels, or within attention."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Dropout):
            continue
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            found.append((name, "aten.dropout"))
        elif isinstance(module, torch.nn.MultiheadAttention) and module.dropout > 0:
            found.append((name, "aten.dropout"))
    return found


def import_workload(workload):
    """Traces and translates; returns a Program."""
    workload.check()
    dropout = dropout_modules(workload.model)
    if dropout:
        modules = {}
        for name, _ in dropout:
            modules[name] = modules.get(name, 0) + 1
        raise UnsupportedOperators([(
            "aten.dropout", "draws random numbers; for dropout use p = 0", modules)])
    names = StateNames(workload.model, workload.optimizer)
    rules, rates = read_optimizer(workload.optimizer, names)
    warnings = []
    pool = dict.fromkeys(n for n, _ in names.parameters + names.buffers)
    train = train_function(workload, names, rules, rates, warnings, pool)
    if len(train.function.results) == 1:
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
    state = saved_state(workload.optimizer, names)
    kept = {a.name for g in (train, evaluate) for a in g.function.arguments
            if a.role in ("parameter", "buffer")}
    expected = {a.name for a in train.function.arguments if a.role == "optimizer_state"}
    weights = {n: t for n, t in weights.items() if n in kept}
    weights.update({n: t for n, t in state.items() if n in expected})
    return Program(workload.name, [train.function, evaluate.function], weights,
                   workload.dataset, workload.eval_dataset, warnings,
                   {**evaluate.builder.lines, **train.builder.lines})


def keep_used_buffers(train, evaluate):
    """Drops buffers that neither function uses. Writing one is a use: its argument
    has the memory of what is written. What @evaluate takes, @train_step takes too."""
    for function in (evaluate, train):
        used = {v for op in function.ops for v in op.operands}
        used |= {r.value for r in function.results}
        used |= {r.update.value for r in function.results if r.update}
        kept = {a.name for a in evaluate.arguments} if function is train else ()
        function.arguments = [a for a in function.arguments if a.role != "buffer" or
                              a.value in used or a.name in kept]
    known = {a.name for a in train.arguments}
    at = next(i for i, a in enumerate(train.arguments) if a.role == "hyperparameter")
    train.arguments[at:at] = [Argument("buffer", a.name, a.value.type)
                              for a in evaluate.arguments if a.name not in known]
