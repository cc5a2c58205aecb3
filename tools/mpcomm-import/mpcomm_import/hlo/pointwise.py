# ===- pointwise.py - elementwise ops -------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of ops that work element by element."""

import math

import numpy as np

from ..emit.pointwise import align, compare_values
from ..emit.views import View, splat_value
from ..errors import Unsupported
from ..ir.graph import Type
from .constants import direction
from .translator import element_type, hlo, type_of, unsigned


def is_float(x):
    return x.type.is_float


def number(x):
    """The number that every element of an operand is, else None."""
    if isinstance(x, np.ndarray):
        first = x.reshape(-1)[:1]
        same = all(s == 0 or n == 1 for s, n in zip(x.strides, x.shape)) or (x == first).all()
        return first[0].item() if same and x.size else None
    return splat_value(x.base) if isinstance(x, View) else None


# --- arithmetic --------------------------------------------------------------------- #

def binary(name, for_floats, for_integers, for_unsigned=None, for_booleans=None):
    @hlo(name)
    def translate(t, op, a, b):
        a, b = t.view(a), t.view(b)
        if a.dtype == "i1":
            chosen = for_booleans
        elif is_float(a):
            chosen = for_floats
        else:
            chosen = for_unsigned if for_unsigned and unsigned(op.operands[0]) else for_integers
        if chosen is None:
            raise Unsupported(f"on {a.dtype}")
        return t.apply(chosen, a, b)


binary("add", "arith.addf", "arith.addi", None, "arith.ori")
binary("subtract", "arith.subf", "arith.subi")
binary("multiply", "arith.mulf", "arith.muli", None, "arith.andi")
binary("maximum", "arith.maximumf", "arith.maxsi", "arith.maxui", "arith.ori")
binary("minimum", "arith.minimumf", "arith.minsi", "arith.minui", "arith.andi")
binary("and", None, "arith.andi", None, "arith.andi")
binary("or", None, "arith.ori", None, "arith.ori")
binary("xor", None, "arith.xori", None, "arith.xori")
binary("atan2", "math.atan2", None)


def division(name, for_floats, for_integers, for_unsigned):
    """Of integers as XLA's, which has no undefined case: by zero the quotient has all bits
    set and the remainder is the dividend; by -1 nothing overflows."""
    @hlo(name)
    def translate(t, op, a, b):
        known, a, b = number(b), t.view(a), t.view(b)
        if is_float(a):
            return t.apply(for_floats, a, b)
        positive = unsigned(op.operands[0])
        target = for_unsigned if positive else for_integers
        if known not in (None, 0, -1):
            return t.apply(target, a, b)
        by_zero, by_minus_one = (compare(t, "eq", b, n) for n in (0, -1))
        special = by_zero if positive else t.apply("arith.ori", by_zero, by_minus_one)
        result = t.apply(target, a, t.select(special, t.scalar(1, b.dtype), b))
        if name == "remainder":
            return t.select(by_zero, a, result)
        result = t.select(by_zero, t.scalar(-1, a.dtype), result)
        return result if positive else t.select(by_minus_one, t.apply("arith.subi", 0, a), result)


division("divide", "arith.divf", "arith.divsi", "arith.divui")
division("remainder", "arith.remf", "arith.remsi", "arith.remui")


@hlo("power")
def power(t, op, x, exponent):
    x, known = t.view(x), number(exponent)
    if not is_float(x):
        return t.apply("math.ipowi", x, t.view(exponent))
    if known in (1, 2, 3, 4):
        result = x
        for _ in range(int(known) - 1):
            result = t.apply("arith.mulf", result, x)
        return result
    if known == -1:
        return t.apply("arith.divf", 1.0, x)
    return t.apply("math.powf", x, t.view(exponent))


def shift(name, target):
    @hlo(name)
    def translate(t, op, x, n):
        x, amount = t.view(x), number(n)
        if amount is not None and 0 <= amount < x.type.width:
            return t.apply(target, x, t.view(n))
        n = t.view(n)
        inside = compare(t, "ult", n, x.type.width)
        last = x.type.width - 1
        moved = t.apply(target, x, t.apply("arith.minui", n, last))
        if name == "shift_right_arithmetic":
            return moved
        return t.select(inside, moved, 0)


shift("shift_left", "arith.shli")
shift("shift_right_logical", "arith.shrui")
shift("shift_right_arithmetic", "arith.shrsi")


# --- of one operand ------------------------------------------------------------------ #

def unary(target, *names):
    @hlo(*names)
    def translate(t, op, x):
        x = t.view(x)
        if not is_float(x):
            raise Unsupported(f"on {x.dtype}")
        return t.apply(target, x)


unary("math.exp", "exponential")
unary("math.expm1", "exponential_minus_one")
unary("math.log", "log")
unary("math.log1p", "log_plus_one")
unary("math.sqrt", "sqrt")
unary("math.rsqrt", "rsqrt")
unary("math.cbrt", "cbrt")
unary("math.tanh", "tanh")
unary("math.sin", "sine")
unary("math.cos", "cosine")
unary("math.tan", "tan")
unary("math.floor", "floor")
unary("math.ceil", "ceil")
unary("math.round", "round_nearest_afz")
unary("math.roundeven", "round_nearest_even")
unary("math.erf", "chlo.erf", "erf")
unary("math.erfc", "chlo.erfc")
unary("math.acos", "chlo.acos")
unary("math.asin", "chlo.asin")
unary("math.atan", "chlo.atan")
unary("math.acosh", "chlo.acosh")
unary("math.asinh", "chlo.asinh")
unary("math.atanh", "chlo.atanh")
unary("math.sinh", "chlo.sinh")
unary("math.cosh", "chlo.cosh")


@hlo("negate")
def negate(t, op, x):
    x = t.view(x)
    return t.apply("arith.negf", x) if is_float(x) else t.apply("arith.subi", 0, x)


@hlo("abs")
def absolute(t, op, x):
    x = t.view(x)
    return t.apply("math.absf" if is_float(x) else "math.absi", x)


@hlo("not")
def invert(t, op, x):
    x = t.view(x)
    return t.apply("arith.xori", x, 1 if x.dtype == "i1" else -1)


@hlo("sign")
def sign(t, op, x):
    x = t.view(x)
    one, above, below = (1.0, "ogt", "olt") if is_float(x) else (1, "sgt", "slt")
    lower = t.select(compare(t, below, x, 0), t.scalar(-one, x.dtype), x)
    return t.select(compare(t, above, x, 0), one, lower)


@hlo("logistic")
def logistic(t, op, x):
    e = t.apply("math.exp", t.apply("arith.negf", t.view(x)))
    return t.apply("arith.divf", 1.0, t.apply("arith.addf", e, 1.0))


@hlo("is_finite")
def is_finite(t, op, x):
    return compare(t, "olt", t.apply("math.absf", t.view(x)), math.inf)


@hlo("chlo.is_inf")
def is_infinite(t, op, x):
    return compare(t, "oeq", t.apply("math.absf", t.view(x)), math.inf)


@hlo("chlo.square")
def square(t, op, x):
    x = t.view(x)
    return t.apply("arith.mulf" if is_float(x) else "arith.muli", x, x)


@hlo("popcnt")
def count_ones(t, op, x):
    return t.apply("math.ctpop", t.view(x))


@hlo("count_leading_zeros")
def count_leading_zeros(t, op, x):
    return t.apply("math.ctlz", t.view(x))


# Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), table 5: of
# w - 2.5 below w = 5, of sqrt(w) - 3 above.
ERF_INV = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
     -0.0076224613, 0.00943887047, 1.00167406, 2.83297682))


@hlo("chlo.erf_inv", "erf_inv")
def erf_inverse(t, op, x):
    x = t.view(x)
    if x.dtype != "f32":
        raise Unsupported(f"on {x.dtype}")
    w = t.apply("arith.negf", t.apply("math.log1p", t.apply(
        "arith.negf", t.apply("arith.mulf", x, x))))
    centre = compare(t, "olt", w, 5.0)
    near = t.apply("arith.subf", w, 2.5)
    far = t.apply("arith.subf", t.apply("math.sqrt", w), 3.0)
    values = []
    for variable, terms in zip((near, far), ERF_INV):
        sum_ = t.scalar(terms[0], x.dtype)
        for term in terms[1:]:
            sum_ = t.apply("arith.addf", t.apply("arith.mulf", sum_, variable), term)
        values.append(sum_)
    result = t.apply("arith.mulf", t.select(centre, *values), x)
    edge = compare(t, "oeq", t.apply("math.absf", x), 1.0)
    return t.select(edge, t.apply("arith.mulf", x, math.inf), result)


# --- comparisons and choices ---------------------------------------------------------- #

FLOATS = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def compare(t, predicate, a, b):
    """A comparison of views, or of one with a number."""
    if not isinstance(b, View):
        value = compare_values(t, predicate, a.base, t.builder.constant(b, a.base.type))
        return View(value, a.factors, a.dims)
    values, wrap = align(t.builder, [a, b])
    return wrap(compare_values(t, predicate, *values))


@hlo("compare")
def comparison(t, op, a, b):
    kind = direction(op)
    if "TOTALORDER" in str(op.attributes["compare_type"] if "compare_type" in op.attributes
                           else ""):
        raise Unsupported("in a total order")
    known = decided(t, op, kind, a, b)
    if known is not None:
        return known
    a, b = t.view(a), t.view(b)
    if is_float(a):
        return compare(t, FLOATS[kind], a, b)
    if kind in ("EQ", "NE"):
        return compare(t, kind.lower(), a, b)
    return compare(t, ("u" if unsigned(op.operands[0]) else "s") + kind.lower(), a, b)


def decided(t, op, kind, a, b):
    """The result where the extents of an integer argument tell it, else None."""
    if isinstance(a, np.ndarray):
        a, b, kind = b, a, MIRRORED[kind]
    bound = number(b)
    if not isinstance(a, View) or is_float(a) or not isinstance(b, np.ndarray) or \
            bound is None or a.dtype == "i1" or unsigned(op.operands[0]):
        return None
    found = t.extent(a)
    if found is None:
        return None
    argument, low, high = found
    if kind in ("LT", "GE"):
        kind, bound = {"LT": "LE", "GE": "GT"}[kind], bound - 1
    if kind not in ("LE", "GT"):
        return None
    if high <= bound:  # all are at most the bound
        t.need(argument, greatest=bound)
    elif low > bound:
        t.need(argument, least=bound + 1)
    else:
        return None
    return np.broadcast_to(np.asarray((kind == "LE") == (high <= bound)), a.shape)


@hlo("select")
def choose(t, op, condition, a, b):
    known = number(condition)
    if known is not None:
        result = a if known else b
        shape = type_of(op.results[0]).shape
        return result if result.shape == shape else t.view(result)
    return t.select(t.view(condition), t.view(a), t.view(b))


@hlo("clamp")
def clamp(t, op, low, x, high):
    low, x, high = t.view(low), t.view(x), t.view(high)
    kinds = ("imumf", "imumf") if is_float(x) else \
        ("ui", "ui") if unsigned(op.operands[1]) else ("si", "si")
    return t.apply("arith.min" + kinds[1], t.apply("arith.max" + kinds[0], x, low), high)


# --- conversions ------------------------------------------------------------------------ #

def cast(t, x, dtype, from_unsigned=False, to_unsigned=False):
    """The numbers of a View in another type."""
    old, new = Type((), x.dtype), Type((), dtype)
    if dtype == x.dtype:
        return x
    if dtype == "i1":
        return compare(t, "une" if old.is_float else "ne", x, 0)
    if old.is_float and new.is_float:
        if old.width == new.width:
            return cast(t, cast(t, x, "f32"), dtype)
        name = "arith.extf" if new.width > old.width else "arith.truncf"
    elif old.is_float:
        name = "arith.fptoui" if to_unsigned else "arith.fptosi"
    elif new.is_float:
        name = "arith.uitofp" if from_unsigned else "arith.sitofp"
    elif new.width > old.width:
        name = "arith.extui" if from_unsigned else "arith.extsi"
    else:
        name = "arith.trunci"
    value = t.builder.create(name, [x.base], [Type(x.base.shape, dtype)])[0]
    return View(value, x.factors, x.dims)


@hlo("convert")
def convert(t, op, x):
    return cast(t, t.view(x), type_of(op.results[0]).dtype, unsigned(op.operands[0]),
                unsigned(op.results[0]))


@hlo("bitcast_convert")
def bitcast(t, op, x):
    x, dtype = t.view(x), element_type(op.results[0].type)
    if Type((), dtype).width != x.type.width:
        raise Unsupported("between types of different size")
    if dtype == x.dtype:
        return x
    value = t.builder.create("arith.bitcast", [x.base], [Type(x.base.shape, dtype)])[0]
    return View(value, x.factors, x.dims)


@hlo("reduce_precision")
def reduce_precision(t, op, x):
    x = t.view(x)
    bits = (op.attributes["exponent_bits"].value, op.attributes["mantissa_bits"].value)
    kinds = {(8, 7): "bf16", (5, 10): "f16", (8, 23): "f32", (11, 52): "f64"}
    if bits not in kinds:
        raise Unsupported(f"to {bits[0]} bits of exponent and {bits[1]} of mantissa")
    return cast(t, cast(t, x, kinds[bits]), x.dtype)


@hlo("optimization_barrier", "sdy.sharding_constraint")
def barrier(t, op, *operands):
    return operands


@hlo("complex", "real", "imag", "fft")
def complex_numbers(t, op, *operands):
    raise Unsupported("complex numbers")

