# ===- pointwise.py - elementwise ops and reductions on views ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Ops that do not care in which order a tensor lies in memory.

An elementwise op is emitted in the shape of one operand's base, its *lead*, and
the result is seen the way the lead is seen; the other operands are brought into
that shape (often by a broadcast that would have been needed anyhow). So the bias
of a linear layer is added in the layer's natural shape, however its caller looks
at it, and no transpose is computed for the sake of an addition.
"""

from ..ir.graph import Spelled, Type, enum
from .views import Axis, View, coalesce, emit_reshape, match_axes, materialise, product

# The cases of arith's predicates, by number.
CMPF = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
CMPI = "eq ne slt sle sgt sge ult ule ugt uge".split()


def broadcast_shape(views):
    """The common shape by PyTorch's rules; sizes are known to agree."""
    rank = max(len(v.shape) for v in views)
    padded = [(1,) * (rank - len(v.shape)) + v.shape for v in views]
    return tuple(max(sizes) for sizes in zip(*padded))


def align(builder, views):
    """Values of one shape for the views, and how their elementwise result,
    of that shape, is to be seen: `wrap(value)`."""
    shape = broadcast_shape(views)
    full = [v for v in views if v.shape == shape and not v.repeated()]
    lead = next((v for v in full if v.is_identity), None)
    if lead is None and full:  # the others are reshaped to the finest for nothing
        lead = max(full, key=lambda v: len(v.factors))
    if lead is not None:
        lead = unmixed(builder, lead, views)
        values = [conform(builder, v, lead) for v in views]
        if all(v is not None for v in values):
            return values, lambda value: seen_as(value, lead)
    values = [materialise(builder, v.expand(shape)) for v in views]
    return values, View.of


def seen_as(value, lead):
    """`value`, of the shape of the lead's base, seen as the lead is."""
    return View(value, lead.factors, lead.dims)


def paired(view, lead):
    """`view`, broadcast to what the lead sees, beside it: (the lead and the view with
    axes that correspond, the view's axes for each dimension of the lead's base); None
    where the two share no factorisation."""
    dims = [[]] * (len(lead.dims) - len(view.dims)) + view.dims
    parts, counterpart = {}, {}
    out = View(view.base, view.factors, dims)
    for k, want in enumerate(lead.dims):
        if want and not out.dims[k]:
            counterpart.update({a: Axis(a.size) for a in want})
            continue
        match = match_axes(want, out.dims[k])
        if match is None:
            return None
        parts.update(match[0])
        out = out.refine(match[1])
        counterpart.update(match[2])
    lead = lead.refine(parts)
    return lead, out, [[counterpart[a] for a in f] for f in lead.factors]


def conform(builder, view, lead):
    """`view`, broadcast to what the lead sees, as a value of the shape of the
    lead's base; None where the two share no factorisation."""
    if view.base is lead.base and view.factors is lead.factors and view.dims is lead.dims:
        return lead.base
    pair = paired(view, lead)
    if pair is None:
        return None
    _, out, dims = pair
    return materialise(builder, coalesce(View(out.base, out.factors, dims)))


def unmixed(builder, lead, views):
    """The lead on its base reshaped so that no view has a part of a dimension and
    repeats the rest: it is broadcast where it is read."""
    for view in views:
        pair = paired(view, lead) if view is not lead else None
        if pair is None:
            continue
        refined, out, dims = pair
        own, factors = out.base_axes(), []
        for f, d in zip(refined.factors, dims):
            runs = [[]] if not f else []
            for i, (a, b) in enumerate(zip(f, d)):
                if i and (b in own) == (d[i - 1] in own):
                    runs[-1].append(a)
                else:
                    runs.append([a])
            factors += runs
        if len(factors) != len(refined.factors):
            base = emit_reshape(builder, lead.base, [product(f) for f in factors])
            lead = coalesce(View(base, factors, refined.dims))
    return lead


def reduce(builder, kind, view, dims, keep):
    """Reduction over seen dimensions, in the base where whole dimensions of the
    base are reduced."""
    dims = {d % len(view.dims) for d in dims} if view.dims else set()
    gone = {a for d in dims for a in view.dims[d]}
    whole = all(set(f) <= gone or not set(f) & gone for f in view.factors)
    if view.repeated() or not whole:
        view = View.of(materialise(builder, view))
        gone = {a for d in dims for a in view.dims[d]}
    drop = [i for i, f in enumerate(view.factors) if f and set(f) <= gone]
    rest = [f for i, f in enumerate(view.factors) if i not in drop]
    shape = [n for i, n in enumerate(view.base.shape) if i not in drop]
    value = view.base
    if drop:
        value = builder.create("mpcomm.reduce", [value], [Type(shape, view.dtype)],
                               reduction=enum("reduction", kind), dims=drop)[0]
    seen = [[] if i in dims else d for i, d in enumerate(view.dims)]
    if not keep:
        seen = [d for i, d in enumerate(seen) if i not in dims]
    return View(value, rest, seen)


def whole_dim(view, dim):
    """The dimension of the base that seen dimension `dim` is, or None."""
    axes = view.dims[dim]
    return next((i for i, f in enumerate(view.factors) if f == axes and f), None)


def along(builder, views, dim):
    """Values of one shape in which seen dimension `dim` is one dimension:
    (values, that dimension, wrap)."""
    lead = coalesce(views[0])
    dim %= max(len(lead.dims), 1)
    at = whole_dim(lead, dim)
    if at is not None and not lead.repeated():
        values = [conform(builder, v, lead) for v in [lead] + list(views[1:])]
        if all(v is not None for v in values):
            return values, at, lambda value: seen_as(value, lead)
    return [materialise(builder, v) for v in views], dim, View.of


def replace_dim(view, at, value, size, dim):
    """`value`: the base with dimension `at`, seen as `dim`, changed to `size`."""
    axes = [Axis(size)] if size != 1 else []
    factors = [axes if i == at else f for i, f in enumerate(view.factors)]
    dims = [axes if i == dim else d for i, d in enumerate(view.dims)]
    return View(value, factors, dims)


def isolated(builder, view, dim):
    """The view on its base reshaped to have seen dimension `dim`, which is a run of a
    dimension of it; None if it is not."""
    axes = view.dims[dim]
    for i, f in enumerate(view.factors):
        if not axes or axes[0] not in f:
            continue
        k = f.index(axes[0])
        parts = [p for p in (f[:k], f[k:k + len(axes)], f[k + len(axes):]) if p]
        if axes in parts:
            factors = view.factors[:i] + parts + view.factors[i + 1:]
            base = emit_reshape(builder, view.base, [product(p) for p in factors])
            return View(base, factors, view.dims)
    return None


def resize(builder, view, dim, size, make):
    """Applies `make(value, dimension)`, which changes one dimension to `size`,
    in the base if `dim` is a dimension of it, or a part of one."""
    view = coalesce(view)
    dim %= len(view.dims)
    view = isolated(builder, view, dim) or view
    at = whole_dim(view, dim)
    if at is None:
        view, at = View.of(materialise(builder, view)), dim
    return replace_dim(view, at, make(view.base, at), size, dim)


def compare_values(c, predicate, a, b):
    name, cases = ("arith.cmpf", CMPF) if a.type.is_float else ("arith.cmpi", CMPI)
    return c.builder.create(
        name, [a, b], [Type(a.shape, "i1")],
        predicate=Spelled(predicate, f"{cases.index(predicate)} : i64"))[0]
