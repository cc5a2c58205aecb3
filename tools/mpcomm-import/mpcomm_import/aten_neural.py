# ===- aten_neural.py - layers, and matrix products ------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of products, convolutions into patches, normalisation, softmax,
GELU, and of their gradients."""

import math

from .aten_movement import reshaped
from .aten_pointwise import arithmetic, compare, select
from .contraction import contract
from .convert import aten
from .errors import Unsupported
from .ir import Type, enum
from .pointwise import align, along, conform, reduce
from .views import View, coalesce, materialise

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
    if alpha != 1:
        product = arithmetic(c, "mul", product, alpha)
    if beta == 0:
        return product
    x = c.view(x)
    return arithmetic(c, "add", product,
                      x if beta == 1 else arithmetic(c, "mul", x, beta))


@aten("addmm")
def addmm(c, node, x, a, b, beta=1, alpha=1):
    return plus(c, mm(c, node, a, b), x, beta, alpha)


@aten("baddbmm")
def baddbmm(c, node, x, a, b, beta=1, alpha=1):
    return plus(c, bmm(c, node, a, b), x, beta, alpha)


# --- convolution whose windows do not overlap ----------------------------------------- #

def splits(x, weight, stride, padding, dilation, transposed, groups):
    """Whether a convolution is the product of a filter with patches of what comes
    in: as a rule the first layer of a transformer. Deeper in a network of images the
    layout that the other convolutions have counts for more."""
    kernel = weight.shape[2:]
    return (x.base.op is None or len(kernel) != 2) and not transposed and groups == 1 and \
        all(p == 0 for p in padding) and list(stride) == list(kernel) and \
        all(d == 1 or k == 1 for d, k in zip(dilation, kernel)) and \
        all(n % k == 0 for n, k in zip(x.shape[2:], kernel))


def patches(c, x, kernel):
    """[N, C, H, W] seen as [N, C, H/p, p, W/q, q]."""
    shape = list(x.shape[:2])
    for n, k in zip(x.shape[2:], kernel):
        shape += [n // k, k]
    return reshaped(c, x, shape)


def outer_dims(spatial):
    return [2 + 2 * i for i in range(spatial)]


def inner_dims(spatial):
    return [3 + 2 * i for i in range(spatial)]


def patches_forward(c, x, weight, bias):
    spatial = len(weight.dims) - 2
    x = patches(c, x, weight.shape[2:])
    pairs = [(1, 1)] + [(d, 2 + i) for i, d in enumerate(inner_dims(spatial))]
    y = contract(c.builder, x, weight, contracting=pairs)  # [N, h, w, D]
    if bias is not None:
        y = arithmetic(c, "add", y, c.view(bias))
    return y.permute([0, spatial + 1] + list(range(1, spatial + 1)))


def patches_backward(c, grad, x, weight, mask):
    spatial = len(weight.dims) - 2
    x = patches(c, x, weight.shape[2:])
    dx = dw = db = None
    if mask[0]:
        # [N, h, w] of the gradient, then [C, p, q] of the weight.
        dx = contract(c.builder, grad, weight, contracting=[(1, 0)])
        order = [0, spatial + 1]
        for i in range(spatial):
            order += [1 + i, spatial + 2 + i]
        shape = list(x.shape[:2])
        for i in range(spatial):
            shape.append(x.shape[2 + 2 * i] * x.shape[3 + 2 * i])
        dx = reshaped(c, dx.permute(order), shape)
    if mask[1]:
        pairs = [(0, 0)] + [(2 + i, d) for i, d in enumerate(outer_dims(spatial))]
        dw = contract(c.builder, grad, x, contracting=pairs)
    if mask[2]:
        dims = [0] + list(range(2, spatial + 2))
        db = reduce(c.builder, "sum", grad, dims, False)
    return [dx, dw, db]


# --- normalisation ---------------------------------------------------------------------- #

def normalised(c, x, rank):
    """(view of x whose base ends in the normalised dimensions, leading part)."""
    x = coalesce(c.view(x))
    if x.repeated() or x.dims[-rank:] != x.factors[-rank:]:
        x = View.of(materialise(c.builder, x))
    return x, View(None, x.factors[:-rank], x.dims[:-rank])


def scale_and_shift(c, shape, dtype, weight, bias):
    def given(v, default):
        return materialise(c.builder, c.view(v)) if v is not None else \
            c.builder.constant(default, Type(shape, dtype))
    return given(weight, 1.0), given(bias, 0.0)


@aten("native_layer_norm")
def layer_norm(c, node, x, shape, weight, bias, eps):
    rank = len(shape)
    x, lead = normalised(c, x, rank)
    gamma, beta = scale_and_shift(c, shape, x.dtype, weight, bias)
    base = x.base
    rows = Type(base.shape[:-rank], x.dtype)
    y, mean, rstd = c.builder.create(
        "mpcomm.layer_norm", [base, gamma, beta], [base.type, rows, rows],
        eps=float(eps))
    units = [[] for _ in shape]
    return [View(y, x.factors, x.dims),
            View(mean, lead.factors, lead.dims + units),
            View(rstd, lead.factors, lead.dims + units)]


@aten("native_layer_norm_backward")
def layer_norm_backward(c, node, grad, x, shape, mean, rstd, weight, bias, mask):
    rank = len(shape)
    x, lead = normalised(c, x, rank)
    gamma = scale_and_shift(c, shape, x.dtype, weight, None)[0]
    rows = [View(v.base, v.factors, v.dims[:-rank]) for v in
            (coalesce(c.view(mean)), coalesce(c.view(rstd)))]
    values = [conform(c.builder, c.view(grad), x), x.base] + \
             [conform(c.builder, v, lead) for v in rows] + [gamma]
    if any(v is None for v in values):
        raise Unsupported("its operands share no layout")
    dx, dgamma, dbeta = c.builder.create(
        "mpcomm.layer_norm_grad", values, [x.base.type, gamma.type, gamma.type])
    return [View(dx, x.factors, x.dims), View.of(dgamma), View.of(dbeta)]


# --- softmax, GELU ------------------------------------------------------------------------ #

def along_dim(c, name, views, dim):
    if not views[0].dims:
        raise Unsupported("of a tensor without dimensions")
    values, at, wrap = along(c.builder, views, dim)
    return wrap(c.builder.create("mpcomm." + name, values, [values[0].type], dim=at)[0])


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
    y, grad = c.view(y), c.view(grad)
    values, at, wrap = along(c.builder, [y, grad], dim)
    return wrap(c.builder.create("mpcomm.softmax_grad", values[::-1],
                                 [values[0].type], dim=at)[0])


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
