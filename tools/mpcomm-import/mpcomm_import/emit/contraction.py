# ===- contraction.py - matrix products on views ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""dot_general on the values as they lie in memory.

A product of two views becomes one mpcomm.dot_general on their bases: a
transposed weight is a contraction over its other dimension, merged batch and
sequence dimensions stay apart as free dimensions, heads split off a model
dimension are batching dimensions wherever they are. What the program sees as
the product is again a view.

An operand is brought into the seen order first only where no strided matrix
product could read it: its free (or contracted) axes do not lie side by side, or
the axis that is contiguous in memory is a batching one.
"""

from ..ir.graph import Type
from .views import Axis, View, coalesce, emit_reshape, match_axes, materialise, product

BATCH, FREE, CONTRACT = "batch", "free", "contract"


class Side:
    """One operand: the role of each of its axes."""

    def __init__(self, view, batch, contract):
        self.view = view
        self.role = {}
        for i, d in enumerate(view.dims):
            role = BATCH if i in batch else CONTRACT if i in contract else FREE
            self.role.update({a: role for a in d})
        self.free_dims = [d for i, d in enumerate(view.dims)
                          if i not in batch and i not in contract]
        self.order = [a for f in view.factors for a in f]
        self.place = {a: i for i, a in enumerate(self.order)}
        self.dim_of = {a: i for i, f in enumerate(view.factors) for a in f}
        self.seen_in = {a: i for i, d in enumerate(view.dims) for a in d}

    def of_role(self, role):
        return [a for a in self.order if self.role[a] == role]

    @property
    def is_strided_matrix(self):
        """Whether a matrix product with two strides can read it in place."""
        for role in (FREE, CONTRACT):
            places = [self.place[a] for a in self.of_role(role)]
            if places and places[-1] - places[0] + 1 != len(places):
                return False
        return not self.order or self.role[self.order[-1]] != BATCH

    def follows(self, a, b):
        return self.place[a] + 1 == self.place[b]

    def joins(self, a, b):
        """Whether `b` becomes one dimension with `a`, which it follows: if they are one
        in memory, or in a product of batches one to who reads it. Such a product
        is of matrices; in others, batch and sequence stay as they lie."""
        in_batches = BATCH in self.role.values() and self.role[a] != BATCH
        return self.dim_of[a] == self.dim_of[b] or \
            in_batches and self.seen_in[a] == self.seen_in[b]


def ordered(builder, view, batch, contracted):
    """`view` copied into the order in which it is seen, dimensions of one role
    side by side, batching ones first. Free and batching axes, and axes whose
    order in memory is not the seen one, stay dimensions of their own."""
    place = {a: i for i, a in enumerate(a for f in view.factors for a in f)}
    dims, others = [], [i for i in range(len(view.dims)) if i not in batch]
    first = bool(others) and others[0] in contracted
    others.sort(key=lambda i: (i in contracted) != first)
    for i in sorted(batch) + others:
        d = view.dims[i]
        follows = dict(zip(d, d[1:]))
        runs = []
        for a in sorted(d, key=place.get):
            if i in contracted and runs and follows.get(runs[-1][-1]) is a:
                runs[-1].append(a)
            else:
                runs.append([a])
        dims += runs
    value = materialise(builder, View(view.base, view.factors, dims))
    if value is view.base:
        return view
    copy = View(view.base, view.factors, dims)
    builder.copies.setdefault(view.base, []).append((copy, value))
    return View(value, dims, view.dims)


def recall(builder, view, batch, contracted):
    """`view` on a copy of its base that `ordered` made earlier, if there is one
    that a matrix product can read in place."""
    for copy, value in builder.copies.get(view.base, ()):
        mine, theirs, pairs = view, copy, []
        for d in range(len(view.factors)):
            match = match_axes(mine.factors[d], theirs.factors[d])
            if match is None:
                break
            mine, theirs = mine.refine(match[0]), theirs.refine(match[1])
            pairs += match[2]
        else:
            own = {b: a for a, b in pairs}
            moved = coalesce(View(value, [[own[b] for b in d] for d in theirs.dims],
                                  mine.dims))
            if Side(moved, batch, contracted).is_strided_matrix:
                return moved
    return None


def pair_up(left, right, pairs):
    """Refines both views until the axes of paired dimensions correspond.

    Returns (left, right, axis pairs), or None."""
    axes = []
    for l, r in pairs:
        match = match_axes(left.dims[l], right.dims[r])
        if match is None:
            return None
        left, right = left.refine(match[0]), right.refine(match[1])
        axes += match[2]
    return left, right, axes


def contract(builder, lhs, rhs, batch=(), contracting=()):
    """The product of two views over pairs of seen dimensions.

    The result is seen as the batch dimensions, lhs' other ones, rhs' other
    ones; complexity is linear in the number of axes."""
    lhs, rhs = plain(builder, lhs), copy_axes(plain(builder, rhs))
    batch, contracting = list(batch), list(contracting)
    sides = [({p[k] for p in batch}, {p[k] for p in contracting}) for k in (0, 1)]
    views = [coalesce(lhs), coalesce(rhs)]
    paired = pair_up(*views, batch + contracting)
    if paired is None:
        views = [View.of(materialise(builder, v)) for v in views]
        paired = pair_up(*views, batch + contracting)
    left, right = (Side(v, *s) for v, s in zip(paired, sides))
    todo = [k for k, s in enumerate((left, right)) if not s.is_strided_matrix]
    if not todo and not same_order(left, right, paired[2]):
        for copy in (recall, ordered):  # if one has that order; the product can do without
            second = copy(builder, views[1], *sides[1])
            again = second and pair_up(views[0], second, batch + contracting)
            if again and same_order(*(Side(v, *s) for v, s in zip(again, sides)), again[2]):
                return contract(builder, views[0], second, batch, contracting)
    copied = False
    for k in todo:
        fresh = recall(builder, views[k], *sides[k]) or \
            ordered(builder, views[k], *sides[k])
        copied |= fresh.base is not views[k].base
        views[k] = fresh
    if copied:
        return contract(builder, *views, batch, contracting)
    return emit(builder, left, right, paired[2], batch)


def copy_axes(view):
    """The same view with axes of its own: x and its transpose share theirs."""
    new = {a: [Axis(a.size)] for d in view.factors + view.dims for a in d}
    return view.refine(new)


def plain(builder, view):
    """Without repeated axes: no contraction reads those in place. A copy of the base has
    them beside the axes that they are seen beside, whatever the order of what is seen:
    all views of one tensor, such as keys that heads share, are views of one copy."""
    repeated = set(view.repeated())
    if not repeated:
        return view
    front, before, after = [], {}, {}
    for d in view.dims:
        own = [i for i, a in enumerate(d) if a not in repeated]
        for i, a in enumerate(d):
            if a not in repeated:
                continue
            if not own:
                front.append([a])
            elif i < own[-1]:
                before.setdefault(d[next(k for k in own if k > i)], []).append(a)
            else:
                after.setdefault(d[own[-1]], []).append(a)
    factors = front + [[b for a in f for b in before.get(a, []) + [a] + after.get(a, [])]
                       for f in view.factors]
    value = materialise(builder, View(view.base, view.factors, factors))
    return View(value, factors, view.dims)


def same_order(left, right, pairs):
    """Whether the contracted axes lie in one order in both operands."""
    inner = [(a, b) for a, b in pairs if left.role[a] == CONTRACT]
    inner.sort(key=lambda p: left.place[p[0]])
    places = [right.place[b] for _, b in inner]
    return places == sorted(places)


def group(left, right, pairs, role):
    """Pairs of runs of axes that become one dimension of each operand: contracted axes
    are apart where both operands keep them apart, batching ones where either does."""
    pairs = [p for p in pairs if left.role[p[0]] == role]
    if role == CONTRACT:
        pairs.sort(key=lambda p: left.place[p[0]])
    runs = []
    for a, b in pairs:
        if runs:
            c, d = runs[-1][-1]
            joined = left.joins(c, a), right.joins(d, b)
            joins = all(joined) if role == BATCH else any(joined)
            if joins and left.follows(c, a) and right.follows(d, b):
                runs[-1].append((a, b))
                continue
        runs.append([(a, b)])
    return runs


def free_runs(side):
    """The free axes in memory order, those that become one dimension together."""
    runs = []
    for a in side.of_role(FREE):
        if runs and side.follows(runs[-1][-1], a) and side.joins(runs[-1][-1], a):
            runs[-1].append(a)
        else:
            runs.append([a])
    return runs


def emit(builder, left, right, pairs, batch_pairs):
    batch = group(left, right, pairs, BATCH)
    inner = group(left, right, pairs, CONTRACT)
    free = [free_runs(left), free_runs(right)]
    values, batch_dims, inner_dims = [], [], []
    for k, side in enumerate((left, right)):
        runs = free[k] + [[p[k] for p in run] for run in batch + inner]
        runs.sort(key=lambda run: side.place[run[0]])
        values.append(emit_reshape(builder, side.view.base, [product(r) for r in runs]))
        index = {run[0]: i for i, run in enumerate(runs)}
        batch_dims.append([index[run[0][k]] for run in batch])
        inner_dims.append([index[run[0][k]] for run in inner])
    batch_axes = [[a for a, _ in run] for run in batch]
    factors = batch_axes + free[0] + free[1]
    type = Type([product(f) for f in factors], values[0].dtype)
    value = builder.create(
        "mpcomm.dot_general", values, [type],
        lhs_batching_dims=batch_dims[0], rhs_batching_dims=batch_dims[1],
        lhs_contracting_dims=inner_dims[0], rhs_contracting_dims=inner_dims[1])[0]
    dims = [left.view.dims[l] for l, _ in batch_pairs]
    return View(value, factors, dims + left.free_dims + right.free_dims)
