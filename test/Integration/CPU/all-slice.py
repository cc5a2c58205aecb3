# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %t.dir
#
# mpcomm.all_slice gives each rank its own block: gathered again, the blocks are
# what was cut. On two and four ranks, along each dimension. Values are small
# whole numbers, so that nothing is rounded; no two of a tensor are equal, so
# that a block of another rank's would be seen. mpcomm.axis_index gives each rank
# its number. Neither communicates.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers a rank program written by hand, links it and runs three steps."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import call, link, read_tensors, run, write_tensors

OPT, RUN, CC, FOLDER = sys.argv[1:]
STEPS = 3
# name: shape, dimension that is cut
TENSORS = {"rows": ([8, 3], 0), "columns": ([3, 8], 1), "middle": ([2, 4, 3], 1)}


def program(ranks):
    """Each step adds 1 to each tensor, block by block."""
    arguments, results, body, returned = [], [], [], []
    for i, (name, (shape, dim)) in enumerate(TENSORS.items()):
        cut = [n // ranks if d == dim else n for d, n in enumerate(shape)]
        whole, block = ("tensor<%sxf32>" % "x".join(map(str, s)) for s in (shape, cut))
        fact = '{mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "%s"' % name
        arguments.append("%%p%d: %s %s, mpcomm.donated = %d : i64}" % (i, whole, fact, i + 1))
        results.append("%s %s}" % (whole, fact))
        returned.append(("%%g%d" % i, whole))
        body += [
            "%%one%d = arith.constant dense<1.0> : %s" % (i, block),
            '%%b%d = mpcomm.all_slice %%p%d on @mesh axes ["dp"] dim = %d : (%s) -> %s'
            % (i, i, dim, whole, block),
            "%%s%d = arith.addf %%b%d, %%one%d : %s" % (i, i, i, block),
            '%%g%d = mpcomm.all_gather(%%s%d) on @mesh axes ["dp"] dims = [%d] : (%s) -> %s'
            % (i, i, dim, block, whole),
        ]
    arguments.append('%at: tensor<RANKSxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "at", '
                     'mpcomm.donated = 4 : i64}'.replace("RANKS", str(ranks)))  # fmt: skip
    results.append('tensor<%dxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "at"}' % ranks)
    returned.append(("%all", "tensor<%dxf32>" % ranks))
    body += [
        '%i = mpcomm.axis_index on @mesh axes ["dp"] : tensor<i32>',
        "%f = arith.sitofp %i : tensor<i32> to tensor<f32>",
        "%v = mpcomm.reshape %f : (tensor<f32>) -> tensor<1xf32>",
        '%%all = mpcomm.all_gather(%%v) on @mesh axes ["dp"] dims = [0] : (tensor<1xf32>) -> tensor<%dxf32>' % ranks,
    ]
    return """mpcomm.mesh @mesh <["dp" = %d]>
func.func @train_step(%s,
    %%x: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}, %s) {
  %s
  %%loss = mpcomm.reduce sum %%x, dims = [0] : (tensor<1xf32>) -> tensor<f32>
  return %%loss, %s : tensor<f32>, %s
}
""" % (ranks, ",\n    ".join(arguments), ", ".join(results), "\n  ".join(body),
       ", ".join(v for v, _ in returned), ", ".join(t for _, t in returned))  # fmt: skip


def build(ranks):
    file = os.path.join(FOLDER, "slice-%d.so" % ranks)
    link(CC, call([OPT, "--mpcomm-lower", "--mpcomm-program"], program(ranks).encode()), file)
    return file


def main():
    os.makedirs(FOLDER, exist_ok=True)
    initial = {}
    for i, (name, (shape, _)) in enumerate(TENSORS.items()):
        count = 1
        for n in shape:
            count *= n
        initial[name] = (shape, [float(100 * i + k) for k in range(count)])
    data = write_tensors(os.path.join(FOLDER, "d.safetensors"), {"x": ([16], [0.0] * 16)})
    for ranks in (2, 4):
        out = os.path.join(FOLDER, "out-%d.safetensors" % ranks)
        weights = write_tensors(os.path.join(FOLDER, "w-%d.safetensors" % ranks),
                                {**initial, "at": ([ranks], [-1.0] * ranks)})  # fmt: skip
        run(RUN, build(ranks), "--np", ranks, "--weights", weights, "--data", data, "--steps", STEPS,
            "--save-weights", out, "--quiet")  # fmt: skip
        for name, values in read_tensors(out).items():
            expected = [float(i) for i in range(ranks)]
            if name != "at":
                expected = [v + STEPS for v in initial[name][1]]
            if values != expected:
                sys.exit("%s on %d ranks: %s, expected %s" % (name, ranks, values, expected))
        print("%d ranks: every block is its own, and so is the number" % ranks)


main()
