# ===- interpreter.py - a training step, by its ops' documentation -------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs a training graph as the descriptions of its ops and of the pipeline's options say:

- `mesh=dp:N`: what enters an optimizer op as a gradient, the loss, and buffers of floats are
  means over the ranks (mpcomm-data-parallel);
- `micro-batches=M`: gradients and the loss are means over the micro-batches too; state that a
  micro-batch makes goes to the next one (mpcomm-accumulate-gradients);
- `precision=`: each value of f32 may be rounded to the narrow type once, but for state and
  what updates make of it, unless products read that: then what these read and make may be
  (mpcomm-insert-casts goes by the class of ops);
- a pipeline of stages computes what one rank with as many micro-batches does."""

import numpy as np

import composites  # noqa: F401 (registers meanings)
import indexed  # noqa: F401
import indexing  # noqa: F401
import windows  # noqa: F401
from bounded import Bounded, finish
from formats import FLOATS
from graph import STATE_ROLES
from semantics import MEANINGS, Whole, known

# Of each optimizer op, which operands are gradients.
GRADIENTS = {
    "mpcomm.sgd_update": lambda op: [1], "mpcomm.adamw_update": lambda op: [1], "mpcomm.update": lambda op: [1],
    "mpcomm.gradient": lambda op: [0], "mpcomm.unscale": lambda op: range(len(op.operands) - 1),
    "mpcomm.squared_norm": lambda op: range(len(op.operands)),
    "mpcomm.clip_by_global_norm": lambda op: range(len(op.results) - 1),
}  # fmt: skip
PRODUCTS = ("mpcomm.dot_general", "mpcomm.convolution", "mpcomm.convolution_input_grad",
            "mpcomm.convolution_filter_grad")  # fmt: skip


def is_product(op):
    """Whether it is one, or a loop over some."""
    return op.name in PRODUCTS or any(o.name in PRODUCTS for o in getattr(op.attributes.get("body"), "ops", ()))


class Options:
    def __init__(self, ranks=1, micro_batches=1, precision="none", stages=1, average_before=False):
        self.ranks, self.micro_batches = ranks, micro_batches
        self.precision, self.stages, self.average_before = precision, stages, average_before


class Unsupported(Exception):
    """The documentation does not say what this step gives."""


class Interpreter:
    def __init__(self, graph, options):
        self.graph, self.options = graph, options
        self.update_phase = self.find_update_phase()
        self.varying = self.find_varying()
        self.exact = self.find_exact()
        self.narrow = {"bf16": "bf16", "f16": "f16", "fp8": "bf16"}.get(options.precision)
        self.gradients = [(op, i) for op in graph.ops if op.name in GRADIENTS for i in GRADIENTS[op.name](op)]

    def find_update_phase(self):
        """The ops that depend on updates, and updates."""
        phase, made = set(), set()
        for op in self.graph.ops:
            if op.name in GRADIENTS or op.name == "mpcomm.update_fp8_scale" or any(id(v) in made for v in op.operands):
                phase.add(op)
                made.update(id(v) for v in op.results)
        return phase

    def find_exact(self):
        """The ops of the update phase that depend on no product of it."""
        exact, rounded = set(), set()
        for op in self.graph.ops:
            if is_product(op) or any(id(v) in rounded for v in op.operands):
                if op in self.update_phase:
                    rounded.update(id(v) for v in op.results)
            elif op in self.update_phase:
                exact.add(op)
        return exact

    def find_varying(self, handed=()):
        """What may differ between micro-batches: what depends on samples, and on state that is handed on."""
        varying = {id(a.value) for a in self.graph.arguments if a.role in ("batch", "rng") or a.name in handed}
        for op in self.graph.ops:
            if any(id(v) in varying for v in op.operands):
                varying.update(id(v) for v in op.results)
        if self.options.micro_batches == 1:
            return varying
        self.varying = varying
        places = {a.name: a.value for a in self.graph.arguments}
        changes = {r.name for r in self.graph.results if r.role in STATE_ROLES and self.is_handed_on(r)
                   and r.value is not places[r.name]}  # fmt: skip
        return varying if changes <= set(handed) else self.find_varying(changes | set(handed))

    # One evaluation.

    def narrowed(self, x):
        """As it may be stored."""
        if not self.narrow or not isinstance(x, Bounded) or x.format != "f32":
            return x
        out = finish(x.v, x.e, self.narrow)
        return Bounded(out.v, out.e, "f32", x.terms)

    def operands(self, op, wide, stored, replaced):
        for i, value in enumerate(op.operands):
            number = replaced.get((op, i))
            if number is None:
                exact = op.name in GRADIENTS and i not in GRADIENTS[op.name](op)
                number = wide[id(value)] if exact else stored[id(value)]
            if is_product(op) and op in self.update_phase:
                number = self.narrowed(number)
            if self.options.precision == "fp8" and op.name in PRODUCTS:
                number = self.eight_bits(number)
            yield number

    def eight_bits(self, x):
        """Of unknown format and scale: what fits E4M3 and E5M2 with a scale of 1 is kept. What is
        greater saturates, infinities too, and may be any number."""
        if not isinstance(x, Bounded) or x.format != "f32":
            return x
        forms = [finish(x.v, x.e, name) for name in ("f8E4M3FN", "f8E5M2")]
        e = np.maximum(*(np.where(np.isnan(f.e), np.inf, f.e) for f in forms))
        beyond = np.isinf(x.v)
        return Bounded(np.where(beyond, 0, x.v), np.where(beyond, np.inf, e), "f32")

    def evaluate(self, inputs, ops, replaced=None, start=None):
        wide, stored = start if start else ({}, {})
        for a in self.graph.arguments:
            if a.name in inputs:
                wide[id(a.value)] = inputs[a.name]
                stored[id(a.value)] = self.narrowed(inputs[a.name])
        for op in ops:
            if op.name == "mpcomm.scan" and op not in self.exact:
                op.attributes["body"].rounded = self.narrowed
            made = MEANINGS[op.name](op, *self.operands(op, wide, stored, replaced or {}))
            for value, number in zip(op.results, made if isinstance(made, tuple) else (made,)):
                # In narrow ops all intermediate values may be rounded.
                wide[id(value)] = stored[id(value)] = number if op in self.exact else self.narrowed(number)
        return wide, stored

    # A step.

    def step(self, state, batches, seeds=None, hyper=None):
        """`batches[rank][micro-batch]`: name -> number. The loss and the new state."""
        ranks, count = self.options.ranks, self.options.micro_batches
        before = [op for op in self.graph.ops if op not in self.update_phase]
        after = [op for op in self.graph.ops if op in self.update_phase]
        results = {r.name: r for r in self.graph.results}
        whole = ranks * count == 1
        moved = [r for r in self.graph.results if r.role in STATE_ROLES and self.is_handed_on(r)]
        sums, losses, ends = {}, [], []
        for r in range(ranks):
            carried = dict(state)
            for m in range(count):
                inputs = {**carried, **(hyper or {}), **batches[r][m], **(seeds[r][m] if seeds else {})}
                env = self.evaluate(inputs, before)
                for op, i in self.gradients:
                    if self.is_mean(op, i):
                        each = sums.setdefault((op, i), [[] for _ in range(ranks)])
                        each[r].append(env[1][id(op.operands[i])])
                for x in self.graph.results:
                    if x.role == "loss" and self.is_early(x.value):
                        losses.append(env[0][id(x.value)])
                carried.update({x.name: env[0][id(x.value)] for x in moved})
            ends.append((env, carried))
        env, carried = ends[0]
        replaced = {} if whole else {key: self.mean_gradient(xs) for key, xs in sums.items()}
        env = self.evaluate({}, after, replaced, env)
        new = {}
        for name, x in results.items():
            if x.role in STATE_ROLES:
                new[name] = carried[name] if x in moved else env[0][id(x.value)]
                if x in moved and ranks > 1 and isinstance(new[name], Bounded):
                    same = id(x.value) not in self.varying and count == 1
                    new[name] = new[name] if same else mean([end[1][name] for end in ends])
        (loss,) = [x for x in self.graph.results if x.role == "loss"]
        value = mean(losses) if losses and not whole else env[0][id(loss.value)]
        for (op, i), xs in sums.items():
            # A gradient that is the loss, too, may be averaged once, as a gradient.
            if losses and not whole and op.operands[i] is loss.value:
                other = self.mean_gradient(xs)
                error = np.maximum(value.e, np.abs(other.v - value.v) + other.e)
                value = Bounded(value.v, error, value.format)
        return value, {**state, **new}

    def mean_gradient(self, ranks):
        """Of a narrow gradient, that of a rank travels narrow, and so does the result. With
        `average=before`, that of a rank is divided, and may be rounded, before it travels."""
        if self.options.average_before:
            out = add_up([self.narrowed(divided(mean(xs), len(ranks))) for xs in ranks])
        else:
            out = mean([self.narrowed(mean(xs)) for xs in ranks])
        # All may be added up before anything is divided.
        beyond = np.isinf(add_up([x for xs in ranks for x in xs]).e)
        return self.narrowed(Bounded(out.v, np.where(beyond, np.inf, out.e), out.format))

    def is_early(self, value):
        return value.op is None or value.op not in self.update_phase

    def is_mean(self, op, i):
        return self.is_early(op.operands[i]) and id(op.operands[i]) in self.varying

    def is_handed_on(self, result):
        """A count of steps is not one of micro-batches."""
        return self.is_early(result.value) and (result.role == "buffer" or id(result.value) in self.varying)


def mean(xs):
    return xs[0] if len(xs) == 1 else divided(add_up(xs), len(xs), xs[0].format)


def add_up(xs):
    """A sum, in f32 at least."""
    if len(xs) == 1:
        return xs[0]
    if not isinstance(xs[0], Bounded):
        raise Unsupported("a mean of integers")
    format = xs[0].format if xs[0].format in ("f32", "f64") else "f32"
    return Bounded(np.stack([x.v for x in xs]), np.stack([x.e for x in xs]), format).sum(0)


def divided(x, count, format=None):
    # Means over micro-batches and over ranks are divisions of their own: one more rounding.
    if count == 1:
        return x
    out = composites.quotient(x, Bounded(np.float64(count), None, x.format))
    out = Bounded(out.v, out.e + np.where(out.e > 0, FLOATS[out.format].unit * np.abs(out.v), 0), out.format)
    return composites.cast(out, format or x.format)


def first_state(graph, tensors):
    """What a run starts with: the weights file, or defaults, or zeros."""
    state = {}
    for a in graph.arguments:
        if a.role in STATE_ROLES:
            values = tensors.get(a.name)
            if values is None:
                values = np.full(a.value.shape, a.default if a.default is not None else 0)
            state[a.name] = known(a.value.dtype, values)
    return state


def splitmix(state):
    mask = (1 << 64) - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def seed_words(seed, step, rank, ranks):
    word = splitmix(splitmix(seed) ^ (step * ranks + rank))
    return np.array([word & 0xFFFFFFFF, word >> 32], np.int64)


def run(graph, options, weights, data, steps, seed=0):
    """The losses of `steps` steps of a run without shuffling, and the state after them."""
    interpreter = Interpreter(graph, options)
    state = first_state(graph, weights)
    batch = [a for a in graph.arguments if a.role == "batch"]
    rngs = [a for a in graph.arguments if a.role == "rng"]
    hyper = {a.name: known(a.value.dtype, FLOATS[a.value.dtype].round(a.default))
             for a in graph.arguments if a.role == "hyperparameter"}  # fmt: skip
    losses, ranks, count = [], options.ranks, options.micro_batches
    for step in range(steps):
        def part(a, r, m):
            size = a.value.shape[0]
            at = ((step * ranks + r) * count + m) * size
            return known(a.value.dtype, data[a.name][at : at + size])
        def words(r, m):
            # Micro-batch m adds m to the last word.
            w = seed_words(seed, step, r, ranks)
            return Whole(w + np.array([0, m]), 0.0, "i32")
        batches = [[{a.name: part(a, r, m) for a in batch} for m in range(count)] for r in range(ranks)]
        seeds = [[{a.name: words(r, m) for a in rngs} for m in range(count)] for r in range(ranks)]
        loss, state = interpreter.step(state, batches, seeds, hyper)
        losses.append(loss)
    return losses, state


def is_finite(number):
    """Whether no element can be infinite or no number."""
    return not isinstance(number, Bounded) or bool(np.isfinite(number.v).all() and np.isfinite(number.e).all())


def differences(got, want):
    """Where numbers are not those that are wanted: a mask of elements."""
    with np.errstate(all="ignore"):
        same = (got == want.v) | (np.isnan(got) & np.isnan(want.v)) if isinstance(want, Bounded) else got == want.v
        near = np.abs(got - want.v) <= want.e
        return ~(same | near | np.isinf(want.e))
