# ===- regroup.py - elementwise ops in one shape ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Elementwise ops on one tensor whose dimensions some of them see split, such as a rotary
embedding, which turns the halves of each head: all are computed with the split dimensions,
so that they are loops over the same points and become one kernel.

Where an elementwise op reads a reshape between two shapes of which one splits dimensions of
the other, and the reshape reads what is computed element by element for it alone, the
side with fewer dimensions is computed in the finer shape. Nothing but the place of reshapes
changes. Time: linear in the ops."""

import math

from .graph import Dense, Op, Type

MOVED = "mpcomm.reverse"


def is_elementwise(op):
    return op is not None and op.name.startswith(("arith.", "math.")) and \
        op.name != "arith.constant" and len(op.results) == 1 and not op.regions and \
        all(v.shape == op.results[0].shape for v in op.operands)


def split_into(coarse, fine):
    """For each dimension of `coarse` those of `fine` that it is split into; None where
    `fine` is no such split."""
    groups, at = [], 0
    for size in coarse:
        begin = at
        while at < len(fine) and math.prod(fine[begin:at + 1]) <= size and \
                (begin == at or math.prod(fine[begin:at]) < size):
            at += 1
        if begin == at or math.prod(fine[begin:at]) != size:
            return None
        groups.append(list(range(begin, at)))
    return groups if at == len(fine) and len(fine) > len(coarse) else None


class Regrouper:
    def __init__(self, function, uses):
        self.function, self.uses, self.made = function, uses, []

    def create(self, like, name, operands, shape, attributes=None):
        result = Type(shape, like.results[0].dtype)
        self.made.append(Op(name, operands, attributes or {}, [result], like.location))
        return self.made[-1].results[0]

    def split(self, value, fine):
        """`value` with the shape `fine`, which splits its dimensions: computed in it
        if nothing else reads it."""
        op, groups = value.op, split_into(value.shape, fine)
        if op is None:
            return self.reshape(self.user, value, fine)
        if op.name == "mpcomm.reshape":
            return self.reshape(op, op.operands[0], fine)
        if op.name == "arith.constant" and not isinstance(op.attributes["value"].elements, list):
            type = Type(fine, value.dtype)
            return self.create(op, op.name, [], fine,
                               {"value": Dense(op.attributes["value"].elements, type)})
        if op.name == "mpcomm.broadcast_in_dim":
            source, dims, shape = op.operands[0], [], []
            for size, d in zip(source.shape, op.attributes["dims"]):
                whole = size == value.shape[d]
                dims += groups[d] if whole else groups[d][:1]
                shape += [fine[g] for g in groups[d]] if whole else [size]
            source = self.reshape(op, source, shape)
            return self.create(op, op.name, [source], fine, {"dims": dims})
        if is_elementwise(op) and self.uses.get(value) == 1:
            return self.create(op, op.name, [self.split(v, fine) for v in op.operands], fine,
                               op.attributes)
        return self.reshape(op, value, fine)

    def reshape(self, like, value, shape):
        if value.shape == tuple(shape):
            return value
        self.made.append(Op("mpcomm.reshape", [value], {}, [Type(shape, value.dtype)], like.location))
        return self.made[-1].results[0]

    def run(self):
        ops = []
        for op in self.function.ops:
            self.made, self.user = [], op
            if is_elementwise(op):
                self.visit(op)
            ops += self.made
            ops.append(op)
        self.function.ops = ops

    def visit(self, op):
        coarse = op.results[0].shape
        for i, v in enumerate(op.operands):
            reshape = v.op if v.op is not None and v.op.name == "mpcomm.reshape" else None
            source = reshape.operands[0] if reshape else None
            if source is None or self.uses.get(v) != 1 or \
                    not (is_elementwise(source.op) or source.op and source.op.name == MOVED):
                continue
            if is_elementwise(source.op) and split_into(source.shape, coarse):
                op.operands[i] = self.split(source, coarse)
            elif split_into(coarse, source.shape):
                # Computed in the finer shape; the reshape follows and has the old result.
                fine = source.shape
                operands = [source if k == i else self.split(w, fine) for k, w in enumerate(op.operands)]
                value = self.create(op, op.name, operands, fine, op.attributes)
                op.name, op.operands, op.attributes = "mpcomm.reshape", [value], {}
                self.uses[value] = 1
                return


def regroup(function, uses):
    Regrouper(function, uses).run()
