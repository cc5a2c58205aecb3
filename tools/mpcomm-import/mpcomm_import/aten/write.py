# ===- write.py - operators that replace a slice of a tensor --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of what writing to a tensor becomes in a functional graph: another
tensor, with other elements where was written."""

import torch

from .convert import aten
from .movement import clamp_index, concatenated, padded, sliced, unsqueeze
from .pointwise import cast, select


@aten("slice_scatter")
def slice_scatter(c, node, x, slice, dim=0, start=None, end=None, step=1):
    x = c.view(x)
    slice = cast(c, slice, x.dtype)
    dim %= len(x.dims)
    size, count = x.shape[dim], slice.shape[dim]
    start = clamp_index(start, size, 0)
    if count == 0:
        return x
    if step == 1 or count == 1:
        after = start + count
        pieces = [sliced(c, x, dim, 0, start)] if start else []
        pieces += [slice]
        pieces += [sliced(c, x, dim, after, size)] if after < size else []
        return concatenated(c, pieces, dim)
    last = start + (count - 1) * step
    spaced = padded(c, slice, dim, start, size - last - 1, step - 1)
    inside = torch.zeros(size, dtype=torch.bool)
    inside[start:last + 1:step] = True
    inside = inside.reshape([-1 if d == dim else 1 for d in range(len(x.dims))])
    return select(c, c.view(inside).expand(x.shape), spaced, x)


@aten("select_scatter")
def select_scatter(c, node, x, slice, dim, index):
    x = c.view(x)
    dim %= len(x.dims)
    index %= x.shape[dim]
    return slice_scatter(c, node, x, unsqueeze(c, node, slice, dim), dim, index, index + 1)


@aten("copy")
def copy(c, node, x, source, non_blocking=False):
    shape, dtype = c.result_meta()
    return cast(c, source, dtype).expand(shape)


@aten("fill.Tensor")
def fill(c, node, x, value):
    shape, dtype = c.result_meta()
    return cast(c, value, dtype).expand(shape)
