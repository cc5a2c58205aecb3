# ===- mutate.py - graphs that are nearly valid ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Mutations of generated graphs that keep shapes, so that most still verify and passes see
them."""

import math

import numpy as np

from formats import FLOATS, INTEGERS
from graph import STATE_ROLES, Op, Text, elements

MUTATIONS = []
SAME_SIGNATURE = (
    ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf", "arith.minimumf", "arith.remf",
     "arith.maxnumf", "arith.minnumf", "math.powf", "math.copysign", "math.atan2"),
    ("arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori", "arith.xori", "arith.divsi", "arith.divui",
     "arith.remsi", "arith.remui", "arith.shli", "arith.shrsi", "arith.shrui", "arith.ceildivsi", "arith.floordivsi"),
    ("arith.negf", "math.absf", "math.exp", "math.log", "math.sqrt", "math.rsqrt", "math.tanh", "math.erf", "math.sin",
     "math.cos", "math.floor", "math.ceil", "math.exp2", "math.log1p", "math.expm1", "math.log2", "math.log10",
     "math.round", "math.roundeven", "math.trunc", "math.cbrt", "math.tan", "math.atan", "math.sinh", "math.cosh",
     "math.asin", "math.acos", "math.erfc"),
    ("mpcomm.softmax", "mpcomm.log_softmax"), ("mpcomm.softmax_grad", "mpcomm.log_softmax_grad", "mpcomm.gelu_grad"),
)  # fmt: skip


def mutation(function):
    MUTATIONS.append(function)
    return function


def ops_named(graph, *names):
    return [op for op in graph.ops if not names or op.name in names]


def before(graph, index, type_):
    """Values of a type that are there before op `index`."""
    values = [a.value for a in graph.arguments] + [v for op in graph.ops[:index] for v in op.results]
    return [v for v in values if v.type == type_]


@mutation
def swap_operands(graph, r):
    op = r.choice(graph.ops)
    pairs = [(i, j) for i in range(len(op.operands)) for j in range(i) if op.operands[i].type == op.operands[j].type]
    if pairs:
        i, j = r.choice(pairs)
        op.operands[i], op.operands[j] = op.operands[j], op.operands[i]


@mutation
def another_operand(graph, r):
    index = r.randrange(len(graph.ops))
    op = graph.ops[index]
    if op.operands:
        i = r.randrange(len(op.operands))
        op.operands[i] = r.choice(before(graph, index, op.operands[i].type))


@mutation
def another_op(graph, r):
    op = r.choice(graph.ops)
    for names in SAME_SIGNATURE:
        if op.name in names:
            op.name = r.choice(names)


EXTREMES = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, 3.4028234e38, 1e300, 65504.0)


@mutation
def another_constant(graph, r):
    found = ops_named(graph, "arith.constant")
    if not found:
        return
    op = r.choice(found)
    dtype = op.results[0].dtype
    if 0 in op.results[0].shape:
        return
    if dtype in FLOATS:
        x = FLOATS[dtype].round(r.choice(EXTREMES))
    else:
        bits = INTEGERS[dtype].bits
        x = INTEGERS[dtype].wrap(np.int64(r.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), r.randrange(-9, 9)))))
    op.payload = np.asarray(x)
    op.attributes["value"] = Text("dense<%s> : %s" % (elements(op.payload, dtype), op.results[0].type))


@mutation
def another_attribute(graph, r):
    op = r.choice(graph.ops)
    a, rank = op.attributes, len(op.results[0].shape) if op.results else 0
    if "reduction" in a and op.name == "mpcomm.reduce":
        a["reduction"] = Text("#mpcomm<reduction %s>" % r.choice(("sum", "prod", "min", "max")))
    elif "reduction" in a:
        a["reduction"] = Text("#mpcomm<loss_reduction %s>" % r.choice(("sum", "mean")))
        a["ignore_index"] = r.choice((0, -1, -(2**63), 2**63 - 1))
    elif "predicate" in a:
        a["predicate"] = r.randrange(16 if op.name == "arith.cmpf" else 10)
    elif "eps" in a:
        a["eps"] = r.choice((0.0, 1e-300, 1e300, 1e-5))
    elif op.name in ("mpcomm.iota", "mpcomm.softmax", "mpcomm.softmax_grad", "mpcomm.log_softmax", "mpcomm.log_softmax_grad"):
        a["dim"] = r.randrange(rank)
    elif "low" in a and "interior" in a and rank:
        d = r.randrange(rank)
        total = a["low"][d] + a["high"][d]
        low = r.randrange(total + 1)
        a["low"] = [low if i == d else n for i, n in enumerate(a["low"])]
        a["high"] = [total - low if i == d else n for i, n in enumerate(a["high"])]
    elif "starts" in a and rank:
        d = r.randrange(rank)
        room = op.operands[0].shape[d] - a["limits"][d]
        shift = r.randrange(-a["starts"][d], room + 1)
        for key in ("starts", "limits"):
            a[key] = [n + shift if i == d else n for i, n in enumerate(a[key])]
    elif "padding_idx" in a:
        a["padding_idx"] = r.randrange(op.results[0].shape[0])
    elif "weight_decay" in a:
        a["weight_decay"] = r.choice((0.0, 1.0, -1.0, 1e300))
    elif "p" in a:
        a["p"], a["id"] = r.choice((0.0, 1.0, 0.5, 2.0**-32)), r.choice((0, 2**32 - 1))
    elif "scale" in a:
        a["scale"] = r.choice((0.0, -1.0, 1e300))


@mutation
def another_result(graph, r):
    """Of the result's type: any value, an argument, what another result is."""
    result = r.choice(graph.results)
    result.value = r.choice(before(graph, len(graph.ops), result.value.type))


@mutation
def drop_result(graph, r):
    found = [x for x in graph.results if x.role in STATE_ROLES]
    if found:
        graph.results.remove(r.choice(found))


@mutation
def add_result(graph, r):
    """A result of role output, which no argument goes with."""
    value = r.choice([v for op in graph.ops for v in op.results] or [graph.arguments[0].value])
    graph.returns(value, "output", "extra%d" % len(graph.results))


@mutation
def donation(graph, r):
    a = r.choice(graph.arguments)
    if a.role in STATE_ROLES:
        a.donated = not a.donated


@mutation
def another_role(graph, r):
    found = [a for a in graph.arguments if a.role in ("parameter", "buffer", "optimizer_state")]
    if found:
        a = r.choice(found)
        a.role = r.choice(("parameter", "buffer", "optimizer_state", "loss_scale"))
        for result in graph.results:
            if result.name == a.name:
                result.role = a.role


@mutation
def copy_op(graph, r):
    """The same twice, each with some of the uses."""
    index = r.randrange(len(graph.ops))
    op = graph.ops[index]
    twin = Op(op.name, op.operands, op.attributes, [(v.dtype, v.shape) for v in op.results], op.region)
    twin.payload = getattr(op, "payload", None)
    graph.ops.insert(index + 1, twin)
    for user in graph.ops[index + 2 :]:
        for i, v in enumerate(user.operands):
            if v.op is op and r.random() < 0.5:
                user.operands[i] = twin.results[v.number]


@mutation
def reorder(graph, r):
    """Another order that dependence allows."""
    rest, order, done = list(graph.ops), [], {id(a.value) for a in graph.arguments}
    while rest:
        ready = [op for op in rest if all(id(v) in done for v in op.operands)]
        op = r.choice(ready)
        rest.remove(op)
        order.append(op)
        done.update(id(v) for v in op.results)
    graph.ops = order


@mutation
def more_arguments(graph, r):
    """State of a type that is there, unread or returned as it is."""
    like = r.choice(graph.arguments).value
    name = "more%d" % len(graph.arguments)
    role = r.choice(("buffer", "parameter", "optimizer_state"))
    value = graph.argument(name, role, like.dtype, like.shape, donated=r.random() < 0.5)
    if r.random() < 0.7:
        same = before(graph, len(graph.ops), value.type)
        graph.returns(r.choice(same), role, name)


def mutate(graph, r):
    for _ in range(r.choice((1, 1, 2, 3, 5))):
        if graph.ops:
            r.choice(MUTATIONS)(graph, r)
