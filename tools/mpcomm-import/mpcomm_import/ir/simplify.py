# ===- simplify.py - small clean-ups of the finished graph -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Rewrites that need to see how a value is used, then dead code elimination."""

from .graph import eliminate_dead_code
from .regroup import regroup


def uses_of(function):
    uses = {}
    for op in function.ops:
        for v in op.operands:
            uses[v] = uses.get(v, 0) + 1
    for r in function.results:
        uses[r.value] = uses.get(r.value, 0) + 1
    return uses


def swap_operands(function):
    """transpose(dot_general(a, b)) with the operands exchanged, where that makes
    the transpose keep the innermost dimension in place (rows are copied, not
    single elements) or go away."""
    uses = uses_of(function)
    replaced = {}
    for op in function.ops:
        op.operands = [replaced.get(v, v) for v in op.operands]
        dot = op.operands[0].op if op.name == "mpcomm.transpose" else None
        if dot is None or dot.name != "mpcomm.dot_general" or \
                uses[dot.results[0]] != 1:
            continue
        order, rank = op.attributes["dims"], len(op.attributes["dims"])
        if order[-1] == rank - 1:
            continue
        batch = len(dot.attributes["lhs_batching_dims"])
        left = len(dot.operands[0].shape) - batch - \
            len(dot.attributes["lhs_contracting_dims"])
        # Where the dimensions of the product are once operands are swapped.
        moved = list(range(batch)) + list(range(batch + left, rank)) + \
            list(range(batch, batch + left))
        now = [moved.index(d) for d in order]
        if now[-1] != rank - 1:
            continue
        dot.operands = dot.operands[::-1]
        other = {"l": "r", "r": "l"}
        dot.attributes = {other[k[0]] + k[1:]: v for k, v in dot.attributes.items()}
        result = dot.results[0]
        result.type = type(result.type)([result.shape[d] for d in moved], result.dtype)
        op.attributes = {"dims": now}
        if now == sorted(now):
            replaced[op.results[0]] = result
    for r in function.results:
        r.value = replaced.get(r.value, r.value)


def narrow_loops(function):
    """Drops what loops stack and no one reads, such as the gates of a recurrent layer in
    evaluation."""
    uses = uses_of(function)
    for op in function.ops:
        if op.name != "mpcomm.scan":
            continue
        body = op.attributes["body"]
        carries = int(op.attributes["operandSegmentSizes"].partition(",")[0])
        kept = [i for i, r in enumerate(op.results) if i < carries or r in uses]
        op.results = [op.results[i] for i in kept]
        body.results = [body.results[i] for i in kept]
        simplify(body)


def simplify(function):
    swap_operands(function)
    regroup(function, uses_of(function))
    eliminate_dead_code(function)
    narrow_loops(function)
