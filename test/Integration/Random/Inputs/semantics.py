# ===- semantics.py - what ops of a training graph mean --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The meaning of each op, from its documentation: the descriptions of the MPComm dialect,
MLIR's of arith and math. A function for each takes the op and its operands' numbers, and
gives those of its results. Errors of functions are those that mpcomm-expand-math states."""

import math

import numpy as np

import bounded
from bounded import Bounded, cast, finish, monotone, lipschitz
from formats import FLOATS, INTEGERS

MEANINGS = {}


class Whole:
    """Integers, and which of them may be any (their bound is infinite)."""

    __slots__ = ("v", "e", "format")

    def __init__(self, v, e, format):
        self.format = format
        self.v = INTEGERS[format].wrap(v)
        self.e = np.broadcast_to(np.asarray(e, np.float64), self.v.shape)

    @property
    def shape(self):
        return self.v.shape

    def move(self, function):
        return Whole(function(self.v), function(self.e), self.format)

    def __getitem__(self, index):
        return self.move(lambda a: a[index])


def meaning(*names):
    def register(function):
        for name in names:
            MEANINGS[name] = function
        return function
    return register


def known(dtype, values):
    """Numbers that the type holds, without an error."""
    if dtype in FLOATS:
        return Bounded(values, None, dtype)
    return Whole(np.asarray(values, np.int64), 0.0, dtype)


def wide(format):
    """The type in which sums of a type, and functions of it, are taken."""
    return "f32" if FLOATS[format].bits < 32 else format


def widen(x):
    return cast(x, wide(x.format))


def result_format(op, index=0):
    return op.results[index].dtype


# ===----------------------------------------------------------------------=== #
# arith and math
# ===----------------------------------------------------------------------=== #


@meaning("arith.constant")
def constant(op):
    return known(result_format(op), np.broadcast_to(op.payload, op.results[0].shape))


BINARY = {"arith.addf": lambda a, b: a + b, "arith.subf": lambda a, b: a - b, "arith.mulf": lambda a, b: a * b,
          "arith.divf": lambda a, b: a / b, "arith.maximumf": bounded.greater, "arith.minimumf": bounded.lesser}  # fmt: skip


@meaning(*BINARY)
def binary(op, a, b):
    return BINARY[op.name](a, b)


@meaning("arith.maxnumf", "arith.minnumf")
def number_extreme(op, a, b):
    """A NaN gives way to a number."""
    f = bounded.greater if op.name == "arith.maxnumf" else bounded.lesser
    v = f(a, b)
    missing_a, missing_b = np.isnan(a.v), np.isnan(b.v)
    out = Bounded(np.where(missing_a, b.v, np.where(missing_b, a.v, v.v)), v.e, a.format)
    return out


@meaning("arith.negf")
def negate(op, a):
    return -a


@meaning("math.absf")
def magnitude(op, a):
    return Bounded(np.abs(a.v), a.e, a.format)


ORDERED = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal}
# Of arith.cmpf: 0 false, 1 to 5 ordered, 6 ordered and not equal, 7 neither is NaN, 8 to 13 or
# unordered, 14 one is NaN, 15 true.


@meaning("arith.cmpf")
def compare(op, a, b):
    p = op.attributes["predicate"]
    with np.errstate(all="ignore"):
        missing = np.isnan(a.v) | np.isnan(b.v)
        gap = np.abs(a.v - b.v)
        unsure = ~missing & ((a.e + b.e) > 0) & ~(gap > a.e + b.e)
        unsure |= ~np.isfinite(a.e + b.e)
        if p in (0, 15):
            v, unsure = np.full(a.shape, p == 15), np.zeros(a.shape, bool)
        elif p in (7, 14):
            v, unsure = missing == (p == 14), ~np.isfinite(a.e + b.e)
        elif p in (6, 13):
            v = np.where(missing, p == 13, a.v != b.v)
        elif p < 6:
            v = ORDERED[p](a.v, b.v) & ~missing
        else:
            v = ORDERED[p - 7](a.v, b.v) | missing
    return Whole(v.astype(np.int64), np.where(unsure, np.inf, 0), "i1")


def unsigned(x):
    """Values as numbers without a sign, as Python's integers where 64 bits."""
    bits = INTEGERS[x.format].bits
    if bits == 64:
        return x.v.view(np.uint64)
    return (x.v & ((1 << bits) - 1)).astype(np.uint64)


@meaning("arith.cmpi")
def compare_integers(op, a, b):
    p = op.attributes["predicate"]
    x, y = (a.v, b.v)
    if a.format == "i1":  # as signed numbers, true is -1
        x, y = -x, -y
    if p >= 6:
        x, y, p = unsigned(a), unsigned(b), p - 4
    v = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)[p](x, y)
    return Whole(v.astype(np.int64), np.maximum(a.e, b.e), "i1")


def signed(x):
    return -x.v if x.format == "i1" else x.v


def shift_amounts(b):
    return np.minimum(unsigned(b), 63).astype(np.int64), unsigned(b) >= INTEGERS[b.format].bits


INTEGER_BINARY = {
    "arith.addi": lambda a, b: a.v + b.v, "arith.subi": lambda a, b: a.v - b.v,
    "arith.muli": lambda a, b: a.v * b.v, "arith.andi": lambda a, b: a.v & b.v,
    "arith.ori": lambda a, b: a.v | b.v, "arith.xori": lambda a, b: a.v ^ b.v,
    "arith.maxsi": lambda a, b: np.maximum(signed(a), signed(b)),
    "arith.minsi": lambda a, b: np.minimum(signed(a), signed(b)),
    "arith.maxui": lambda a, b: np.maximum(unsigned(a), unsigned(b)).view(np.int64),
    "arith.minui": lambda a, b: np.minimum(unsigned(a), unsigned(b)).view(np.int64),
    "arith.shli": lambda a, b: a.v << shift_amounts(b)[0],
    "arith.shrsi": lambda a, b: signed(a) >> shift_amounts(b)[0],
    "arith.shrui": lambda a, b: (unsigned(a) >> shift_amounts(b)[0].astype(np.uint64)).view(np.int64),
}  # fmt: skip


@meaning(*INTEGER_BINARY)
def integer_binary(op, a, b):
    with np.errstate(all="ignore"):
        v = INTEGER_BINARY[op.name](a, b)
        e = np.maximum(a.e, b.e)
        if op.name.startswith("arith.sh"):  # poison
            e = np.where(shift_amounts(b)[1], np.inf, e)
        return Whole(v, e, a.format)


@meaning("arith.divsi", "arith.remsi")
def integer_divide(op, a, b):
    """Rounds towards zero. Division by zero has no meaning: graphs have none."""
    x, y = signed(a), np.where(b.v == 0, 1, signed(b))
    q = np.where(y == -1, -x, np.fix(x.astype(np.longdouble) / y).astype(np.int64))
    e = np.where(b.v == 0, np.inf, np.maximum(a.e, b.e))
    return Whole(q if op.name == "arith.divsi" else x - q * y, e, a.format)


@meaning("arith.select")
def select(op, c, a, b):
    unsure, yes = np.broadcast_to(c.e > 0, a.shape), np.broadcast_to(c.v != 0, a.shape)
    if isinstance(a, Bounded):
        return bounded.choose(yes, unsure, a, b)
    e = np.where(yes, a.e, b.e)
    return Whole(np.where(yes, a.v, b.v), np.where(unsure & (a.v != b.v), np.inf, e), a.format)


@meaning("arith.extf", "arith.truncf")
def convert(op, a):
    return cast(a, result_format(op))


@meaning("arith.sitofp", "arith.uitofp")
def from_integer(op, a):
    v = signed(a) if op.name == "arith.sitofp" else unsigned(a)
    with np.errstate(all="ignore"):
        return finish(v.astype(np.float64), np.zeros(a.shape), result_format(op), slack=a.e)


@meaning("arith.fptosi", "arith.fptoui")
def to_integer(op, a):
    """Towards zero; a number that does not fit is poison."""
    bits = INTEGERS[result_format(op)].bits
    low, high = (0, 2.0**bits) if op.name == "arith.fptoui" else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
    with np.errstate(all="ignore"):
        whole = np.trunc(a.v)
        fits = (whole >= low) & (whole < high)
        same = (np.trunc(a.v + a.e) == whole) & (np.trunc(a.v - a.e) == whole)
        v = np.where(fits, whole, 0)
        v = np.where(v >= 2.0**63, v - 2.0**64, v)
        return Whole(v.astype(np.int64), np.where(fits & same, 0, np.inf), result_format(op))


@meaning("arith.extsi", "arith.extui", "arith.trunci")
def resize(op, a):
    v = signed(a) if op.name == "arith.extsi" else unsigned(a).view(np.int64)
    return Whole(v, a.e, result_format(op))


MONOTONE = {
    # function, units in the last place, domain, error of small results
    "math.exp": (np.exp, 2, -np.inf, np.inf, 2.0**-125), "math.log": (np.log, 2, 0, np.inf, 0),
    "math.sqrt": (np.sqrt, 0.5, 0, np.inf, 0), "math.rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 0, np.inf, 0),
    "math.tanh": (np.tanh, 6, -np.inf, np.inf, 0),
    "math.erf": (np.vectorize(math.erf, otypes=[np.float64]), 6, -np.inf, np.inf, 0),
}  # fmt: skip


@meaning(*MONOTONE)
def function(op, a):
    f, units, low, high, slack = MONOTONE[op.name]
    x = widen(a)
    with np.errstate(all="ignore"):
        if x.format == "f64":
            units, slack = 2 * units, 0.0
        if op.name == "math.sqrt":  # rounded, as IEEE 754 has it
            v = np.sqrt(x.v)
            if x.format == "f32":
                units = 0
            # Of 24 bits: the square is exact in f64, and the root one of all formats.
            exact = np.where(np.isfinite(v), (v * v == x.v) & (v == v.astype(np.float32)), True) & (x.v >= 0)
            out = monotone(f, x, units, low, high)
            e = np.maximum(out.e, np.where(exact, 0, FLOATS[x.format].unit * v))
            out = Bounded(out.v, np.where(exact & (x.e == 0), 0, e), x.format)
        else:
            out = monotone(f, x, units, low, high, np.where(np.isfinite(f(x.v)), slack, 0))
        # A domain that the bound leaves.
        if low == 0:
            leaves = (x.e > 0) & (x.v - x.e <= 0)
            out = Bounded(out.v, np.where(leaves, np.inf, out.e), out.format)
        return cast(out, a.format)


@meaning("math.sin", "math.cos")
def wave(op, a):
    x = widen(a)
    # Upstream's approximations are absolute near a root: the argument's reduction.
    out = lipschitz(np.sin if op.name == "math.sin" else np.cos, x, 1.0, 4, np.maximum(1, np.abs(x.v)))
    return cast(out, a.format)


@meaning("math.floor", "math.ceil", "math.round", "math.roundeven", "math.trunc")
def to_whole(op, a):
    f = {"floor": np.floor, "ceil": np.ceil, "roundeven": np.rint, "trunc": np.trunc,
         "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)}[op.name[5:]]  # fmt: skip
    with np.errstate(all="ignore"):
        v, low, high = f(a.v), f(a.v - a.e), f(a.v + a.e)
        e = np.maximum(np.abs(high - v), np.abs(v - low))
        return Bounded(v, np.where(a.e == 0, 0, np.where(np.isnan(e), np.inf, e)), a.format)


@meaning("math.copysign")
def copy_sign(op, a, b):
    unsure = (b.e > 0) & (np.abs(b.v) <= b.e) | (b.v == 0) | np.isnan(b.v)
    v = np.copysign(a.v, b.v)
    return Bounded(v, np.where(unsure & (a.v != 0), a.e + 2 * np.abs(a.v), a.e), a.format)


@meaning("math.isnan", "math.isinf", "math.isfinite")
def classify(op, a):
    f = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[op.name[5:]]
    return Whole(f(a.v).astype(np.int64), np.where(np.isfinite(a.e), 0, np.inf), "i1")


@meaning("math.absi")
def magnitude_integer(op, a):
    return Whole(np.abs(signed(a)), a.e, a.format)


@meaning("math.fma")
def multiply_add(op, a, b, c):
    return a * b + c


# ===----------------------------------------------------------------------=== #
# Movement
# ===----------------------------------------------------------------------=== #


@meaning("mpcomm.transpose")
def transpose(op, x):
    return x.move(lambda a: np.transpose(a, op.attributes["dims"]))


@meaning("mpcomm.reshape")
def reshape(op, x):
    return x.move(lambda a: np.reshape(a, op.results[0].shape))


@meaning("mpcomm.broadcast_in_dim")
def broadcast(op, x):
    shape = [1] * len(op.results[0].shape)
    for size, dim in zip(x.shape, op.attributes["dims"]):
        shape[dim] = size
    return x.move(lambda a: np.broadcast_to(np.reshape(a, shape), op.results[0].shape))


@meaning("mpcomm.slice")
def slice_(op, x):
    a = op.attributes
    index = tuple(slice(*three) for three in zip(a["starts"], a["limits"], a["strides"]))
    return x[index]


@meaning("mpcomm.reverse")
def reverse(op, x):
    return x.move(lambda a: np.flip(a, op.attributes["dims"]))


def stack(xs):
    return make_like(xs[0], *(np.stack([getattr(x, field) for x in xs]) for field in "ve"))


@meaning("mpcomm.scan")
def scan(op, *operands):
    body, trips = op.attributes["body"], op.attributes["trips"]
    carried, sliced, _ = op.attributes["operandSegmentSizes"].counts
    carries, slices = operands[:carried], operands[carried : carried + sliced]
    rows = [None] * trips
    for t in reversed(range(trips)) if op.attributes["reverse"] else range(trips):
        inputs = [*carries, *[x[t] for x in slices], *operands[carried + sliced :]]
        numbers = {id(v): x for v, x in zip(body.arguments, inputs)}
        for inner in body.ops:
            made = MEANINGS[inner.name](inner, *[body.rounded(numbers[id(v)]) for v in inner.operands])
            for value, x in zip(inner.results, made if isinstance(made, tuple) else (made,)):
                numbers[id(value)] = body.rounded(x)
        results = [numbers[id(v)] for v in body.results]
        carries, rows[t] = results[:carried], results[carried:]
    return (*carries, *[body.rounded(stack(xs)) for xs in zip(*rows)])


@meaning("mpcomm.concatenate")
def concatenate(op, *xs):
    dim = op.attributes["dim"]
    v, e = (np.concatenate([getattr(x, field) for x in xs], dim) for field in "ve")
    return make_like(xs[0], v, e)


def make_like(x, v, e):
    return Bounded(v, e, x.format) if isinstance(x, Bounded) else Whole(v, e, x.format)


@meaning("mpcomm.pad")
def pad(op, x, value):
    a = op.attributes
    index = tuple(slice(low, low + (n - 1) * (gap + 1) + 1 if n else low, gap + 1)
                  for n, low, gap in zip(x.shape, a["low"], a["interior"]))  # fmt: skip
    arrays = []
    for field in "ve":
        source = getattr(x, field)
        out = np.full(op.results[0].shape, getattr(value, field), source.dtype)
        out[index] = source
        arrays.append(out)
    return make_like(x, *arrays)


@meaning("mpcomm.iota")
def iota(op):
    shape, dim = op.results[0].shape, op.attributes["dim"]
    at = np.broadcast_to(np.arange(shape[dim]).reshape([-1 if i == dim else 1 for i in range(len(shape))]), shape)
    if result_format(op) in FLOATS:
        return finish(at.astype(np.float64), np.zeros(shape), result_format(op))
    return Whole(at, 0.0, result_format(op))


# ===----------------------------------------------------------------------=== #
# Sums
# ===----------------------------------------------------------------------=== #


@meaning("mpcomm.dot_general")
def dot_general(op, a, b):
    d = op.attributes
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    lhs, rhs = [None] * len(a.shape), [None] * len(b.shape)
    batch = []
    for i, j in zip(d.get("lhs_batching_dims", []), d.get("rhs_batching_dims", [])):
        lhs[i] = rhs[j] = next(letters)
        batch.append(lhs[i])
    for i, j in zip(d["lhs_contracting_dims"], d["rhs_contracting_dims"]):
        lhs[i] = rhs[j] = next(letters)
    free = []
    for side in (lhs, rhs):
        for i, letter in enumerate(side):
            if letter is None:
                side[i] = next(letters)
                free.append(side[i])
    equation = "%s,%s->%s" % tuple("".join(s) for s in (lhs, rhs, batch + free))
    return narrow(op, bounded.products(widen(a), widen(b), equation))


def narrow(op, x, index=0):
    return cast(x, result_format(op, index))


@meaning("mpcomm.reduce")
def reduce(op, x):
    kind, dims = op.attributes["reduction"].split()[-1].rstrip(">"), tuple(op.attributes["dims"])
    if not dims:
        return x
    if isinstance(x, Whole):
        e = np.max(x.e, dims, initial=0)
        if x.format == "i1":
            f = np.max if kind in ("sum", "max") else np.min
            return Whole(f(x.v, dims, initial=0 if f is np.max else 1), e, "i1")
        bits = INTEGERS[x.format].bits
        f, start = {"sum": (np.sum, 0), "prod": (np.prod, 1), "max": (np.max, -(2 ** (bits - 1))),
                    "min": (np.min, 2 ** (bits - 1) - 1)}[kind]  # fmt: skip
        return Whole(f(x.v, dims, initial=start), e, x.format)
    if kind in ("max", "min"):
        return bounded.extreme(x, dims, 1 if kind == "max" else -1)
    if kind == "sum":
        return narrow(op, total(widen(x), dims))
    return narrow(op, product(widen(x), dims))


total = bounded.total


def product(x, dims):
    """Products in any order, an error of a rounding each."""
    moved = x.move(lambda a: np.moveaxis(a, dims, range(len(dims))))
    flat = moved.move(lambda a: a.reshape((-1,) + a.shape[len(dims):]))
    out = Bounded(np.ones(flat.shape[1:]), None, x.format)
    for i in range(flat.shape[0]):
        out = out * flat[i]
    # Another order may overflow or vanish on its way.
    with np.errstate(all="ignore"):
        sizes = np.where(flat.v == 0, 1, np.abs(flat.v))
        high, low = (f(sizes, 1).prod(0) for f in (np.maximum, np.minimum))
        f = FLOATS[x.format]
        unsure = ~(high < f.greatest / 2) | ~(low > 2.0 ** (f.emin + 2))
        return Bounded(out.v, np.where(unsure, np.inf, out.e), x.format)
