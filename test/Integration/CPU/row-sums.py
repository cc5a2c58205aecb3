# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# A sum of many rows, such as the gradient of the bias of a convolution, is that of
# the exact numbers, rounded once.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Terms of either sign: a sum of n of them in f32 would be off by about 2^-24 sqrt(n)
of their size, the sum itself is about sqrt(n) of it."""

import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
ROWS, COLUMNS = 5000, 8

STEP = """func.func @train_step(
    %b: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "b"},
    %x: tensor<5000x8xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "x"},
    %s: tensor<8xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "s", mpcomm.donated = 1 : i64})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<8xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "s"}) {
  %l = mpcomm.reduce sum %b, dims = [0] : (tensor<1xf32>) -> tensor<f32>
  %r = mpcomm.reduce sum %x, dims = [0] : (tensor<5000x8xf32>) -> tensor<8xf32>
  return %l, %r : tensor<f32>, tensor<8xf32>
}
"""


def path(name):
    return os.path.join(FOLDER, name)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(path("step.mlir"), "w") as file:
        file.write(STEP)
    source = random.Random(1)
    # Few bits, so that f32 holds them as they are.
    x = [source.randrange(-(2**20), 2**20) / 2**20 for _ in range(ROWS * COLUMNS)]
    write_tensors(path("w"), {"x": ([ROWS, COLUMNS], x), "s": ([COLUMNS], [0.0] * COLUMNS)})
    write_tensors(path("d"), {"b": ([1], [0.0])})
    run(COMPILE, path("step.mlir"), "-o", path("step.so"), "--np", 1)
    run(RUN, path("step.so"), "--np", 1, "--weights", path("w"), "--data", path("d"), "--steps", 1,
        "--quiet", "--save-weights", path("out"))  # fmt: skip
    sums = read_tensors(path("out"))["s"]
    for column, ours in enumerate(sums):
        exact = math.fsum(x[column::COLUMNS])
        if not abs(ours - exact) <= 2.0**-24 * abs(exact):
            sys.exit("column %d: %r, expected %r" % (column, ours, exact))


main()
