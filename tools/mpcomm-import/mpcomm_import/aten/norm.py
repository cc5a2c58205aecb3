# ===- norm.py - normalisation and its gradients --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of batch, layer, root mean square, group and instance norms."""

import math

from ..emit.pointwise import conform, reduce, seen_as, whole_dim
from ..emit.views import View, coalesce, materialise
from ..errors import Unsupported
from ..ir.graph import Type
from .convert import aten
from .movement import reshaped
from .pointwise import elementwise, formula

# --- over trailing dimensions ------------------------------------------------------------ #


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


# --- over groups of channels ----------------------------------------------------------- #

def per_channel(v, rank):
    """[C] as [C, 1, 1] for an image of that rank."""
    return View(v.base, v.factors, v.dims + [[]] * (rank - 2))


def per_group(c, v, shape, groups):
    """[N, groups] as [N, C, 1, 1]."""
    v = c.view(v)
    v = reshaped(c, v, (shape[0], groups, 1)).expand((shape[0], groups, shape[1] // groups))
    v = reshaped(c, v, shape[:2])
    return View(v.base, v.factors, v.dims + [[]] * (len(shape) - 2))


def rows_of(c, x, groups):
    """[N, C, …] as [N, groups, elements of a group]."""
    n = x.shape[0]
    return reshaped(c, x, (n, groups, math.prod(x.shape[1:]) // groups))


def affine(c, y, weight, bias):
    """y [N, C, …] scaled and shifted by channel."""
    if weight is not None:
        y = formula(c, "mul", y, per_channel(c.view(weight), len(y.dims)))
    return y if bias is None else formula(c, "add", y, per_channel(c.view(bias), len(y.dims)))


@aten("native_group_norm")
def group_norm(c, node, x, weight, bias, n, channels, size, groups, eps):
    x = c.view(x)
    rows = rows_of(c, x, groups)
    y, mean, rstd = layer_norm(c, node, rows, rows.shape[2:], None, None, eps)
    return [affine(c, reshaped(c, y, x.shape), weight, bias)] + \
        [reshaped(c, v, (n, groups)) for v in (mean, rstd)]


@aten("native_group_norm_backward")
def group_norm_backward(c, node, grad, x, mean, rstd, weight, n, channels, size, groups,
                        mask):
    grad, x = c.view(grad), c.view(x)
    dims = [0] + list(range(2, len(x.dims)))
    dx = dw = db = None
    if mask[0]:
        rows = rows_of(c, x, groups)
        scaled = rows_of(c, affine(c, grad, weight, None), groups)
        units = [reshaped(c, v, (n, groups, 1)) for v in (mean, rstd)]
        dx = layer_norm_backward(c, node, scaled, rows, rows.shape[2:], *units, None, None,
                                 mask)[0]
        dx = reshaped(c, dx, x.shape)
    if mask[1]:
        xhat = formula(c, "sub", x, per_group(c, mean, x.shape, groups))
        xhat = formula(c, "mul", xhat, per_group(c, rstd, x.shape, groups))
        dw = reduce(c.builder, "sum", formula(c, "mul", grad, xhat), dims, False)
    if mask[2]:
        db = reduce(c.builder, "sum", grad, dims, False)
    return [dx, dw, db]


# --- over the batch ----------------------------------------------------------------------- #

class Rstd:
    """1 / sqrt(variance + eps), which the gradient makes of the variance."""

    def __init__(self, variance, eps):
        self.variance, self.eps = variance, eps

    def force(self, c):
        return reciprocal_deviation(c, self.variance, self.eps)


class Unused:
    """Statistics of a batch, where others are used."""

    def force(self, c):
        raise Unsupported("the statistics of its batch")


def reciprocal_deviation(c, variance, eps):
    root = elementwise(c, [formula(c, "add", c.view(variance), eps)],
                       lambda v: c.builder.create("math.sqrt", [v], [v.type])[0])
    return formula(c, "div", 1.0, root)


def featured(c, x):
    """(x on a base that has its features as one dimension, that dimension)."""
    x = coalesce(c.view(x))
    if len(x.shape) < 2:
        raise Unsupported("of a tensor with one dimension")
    at = whole_dim(x, 1)
    if at is None or x.repeated():
        x, at = View.of(materialise(c.builder, x)), 1
    return x, at


def of_features(c, given, default, like):
    """A value for each feature: what is given, or the default."""
    return materialise(c.builder, c.view(given)) if given is not None else \
        c.builder.constant(default, Type((like.shape[1],), like.dtype))


def by_batch(c, x, weight, bias, eps):
    """(y, mean, variance) by the statistics of the batch."""
    x, at = featured(c, x)
    gamma, beta = of_features(c, weight, 1.0, x), of_features(c, bias, 0.0, x)
    y, m, v = c.builder.create(
        "mpcomm.batch_norm_training", [x.base, gamma, beta],
        [x.base.type, gamma.type, gamma.type], eps=float(eps), feature_dim=at)
    return seen_as(y, x), View.of(m), View.of(v)


def by_given(c, x, weight, bias, mean, variance, eps):
    x, at = featured(c, x)
    gamma, beta = of_features(c, weight, 1.0, x), of_features(c, bias, 0.0, x)
    y = c.builder.create(
        "mpcomm.batch_norm_inference",
        [x.base, gamma, beta] + [materialise(c.builder, c.view(v)) for v in (mean, variance)],
        [x.base.type], eps=float(eps), feature_dim=at)[0]
    return seen_as(y, x)


def running(c, x, means, momentum, mean, variance):
    """The next running statistics, of which the variance is unbiased."""
    count = math.prod(x.shape) // x.shape[1]
    if count > 1:
        variance = formula(c, "mul", variance, count / (count - 1))
    return [formula(c, "add", formula(c, "mul", c.view(old), 1 - momentum),
                    formula(c, "mul", new, momentum))
            for old, new in zip(means, (mean, variance))]


@aten("native_batch_norm", "_native_batch_norm_legit")
def batch_norm(c, node, x, weight, bias, mean, variance, training, momentum, eps):
    if not training:
        return [by_given(c, x, weight, bias, mean, variance, eps), Unused(), Unused()]
    y, m, v = by_batch(c, x, weight, bias, eps)
    if mean is not None:
        for argument, new in zip((3, 4), running(c, c.view(x), (mean, variance), momentum,
                                                 m, v)):
            c.overwrite(node.args[argument], new)
    return [y, m, Rstd(v, float(eps))]


def batch_norm_grad(c, grad, x, weight, mean, variance, eps, mask):
    """The gradient of `by_batch`."""
    x, at = featured(c, x)
    gamma = of_features(c, weight, 1.0, x)
    dy = conform(c.builder, c.view(grad), x)
    if dy is None:
        raise Unsupported("its operands share no layout")
    dx, dgamma, dbeta = c.builder.create(
        "mpcomm.batch_norm_grad",
        [dy, x.base, gamma] + [materialise(c.builder, c.view(v)) for v in (mean, variance)],
        [x.base.type, gamma.type, gamma.type], eps=float(eps), feature_dim=at)
    return [seen_as(dx, x), View.of(dgamma), View.of(dbeta)]


def given_norm_grad(c, grad, x, weight, mean, variance, eps, mask):
    """The gradient of `by_given`, whose statistics are constants."""
    grad, x = c.view(grad), c.view(x)
    rank, dims = len(x.dims), [i for i in range(len(x.dims)) if i != 1]
    rstd = reciprocal_deviation(c, variance, eps)
    dx = dw = db = None
    if mask[0]:
        scale = rstd if weight is None else formula(c, "mul", rstd, c.view(weight))
        dx = formula(c, "mul", grad, per_channel(scale, rank))
    if mask[1]:
        xhat = formula(c, "sub", x, per_channel(c.view(mean), rank))
        xhat = formula(c, "mul", xhat, per_channel(rstd, rank))
        dw = reduce(c.builder, "sum", formula(c, "mul", grad, xhat), dims, False)
    if mask[2]:
        db = reduce(c.builder, "sum", grad, dims, False)
    return [dx, dw, db]


@aten("native_batch_norm_backward")
def batch_norm_backward(c, node, grad, x, weight, running_mean, running_var, mean, rstd,
                        training, eps, mask):
    if not training:
        return given_norm_grad(c, grad, x, weight, running_mean, running_var, eps, mask)
    return batch_norm_grad(c, grad, x, weight, mean, rstd.variance, eps, mask)
