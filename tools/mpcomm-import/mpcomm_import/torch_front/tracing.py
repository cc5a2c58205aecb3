# ===- tracing.py - from a module to a graph of ATen operators -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs forward, loss and backward under make_fx and notes where ops come from.

Each node of the graph gets `meta["mpcomm"]`, an Origin. Forward operators take
the module that is running, known by forward hooks. Autograd runs its functions
one after the other; a hook after each tells which of them the operators since
the last one belong to, and the module of such a function is that in whose
forward it was made: when a module is entered, whatever its inputs depend on and
no one has claimed is its parent's, and when it is left, whatever its outputs
depend on and no one has claimed is its own.
"""

import contextlib
import dataclasses
import re
import sys
import traceback

import torch
from torch.utils._pytree import tree_flatten

from ..errors import ImportFailure
from . import compat
from .attributes import same_graph, unsteady
from .mutation import Substitution, functional
from .plain import loops, plain_modules
from .workload import named_tensors

# What runs between a line of the model and the operator that it calls.
LIBRARIES = {"torch", "functorch", "contextlib", "functools", "mpcomm_import"}


@dataclasses.dataclass(frozen=True)
class Origin:
    module: str
    function: str = ""  # of autograd: "addmm"; "" in the forward pass
    line: str = ""  # of the model, "model.py:12", where forward() has one

    @property
    def is_backward(self):
        return bool(self.function)


@dataclasses.dataclass
class Traced:
    """`graph` with placeholders for `inputs`, [(kind, name)]; kind is
    "parameter", "buffer" or "batch". It returns the loss, the metrics, and gradients or
    outputs, whose names are in `metrics` and `outputs`."""

    graph: torch.fx.Graph
    inputs: list
    constants: torch.nn.Module  # holds what get_attr nodes name
    left: tuple  # what the step leaves in plain attributes, as attributes.for_next
    warnings: list
    metrics: tuple = ()
    outputs: tuple = ()


def user_line():
    """The line of the model that runs now: the innermost one that is not PyTorch's."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code is not run.__code__:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in LIBRARIES:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


class Origins:
    """Follows a run of `model` and knows the Origin of each new node."""

    def __init__(self, model, root):
        self.stack = [root]
        self.owner = {}  # autograd function -> module; keeps the function alive
        self.backward = False
        self.pending = []
        self.names = {m: n or root for n, m in model.named_modules()}
        self.metrics, self.outputs = [], []  # names of results

    def claim(self, values, module):
        todo = [t.grad_fn for _, t in named_tensors(values)]
        while todo:
            function = todo.pop()
            if function is None or function in self.owner:
                continue
            self.owner[function] = module
            todo += [f for f, _ in function.next_functions]

    def enter(self, module, args, kwargs=None):
        self.claim((args, kwargs), self.stack[-1])
        self.stack.append(self.names[module])

    def leave(self, module, args, result):
        self.claim(result, self.stack.pop())

    def note(self, node):
        if self.backward:
            self.pending.append(node)
        node.meta["mpcomm"] = Origin(self.stack[-1], line=user_line())

    def start_backward(self, loss):
        self.claim(loss, self.stack[-1])
        self.backward = True
        for function, module in self.owner.items():
            name = re.sub(r"Backward\d*$", "", function.name().split("::")[-1])
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
            origin = Origin(module, name)
            function.register_hook(lambda *_, origin=origin: self.finish(origin))

    def finish(self, origin):
        for node in self.pending:
            node.meta["mpcomm"] = origin
        self.pending.clear()


class TracingFailure(ImportFailure):
    """PyTorch stopped, for whatever reason of its own."""


# Of messages about a value that is not known while a model is traced.
VALUES = ("value out of a tracing tensor", "DataDependent", "_local_scalar_dense",
          "data-dependent")


def failure(error, where):
    """The TracingFailure for what PyTorch raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not set(re.split(r"[/\\\\]", f.filename)) & LIBRARIES]
    line = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
    text = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
    if any(v in text for v in VALUES):
        return TracingFailure(f"{line}tracing stopped in {where}, which asks for the value of a "
                              "tensor; control flow and shapes cannot depend on data")
    return TracingFailure(f"{line}tracing stopped in {where}: {text}")


def trace(workload, names, training, root, given=None):
    """Traces `(loss, metrics…, gradients…)` if `training`, else `(loss, metrics…,
    outputs…)`.

    `names` is a StateNames. Gradients come in the order of its trained
    parameters, None for a parameter that the loss does not depend on. `given` is
    `left` of the training trace: what is traced must not depend on it.

    Nothing is computed where shapes suffice, so that a large batch takes neither
    time nor memory; a model that looks at values is run on them.
    """
    try:
        return trace_with(workload, names, training, root, given, "fake")
    except TracingFailure:
        first = trace_with(workload, names, training, root, given, "real")
    other = trace_with(workload, names, training, root, given, "real", other=True)
    if not same_graph(first.constants, other.constants, {}) and \
            not sized_otherwise(first.graph, other.graph):
        raise ImportFailure("what forward() computes depends on values that PyTorch does not "
                            "trace, of numpy() for instance, or of a shape")
    return first


def sized_otherwise(graph, other):
    """Whether an operator, which the converter refuses, had results of two sizes."""
    return any(compat.is_sized_by_data(a.target) and
               compat.tensor_meta(a) != compat.tensor_meta(b)
               for a, b in zip(graph.nodes, other.nodes))


def trace_with(workload, names, training, root, given, tensors_mode, other=False):
    """`trace` on tensors that PyTorch calls "fake", shapes alone, or "real"; on `other`
    ones than those of the first batch and of the model."""
    model = workload.model
    origins = Origins(model, root)

    def inputs():
        state = [(t.detach() * (0.9 if other and t.requires_grad else 1)).to(t.dtype).clone()
                 .requires_grad_(t.requires_grad and t.is_floating_point())
                 for _, t in names.parameters + names.buffers]
        return state, [workload.example(k, other) for k in workload.dataset]

    def record(origins, attributes, begins=False):
        """The graph of a step that starts with `attributes`, a Substitution's `given`; that
        `begins` an evaluation, after eval()."""
        substitution = Substitution(model, names, origins, attributes, begins)

        def step(state, batch):
            tensors = dict(zip(substitution.held, state))
            looks = compat.constant_values() if tensors_mode == "real" else contextlib.nullcontext()
            with substitution.entered(tensors), looks:
                results = substitution.write_back(
                    run(workload, names, training, origins, tensors,
                        dict(zip(workload.dataset, batch))))
                kept, _ = tree_flatten(substitution.left)
                substitution.keeps_batch = any(compat.depends(t, batch) for t in kept
                                               if isinstance(t, torch.Tensor))
                return results

        with compat.observe_nodes(origins.note):
            module = compat.make_fx(step, tracing_mode=tensors_mode)(*inputs())
        return module, substitution

    def follow(first, kept_batch, after):
        """Traces the step that comes `after` another one, a `for_next`, and compares. What
        train() and eval() clear, and no batch is in, is a cache that an evaluation fills."""
        attributes, stand_ins = after
        what = ", ".join(sorted(f"'{p}{k}'" for p, k in attributes))
        for begins in (False,) if training or kept_batch else (False, True):
            try:
                module, substitution = record(Origins(model, root), attributes, begins)
                if same_graph(first, module, stand_ins):
                    if begins:
                        warnings.append(f"in evaluation mode forward() keeps {what} until eval(); "
                                        "@evaluate computes it for each batch")
                    return substitution.left
            except Exception:  # whatever the first trace did not stop at
                pass
        raise ImportFailure(f"forward() reads what the step before left in {what}; expected "
                            "state to be in buffers, use register_buffer")

    mode = [(m, m.training) for m in model.modules()]
    model.train(training)
    warnings = []
    try:
        with plain_modules(model), loops(), torch.enable_grad():
            module, substitution = record(origins, {})
            substitution.check_references(module)
            after = substitution.for_next()
            for attributes in (given, after):
                if attributes and attributes[0]:
                    left = follow(module, substitution.keeps_batch, attributes)
            if after[0]:
                warnings += [f"forward() changes '{n}' in each step, which is not a registered "
                             "buffer; the program has its first value"
                             for n in unsteady(substitution.left, left)]
            with compat.observe_nodes(origins.note):
                module = functional(module, *inputs(), tensors_mode)
            if tensors_mode == "fake" and compat.has_unknown_sizes(module.graph):
                raise TracingFailure("sizes of tensors depend on values")
    except ImportFailure:
        raise
    except Exception as error:  # PyTorch's own, of whatever type
        where = "the backward pass" if origins.backward else origins.stack[-1]
        raise failure(error, where) from error
    finally:
        for m, was in mode:
            m.training = was
    kinds = ([("parameter", n) for n, _ in names.parameters] +
             [("buffer", n) for n, _ in names.buffers] +
             [("batch", n) for n in workload.dataset])
    return Traced(module.graph, kinds, module, after, warnings, origins.metrics,
                  origins.outputs)


def run(workload, names, training, origins, tensors, data):
    """What `trace` traces, on `tensors` and `data`, {name: tensor}."""
    root = origins.stack[0]
    output = workload.forward(data)
    origins.stack[-1] = "loss"
    origins.claim(output, root)
    loss, metrics = workload.losses(output, data)
    origins.metrics = list(metrics)
    numbers = (loss, *[m.detach() for m in metrics.values()])
    if not training:
        outputs = [(n, t) for n, t in named_tensors(output) if t is not loss]
        origins.outputs = [f"output.{n}" for n, _ in outputs] if len(outputs) > 1 else \
            ["output"] * len(outputs)
        return numbers + tuple(t for _, t in outputs)
    origins.start_backward(loss)
    trained = [tensors[n] for n, _ in names.parameters if n in names.trained]
    if loss.grad_fn is None:
        raise ImportFailure("the loss does not depend on any parameter")
    return numbers + torch.autograd.grad(loss, trained, allow_unused=True)
