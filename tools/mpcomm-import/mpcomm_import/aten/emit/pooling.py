# ===- pooling.py - pools of any number of dimensions -----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Pools on the dialect's images, and along one dimension.

The dialect's pools have two dimensions and windows without gaps. Those are one
op; what is left, the depth of volumes and windows with gaps, is pooled along one
dimension after the other, by ops on the slices that hold the k-th element of each
window. The greatest of the greatest is the same element as that of all at once:
the first one in row-major order, or the last NaN.
"""

import dataclasses
import math

import torch

from ...emit.views import View
from ...ir.graph import Type
from ...torch_front.dtypes import TORCH_DTYPES
from ..movement import padded, reshaped, sliced
from ..pointwise import compare, formula, select, simple
from .convolution import frames, whole
from .positions import put, take


@dataclasses.dataclass(frozen=True)
class Axis:
    """Windows along one dimension: `out` of them, over `size` elements."""

    size: int
    window: int
    stride: int
    low: int
    dilation: int
    out: int

    @property
    def span(self):
        return (self.window - 1) * self.dilation + 1

    @property
    def high(self):
        """Padding after the elements that windows reach into."""
        return max(0, (self.out - 1) * self.stride + self.span - self.size - self.low)

    def taps(self):
        """The numbers, in the padded dimension, of the k-th element of each window."""
        return [[i * self.stride + k * self.dilation for i in range(self.out)]
                for k in range(self.window)]


def full(values, count, default=None):
    values = [values] if isinstance(values, int) else list(values)
    if not values:
        return list(default)
    return values * count if len(values) == 1 else values


def axes_of(shape, kernel, stride, padding, dilation, ceil_mode):
    """An Axis for each of the trailing dimensions of `shape` that windows slide along;
    with ceil_mode a window may reach past the padded input."""
    count = len(shape) - 2
    kernel = full(kernel, count)
    lists = [shape[2:], kernel, full(stride, count, kernel), full(padding, count),
             full(dilation, count)]
    result = []
    for size, k, s, p, d in zip(*lists):
        room = size + 2 * p - (k - 1) * d - 1
        out = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (out - 1) * s >= size + p:
            out -= 1  # a window has to start in the input or ahead of it
        result.append(Axis(size, k, s, p, d, out))
    return result


def as_image(x):
    """[N, C, L] and [N, C, H, W] as [N, C, H, W]."""
    return View(x.base, x.factors, x.dims[:2] + [[]] * (4 - len(x.dims)) + x.dims[2:])


def like_before(y, rank):
    return y if rank == 4 else View(y.base, y.factors, y.dims[:2] + y.dims[3:])


def window_attributes(axes):
    """Attributes of the dialect's pools."""
    axes = [Axis(1, 1, 1, 0, 1, 1)] * (2 - len(axes)) + list(axes)
    return dict(window=[a.window for a in axes], strides=[a.stride for a in axes],
                low=[a.low for a in axes], high=[a.high for a in axes])


def images_of(c, x):
    """The images [N * D, C, H, W] of a volume."""
    n, channels, depth, h, w = x.shape
    return reshaped(c, frames(x), (n * depth, channels, h, w))


def volume_of(c, y, n):
    return frames(reshaped(c, y, (n, y.shape[0] // n) + y.shape[1:]))


# --- the greatest ------------------------------------------------------------------- #

def candidates(c, x, dim, axis, taps):
    """For each k the k-th element of all windows along `dim`."""
    x = padded(c, x, dim, axis.low, axis.high, 0, -math.inf)
    return [take(c, x, dim, numbers) for numbers in taps]


def greatest_along(c, x, dim, axis, taps=None):
    best, *others = candidates(c, x, dim, axis, taps or axis.taps())
    for part in others:
        best = simple(c, "arith.maximumf", [best, part])
    return best


def greatest_along_grad(c, grad, x, dim, axis, taps=None):
    taps = taps or axis.taps()
    best, *others = candidates(c, x, dim, axis, taps)
    wins = []
    for part in others:
        above = compare(c, "ogt", part, best)
        wins.append(simple(c, "arith.ori", [above, compare(c, "uno", part, part)]))
        best = simple(c, "arith.maximumf", [best, part])
    size, total, rest = axis.low + axis.size + axis.high, None, grad
    for k in reversed(range(len(taps))):
        part = rest if k == 0 else select(c, wins[k - 1], rest, 0.0)
        rest = None if k == 0 else select(c, wins[k - 1], 0.0, rest)
        part = put(c, part, dim, taps[k], size)
        total = part if total is None else formula(c, "add", total, part)
    return sliced(c, total, dim, axis.low, axis.low + axis.size)


def is_dense(axes):
    return len(axes) <= 2 and all(
        a.dilation == 1 and max(a.low, a.high) < a.window for a in axes)


def greatest(c, x, axes):
    """The greatest of each window of x [N, C, …]."""
    x = c.view(x)
    if is_dense(axes):
        image = as_image(x)
        outs = [1] * (2 - len(axes)) + [a.out for a in axes]
        y = c.builder.create("mpcomm.max_pool", [whole(c, image)],
                             [Type(list(x.shape[:2]) + outs, x.dtype)],
                             **window_attributes(axes))[0]
        return like_before(View.of(y), len(x.dims))
    if len(axes) == 3 and is_dense(axes[1:]):
        x = volume_of(c, greatest(c, images_of(c, x), axes[1:]), x.shape[0])
        return greatest_along(c, x, 2, axes[0])
    for i in reversed(range(len(axes))):
        x = greatest_along(c, x, 2 + i, axes[i])
    return x


def greatest_grad(c, grad, x, axes):
    grad, x = c.view(grad), c.view(x)
    if is_dense(axes):
        dx = c.builder.create(
            "mpcomm.max_pool_grad", [whole(c, as_image(grad)), whole(c, as_image(x))],
            [as_image(x).type], **window_attributes(axes))[0]
        return like_before(View.of(dx), len(x.dims))
    if len(axes) == 3 and is_dense(axes[1:]):
        images = images_of(c, x)
        inner = volume_of(c, greatest(c, images, axes[1:]), x.shape[0])
        grad = greatest_along_grad(c, grad, inner, 2, axes[0])
        return volume_of(c, greatest_grad(c, images_of(c, grad), images, axes[1:]), x.shape[0])
    stages = [x]
    for i in reversed(range(1, len(axes))):
        stages.append(greatest_along(c, stages[-1], 2 + i, axes[i]))
    for i, stage in enumerate(reversed(stages)):
        grad = greatest_along_grad(c, grad, stage, 2 + i, axes[i])
    return grad


# --- means ---------------------------------------------------------------------------- #

def divisors(axis, count_padding):
    """What the sums of the windows along an axis are divided by."""
    result = []
    for i in range(axis.out):
        begin = i * axis.stride - axis.low
        end = begin + axis.window
        if count_padding:
            end = min(end, axis.size + axis.low)
        else:
            begin, end = max(begin, 0), min(end, axis.size)
        result.append(end - begin)
    return result


def constant(c, numbers, dtype):
    """A tensor of numbers known at import."""
    return c.constant_tensor(torch.as_tensor(numbers, dtype=torch.float64).to(
        TORCH_DTYPES[dtype]))


def scale_along(c, x, dim, factors):
    """x times a number for each element of `dim`."""
    if all(f == factors[0] for f in factors):
        return x if factors[0] == 1 else formula(c, "mul", x, factors[0])
    v = constant(c, factors, x.dtype)
    v = View(v.base, v.factors, v.dims + [[]] * (len(x.dims) - 1 - dim))
    return formula(c, "mul", x, v)


def corrections(axes, count_padding, divisor):
    """([numbers that the op's means are multiplied by along each axis], whether the op
    counts padding)."""
    ones = [[1.0] * a.out for a in axes]
    if divisor is not None:
        whole_window = math.prod(a.window for a in axes)
        return [[whole_window / divisor] * axes[0].out] + ones[1:], True
    if not count_padding:
        return ones, False
    return [[a.window / n for n in divisors(a, True)] for a in axes], True


def flags(axes, counts):
    counts = counts and any(a.low or a.high for a in axes)
    return dict(window_attributes(axes), **({"count_padding": True} if counts else {}))


def mean_images(c, x, axes, counts):
    image = as_image(x)
    outs = [1] * (2 - len(axes)) + [a.out for a in axes]
    y = c.builder.create("mpcomm.avg_pool", [whole(c, image)],
                         [Type(list(x.shape[:2]) + outs, x.dtype)], **flags(axes, counts))[0]
    return like_before(View.of(y), len(x.dims))


def mean_images_grad(c, grad, shape, axes, counts):
    shape = tuple(shape[:2]) + (1,) * (4 - len(shape)) + tuple(shape[2:])
    dx = c.builder.create("mpcomm.avg_pool_grad", [whole(c, as_image(grad))],
                          [Type(shape, grad.dtype)], **flags(axes, counts))[0]
    return like_before(View.of(dx), len(axes) + 2)


def sums_along(c, x, dim, axis):
    x = padded(c, x, dim, axis.low, axis.high)
    total = None
    for numbers in axis.taps():
        part = take(c, x, dim, numbers)
        total = part if total is None else formula(c, "add", total, part)
    return total


def sums_along_grad(c, grad, dim, axis):
    total = None
    for numbers in axis.taps():
        part = put(c, grad, dim, numbers, axis.low + axis.size + axis.high)
        total = part if total is None else formula(c, "add", total, part)
    return sliced(c, total, dim, axis.low, axis.low + axis.size)


def depth_factors(axis, factors, counts):
    """Means along depth are sums times these."""
    return [f / n for f, n in zip(factors, [axis.window] * axis.out if counts else
                                  divisors(axis, False))]


def means(c, x, axes, count_padding=True, divisor=None):
    """The mean of each window of x [N, C, …]."""
    x = c.view(x)
    factors, counts = corrections(axes, count_padding, divisor)
    if len(axes) == 3:
        y = volume_of(c, mean_images(c, images_of(c, x), axes[1:], counts), x.shape[0])
        y = sums_along(c, y, 2, axes[0])
        factors[0] = depth_factors(axes[0], factors[0], counts)
    else:
        y = mean_images(c, x, axes, counts)
    for i, numbers in enumerate(factors):
        y = scale_along(c, y, 2 + i, numbers)
    return y


def means_grad(c, grad, shape, axes, count_padding=True, divisor=None):
    grad = c.view(grad)
    factors, counts = corrections(axes, count_padding, divisor)
    if len(axes) == 3:
        factors[0] = depth_factors(axes[0], factors[0], counts)
    for i, numbers in enumerate(factors):
        grad = scale_along(c, grad, 2 + i, numbers)
    if len(axes) < 3:
        return mean_images_grad(c, grad, shape, axes, counts)
    grad = sums_along_grad(c, grad, 2, axes[0])
    n, channels, depth = shape[:3]
    dx = mean_images_grad(c, images_of(c, grad), (n * depth, channels) + tuple(shape[3:]),
                          axes[1:], counts)
    return volume_of(c, dx, n)
