# REQUIRES: compiler, ptxas
# RUN: %python %s %mpcomm-opt %t.dir
#
# The kernels that encode, sum, decode and keep what is lost, of the steps of
# Inputs/codec_steps.py, are machine code of three chips, and none spills.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""assemble-codecs.py ... [<way>...]: only those ways."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "Inputs"))
from codec_steps import WAYS, graph
from commands import assemble

OPT, FOLDER = sys.argv[1:3]
CHIPS = ["sm_80", "sm_90", "sm_100"]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    step, failed = os.path.join(FOLDER, "step.mlir"), []
    with open(step, "w") as file:
        file.write(graph())
    for way in sys.argv[3:] or WAYS:
        uses = list(assemble(OPT, step, "--mpcomm-compile=target=cuda chip=%s mesh=dp:2 %s" % (",".join(CHIPS), WAYS[way])))
        counts = [sum(chip == c for c, _, _ in uses) for chip in CHIPS]
        spilled = sorted({kernel for _, kernel, use in uses if use[2] or use[3]})
        print("%-14s %3d kernels, at most %3d registers%s" % (
            way, counts[0], max((use[0] for _, _, use in uses), default=0),
            ", spilled: " + ", ".join(spilled) if spilled else ""))  # fmt: skip
        if spilled or not counts[0] or len(set(counts)) != 1:
            failed.append(way)
    if failed:
        sys.exit("spill, or lack kernels of a chip: " + ", ".join(failed))


main()
