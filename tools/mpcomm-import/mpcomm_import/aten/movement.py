# ===- movement.py - operators that only move elements --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of reshapes, transposes, slices, concatenations and their
gradients. Most of them make no op at all (emit/views.py)."""

import math

import torch

from ..emit.movement import concatenated, padded, sliced
from ..emit.views import Axis, View, coalesce, emit_reshape, materialise
from ..errors import Unsupported
from .convert import aten
from .pointwise import cast


def reshaped(c, x, shape):
    x, shape = coalesce(c.view(x)), list(shape)
    if -1 in shape:
        known = -math.prod(shape)
        shape[shape.index(-1)] = math.prod(x.shape) // known
    view = x.reshape(shape)
    if view is None:
        view = View.of(emit_reshape(c.builder, materialise(c.builder, x), shape))
    return view


@aten("view", "_unsafe_view", "_reshape_alias")
def view(c, node, x, shape, stride=None):
    return reshaped(c, x, shape)


@aten("clone", "detach", "alias", "lift_fresh", "lift_fresh_copy")
def same(c, node, x, **kwargs):
    return x


@aten("t")
def t(c, node, x):
    x = c.view(x)
    return x.permute(range(len(x.dims))[::-1])


@aten("transpose.int")
def transpose(c, node, x, a, b):
    x = c.view(x)
    order = list(range(len(x.dims)))
    if order:
        order[a], order[b] = order[b], order[a]
    return x.permute(order)


@aten("permute")
def permute(c, node, x, order):
    x = c.view(x)
    return x.permute([d % len(x.dims) for d in order])


@aten("expand", "expand_copy")
def expand(c, node, x, shape, implicit=False):
    x = c.view(x)
    new = len(shape) - len(x.dims)
    shape = [x.shape[i - new] if n == -1 else n for i, n in enumerate(shape)]
    return x.expand(shape)


@aten("repeat")
def repeat(c, node, x, repeats):
    x = c.view(x)
    dims = [[]] * (len(repeats) - len(x.dims)) + x.dims
    return View(x.base, x.factors, [
        ([Axis(n)] if n != 1 else []) + d for n, d in zip(repeats, dims)])


@aten("unsqueeze")
def unsqueeze(c, node, x, dim):
    x = c.view(x)
    dim %= len(x.dims) + 1
    return View(x.base, x.factors, x.dims[:dim] + [[]] + x.dims[dim:])


@aten("squeeze.dim", "squeeze.dims", "squeeze.default")
def squeeze(c, node, x, dims=None):
    x = c.view(x)
    rank = len(x.dims)
    dims = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
    dims = {d % rank for d in dims} if rank else set()
    return View(x.base, x.factors,
                [d for i, d in enumerate(x.dims) if d or i not in dims])


# --- slices --------------------------------------------------------------------- #

def clamp_index(i, size, default):
    if i is None:
        return default
    return min(max(i + size if i < 0 else i, 0), size)


@aten("slice.Tensor")
def slice_(c, node, x, dim=0, start=None, end=None, step=1):
    x = c.view(x)
    size = x.shape[dim]
    return sliced(c, x, dim, clamp_index(start, size, 0),
                  clamp_index(end, size, size), step)


@aten("select.int")
def select(c, node, x, dim, index):
    x = c.view(x)
    dim %= len(x.dims)
    index %= x.shape[dim]
    part = sliced(c, x, dim, index, index + 1)
    return View(part.base, part.factors, part.dims[:dim] + part.dims[dim + 1:])


@aten("split.Tensor", "split_with_sizes")
def split(c, node, x, sizes, dim=0):
    x = c.view(x)
    total = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, total - i) for i in range(0, total, sizes)]
    parts, start = [], 0
    for n in sizes:
        shape = list(x.shape)
        shape[dim] = n
        parts.append(sliced(c, x, dim, start, start + n) if n else c.empty(shape, x.dtype))
        start += n
    return parts


@aten("unbind.int")
def unbind(c, node, x, dim=0):
    x = c.view(x)
    return [select(c, node, x, dim, i) for i in range(x.shape[dim])]


# --- their gradients, and other padding --------------------------------------------- #

@aten("slice_backward")
def slice_backward(c, node, grad, sizes, dim, start, end, step):
    size = sizes[dim]
    start = clamp_index(start, size, 0)
    count = c.view(grad).shape[dim]
    last = start + (count - 1) * step + 1
    return padded(c, grad, dim, start, size - last, step - 1)


@aten("select_backward")
def select_backward(c, node, grad, sizes, dim, index):
    dim %= len(sizes)
    index %= sizes[dim]
    grad = View.of(materialise(c.builder, unsqueeze(c, node, grad, dim)))
    return padded(c, grad, dim, index, sizes[dim] - index - 1)


@aten("constant_pad_nd")
def constant_pad(c, node, x, pad, value=0.0):
    x = c.view(x)
    for k in range(len(pad) // 2):
        low, high = pad[2 * k:2 * k + 2]
        dim = len(x.dims) - 1 - k
        x = sliced(c, x, dim, max(-low, 0), x.shape[dim] + min(high, 0))
        x = padded(c, x, dim, max(low, 0), max(high, 0), 0, value)
    return x


@aten("cat")
def cat(c, node, parts, dim=0):
    dtype = c.result_meta()[1]
    parts = [p for p in parts if not isinstance(p, torch.Tensor) or p.numel()]
    return concatenated(c, [cast(c, p, dtype) for p in parts], dim)


@aten("stack")
def stack(c, node, parts, dim=0):
    dim %= len(c.view(parts[0]).dims) + 1
    dtype = c.result_meta()[1]
    return concatenated(c, [unsqueeze(c, node, cast(c, p, dtype), dim) for p in parts], dim)


# --- tensors of one number ------------------------------------------------------------ #

def filled(*names, value):
    @aten(*names)
    def translate(c, node, x, *args, **kwargs):
        shape, dtype = c.result_meta()
        number = value if value is not None else \
            next(a for a in reversed(args) if isinstance(a, (int, float)))
        return c.scalar(number, dtype).expand(shape)


filled("ones_like", "new_ones", value=1)
filled("zeros_like", "new_zeros", "empty_like", "new_empty", "zero", value=0)
filled("full_like", "new_full", "fill.Scalar", value=None)
