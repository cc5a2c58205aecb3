# REQUIRES: compiler, torch, ptxas
# RUN: %python %s %mpcomm-opt %t.dir
#
# The kernels of the operators of Inputs/operators.py, in odd sizes and, with --big, in sizes
# that fill a GPU, are machine code of three chips, and none spills.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""assemble-operators.py ... [--big] [<name>...]: only those networks."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "Inputs"))
import operators
from commands import assemble

OPT, FOLDER = sys.argv[1:3]
CHIPS = ["sm_80", "sm_90", "sm_100"]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    failed = []
    big = "--big" in sys.argv
    for name in [a for a in sys.argv[3:] if a != "--big"] or operators.names():
        step = os.path.join(FOLDER, name + ("-big" if big else "") + ".mlir")
        operators.mi.trace(operators.make(name, big)).write(step)
        precisions = ["none", "bf16"] if big and name in operators.KINDS else ["none"]
        for precision in precisions:
            uses = list(assemble(OPT, step, "--mpcomm-compile=target=cuda chip=%s precision=%s" % (",".join(CHIPS), precision)))
            counts = [sum(chip == c for c, _, _ in uses) for chip in CHIPS]
            spilled = sorted({kernel for _, kernel, use in uses if use[2] or use[3]})
            print("%-20s %-4s %-4s %4d kernels, at most %3d registers%s" % (
                name, "big" if big else "odd", precision, counts[0], max((use[0] for _, _, use in uses), default=0),
                ", spilled: " + ", ".join(spilled) if spilled else ""))  # fmt: skip
            if spilled or not counts[0] or len(set(counts)) != 1:
                failed.append("%s (%s)" % (step, precision))
    if failed:
        sys.exit("spill, or lack kernels of a chip: " + ", ".join(failed))


main()
