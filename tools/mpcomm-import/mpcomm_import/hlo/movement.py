# ===- movement.py - ops that move elements, and reductions ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of reshapes, transposes, slices, padding and reductions."""

import math

from jaxlib.mlir import ir

from ..emit.movement import concatenated, padded, sliced
from ..emit.pointwise import reduce
from ..emit.views import View, coalesce, emit_reshape, materialise
from ..errors import Unsupported
from ..ir.graph import Type
from .constants import dims, direction
from .pointwise import cast, compare, number
from .translator import Reversed, broadcast, hlo, region, type_of, unsigned

# Ops of a body of two arguments -> (mpcomm.reduction, for two whole tensors).
COMBINERS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod",
             "and": "prod", "or": "sum"}


def reshaped(t, x, shape):
    view = coalesce(x).reshape(shape)
    if view is None:
        view = View.of(emit_reshape(t.builder, materialise(t.builder, x), shape))
    return view


@hlo("reshape")
def reshape(t, op, x):
    return reshaped(t, t.view(x), type_of(op.results[0]).shape)


@hlo("transpose")
def transpose(t, op, x):
    return t.view(x).permute(dims(op, "permutation"))


@hlo("broadcast_in_dim")
def broadcast_in_dim(t, op, x):
    return broadcast(t.view(x), type_of(op.results[0]).shape, dims(op, "broadcast_dimensions"))


@hlo("slice")
def slice_(t, op, x):
    x = t.view(x)
    for d, range_ in enumerate(zip(dims(op, "start_indices"), dims(op, "limit_indices"),
                                   dims(op, "strides"))):
        x = sliced(t, x, d, *range_)
    return x


@hlo("concatenate")
def concatenate(t, op, *parts):
    return concatenated(t, [t.view(p) for p in parts],
                        ir.IntegerAttr(op.attributes["dimension"]).value)


@hlo("reverse")
def reverse(t, op, x):
    x = t.view(x)
    turned = tuple(d for d in dims(op, "dimensions") if x.shape[d] != 1)
    return Reversed(x, turned) if turned else x


@hlo("iota")
def iota(t, op):
    type, at = type_of(op.results[0]), ir.IntegerAttr(op.attributes["iota_dimension"]).value
    whole = type if not type.is_float else Type(type.shape, "i32")
    line = t.builder.create("mpcomm.iota", [], [Type(type.shape[at:at + 1], whole.dtype)],
                            dim=0)[0]
    return cast(t, broadcast(View.of(line), type.shape, [at]), type.dtype)


@hlo("pad")
def pad(t, op, x, value):
    x, fill = t.view(x), number(value)
    for d, (low, high, interior) in enumerate(zip(
            dims(op, "edge_padding_low"), dims(op, "edge_padding_high"),
            dims(op, "interior_padding"))):
        if fill is None and (low > 0 or high > 0 or interior):
            raise Unsupported("with a value that is not constant")
        if interior:
            x = padded(t, x, d, 0, 0, interior, fill)
        x = sliced(t, x, d, max(-low, 0), x.shape[d] + min(high, 0))
        x = padded(t, x, d, max(low, 0), max(high, 0), 0, fill)
    return x


# --- reductions ----------------------------------------------------------------------- #

def combiner(block):
    """The op that a body of two arguments applies to them, without its dialect."""
    ops = list(block.operations)
    if len(ops) == 2 and set(ops[0].operands) == set(block.arguments):
        name = ops[0].operation.name.rpartition(".")[2]
        if name in COMBINERS:
            return name
    return None


def is_neutral(kind, start, type):
    """Whether a number changes nothing in a reduction."""
    if start is None:
        return False
    if kind == "sum":
        return start == 0
    if kind == "prod":
        return start == 1 or (type.dtype == "i1" and bool(start))
    lowest = -math.inf if type.is_float else -(1 << type.width - 1)
    highest = math.inf if type.is_float else (1 << type.width - 1) - 1
    return start == (lowest if kind == "max" else highest)


@hlo("reduce")
def reduction(t, op, *operands):
    over = dims(op, "dimensions")
    if len(operands) == 4:
        return with_index(t, op, over, *operands[:2])
    if len(operands) != 2:
        raise Unsupported(f"of {len(operands) // 2} tensors")
    x, start = t.view(operands[0]), operands[1]
    name = combiner(region(op))
    if name is None:
        raise Unsupported("with a body that is no sum, product, minimum or maximum")
    if name in ("and", "or") and x.dtype != "i1":
        raise Unsupported(f"by '{name}' on {x.dtype}")
    if name in ("minimum", "maximum") and x.dtype == "i1":
        name = {"minimum": "and", "maximum": "or"}[name]
    elif name in ("minimum", "maximum") and unsigned(op.operands[0]):
        raise Unsupported(f"by '{name}' on integers without a sign")
    kind = COMBINERS[name]
    result = reduce(t.builder, kind, x, over, False) if over else x
    if is_neutral(kind, number(start), x.type):
        return result
    target = {"sum": ("arith.addf", "arith.addi"), "prod": ("arith.mulf", "arith.muli"),
              "max": ("arith.maximumf", "arith.maxsi"),
              "min": ("arith.minimumf", "arith.minsi")}[kind][not x.type.is_float]
    if x.dtype == "i1":
        target = {"sum": "arith.ori", "prod": "arith.andi"}[kind]
    return t.apply(target, result, broadcast(t.view(start), result.shape, []))


def with_index(t, op, over, x, places):
    """The greatest or least elements of one dimension and where the first of them is:
    NaN counts as the greatest, and as the least."""
    names = {o.operation.name for o in region(op).operations}
    if not names <= {f"stablehlo.{n}" for n in ("compare", "or", "and", "select", "return")} \
            or len(over) != 1:
        raise Unsupported("of two tensors, with a body that is no argmax or argmin")
    first = next(o for o in region(op).operations
                 if o.operation.name == "stablehlo.compare")
    kind = {"GT": "max", "LT": "min", "GE": "max", "LE": "min"}.get(direction(first))
    if kind is None:
        raise Unsupported("of two tensors, with a body that is no argmax or argmin")
    if unsigned(op.operands[0]):
        raise Unsupported("of unsigned integers")
    x, places, at = t.view(x), t.view(places), over[0]
    best = reduce(t.builder, kind, x, [at], False)
    rest = [d for d in range(len(x.dims)) if d != at]
    same = compare(t, "oeq" if x.type.is_float else "eq", x, broadcast(best, x.shape, rest))
    if x.type.is_float:
        same = t.apply("arith.ori", same, compare(t, "une", x, x))
    last = (1 << places.type.width - 1) - 1
    where = t.select(same, places, broadcast(t.scalar(last, places.dtype), x.shape, []))
    return best, reduce(t.builder, "min", where, [at], False)


def is_zero(x):
    return number(x) == 0


