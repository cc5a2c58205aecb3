# ===- convolution.py - convolutions of any number of dimensions -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The three products of a convolution, on the dialect's images.

The dialect's convolutions have two dimensions. A line [N, C, L] is an image of
height 1. A volume [N, C, D, H, W] is N * D images [C, H, W]; of them, those that
a filter covers in depth are put side by side as channels, so that the filter's
depth is part of the product. The copy is as many times the input as the filter
is deep; the sums over depth are those of the one product. What comes out lies
in memory as images, and stays so from layer to layer.
"""

import dataclasses

from ...emit.views import View, materialise
from ...errors import Unsupported
from ...ir.graph import Type
from ..movement import concatenated, padded, reshaped, sliced
from ..pointwise import formula


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Lists with an entry for each dimension of the window, the outermost first."""

    strides: list
    low: list
    dilation: list
    groups: int = 1

    @staticmethod
    def of(weight, stride, padding, dilation, groups):
        count = len(weight.shape) - 2
        if not 1 <= count <= 3:
            raise Unsupported(f"of {count} dimensions")

        def full(x):
            x = [x] if isinstance(x, int) else list(x)
            return x * count if len(x) == 1 else x
        return Geometry(full(stride), full(padding), full(dilation), groups)

    def drop_depth(self):
        return Geometry(self.strides[1:], self.low[1:], self.dilation[1:], self.groups)

    def add_height(self):
        return Geometry([1] + self.strides, [0] + self.low, [1] + self.dilation, self.groups)

    def fit(self, d, size, out, window):
        """(elements of `size` that are used, padding after them) for `out` windows
        along dimension d."""
        low, stride = self.low[d], self.strides[d]
        span = (window - 1) * self.dilation[d] + 1
        if (size + 2 * low - span) // stride + 1 == out:
            return size, low
        reach = (out - 1) * stride + span - low
        if reach >= size:
            return size, reach - size
        return (size, 0) if size - reach < stride else (reach, 0)


def whole(c, x):
    return materialise(c.builder, c.view(x))


def attributes(geometry, high):
    return dict(strides=geometry.strides, low=geometry.low, high=high,
                dilation=geometry.dilation, groups=geometry.groups)


def fits(geometry, sizes, outs, window):
    """Lists of what `fit` says of each dimension."""
    both = [geometry.fit(d, *sizes) for d, sizes in enumerate(zip(sizes, outs, window))]
    return [used for used, _ in both], [high for _, high in both]


def cut(c, x, used):
    for i, n in enumerate(used):
        x = sliced(c, x, 2 + i, 0, n)
    return x


def raised(x):
    """[A, B, L] as [A, B, 1, L]."""
    return View(x.base, x.factors, x.dims[:2] + [[]] + x.dims[2:])


def lowered(x):
    return View(x.base, x.factors, x.dims[:2] + x.dims[3:])


# --- volumes --------------------------------------------------------------------- #

def frames(x):
    """[N, C, D, H, W] as [N, D, C, H, W], and back."""
    return x.permute([0, 2, 1, 3, 4])


def merged(c, x):
    """[N, D, C, H, W] as [N * D, C, H, W]."""
    return reshaped(c, x, (x.shape[0] * x.shape[1],) + x.shape[2:])


def taps(c, x, geometry, out, depth):
    """Of [N, C, D, H, W] the images [N * out, C * depth, H, W] that filters of that
    depth cover; channels of a group stay together."""
    used, high = geometry.fit(0, x.shape[2], out, depth)
    x = frames(sliced(c, x, 2, 0, used))
    x = padded(c, x, 1, geometry.low[0], high)
    n, _, channels, h, w = x.shape
    groups, stride = geometry.groups, geometry.strides[0]
    parts = []
    for k in range(depth):
        first = k * geometry.dilation[0]
        part = sliced(c, x, 1, first, first + (out - 1) * stride + 1, stride)
        parts.append(reshaped(c, part, (n * out, groups, channels // groups, h, w)))
    if groups == 1:
        parts = [reshaped(c, p, (n * out, channels, h, w)) for p in parts]
        return parts[0] if depth == 1 else concatenated(c, parts, 1)
    return reshaped(c, concatenated(c, parts, 2), (n * out, channels * depth, h, w))


def untaps(c, dx, geometry, shape, out, depth):
    """The gradient of `taps` for x of `shape`."""
    n, channels, size, h, w = shape
    used, high = geometry.fit(0, size, out, depth)
    groups, stride = geometry.groups, geometry.strides[0]
    dx = reshaped(c, dx, (n, out, groups, depth, channels // groups, h, w))
    length = geometry.low[0] + used + high
    total = None
    for k in range(depth):
        part = reshaped(c, sliced(c, dx, 3, k, k + 1), (n, out, channels, h, w))
        first = k * geometry.dilation[0]
        last = first + (out - 1) * stride + 1
        part = padded(c, part, 1, first, length - last, stride - 1)
        total = part if total is None else formula(c, "add", total, part)
    total = sliced(c, total, 1, geometry.low[0], geometry.low[0] + used)
    return frames(padded(c, total, 1, 0, size - used))


def flat_filter(c, weight):
    """[O, C, D, H, W] as [O, D * C, H, W]."""
    o, channels, depth, h, w = weight.shape
    return reshaped(c, frames(weight), (o, depth * channels, h, w))


def volume(c, y, n):
    """[N * D, C, H, W] as [N, C, D, H, W]."""
    return frames(reshaped(c, y, (n, y.shape[0] // n) + y.shape[1:]))


# --- the products ------------------------------------------------------------------ #

def forward(c, x, weight, geometry, out):
    """The convolution of x [N, C, …] with weight [O, C / groups, …] into [N, O, …] of
    the sizes `out`."""
    x, weight, out = c.view(x), c.view(weight), list(out)
    if len(out) == 1:
        return lowered(forward(c, raised(x), raised(weight), geometry.add_height(), [1] + out))
    if len(out) == 3:
        images = taps(c, x, geometry, out[0], weight.shape[2])
        y = forward(c, images, flat_filter(c, weight), geometry.drop_depth(), out[1:])
        return volume(c, y, x.shape[0])
    used, high = fits(geometry, x.shape[2:], out, weight.shape[2:])
    x = cut(c, x, used)
    type = Type([x.shape[0], weight.shape[0]] + out, x.dtype)
    return View.of(c.builder.create("mpcomm.convolution", [whole(c, x), whole(c, weight)],
                                    [type], **attributes(geometry, high))[0])


def input_grad(c, grad, weight, geometry, shape):
    """The gradient of `forward` by x of `shape`."""
    grad, weight = c.view(grad), c.view(weight)
    if len(shape) == 3:
        dx = input_grad(c, raised(grad), raised(weight), geometry.add_height(),
                        (*shape[:2], 1, shape[2]))
        return lowered(dx)
    if len(shape) == 5:
        out, depth = grad.shape[2], weight.shape[2]
        images = (shape[0] * out, depth * shape[1]) + tuple(shape[3:])
        dx = input_grad(c, merged(c, frames(grad)), flat_filter(c, weight),
                        geometry.drop_depth(), images)
        return untaps(c, dx, geometry, shape, out, depth)
    used, high = fits(geometry, shape[2:], grad.shape[2:], weight.shape[2:])
    dx = View.of(c.builder.create(
        "mpcomm.convolution_input_grad", [whole(c, grad), whole(c, weight)],
        [Type(tuple(shape[:2]) + tuple(used), grad.dtype)], **attributes(geometry, high))[0])
    for i, (n, m) in enumerate(zip(shape[2:], used)):
        dx = padded(c, dx, 2 + i, 0, n - m)
    return dx


def filter_grad(c, grad, x, geometry, shape):
    """The gradient of `forward` by a weight of `shape`."""
    grad, x = c.view(grad), c.view(x)
    if len(shape) == 3:
        dw = filter_grad(c, raised(grad), raised(x), geometry.add_height(),
                         (*shape[:2], 1, shape[2]))
        return lowered(dw)
    if len(shape) == 5:
        o, channels, depth, h, w = shape
        images = taps(c, x, geometry, grad.shape[2], depth)
        dw = filter_grad(c, merged(c, frames(grad)), images, geometry.drop_depth(),
                         (o, depth * channels, h, w))
        return frames(reshaped(c, dw, (o, depth, channels, h, w)))
    used, high = fits(geometry, x.shape[2:], grad.shape[2:], shape[2:])
    return View.of(c.builder.create(
        "mpcomm.convolution_filter_grad", [whole(c, grad), whole(c, cut(c, x, used))],
        [Type(shape, grad.dtype)], **attributes(geometry, high))[0])
