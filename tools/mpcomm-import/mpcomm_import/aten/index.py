# ===- index.py - operators that read and write at indices ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of gathers, scatters and advanced indexing.

All become mpcomm.gather, mpcomm.gather_grad and mpcomm.scatter along one
dimension (emit/indexing.py). Indices that are known at import and evenly spaced make
slices, and those that repeat each element a broadcast, as of grouped queries.

PyTorch rejects negative indices in gather, scatter and index_select;
in x[i] and take they count from the end.
"""

import math

import torch

from ..emit.views import View
from ..errors import Unsupported
from .convert import aten
from .emit.indexing import (along_dim, constant_slices, emit_scatter, flattened,
                            gathered, integer, linear, slices_into, strict, wrapped)
from .movement import padded, reshaped
from .pointwise import cast, formula, select


def updates_of(c, value, shape, dtype):
    """What is written, a tensor or a number, broadcast to `shape`."""
    value = c.scalar(value, dtype) if isinstance(value, (int, float, bool)) else cast(c, value, dtype)
    return value.expand(shape)


# --- along one dimension ------------------------------------------------------------ #

@aten("index_select")
def index_select(c, node, x, dim, index):
    x = c.view(x)
    if not x.dims:
        return x
    dim %= len(x.dims)
    if isinstance(index, torch.Tensor):
        return constant_slices(c, x, index.reshape(-1), dim)
    return gathered(c, x, strict(c, flattened(c, c.view(index)), x.shape[dim]), dim)


@aten("gather")
def gather(c, node, x, dim, index, sparse_grad=False):
    x, index = c.view(x), integer(c, index)
    if not x.dims:
        return x
    return along_dim(c, x, dim % len(x.dims), index).read(c)


def scattered(c, x, dim, index, src, kind, include_self=True):
    if isinstance(index, torch.Tensor) and index.numel() == 0:
        return x
    x, index = c.view(x), integer(c, index)
    if not x.dims:
        x, index, dim = View(x.base, x.factors, [[]]), View(index.base, index.factors, [[]]), 0
    src = src if isinstance(src, (int, float, bool)) else c.view(src)
    place = along_dim(c, x, dim % len(x.dims), index, written=True)
    result = place.write(c, src, kind, include_self)
    return reshaped(c, result, c.result_meta()[0])


@aten("scatter.src", "scatter.value")
def scatter(c, node, x, dim, index, src):
    return scattered(c, x, dim, index, src, None)


@aten("scatter_add")
def scatter_add(c, node, x, dim, index, src):
    return scattered(c, x, dim, index, src, "sum")


REDUCTIONS = {"add": "sum", "sum": "sum", "multiply": "prod", "prod": "prod", "amax": "max",
              "amin": "min", "mean": "mean"}


@aten("scatter.reduce", "scatter.value_reduce", "scatter_reduce.two")
def scatter_reduce(c, node, x, dim, index, src, reduce, include_self=True):
    return scattered(c, x, dim, index, src, REDUCTIONS[reduce], include_self)


def into_slices(c, x, dim, index, source, kind, include_self=True):
    """`source` combined with the slices of `x` that a list of indices names."""
    x = c.view(x)
    if isinstance(index, torch.Tensor) and index.numel() == 0:
        return x
    if not x.dims:
        x, dim = View(x.base, x.factors, [[]]), 0
    dim %= len(x.dims)
    ids = index.reshape(-1) if isinstance(index, torch.Tensor) else \
        strict(c, flattened(c, c.view(index)), x.shape[dim])
    shape = x.shape[:dim] + tuple(ids.shape) + x.shape[dim + 1:]
    updates = updates_of(c, source, shape, x.dtype)
    result = slices_into(c, x, ids, updates, kind, dim, include_self)
    return reshaped(c, result, c.result_meta()[0])


@aten("index_add")
def index_add(c, node, x, dim, index, source, alpha=1):
    if alpha != 1:
        source = c.view(source)
        kind = "arith.mulf" if source.base.type.is_float else "arith.muli"
        source = formula(c, kind, source, alpha)
    return into_slices(c, x, dim, index, source, "sum")


@aten("index_copy")
def index_copy(c, node, x, dim, index, source):
    return into_slices(c, x, dim, index, source, None)


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(c, node, x, dim, index, value):
    return into_slices(c, x, dim, index, value, None)


@aten("index_reduce")
def index_reduce(c, node, x, dim, index, source, reduce, include_self=True):
    return into_slices(c, x, dim, index, source, REDUCTIONS[reduce], include_self)


@aten("take")
def take(c, node, x, index):
    x = flattened(c, c.view(x))
    return gathered(c, x, c.view(wrapped(c, index, x.shape[0])), 0)


@aten("put")
def put(c, node, x, index, source, accumulate=False):
    x = c.view(x)
    flat = flattened(c, x)
    ids = flattened(c, c.view(wrapped(c, index, flat.shape[0])))
    updates = flattened(c, cast(c, source, x.dtype))
    return reshaped(c, emit_scatter(c, flat, ids, updates, "sum" if accumulate else None, 0), x.shape)


# --- advanced indexing ---------------------------------------------------------------- #

class Place:
    """What x[indices] means: slices of `x`, its indexed dimensions moved together
    and made one, along `dim` at `ids`, a View or a constant of shape `shape`."""

    def __init__(self, c, x, indices):
        indices = list(indices) + [None] * (len(x.dims) - len(indices))
        indices = [i for index in indices for i in expanded_mask(index)]
        if len(indices) > len(x.dims):
            indices = indices[:len(x.dims)]
        where = [d for d, i in enumerate(indices) if i is not None]
        self.order = list(range(len(x.dims)))
        self.dim = where[0]
        if where != list(range(where[0], where[-1] + 1)):
            self.order, self.dim = where + [d for d in self.order if d not in where], 0
        x = x.permute(self.order)
        self.permuted = x.shape
        sizes = x.shape[self.dim:self.dim + len(where)]
        parts = [wrapped(c, indices[d], n) for d, n in zip(where, sizes)]
        self.shape = tuple(torch.broadcast_shapes(*(tuple(p.shape) for p in parts)))
        self.x = x if len(where) == 1 else reshaped(
            c, x, x.shape[:self.dim] + (math.prod(sizes),) + x.shape[self.dim + len(where):])
        self.ids = linear(c, parts, sizes, self.shape)

    def slices(self):
        """The shape of what is read or written."""
        return self.x.shape[:self.dim] + self.shape + self.x.shape[self.dim + 1:]

    def undo(self, c, x):
        """`x`, in the shape of the tensor that was indexed."""
        x = reshaped(c, x, self.permuted)
        return x.permute([self.order.index(d) for d in range(len(self.order))])


def expanded_mask(index):
    """A constant mask is the indices of what it keeps, one for each dimension."""
    if not isinstance(index, torch.Tensor) or index.dtype not in (torch.bool, torch.uint8):
        if isinstance(index, View) and index.dtype in ("i1", "i8"):
            raise Unsupported("a mask that depends on the data, which makes a tensor of "
                              "unknown size; use torch.where")
        return [index]
    return list(index.nonzero(as_tuple=True))


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(c, node, x, indices):
    place = Place(c, c.view(x), indices)
    if 0 in place.slices():
        return c.empty(place.slices(), place.x.dtype)
    if isinstance(place.ids, torch.Tensor):
        flat = constant_slices(c, place.x, place.ids.reshape(-1), place.dim)
        return reshaped(c, flat, place.slices())
    return gathered(c, place.x, place.ids, place.dim)


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(c, node, x, indices, values, accumulate=False, unsafe=False):
    x = c.view(x)
    at, *others = [d for d, index in enumerate(indices) if index is not None]
    if not others and isinstance(indices[at], View) and indices[at].dtype == "i1":
        return masked_put(c, x, indices[at], at, values, accumulate)
    place = Place(c, x, indices)
    if 0 in place.slices():
        return x
    updates = updates_of(c, values, place.slices(), x.dtype)
    ids = place.ids
    if isinstance(ids, torch.Tensor):
        shape = place.x.shape[:place.dim] + (ids.numel(),) + place.x.shape[place.dim + 1:]
        ids, updates = ids.reshape(-1), reshaped(c, updates, shape)
    return place.undo(c, slices_into(c, place.x, ids, updates, "sum" if accumulate else None, place.dim))


def masked_put(c, x, mask, at, values, accumulate):
    """x with one number where a mask of its dimensions from `at` on holds."""
    values = cast(c, values, x.dtype)
    if math.prod(values.shape) != 1:
        raise Unsupported("values at a mask that depends on the data; use torch.where")
    values = View(values.base, values.factors, [])
    if accumulate:
        values = formula(c, "arith.addf" if x.base.type.is_float else "arith.addi", x, values)
    rest = [[]] * (len(x.dims) - at - len(mask.dims))
    return select(c, View(mask.base, mask.factors, [[]] * at + mask.dims + rest), values, x)


@aten("masked_select")
def masked_select(c, node, x, mask):
    if not isinstance(mask, torch.Tensor):
        raise Unsupported("a mask that depends on the data; use torch.where")
    x = c.view(x)
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    flat = flattened(c, x.expand(shape))
    return constant_slices(c, flat, mask.expand(shape).reshape(-1).nonzero()[:, 0], 0)


@aten("masked_scatter")
def masked_scatter(c, node, x, mask, source):
    if not isinstance(mask, torch.Tensor):
        raise Unsupported("a mask that depends on the data; use torch.where")
    x = c.view(x)
    ids = mask.expand(x.shape).reshape(-1).nonzero()[:, 0]
    flat = flattened(c, cast(c, source, x.dtype))
    updates = constant_slices(c, flat, torch.arange(len(ids)), 0)
    return reshaped(c, slices_into(c, flattened(c, x), ids, updates, None, 0), x.shape)


@aten("masked_scatter_backward")
def masked_scatter_backward(c, node, grad, mask, sizes):
    """The gradient of the source: what was taken of it, in order, then zeros."""
    if not isinstance(mask, torch.Tensor):
        raise Unsupported("a mask that depends on the data; use torch.where")
    taken = masked_select(c, node, grad, mask)
    return reshaped(c, padded(c, taken, 0, 0, math.prod(sizes) - taken.shape[0]), sizes)
