# ===- pool.py - pools and their gradients --------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of maxima and means of windows, of given sizes and adaptive."""

import torch

from ..emit.contraction import contract
from ..emit.views import View
from .convert import aten
from .emit.pooling import (Axis, axes_of, constant, greatest, greatest_along,
                           greatest_along_grad, greatest_grad, means, means_grad)
from .movement import unsqueeze


class Indices:
    """Where the greatest elements of windows are: the gradient finds them anew. What else
    reads them has them from the operator's definition."""

    def __init__(self, c, node):
        self.node, self.given = node, c.given(node)

    def force(self, c):
        return c.view(c.expand(self.node, "the indices of its maxima", self.given)[1])


def batched(c, x, count):
    """x as [N, C, …] with `count` more dimensions."""
    x = c.view(x)
    return x if len(x.dims) == count + 2 else unsqueeze(c, None, x, 0)


def like(c, y, given):
    """`y` without the dimension of samples if `given` has none."""
    return y if len(y.dims) == len(c.view(given).dims) else View(y.base, y.factors, y.dims[1:])


def dimensions(node):
    """2 for max_pool2d."""
    return int(str(node.target).split("pool")[1][0])


@aten("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(c, node, x, *args, **kwargs):
    return [max_pool(c, node, x, *args, **kwargs), Indices(c, node)]


def max_pool(c, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    samples = batched(c, x, dimensions(node))
    axes = axes_of(samples.shape, kernel, stride, padding, dilation, ceil_mode)
    return like(c, greatest(c, samples, axes), x)


@aten("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(c, node, grad, x, kernel, stride, padding, dilation, ceil_mode,
                      indices):
    count = dimensions(node)
    samples, above = batched(c, x, count), batched(c, grad, count)
    axes = axes_of(samples.shape, kernel, stride, padding, dilation, ceil_mode)
    return like(c, greatest_grad(c, above, samples, axes), x)


@aten("avg_pool2d", "avg_pool3d")
def avg_pool(c, node, x, kernel, stride=(), padding=0, ceil_mode=False,
             count_include_pad=True, divisor_override=None):
    samples = batched(c, x, dimensions(node))
    axes = axes_of(samples.shape, kernel, stride, padding, 1, ceil_mode)
    return like(c, means(c, samples, axes, count_include_pad, divisor_override), x)


@aten("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(c, node, grad, x, kernel, stride, padding, ceil_mode,
                      count_include_pad, divisor_override):
    count = dimensions(node)
    shape, above = batched(c, x, count).shape, batched(c, grad, count)
    axes = axes_of(shape, kernel, stride, padding, 1, ceil_mode)
    return like(c, means_grad(c, above, shape, axes, count_include_pad, divisor_override), x)


# --- adaptive ------------------------------------------------------------------------- #

def adaptive_axes(shape, out):
    """Windows that are equal and follow one another; None if they do not."""
    sizes = list(zip(shape[2:], out))
    if any(n % m for n, m in sizes):
        return None
    return [Axis(n, n // m, n // m, 0, 1, m) for n, m in sizes]


def bounds(size, out):
    """[(begin, end)] of adaptive windows along one dimension."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def adaptive_weights(size, out):
    """[out, size]: how much of each element is in each mean."""
    weights = torch.zeros(out, size, dtype=torch.float64)
    for i, (begin, end) in enumerate(bounds(size, out)):
        weights[i, begin:end] = 1 / (end - begin)
    return weights


def weigh(c, x, weights, side):
    """Products of the dimensions after the second with [out, in] weights; `side` is
    the dimension of the weights to sum over."""
    for w in weights:
        x = contract(c.builder, x, constant(c, w, x.dtype), contracting=[(2, side)])
    return x


@aten("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(c, node, x, out):
    samples = batched(c, x, dimensions(node))
    axes = adaptive_axes(samples.shape, out)
    if axes is not None:
        return like(c, means(c, samples, axes), x)
    weights = [adaptive_weights(n, m) for n, m in zip(samples.shape[2:], out)]
    return like(c, weigh(c, samples, weights, 1), x)


@aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(c, node, grad, x):
    count = dimensions(node)
    shape, above = batched(c, x, count).shape, batched(c, grad, count)
    axes = adaptive_axes(shape, above.shape[2:])
    if axes is not None:
        return like(c, means_grad(c, above, shape, axes), x)
    weights = [adaptive_weights(n, m) for n, m in zip(shape[2:], above.shape[2:])]
    return like(c, weigh(c, above, weights, 0), x)


def adaptive_taps(size, out):
    """The numbers of the k-th element of each window; a shorter window has its last
    one again, which is no greater."""
    windows = bounds(size, out)
    longest = max(end - begin for begin, end in windows)
    return [[min(begin + k, end - 1) for begin, end in windows] for k in range(longest)]


def plain(size):
    return Axis(size, 1, 1, 0, 1, size)


@aten("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(c, node, x, out):
    y = batched(c, x, dimensions(node))
    axes = adaptive_axes(y.shape, out)
    if axes is not None:
        return [like(c, greatest(c, y, axes), x), Indices(c, node)]
    for i in reversed(range(len(out))):
        size = y.shape[2 + i]
        y = greatest_along(c, y, 2 + i, plain(size), adaptive_taps(size, out[i]))
    return [like(c, y, x), Indices(c, node)]


@aten("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward")
def adaptive_max_pool_backward(c, node, grad, x, indices):
    count = dimensions(node)
    samples, grad = batched(c, x, count), batched(c, grad, count)
    out = grad.shape[2:]
    axes = adaptive_axes(samples.shape, out)
    if axes is not None:
        return like(c, greatest_grad(c, grad, samples, axes), x)
    stages, sizes = [samples], samples.shape[2:]
    for i in reversed(range(1, count)):
        stages.append(greatest_along(c, stages[-1], 2 + i, plain(sizes[i]),
                                     adaptive_taps(sizes[i], out[i])))
    for i, stage in enumerate(reversed(stages)):
        grad = greatest_along_grad(c, grad, stage, 2 + i, plain(sizes[i]),
                                   adaptive_taps(sizes[i], out[i]))
    return like(c, grad, x)
