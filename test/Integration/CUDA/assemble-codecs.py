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
from assembling import assembles
from codec_steps import WAYS, graph

OPT, FOLDER = sys.argv[1:3]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    step, failed = os.path.join(FOLDER, "step.mlir"), []
    with open(step, "w") as file:
        file.write(graph())
    for way in sys.argv[3:] or WAYS:
        if not assembles(OPT, step, way, "mesh=dp:2 " + WAYS[way]):
            failed.append(way)
    if failed:
        sys.exit("spill, or lack kernels of a chip: " + ", ".join(failed))


main()
