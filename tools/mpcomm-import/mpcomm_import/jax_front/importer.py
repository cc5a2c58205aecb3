# ===- importer.py - a workload of JAX becomes a program ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Puts the pieces together: lower, translate, find out what each part of the state is.

The signature of a step of JAX says nothing of roles; the graph does. Marks of
gradients (trace.py) divide it: what they are made of is the forward and backward
pass, what is made of them is the update. Of the state,

- what the first part reads and the second makes anew is a parameter,
- what only the second part reads, or makes, is state of the optimizer,
- the rest are buffers: constants, and what the forward pass makes (running statistics).
"""

import jax
import numpy as np

from ..emit.views import View, materialise
from ..errors import ImportFailure, Unsupported
from ..hlo import contraction, control, gather, movement, pointwise, sort, window  # noqa: F401
from ..hlo.translator import Translator, numpy_type
from ..ir.graph import Argument, Builder, Function, Result, Single, Type
from ..ir.program import Program, check_names, check_ranges, keep_used_buffers
from ..ir.simplify import simplify
from .trace import array, lower, named_leaves
from .updates import form_updates

ROLES = ("parameter", "optimizer_state", "buffer", "hyperparameter", "rng", "batch")
SEED = "rng.seed"


class Leaf:
    """One array of the state: its argument, and its next value if that differs."""

    def __init__(self, name, value):
        self.array = array(value)
        self.name = name
        try:
            dtype = numpy_type(self.array.dtype)
        except Unsupported as error:
            raise ImportFailure(f"state '{name}': {error}") from None
        self.argument = Argument("buffer", name, Type(self.array.shape, dtype))
        self.value = self.argument.value
        self.new = None


class Graph:
    """One function being made of a function of JAX of state and batch."""

    def __init__(self, workload, name, function, state, data, pool):
        self.function = Function(name)
        self.builder = Builder(self.function)
        self.leaves = [Leaf(*leaf) for leaf in named_leaves(state)]
        self.batch = [Argument("batch", n, Type((workload.batch, *v.shape[1:]),
                                                numpy_type(v.dtype)))
                      for n, v in workload.dataset.items()]
        self.seed = Argument("rng", SEED, Type((2,), "i32"))
        extents = {a.value: (min(d[a.name].min() for d in data),
                             max(d[a.name].max() for d in data))
                   for a in self.batch if not a.value.type.is_float and
                   a.value.dtype != "i1"}
        extents = {v: (int(low), int(high)) for v, (low, high) in extents.items()}
        self.translator = Translator(self.builder, pool, workload.name, extents)
        inputs = [state, workload.example()]
        wrapped = function
        if workload.rng and name == "train_step":
            inputs.append(jax.ShapeDtypeStruct((2,), np.uint32))

            def wrapped(state, batch, seed):
                return function(state, batch, jax.random.wrap_key_data(seed))
        module, self.shapes = lower(f"@{name}", wrapped, *inputs)
        by_name = {a.name: a for a in self.batch}
        values = [leaf.value for leaf in self.leaves]
        # The leaves of a dictionary come in the order of its keys.
        values += [by_name[n].value for n, _ in named_leaves(workload.example())]
        values += [self.seed.value] * (len(inputs) - 2)
        self.results = self.translator.run(module, [View.of(v) for v in values])

    def value(self, x):
        view = self.translator.view(x)
        if view.base.op is not None:
            self.builder.location = view.base.op.location
        return materialise(self.builder, view)

    def set_ranges(self):
        """mpcomm.range on integer batch arguments whose values the graph relies on."""
        for argument in self.batch:
            need = self.translator.needed.get(argument.value)
            if need is not None:
                most = 1 << argument.value.type.width - 1
                low, high = need
                argument.attributes["range"] = (-most if low is None else low,
                                                most - 1 if high is None else high + 1)

    def constants(self):
        result = []
        for name, value in self.translator.constants.items():
            result.append(Argument("buffer", name, value.type))
            result[-1].value = value
        return result

    def finish(self):
        """The arguments in order of their roles; of the seed only where it is used."""
        used = {v for op in self.function.ops for v in op.operands}
        used |= {r.value for r in self.function.results}
        arguments = [leaf.argument for leaf in self.leaves
                     if leaf.value in used or leaf.new is not None]
        arguments += self.constants() + [self.seed] * (self.seed.value in used) + self.batch
        self.function.arguments = sorted(arguments, key=lambda a: ROLES.index(a.role))


def split_results(graph, state):
    """(the results that are the next state, the loss) of a step."""
    shapes = graph.shapes
    tree = jax.tree_util.tree_structure(state)
    parts = list(shapes) if isinstance(shapes, (tuple, list)) else [shapes]
    at = next((i for i, p in enumerate(parts)
               if jax.tree_util.tree_structure(p) == tree), None)
    if at is None or len(parts) < 2:
        raise ImportFailure("expected the step to return a tuple of the next state, in the "
                            "structure of the state, and the loss")
    new, others, k = [], [], 0
    for i, part in enumerate(parts):
        for name, leaf in named_leaves(part):
            (new if i == at else others).append((name, leaf, graph.results[k]))
            k += 1
    for leaf, (name, shape, _) in zip(graph.leaves, new):
        if tuple(shape.shape) + leaf.array.shape[len(shape.shape):] != leaf.array.shape:
            raise ImportFailure(f"state '{name}': expected the shape {leaf.array.shape} after "
                                f"a step, found {tuple(shape.shape)}")
    losses = [(name, x) for name, leaf, x in others
              if leaf.shape == () and jax.numpy.issubdtype(leaf.dtype, np.floating)]
    if not losses:
        raise ImportFailure("expected the step to return a loss, a float of no dimensions")
    loss = next((x for name, x in losses if name.rpartition(".")[2] == "loss"), losses[0][1])
    return [x for _, _, x in new], loss


def reached(function, values, stop=()):
    """Values that these are made of, themselves included, not further than `stop`."""
    found = set(values)
    for op in reversed(function.ops):
        if op not in stop and any(r in found for r in op.results):
            found.update(op.operands)
    return found


def keep_marks(function, leaves):
    """Removes marks of gradients that reach the next state by way of others alone, as in
    a penalty on gradients; returns the marks that stay."""
    marks = {op for op in function.ops if op.name == "mpcomm.gradient"}
    found = reached(function, [leaf.new for leaf in leaves if leaf.new is not None], marks)
    real = [op for op in function.ops if op in marks and op.results[0] in found]
    replaced = {op.results[0]: op.operands[0] for op in marks.difference(real)}
    for op in function.ops:
        for i, v in enumerate(op.operands):
            while v in replaced:
                v = replaced[v]
            op.operands[i] = v
    function.ops = [op for op in function.ops if op not in marks or op in real]
    return real


def set_roles(graph, loss, warnings):
    function = graph.function
    marks = keep_marks(function, graph.leaves)
    forward = reached(function, [op.operands[0] for op in marks] + [loss])
    made = {op.results[0] for op in marks}  # of gradients
    drawn = {a.value for a in graph.batch} | {graph.seed.value}  # of samples alone
    for op in function.ops:
        if any(v in made for v in op.operands):
            made.update(op.results)
        elif op not in marks and any(v in drawn for v in op.operands):
            drawn.update(op.results)
    if not marks:
        warnings.append("found no gradients of jax.grad or jax.value_and_grad: parameters are "
                        "told by their names, and several ranks cannot train this program")
    for leaf in graph.leaves:
        is_float = leaf.value.type.is_float
        changes = leaf.new is not None
        if not marks:
            parts = leaf.name.split(".")
            role = "optimizer_state" if "opt_state" in parts else \
                "parameter" if "params" in parts and is_float else "buffer"
        elif leaf.new in made and leaf.value in forward and is_float:
            role = "parameter"
        elif leaf.new in made or (changes and leaf.value not in forward and
                                  leaf.new not in drawn):
            role = "optimizer_state"
        elif not changes and leaf.array.shape == () and leaf.value.dtype == "f32" and \
                "hyperparams" in leaf.name.split("."):
            role = "hyperparameter"
            leaf.argument.attributes["default"] = Single(leaf.array)
        else:
            role = "buffer"
        leaf.argument.role = role
    form_updates(function, marks, graph.leaves)


def train_function(workload, state, data, pool, warnings):
    graph = Graph(workload, "train_step", workload.whole_step(), state, data, pool)
    new, loss = split_results(graph, state)
    loss = graph.value(loss)
    for leaf, x in zip(graph.leaves, new):
        value = graph.value(x)
        if value is leaf.value:
            continue
        if value.type != leaf.value.type:
            raise ImportFailure(f"state '{leaf.name}': expected {leaf.value.type} after a "
                                f"step, found {value.type}")
        leaf.new = value
    set_roles(graph, loss, warnings)
    function = graph.function
    function.results = [Result("loss", "loss", loss)]
    changed = [leaf for leaf in graph.leaves if leaf.new is not None]
    for role in ROLES:
        function.results += [Result(role, leaf.name, leaf.new, leaf.argument)
                             for leaf in changed if leaf.argument.role == role]
    if not any(r.role == "parameter" for r in function.results):
        raise ImportFailure("expected a step that trains parameters: none of the state that "
                            "the loss depends on changes by a gradient")
    graph.set_ranges()
    simplify(function)
    graph.finish()
    return graph


def evaluate_function(workload, state, data, pool, train):
    graph = Graph(workload, "evaluate", workload.evaluate, state, data, pool)
    roles = {leaf.name: leaf.argument for leaf in train.leaves}
    for leaf in graph.leaves:
        leaf.argument.role = roles[leaf.name].role
        leaf.argument.attributes.update(roles[leaf.name].attributes)
    named = [(name, leaf, x) for (name, leaf), x in
             zip(named_leaves(graph.shapes), graph.results)]
    loss = next((x for _, leaf, x in named if leaf.shape == () and
                 jax.numpy.issubdtype(leaf.dtype, np.floating)), None)
    if loss is None:
        raise ImportFailure("expected `evaluate` to return a loss, a float of no dimensions")
    graph.function.results = [Result("loss", "loss", graph.value(loss))]
    for _, leaf, x in named:
        if x is not loss and leaf.ndim > 0:
            targets = next((a.name for a in graph.batch if not a.value.type.is_float and
                            a.value.shape == tuple(leaf.shape[:-1])), None)
            graph.function.results.append(
                Result("output", "output", graph.value(x), targets=targets))
            break
    graph.set_ranges()
    simplify(graph.function)
    graph.finish()
    return graph


def import_workload(workload):
    """Lowers and translates; returns a Program."""
    workload.check()
    state = workload.initial_state()
    data = [d for d in (workload.dataset, workload.eval_dataset) if d is not None]
    pool = {name: None for name, _ in named_leaves(state)}
    warnings = []
    train = train_function(workload, state, data, pool, warnings)
    graphs = [train]
    if workload.evaluate is not None:
        graphs.append(evaluate_function(workload, state, data, pool, train))
        keep_used_buffers(train.function, graphs[1].function)
    for graph in graphs:
        check_names(graph.function)
        check_ranges(workload, graph.function)
    kept = {a.name for g in graphs for a in g.function.arguments}
    weights = {leaf.name: leaf.array for leaf in train.leaves
               if leaf.name in kept and leaf.argument.role != "hyperparameter"}
    weights.update({n: v for n, v in pool.items() if v is not None and n in kept})
    weights = {n: v.view(v.dtype.name[1:]) if v.dtype.kind == "u" else v
               for n, v in weights.items()}
    lines = {}
    for graph in reversed(graphs):
        lines.update(graph.builder.lines)
    return Program(workload.name, [g.function for g in graphs], weights, workload.dataset,
                   workload.eval_dataset, warnings, lines)


