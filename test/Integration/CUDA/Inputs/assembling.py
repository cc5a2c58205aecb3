# ===- assembling.py - kernels as machine code of three chips --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "bench", "Inputs"))
from commands import assemble

CHIPS = ["sm_80", "sm_90", "sm_100"]


def assembles(opt, step, name, options):
    """Whether all chips have the same kernels, some, and none spills; prints what they take."""
    uses = list(assemble(opt, step, "--mpcomm-compile=target=cuda chip=%s %s" % (",".join(CHIPS), options)))
    counts = [sum(chip == c for c, _, _ in uses) for chip in CHIPS]
    spilled = sorted({kernel for _, kernel, use in uses if use[2] or use[3]})
    print("%-30s %4d kernels, at most %3d registers%s" % (
        name, counts[0], max((use[0] for _, _, use in uses), default=0),
        ", spilled: " + ", ".join(spilled) if spilled else ""))  # fmt: skip
    return not spilled and counts[0] > 0 and len(set(counts)) == 1
