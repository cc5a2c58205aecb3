# ===- hlo_gather.py - lookups by index, and their gradients ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of gather, scatter, dynamic_slice and dynamic_update_slice.

An index into whole rows, of one or several dimensions, becomes a lookup in a table
whose rows these dimensions are. One index for each of the batching dimensions
(take_along_axis) becomes a comparison with all places and a sum over them, which fuses
with its neighbours.
"""

import dataclasses
import math
import re

import numpy as np

from .errors import Unsupported
from .hlo import attribute, broadcast, hlo, region, type_of
from .hlo_contraction import lists
from .hlo_movement import combiner, is_zero, reshaped
from .hlo_pointwise import cast, compare
from .ir import Type
from .movement import concatenated, padded, sliced
from .pointwise import reduce
from .views import View

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
    elif a.batch:
        y = pick_batched(t, x, a)
    else:
        y = lookup(t, x, a)
    # Dimensions of the indices, then of the windows: into the order of the result.
    outer = [d for d in range(len(result.shape)) if d not in offsets]
    places = outer + offsets
    return y.permute([places.index(d) for d in range(len(result.shape))])


def index_vector(text):
    found = re.search(r"index_vector_dim = (\d+)", text)
    return int(found[1]) if found else 0


def as_rows(t, x, picked):
    """A View as [rows, elements of a row], and the dimensions of a row."""
    rest = [d for d in range(len(x.shape)) if d not in picked]
    rows = math.prod(x.shape[d] for d in picked)
    row = [x.shape[d] for d in rest]
    return reshaped(t, x.permute(picked + rest), (rows, math.prod(row))), rest


def row_numbers(t, x, a, picked, clamp):
    """Numbers of rows for index vectors: i32 or i64."""
    total = None
    for d in picked:
        part, size = t.view(a.pick[d]), x.shape[d]
        if part.dtype not in ("i32", "i64"):
            part = cast(t, part, "i32")
        if clamp and len(picked) > 1 and not t.within(part, size):
            part = t.apply("arith.maxsi", t.apply("arith.minsi", part, size - 1), 0)
        total = part if total is None else t.apply(
            "arith.addi", t.apply("arith.muli", total, size), part)
    return total


def lookup(t, x, a):
    """Rows at index vectors: [indices…, window…]."""
    picked = [d for d in sorted(a.pick)]
    windows = [x.shape[d] for d in a.window]
    if not picked:  # everything, as often as there are vectors
        kept = [d for d in range(len(x.shape)) if d in a.window]
        y = reshaped(t, x, [x.shape[d] for d in kept])
        return broadcast(y, [*a.shape, *y.shape],
                         list(range(len(a.shape), len(a.shape) + len(kept))))
    # What is picked stays in the result as a dimension of 1 where it is not collapsed.
    windows = [1 if d in picked else x.shape[d] for d in a.window]
    parts = a.pick[picked[0]]
    if len(picked) == 1 and isinstance(parts, np.ndarray) and parts.size <= MAX_SLICES:
        d = picked[0]
        chosen = [sliced(t, x, d, i, i + 1) for i in
                  np.clip(parts.reshape(-1), 0, x.shape[d] - 1).tolist()]
        whole = chosen[0] if len(chosen) == 1 else concatenated(t, chosen, d)
        rest = [e for e in range(len(x.shape)) if e != d]
        return reshaped(t, whole.permute([d, *rest]), [*a.shape, *windows])
    numbers = row_numbers(t, x, a, picked, clamp=True)
    table, _ = as_rows(t, x, picked)
    through = x.dtype if x.type.is_float else "f64"
    rows = lookup_rows(t, cast(t, table, through, x.dtype == "i1"), numbers)
    return reshaped(t, cast(t, rows, x.dtype), [*a.shape, *windows])


def lookup_rows(t, table, numbers):
    flat = numbers if numbers.shape else reshaped(t, numbers, (1,))
    ids, values = t.whole(flat), t.whole(table)
    return View.of(t.builder.create(
        "mpcomm.embedding", [values, ids],
        [Type((*flat.shape, values.shape[1]), table.dtype)])[0])


def hits(t, x, a):
    """(whether index vector i means place v, as [indices…, places]; x as [indices…,
    places, window…], places, the dimension that has an index)."""
    if len(a.pick) != 1:
        raise Unsupported(f"with {len(a.pick)} indices and batching dimensions")
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


def pick_batched(t, x, a):
    if not a.pick:
        raise Unsupported("with batching dimensions and no index")
    same, d, size = hits(t, x, a)
    place, windows = batched_dims(a, d, x)
    shape = (*a.shape, size, *[x.shape[e] for e in windows])
    order = sorted(range(len(x.shape)), key=place.get)
    spread = broadcast(x.permute(order), shape, [place[e] for e in order])
    mask = broadcast(same, shape, list(range(len(a.shape) + 1)))
    number = spread if x.dtype != "i1" else cast(t, spread, "i32", True)
    chosen = t.select(mask, number, 0)
    y = reduce(t.builder, "sum", chosen, [len(a.shape)], False)
    y = cast(t, y, x.dtype)
    return reshaped(t, y, [*a.shape, *[1 if e == d else x.shape[e] for e in a.window]])


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
    table, rest = as_rows(t, x, [d])
    through = x.dtype if x.type.is_float else "f64"
    rows = cast(t, lookup_rows(t, cast(t, table, through, x.dtype == "i1"), numbers), x.dtype)
    y = reshaped(t, rows, [size, *[x.shape[e] for e in rest]])
    order = [d, *rest]
    return y.permute([order.index(e) for e in range(len(order))])


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
    table, rest = as_rows(t, update, [d])
    through = x.dtype if x.type.is_float else "f64"
    rows = cast(t, lookup_rows(t, cast(t, table, through, x.dtype == "i1"), offset), x.dtype)
    order = [d, *rest]
    spread = reshaped(t, rows, [x.shape[e] for e in order]).permute(
        [order.index(e) for e in range(len(order))])
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

@hlo("scatter")
def scatter(t, op, x, indices, updates):
    text = str(op.attributes["scatter_dimension_numbers"])
    found = lists(text)
    x, updates = t.view(x), t.view(updates)
    body = list(region(op).operations)
    adds = combiner(region(op)) == "add"
    if not adds and not (len(body) == 1 and body[0].operands[0] == region(op).arguments[1]):
        raise Unsupported("that neither adds nor replaces")
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
    unique = "unique_indices" in op.attributes and bool(op.attributes["unique_indices"].value)
    if a.slide:
        return scatter_window(t, x, a, updates, sizes, adds)
    if a.batch:
        sums, any_ = spread_batched(t, x, a, updates, adds)
    elif a.pick:
        sums, any_ = sum_rows(t, x, a, updates, adds, unique or math.prod(a.shape) == 1)
    else:
        raise Unsupported("without an index")
    if adds:
        target = "arith.addf" if x.type.is_float else "arith.addi"
        return sums if is_zero(x) else t.apply(target, x, sums)
    return t.select(any_, sums, x)


def scatter_window(t, x, a, updates, sizes, adds):
    if len(a.slide) != 1 or a.pick or a.batch or math.prod(a.shape) != 1:
        raise Unsupported("of windows at more than one place")
    (d, start), = a.slide.items()
    if not isinstance(start, np.ndarray):
        raise Unsupported("of a window at a place that is not constant")
    updates = reshaped(t, updates, sizes)
    first = int(start.reshape(-1)[0])
    if first < 0 or first + sizes[d] > x.shape[d]:
        return x
    if not adds:
        return overwritten(t, x, updates, {d: first})
    spread = padded(t, updates, d, first, x.shape[d] - first - sizes[d], 0, 0)
    return spread if is_zero(x) else t.apply(
        "arith.addf" if x.type.is_float else "arith.addi", x, spread)


def spread_batched(t, x, a, updates, adds):
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
    if not adds and any(a.shape[i] != 1 for i in extra):
        raise Unsupported("that replaces, with several indices for each batch")
    results = []
    for value in (chosen, mask):
        value = reduce(t.builder, "sum", value, extra, False)
        places = [i for i in range(len(shape)) if i not in extra]
        results.append(value.permute([places.index(place[e]) for e in range(len(x.shape))]))
    return results


def sum_rows(t, x, a, updates, adds, unique):
    """As spread_batched, of rows at index vectors."""
    if not adds and not unique:
        raise Unsupported("that replaces, with indices that may be equal")
    picked = sorted(a.pick)
    if not x.type.is_float:
        raise Unsupported(f"on {x.dtype}")
    rest = [d for d in range(len(x.shape)) if d not in picked]
    rows, row = math.prod(x.shape[d] for d in picked), math.prod(x.shape[d] for d in rest)
    numbers = row_numbers(t, x, a, picked, clamp=True)
    inside = None
    for d in picked:
        part = t.view(a.pick[d])
        if isinstance(a.pick[d], np.ndarray):
            known = (a.pick[d] >= 0) & (a.pick[d] < x.shape[d])
            ok = None if known.all() else t.view(known)
        else:
            ok = None if t.within(part, x.shape[d]) else t.apply(
                "arith.andi", compare(t, "sge", part, 0), compare(t, "slt", part, x.shape[d]))
        if ok is not None:
            inside = ok if inside is None else t.apply("arith.andi", inside, ok)
    count = math.prod(a.shape)
    numbers = reshaped(t, numbers, (count,))
    updates = reshaped(t, updates, (count, row))
    if inside is not None:  # others are dropped
        mask = broadcast(reshaped(t, inside, (count,)), (count, row), [0])
        updates = t.select(mask, updates, 0.0)
    order = picked + rest
    back = [order.index(d) for d in range(len(order))]

    def summed(values):
        table = View.of(t.builder.create(
            "mpcomm.embedding_grad", [t.whole(values), t.whole(numbers)],
            [Type((rows, row), x.dtype)])[0])
        return reshaped(t, table, [x.shape[d] for d in order]).permute(back)

    if adds:
        return summed(updates), None
    ones = broadcast(t.scalar(1.0, x.dtype), (count, row), [])
    if inside is not None:
        ones = t.select(mask, ones, 0.0)
    return summed(updates), compare(t, "ogt", summed(ones), 0.0)


