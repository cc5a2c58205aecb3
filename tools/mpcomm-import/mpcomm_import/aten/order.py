# ===- order.py - reductions, order and running totals --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of reductions beyond sums, of those that give indices, and of what
depends on the order of elements."""

import math

from ..emit.pointwise import along, reduce, resize
from ..emit.views import View, materialise
from ..ir.graph import Type, enum
from .convert import aten
from .emit.positions import reversed_from, reversed_value
from .math import is_float
from .pointwise import (cast, compare, compare_values, elementwise, formula, reduced,
                        select, simple)


def all_dims(x, dims):
    """A list of dimensions in PyTorch's forms: a number, a list, none for all."""
    if dims is None or dims == []:
        return list(range(len(x.dims)))
    return [dims] if isinstance(dims, int) else list(dims)


# --- plain reductions ------------------------------------------------------------- #

def truth(names, kind):
    """Disjunction and conjunction are the sum and the product of booleans."""
    @aten(*names)
    def translate(c, node, x, dims=None, keepdim=False):
        x = cast(c, x, "i1")
        result = reduce(c.builder, kind, x, all_dims(x, dims), keepdim)
        return cast(c, result, c.result_meta()[1])


truth(("any.default", "any.dim", "any.dims"), "sum")
truth(("all.default", "all.dim", "all.dims"), "prod")


@aten("prod.default", "prod.dim_int")
def prod(c, node, x, dim=None, keepdim=False, dtype=None):
    return reduced(c, "prod", x, dim if isinstance(dim, int) else None, keepdim)


@aten("max.default")
def max_of_all(c, node, x):
    return reduced(c, "max", x, None, False)


@aten("min.default")
def min_of_all(c, node, x):
    return reduced(c, "min", x, None, False)


@aten("logsumexp")
def logsumexp(c, node, x, dims, keepdim=False):
    x = cast(c, x, c.result_meta()[1])
    dims = all_dims(x, dims)
    top = reduce(c.builder, "max", x, dims, True)
    infinite = compare(c, "oeq", simple(c, "math.absf", [top]), math.inf)
    top = select(c, infinite, 0.0, top)
    total = reduce(c.builder, "sum", formula(c, "math.exp", formula(c, "sub", x, top)),
                   dims, True)
    result = formula(c, "add", formula(c, "math.log", total), top)
    if keepdim:
        return result
    dims = {d % len(x.dims) for d in dims} if x.dims else set()
    return result.with_dims([d for i, d in enumerate(result.dims) if i not in dims])


@aten("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar",
      "norm.ScalarOpt_dim_dtype")
def norm(c, node, x, order=2, dims=None, keepdim=False, dtype=None):
    """Of 16-bit numbers it is computed in f32, as PyTorch's is."""
    result = c.result_meta()[1]
    x = cast(c, x, "f32" if result in ("f16", "bf16") else result)
    value = norm_of(c, x, 2 if order is None else order, all_dims(x, dims), keepdim)
    return cast(c, value, result)


def norm_of(c, x, order, dims, keepdim):
    def total(kind, terms):
        return reduce(c.builder, kind, terms, dims, keepdim)

    if order == 2:
        return formula(c, "math.sqrt", total("sum", formula(c, "mul", x, x)))
    size = simple(c, "math.absf", [x])
    if order == 0:
        return total("sum", cast(c, compare(c, "une", x, 0.0), x.dtype))
    if order == 1:
        return total("sum", size)
    if abs(order) == math.inf:
        return total("max" if order > 0 else "min", size)
    return formula(c, "math.powf", total("sum", formula(c, "math.powf", size,
                                                        float(order))), 1.0 / order)


# --- reductions with indices -------------------------------------------------------- #

def counted(c, x, dim, dtype):
    """The index along seen dimension `dim`, broadcast to the shape of x."""
    size = x.shape[dim]
    line = View.of(c.builder.create("mpcomm.iota", [], [Type((size,), dtype)], dim=0)[0])
    return line.reshape([size if d == dim else 1 for d in range(len(x.shape))])


def first_extreme(c, kind, x, dim, keep):
    """(Value, index) of the first extreme along `dim`; NaN is the extreme of what has
    it."""
    dim %= len(x.dims)
    top = reduce(c.builder, kind, x, [dim], True)
    real = is_float(x)
    found = compare(c, "oeq" if real else "eq", x, top)
    if real:
        found = simple_or(c, found, compare(c, "uno", x, x))
    size = x.shape[dim]
    index = select(c, found, counted(c, x, dim, "i32"), c.scalar(size - 1, "i32"))
    index = cast(c, reduce(c.builder, "min", index, [dim], keep), "i64")
    return top if keep else dropped(top, dim), index


def dropped(view, dim):
    return view.with_dims([d for i, d in enumerate(view.dims) if i != dim])


def simple_or(c, a, b):
    return simple(c, "arith.ori", [a, b])


def as_number(c, x):
    """Comparisons of booleans are of 0 and 1."""
    x = c.view(x)
    return cast(c, x, "i32") if x.dtype == "i1" else x


def with_extreme(name, kind):
    @aten(f"{name}.dim")
    def translate(c, node, x, dim, keepdim=False):
        dtype, x = c.view(x).dtype, as_number(c, x)
        if not x.dims:
            return cast(c, x, dtype), c.scalar(0, "i64")
        value, index = first_extreme(c, kind, x, dim, keepdim)
        return cast(c, value, dtype), index

    @aten("arg" + name)
    def translate_index(c, node, x, dim=None, keepdim=False):
        x = as_number(c, x)
        if not x.dims:
            return c.scalar(0, "i64")
        if dim is not None:
            return first_extreme(c, kind, x, dim, keepdim)[1]
        flat = View.of(materialise(c.builder, x)).reshape([math.prod(x.shape)])
        index = first_extreme(c, kind, flat, 0, False)[1]
        return index.expand([1] * len(x.dims)) if keepdim else index


with_extreme("max", "max")
with_extreme("min", "min")


@aten("aminmax")
def aminmax(c, node, x, dim=None, keepdim=False):
    return tuple(reduced_like(c, kind, x, dim, keepdim) for kind in ("min", "max"))


def reduced_like(c, kind, x, dim, keepdim):
    x = c.view(x)
    return reduce(c.builder, kind, x, all_dims(x, dim), keepdim)


# --- order ------------------------------------------------------------------------ #

def top_k(c, x, dim, k, largest):
    """(The first k in order, their indices) along seen dimension `dim`."""
    found = []

    def make(value, at):
        shape = list(value.shape)
        shape[at] = k
        found[:] = c.builder.create(
            "mpcomm.top_k", [value], [Type(shape, value.dtype), Type(shape, "i64")],
            dim=at, k=k, largest=largest)
        return found[0]

    values = resize(c.builder, x, dim, k, make)
    return values, View(found[1], values.factors, values.dims)


@aten("topk")
def topk(c, node, x, k, dim=-1, largest=True, sorted=True):
    x = c.view(x)
    if not x.dims:
        return x, c.scalar(0, "i64")
    return top_k(c, x, dim, k, largest)


@aten("sort.default", "sort.stable")
def sort(c, node, x, *args, stable=None, dim=-1, descending=False):
    if args:
        dim, descending = (*args, descending)[:2]
    x = c.view(x)
    if not x.dims:
        return x, c.scalar(0, "i64")
    return top_k(c, x, dim, x.shape[dim], descending)


def picked(c, pair, dim, keepdim):
    """The last along `dim` of values and of indices."""
    def last(view):
        size = view.shape[dim]

        def cut(value, at):
            starts, limits = [0] * len(value.shape), list(value.shape)
            starts[at], shape = size - 1, list(value.shape)
            shape[at] = 1
            return c.builder.create("mpcomm.slice", [value], [Type(shape, value.dtype)],
                                    starts=starts, limits=limits,
                                    strides=[1] * len(shape))[0]

        view = resize(c.builder, view, dim, 1, cut)
        return view if keepdim else dropped(view, dim)

    return tuple(map(last, pair))


@aten("kthvalue")
def kthvalue(c, node, x, k, dim=-1, keepdim=False):
    x = c.view(x)
    if not x.dims:
        return x, c.scalar(0, "i64")
    dim %= len(x.dims)
    return picked(c, top_k(c, x, dim, k, False), dim, keepdim)


@aten("median.dim")
def median_dim(c, node, x, dim, keepdim=False):
    """The lower of two in the middle; the first NaN, if there is one."""
    x = c.view(x)
    if not x.dims:
        return x, c.scalar(0, "i64")
    dim %= len(x.dims)
    k = (x.shape[dim] + 1) // 2
    value, index = picked(c, top_k(c, x, dim, k, False), dim, keepdim)
    if not is_float(x):
        return value, index
    top, first = first_extreme(c, "max", x, dim, keepdim)
    missing = compare(c, "uno", top, top)
    return select(c, missing, top, value), select(c, missing, first, index)


@aten("median.default")
def median(c, node, x):
    x = c.view(x)
    flat = View.of(materialise(c.builder, x)).reshape([math.prod(x.shape)])
    return median_dim(c, node, flat, 0)[0] if flat.dims else flat


# --- running totals ------------------------------------------------------------------ #

def running(c, kind, x, dim):
    if not x.dims:
        return x
    (value,), at, wrap = along(c.builder, [x], dim)

    def total(value, reverse):
        return c.builder.create("mpcomm.cumulative", [value], [value.type], dim=at,
                                reduction=enum("reduction", kind), reverse=reverse)[0]

    # A gradient is reversed before and after.
    straight = reversed_from(value, at)
    return wrap(total(value, False) if straight is None else
                reversed_value(c, total(straight, True), at))


@aten("cumsum")
def cumsum(c, node, x, dim, dtype=None):
    return running(c, "sum", cast(c, x, c.result_meta()[1]), dim)


@aten("cumprod")
def cumprod(c, node, x, dim, dtype=None):
    return running(c, "prod", cast(c, x, c.result_meta()[1]), dim)


def running_extreme(name, kind):
    @aten(name)
    def translate(c, node, x, dim):
        """The index is that of the last element that is the extreme so far."""
        dtype, x = c.view(x).dtype, as_number(c, x)
        if not x.dims:
            return cast(c, x, dtype), c.scalar(0, "i64")
        dim %= len(x.dims)
        value = running(c, kind, x, dim)
        found = compare(c, "oeq" if is_float(x) else "eq", x, value)
        if is_float(x):
            found = simple_or(c, found, compare(c, "uno", x, x))
        index = select(c, found, counted(c, x, dim, "i32"), c.scalar(0, "i32"))
        index = running(c, "max", index, dim)
        return cast(c, value, dtype), cast(c, index, "i64")


running_extreme("cummax", "max")
running_extreme("cummin", "min")


@aten("logcumsumexp")
def logcumsumexp(c, node, x, dim):
    """In log2(n) passes, each of which adds exponentials of two partners."""
    x = c.view(x)
    if not x.dims:
        return x
    values, at, wrap = along(c.builder, [x], dim)
    value = values[0]
    b, type, stride = c.builder, value.type, 1
    bottom = b.constant(-math.inf, Type((), type.dtype))
    while stride < type.shape[at]:
        limits, low = list(type.shape), [0] * len(type.shape)
        limits[at] -= stride
        low[at] = stride
        part = b.create("mpcomm.slice", [value], [Type(limits, type.dtype)],
                        starts=[0] * len(limits), limits=limits,
                        strides=[1] * len(limits))[0]
        before = b.create("mpcomm.pad", [part, bottom], [type], low=low,
                          high=[0] * len(limits), interior=[0] * len(limits))[0]
        value = log_add(c, View.of(value), View.of(before)).base
        stride *= 2
    return wrap(value)


def log_add(c, x, y):
    """log(exp(x) + exp(y))."""
    top, bottom = extreme_of(c, "max", x, y), extreme_of(c, "min", x, y)
    gap = formula(c, "sub", bottom, top)
    total = formula(c, "add", top, formula(c, "math.log1p", formula(c, "math.exp", gap)))
    # Two infinities of one sign have no gap.
    return select(c, compare(c, "oeq", x, y), formula(
        c, "add", x, math.log(2.0)), total)


def extreme_of(c, kind, x, y):
    return simple(c, f"arith.{kind}imumf", [x, y])


# --- triangles ------------------------------------------------------------------------ #

def triangle(name, predicate):
    @aten(name)
    def translate(c, node, x, diagonal=0):
        x = c.view(x)
        rank = len(x.dims)
        row, column = (counted(c, x, d, "i32") for d in (rank - 2, rank - 1))
        last = simple(c, "arith.addi", [row, c.scalar(diagonal, "i32")])
        keep = elementwise(c, [column, last],
                           lambda a, b: compare_values(c, predicate, a, b))
        return select(c, keep, x, c.scalar(0, x.dtype))


triangle("tril", "sle")
triangle("triu", "sge")
