# ===- indexing.py - gathers and scatters of views -------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""mpcomm.gather, gather_grad and scatter on Views.

An op has one list of indices along one dimension, for all or for each of its
batch dimensions. PyTorch's gather has an index per element: where the index is
expanded along trailing dimensions, whole slices are read; else these dimensions
are joined with the indexed one, and the index counts in both.
"""

import math

import torch

from ...emit.pointwise import reduce, whole_dim
from ...emit.views import Axis, View, coalesce, materialise, splat_value
from ...errors import Unsupported
from ...ir.graph import Type, enum
from ..movement import padded, reshaped, sliced
from ..pointwise import cast, compare, formula, select, simple


# --- indices ------------------------------------------------------------------------- #

def integer(c, ids):
    ids = c.view(ids)
    return ids if ids.dtype in ("i32", "i64") else cast(c, ids, "i64")


def strict(c, ids, size):
    """Indices that PyTorch expects in [0, size)."""
    ids = integer(c, ids)
    c.index(ids.base, size)
    return ids


# Ops whose results are not negative where no operand is.
KEEP_SIGN = {"arith.addi", "arith.muli", "arith.maxsi", "arith.minsi", "arith.divui",
             "arith.remui", "arith.andi", "arith.extsi", "mpcomm.reshape", "mpcomm.transpose",
             "mpcomm.broadcast_in_dim", "mpcomm.slice", "mpcomm.concatenate", "mpcomm.gather",
             "mpcomm.reverse"}


def is_negative(value):
    """Whether elements of an integer value may be negative."""
    op = value.op
    if op is None:
        return True
    if op.name == "arith.constant":
        elements = op.attributes["value"].elements
        return bool((torch.tensor(elements) < 0).any())
    if op.name in ("mpcomm.iota", "arith.extui"):
        return False
    if op.name == "arith.select":
        return any(map(is_negative, op.operands[1:]))
    if op.name == "mpcomm.gather":
        return is_negative(op.operands[0])
    if op.name == "arith.maxsi":
        return all(map(is_negative, op.operands))
    return op.name not in KEEP_SIGN or any(map(is_negative, op.operands))


def wrapped(c, ids, size):
    """Indices of which negative ones count from the end; a constant stays one."""
    if isinstance(ids, torch.Tensor):
        return torch.where(ids < 0, ids + size, ids)
    ids = integer(c, ids)
    if not is_negative(ids.base):
        return ids
    return select(c, compare(c, "slt", ids, 0), formula(c, "arith.addi", ids, size), ids)


def flattened(c, x):
    return reshaped(c, x, [math.prod(x.shape)])


def counted(c, size, rank, dim):
    """0, 1, … along dimension `dim` of `rank`."""
    axes = View.of(c.builder.create("mpcomm.iota", [], [Type((size,), "i64")], dim=0)[0])
    return View(axes.base, axes.factors, [[]] * dim + axes.dims + [[]] * (rank - dim - 1))


def linear(c, parts, sizes, shape):
    """One index for indices of several dimensions: constants or Views, broadcast
    to `shape`."""
    total, known, stride = None, None, 1
    for part, size in reversed(list(zip(parts, sizes))):
        if isinstance(part, torch.Tensor):
            term = part.long() * stride
            known = term if known is None else known + term
        elif stride == 1 and len(parts) == 1:
            total = part
        else:
            term = cast(c, part, "i64")
            term = term if stride == 1 else formula(c, "arith.muli", term, stride)
            total = term if total is None else formula(c, "arith.addi", total, term)
        stride *= size
    if total is None:
        return known.expand(shape)
    if known is not None:
        total = formula(c, "arith.addi", total, c.view(known))
    return total.expand(shape)


# --- slices along a dimension ---------------------------------------------------------- #

def fresh(view):
    """The same view of axes that no other has."""
    axes = {a for d in view.factors + view.dims for a in d}
    return view.refine({a: [Axis(a.size)] for a in axes})


def gathered(c, x, ids, dim):
    """Slices of x along seen dimension `dim`."""
    x, ids = coalesce(x), fresh(coalesce(ids))
    if ids.repeated():
        ids = View.of(materialise(c.builder, ids))
    at = whole_dim(x, dim)
    if at is None:
        x, at = View.of(materialise(c.builder, x)), dim
    shape = x.base.shape[:at] + ids.base.shape + x.base.shape[at + 1:]
    value = c.builder.create("mpcomm.gather", [x.base, ids.base], [Type(shape, x.dtype)], dim=at)[0]
    return coalesce(View(value, x.factors[:at] + ids.factors + x.factors[at + 1:],
                         x.dims[:dim] + ids.dims + x.dims[dim + 1:]))


def progression(ids):
    """(first, step) of constant indices that are evenly spaced upwards, or None."""
    first = int(ids[0])
    step = int(ids[1]) - first if len(ids) > 1 else 1
    if first < 0 or step < 1 or not torch.equal(ids, first + step * torch.arange(len(ids), dtype=ids.dtype)):
        return None
    return first, step


def repetitions(ids, size):
    """How often constant indices repeat each of `size` slices in turn, or 0."""
    times = len(ids) // size
    each = torch.arange(size, dtype=ids.dtype).repeat_interleave(times)
    return times if len(ids) == times * size and torch.equal(ids, each) else 0


def constant_slices(c, x, ids, dim):
    """Slices of x along `dim` at constant indices, a list."""
    if len(ids) == 0:
        raise Unsupported("a tensor without elements")
    size = x.shape[dim]
    even = progression(ids)
    if even is not None:
        return sliced(c, x, dim, even[0], even[0] + (len(ids) - 1) * even[1] + 1, even[1])
    times = repetitions(ids, size)
    if times:
        return View(x.base, x.factors,
                    x.dims[:dim] + [x.dims[dim] + [Axis(times)]] + x.dims[dim + 1:])
    return gathered(c, x, c.view(ids), dim)


def slices_into(c, x, ids, updates, kind, dim, include_self=True):
    """Updates combined with slices of x along `dim`; `ids`, a View, or a list of
    constants."""
    if not isinstance(ids, torch.Tensor):
        return reduced_into(c, x, ids, updates, kind, dim, 0, include_self)
    if kind == "sum" and splat_value(x.base) == 0:
        size, even = x.shape[dim], progression(ids)
        if even is not None:
            last = even[0] + (len(ids) - 1) * even[1]
            return padded(c, updates, dim, even[0], size - last - 1, even[1] - 1)
        times = repetitions(ids, size)
        if times:
            parts = reshaped(c, updates, x.shape[:dim] + (size, times) + x.shape[dim + 1:])
            return reduce(c.builder, "sum", parts, [dim + 1], False)
    return reduced_into(c, x, c.view(ids), updates, kind, dim, 0, include_self)


# --- scatters ---------------------------------------------------------------------------- #

def emit_scatter(c, x, ids, updates, kind, dim, batch_dims=0):
    """x with updates at indices; `kind` None: they replace."""
    values = [materialise(c.builder, v) for v in (x, ids, updates)]
    if kind == "sum" and splat_value(values[0]) == 0 and values[0].type.is_float:
        return View.of(c.builder.create("mpcomm.gather_grad", [values[2], values[1]], [values[0].type],
                                        dim=dim, batch_dims=batch_dims)[0])
    return View.of(c.builder.create(
        "mpcomm.scatter", values, [values[0].type], dim=dim, batch_dims=batch_dims,
        reduction=enum("reduction", kind) if kind else None)[0])


def identity_of(c, kind, dtype):
    """The number that the other operand of a reduction comes through."""
    type = Type((), dtype)
    if kind in ("sum", "mean"):
        return c.scalar(0, dtype)
    if kind == "prod":
        return c.scalar(1, dtype)
    if type.is_float:
        return c.scalar(-math.inf if kind == "max" else math.inf, dtype)
    least = -(1 << type.width - 1)
    return c.scalar(least if kind == "max" else -least - 1, dtype)


def reduced_into(c, x, ids, updates, kind, dim, batch_dims, include_self=True):
    """As emit_scatter, with "mean" too; without `include_self` the elements that
    are updated do not count themselves."""
    def scatter(to, of, how):
        return emit_scatter(c, to, ids, of, how, dim, batch_dims)
    if not include_self:
        x = scatter(x, identity_of(c, kind, x.dtype).expand(updates.shape), None)
    if kind != "mean":
        return scatter(x, updates, kind)
    if not x.base.type.is_float:
        raise Unsupported("the mean of integers")
    total = scatter(x, updates, "sum")
    ones = c.scalar(1, x.dtype)
    counts = scatter(c.scalar(int(include_self), x.dtype).expand(x.shape), ones.expand(updates.shape), "sum")
    return formula(c, "div", total, simple(c, "arith.maximumf", [counts, ones]))


class AlongDim:
    """An index per element, of PyTorch's gather and scatter, as indices of slices:
    `x` and `ids` along `dim` with `batch_dims`. Updates have the shape `elements`
    of the index, and are seen as `updates`."""

    def __init__(self, x, ids, dim, batch_dims, elements, updates):
        self.x, self.ids, self.dim, self.batch_dims = x, ids, dim, batch_dims
        self.elements, self.updates = elements, updates

    def read(self, c):
        if self.batch_dims == 0:
            value = gathered(c, self.x, self.ids, self.dim)
        else:
            values = [materialise(c.builder, v) for v in (self.x, self.ids)]
            value = View.of(c.builder.create(
                "mpcomm.gather", values, [Type(self.updates, self.x.dtype)], dim=self.dim,
                batch_dims=self.batch_dims)[0])
        return reshaped(c, value, self.elements)

    def write(self, c, src, kind, include_self):
        if isinstance(src, View):
            for d, n in enumerate(self.elements):
                if len(src.dims) > d and n < src.shape[d]:
                    src = sliced(c, src, d, 0, n)
            src = reshaped(c, src, self.updates)
        else:
            src = c.scalar(src, self.x.dtype).expand(self.updates)
        return reduced_into(c, self.x, self.ids, src, kind, self.dim, self.batch_dims, include_self)


def along_dim(c, x, dim, index, written=False):
    """How to read, or write, element index[…] along `dim` at each place."""
    c.index(index.base, x.shape[dim])
    index, rank = coalesce(index), len(x.dims)
    others = [d for d in range(rank) if d != dim and index.shape[d] != x.shape[d]]
    if others and written:
        return everywhere(c, x, dim, index)
    for d in others:
        x = sliced(c, x, d, 0, index.shape[d])
    elements, own = index.shape, index.base_axes()

    def is_repeated(d):
        return all(a not in own for a in index.dims[d])

    if not all(map(is_repeated, range(dim + 1, rank))):
        inner = x.shape[dim + 1:]
        strides = [math.prod(inner[k + 1:]) for k in range(len(inner))]
        index = formula(c, "arith.muli", cast(c, index, "i64"), math.prod(inner))
        for k, (size, stride) in enumerate(zip(inner, strides)):
            if size > 1:
                term = counted(c, size, rank, dim + 1 + k)
                index = formula(c, "arith.addi", index, formula(c, "arith.muli", term, stride))
        x = reshaped(c, x, x.shape[:dim] + (-1,))
        index = coalesce(reshaped(c, index, elements[:dim] + (-1,)))
        own = index.base_axes()
    batch = max([d + 1 for d in range(dim) if not is_repeated(d)], default=0)
    ids = View(index.base, index.factors, index.dims[:batch] + [index.dims[dim]])
    return AlongDim(x, ids, dim, batch, elements,
                    x.shape[:dim] + ids.shape[batch:] + x.shape[dim + 1:])


def everywhere(c, x, dim, index):
    """The same for an index that does not reach all of x: one for all dimensions."""
    rank, elements = len(x.dims), index.shape
    total = None
    for d in range(rank):
        stride = math.prod(x.shape[d + 1:])
        term = cast(c, index, "i64") if d == dim else counted(c, elements[d], rank, d)
        term = formula(c, "arith.muli", term, stride)
        total = term if total is None else formula(c, "arith.addi", total, term)
    return AlongDim(flattened(c, x), flattened(c, total.expand(elements)), 0, 0, elements,
                    (math.prod(elements),))
