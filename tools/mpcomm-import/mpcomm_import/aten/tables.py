# ===- tables.py - lookups in tables --------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of embeddings, of bags of them, and of their gradients."""

import torch

from ..emit.pointwise import conform, reduce
from ..emit.views import View, coalesce, materialise
from ..errors import Unsupported
from ..ir.graph import Type
from .convert import aten
from .emit.indexing import (constant_slices, emit_scatter, flattened, gathered,
                            slices_into, strict)
from .movement import reshaped
from .pointwise import cast, compare, formula, select, simple


@aten("embedding")
def embedding(c, node, table, ids, padding_idx=-1, scale_by_freq=False, sparse=False):
    table = c.view(table)
    if isinstance(ids, torch.Tensor) and ids.dim() == 1:
        return constant_slices(c, table, ids, 0)
    return gathered(c, table, strict(c, c.view(ids), table.shape[0]), 0)


@aten("embedding_dense_backward")
def embedding_backward(c, node, grad, ids, rows, padding_idx, scale_by_freq):
    grad = c.view(grad)
    if scale_by_freq:
        grad = formula(c, "div", grad, as_column(frequencies(c, ids, rows, grad.dtype)))
    if isinstance(ids, torch.Tensor) and ids.dim() == 1 and not (ids == padding_idx).any():
        zeros = c.scalar(0, grad.dtype).expand((rows, grad.shape[-1]))
        return slices_into(c, zeros, ids, grad, "sum", 0)
    ids = coalesce(c.view(ids))
    if ids.repeated():
        ids = View.of(materialise(c.builder, ids))
    width = grad.shape[-1]
    # The gradient in the shape of the indices' base, then its rows.
    row = View.of(materialise(c.builder, grad)).factors[-1:]
    like = View(None, ids.factors + row, ids.dims + row)
    value = conform(c.builder, grad, like)
    if value is None or value.shape != ids.base.shape + (width,):
        ids = View.of(materialise(c.builder, ids))
        value = materialise(c.builder, grad)
    return View.of(c.builder.create(
        "mpcomm.gather_grad", [value, ids.base], [Type((rows, width), grad.dtype)],
        padding_idx=padding_idx if padding_idx >= 0 else None)[0])


def frequencies(c, ids, rows, dtype):
    """For each index how often it is there."""
    ids = c.view(ids)
    flat = flattened(c, ids)
    ones = c.scalar(1, dtype).expand(flat.shape)
    counts = emit_scatter(c, c.scalar(0, dtype).expand((rows,)), flat, ones, "sum", 0)
    return gathered(c, counts, ids, 0)


# --- bags ------------------------------------------------------------------------------- #

SUM, MEAN, MAX = range(3)


class Bags:
    """Which of `count` rows belong to which bag: `length` rows to each, one after the
    other, or (None) that which `numbers` says."""

    def __init__(self, c, count, offsets, include_last_offset):
        self.length, self.numbers = None, None
        size = offsets.shape[0] - include_last_offset
        self.size, self.count = size, count
        if not isinstance(offsets, torch.Tensor):
            # A row belongs to the last bag that starts at it or before.
            starts = cast(c, offsets, "i64")
            starts = View(starts.base, starts.factors, [[]] + starts.dims)
            rows = c.view(torch.arange(count))
            rows = View(rows.base, rows.factors, rows.dims + [[]])
            begun = cast(c, compare(c, "sle", starts, rows), "i64")
            begun = reduce(c.builder, "sum", begun, [1], False)
            self.numbers = formula(c, "arith.addi", begun, -1)
            return
        ends = torch.cat([offsets[1:size], torch.tensor([count])])
        lengths = ends - offsets[:size]
        if offsets[0] != 0 or (lengths < 0).any():
            raise Unsupported("offsets of bags that do not count up from 0")
        if size and (lengths == lengths[0]).all() and lengths[0] > 0:
            self.length = int(lengths[0])
        else:
            self.numbers = torch.arange(size).repeat_interleave(lengths)

    def total(self, c, rows):
        """The sums of the rows of each bag."""
        rest = rows.shape[1:]
        if self.length is not None:
            return reduce(c.builder, "sum", reshaped(c, rows, (self.size, self.length) + rest), [1], False)
        zeros = c.scalar(0, rows.dtype).expand((self.size,) + rest)
        return emit_scatter(c, zeros, c.view(self.numbers), rows, "sum", 0)

    def spread(self, c, values):
        """For each row what its bag has."""
        if self.length is None:
            return gathered(c, values, c.view(self.numbers), 0)
        rest = values.shape[1:]
        each = View(values.base, values.factors, values.dims[:1] + [[]] + values.dims[1:])
        return reshaped(c, each.expand((self.size, self.length) + rest), (self.count,) + rest)


def as_column(x):
    return View(x.base, x.factors, x.dims + [[]])


def kept(c, indices, padding_idx, dtype):
    """1 for the rows that count, 0 for those of padding_idx."""
    return cast(c, compare(c, "ne", indices, padding_idx), dtype)


def bag_sizes(c, bags, indices, padding_idx, dtype):
    """How many rows of each bag count, at least 1."""
    if padding_idx < 0 and bags.length is not None:
        return c.scalar(bags.length, dtype).expand((bags.size,))
    ones = c.scalar(1, dtype).expand((bags.count,))
    counts = bags.total(c, ones if padding_idx < 0 else kept(c, indices, padding_idx, dtype))
    return simple(c, "arith.maximumf", [counts, c.scalar(1, dtype)])


def check_bags(bags, scale_by_freq, mode):
    if scale_by_freq:
        raise Unsupported("scale_grad_by_freq")
    if mode == MAX and bags.length is None:
        raise Unsupported("the maximum of bags of several lengths")


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(c, node, table, indices, offsets, scale_by_freq=False, mode=SUM, sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=-1):
    table = c.view(table)
    ids = strict(c, c.view(indices), table.shape[0])
    bags = Bags(c, ids.shape[0], offsets, include_last_offset)
    check_bags(bags, scale_by_freq, mode)
    rows = gathered(c, table, ids, 0)
    if mode == MAX:
        if padding_idx >= 0:
            raise Unsupported("the maximum of bags with padding_idx")
        top, taken = largest(c, bags, rows, ids)
        return [top, bags, None, taken]
    if per_sample_weights is not None:
        rows = formula(c, "mul", rows, as_column(c.view(per_sample_weights)))
    if padding_idx >= 0:
        rows = select(c, as_column(compare(c, "ne", ids, padding_idx)), rows, 0.0)
    total = bags.total(c, rows)
    if mode == MEAN:
        total = formula(c, "div", total, as_column(bag_sizes(c, bags, ids, padding_idx, table.dtype)))
    return [total, bags, None, None]


def largest(c, bags, rows, ids):
    """The maxima of bags, and the row of the table that each is from: the first."""
    width = rows.shape[1]
    rows = reshaped(c, rows, (bags.size, bags.length, width))
    top = reduce(c.builder, "max", rows, [1], False)
    places = c.view(torch.arange(bags.length)).reshape((bags.length, 1))
    is_top = compare(c, "oeq", rows, View(top.base, top.factors, top.dims[:1] + [[]] + top.dims[1:]))
    first = select(c, is_top, places, c.scalar(bags.length - 1, "i64"))
    first = reduce(c.builder, "min", first, [1], False)
    of_bags = reshaped(c, ids, (bags.size, bags.length))
    values = [materialise(c.builder, v) for v in (of_bags, first)]
    taken = c.builder.create("mpcomm.gather", values, [Type((bags.size, width), ids.dtype)], dim=1, batch_dims=1)[0]
    return top, View.of(taken)


def bag_backward(c, grad, indices, bags, taken, rows, scale_by_freq, mode, weights, padding_idx):
    grad, ids = c.view(grad), c.view(indices)
    check_bags(bags, scale_by_freq, mode)
    width = grad.shape[1]
    zeros = c.scalar(0, grad.dtype)
    if mode == MAX:
        # One element of the table for each of the result's.
        columns = c.view(torch.arange(width)).reshape((1, width))
        places = formula(c, "arith.addi", formula(c, "arith.muli", cast(c, taken, "i64"), width), columns)
        flat = emit_scatter(c, zeros.expand((rows * width,)), flattened(c, places), flattened(c, grad), "sum", 0)
        return reshaped(c, flat, (rows, width))
    if mode == MEAN:
        grad = formula(c, "div", grad, as_column(bag_sizes(c, bags, ids, padding_idx, grad.dtype)))
    each = bags.spread(c, grad)
    if weights is not None:
        each = formula(c, "mul", each, as_column(c.view(weights)))
    values = [materialise(c.builder, v) for v in (each, ids)]
    return View.of(c.builder.create(
        "mpcomm.gather_grad", values, [Type((rows, width), grad.dtype)],
        padding_idx=padding_idx if padding_idx >= 0 else None)[0])


@aten("_embedding_bag_backward")
def embedding_bag_backward(c, node, grad, indices, offsets, bags, sizes, taken, rows, scale_by_freq, mode,
                           sparse, weights, padding_idx=-1):
    return bag_backward(c, grad, indices, bags, taken, rows, scale_by_freq, mode, weights, padding_idx)


@aten("_embedding_bag_dense_backward")
def embedding_bag_dense_backward(c, node, grad, indices, bags, sizes, taken, rows, scale_by_freq, mode,
                                 weights, padding_idx=-1):
    return bag_backward(c, grad, indices, bags, taken, rows, scale_by_freq, mode, weights, padding_idx)


@aten("_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(c, node, grad, table, indices, offsets, bags, mode, padding_idx=-1):
    ids = c.view(indices)
    products = formula(c, "mul", bags.spread(c, c.view(grad)), gathered(c, c.view(table), ids, 0))
    result = reduce(c.builder, "sum", products, [1], False)
    if padding_idx >= 0:
        result = formula(c, "mul", result, kept(c, ids, padding_idx, result.dtype))
    return result
