# ===- control.py - calls, loops and branches -----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of calls, which are translated in place, of loops of a known count,
which are unrolled, and of branches, of which all are computed."""

import numpy as np
from jaxlib.mlir import ir

from ..emit.pointwise import align, along
from ..errors import Unsupported
from ..ir.graph import enum
from .pointwise import compare, number
from .translator import broadcast, hlo

# Times around a loop, and ops that loops may come to in all.
MAX_TRIPS = 4096
MAX_STEPS = 200_000

# Custom calls that compute nothing.
ANNOTATIONS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_"
               "placement", "LayoutConstraint", "MoveToDevice", "MoveToHost")

WHOLE = ("mpcomm.softmax", "mpcomm.softmax_grad", "mpcomm.gelu", "mpcomm.gelu_grad")


@hlo("func.call")
def call(t, op, *operands):
    return t.call(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, operands)


@hlo("composite")
def composite(t, op, *operands):
    return t.call(ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value, operands)


@hlo("custom_call")
def custom_call(t, op, *operands):
    target = ir.StringAttr(op.attributes["call_target_name"]).value
    if target in ANNOTATIONS:
        return operands[:len(op.results)]
    if target == "mpcomm.gradient":
        return t.gradient(operands[0])
    if target in WHOLE:
        return whole(t, op, target, operands)
    raise Unsupported(f"'{target}'")


def whole(t, op, target, operands):
    """An op that was kept whole, see jax_front/ops.py."""
    text, views = ir.StringAttr(op.attributes["backend_config"]).value, list(map(t.view, operands))
    if "softmax" in target:
        values, at, wrap = along(t.builder, views, int(text) % len(views[0].dims))
        attributes = {"dim": at}
    else:
        values, wrap = align(t.builder, views)
        attributes = {"approximate": enum("gelu_approximation", text)}
    return wrap(t.builder.create(target, values, [values[0].type], **attributes)[0])


@hlo("while")
def loop(t, op, *operands):
    condition, body = (r.blocks[0] for r in op.regions)
    outer, carried = t.env, list(operands)
    for _ in range(MAX_TRIPS):
        again, = t.block(condition, carried, outer)
        if not isinstance(again, np.ndarray):
            raise Unsupported("whose count depends on data")
        if not again.all():
            return carried
        t.steps += len(list(body.operations))
        if t.steps > MAX_STEPS:
            raise Unsupported(f"that unrolls to more than {MAX_STEPS} ops")
        carried = t.block(body, carried, outer)
    raise Unsupported(f"of more than {MAX_TRIPS} times")


@hlo("case", "if")
def branch(t, op, index):
    """`if` has its true branch first, and is chosen by a boolean; the index of `case` is
    the last branch's where it is none."""
    outer, blocks = t.env, [r.blocks[0] for r in op.regions]
    if op.operation.name == "stablehlo.if":
        blocks.reverse()
    known = number(index)
    if known is not None:
        at = int(known)
        return t.block(blocks[at if 0 <= at < len(blocks) else -1], [], outer)
    results = [[t.view(x) for x in t.block(b, [], outer)] for b in blocks]
    index, chosen = t.view(index), results[-1]
    for at in range(len(blocks) - 2, -1, -1):
        same = index if index.dtype == "i1" else compare(t, "eq", index, at)
        if index.dtype == "i1":
            same = t.apply("arith.xori", same, 1)
        chosen = [t.select(broadcast(same, x.shape, []), x, y)
                  for x, y in zip(results[at], chosen)]
    return chosen


