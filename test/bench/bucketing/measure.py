#!/usr/bin/env python3
# ===- measure.py - exact buckets beside fixed caps and greedies ------------===#
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times the bucketing solver on a million gradients (median of three, the whole
call), and prints what the buckets of DDP, XLA, Horovod, Megatron, FSDP2, DeepSpeed,
MG-WFBP, one a tensor and all in one come to, as ratios to ours: median and worst over
random problems, and each cell of models x clusters, of gradients that are reduced and
of parameters that are gathered. All in the cost model of
docs/Design/Bucketing.md; nothing is communicated.

With --check the exit status is 1 where a time exceeds --seconds. A baseline that is
better than ours ends the program with an error in any case.

A small run, to see that all of it works (its program is built without
sanitizers, with which the library's symbols are missing):
REQUIRES: compiler
UNSUPPORTED: sanitizer
RUN: %python %s --gradients=20000 --instances=50 --cxx=%cxx --source=%mpcomm_src_root --library=%shlibdir --check | FileCheck %s
CHECK: 20000 gradients, end of communication: 0.
CHECK: 20000 gradients, end of the step: 0.
CHECK: 50 random problems, seeds from 0, end of the step
CHECK: MG-WFBP {{ *[0-9.]+ *[0-9.]+}}
CHECK: GPT-2 small {{ *}}8 x NVLink
CHECK: ResNet-50
CHECK: end of the forward pass, parameters gathered
CHECK: GPT-2 small
CHECK: ResNet-50
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--gradients", type=int, default=1000000)
    p.add_argument("--instances", type=int, default=2000)
    p.add_argument("--seconds", type=float, default=2.0)
    p.add_argument("--check", action="store_true")
    p.add_argument("--cxx", default="c++")
    p.add_argument("--source", default=root)
    p.add_argument("--library", default=os.path.join(root, "build", "lib"),
                   help="folder of libMPCommScheduling.a")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "bucketing")
        subprocess.run(
            [a.cxx, "-std=c++20", "-O2", f"-I{a.source}/include",
             os.path.join(HERE, "Inputs", "bucketing.cpp"),
             os.path.join(a.library, "libMPCommScheduling.a"), "-o", program],
            check=True)
        result = subprocess.run([program, str(a.gradients), str(a.instances)],
                                check=True, stdout=subprocess.PIPE, text=True)
    print(result.stdout, end="")
    times = [float(x) for x in re.findall(r": ([0-9.]+) s,", result.stdout)]
    return 1 if a.check and max(times) > a.seconds else 0


if __name__ == "__main__":
    sys.exit(main())
