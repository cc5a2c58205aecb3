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

from .ir import Spelled, Type, enum
from .views import Axis, View, coalesce, match_axes, materialise

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
    lead = next((v for v in full if v.is_identity), full[0] if full else None)
    if lead is not None:
        values = [conform(builder, v, lead) for v in views]
        if all(v is not None for v in values):
            return values, lambda value: seen_as(value, lead)
    values = [materialise(builder, v.expand(shape)) for v in views]
    return values, View.of


def seen_as(value, lead):
    """`value`, of the shape of the lead's base, seen as the lead is."""
    return View(value, lead.factors, lead.dims)


def conform(builder, view, lead):
    """`view`, broadcast to what the lead sees, as a value of the shape of the
    lead's base; None where the two share no factorisation."""
    if view is lead:
        return lead.base
    dims = [[]] * (len(lead.dims) - len(view.dims)) + view.dims
    parts, counterpart = {}, {}
    out = View(view.base, view.factors, dims)
    for k, want in enumerate(lead.dims):
        if want and not out.dims[k]:
            counterpart.update({a: [Axis(a.size)] for a in want})
            continue
        match = match_axes(want, out.dims[k])
        if match is None:
            return None
        parts.update(match[0])
        out = out.refine(match[1])
        for a, b in match[2]:
            counterpart[a] = [b]
    dims = [[b for a in f for part in parts.get(a, [a]) for b in counterpart[part]]
            for f in lead.factors]
    return materialise(builder, coalesce(View(out.base, out.factors, dims)))


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


def resize(builder, view, dim, size, make):
    """Applies `make(value, dimension)`, which changes one dimension to `size`,
    in the base if `dim` is a dimension of it."""
    view = coalesce(view)
    dim %= len(view.dims)
    at = whole_dim(view, dim)
    if at is None:
        view, at = View.of(materialise(builder, view)), dim
    return replace_dim(view, at, make(view.base, at), size, dim)


def compare_values(c, predicate, a, b):
    name, cases = ("arith.cmpf", CMPF) if a.type.is_float else ("arith.cmpi", CMPI)
    return c.builder.create(
        name, [a, b], [Type(a.shape, "i1")],
        predicate=Spelled(predicate, f"{cases.index(predicate)} : i64"))[0]
