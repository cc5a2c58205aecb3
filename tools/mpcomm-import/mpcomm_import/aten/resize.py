# ===- resize.py - images of another size ---------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of interpolation and of pixels that become channels.

Interpolation is linear, and separate along each dimension: PyTorch, asked at
import what it makes of the unit vectors, says the matrix. The nearest element,
repeated a whole number of times, is a view; everything else is a product with
that matrix, and its gradient one with the transposed matrix.
"""

import math

import torch

from ..emit.pointwise import reduce
from ..emit.views import Axis, View
from .convert import aten
from .movement import reshaped, sliced
from .pool import weigh

MODES = ("nearest_exact", "nearest", "linear", "bilinear", "trilinear", "bicubic")


def kind(node):
    """("bilinear", number of dimensions, whether it filters before) of
    upsample_bilinear2d."""
    name = str(node.target).split("upsample_")[1]
    mode = next(m for m in MODES if name.startswith(m))
    return mode, int(name[len(mode)]), "_aa" in name


def matrix(mode, antialias, size, out, align_corners, scale):
    """[out, size]: how much of each element is in each result."""
    unit = torch.eye(size, dtype=torch.float64)
    if mode == "nearest":
        return torch.ops.aten.upsample_nearest1d(unit[None], [out], scale)[0].t()
    if mode == "nearest_exact":
        return torch.ops.aten._upsample_nearest_exact1d(unit[None], [out], scale)[0].t()
    rows = unit[:, None, None, :]  # PyTorch 2.13 is wrong for antialiased images of width 1
    name = "bicubic2d" if "cubic" in mode else "bilinear2d"
    function = getattr(torch.ops.aten, f"_upsample_{name}_aa" if antialias else
                       f"upsample_{name}")
    return function(rows, [1, out], align_corners, None, scale)[:, 0, 0, :].t()


def matrices(node, sizes, outs, options):
    """A matrix for each dimension; `options` are the operator's after the sizes."""
    mode, count, antialias = kind(node)
    options = list(options)
    align = False if mode.startswith("nearest") else options.pop(0)
    if str(node.target).endswith(".vec"):
        options = options[0] or []
    scales = (list(options) + [None] * count)[:count]
    return [matrix(mode, antialias, n, m, align, s)
            for n, m, s in zip(sizes, outs, scales)]


def picks(weights):
    """(k, 0) if each element is there k times, (0, k) if it is every k-th one; else
    None."""
    out, size = weights.shape
    chosen = weights.argmax(1).tolist()
    if not torch.equal(weights, torch.nn.functional.one_hot(
            torch.tensor(chosen), size).to(weights.dtype)):
        return None
    if out % size == 0 and chosen == [i // (out // size) for i in range(out)]:
        return out // size, 0
    if size % out == 0 and chosen == list(range(0, size, size // out)):
        return 0, size // out
    return None


def resized(c, x, weights):
    ways = [picks(w) for w in weights]
    if None in ways:
        return weigh(c, x, weights, 1)
    for i, (repeats, step) in enumerate(ways):
        dim = 2 + i
        if step:
            x = sliced(c, x, dim, 0, x.shape[dim], step)
        elif repeats > 1:
            x = View(x.base, x.factors, [
                d + [Axis(repeats)] if j == dim else d for j, d in enumerate(x.dims)])
    return x


def resized_grad(c, grad, weights):
    ways = [picks(w) for w in weights]
    if None in ways or any(step > 1 for _, step in ways):
        return weigh(c, grad, weights, 0)
    shape, sums = list(grad.shape[:2]), []
    for n, (repeats, _) in zip(grad.shape[2:], ways):
        shape += [n // repeats, repeats]
        sums.append(len(shape) - 1)
    return reduce(c.builder, "sum", reshaped(c, grad, shape), sums, False)


RESIZES = ["upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
           "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
           "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
           "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa",
           "_upsample_bicubic2d_aa"]


@aten(*RESIZES)
def upsample(c, node, x, out, *options, **named):
    x, out = c.view(x), c.result_meta()[0][2:]
    return resized(c, x, matrices(node, x.shape[2:], out, [*options, *named.values()]))


@aten(*(name + "_backward" for name in RESIZES))
def upsample_backward(c, node, grad, out, size, *options, **named):
    grad = c.view(grad)
    return resized_grad(c, grad, matrices(node, size[2:], grad.shape[2:],
                                          [*options, *named.values()]))


# --- pixels and channels ------------------------------------------------------------ #

@aten("pixel_shuffle")
def pixel_shuffle(c, node, x, factor):
    *lead, channels, h, w = c.view(x).shape
    rank = len(lead)
    x = reshaped(c, x, lead + [channels // factor ** 2, factor, factor, h, w])
    order = [rank, rank + 3, rank + 1, rank + 4, rank + 2]
    return reshaped(c, x.permute(list(range(rank)) + order),
                    lead + [channels // factor ** 2, h * factor, w * factor])


@aten("pixel_unshuffle")
def pixel_unshuffle(c, node, x, factor):
    *lead, channels, h, w = c.view(x).shape
    rank = len(lead)
    x = reshaped(c, x, lead + [channels, h // factor, factor, w // factor, factor])
    order = [rank, rank + 2, rank + 4, rank + 1, rank + 3]
    return reshaped(c, x.permute(list(range(rank)) + order),
                    lead + [channels * factor ** 2, h // factor, w // factor])


@aten("channel_shuffle")
def channel_shuffle(c, node, x, groups):
    shape = c.view(x).shape
    x = reshaped(c, x, (shape[0], groups, shape[1] // groups, math.prod(shape[2:])))
    return reshaped(c, x.permute([0, 2, 1, 3]), shape)
