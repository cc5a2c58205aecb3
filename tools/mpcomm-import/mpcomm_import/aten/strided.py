# ===- strided.py - tensors by their place in memory -----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of as_strided and of its transpose: the elements of a tensor that has its
memory for itself, in the order in which they lie there."""

import math

import torch

from ..errors import Unsupported
from ..torch_front import compat
from .convert import aten
from .emit.indexing import constant_slices, flattened, slices_into
from .movement import reshaped, unsqueeze
from .pointwise import cast


def contiguous_strides(shape):
    return [math.prod(shape[d + 1:]) for d in range(len(shape))]


class Memory:
    """A tensor's elements as they lie in memory, `flat`."""

    def __init__(self, c, node, x):
        x, strides = c.view(x), compat.strides(node)
        wide = [d for d, n in enumerate(x.shape) if n != 1]
        order = sorted(wide, key=lambda d: -strides[d])
        stored = [x.shape[d] for d in order]
        if [strides[d] for d in order] != contiguous_strides(stored):
            raise Unsupported("of a tensor with gaps in its memory")
        ones = [d for d in range(len(x.shape)) if d not in wide]
        self.order, self.shape = ones + order, x.shape
        self.flat = flattened(c, x.permute(self.order))
        self.begin = compat.storage_offset(node)

    def places(self, shape, strides, offset):
        """Where the elements of such a tensor are in `flat`."""
        if offset is not None and self.begin is None:
            raise Unsupported("whose place in its memory is not known")
        at = torch.tensor(0 if offset is None else offset - self.begin)
        for n, stride in zip(shape, strides):
            at = at.unsqueeze(-1) + torch.arange(n) * stride
        at = at.flatten()
        if at.min() < 0 or at.max() >= self.flat.shape[0]:
            raise Unsupported("beyond a tensor's own memory")
        return at

    def undo(self, c, flat):
        """`flat`, seen as the tensor."""
        x = reshaped(c, flat, [self.shape[d] for d in self.order])
        return x.permute([self.order.index(d) for d in range(len(self.order))])


def whole(c, memory, shape, strides):
    """A view of all elements, or None: a reshape, a transposition, an expansion."""
    dims = [d for d, n in enumerate(shape) if n != 1 and strides[d] != 0]
    order = sorted(dims, key=lambda d: -strides[d])
    stored = [shape[d] for d in order]
    if math.prod(stored) != memory.flat.shape[0] or \
            [strides[d] for d in order] != contiguous_strides(stored):
        return None
    result = reshaped(c, memory.flat, stored).permute([order.index(d) for d in dims])
    for d in range(len(shape)):
        if d not in dims:
            result = unsqueeze(c, None, result, d)
    return result.expand(shape)


@aten("as_strided")
def as_strided(c, node, x, shape, strides, offset=None):
    memory = Memory(c, node.args[0], x)
    places = memory.places(shape, strides, offset)
    view = whole(c, memory, shape, strides)
    if view is not None:
        return view
    return reshaped(c, constant_slices(c, memory.flat, places, 0), shape)


@aten("as_strided_scatter")
def as_strided_scatter(c, node, x, source, shape, strides, offset=None):
    memory = Memory(c, node.args[0], x)
    places = memory.places(shape, strides, offset)
    if len(places.unique()) != len(places):
        raise Unsupported("with elements that share memory")
    source = flattened(c, cast(c, source, memory.flat.dtype).expand(shape))
    return memory.undo(c, slices_into(c, memory.flat, places, source, None, 0))


@aten("new_empty_strided")
def new_empty_strided(c, node, x, shape, strides, *args, **kwargs):
    """What is in it is not defined."""
    shape, dtype = c.result_meta()
    return c.scalar(0, dtype).expand(shape)
