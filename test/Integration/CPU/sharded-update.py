# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %mpcomm_src_root/test/Transforms/Communicate/Inputs/one-level.json %t.dir
#
# A step whose parameters are gathered before use, whose gradients are scattered and whose updated
# shards are gathered again, on a channel of their own, gives what its definition says, however its
# collectives are bucketed and scheduled: by each policy, with and without the overlap schedule, with
# and without a memory bound, on two and four ranks. Values are small multiples of a quarter: nothing
# is rounded, in any order.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers a rank program written by hand under many options, links it and runs a step."""

import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import call, link, read_tensors, run, write_tensors

OPT, RUN, CC, CLUSTER, FOLDER = sys.argv[1:]
SIZES = [4, 12, 8, 4, 16]  # of layers, uneven


def program(ranks):
    """Layer i multiplies (row + what the layers before gave) by its weight; its gradient is that
    factor plus what the layers after gave."""
    count = sum(SIZES)
    row, scalar = "tensor<1x%dxf32>" % count, "tensor<f32>"
    head, body, tail, begin = [], [], [], 0
    where = 'on @mesh axes ["dp"]'
    head += ["%z0 = arith.constant dense<0.0> : tensor<f32>", "%quarter = arith.constant dense<0.25> : tensor<f32>"]
    for i, n in enumerate(SIZES):
        t, s, r = "tensor<%dxf32>" % n, "tensor<%dxf32>" % (n // ranks), "tensor<1x%dxf32>" % n
        head += [
            "%%xs%d = mpcomm.slice %%x, starts = [0, %d], limits = [1, %d], strides = [1, 1] : (%s) -> %s"
            % (i, begin, begin + n, row, r),
            "%%x%d = mpcomm.reshape %%xs%d : (%s) -> %s" % (i, i, r, t),
            "%%s%d = mpcomm.all_slice %%p%d %s dim = 0 : (%s) -> %s" % (i, i, where, t, s),
        ]  # fmt: skip
        body += [
            "%%w%d = mpcomm.all_gather(%%s%d) %s dims = [0] channel = 1 : (%s) -> %s" % (i, i, where, s, t),
            "%%b%d = mpcomm.broadcast_in_dim %%z%d, dims = [] : (%s) -> %s" % (i, i, scalar, t),
            "%%f%d = arith.addf %%x%d, %%b%d : %s" % (i, i, i, t),
            "%%a%d = arith.mulf %%f%d, %%w%d : %s" % (i, i, i, t),
            "%%z%d = mpcomm.reduce sum %%a%d, dims = [0] : (%s) -> %s" % (i + 1, i, t, scalar),
        ]  # fmt: skip
        begin += n
    last = len(SIZES)
    body.append("%%y%d = arith.mulf %%z%d, %%quarter : %s" % (last, last, scalar))
    for i in reversed(range(last)):
        n = SIZES[i]
        t, s = "tensor<%dxf32>" % n, "tensor<%dxf32>" % (n // ranks)
        body += [
            "%%c%d = mpcomm.broadcast_in_dim %%y%d, dims = [] : (%s) -> %s" % (i, i + 1, scalar, t),
            "%%g%d = arith.addf %%f%d, %%c%d : %s" % (i, i, i, t),
            "%%y%d = mpcomm.reduce sum %%g%d, dims = [0] : (%s) -> %s" % (i, i, t, scalar),
            "%%r%d = mpcomm.reduce_scatter(%%g%d) %s sum dims = [0] : (%s) -> %s" % (i, i, where, t, s),
            "%%q%d = mpcomm.broadcast_in_dim %%quarter, dims = [] : (%s) -> %s" % (i, scalar, s),
            "%%m%d = arith.mulf %%r%d, %%q%d : %s" % (i, i, i, s),
            "%%u%d = arith.subf %%s%d, %%m%d : %s" % (i, i, i, s),
            "%%n%d = mpcomm.all_gather(%%u%d) %s dims = [0] channel = 1 : (%s) -> %s" % (i, i, where, s, t),
        ]  # fmt: skip
    fact = '{mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p%d"'
    types = ["tensor<%dxf32>" % n for n in SIZES]
    arguments = ["%%p%d: %s %s, mpcomm.donated = %d : i64}" % (i, t, fact % i, i + 1) for i, t in enumerate(types)]
    results = ["%s %s}" % (t, fact % i) for i, t in enumerate(types)]
    return """mpcomm.mesh @mesh <["dp" = %d]>
func.func @train_step(%s,
    %%x: %s {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}, %s) {
  %s
  return %%y0, %s : tensor<f32>, %s
}
""" % (ranks, ", ".join(arguments), row, ", ".join(results), "\n  ".join(head + body + tail),
       ", ".join("%%n%d" % i for i in range(last)), ", ".join(types))  # fmt: skip


def reference(weights, rows):
    """The parameters after a step, from those before and what each rank has."""
    sums = [[0.0] * n for n in SIZES]
    for row in rows:
        begin, z, factors = 0, 0.0, []
        for n, w in zip(SIZES, weights):
            factors.append([v + z for v in row[begin : begin + n]])
            z = sum(f * v for f, v in zip(factors[-1], w))
            begin += n
        y = z / 4
        for i in reversed(range(len(SIZES))):
            gradient = [f + y for f in factors[i]]
            y = sum(gradient)
            sums[i] = [a + b for a, b in zip(sums[i], gradient)]
    return [[w - g / 4 for w, g in zip(ws, gs)] for ws, gs in zip(weights, sums)]


def ways():
    """Names and passes."""
    yield "as it is", []
    for policy in ("solved", "one", "ddp", "none"):
        combine = "--mpcomm-combine-collectives=cluster=%s policy=%s" % (CLUSTER, policy)
        yield policy, ["--mpcomm-sink-updates", combine, "--mpcomm-make-async"]
        yield policy + ", scheduled", ["--mpcomm-sink-updates", combine, "--mpcomm-make-async",
                                       "--mpcomm-schedule-overlap=cluster=" + CLUSTER]  # fmt: skip
    yield "no times", ["--mpcomm-combine-collectives", "--mpcomm-make-async"]
    yield "bounded", ["--mpcomm-sink-updates", "--mpcomm-combine-collectives=cluster=%s memory-bytes=64" % CLUSTER,
                      "--mpcomm-make-async"]  # fmt: skip


def main():
    os.makedirs(FOLDER, exist_ok=True)
    file, out = (os.path.join(FOLDER, name) for name in ("step.so", "out.safetensors"))
    for ranks in (2, 4):
        draw = random.Random(ranks)
        before = [[float(draw.randint(-1, 1)) for _ in range(n)] for n in SIZES]
        rows = [[float(draw.randint(-1, 1)) for _ in range(sum(SIZES))] for _ in range(ranks)]
        after = reference(before, rows)
        weights = write_tensors(os.path.join(FOLDER, "w.safetensors"),
                                {"p%d" % i: ([len(w)], w) for i, w in enumerate(before)})  # fmt: skip
        data = write_tensors(os.path.join(FOLDER, "d.safetensors"),
                             {"x": ([ranks, sum(SIZES)], [v for row in rows for v in row])})  # fmt: skip
        merged = set()
        for name, passes in ways():
            graph = call([OPT, *passes, "--mpcomm-verify-communication"], program(ranks).encode())
            for kind in ("reduce_scatter", "all_gather"):
                if re.search(r"mpcomm\.%s\(%%[^)]*," % kind, graph.decode()):
                    merged.add((name.split(",")[0], kind))
            link(CC, call([OPT, "--mpcomm-lower", "--mpcomm-program"], graph), file)
            run(RUN, file, "--np", ranks, "--weights", weights, "--data", data, "--steps", 1,
                "--save-weights", out, "--quiet")  # fmt: skip
            found = read_tensors(out)
            if [found["p%d" % i] for i in range(len(SIZES))] != after:
                sys.exit("%s on %d ranks: %s, expected %s" % (name, ranks, found, after))
            print("%d ranks, %s: the definition's parameters" % (ranks, name))
        wanted = {("one", "reduce_scatter"), ("one", "all_gather")}
        if not wanted <= merged or ("none", "all_gather") in merged:
            sys.exit("buckets were made by %s" % merged)


main()
