# REQUIRES: compiler, numpy
# RUN: %python %s --tools %mpcomm_obj_root/bin --folder %t.dir --count 240 | FileCheck %s
# CHECK: {{^[0-9]+}} ops, {{[0-9]+}} factors, {{[0-9]+}} sums and {{[0-9]+}} maxima hold
#
# What sharding rules say of ops is true: on blocks, an op gives blocks of what it gives on the
# whole, or what becomes the whole when it is reduced; on terms of a sum, terms of its result.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the ops of generated graphs one by one, with numbers of their own. The meaning of ops is
that of the reference interpreter, which has a bound of the error for each number: what two ways
of computing give may differ by no more than both bounds."""

import argparse
import collections
import json
import os
import random
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
import interpreter  # noqa: F401 (registers meanings)
from bounded import Bounded, finish
from formats import FLOATS
from generator import KINDS, Generator
from graph import Body, Op, Region, Text, Value
from semantics import MEANINGS, Whole, known

NONE, LOCAL = -1, -2
MOST = 4096  # elements of a tensor
# Ops that have factors, of which a few hundred graphs have some.
EXPECTED = ("adamw_update", "attention", "broadcast_in_dim", "concatenate", "convolution", "convolution_filter_grad",
            "cross_entropy", "cumulative", "dot_general", "gather", "gather_grad", "gelu", "layer_norm", "layer_norm_grad",
            "pad", "reduce", "reshape", "scan", "scatter", "slice", "softmax", "transpose", "update")  # fmt: skip
COMBINE = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", required=True, help="folder of the compiler")
    parser.add_argument("--folder", required=True, help="where a graph is written")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="graphs")
    return parser.parse_args()


def rules_of(graph, a):
    path = os.path.join(a.folder, "graph.mlir")
    with open(path, "w") as file:
        file.write(str(graph))
    done = subprocess.run([os.path.join(a.tools, "mpcomm-opt"), path, "-o", os.devnull, "-pass-pipeline=builtin.module("
                           "test-mpcomm-print-sharding-rules)"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE)  # fmt: skip
    if done.returncode:
        sys.exit("%s: %s" % (path, done.stderr[-2000:]))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if [line["op"] for line in lines] != [op.name for op in graph.ops]:
        sys.exit("%s: the ops printed are not those of the graph" % path)
    return lines


# ===----------------------------------------------------------------------=== #
# Blocks of operands, and ops on them
# ===----------------------------------------------------------------------=== #


def block(x, dim, rank, ranks):
    if dim < 0:
        return x
    size = x.shape[dim] // ranks
    index = (slice(None),) * dim + (slice(rank * size, (rank + 1) * size),)
    return x.move(lambda values: values[index])


def local_shape(shape, dim, ranks):
    return tuple(n // ranks if i == dim else n for i, n in enumerate(shape))


def local_values(values, dims, ranks):
    return [(v.dtype, local_shape(v.shape, d, ranks)) for v, d in zip(values, dims)]


def local_ops(ops, arguments, new_arguments, inner, ranks):
    """Copies of the ops of a body on values of a rank, and what became of each value."""
    new = {id(v): w for v, w in zip(arguments, new_arguments)}
    dims, out = iter(inner), []
    for op in ops:
        types = [(v.dtype, local_shape(v.shape, next(dims), ranks)) for v in op.results]
        made = local_op(op, [new[id(v)] for v in op.operands], types)
        out.append(made)
        new.update({id(v): w for v, w in zip(op.results, made.results)})
    return out, new


def local_op(op, operands, types, factor=None, ranks=1):
    made = Op(op.name, operands, op.attributes, types)
    made.__dict__.update({k: v for k, v in op.__dict__.items() if k not in made.__dict__})
    if op.name == "mpcomm.slice":
        # What was taken whole still is.
        whole = op.operands[0].shape
        made.attributes["limits"] = [own if limit == n and start == 0 and stride == 1 else limit
                                     for start, limit, stride, n, own in
                                     zip(op.attributes["starts"], op.attributes["limits"], op.attributes["strides"],
                                         whole, operands[0].shape)]  # fmt: skip
    body = op.attributes.get("body")
    if isinstance(body, Body):
        carried, sliced, _ = op.attributes["operandSegmentSizes"].counts
        dims = [d - 1 if d > 0 and carried <= i < carried + sliced else d for i, d in enumerate(factor["operands"])]
        arguments = [Value(*t) for t in local_values(body.arguments, dims, ranks)]
        ops, new = local_ops(body.ops, body.arguments, arguments, factor["inner"], ranks)
        made.attributes["body"] = Body(body.name, arguments, ops, [new[id(v)] for v in body.results])
    if op.region:
        made.region = Region(operands)
        made.region.ops, new = local_ops(op.region.ops, op.region.arguments, made.region.arguments,
                                         factor["inner"] if factor else [NONE] * len(op.region.ops), ranks)  # fmt: skip
        made.region.results = [new[id(v)] for v in op.region.results]
    return made


def evaluate(op, operands):
    made = MEANINGS[op.name](op, *operands)
    return made if isinstance(made, tuple) else (made,)


# ===----------------------------------------------------------------------=== #
# What has to hold
# ===----------------------------------------------------------------------=== #


def differ(ours, whole):
    """The first element that is further off than both bounds; None if there is none."""
    if ours.shape != whole.shape:
        return "shape %r, expected %r" % (ours.shape, whole.shape)
    with np.errstate(all="ignore"):
        bound = ours.e + whole.e
        if getattr(whole, "format", "") == "f64":
            # The interpreter computes in f64 and knows no error of it: a rounding for each of as many
            # terms as a tensor here has elements, of the greater of 1 and the result.
            bound = bound + MOST * 2.0**-53 * np.maximum(1, np.abs(whole.v))
        same = (ours.v == whole.v) | np.isnan(ours.v) & np.isnan(whole.v)
        fits = same | ~np.isfinite(bound) | (np.abs(ours.v - whole.v) <= bound)
    if fits.all():
        return None
    at = tuple(np.argwhere(~fits)[0])
    return "%r at %r, expected %r within %r" % (ours.v[at], at, whole.v[at], bound[at])


def concatenate(parts, dim):
    return rebuilt(parts[0], np.concatenate([p.v for p in parts], dim), np.concatenate([p.e for p in parts], dim))


def rebuilt(like, v, e):
    return Bounded(v, e, like.format) if isinstance(like, Bounded) else Whole(v, e, like.format)


def reduce(parts, reduction):
    """By real numbers; rounded once for each part."""
    v, e = parts[0].v, parts[0].e
    for part in parts[1:]:
        with np.errstate(all="ignore"):
            if reduction == "prod":
                e = np.abs(v) * part.e + np.abs(part.v) * e + e * part.e
                e = np.where(np.isnan(e), np.inf, e)
            else:
                e = e + part.e
            v = COMBINE[reduction](v, part.v)
    if isinstance(parts[0], Bounded):
        return finish(v, e, parts[0].format, roundings=len(parts))
    return Whole(v, e, parts[0].format)


def check_factor(op, factor, operands, whole, ranks):
    """What is wrong with a factor, or None."""
    pieces = []
    for rank in range(ranks):
        own = [block(x, d, rank, ranks) for x, d in zip(operands, factor["operands"])]
        values = [Value(*t) for t in local_values(op.operands, factor["operands"], ranks)]
        types = local_values(op.results, factor["results"], ranks)
        pieces.append(evaluate(local_op(op, values, types, factor, ranks), own))
    for i, dim in enumerate(factor["results"]):
        parts = [piece[i] for piece in pieces]
        if dim == LOCAL:
            continue
        if dim == NONE and not factor.get("reduction"):
            problems = [differ(part, whole[i]) for part in parts]
        elif dim == NONE:
            problems = [differ(reduce(parts, factor["reduction"]), whole[i])]
        else:
            problems = [differ(concatenate(parts, dim), whole[i])]
        for problem in problems:
            if problem:
                return "result %d: %s" % (i, problem)
    return None


def check_linear(op, chosen, operands, whole, r):
    """On two terms of the operands of a set, results are two terms."""
    terms = [list(operands), list(operands)]
    for i in chosen:
        x = operands[i]
        # Few bits, so that the terms are exact.
        first = np.array([r.choice((-2.0, -1.0, 0.5, 1.0, 4.0)) for _ in range(x.v.size)]).reshape(x.v.shape)
        second = np.array([r.choice((-1.0, 0.25, 1.0, 3.0)) for _ in range(x.v.size)]).reshape(x.v.shape)
        terms[0][i], terms[1][i] = (Bounded(t, None, x.format) for t in (first, second))
    sums = list(operands)
    for i in chosen:
        sums[i] = Bounded(terms[0][i].v + terms[1][i].v, None, operands[i].format)
    pieces, whole = [evaluate(op, t) for t in terms], evaluate(op, sums)
    for i, value in enumerate(op.results):
        if value.dtype in FLOATS:
            total = reduce([p[i] for p in pieces], "sum")
            # Infinities of both signs have no sum.
            finite = np.isfinite(pieces[0][i].v) & np.isfinite(pieces[1][i].v)
            problem = differ(rebuilt(total, total.v, np.where(finite, total.e, np.inf)), whole[i])
            if problem:
                return "result %d: %s" % (i, problem)
    return None


def check_monotone(op, operands, r):
    """The greatest of two operands, element by element, gives the greatest of two results."""
    values = [r.choice((-2.0, -1.0, 0.5, 3.0)) for _ in range(2 * operands[0].v.size)]
    first, second = (Bounded(np.array(half).reshape(operands[0].v.shape), None, operands[0].format)
                     for half in (values[::2], values[1::2]))  # fmt: skip
    pieces = [evaluate(op, [x])[0] for x in (first, second)]
    whole = evaluate(op, [Bounded(np.maximum(first.v, second.v), None, first.format)])[0]
    return differ(reduce(pieces, "max"), whole)


def add_updates(graph, r):
    """Updates by rows, in several shapes: what bodies can split is joined from rules of their ops."""
    m, n, k = r.choice((4, 6, 8, 9)), r.choice((1, 2, 3)), r.choice((1, 2, 4))
    p, g = (graph.argument(name, "buffer", "f32", (m, n * k)) for name in ("p", "g"))
    s = graph.argument("s", "buffer", "f32", (m,))
    op = Op("mpcomm.update", [p, g, s], {}, [("f32", p.shape), ("f32", s.shape)])
    op.region = region = Region([p, g, s])
    q, d, v = region.arguments
    sum_over = lambda x, dims, shape: region.add("mpcomm.reduce", [x], {
        "reduction": Text("#mpcomm<reduction sum>"), "dims": dims}, ("f32", shape))  # fmt: skip
    if r.random() < 0.5:
        # As blocks, whose first size may have nothing to do with the rows.
        blocks = r.choice([(a, m * n * k // a) for a in range(1, m * n * k + 1) if m * n * k % a == 0])
        x = region.add("mpcomm.reshape", [d], {}, ("f32", blocks))
        x = sum_over(x, [1], blocks[:1])
        x = region.add("mpcomm.broadcast_in_dim", [x], {"dims": [0]}, ("f32", blocks))
        d = region.add("mpcomm.reshape", [x], {}, ("f32", p.shape))
    rows = sum_over(d, [1], (m,))
    new = region.add("arith.addf", [rows, v], {}, ("f32", (m,)))
    spread = region.add("mpcomm.broadcast_in_dim", [new], {"dims": [0]}, ("f32", p.shape))
    out = region.add("arith.subf", [q, spread], {}, ("f32", p.shape))
    region.results = [out, new]
    graph.ops.append(op)


# ===----------------------------------------------------------------------=== #
# The campaign
# ===----------------------------------------------------------------------=== #


def numbers(value, r):
    """Of few bits, most of them small."""
    if value.dtype in FLOATS:
        values = [r.choice((-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 3.0)) for _ in range(value.size)]
    elif value.dtype == "i1":
        values = [r.randrange(2) for _ in range(value.size)]
    else:
        values = [r.randrange(0, 4) for _ in range(value.size)]
    return known(value.dtype, np.array(values, np.float64 if value.dtype in FLOATS else np.int64).reshape(value.shape))


def divisors(n):
    return [d for d in range(2, min(n, 8) + 1) if n % d == 0]


class Campaign:
    def __init__(self):
        self.counts, self.seen, self.failed = collections.Counter(), collections.Counter(), []

    def take(self, op, rule, r):
        if op.name not in MEANINGS or "factors" not in rule or any(v.size > MOST for v in [*op.operands, *op.results]):
            return
        operands = [numbers(v, r) for v in op.operands]
        whole = evaluate(op, operands)
        self.counts["ops"] += 1
        for factor in rule["factors"]:
            for ranks in divisors(factor["size"]):
                self.report(op, factor, ranks, check_factor(op, factor, operands, whole, ranks))
                self.counts["factors"] += 1
                self.seen[op.name] += 1
        for chosen in rule["linear"]:
            # Partial sums are of floats.
            if not all(isinstance(operands[i], Bounded) for i in chosen):
                continue
            self.report(op, {"linear": chosen}, 2, check_linear(op, chosen, operands, whole, r))
            self.counts["sums"] += 1
        if rule["monotone"] and len(operands) == 1 and isinstance(operands[0], Bounded):
            self.report(op, "monotone", 2, check_monotone(op, operands, r))
            self.counts["maxima"] += 1

    def report(self, op, claim, ranks, problem):
        if problem:
            self.failed.append("%s (%s) -> %s %r: %r over %d ranks: %s" % (
                op.name, ", ".join(v.type for v in op.operands), ", ".join(v.type for v in op.results),
                {k: v for k, v in op.attributes.items() if not isinstance(v, Body)}, claim, ranks, problem))  # fmt: skip


def main():
    a = parse()
    os.makedirs(a.folder, exist_ok=True)
    campaign = Campaign()
    for seed in range(a.first, a.first + a.count):
        graph = Generator(seed, KINDS[seed % len(KINDS)]).make().graph
        r = random.Random("rules %d" % seed)
        add_updates(graph, r)
        for op, rule in zip(graph.ops, rules_of(graph, a)):
            campaign.take(op, rule, r)
    for line in campaign.failed[:20]:
        print(line)
    if campaign.failed:
        sys.exit("%d claims do not hold" % len(campaign.failed))
    missing = [name for name in EXPECTED if not campaign.seen["mpcomm." + name]]
    if a.count >= 200 and missing:
        sys.exit("no factor of: " + ", ".join(missing))
    if a.count >= 200 and min(campaign.counts[key] for key in ("ops", "factors", "sums", "maxima")) < a.count:
        sys.exit("fewer claims than graphs: %s" % dict(campaign.counts))
    print("%(ops)d ops, %(factors)d factors, %(sums)d sums and %(maxima)d maxima hold" % campaign.counts)
    print(", ".join("%s %d" % item for item in sorted(campaign.seen.items())))


main()
