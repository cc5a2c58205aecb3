# REQUIRES: compiler
# RUN: rm -rf %t.dir && mkdir %t.dir
# RUN: sed s/BATCH/4/g %mpcomm_src_root/test/Tools/mpcomm-compile/Inputs/mesh-choice-step.mlir > %t.dir/step.mlir
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# With zero=3 a gradient is reduced to parts in the stage of its parameter, also where another
# stage has all that it is made of: the first layer's is of the batch and of what the second
# stage has received. Two stages of two ranks end where one rank does.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
SAMPLES, U = 64, 2.0**-24  # of a step


def path(name):
    return os.path.join(FOLDER, name)


def train(name, options, ranks):
    run(COMPILE, path("step.mlir"), "-o", path(name), "--options", options)
    run(RUN, path(name), "--np", ranks, "--weights", path("w"), "--data", path("d"), "--steps", 1,
        "--no-shuffle", "--quiet", "--save-weights", path("out"))  # fmt: skip
    return read_tensors(path("out"))


source = random.Random(1)
numbers = lambda *shape: (list(shape), [source.gauss(0, 0.05) for _ in range(shape[0] * shape[1])])
write_tensors(path("w"), {"a.weight": numbers(256, 256), "b.weight": numbers(256, 256)})
write_tensors(path("d"), {"x": numbers(SAMPLES, 256)})
before = read_tensors(path("w"))
whole = train("one.so", "mesh=dp:1 micro-batches=16", 1)
for options, ranks in ("mesh=pp:2,dp:2 zero=3 micro-batches=8", 4), ("mesh=dp:2 zero=3 micro-batches=8", 2):
    found = train("parts.so", options, ranks)
    for name, values in whole.items():
        # A sum over the samples in another order is off by SAMPLES U of the sum of its terms'
        # sizes. Terms cancel, of normal numbers to about the root of SAMPLES: those sizes are
        # less than SAMPLES of the largest step. What is not reduced is off by a part of a step.
        step = max(abs(a - b) for a, b in zip(values, before[name]))
        bound = 2 * SAMPLES * U * SAMPLES * step + 2 * U * max(map(abs, values))
        worst = max(abs(a - b) for a, b in zip(found[name], values))
        if not worst <= bound < 0.01 * step:
            sys.exit("%s: %s is %g off, expected at most %g, a hundredth of the step of %g" % (options, name, worst, bound, step))
