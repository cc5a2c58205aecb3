# ===- views.py - tensors seen in another shape ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Reshapes, transposes and expansions that cost nothing until they must.

PyTorch records a linear layer on [B, T, D] as view, t, addmm, view, and
attention as a dozen of such steps around two bmm. None of them computes. A
View describes such a chain exactly, by *axes*:

- each dimension of the base value is a product of axes (its factors);
- each dimension that the program sees is a product of axes, of the base or
  repeated ones that the base does not have (what expand makes).

Reshaping splits and regroups axes, transposing reorders the groups, and undoing
either gives the base back without an op. Consumers that can work on the base
(contractions, elementwise ops, reductions) do so; for the others `materialise`
emits the fewest ops that make the seen tensor: a reshape to atoms, one
transpose, one broadcast, one reshape.

Invariant: no axis has size 1; a dimension of size 1 is an empty product.
"""

import math

from ..ir.graph import Type


class Axis:
    """A factor of a dimension. Compared by identity."""

    __slots__ = ("size",)

    def __init__(self, size):
        self.size = size


def product(axes):
    return math.prod(a.size for a in axes)


class View:
    """`base` seen as `dims`; `factors[d]` are the axes of the base's dimension d."""

    __slots__ = ("base", "factors", "dims")

    def __init__(self, base, factors, dims):
        self.base, self.factors, self.dims = base, factors, dims

    @staticmethod
    def of(value):
        factors = [[Axis(n)] if n != 1 else [] for n in value.shape]
        return View(value, factors, [list(f) for f in factors])

    @property
    def shape(self):
        return tuple(product(d) for d in self.dims)

    @property
    def dtype(self):
        return self.base.dtype

    @property
    def type(self):
        return Type(self.shape, self.dtype)

    @property
    def is_identity(self):
        return self.dims == self.factors

    def base_axes(self):
        return {a for f in self.factors for a in f}

    def repeated(self):
        """Axes that the base does not have."""
        own = self.base_axes()
        return [a for d in self.dims for a in d if a not in own]

    def with_dims(self, dims):
        return coalesce(View(self.base, self.factors, dims))

    def split(self, axis, sizes):
        """Replaces `axis` by axes of these sizes, major first."""
        return self.refine({axis: [Axis(n) for n in sizes]})

    def refine(self, parts):
        def expand(axes):
            return [b for a in axes for b in parts.get(a, [a])]

        return View(self.base, [expand(f) for f in self.factors],
                    [expand(d) for d in self.dims])

    def permute(self, order):
        return View(self.base, self.factors, [self.dims[i] for i in order])

    def expand(self, shape):
        """As torch.expand; `shape` without -1."""
        dims = [[]] * (len(shape) - len(self.dims)) + self.dims
        dims = [[Axis(n)] if not d and n != 1 else d for d, n in zip(dims, shape)]
        return View(self.base, self.factors, dims)

    def reshape(self, shape):
        """The view with another shape of as many elements; None where axes would
        have to be cut at a place that is no divisor."""
        view, parts = self, {}
        rest = [a for d in self.dims for a in d]
        dims = []
        for size in shape:
            group, have = [], 1
            while have < size:
                if size % have:
                    return None
                axis = rest.pop(0)
                need = size // have
                if axis.size > need:
                    if axis.size % need:
                        return None
                    outer, inner = Axis(need), Axis(axis.size // need)
                    parts[axis] = [outer, inner]
                    rest.insert(0, inner)
                    axis = outer
                group.append(axis)
                have *= axis.size
            if have != size:
                return None
            dims.append(group)
        # An inner part may itself have been split.
        while any(a in parts for p in parts.values() for a in p):
            parts = {k: [b for a in p for b in parts.get(a, [a])]
                     for k, p in parts.items()}
        view = self.refine(parts)
        return coalesce(View(view.base, view.factors, dims))


def coalesce(view):
    """Joins axes that stand side by side in the base and in the seen shape."""
    follows = {}  # axis -> the axis after it in the same base dimension
    for f in view.factors:
        follows.update(zip(f, f[1:]))
    parts = {}
    runs = []
    for d in view.dims:
        run = []
        for a in d:
            if run and follows.get(run[-1]) is a:
                run.append(a)
            else:
                run = [a]
                runs.append(run)
    for run in runs:
        if len(run) > 1:
            whole = Axis(product(run))
            parts.update({a: [] for a in run[1:]})
            parts[run[0]] = [whole]
    return view.refine(parts) if parts else view


# --- ops made of views ------------------------------------------------------ #

def emit_reshape(builder, value, shape):
    shape = tuple(shape)
    if value.shape == shape:
        return value
    if value.op is not None and value.op.name == "mpcomm.reshape":
        return emit_reshape(builder, value.op.operands[0], shape)
    return builder.create("mpcomm.reshape", [value],
                          [Type(shape, value.dtype)])[0]


def emit_transpose(builder, value, order):
    if list(order) == sorted(order):
        return value
    shape = [value.shape[i] for i in order]
    return builder.create("mpcomm.transpose", [value],
                          [Type(shape, value.dtype)], dims=list(order))[0]


def materialise(builder, view):
    """A value of the seen shape. At most one reshape, transpose, broadcast and
    reshape, in this order."""
    view = coalesce(view)
    if view.is_identity:
        return view.base
    splat = splat_value(view.base)
    if splat is not None:
        return builder.constant(splat, view.type)
    own = view.base_axes()
    seen = [a for d in view.dims for a in d if a in own]
    value = view.base
    if seen != [a for f in view.factors for a in f]:
        value = permute_atoms(builder, view, seen)
    if len(seen) == sum(len(d) for d in view.dims):
        return emit_reshape(builder, value, view.shape)
    return broadcast(builder, value, view, own)


def permute_atoms(builder, view, seen):
    """The base with its elements reordered to the axes `seen`; axes that stay
    neighbours within a dimension move as one."""
    follows, place = {}, {}
    for f in view.factors:
        follows.update(zip(f, f[1:]))
        for a in f:
            place[a] = len(place)
    runs = []
    for a in seen:
        if runs and follows.get(runs[-1][-1]) is a:
            runs[-1].append(a)
        else:
            runs.append([a])
    stored = sorted(range(len(runs)), key=lambda i: place[runs[i][0]])
    value = emit_reshape(builder, view.base, [product(runs[i]) for i in stored])
    return emit_transpose(builder, value,
                          [stored.index(i) for i in range(len(runs))])


def broadcast(builder, value, view, own):
    """Adds the repeated axes to `value`, which holds the others in seen order."""
    # Segments: the seen dimensions, those that mix both kinds cut up.
    segments, real = [], []
    for d in view.dims:
        runs = [[]] if not d else []
        for a in d:
            if runs and (runs[-1][-1] in own) == (a in own):
                runs[-1].append(a)
            else:
                runs.append([a])
        for run in runs:
            real.append(bool(run) and run[0] in own)
            segments.append(product(run))
    where = [i for i, r in enumerate(real) if r]
    dims = place_units(value.shape, [segments[i] for i in where], where,
                      len(segments))
    if dims is None:
        value = emit_reshape(builder, value, [segments[i] for i in where])
        dims = where
    value = builder.create("mpcomm.broadcast_in_dim", [value],
                           [Type(segments, value.dtype)], dims=list(dims))[0]
    return emit_reshape(builder, value, view.shape)


def place_units(shape, sizes, where, rank):
    """Result dimensions for an operand that has dimensions of size 1 among
    `sizes`; None if there is no room for them."""
    dims, k = [], 0
    for n in shape:
        if n != 1:
            if k == len(sizes) or n != sizes[k]:
                return None
            dims.append(where[k])
            k += 1
            continue
        free = dims[-1] + 1 if dims else 0
        if free >= (where[k] if k < len(where) else rank):
            return None
        dims.append(free)
    return dims if k == len(sizes) else None


def splat_value(value):
    """The number that every element of a constant is, else None."""
    if value.op is not None and value.op.name == "arith.constant":
        elements = value.op.attributes["value"].elements
        return None if isinstance(elements, list) else elements
    return None


def match_axes(a, b):
    """Splits both axis lists (of equal product) until they pair up.

    Returns (parts of a, parts of b, pairs), or None where sizes share no
    factorisation."""
    left, right = list(a), list(b)
    parts_a, parts_b, pairs = {}, {}, []

    def cut(queue, parts, size):
        axis = queue.pop(0)
        outer, inner = Axis(size), Axis(axis.size // size)
        owner = next((k for k, p in parts.items() if axis in p), None)
        if owner is None:
            parts[axis] = [outer, inner]
        else:
            at = parts[owner].index(axis)
            parts[owner][at:at + 1] = [outer, inner]
        queue[:0] = [outer, inner]

    while left and right:
        m, n = left[0].size, right[0].size
        if m > n and m % n == 0:
            cut(left, parts_a, n)
        elif n > m and n % m == 0:
            cut(right, parts_b, m)
        elif m != n:
            return None
        pairs.append((left.pop(0), right.pop(0)))
    return parts_a, parts_b, pairs
