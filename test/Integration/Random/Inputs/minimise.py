# ===- minimise.py - a smaller graph that fails in the same way ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Greedy: results go, operations give way to one of their operands, to another value of their
type, or to a constant, and options to their defaults, as long as the failure stays."""

import copy
import time

import numpy as np

from formats import FLOATS
from graph import Op, Text, elements


def constant_op(dtype, shape, x):
    values = np.asarray(x, np.float64 if dtype in FLOATS else np.int64)
    type_ = "tensor<%s%s>" % ("".join("%dx" % n for n in shape), dtype)
    op = Op("arith.constant", [], {"value": Text("dense<%s> : %s" % (elements(values, dtype), type_))}, [(dtype, shape)])
    op.payload = values
    return op


def replace(graph, old, new):
    for op in graph.ops:
        op.operands = [new if v is old else v for v in op.operands]
    for result in graph.results:
        if result.value is old:
            result.value = new


def without_unused(case):
    graph = case.graph
    graph.remove_dead()
    used = {id(v) for op in graph.ops for v in op.operands} | {id(r.value) for r in graph.results}
    kept = {r.name for r in graph.results}
    batches = [a for a in graph.arguments if a.role == "batch"]
    graph.arguments = [a for a in graph.arguments if id(a.value) in used or a.name in kept or a is batches[0]]
    names = {a.name for a in graph.arguments}
    case.weights = {n: v for n, v in case.weights.items() if n in names}
    case.samples = {n: v for n, v in case.samples.items() if n in names}
    return case


def steps_of(case):
    """Ways to make a case smaller, each a function of a copy."""
    for i, result in enumerate(case.graph.results):
        if result.role != "loss":
            def drop(c, i=i):
                c.graph.results.pop(i)
            yield drop
    for i in reversed(range(len(case.graph.ops))):
        op = case.graph.ops[i]
        for j, value in enumerate(op.results):
            for k, operand in enumerate(op.operands):
                if operand.type == value.type:
                    def forward(c, i=i, j=j, k=k):
                        replace(c.graph, c.graph.ops[i].results[j], c.graph.ops[i].operands[k])
                    yield forward
            for k, a in enumerate(case.graph.arguments):
                if a.value.type == value.type and a.value not in op.operands:
                    def argument(c, i=i, j=j, k=k):
                        replace(c.graph, c.graph.ops[i].results[j], c.graph.arguments[k].value)
                    yield argument
            if op.name != "arith.constant" and value.dtype in ("f32", "f64", "f16", "bf16", "i1", "i8", "i32", "i64"):
                def fixed(c, i=i, j=j):
                    value = c.graph.ops[i].results[j]
                    new = constant_op(value.dtype, value.shape, 1)
                    c.graph.ops.insert(0, new)
                    replace(c.graph, value, new.results[0])
                yield fixed


def settings_of(setting):
    for field, simple in (("others", ""), ("level", 0), ("steps", 1), ("precision", "none"), ("schedule", ""), ("stages", 1),
                          ("ranks", 1), ("micro_batches", 1), ("micro_batches", 2)):  # fmt: skip
        if getattr(setting, field) not in (simple, 1 if field == "micro_batches" else simple):
            changed = copy.copy(setting)
            setattr(changed, field, simple)
            yield changed


def minimise(case, setting, fails, seconds=60):
    """`fails(case, setting)` says whether the failure is the one in hand."""
    end = time.time() + seconds
    changed = True
    while changed and time.time() < end:
        changed = False
        for simpler in settings_of(setting):
            if fails(case, simpler):
                setting, changed = simpler, True
        for step in steps_of(case):
            smaller = copy.deepcopy(case)
            step(smaller)
            without_unused(smaller)
            if size(smaller) < size(case) and fails(smaller, setting):
                case, changed = smaller, True
                break
            if time.time() > end:
                break
    return case, setting


def size(case):
    """Operations, and arguments; constants count less."""
    ops = sum(0.5 if op.name == "arith.constant" else 1 + 0.1 * len(op.operands) for op in case.graph.ops)
    return ops + len(case.graph.arguments) + len(case.graph.results)
