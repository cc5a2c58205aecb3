# ===- generator.py - valid training graphs, at random ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Graphs of four kinds:

- `state`: state of every role, updated through slices, concatenations, pads, reshapes,
  swaps, copies and partial overlaps;
- `ops`: values of any op and type, kept in state that is written whole;
- `network`: layers, a loss, the gradients and updates, as front ends write them;
- `train`: parameters that optimizer ops update by gradients of a batch, running statistics,
  and a loss: what data parallelism, micro-batches and pipelines divide."""

import math
import random

import numpy as np

import layers  # noqa: F401 (registers ways)
from builder import Builder
from formats import FLOATS
from graph import Op, Region, Text, Value, number
from network import Network

KINDS = ("state", "ops", "train", "network")


class Case:
    """A graph, what it starts with and what it is fed."""

    def __init__(self, graph, weights, samples):
        self.graph, self.weights, self.samples = graph, weights, samples


def element_types(r):
    """Types that a graph is made of, the first most often."""
    return r.choice((("f32",), ("f32",), ("f32",), ("f32", "f64"), ("f32", "bf16"), ("f32", "f16"),
                     ("f64",), ("bf16", "f32"), ("f16", "f32")))  # fmt: skip


def shapes(r):
    """A few shapes, of which graphs are full, and pieces of them."""
    size = lambda: r.choice((1, 2, 3, 4, 4, 5, 6, 8, 8, 9, 16, 17))
    base = [[size() for _ in range(r.choice((1, 1, 2, 2, 3)))] for _ in range(2)]
    if r.random() < 0.2:
        base.append([r.choice((1, 2)), r.choice((1, 2, 4)), r.choice((2, 3, 5)), r.choice((2, 4, 6))])
    if r.random() < 0.1:
        base[0] = [r.choice((33, 64, 100, 257))]
    if r.random() < 0.1:
        base.append([])
    return [tuple(s) for s in base]


class Generator:
    def __init__(self, seed, kind):
        self.random = r = random.Random("%s %d" % (kind, seed))
        self.kind, self.exact = kind, False
        plain = kind == "network" or kind == "train" and r.random() < 0.8
        types = ("f32",) if plain else element_types(r)
        smooth = r.choice((0.0, 0.0, 0.1, 0.3)) if kind == "state" else r.choice((0.0, 0.2, 0.5))
        self.b = Builder(r.random(), floats=types, smooth=smooth, rough=r.random() < 0.25)
        self.b.graph.kind = kind
        self.batch = r.choice((1, 2, 3, 4, 8))
        self.shapes = shapes(r)
        self.weights = {}

    def float_type(self):
        types = self.b.floats
        return types[0] if self.random.random() < 0.7 else self.random.choice(types)

    def state(self, role, dtype, shape, name=None):
        """An argument of a state role, whose result `finish` makes."""
        name = name or "%s%d" % (role[0], len(self.b.graph.arguments))
        r = self.random
        optional = role in ("optimizer_state", "loss_scale")
        default = None
        if optional and r.random() < 0.4 and dtype != "i1":
            default = r.choice((0, 1, 2))
        donated = self.kind in ("train", "network") or r.random() < 0.85
        value = self.b.argument(name, role, dtype, shape, donated=donated, default=default)
        if not optional or r.random() < 0.6:
            self.weights[name] = (dtype, self.b.data(dtype, shape))
        return value

    def batches(self, count):
        r = self.random
        for i in range(count):
            dtype = self.float_type() if r.random() < 0.8 else r.choice(("i32", "i64"))
            rest = r.choice(self.shapes)[:2]
            self.b.argument("x%d" % i, "batch", dtype, (self.batch, *rest))

    def hyper(self):
        rates = (0.125,) if self.exact else (0.125, 0.0625, 0.01) if self.kind == "network" else (0.5, 0.25, 1.0, 0.1)
        return self.b.argument("lr", "hyperparameter", "f32", (), default=self.random.choice(rates))

    def loss(self, depth):
        """A sum, so that all elements matter."""
        b, r = self.b, self.random
        dtype = "f32"
        if r.random() < 0.3:
            value = b.make(dtype, (), depth)
        else:
            x = b.make(dtype, r.choice(self.shapes), depth)
            value = x if not x.shape else b.add(
                "mpcomm.reduce", [x], {"reduction": Text("#mpcomm<reduction sum>"), "dims": list(range(len(x.shape)))},
                (dtype, ()))  # fmt: skip
        return value

    def finish(self, state, new, loss):
        """Results in any order, the loss anywhere."""
        g, r = self.b.graph, self.random
        results = [(value, role, name) for (value, role, name) in new]
        results.insert(r.randrange(len(results) + 1), (loss, "loss", "loss"))
        for value, role, name in results:
            g.returns(value, role, name)
        if r.random() < 0.7:
            g.remove_dead()
        samples = {a.name: (a.value.dtype, a.value.shape) for a in g.arguments if a.role == "batch"}
        return Case(g, self.weights, samples)

    def make(self):
        return getattr(self, "make_" + self.kind)()

    # Graphs of state.

    def make_state(self):
        b, r = self.b, self.random
        self.batches(r.choice((1, 1, 2)))
        if r.random() < 0.3:
            self.hyper()
        if r.random() < 0.1:
            b.argument("seed", "rng", "i32", (2,))
        args = []
        for _ in range(r.choice((1, 2, 3, 4, 5, 6, 8))):
            role = r.choice(("buffer", "buffer", "parameter", "optimizer_state", "loss_scale"))
            dtype = self.float_type() if r.random() < 0.85 else r.choice(("i32", "i64", "i1", "i8"))
            args.append((self.state(role, dtype, r.choice(self.shapes)), role))
        names = {id(a.value): a.name for a in b.graph.arguments}
        depth = r.choice((0, 1, 1, 2))
        loss = self.loss(2)
        new = []
        for value, role in args:
            if value.dtype == "i1" and r.random() < 0.5 or r.random() < 0.05 and not b.graph.arguments[-1].donated:
                new.append((value, role, names[id(value)]))  # unchanged
            else:
                new.append((self.update(value, [a for a, _ in args], depth), role, names[id(value)]))
        # State that no result has stays as it is.
        new = [x for x in new if r.random() < 0.97] or new
        return self.finish(args, new, loss)

    def update(self, value, states, depth):
        b, r = self.b, self.random
        dtype, shape = value.dtype, value.shape
        same = [s for s in states if s.type == value.type and s is not value]
        ways = ["element", "element", "made", "keep", "move", "reshape"]
        if same:
            ways += ["other", "other", "other"]
        if shape and 0 not in shape:
            ways += ["roll", "roll", "insert", "insert", "pad", "pad", "join", "flip"]
        return getattr(self, "by_" + r.choice(ways))(value, same, depth)

    def by_keep(self, value, same, depth):
        return value

    def by_other(self, value, same, depth):
        """What another argument was: a swap, a copy, a rotation."""
        return self.random.choice(same)

    def by_made(self, value, same, depth):
        return self.b.make(value.dtype, value.shape, depth + 1)

    def by_element(self, value, same, depth):
        b, r = self.b, self.random
        other = self.b.make(value.dtype, value.shape, depth)
        if value.dtype == "i1":
            return b.add("arith.xori", [value, other], {}, (value.dtype, value.shape))
        kind = "f" if value.dtype in FLOATS else "i"
        name = r.choice(("add", "sub", "mul")) + kind
        if r.random() < 0.2:
            condition = b.make("i1", value.shape, depth)
            return b.add("arith.select", [condition, value, other], {}, (value.dtype, value.shape))
        pair = [value, other] if r.random() < 0.8 else [other, value]
        return b.add("arith." + name, pair, {}, (value.dtype, value.shape))

    def pieces(self, value, d, low, high, stride=1):
        """Elements low up to high along dimension d."""
        starts, limits = [0] * len(value.shape), list(value.shape)
        starts[d], limits[d] = low, high
        strides = [stride if i == d else 1 for i in range(len(limits))]
        shape = [(l - s + t - 1) // t for s, l, t in zip(starts, limits, strides)]
        return self.b.add("mpcomm.slice", [value], {"starts": starts, "limits": limits, "strides": strides},
                          (value.dtype, shape))  # fmt: skip

    def fresh(self, value, d, n, depth):
        shape = list(value.shape)
        shape[d] = n
        return self.b.make(value.dtype, shape, depth)

    def join(self, d, values, like):
        if len(values) == 1:
            return values[0]
        return self.b.add("mpcomm.concatenate", values, {"dim": d}, (like.dtype, like.shape))

    def by_roll(self, value, same, depth):
        """Old elements move along; new ones come in at one end."""
        r = self.random
        d = r.randrange(len(value.shape))
        n = value.shape[d]
        k = r.randrange(n + 1)
        source = r.choice(same) if same and r.random() < 0.2 else value
        first = k if r.random() < 0.5 else 0
        kept = [self.pieces(source, d, first, first + n - k)] if k < n else []
        new = [self.fresh(value, d, k, depth)] if k else []
        if k and k < n and r.random() < 0.25:  # a rotation
            new = [self.pieces(value, d, 0, k)]
            kept = [self.pieces(value, d, k, n)]
        return self.join(d, kept + new if r.random() < 0.5 else new + kept, value)

    def by_insert(self, value, same, depth):
        """A piece in the middle is replaced."""
        r = self.random
        d = r.randrange(len(value.shape))
        n = value.shape[d]
        low = r.randrange(n)
        high = r.randrange(low + 1, n + 1)
        parts = [self.pieces(value, d, 0, low)] if low else []
        parts.append(self.fresh(value, d, high - low, depth))
        parts += [self.pieces(value, d, high, n)] if high < n else []
        return self.join(d, parts, value)

    def by_join(self, value, same, depth):
        """Pieces of any state and value."""
        r = self.random
        d = r.randrange(len(value.shape))
        parts, rest = [], value.shape[d]
        while rest:
            k = r.randrange(1, rest + 1)
            source = r.choice([value, *same])
            if r.random() < 0.6:
                at = r.randrange(value.shape[d] - k + 1)
                parts.append(self.pieces(source, d, at, at + k))
            else:
                parts.append(self.fresh(value, d, k, depth))
            rest -= k
        return self.join(d, parts, value)

    def by_pad(self, value, same, depth):
        """A smaller value with a border, or old elements with gaps and a border."""
        b, r = self.b, self.random
        d = r.randrange(len(value.shape))
        n = value.shape[d]
        k = r.randrange(1, n + 1)
        gap = r.choice((0, 0, 1)) if k > 1 else 0
        k = min(k, (n - 1) // (gap + 1) + 1)
        source = r.choice([value, *same])
        at = r.randrange(n - k + 1)
        inner = self.pieces(source, d, at, at + k) if r.random() < 0.5 else self.fresh(value, d, k, depth)
        span = (k - 1) * (gap + 1) + 1
        low = r.randrange(n - span + 1)
        zeros = [0] * len(value.shape)
        amounts = {"low": zeros[:], "high": zeros[:], "interior": zeros[:]}
        amounts["low"][d], amounts["high"][d], amounts["interior"][d] = low, n - span - low, gap
        border = b.make(value.dtype, (), 1) if r.random() < 0.3 else b.constant(value.dtype, ())
        return b.add("mpcomm.pad", [inner, border], amounts, (value.dtype, value.shape))

    def by_flip(self, value, same, depth):
        """Elements that move to places of others, one by one."""
        r = self.random
        d = r.randrange(len(value.shape))
        n = value.shape[d]
        if not 1 < n <= 6:
            return self.by_roll(value, same, depth)
        order = list(range(n))
        r.shuffle(order)
        return self.join(d, [self.pieces(value, d, i, i + 1) for i in order], value)

    def by_move(self, value, same, depth):
        """A transposition of itself, or of another, where the shape allows it."""
        b, r = self.b, self.random
        source = r.choice([value, *same])
        dims = list(range(len(value.shape)))
        for _ in range(4):
            r.shuffle(dims)
            if tuple(source.shape[i] for i in dims) == value.shape:
                return b.add("mpcomm.transpose", [source], {"dims": dims[:]}, (value.dtype, value.shape))
        return self.by_reshape(value, same, depth)

    def by_reshape(self, value, same, depth):
        """Through another shape and back, with something done there."""
        b, r = self.b, self.random
        count = math.prod(value.shape)
        source = r.choice([value, *same])
        flat = b.add("mpcomm.reshape", [source], {}, (value.dtype, (count,)))
        if r.random() < 0.7:
            flat = self.by_roll(flat, [], depth) if r.random() < 0.5 else self.by_element(flat, [], depth)
        return b.add("mpcomm.reshape", [flat], {}, (value.dtype, value.shape))

    # Graphs of ops.

    def make_ops(self):
        b, r = self.b, self.random
        self.batches(r.choice((1, 2)))
        if r.random() < 0.3:
            b.argument("seed", "rng", "i32", (2,))
        args = []
        for _ in range(r.choice((1, 2, 3, 4, 5))):
            role = r.choice(("buffer", "parameter"))
            dtype = self.float_type() if r.random() < 0.9 else r.choice(("i32", "i64", "i1"))
            shape = r.choice(self.shapes)
            if r.random() < 0.25:
                shape = (r.choice((1, 2)), r.choice((1, 2, 3, 4)), r.choice((1, 2, 3, 5)), r.choice((2, 4, 5)))
            args.append((self.state(role, dtype, shape), role))
        names = {id(a.value): a.name for a in b.graph.arguments}
        new = [(b.make(v.dtype, v.shape, r.choice((2, 3, 3, 4))), role, names[id(v)]) for v, role in args]
        if r.random() < 0.1:
            new += self.fp8_scale()
        return self.finish(args, new, self.loss(r.choice((1, 2, 3))))

    # Training steps.

    def make_train(self):
        b, r = self.b, self.random
        self.batches(r.choice((1, 2)))
        if r.random() < 0.15:
            b.argument("seed", "rng", "i32", (2,))
        parameters = []
        for _ in range(r.choice((1, 2, 2, 3, 4))):
            parameters.append(self.state("parameter", self.float_type(), r.choice(self.shapes)))
        buffers = [self.state("buffer", "f32", r.choice(self.shapes)) for _ in range(r.choice((0, 0, 1, 2)))]
        # The forward and the backward pass: any values will do as gradients.
        batch_values = [a.value for a in b.graph.arguments if a.role == "batch"]
        loss = self.of_batch(self.loss(r.choice((2, 3, 4))), batch_values)
        gradients = [b.make(p.dtype, p.shape, r.choice((1, 2, 3))) for p in parameters]
        names = {id(a.value): a.name for a in b.graph.arguments}
        new = []
        for value in buffers:
            new.append((self.update(value, [v for v in buffers if v is not value], 1), "buffer", names[id(value)]))
        if r.random() < 0.2:
            count = self.state("buffer", "i64", (), "tracked")
            one = b.splat("i64", (), 1)
            new.append((b.add("arith.addi", [count, one], {}, ("i64", ())), "buffer", "tracked"))
        lr = self.hyper()
        if r.random() < 0.2 and all(p.dtype == "f32" for p in parameters):
            gradients = [g for _, g in self.clip(list(zip(parameters, gradients)))]
        if r.random() < 0.2 and all(p.dtype == "f32" for p in parameters):
            gradients, scaling = self.loss_scale(gradients)
            new += scaling
        if len(parameters) > 3:
            gradients = [b.add("mpcomm.gradient", [g], {}, (g.dtype, g.shape)) for g in gradients]
        for p, g in zip(parameters, gradients):
            new += self.optimizer(p, g, lr, names[id(p)])
        return self.finish(None, new, loss)

    def loss_scale(self, gradients):
        """Gradients divided by a scale, and the scale of the next step."""
        b, r = self.b, self.random
        state = []
        for name, dtype, x in (("scale", "f32", r.choice((0.5, 2.0, 8.0))), ("good", "i32", r.choice((0, 1))),
                               ("hysteresis", "i32", r.choice((1, 2)))):  # fmt: skip
            state.append(b.argument(name, "loss_scale", dtype, (), donated=True))
            self.weights[name] = (dtype, np.asarray(x, np.float64 if dtype == "f32" else np.int64))
        each = r.random() < 0.3
        *unscaled, found = b.add("mpcomm.unscale", [*gradients, state[0]], {"each": each},
                                 *[(g.dtype, g.shape) for g in gradients], ("f32", (len(gradients),) if each else ()))  # fmt: skip
        if each:
            found = b.add("mpcomm.reduce", [found], {"reduction": Text("#mpcomm<reduction max>"), "dims": [0]}, ("f32", ()))
        a = {"growth": 2.0, "backoff": 0.5, "interval": r.choice((1, 2)), "min": r.choice((0.0, 1.0)), "max": r.choice((8.0, 1024.0)),
             "hysteresis": r.choice((1, 2))}  # fmt: skip
        made = b.add("mpcomm.update_loss_scale", [*state, found], a, ("f32", ()), ("i32", ()), ("i32", ()))
        return unscaled, list(zip(made, ["loss_scale"] * 3, ("scale", "good", "hysteresis")))

    def fp8_scale(self):
        b, r = self.b, self.random
        n = r.choice((1, 2, 4, 16))
        history, scale = self.state("loss_scale", "f32", (n,), "history"), self.state("loss_scale", "f32", (), "scale")
        self.weights["scale"] = ("f32", np.float64(r.choice((1.0, 16.0))))
        x = b.make("f32", r.choice(self.shapes), 2)
        size = b.add("math.absf", [x], {}, ("f32", x.shape))
        amax = b.add("mpcomm.reduce", [size], {"reduction": Text("#mpcomm<reduction max>"), "dims": list(range(len(x.shape)))},
                     ("f32", ())) if x.shape else size  # fmt: skip
        a = {"format": Text(r.choice(("f8E4M3FN", "f8E5M2"))), "margin": r.choice((0, 0, 1, -2))}
        made = b.add("mpcomm.update_fp8_scale", [history, scale, amax], a, ("f32", (n,)), ("f32", ()))
        return list(zip(made, ["loss_scale"] * 2, ("history", "scale")))

    def of_batch(self, loss, batches):
        """A loss that depends on samples, as pipelines ask for."""
        b, r = self.b, self.random
        floats = [v for v in batches if v.dtype == "f32"]
        if floats:
            x = r.choice(floats)
        else:
            x = batches[0]
            is_narrow = x.dtype in FLOATS and FLOATS[x.dtype].bits < 32
            name = "sitofp" if x.dtype not in FLOATS else "extf" if is_narrow else "truncf"
            x = b.add("arith." + name, [x], {}, ("f32", x.shape))
        total = b.add("mpcomm.reduce", [x], {"reduction": Text("#mpcomm<reduction %s>" % r.choice(("sum", "max"))),
                                            "dims": list(range(len(x.shape)))}, ("f32", ()))  # fmt: skip
        return b.add("arith.addf", [loss, total], {}, ("f32", ()))

    def make_network(self):
        b, r = self.b, self.random
        self.b.enabled = []
        network = Network(self)
        self.exact = network.exact
        loss = network.make()
        names = {id(a.value): a.name for a in b.graph.arguments}
        new = [(value, "buffer", names[id(running)]) for running, value in network.buffers]
        lr = self.hyper()
        pairs = [(p, network.gradients[id(p)]) for p in network.parameters if id(p) in network.gradients]
        if r.random() < 0.1 and pairs and not self.exact:
            pairs = self.clip(pairs)
        for p, g in pairs:
            new += self.optimizer(p, g, lr, names[id(p)])
        return self.finish(None, new, loss)

    def clip(self, pairs):
        gradients = [g for _, g in pairs]
        made = self.b.add("mpcomm.clip_by_global_norm", gradients,
                          {"max_norm": self.random.choice((1.0, 4.0)), "operandSegmentSizes": Text("array<i32: %d, 0>" % len(pairs))},
                          *[(g.dtype, g.shape) for g in gradients], ("f32", ()))  # fmt: skip
        return [(p, m) for (p, _), m in zip(pairs, made)]

    def optimizer(self, p, g, lr, name):
        b, r = self.b, self.random
        type_ = (p.dtype, p.shape)
        decay = {"weight_decay": r.choice((0.0, 0.0, 0.5, 0.25))}
        kind = r.choice(("sgd", "momentum", "nesterov") if self.exact else ("sgd", "momentum", "nesterov", "adamw"))
        if r.random() < 0.3:
            return self.region_update(p, g, lr, name)
        if kind == "sgd":
            return [(b.add("mpcomm.sgd_update", [p, g, lr], decay, type_), "parameter", name)]
        if kind in ("momentum", "nesterov"):
            m = self.state("optimizer_state", *type_, name + ".m")
            made = b.add("mpcomm.sgd_update", [p, g, lr, m],
                         {"momentum": r.choice((0.5, 0.75)), **decay, "nesterov": kind == "nesterov"}, type_, type_)  # fmt: skip
            return [(made[0], "parameter", name), (made[1], "optimizer_state", name + ".m")]
        m, v = (self.state("optimizer_state", *type_, name + end) for end in (".m", ".v"))
        if name + ".v" in self.weights:
            self.weights[name + ".v"] = (p.dtype, np.abs(self.weights[name + ".v"][1]))
        steps = self.state("optimizer_state", "f32", (), name + ".steps")
        self.weights[name + ".steps"] = ("f32", np.float64(r.choice((0, 1, 5))))
        step = b.add("arith.addf", [steps, b.splat("f32", (), 1.0)], {}, ("f32", ()))
        made = b.add("mpcomm.adamw_update", [p, g, m, v, step, lr],
                     {"beta1": 0.5, "beta2": 0.75, "eps": r.choice((1.0, 1.0, 1.0, 1e-8)), **decay}, type_, type_, type_)  # fmt: skip
        return [(made[0], "parameter", name), (made[1], "optimizer_state", name + ".m"),
                (made[2], "optimizer_state", name + ".v"), (step, "optimizer_state", name + ".steps")]  # fmt: skip

    def region_update(self, p, g, lr, name):
        """Some rule as a region: a state that follows the gradient, a count, and a step along
        the state or its signs, as long as the parameter is large or as the rate says."""
        b, r = self.b, self.random
        type_, scalar = (p.dtype, p.shape), (p.dtype, ())
        m, k = self.state("optimizer_state", *type_, name + ".m"), self.state("optimizer_state", "f32", (), name + ".k")
        region = Region([p, g, m, k, lr])
        q, d, s, count, rate = region.arguments
        splat = lambda x, t=type_: constant(region, x, *t)
        over = lambda x: region.add("mpcomm.broadcast_in_dim", [x], {"dims": []}, type_) if p.shape else x
        next_count = region.add("arith.addf", [count, splat(1.0, ("f32", ()))], {}, ("f32", ()))
        if p.dtype != "f32":
            rate = region.add("arith.extf" if p.dtype == "f64" else "arith.truncf", [rate], {}, scalar)
        new = region.add("arith.addf", [region.add("arith.mulf", [s, splat(r.choice((0.5, 0.75)))], {}, type_), d], {}, type_)
        along = new
        if r.random() < 0.5:
            above = region.add("arith.cmpf", [new, splat(0.0)], {"predicate": 2}, ("i1", p.shape))
            along = region.add("arith.select", [above, splat(1.0), splat(-1.0)], {}, type_)
        if r.random() < 0.4 and p.shape and not self.exact:
            size = region.add("math.absf", [q], {}, type_)
            kind = r.choice(("max", "sum"))
            total = region.add("mpcomm.reduce", [size], {"reduction": Text("#mpcomm<reduction %s>" % kind),
                                                         "dims": list(range(len(p.shape)))}, scalar)  # fmt: skip
            rate = region.add("arith.mulf", [rate, total], {}, scalar)
        change = region.add("arith.mulf", [over(rate), along], {}, type_)
        region.results = [region.add("arith.subf", [q, change], {}, type_), new, next_count]
        b.graph.ops.append(Op("mpcomm.update", [p, g, m, k, lr], {"optimizer": Text('"Own"')}, [type_, type_, ("f32", ())], region))
        made = b.graph.ops[-1].results
        return [(made[0], "parameter", name), (made[1], "optimizer_state", name + ".m"),
                (made[2], "optimizer_state", name + ".k")]  # fmt: skip


def constant(region, x, dtype, shape):
    """A constant of one value."""
    text = "dense<%s> : %s" % ("" if 0 in shape else number(x, dtype), Value(dtype, shape).type)
    made = region.add("arith.constant", [], {"value": Text(text)}, (dtype, shape))
    made.op.payload = np.asarray(np.zeros(()) if 0 in shape else x)
    return made


def generate(seed, kind):
    return Generator(seed, kind).make()


def dataset(case, seed, samples):
    """`samples` samples for each batch argument."""
    b = Builder(seed, rough=False)
    out = {}
    for name, (dtype, shape) in case.samples.items():
        out[name] = (dtype, b.data(dtype, (samples, *shape[1:])))
    return out
