# ===- pointwise.py - elementwise operators and reductions ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of operators that work element by element, and of reductions."""

import math

import torch

from ..emit.movement import joined
from ..emit.pointwise import CMPF, CMPI, align, compare_values, reduce  # noqa: F401
from ..emit.views import View, splat_value
from ..errors import Unsupported
from ..ir.graph import Type
from ..torch_front.dtypes import TORCH_DTYPES
from .convert import aten, mlir_dtype

def emit_cast(c, value, dtype):
    """`value` as `dtype`, by PyTorch's rules for .to()."""
    old, new = value.type, Type(value.shape, dtype)
    if old == new:
        return value
    if dtype == "i1":
        zero = c.builder.constant(0, old)
        if old.is_float:
            return compare_values(c, "une", value, zero)
        return compare_values(c, "ne", value, zero)
    if old.is_float and new.is_float:
        if {old.dtype, dtype} == {"f16", "bf16"}:
            value = emit_cast(c, value, "f32")
            return emit_cast(c, value, dtype)
        name = "arith.extf" if new.width > old.width else "arith.truncf"
    elif old.is_float:
        name = "arith.fptosi"
    elif new.is_float:
        name = "arith.uitofp" if old.dtype == "i1" else "arith.sitofp"
    elif new.width > old.width:
        name = "arith.extui" if old.dtype == "i1" else "arith.extsi"
    else:
        name = "arith.trunci"
    return c.builder.create(name, [value], [new])[0]


def cast(c, x, dtype):
    x = c.view(x)
    if x.dtype == dtype:
        return x
    return View(emit_cast(c, x.base, dtype), x.factors, x.dims)


def operands(c, args, dtype):
    """Views of tensors and Python numbers, all of `dtype`."""
    return [cast(c, a, dtype) if not isinstance(a, (int, float, bool))
            else c.scalar(a, dtype) for a in args]


def elementwise(c, args, make):
    """`make(values)` on Views brought to one shape."""
    values, wrap = align(c.builder, args)
    return wrap(make(*values))


def simple(c, name, args):
    """An op whose operands and result are of one type."""
    return elementwise(c, args, lambda *v: c.builder.create(name, v, [v[0].type])[0])


def arithmetic(c, kind, *args):
    """add, sub, mul, … in the type of the current node's result."""
    dtype = c.result_meta()[1]
    if dtype == "i1":  # as PyTorch: a sum is a disjunction, a product a conjunction
        if kind not in ("add", "mul"):
            raise Unsupported("arithmetic on booleans")
        return simple(c, "arith.ori" if kind == "add" else "arith.andi",
                      operands(c, args, dtype))
    suffix = "f" if Type((), dtype).is_float else "i"
    return simple(c, f"arith.{kind}{suffix}", operands(c, args, dtype))


# The same on values of one type inside a formula.
def formula(c, kind, *args):
    dtype = next(a.dtype for a in args if isinstance(a, View))
    return simple(c, kind if "." in kind else f"arith.{kind}f",
                  operands(c, args, dtype))


def scaled(c, x, alpha):
    return x if alpha == 1 else arithmetic(c, "mul", x, alpha)


@aten("add.Tensor", "add.Scalar")
def add(c, node, a, b, alpha=1):
    for x, y in ((a, b), (b, a)):
        if hasattr(x, "plus") and alpha == 1:  # loss.py
            return x.plus(c, y)
    if isinstance(a, View) and isinstance(b, View) and alpha == 1:
        whole = joined(c, a, b)
        if whole is not None:
            return whole
    return arithmetic(c, "add", a, scaled(c, b, alpha))


@aten("sub.Tensor", "sub.Scalar")
def sub(c, node, a, b, alpha=1):
    return arithmetic(c, "sub", a, scaled(c, b, alpha))


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(c, node, a, b, alpha=1):
    return arithmetic(c, "sub", b, scaled(c, a, alpha))


@aten("mul.Tensor", "mul.Scalar")
def mul(c, node, a, b):
    return arithmetic(c, "mul", a, b)


@aten("div.Tensor", "div.Scalar")
def div(c, node, a, b):
    return arithmetic(c, "div", a, b)


@aten("maximum")
def maximum(c, node, a, b):
    return extremum(c, "max", a, b)


@aten("minimum")
def minimum(c, node, a, b):
    return extremum(c, "min", a, b)


def extremum(c, kind, a, b):
    dtype = c.result_meta()[1]
    name = f"arith.{kind}imumf" if Type((), dtype).is_float else f"arith.{kind}si"
    return simple(c, name, operands(c, [a, b], dtype))


@aten("clamp", "hardtanh")
def clamp(c, node, x, low=None, high=None):
    if "hardtanh" in str(node.target):
        low, high = (-1.0 if low is None else low), (1.0 if high is None else high)
    if low is not None:
        x = extremum(c, "max", x, low)
    return x if high is None else extremum(c, "min", x, high)


@aten("clamp_min")
def clamp_min(c, node, x, low):
    return extremum(c, "max", x, low)


def unary(name, *overloads):
    @aten(*overloads)
    def translate(c, node, x):
        return simple(c, name, operands(c, [x], c.result_meta()[1]))


unary("math.exp", "exp")
unary("math.log", "log")
unary("math.sqrt", "sqrt")
unary("math.rsqrt", "rsqrt")
unary("math.tanh", "tanh")
unary("math.erf", "erf")
unary("math.sin", "sin")
unary("math.cos", "cos")


@aten("neg")
def neg(c, node, x):
    x = c.view(x)
    return simple(c, "arith.negf", [x]) if x.base.type.is_float else \
        arithmetic(c, "sub", 0, x)


@aten("abs")
def magnitude(c, node, x):
    x = c.view(x)
    return simple(c, "math.absf" if x.base.type.is_float else "math.absi", [x])


@aten("reciprocal")
def reciprocal(c, node, x):
    return arithmetic(c, "div", 1.0, x)


@aten("sgn", "sign")
def sign(c, node, x):
    """0 of either zero and of NaN, too."""
    x = c.view(x)
    kind = "o" if x.base.type.is_float else "s"
    below = select(c, compare(c, kind + "lt", x, 0), *operands(c, [-1, 0], x.dtype))
    return select(c, compare(c, kind + "gt", x, 0), 1, below)


@aten("pow.Tensor_Scalar")
def power(c, node, x, exponent):
    x = cast(c, x, c.result_meta()[1])
    if exponent == 0:
        return c.scalar(1, x.dtype).expand(x.shape)
    if not x.base.type.is_float:
        return whole_power(c, x, exponent)
    if exponent in (1, 2, 3):
        result = x
        for _ in range(int(exponent) - 1):
            result = formula(c, "mul", result, x)
        return result
    if exponent == 0.5:
        return formula(c, "math.sqrt", x)
    if exponent == -0.5:
        return formula(c, "math.rsqrt", x)
    if exponent == -1:
        return formula(c, "div", 1.0, x)
    return formula(c, "math.powf", x, exponent)


def whole_power(c, x, exponent):
    """Of integers, by squares."""
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else arithmetic(c, "mul", result, x)
        exponent >>= 1
        if exponent:
            x = arithmetic(c, "mul", x, x)
    return result


@aten("pow.Tensor_Tensor", "pow.Scalar")
def power_tensor(c, node, x, y):
    if not Type((), c.result_meta()[1]).is_float:
        raise Unsupported("power of integers")
    return simple(c, "math.powf", operands(c, [x, y], c.result_meta()[1]))


def select(c, condition, a, b):
    """`a` where the condition holds; numbers are of the other side's type."""
    dtype = next(c.view(x).dtype for x in (a, b) if not isinstance(x, (int, float)))
    condition = c.view(condition)
    inverse = negated(condition.base)
    if inverse is not None:  # select(not p, a, b) is select(p, b, a)
        condition, a, b = View(inverse, condition.factors, condition.dims), b, a
    views = [condition] + operands(c, [a, b], dtype)
    return elementwise(c, views, lambda p, x, y: c.builder.create(
        "arith.select", [p, x, y], [x.type])[0])


def negated(value):
    """What a value is the logical negation of, or None."""
    if value.op is None or value.op.name != "arith.xori":
        return None
    return value.op.operands[0] if splat_value(value.op.operands[1]) == 1 else None


@aten("where.self")
def where(c, node, condition, a, b):
    dtype = c.result_meta()[1]
    a, b = operands(c, [a, b], dtype)
    return select(c, condition, a, b)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c, node, x, mask, value):
    return select(c, mask, *operands(c, [value, x], c.result_meta()[1]))


def compare(c, predicate, a, b):
    kinds = [a if isinstance(a, (int, float)) else
             torch.empty(c.view(a).shape, dtype=TORCH_DTYPES[c.view(a).dtype],
                         device="meta") for a in (a, b)]
    dtype = mlir_dtype(torch.result_type(*kinds))
    return elementwise(c, operands(c, [a, b], dtype),
                       lambda x, y: compare_values(c, predicate, x, y))


def comparison(name, for_floats, for_integers):
    @aten(name + ".Tensor", name + ".Scalar")
    def translate(c, node, a, b):
        is_float = any(isinstance(x, float) or
                       not isinstance(x, int) and c.view(x).base.type.is_float
                       for x in (a, b))
        return compare(c, for_floats if is_float else for_integers, a, b)


comparison("eq", "oeq", "eq")
comparison("ne", "une", "ne")
comparison("lt", "olt", "slt")
comparison("le", "ole", "sle")
comparison("gt", "ogt", "sgt")
comparison("ge", "oge", "sge")


@aten("bitwise_not", "logical_not")
def logical_not(c, node, x):
    x = c.view(x)
    if "logical" in str(node.target):
        x = cast(c, x, "i1")
    return simple(c, "arith.xori", [x, c.scalar(1 if x.dtype == "i1" else -1, x.dtype)])


def bitwise(op, name):
    @aten(f"bitwise_{name}")
    def translate(c, node, a, b):
        return simple(c, op, operands(c, [a, b], c.result_meta()[1]))

    @aten(f"logical_{name}")
    def translate_logical(c, node, a, b):
        return simple(c, op, operands(c, [a, b], "i1"))


bitwise("arith.andi", "and")
bitwise("arith.ori", "or")
bitwise("arith.xori", "xor")


@aten("_to_copy")
def to_copy(c, node, x, *args, **kwargs):
    return cast(c, x, c.result_meta()[1])


# --- reductions --------------------------------------------------------------- #

def reduced(c, kind, x, dims, keep):
    x = cast(c, x, c.result_meta()[1])
    dims = range(len(x.dims)) if dims is None or dims == [] else dims
    return reduce(c.builder, kind, x, [dims] if isinstance(dims, int) else dims, keep)


@aten("sum.dim_IntList", "sum.default")
def sum_(c, node, x, dims=None, keepdim=False, dtype=None):
    return reduced(c, "sum", x, dims, keepdim)


@aten("mean.dim", "mean.default")
def mean(c, node, x, dims=None, keepdim=False, dtype=None):
    x = c.view(x)
    total = reduced(c, "sum", x, dims, keepdim)
    count = math.prod(x.shape) // math.prod(total.shape)
    return formula(c, "div", total, float(count))


@aten("amax")
def amax(c, node, x, dims=None, keepdim=False):
    return reduced(c, "max", x, dims, keepdim)


@aten("amin")
def amin(c, node, x, dims=None, keepdim=False):
    return reduced(c, "min", x, dims, keepdim)
