# ===- movement.py - what moves elements of views --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Slices, padding and concatenations on views: `c` is a converter of any front end,
with `view(x)` and a `builder`."""

import math

from ..errors import Unsupported
from ..ir.graph import Type
from .pointwise import resize, whole_dim
from .views import Axis, View, coalesce, emit_reshape, materialise, splat_value


def emit_slice(c, value, dim, start, limit, stride=1):
    rank = len(value.shape)
    starts, limits = [0] * rank, list(value.shape)
    starts[dim], limits[dim] = start, limit
    strides = [stride if i == dim else 1 for i in range(rank)]
    shape = list(value.shape)
    shape[dim] = -(-(limit - start) // stride)
    return c.builder.create("mpcomm.slice", [value], [Type(shape, value.dtype)],
                            starts=starts, limits=limits, strides=strides)[0]


def sliced(c, x, dim, start, limit, stride=1):
    """Elements start, start + stride, … below limit of a seen dimension."""
    x = coalesce(c.view(x))
    dim %= len(x.dims)
    size = x.shape[dim]
    if limit <= start:
        raise Unsupported("a slice without elements")
    if (start, limit, stride) == (0, size, 1):
        return x
    count = -(-(limit - start) // stride)
    if x.dims[dim] and all(a not in x.base_axes() for a in x.dims[dim]):
        axes = [Axis(count)] if count != 1 else []  # all elements are the same
        return View(x.base, x.factors,
                    [axes if i == dim else d for i, d in enumerate(x.dims)])
    if stride == 1 and whole_dim(x, dim) is None:
        outer = sliced_outer(c, x, dim, start, limit)
        if outer is not None:
            return outer
    return resize(c.builder, x, dim, count,
                  lambda v, at: emit_slice(c, v, at, start, limit, stride))


def sliced_outer(c, x, dim, start, limit):
    """A slice along the outermost factor of a dimension of the base, which is
    one run of that dimension: q, k and v of a merged projection."""
    if len(x.dims[dim]) != 1:
        return None
    axis = x.dims[dim][0]
    at = next((i for i, f in enumerate(x.factors) if f and f[0] is axis), None)
    if at is None:
        return None
    inner = x.factors[at][1:]
    step = math.prod(a.size for a in inner)
    value = emit_slice(c, x.base, at, start * step, limit * step)
    axes = [Axis(limit - start)] if limit - start != 1 else []
    factors = [axes + inner if i == at else f for i, f in enumerate(x.factors)]
    return coalesce(View(value, factors,
                         [axes if i == dim else d for i, d in enumerate(x.dims)]))


def padded(c, x, dim, low, high, interior=0, value=0.0):
    x = c.view(x)
    if not (low or high or interior):
        return x
    fill = c.builder.constant(value, Type((), x.dtype))
    size = x.shape[dim % len(x.dims)]
    total = low + size + (size - 1) * interior + high

    def make(v, at):
        rank = len(v.shape)

        def only(n):
            return [n if i == at else 0 for i in range(rank)]
        shape = [total if i == at else n for i, n in enumerate(v.shape)]
        return c.builder.create("mpcomm.pad", [v, fill], [Type(shape, v.dtype)],
                                low=only(low), high=only(high),
                                interior=only(interior))[0]
    return resize(c.builder, x, dim, total, make)


def merged(parts, dim):
    """`parts` with those that follow each other and are one number as one: the gradient of
    one part of a split has zeros for each of the others."""
    result = []
    for part in parts:
        number = None if part.base.shape else splat_value(part.base)
        before = result[-1] if result else None
        if number is not None and before and not before.base.shape and \
                repr(splat_value(before.base)) == repr(number):  # -0.0 is not 0.0
            shape = list(part.shape)
            shape[dim] += result.pop().shape[dim]
            part = View.of(part.base).expand(shape)
        result.append(part)
    return result


def concatenated(c, parts, dim):
    dim %= len(parts[0].dims)
    parts = merged(parts, dim)
    rank = len(parts[0].dims)
    kept = list(range(rank))
    if not all(p.is_identity for p in parts):
        # Dimensions of size 1 would only keep the others out of their order in memory.
        kept = [i for i, d in enumerate(parts[0].dims) if d or i == dim]
    parts = [View(p.base, p.factors, [p.dims[i] for i in kept]) for p in parts]
    order = memory_order(parts[0])
    values = [materialise(c.builder, p.permute(order)) for p in parts]
    at = order.index(kept.index(dim))
    whole = View.of(values[0]) if len(values) == 1 else concatenated_values(c, values, at)
    dims = {kept[i]: d for i, d in zip(order, whole.dims)}
    return View(whole.base, whole.factors, [dims.get(i, []) for i in range(rank)])


def concatenated_values(c, values, at):
    swapped = exchanged(c, values, at)
    if swapped is not None:
        return swapped
    shape = list(values[0].shape)
    shape[at] = sum(v.shape[at] for v in values)
    return View.of(c.builder.create("mpcomm.concatenate", values,
                                    [Type(shape, values[0].dtype)], dim=at)[0])


def half(value, at):
    """(what `value` is a slice of along dimension `at`, its start, whether it is
    negated); None if it is none."""
    negated = value.op is not None and value.op.name == "arith.negf"
    op = value.op.operands[0].op if negated else value.op
    if op is None or op.name != "mpcomm.slice":
        return None
    whole = op.operands[0]
    others = all(a == b for i, (a, b) in enumerate(zip(value.shape, whole.shape)) if i != at)
    if not others or op.attributes["strides"][at] != 1:
        return None
    return whole, op.attributes["starts"][at], negated


def exchanged(c, values, at):
    """The second half of a tensor and the first, each perhaps negated, as rotary
    positions have it: the halves reversed, which needs no copy; else None."""
    halves = [half(v, at) for v in values]
    if len(halves) != 2 or None in halves:
        return None
    (whole, second, *_), (other, first, *_) = halves
    size = values[0].shape[at]
    if whole is not other or (second, first) != (size, 0) or whole.shape[at] != 2 * size:
        return None
    pair = emit_reshape(c.builder, whole, whole.shape[:at] + (2, size) + whole.shape[at + 1:])
    turned = c.builder.create("mpcomm.reverse", [pair], [pair.type], dims=[at])[0]
    signs = [-1.0 if negated else 1.0 for _, _, negated in halves]
    if signs != [1.0, 1.0]:
        sign = c.builder.literal(signs, Type((2,), whole.dtype))
        sign = c.builder.create("mpcomm.broadcast_in_dim", [sign], [pair.type], dims=[at])[0]
        turned = c.builder.create("arith.mulf", [turned, sign], [pair.type])[0]
    turned = View.of(turned)
    dims = turned.dims[:at] + [turned.dims[at] + turned.dims[at + 1]] + turned.dims[at + 2:]
    return View(turned.base, turned.factors, dims)


def border(view):
    """(the value that the base of `view` is padded of by zeros, the only dimension that
    is, the elements before it); None if it is not."""
    op = view.base.op
    if op is None or op.name != "mpcomm.pad" or splat_value(op.operands[1]) != 0 or \
            any(op.attributes["interior"]):
        return None
    inner = op.operands[0]
    grown = [i for i, (a, b) in enumerate(zip(inner.shape, view.base.shape)) if a != b]
    return (inner, grown[0], op.attributes["low"][grown[0]]) if len(grown) == 1 else None


def joined(c, a, b):
    """The sum of two views of tensors that zeros surround, each where the other is not:
    their concatenation; else None."""
    a, b = coalesce(a), coalesce(b)
    pads = border(a), border(b)
    if None in pads or structure(a) != structure(b):
        return None
    (first, at, low), (second, other, after) = sorted(pads, key=lambda p: p[2])
    if at != other or low != 0 or after != first.shape[at] or \
            after + second.shape[at] != a.base.shape[at]:
        return None
    whole = materialise(c.builder, concatenated_values(c, [first, second], at))
    return View(whole, a.factors, a.dims)


def structure(view):
    """Equal for views that see their bases in one way."""
    places = {a: (i, k) for i, f in enumerate(view.factors) for k, a in enumerate(f)}
    return view.base.shape, [[places.get(a, a) for a in d] for d in view.dims]


def memory_order(view):
    """Seen dimensions in the order in which they lie in memory, the last one
    left last: in this order the view is copied in the longest runs."""
    place = {a: i for i, a in enumerate(a for f in view.factors for a in f)}
    outer = range(len(view.dims) - 1)
    if any(a not in place for d in view.dims for a in d) or \
            any(not view.dims[i] for i in outer):
        return list(range(len(view.dims)))
    return sorted(outer, key=lambda i: place[view.dims[i][0]]) + [len(view.dims) - 1]
