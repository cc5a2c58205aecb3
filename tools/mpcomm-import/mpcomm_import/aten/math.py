# ===- math.py - functions, division and bits -----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of elementwise operators beyond those of pointwise.py: functions
of math, rounding, division in all its forms, bits, classes of numbers."""

import math

from ..emit.views import splat_value
from ..errors import Unsupported
from ..ir.graph import Type
from .convert import aten
from .pointwise import (arithmetic, cast, compare, extremum, formula, operands, select,
                        simple, unary)

for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erfc", "exp2",
             "expm1", "log10", "log1p", "log2", "sinh", "tan"):
    unary("math." + name, name)


def is_float(view):
    return view.base.type.is_float


def bits(view):
    return Type((), view.dtype).width


# --- rounding -------------------------------------------------------------------- #

def rounding(name, operator):
    @aten(operator)
    def translate(c, node, x):
        x = c.view(x)
        return simple(c, name, [x]) if is_float(x) else x


rounding("math.floor", "floor")
rounding("math.ceil", "ceil")
rounding("math.trunc", "trunc")
rounding("math.roundeven", "round.default")


@aten("frac")
def frac(c, node, x):
    x = c.view(x)
    return formula(c, "sub", x, simple(c, "math.trunc", [x]))


# --- division -------------------------------------------------------------------- #

def both(c, a, b):
    """The operands in the type of the result, and whether it is a float."""
    dtype = c.result_meta()[1]
    return *operands(c, [a, b], dtype), Type((), dtype).is_float


def safely(c, op, a, b, by_minus_one):
    """A division of integers that has no undefined case: by zero it is by one, and
    by minus one it is `by_minus_one(a)`, which does not overflow."""
    value = splat_value(b.base)
    if value not in (None, 0, -1):
        return simple(c, op, [a, b])
    negative = compare(c, "eq", b, -1)
    one = c.scalar(1, b.dtype)
    b = select(c, negative, one, select(c, compare(c, "eq", b, 0), one, b))
    return select(c, negative, by_minus_one(a), simple(c, op, [a, b]))


def quotient(c, op, a, b):
    return safely(c, op, a, b,
                  lambda a: simple(c, "arith.subi", [c.scalar(0, a.dtype), a]))


def rest(c, a, b, real):
    """With the sign of the dividend."""
    return simple(c, "arith.remf", [a, b]) if real else \
        safely(c, "arith.remsi", a, b, lambda a: c.scalar(0, a.dtype).expand(a.shape))


def differ(c, a, b):
    """Whether one of two numbers is negative."""
    signs = [compare(c, "olt" if is_float(x) else "slt", x, 0) for x in (a, b)]
    return simple(c, "arith.xori", signs)


def modulus(c, a, b, real):
    """(With the sign of the divisor, whether that takes one divisor more.)"""
    r = rest(c, a, b, real)
    wrong = simple(c, "arith.andi", [compare(c, "une" if real else "ne", r, 0),
                                     differ(c, r, b)])
    return select(c, wrong, simple(c, "arith.addf" if real else "arith.addi", [r, b]),
                  r), wrong


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(c, node, a, b):
    a, b, real = both(c, a, b)
    return rest(c, a, b, real)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(c, node, a, b):
    return modulus(c, *both(c, a, b))[0]


def floored(c, a, b, real):
    if not real:
        return quotient(c, "arith.floordivsi", a, b)
    # Of a multiple of b below a, which is exact, to the nearest integer, and of the
    # sign that it has where it is zero; as Python.
    r = rest(c, a, b, True)
    wrong = simple(c, "arith.andi", [compare(c, "une", r, 0.0), differ(c, r, b)])
    multiple = formula(c, "div", formula(c, "sub", a, r), b)
    multiple = select(c, wrong, formula(c, "sub", multiple, 1.0), multiple)
    below = simple(c, "math.floor", [multiple])
    near = select(c, compare(c, "ogt", formula(c, "sub", multiple, below), 0.5),
                  formula(c, "add", below, 1.0), below)
    exact = formula(c, "div", a, b)
    zero = simple(c, "math.copysign", operands(c, [0.0, exact], a.dtype))
    result = select(c, compare(c, "une", multiple, 0.0), near, zero)
    return select(c, compare(c, "oeq", b, 0.0), exact, result)


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c, node, a, b, rounding_mode=None):
    if rounding_mode is None:
        return arithmetic(c, "div", a, b)
    a, b, real = both(c, a, b)
    if rounding_mode == "floor":
        return floored(c, a, b, real)
    return simple(c, "math.trunc", [formula(c, "div", a, b)]) if real else \
        quotient(c, "arith.divsi", a, b)


@aten("floor_divide")
def floor_divide(c, node, a, b):
    return floored(c, *both(c, a, b))


# --- bits ------------------------------------------------------------------------ #

def shift(op, *names):
    @aten(*names)
    def translate(c, node, a, b):
        a, b, _ = both(c, a, b)
        width, left = bits(a), op == "arith.shli"
        # By a negative number it is as by a large one.
        whole = simple(c, "arith.shrsi", [a, c.scalar(width - 1, a.dtype)])
        value = splat_value(b.base)
        if value is None or not 0 <= value < width:
            fits = compare(c, "ult", b, width)
            b = select(c, fits, b, 0)
            return select(c, fits, simple(c, op, [a, b]),
                          c.scalar(0, a.dtype) if left else whole)
        return simple(c, op, [a, b])


shift("arith.shli", "bitwise_left_shift", "__lshift__")
shift("arith.shrsi", "bitwise_right_shift", "__rshift__")


# --- classes of numbers ------------------------------------------------------------ #

def of_class(name, test):
    """A class of numbers without integers."""
    @aten(name)
    def translate(c, node, x):
        x = c.view(x)
        return test(c, x) if is_float(x) else c.scalar(False, "i1").expand(x.shape)


of_class("isnan", lambda c, x: compare(c, "uno", x, x))
of_class("isinf", lambda c, x: compare(c, "oeq", simple(c, "math.absf", [x]), math.inf))


# --- functions of two numbers -------------------------------------------------------- #

def binary(name, *overloads):
    @aten(*overloads)
    def translate(c, node, a, b):
        return simple(c, name, operands(c, [a, b], c.result_meta()[1]))


binary("math.atan2", "atan2")
binary("math.copysign", "copysign.Tensor", "copysign.Scalar")
binary("arith.maxnumf", "fmax")
binary("arith.minnumf", "fmin")


@aten("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")
def xlogy(c, node, x, y):
    x, y = operands(c, [x, y], c.result_meta()[1])
    product = formula(c, "mul", x, simple(c, "math.log", [y]))
    zero = select(c, compare(c, "oeq", x, 0.0), c.scalar(0.0, x.dtype), product)
    return select(c, compare(c, "uno", y, y), y, zero)


@aten("addcmul")
def addcmul(c, node, x, a, b, value=1):
    product = arithmetic(c, "mul", a, b)
    if value != 1:
        product = arithmetic(c, "mul", product, value)
    return arithmetic(c, "add", x, product)


@aten("addcdiv")
def addcdiv(c, node, x, a, b, value=1):
    a = cast(c, a, c.result_meta()[1])
    if value != 1:
        a = arithmetic(c, "mul", a, value)
    return arithmetic(c, "add", x, arithmetic(c, "div", a, b))


@aten("lerp.Scalar", "lerp.Tensor")
def lerp(c, node, a, b, weight):
    """From the end that is nearer, so that a weight of 1 gives b."""
    a, b, weight = operands(c, [a, b, weight], c.result_meta()[1])
    gap = formula(c, "sub", b, a)
    low = formula(c, "add", a, formula(c, "mul", weight, gap))
    high = formula(c, "sub", b, formula(c, "mul", gap, formula(c, "sub", 1.0, weight)))
    return select(c, compare(c, "olt", simple(c, "math.absf", [weight]), 0.5), low, high)


@aten("clamp.Tensor")
def clamp_tensor(c, node, x, low=None, high=None):
    if low is not None:
        x = extremum(c, "max", x, low)
    return x if high is None else extremum(c, "min", x, high)


@aten("clamp_min.Tensor")
def clamp_min_tensor(c, node, x, low):
    return extremum(c, "max", x, low)


@aten("clamp_max")
def clamp_max(c, node, x, high):
    return extremum(c, "min", x, high)
