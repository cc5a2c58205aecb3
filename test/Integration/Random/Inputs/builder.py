# ===- builder.py - values of a wanted type, made at random ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""`Builder.make(dtype, shape)` gives a value of that type: one that is there, or an op that
makes one of values that are made in the same way. Each way to make a value is a function that
gives None where it does not apply, so that graphs are valid by construction."""

import math
import random

import numpy as np

from formats import FLOATS, INTEGERS
from graph import Graph, Text, elements, number

WAYS = []  # (weight, function, predicate on the type)


def way(weight, wanted=lambda dtype: True):
    def register(function):
        WAYS.append((weight, function, wanted))
        return function
    return register


def is_float(dtype):
    return dtype in FLOATS and FLOATS[dtype].bits > 8


def is_integer(dtype):
    return dtype in INTEGERS


class Builder:
    def __init__(self, seed, floats=("f32",), integers=("i32", "i64"), smooth=0.25, rough=False):
        self.random = random.Random(seed)
        self.graph = Graph()
        self.pool = {}  # type -> values
        self.floats, self.integers = floats, integers
        # How often functions that round come in, and data of many bits.
        self.smooth, self.rough = smooth, rough
        self.dropouts, self.bodies = 0, 0
        self.is_body = False  # of a loop, in which there are no loops
        self.reuse = self.random.uniform(0.3, 0.7)
        self.banned = set()  # values that this part of the graph may not read
        self.enabled = None  # names of ways, if not all

    # Values.

    def argument(self, name, role, dtype, shape, **more):
        value = self.graph.argument(name, role, dtype, shape, **more)
        self.keep(value)
        return value

    def keep(self, value):
        self.pool.setdefault((value.dtype, value.shape), []).append(value)
        return value

    def add(self, name, operands, attributes, *types):
        made = self.graph.add(name, operands, attributes, *types)
        for value in made if isinstance(made, list) else [made]:
            self.keep(value)
        return made

    def constant(self, dtype, shape, values=None):
        """A splat, or elements of their own."""
        r = self.random
        if values is None:
            values = self.data(dtype, shape) if r.random() < 0.3 and math.prod(shape) <= 64 else self.data(dtype, ())
        values = np.asarray(values)
        type_ = "tensor<%s%s>" % ("".join("%dx" % n for n in shape), dtype)
        if 0 in shape:
            values = np.zeros(())
            text = "dense<> : %s" % type_
        else:
            text = "dense<%s> : %s" % (elements(values, dtype), type_)
        made = self.add("arith.constant", [], {"value": Text(text)}, (dtype, shape))
        made.op.payload = values
        return made

    def splat(self, dtype, shape, x):
        return self.constant(dtype, shape, np.asarray(x, np.float64 if dtype in FLOATS else np.int64))

    def data(self, dtype, shape):
        """Small numbers of few bits, so that sums and products are exact; some zeros."""
        r = self.random
        count = math.prod(shape)
        if dtype == "i1":
            return np.array([r.randrange(2) for _ in range(count)], np.int64).reshape(shape)
        if dtype in INTEGERS:
            return np.array([r.randrange(-4, 5) for _ in range(count)], np.int64).reshape(shape)
        if self.rough:
            values = np.array([r.gauss(0, 1) for _ in range(count)]).reshape(shape)
            return FLOATS[dtype].round(values)
        scale = r.choice((1, 1, 1, 0.5, 0.25))
        return np.array([r.choice((-3, -2, -1, 0, 1, 2, 3)) * scale for _ in range(count)], np.float64).reshape(shape)

    def existing(self, dtype, shape):
        values = [v for v in self.pool.get((dtype, tuple(shape)), ()) if id(v) not in self.banned]
        if not values:
            return None
        # Late values rather than early ones: chains grow, and all ends are tried.
        r = self.random
        return values[-1 - min(int(r.expovariate(0.5)), len(values) - 1)] if r.random() < 0.6 else r.choice(values)

    def any_value(self, wanted):
        """A value that is there and of a type that is wanted."""
        types = [t for t, values in self.pool.items() if wanted(*t) and any(id(v) not in self.banned for v in values)]
        return self.existing(*self.random.choice(types)) if types else None

    def make(self, dtype, shape, depth):
        shape = tuple(shape)
        r = self.random
        if depth <= 0 or r.random() < self.reuse:
            value = self.existing(dtype, shape)
            if value is not None:
                return value
        if depth > -3:
            for _ in range(4):
                ways = [w for w in WAYS if w[2](dtype) and (self.enabled is None or w[1].__name__ in self.enabled)
                        and (depth > 0 or getattr(w[1], "shallow", False))]
                if not ways:
                    break
                chosen = r.choices(ways, [w[0] for w in ways])[0][1]
                value = chosen(self, dtype, shape, depth - 1)
                if value is not None:
                    assert (value.dtype, value.shape) == (dtype, shape), (chosen.__name__, value.type, dtype, shape)
                    return value
        return self.existing(dtype, shape) or self.constant(dtype, shape)

    def size(self):
        return self.random.choice((1, 2, 2, 3, 3, 4, 5, 7, 8))


def shallow(function):
    """Makes a value of values that are there, at the end of a chain."""
    function.shallow = True
    return function


# ===----------------------------------------------------------------------=== #
# Elements
# ===----------------------------------------------------------------------=== #


@way(1)
@shallow
def constant(b, dtype, shape, depth):
    if dtype.startswith("f8"):
        return None
    return b.constant(dtype, shape)


@way(6, is_float)
def elementwise(b, dtype, shape, depth):
    name = b.random.choice(("addf", "addf", "subf", "mulf", "mulf", "maximumf", "minimumf"))
    x = b.make(dtype, shape, depth)
    y = x if b.random.random() < 0.1 else b.make(dtype, shape, depth)
    return b.add("arith." + name, [x, y], {}, (dtype, shape))


@way(1, is_float)
def quotient(b, dtype, shape, depth):
    x = b.make(dtype, shape, depth)
    if b.random.random() < 0.7:
        y = b.splat(dtype, shape, b.random.choice((2.0, 4.0, -0.5, 3.0, 0.75)))
    else:
        y = b.make(dtype, shape, depth)
    return b.add("arith.divf", [x, y], {}, (dtype, shape))


@way(1.5, is_float)
def unary(b, dtype, shape, depth):
    name = b.random.choice(("arith.negf", "math.absf", "math.floor", "math.ceil"))
    return b.add(name, [b.make(dtype, shape, depth)], {}, (dtype, shape))


@way(1.5, is_float)
def function(b, dtype, shape, depth):
    r = b.random
    if r.random() > b.smooth * 3:
        return None
    x = b.make(dtype, shape, depth)
    name = r.choice(("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos"))
    if name in ("log", "sqrt", "rsqrt") and r.random() < 0.9:
        x = b.add("math.absf", [x], {}, (dtype, shape))
        x = b.add("arith.addf", [x, b.splat(dtype, shape, r.choice((1.0, 0.5)))], {}, (dtype, shape))
    if name == "exp" and r.random() < 0.8:  # keeps it small
        x = b.add("arith.minimumf", [x, b.splat(dtype, shape, 3.0)], {}, (dtype, shape))
    return b.add("math." + name, [x], {}, (dtype, shape))


@way(1, is_float)
def activation(b, dtype, shape, depth):
    r = b.random
    if r.random() > b.smooth * 3:
        return None
    attributes = {"approximate": Text("#mpcomm<gelu_approximation tanh>")} if r.random() < 0.5 else {}
    x = b.make(dtype, shape, depth)
    if r.random() < 0.5:
        return b.add("mpcomm.gelu", [x], attributes, (dtype, shape))
    return b.add("mpcomm.gelu_grad", [b.make(dtype, shape, depth), x], attributes, (dtype, shape))


@way(2)
def select(b, dtype, shape, depth):
    if dtype.startswith("f8"):
        return None
    condition = b.make("i1", shape, depth)
    return b.add("arith.select", [condition, b.make(dtype, shape, depth), b.make(dtype, shape, depth)], {},
                 (dtype, shape))  # fmt: skip


@way(6, lambda dtype: dtype == "i1")
def compare(b, dtype, shape, depth):
    if b.random.random() < 0.6:
        of = b.random.choice(b.floats)
        p = b.random.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14))
        name = "arith.cmpf"
    else:
        of, p, name = b.random.choice(b.integers), b.random.randrange(10), "arith.cmpi"
    x = b.make(of, shape, depth)
    return b.add(name, [x, b.make(of, shape, depth)], {"predicate": p}, (dtype, shape))


@way(4, is_integer)
def integer_elementwise(b, dtype, shape, depth):
    r = b.random
    names = ["addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui"]
    if dtype == "i1":
        names = ["andi", "ori", "xori"]
    name = r.choice(names)
    x, y = b.make(dtype, shape, depth), b.make(dtype, shape, depth)
    return b.add("arith." + name, [x, y], {}, (dtype, shape))


@way(1, lambda dtype: is_integer(dtype) and dtype != "i1")
def integer_by_constant(b, dtype, shape, depth):
    """Divisions by what is not zero, shifts by less than the width."""
    name = b.random.choice(("divsi", "remsi", "shli", "shrsi", "shrui"))
    by = b.random.choice((2, 3, 5, -3) if name[0] in "dr" else (0, 1, 2, INTEGERS[dtype].bits - 1))
    return b.add("arith." + name, [b.make(dtype, shape, depth), b.splat(dtype, shape, by)], {}, (dtype, shape))


@way(2)
def convert(b, dtype, shape, depth):
    """From another type, where the meaning is in bounds."""
    r = b.random
    if dtype == "i1":
        return None
    if dtype in INTEGERS:
        source = r.choice([t for t in (*b.integers, "i1", r.choice(b.floats)) if t != dtype])
        x = b.make(source, shape, depth)
        if source in INTEGERS:
            wider = INTEGERS[dtype].bits > INTEGERS[source].bits
            name = r.choice(("extsi", "extui")) if wider else "trunci"
            return b.add("arith." + name, [x], {}, (dtype, shape))
        for name, limit in (("maxnumf", -100.0), ("minnumf", 100.0)):
            x = b.add("arith." + name, [x, b.splat(source, shape, limit)], {}, (source, shape))
        return b.add("arith.fptosi", [x], {}, (dtype, shape))
    if r.random() < 0.4:
        source = r.choice((*b.integers, "i1"))
        name = r.choice(("sitofp", "uitofp")) if source in ("i1", "i8") else "sitofp"
        return b.add("arith." + name, [b.make(source, shape, depth)], {}, (dtype, shape))
    others = [t for t in b.floats if FLOATS[t].bits != FLOATS[dtype].bits]
    if not others:
        return None
    source = r.choice(others)
    name = "extf" if FLOATS[source].bits < FLOATS[dtype].bits else "truncf"
    return b.add("arith." + name, [b.make(source, shape, depth)], {}, (dtype, shape))


# ===----------------------------------------------------------------------=== #
# Movement
# ===----------------------------------------------------------------------=== #


@way(2)
def transpose(b, dtype, shape, depth):
    if len(shape) < 2:
        return None
    dims = list(range(len(shape)))
    b.random.shuffle(dims)
    source = [0] * len(shape)
    for i, d in enumerate(dims):
        source[d] = shape[i]
    return b.add("mpcomm.transpose", [b.make(dtype, source, depth)], {"dims": dims}, (dtype, shape))


@way(2)
@shallow
def reshape(b, dtype, shape, depth):
    """Of a value with as many elements, or of another factorisation."""
    count = math.prod(shape)
    x = b.any_value(lambda t, s: t == dtype and math.prod(s) == count and s != shape)
    if x is None or b.random.random() < 0.3:
        source, rest = [], count
        while rest > 1 and len(source) < 3:
            divisor = b.random.choice([d for d in range(1, min(rest, 4096) + 1) if rest % d == 0])
            source.append(divisor)
            rest //= divisor
        source = source + [rest] if rest != 1 or not source else source
        if tuple(source) == shape or depth <= 0:
            return None
        x = b.make(dtype, source, depth)
    return b.add("mpcomm.reshape", [x], {}, (dtype, shape))


@way(3)
@shallow
def broadcast(b, dtype, shape, depth):
    dims = [i for i in range(len(shape)) if b.random.random() < 0.5]
    source = [1 if b.random.random() < 0.2 else shape[i] for i in dims]
    if dtype.startswith("f8") or tuple(source) == shape and len(dims) == len(shape):
        return None
    x = b.existing(dtype, source) if depth <= 0 else b.make(dtype, source, depth)
    return x and b.add("mpcomm.broadcast_in_dim", [x], {"dims": dims}, (dtype, shape))


@way(3)
@shallow
def slice_(b, dtype, shape, depth):
    r = b.random
    x = b.any_value(lambda t, s: t == dtype and len(s) == len(shape) and s != shape
                    and all(m >= n for m, n in zip(s, shape))) if shape else None  # fmt: skip
    if x is None:
        if depth <= 0 or not shape:
            return None
        x = b.make(dtype, [n + r.randrange(3) for n in shape], depth)
    starts, limits, strides = [], [], []
    for size, n in zip(x.shape, shape):
        stride = r.choice([s for s in (1, 1, 1, 2, 3) if (n - 1) * s + 1 <= size]) if n else 1
        span = (n - 1) * stride + 1 if n else 0
        start = r.randrange(size - span + 1)
        # A limit anywhere between the last element and the next.
        limit = min(size, start + span + r.randrange(stride)) if n else start
        starts.append(start), limits.append(limit), strides.append(stride)
    return b.add("mpcomm.slice", [x], {"starts": starts, "limits": limits, "strides": strides}, (dtype, shape))


@way(1)
def reverse(b, dtype, shape, depth):
    x = b.make(dtype, shape, depth)
    dims = [d for d in range(len(shape)) if b.random.random() < 0.5]
    return b.add("mpcomm.reverse", [x], {"dims": dims}, (dtype, shape))


@way(3)
def concatenate(b, dtype, shape, depth):
    if not shape or dtype.startswith("f8"):
        return None
    r = b.random
    dim = r.randrange(len(shape))
    pieces, rest = [], shape[dim]
    while rest:
        n = r.randrange(1, rest + 1)
        pieces.append(n)
        rest -= n
    if len(pieces) > 4 or not pieces:
        return None
    values = [b.make(dtype, [*shape[:dim], n, *shape[dim + 1 :]], depth) for n in pieces]
    return b.add("mpcomm.concatenate", values, {"dim": dim}, (dtype, shape))


@way(2)
def pad(b, dtype, shape, depth):
    if not shape or dtype.startswith("f8"):
        return None
    r = b.random
    low, high, gaps, source = [], [], [], []
    for n in shape:
        gap = r.choice((0, 0, 0, 1, 2))
        inner = r.randrange(n + 1) if r.random() < 0.6 else n
        kept = max(1, (inner + gap) // (gap + 1)) if n else 0
        span = (kept - 1) * (gap + 1) + 1 if kept else 0
        low.append(r.randrange(n - span + 1))
        high.append(n - span - low[-1])
        gaps.append(gap), source.append(kept)
    value = b.make(dtype, (), min(depth, 1))
    x = b.make(dtype, source, depth)
    return b.add("mpcomm.pad", [x, value], {"low": low, "high": high, "interior": gaps}, (dtype, shape))


@way(0.5, lambda dtype: dtype != "i1")
def iota(b, dtype, shape, depth):
    if not shape or dtype.startswith("f8"):
        return None
    return b.add("mpcomm.iota", [], {"dim": b.random.randrange(len(shape))}, (dtype, shape))


# ===----------------------------------------------------------------------=== #
# Sums
# ===----------------------------------------------------------------------=== #


@way(3, is_float)
def dot_general(b, dtype, shape, depth):
    """The result's dimensions are batching ones, then those of lhs, then those of rhs."""
    r = b.random
    batching = r.randrange(len(shape) + 1) if r.random() < 0.3 else 0
    cut = r.randrange(batching, len(shape) + 1)
    contracting = [b.size() for _ in range(r.choice((0, 1, 1, 1, 1, 2)))]
    operands = []
    for free in (shape[batching:cut], shape[cut:]):
        letters = ([("b", i, n) for i, n in enumerate(shape[:batching])]
                   + [("f", i, n) for i, n in enumerate(free)] + [("c", i, n) for i, n in enumerate(contracting)])  # fmt: skip
        # Any order in which free dimensions stay in theirs.
        order = letters[:]
        r.shuffle(order)
        frees = iter([x for x in letters if x[0] == "f"])
        operands.append([next(frees) if x[0] == "f" else x for x in order])
    if math.prod(n for o in operands for _, _, n in o) > 20000:
        return None
    values = [b.make(dtype, [n for _, _, n in o], depth) for o in operands]
    place = lambda o, kind: [j for i in range(len(o)) for j, x in enumerate(o) if x[0] == kind and x[1] == i]
    attributes = {"lhs_contracting_dims": place(operands[0], "c"), "rhs_contracting_dims": place(operands[1], "c")}
    if batching:
        attributes["lhs_batching_dims"] = place(operands[0], "b")
        attributes["rhs_batching_dims"] = place(operands[1], "b")
    return b.add("mpcomm.dot_general", values, attributes, (dtype, shape))


@way(3)
def reduce(b, dtype, shape, depth):
    r = b.random
    if dtype.startswith("f8"):
        return None
    kind = r.choice(("sum", "sum", "sum", "max", "min", "prod"))
    count = r.choice((1, 1, 2))
    if len(shape) + count > 5:
        return None
    dims = sorted(r.sample(range(len(shape) + count), count))
    source = list(shape)
    for d in dims:
        source.insert(d, b.size())
    if math.prod(source) > 4000:
        return None
    x = b.make(dtype, source, depth)
    return b.add("mpcomm.reduce", [x], {"reduction": Text("#mpcomm<reduction %s>" % kind), "dims": dims},
                 (dtype, shape))  # fmt: skip
