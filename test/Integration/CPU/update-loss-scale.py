# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# mpcomm.update_loss_scale is torch.cuda.amp.GradScaler's rule to the last bit:
# a product in f64 that is rounded to f32 once, and a scale that is kept where
# the next one would be infinite.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs steps that do nothing but update a scale."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import f32, read_typed, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
GREATEST = 3.4028234663852886e38
STEP = """
func.func @train_step(
    %%s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s", mpcomm.donated = 1 : i64},
    %%good: tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "good", mpcomm.donated = 2 : i64, mpcomm.default = 0 : i32},
    %%hyst: tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "hyst", mpcomm.donated = 3 : i64, mpcomm.default = 1 : i32},
    %%x: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s"},
        tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "good"},
        tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "hyst"}) {
  %%found = mpcomm.reduce sum %%x, dims = [0] : (tensor<1xf32>) -> tensor<f32>
  %%s1, %%good1, %%hyst1 = mpcomm.update_loss_scale %%s, %%good, %%hyst, %%found,
      growth = %r, backoff = %r, interval = 2, min = 0.0, max = 3.4028234663852886e+38, hysteresis = 1
      : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return %%found, %%s1, %%good1, %%hyst1 : tensor<f32>, tensor<f32>, tensor<i32>, tensor<i32>
}
"""
FOUND = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]


def reference(scale, growth, backoff):
    good = 0
    for found in FOUND:
        if found:
            scale, good = f32(scale * backoff), 0
            continue
        good += 1
        if good == 2:
            grown = f32(scale * growth)
            scale, good = (grown if grown <= GREATEST else scale), 0
    return scale, good


def main():
    os.makedirs(FOLDER, exist_ok=True)
    path = lambda name: os.path.join(FOLDER, name)
    data = write_tensors(path("d"), {"x": ("F32", [len(FOUND)], [float(f) for f in FOUND])})
    for growth, backoff in ((2.0, 0.5), (1.1, 0.9), (1.7, 0.3)):
        with open(path("step.mlir"), "w") as file:
            file.write(STEP % (growth, backoff))
        run(COMPILE, path("step.mlir"), "-o", path("step.so"))
        for first in (1.0, 65536.0, 2.0**126, 2.0**127, f32(1.3), 2.0**-149):
            weights = write_tensors(path("w"), {"s": ("F32", [], [first])})
            run(RUN, path("step.so"), "--weights", weights, "--data", data, "--quiet", "--no-shuffle",
                "--steps", len(FOUND), "--checkpoint", path("c"))  # fmt: skip
            state, _ = read_typed(path("c"))
            found = (state["s"][2][0], state["good"][2][0])
            if found != reference(first, growth, backoff):
                sys.exit("from %r by %r and %r: %r, expected %r"
                         % (first, growth, backoff, found, reference(first, growth, backoff)))  # fmt: skip


main()
