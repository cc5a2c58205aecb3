# ===- neural.py - layers, and matrix products ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of products, softmax, GELU, and of their gradients."""

import math

from ..emit.contraction import contract
from ..emit.pointwise import align, along, reduce
from ..emit.views import View
from ..errors import Unsupported
from ..ir.graph import enum
from .convert import aten
from .pointwise import cast, compare, formula, select

# --- products ---------------------------------------------------------------------- #


@aten("mm")
def mm(c, node, a, b):
    return contract(c.builder, c.view(a), c.view(b), contracting=[(1, 0)])


@aten("bmm")
def bmm(c, node, a, b):
    return contract(c.builder, c.view(a), c.view(b), [(0, 0)], [(2, 1)])


@aten("mv")
def mv(c, node, a, b):
    return contract(c.builder, c.view(a), c.view(b), contracting=[(1, 0)])


@aten("dot")
def dot(c, node, a, b):
    return contract(c.builder, c.view(a), c.view(b), contracting=[(0, 0)])


def plus(c, product, x, beta, alpha):
    """alpha product + beta x; of 16 bits, whose factors may have more, in f32."""
    dtype = product.dtype
    if {alpha, beta} - {0, 1} and product.base.type.is_float and product.base.type.width == 16:
        product, x = cast(c, product, "f32"), cast(c, x, "f32")
    kind = "f" if product.base.type.is_float else "i"
    if alpha != 1:
        product = formula(c, f"arith.mul{kind}", product, alpha)
    if beta != 0:
        x = c.view(x)
        scaled = x if beta == 1 else formula(c, f"arith.mul{kind}", x, beta)
        product = formula(c, f"arith.add{kind}", product, scaled)
    return cast(c, product, dtype)


@aten("addmm")
def addmm(c, node, x, a, b, beta=1, alpha=1):
    return plus(c, mm(c, node, a, b), x, beta, alpha)


@aten("baddbmm")
def baddbmm(c, node, x, a, b, beta=1, alpha=1):
    return plus(c, bmm(c, node, a, b), x, beta, alpha)


# --- softmax, GELU ------------------------------------------------------------------------ #

def along_dim(c, name, views, dim):
    """The op `name` of views of one shape; the last one has its result's layout. A number
    is a line of one."""
    if not views[0].dims:
        lines = [View(v.base, v.factors, [[]]) for v in views]
        return along_dim(c, name, lines, 0).with_dims([])
    values, at, wrap = along(c.builder, views[::-1], dim)
    return wrap(c.builder.create("mpcomm." + name, values[::-1], [values[0].type], dim=at)[0])


@aten("_softmax")
def softmax(c, node, x, dim, half_to_float):
    return along_dim(c, "softmax", [c.view(x)], dim)


@aten("_safe_softmax")
def safe_softmax(c, node, x, dim, dtype=None):
    """Softmax with zeros in slices that are all -inf."""
    x = c.view(x)
    if x.dtype != c.result_meta()[1]:
        raise Unsupported("with another type of result")
    top = reduce(c.builder, "max", x, [dim], True)
    return select(c, compare(c, "oeq", top, -math.inf), 0.0,
                  along_dim(c, "softmax", [x], dim))


@aten("_softmax_backward_data")
def softmax_backward(c, node, grad, y, dim, dtype):
    return along_dim(c, "softmax_grad", [c.view(grad), c.view(y)], dim)


@aten("gelu")
def gelu(c, node, x, approximate="none"):
    x = c.view(x)
    return View(c.builder.create(
        "mpcomm.gelu", [x.base], [x.base.type],
        approximate=enum("gelu_approximation", approximate))[0], x.factors, x.dims)


@aten("gelu_backward")
def gelu_backward(c, node, grad, x, approximate="none"):
    values, wrap = align(c.builder, [c.view(grad), c.view(x)])
    return wrap(c.builder.create(
        "mpcomm.gelu_grad", values, [values[0].type],
        approximate=enum("gelu_approximation", approximate))[0])
