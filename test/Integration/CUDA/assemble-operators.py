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
import operators
from assembling import assembles

OPT, FOLDER = sys.argv[1:3]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    failed = []
    big = "--big" in sys.argv
    for name in [a for a in sys.argv[3:] if a != "--big"] or operators.names():
        step = os.path.join(FOLDER, name + ("-big" if big else "") + ".mlir")
        operators.mi.trace(operators.make(name, big)).write(step)
        precisions = ["none", "bf16"] if big and name in operators.KINDS else ["none"]
        for precision in precisions:
            what = "%s %s %s" % (name, "big" if big else "odd", precision)
            if not assembles(OPT, step, what, "precision=" + precision):
                failed.append("%s (%s)" % (step, precision))
    if failed:
        sys.exit("spill, or lack kernels of a chip: " + ", ".join(failed))


main()
