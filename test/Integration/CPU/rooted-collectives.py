# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %t.dir
#
# collective_broadcast, collective_permute, collective_reduce, collective_gather and
# collective_scatter give each rank what their definitions say, zeros included, on two,
# three and four ranks, and a profile has them under these names. Each rank has rows of its own; what it gets is gathered, so that
# rank 0 saves that of all. Values are multiples of 12, so that nothing is
# rounded, and differ, so that no block can be taken for another.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers a rank program written by hand, links it and runs a step."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import call, link, read_tensors, run, write_tensors

OPT, RUN, CC, FOLDER = sys.argv[1:]
ROWS, COLUMNS = 2, 12


def zeros(rows, columns):
    return [[0.0] * columns for _ in range(rows)]


def broadcast(root):
    return "broadcast", "root = %d" % root, (ROWS, COLUMNS), lambda blocks: [blocks[root]] * len(blocks)


def permute(pairs):
    def values(blocks):
        given = {target: blocks[source] for source, target in pairs}
        return [given.get(r, zeros(ROWS, COLUMNS)) for r in range(len(blocks))]

    return "permute", "source_target_pairs = %s" % [list(p) for p in pairs], (ROWS, COLUMNS), values


def reduce(reduction, root):
    def values(blocks):
        combine = max if reduction == "max" else sum
        whole = [[combine(b[i][j] for b in blocks) for j in range(COLUMNS)] for i in range(ROWS)]
        if reduction == "mean":
            whole = [[v / len(blocks) for v in row] for row in whole]
        return [whole if r == root else zeros(ROWS, COLUMNS) for r in range(len(blocks))]

    return "reduce", "%s root = %d" % (reduction, root), (ROWS, COLUMNS), values


def gather(ranks, root, dim):
    shape = (ROWS * ranks, COLUMNS) if dim == 0 else (ROWS, COLUMNS * ranks)

    def values(blocks):
        if dim == 0:
            whole = [row for b in blocks for row in b]
        else:
            whole = [[v for b in blocks for v in b[i]] for i in range(ROWS)]
        return [whole if r == root else zeros(*shape) for r in range(ranks)]

    return "gather", "root = %d dim = %d" % (root, dim), shape, values


def scatter(ranks, root):
    width = COLUMNS // ranks

    def values(blocks):
        return [[row[r * width : (r + 1) * width] for row in blocks[root]] for r in range(ranks)]

    return "scatter", "root = %d dim = 1" % root, (ROWS, width), values


def cases(ranks):
    """Mnemonic, attributes, shape on a rank, and the values of all ranks from their blocks."""
    last = ranks - 1
    return [
        broadcast(last),
        permute([(r, r + 1) for r in range(last)]),
        permute([(r, (r + 1) % ranks) for r in range(ranks)]),
        permute([(0, 0), (last, last)]),
        permute([]),
        reduce("sum", last), reduce("mean", 0), reduce("max", 1),
        gather(ranks, 0, 0), gather(ranks, last, 1),
        scatter(ranks, 0), scatter(ranks, last),
    ]  # fmt: skip


def program(ranks):
    """A parameter for what each case gives to all ranks, the first for what they had."""
    arguments, results, body, returned = [], [], [], []
    x = "tensor<%dx%dxf32>" % (ROWS, COLUMNS)
    for i, case in enumerate([None] + cases(ranks)):
        value, shape = "%x", (ROWS, COLUMNS)
        if case:
            kind, attributes, shape, _ = case
            value = "%%r%d" % i
            types = "tensor<%dx%dxf32>" % shape
            if kind in ("gather", "scatter"):
                types = "(%s) -> %s" % (x, types)
            body.append('%s = mpcomm.collective_%s(%%x) on @mesh axes ["dp"] %s : %s'
                        % (value, kind, attributes, types))  # fmt: skip
        whole = "tensor<%dx%dxf32>" % (ranks * shape[0], shape[1])
        fact = '{mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p%d"' % i
        arguments.append("%%p%d: %s %s, mpcomm.donated = %d : i64}" % (i, whole, fact, i + 1))
        results.append("%s %s}" % (whole, fact))
        returned.append(("%%g%d" % i, whole))
        body += [
            '%%all%d = mpcomm.all_gather(%s) on @mesh axes ["dp"] dims = [0] : (tensor<%dx%dxf32>) -> %s'
            % (i, value, *shape, whole),
            "%%g%d = arith.addf %%all%d, %%p%d : %s" % (i, i, i, whole),
        ]  # fmt: skip
    return """mpcomm.mesh @mesh <["dp" = %d]>
func.func @train_step(%s,
    %%x: %s {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}, %s) {
  %s
  %%loss = mpcomm.reduce sum %%x, dims = [0, 1] : (%s) -> tensor<f32>
  return %%loss, %s : tensor<f32>, %s
}
""" % (ranks, ",\n    ".join(arguments), x, ", ".join(results), "\n  ".join(body), x,
       ", ".join(v for v, _ in returned), ", ".join(t for _, t in returned))  # fmt: skip


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for ranks in (2, 3, 4):
        file = os.path.join(FOLDER, "rooted-%d.so" % ranks)
        link(CC, call([OPT, "--mpcomm-lower", "--mpcomm-program"], program(ranks).encode()), file)
        shapes = [(ROWS, COLUMNS)] + [case[2] for case in cases(ranks)]
        initial = {"p%d" % i: ([ranks * rows, columns], [0.0] * (ranks * rows * columns))
                   for i, (rows, columns) in enumerate(shapes)}  # fmt: skip
        weights = write_tensors(os.path.join(FOLDER, "w.safetensors"), initial)
        count = ranks * ROWS * COLUMNS
        data = write_tensors(os.path.join(FOLDER, "d.safetensors"),
                             {"x": ([ranks * ROWS, COLUMNS], [12.0 * (k + 1) for k in range(count)])})  # fmt: skip
        out = os.path.join(FOLDER, "out.safetensors")
        run(RUN, file, "--np", ranks, "--weights", weights, "--data", data, "--steps", 1,
            "--save-weights", out, "--quiet")  # fmt: skip
        found = read_tensors(out)
        seen = found["p0"]
        if sorted(seen) != [12.0 * (k + 1) for k in range(count)]:
            sys.exit("%d ranks had %s" % (ranks, seen))
        rows = [seen[i * COLUMNS : (i + 1) * COLUMNS] for i in range(ranks * ROWS)]
        blocks = [rows[r * ROWS : (r + 1) * ROWS] for r in range(ranks)]
        for i, (kind, attributes, _, values) in enumerate(cases(ranks)):
            expected = [v for block in values(blocks) for row in block for v in row]
            if found["p%d" % (i + 1)] != expected:
                sys.exit("%s %s on %d ranks: %s, expected %s"
                         % (kind, attributes, ranks, found["p%d" % (i + 1)], expected))  # fmt: skip
        profile = os.path.join(FOLDER, "profile.json")
        run(RUN, file, "--np", ranks, "--weights", weights, "--data", data, "--steps", 2,
            "--profile", profile, "--quiet")  # fmt: skip
        with open(profile) as text:
            ops = {entry.get("op", "") for entry in json.load(text)["entries"]}
        wanted = {"mpcomm.collective_" + case[0] for case in cases(ranks)} | {"mpcomm.all_gather"}
        if {op for op in ops if op} != wanted:
            sys.exit("the profile on %d ranks has %s, expected %s" % (ranks, ops, wanted))
        print("%d ranks: each has what it is to have" % ranks)


main()
