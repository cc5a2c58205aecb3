# ===- sort.py - sorting --------------------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of sort, of one tensor or of keys with what they carry, and of top_k."""

from jaxlib.mlir import ir

from ..emit.views import View
from ..errors import Unsupported
from ..ir.graph import Type
from .constants import direction
from .gather import gathered
from .translator import hlo, region, type_of, unsigned


def ordered(t, x, dim, count, largest, dtype="i32"):
    """The first `count` elements in order, and where they are."""
    value = t.whole(x)
    shape = [count if d == dim else n for d, n in enumerate(value.shape)]
    values, indices = t.builder.create(
        "mpcomm.top_k", [value], [Type(shape, value.dtype), Type(shape, dtype)], dim=dim,
        k=count, largest=largest)
    return View.of(values), View.of(indices)


@hlo("chlo.top_k")
def top_k(t, op, x):
    if unsigned(op.operands[0]):
        raise Unsupported("on integers without a sign")
    x = t.view(x)
    return ordered(t, x, len(x.shape) - 1, op.attributes["k"].value, True,
                   type_of(op.results[1]).dtype)


@hlo("sort")
def sort(t, op, *operands):
    keys, dim = t.view(operands[0]), ir.IntegerAttr(op.attributes["dimension"]).value
    body = list(region(op).operations)
    compares = [o for o in body if o.operation.name == "stablehlo.compare"]
    first = set(region(op).arguments[:2])
    carried = set(region(op).arguments[2:])
    if not compares or direction(compares[-1]) not in ("LT", "GT") or \
            any(v in carried for o in body for v in o.operands) or not \
            any(v in first for o in body for v in o.operands) or unsigned(op.operands[0]):
        raise Unsupported("by a comparison that is not of its first operand alone")
    size = keys.shape[dim]
    values, places = ordered(t, keys, dim, size, direction(compares[-1]) == "GT")
    results = [values]
    for x in operands[1:]:
        # The dimension last, all others as batching ones.
        order = [d for d in range(len(keys.shape)) if d != dim] + [dim]
        back = [order.index(d) for d in range(len(order))]
        rank = len(order) - 1
        results.append(gathered(t, t.view(x).permute(order), places.permute(order), rank,
                                rank).permute(back))
    return results
