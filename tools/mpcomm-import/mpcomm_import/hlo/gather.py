# ===- gather.py - lookups by index, and their gradients ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of gather, scatter, dynamic_slice and dynamic_update_slice.

The dialect's ops take one index into one dimension, behind batching dimensions that the
tensor and the indices share. Several indices are one into the dimensions that they
address, side by side. A sum of what has one index for each of the batching dimensions (the
gradient of take_along_axis on a label) becomes a comparison with all places, which fuses
with its neighbours.
"""

import dataclasses
import math
import re

import numpy as np

from ..emit.movement import concatenated, padded, sliced
from ..emit.pointwise import reduce
from ..emit.views import View
from ..errors import Unsupported
from ..ir.graph import Type, enum
from .contraction import lists
from .movement import combiner, is_zero, reshaped
from .pointwise import cast, compare
from .translator import attribute, broadcast, hlo, region, type_of

# Lookups of up to this many known indices are slices.
MAX_SLICES = 8


@dataclasses.dataclass
class Access:
    """How index vectors address a tensor. `pick` are dimensions of it with one index
    each, {dimension: its indices}; `slide` those with the start of a window; the others
    are taken whole. `batch` are pairs of batching dimensions of the tensor and of the
    indices, `window` the dimensions that the windows keep, in order."""

    pick: dict
    slide: dict
    batch: list
    window: list
    shape: tuple  # of the indices, without their vectors


def components(t, indices, vector):
    """The scalars of index vectors: a list, one tensor for each."""
    if isinstance(indices, np.ndarray):
        if vector == indices.ndim:
            return [indices]
        return [np.asarray(np.take(indices, i, vector)) for i in range(indices.shape[vector])]
    indices = t.view(indices)
    if vector == len(indices.shape):
        return [indices]
    parts = []
    for i in range(indices.shape[vector]):
        part = sliced(t, indices, vector, i, i + 1)
        parts.append(View(part.base, part.factors,
                          part.dims[:vector] + part.dims[vector + 1:]))
    return parts


def access(t, indices, vector, shape, sizes, index_map, gone, batching, index_batching):
    parts = components(t, indices, vector)
    of = dict(zip(index_map, parts))
    pick, slide = {}, {}
    for d, part in of.items():
        if sizes[d] == shape[d] and not (sizes[d] == 1 and d in gone):
            continue  # all of it: the start can only be 0
        (pick if sizes[d] == 1 else slide)[d] = part
    for d in range(len(shape)):
        if d not in of and d not in batching and sizes[d] != shape[d]:
            raise Unsupported("of a part of a dimension that has no index")
    window = [d for d in range(len(shape)) if d not in gone and d not in batching]
    index_shape = list(parts[0].shape) if parts else []
    return Access(pick, slide, list(zip(batching, index_batching)), window, tuple(index_shape))


@hlo("gather")
def gather(t, op, x, indices):
    text = str(op.attributes["dimension_numbers"])
    found = lists(text)
    x, sizes = t.view(x), attribute(op, "slice_sizes")
    result = type_of(op.results[0])
    a = access(t, indices, index_vector(text), x.shape, sizes,
               found.get("start_index_map", []), found.get("collapsed_slice_dims", []),
               found.get("operand_batching_dims", []),
               found.get("start_indices_batching_dims", []))
    offsets = found.get("offset_dims", [])
    if a.slide:
        y = slide(t, x, a, sizes, offsets)
    else:
        y = lookup(t, x, a)
    # Dimensions of the indices, then of the windows: into the order of the result.
    outer = [d for d in range(len(result.shape)) if d not in offsets]
    places = outer + offsets
    return y.permute([places.index(d) for d in range(len(result.shape))])


def index_vector(text):
    found = re.search(r"index_vector_dim = (\d+)", text)
    return int(found[1]) if found else 0


def side_by_side(t, x, a):
    """(x with its batching dimensions in front and those with an index as one behind
    them, that dimension or None, the dimensions after it)."""
    picked, batch = sorted(a.pick), [d for d, _ in a.batch]
    rest = [d for d in range(len(x.shape)) if d not in picked and d not in batch]
    merged = math.prod(x.shape[d] for d in picked)
    return reshaped(t, x.permute(batch + picked + rest), [
        *[x.shape[d] for d in batch], merged, *[x.shape[d] for d in rest]]), len(batch), rest


def numbers_of(t, x, a, drop):
    """What dimension of `side_by_side` index vectors mean, batching dimensions first:
    clamped, or -1 where they are outside and to `drop`."""
    total, inside = None, None
    picked = sorted(a.pick)
    for d in picked:
        part, size = t.view(a.pick[d]), x.shape[d]
        if part.dtype not in ("i32", "i64"):
            part = cast(t, part, "i32")
        if len(picked) > 1 and not t.within(part, size):
            if drop:
                good = t.apply("arith.andi", compare(t, "sge", part, 0),
                               compare(t, "slt", part, size))
                inside = good if inside is None else t.apply("arith.andi", inside, good)
            else:
                part = t.apply("arith.maxsi", t.apply("arith.minsi", part, size - 1), 0)
        total = part if total is None else t.apply(
            "arith.addi", t.apply("arith.muli", total, size), part)
    if inside is not None:
        total = t.select(inside, total, -1)
    own = [i for _, i in a.batch]
    return total.permute(own + [i for i in range(len(a.shape)) if i not in own])


def index_order(a):
    """The dimensions of the indices, batching ones first, and how to undo that."""
    own = [i for _, i in a.batch]
    order = own + [i for i in range(len(a.shape)) if i not in own]
    return order, [order.index(i) for i in range(len(order))]


def lookup(t, x, a):
    """Slices at index vectors: [indices…, window…]."""
    picked = sorted(a.pick)
    if not picked and not a.batch:  # everything, as often as there are vectors
        y = reshaped(t, x, [x.shape[d] for d in a.window])
        return broadcast(y, [*a.shape, *y.shape],
                         list(range(len(a.shape), len(a.shape) + len(a.window))))
    if not picked:
        raise Unsupported("with batching dimensions and no index")
    # What is picked stays in the result as a dimension of 1 where it is not collapsed.
    windows = [1 if d in picked else x.shape[d] for d in a.window]
    known = a.pick[picked[0]]
    if len(picked) == 1 and not a.batch and isinstance(known, np.ndarray) and \
            known.size <= MAX_SLICES:
        d = picked[0]
        chosen = [sliced(t, x, d, i, i + 1) for i in
                  np.clip(known.reshape(-1), 0, x.shape[d] - 1).tolist()]
        whole = chosen[0] if len(chosen) == 1 else concatenated(t, chosen, d)
        rest = [e for e in range(len(x.shape)) if e != d]
        return reshaped(t, whole.permute([d, *rest]), [*a.shape, *windows])
    if not a.batch and len(picked) == 1:
        d = picked[0]  # where it is
        y = gathered(t, x, numbers_of(t, x, a, False), d, 0)
        count = len(a.shape)
        order = [*range(d, d + count), *range(d), *range(d + count, len(y.shape))]
        return reshaped(t, y.permute(order), [*a.shape, *windows])
    table, batch, _ = side_by_side(t, x, a)
    y = gathered(t, table, numbers_of(t, x, a, False), batch, batch)
    _, back = index_order(a)
    y = y.permute([*back, *range(len(back), len(y.shape))])
    return reshaped(t, y, [*a.shape, *windows])


def gathered(t, x, numbers, dim, batch_dims):
    values, ids = t.whole(x), t.whole(numbers)
    shape = (*values.shape[:dim], *ids.shape[batch_dims:], *values.shape[dim + 1:])
    return View.of(t.builder.create("mpcomm.gather", [values, ids], [Type(shape, x.dtype)],
                                    dim=dim, batch_dims=batch_dims)[0])


def is_label(a):
    """Whether there is one index for each of the batching dimensions."""
    own = {i for _, i in a.batch}
    return len(a.pick) == 1 and bool(a.batch) and \
        all(n == 1 for i, n in enumerate(a.shape) if i not in own)


def hits(t, x, a):
    """(whether index vector i means place v, as [indices…, places]; the dimension that has
    an index; its size)."""
    (d, part), = a.pick.items()
    part = t.view(part)
    places = t.builder.create("mpcomm.iota", [], [Type((x.shape[d],), part.dtype)], dim=0)[0]
    count, size = len(a.shape), x.shape[d]
    shape = (*a.shape, size)
    same = compare(t, "eq", broadcast(part, shape, list(range(count))),
                   broadcast(View.of(places), shape, [count]))
    return same, d, size


def batched_dims(a, d, x):
    """For each dimension of x its place among [indices…, places, window…]."""
    count = len(a.shape)
    own = dict(a.batch)
    windows = [e for e in a.window if e != d]
    return {**own, d: count, **{e: count + 1 + i for i, e in enumerate(windows)}}, windows


def slide(t, x, a, sizes, offsets):
    """Windows that start at given places: one dimension of them, one start."""
    if len(a.slide) != 1 or a.pick or a.batch or math.prod(a.shape) != 1:
        raise Unsupported("of windows at more than one place")
    (d, start), = a.slide.items()
    y = window_at(t, x, d, start, sizes[d])
    return reshaped(t, y, [*a.shape, *y.shape])


def window_at(t, x, d, start, size):
    """Elements start, …, start + size - 1 of a dimension; the start is clamped."""
    last = x.shape[d] - size
    if isinstance(start, np.ndarray):
        first = min(max(int(start.reshape(-1)[0]), 0), last)
        return sliced(t, x, d, first, first + size)
    start = reshaped(t, start, (1,))
    if start.dtype not in ("i32", "i64"):
        start = cast(t, start, "i32")
    start = t.apply("arith.maxsi", t.apply("arith.minsi", start, last), 0)
    line = View.of(t.builder.create("mpcomm.iota", [], [Type((size,), start.dtype)], dim=0)[0])
    numbers = t.apply("arith.addi", broadcast(start, (size,), [0]), line)
    return gathered(t, x, numbers, d, 0)


@hlo("dynamic_slice")
def dynamic_slice(t, op, x, *starts):
    x = t.view(x)
    for d, (start, size) in enumerate(zip(starts, attribute(op, "slice_sizes"))):
        if size != x.shape[d]:
            x = window_at(t, x, d, start if isinstance(start, np.ndarray) else t.view(start),
                          size)
    return x


@hlo("dynamic_update_slice")
def dynamic_update_slice(t, op, x, update, *starts):
    x, update = t.view(x), t.view(update)
    moving = [d for d in range(len(x.shape)) if update.shape[d] != x.shape[d]]
    known = [isinstance(starts[d], np.ndarray) for d in moving]
    if all(known):
        return overwritten(t, x, update, {d: min(max(int(starts[d]), 0),
                                                 x.shape[d] - update.shape[d]) for d in moving})
    if len(moving) != 1:
        raise Unsupported("at places of several dimensions that are not constant")
    d, = moving
    size = update.shape[d]
    start = cast(t, reshaped(t, t.view(starts[d]), (1,)), "i32")
    start = t.apply("arith.maxsi", t.apply("arith.minsi", start, x.shape[d] - size), 0)
    line = View.of(t.builder.create("mpcomm.iota", [], [Type((x.shape[d],), "i32")], dim=0)[0])
    offset = t.apply("arith.subi", line, broadcast(start, (x.shape[d],), [0]))
    inside = t.apply("arith.andi", compare(t, "sge", offset, 0), compare(t, "slt", offset, size))
    spread = gathered(t, update, offset, d, 0)
    return t.select(broadcast(inside, x.shape, [d]), spread, x)


def overwritten(t, x, update, starts):
    """x with `update` in place of a part of it; `starts`: {dimension: first}."""
    if not starts:
        return update
    d, first = next(iter(starts.items()))
    rest = {e: s for e, s in starts.items() if e != d}
    after = first + update.shape[d]
    inner = overwritten(t, sliced(t, x, d, first, after), update, rest)
    parts = [sliced(t, x, d, 0, first)] if first else []
    parts += [inner]
    parts += [sliced(t, x, d, after, x.shape[d])] if after < x.shape[d] else []
    return concatenated(t, parts, d)


# --- scatter ------------------------------------------------------------------------------ #

COMBINED = {"add": ("sum", "arith.addf", "arith.addi"), "multiply": ("prod", None, None),
            "minimum": ("min", None, None), "maximum": ("max", None, None)}


@hlo("scatter")
def scatter(t, op, x, indices, updates):
    text = str(op.attributes["scatter_dimension_numbers"])
    found = lists(text)
    x, updates = t.view(x), t.view(updates)
    body, kind = list(region(op).operations), combiner(region(op))
    replaces = len(body) == 1 and body[0].operands[0] == region(op).arguments[1]
    if not replaces and kind not in COMBINED:
        raise Unsupported("with a body that is no sum, product, minimum or maximum")
    inserted, batching = (found.get(k, []) for k in ("inserted_window_dims",
                                                    "input_batching_dims"))
    windows = found.get("update_window_dims", [])
    kept = [d for d in range(len(x.shape)) if d not in inserted and d not in batching]
    sizes = [1] * len(x.shape)
    for d, w in zip(kept, windows):
        sizes[d] = updates.shape[w]
    a = access(t, indices, index_vector(text), x.shape, sizes,
               found.get("scatter_dims_to_operand_dims", []), inserted, batching,
               found.get("scatter_indices_batching_dims", []))
    outer = [d for d in range(len(updates.shape)) if d not in windows]
    updates = updates.permute(outer + windows)  # [indices…, window…]
    if a.slide:
        return scatter_window(t, x, a, updates, sizes, kind)
    if not a.pick:
        raise Unsupported("without an index")
    if is_label(a) and (kind == "add" or replaces):
        sums, any_ = spread_batched(t, x, a, updates)
        if replaces:
            return t.select(any_, sums, x)
        return sums if is_zero(x) else t.apply(COMBINED[kind][1 + (not x.type.is_float)], x, sums)
    return scattered(t, x, a, updates, kind)


def scattered(t, x, a, updates, kind):
    """Slices of x combined with the updates, by index."""
    table, batch, rest = side_by_side(t, x, a)
    order, _ = index_order(a)
    numbers = numbers_of(t, x, a, True)
    updates = reshaped(t, updates, [*a.shape, *[x.shape[d] for d in rest]])
    updates = t.whole(updates.permute([*order, *range(len(order), len(updates.shape))]))
    places, type = dict(dim=batch, batch_dims=batch), Type(table.shape, x.dtype)
    picked = sorted(a.pick)
    inside = len(picked) == 1 and t.within(t.view(a.pick[picked[0]]), x.shape[picked[0]])
    if kind == "add" and is_zero(x) and inside and x.type.is_float:
        value = t.builder.create("mpcomm.gather_grad", [updates, t.whole(numbers)], [type],
                                 **places)[0]
    else:
        reduction = kind and enum("reduction", COMBINED[kind][0])
        value = t.builder.create("mpcomm.scatter", [t.whole(table), t.whole(numbers), updates],
                                 [type], reduction=reduction, **places)[0]
    own = [d for d, _ in a.batch]
    order = own + picked + rest
    y = reshaped(t, View.of(value), [x.shape[d] for d in order])
    return y.permute([order.index(d) for d in range(len(order))])


def scatter_window(t, x, a, updates, sizes, kind):
    if len(a.slide) != 1 or a.pick or a.batch or math.prod(a.shape) != 1:
        raise Unsupported("of windows at more than one place")
    (d, start), = a.slide.items()
    if not isinstance(start, np.ndarray):
        raise Unsupported("of a window at a place that is not constant")
    updates = reshaped(t, updates, sizes)
    first = int(start.reshape(-1)[0])
    if first < 0 or first + sizes[d] > x.shape[d]:
        return x
    if kind is None:
        return overwritten(t, x, updates, {d: first})
    if kind != "add":
        raise Unsupported(f"of a window by '{kind}'")
    spread = padded(t, updates, d, first, x.shape[d] - first - sizes[d], 0, 0)
    return spread if is_zero(x) else t.apply(
        "arith.addf" if x.type.is_float else "arith.addi", x, spread)


def spread_batched(t, x, a, updates):
    """(sum of the updates for each element of x, whether there is one)."""
    same, d, size = hits(t, x, a)
    place, windows = batched_dims(a, d, x)
    count = len(a.shape)
    updates = reshaped(t, updates, [*a.shape, *[x.shape[e] for e in windows]])
    shape = (*a.shape, size, *[x.shape[e] for e in windows])
    mask = broadcast(same, shape, list(range(count + 1)))
    spread = broadcast(updates, shape, [i if i < count else i + 1
                                        for i in range(len(updates.shape))])
    chosen = t.select(mask, spread, 0)
    own = {i for _, i in a.batch}
    extra = [i for i in range(count) if i not in own]
    results = []
    for value in (chosen, mask):
        value = reduce(t.builder, "sum", value, extra, False)
        places = [i for i in range(len(shape)) if i not in extra]
        results.append(value.permute([places.index(place[e]) for e in range(len(x.shape))]))
    return results
