# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# Dropout on one and two ranks draws the words of Philox-4x32-10 that a second
# implementation draws here, which gives the published vectors: the same mask
# forward and backward, another one for each rank, step, seed and id.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains two parameters whose gradients are masks, and reads them back."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from philox import mask
from programs import read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
ROWS, COLUMNS = 37, 21  # no multiples of a vector
P, FORWARD, OTHER = 0.3, 3, 4294967295

STEP = """
func.func @train_step(
    %%f: tensor<%(r)dx%(c)dxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "forward", mpcomm.donated = 1 : i64},
    %%b: tensor<%(r)dx%(c)dxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "backward", mpcomm.donated = 2 : i64},
    %%o: tensor<%(r)dx%(c)dxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "other", mpcomm.donated = 3 : i64},
    %%lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.0 : f32},
    %%seed: tensor<2xi32> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"},
    %%x: tensor<1x1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<%(r)dx%(c)dxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "forward"},
        tensor<%(r)dx%(c)dxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "backward"},
        tensor<%(r)dx%(c)dxf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "other"}) {
  %%loss = mpcomm.reduce sum %%x, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<f32>
  %%all = mpcomm.broadcast_in_dim %%x, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<%(r)dx%(c)dxf32>
  // Fused: what comes in is computed, and so is what goes out.
  %%in = arith.negf %%all : tensor<%(r)dx%(c)dxf32>
  %%y = mpcomm.dropout %%in, %%seed, p = %(p)s, id = %(forward)d : (tensor<%(r)dx%(c)dxf32>, tensor<2xi32>) -> tensor<%(r)dx%(c)dxf32>
  %%gf = arith.negf %%y : tensor<%(r)dx%(c)dxf32>
  %%gb = mpcomm.dropout_grad %%all, %%seed, p = %(p)s, id = %(forward)d : (tensor<%(r)dx%(c)dxf32>, tensor<2xi32>) -> tensor<%(r)dx%(c)dxf32>
  %%go = mpcomm.dropout %%all, %%seed, p = %(p)s, id = %(other)d : (tensor<%(r)dx%(c)dxf32>, tensor<2xi32>) -> tensor<%(r)dx%(c)dxf32>
  %%f1 = mpcomm.sgd_update %%f, %%gf, %%lr, weight_decay = 0.0 : (tensor<%(r)dx%(c)dxf32>, tensor<%(r)dx%(c)dxf32>, tensor<f32>) -> tensor<%(r)dx%(c)dxf32>
  %%b1 = mpcomm.sgd_update %%b, %%gb, %%lr, weight_decay = 0.0 : (tensor<%(r)dx%(c)dxf32>, tensor<%(r)dx%(c)dxf32>, tensor<f32>) -> tensor<%(r)dx%(c)dxf32>
  %%o1 = mpcomm.sgd_update %%o, %%go, %%lr, weight_decay = 0.0 : (tensor<%(r)dx%(c)dxf32>, tensor<%(r)dx%(c)dxf32>, tensor<f32>) -> tensor<%(r)dx%(c)dxf32>
  return %%loss, %%f1, %%b1, %%o1 : tensor<f32>, tensor<%(r)dx%(c)dxf32>, tensor<%(r)dx%(c)dxf32>, tensor<%(r)dx%(c)dxf32>
}
"""


def path(name):
    return os.path.join(FOLDER, name)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(path("step.mlir"), "w") as file:
        file.write(STEP % {"r": ROWS, "c": COLUMNS, "p": P, "forward": FORWARD, "other": OTHER})
    zeros = [ROWS, COLUMNS], [0.0] * (ROWS * COLUMNS)
    weights = write_tensors(path("w"), {"forward": zeros, "backward": zeros, "other": zeros})
    data = write_tensors(path("d"), {"x": ([16, 1], [1.0] * 16)})
    drawn = []
    for ranks in 1, 2:
        before = len(drawn)
        program = path("step%d.so" % ranks)
        run(COMPILE, path("step.mlir"), "-o", program, "--np", str(ranks))
        for seed in 0, 7:
            run(RUN, program, "--np", str(ranks), "--weights", weights, "--data", data,
                "--steps", "1", "--seed", str(seed), "--save-weights", path("out"), "--quiet")  # fmt: skip
            found = read_tensors(path("out"))
            for name, number in ("forward", FORWARD), ("backward", FORWARD), ("other", OTHER):
                masks = [mask(seed, 0, rank, ranks, number, P, ROWS * COLUMNS) for rank in range(ranks)]
                # A mean of two is exact; the parameter is minus the gradient.
                want = [-sum(values) / ranks for values in zip(*masks)]
                if list(found[name]) != want:
                    wrong = [i for i, pair in enumerate(zip(found[name], want)) if pair[0] != pair[1]]
                    sys.exit("%d ranks, seed %d, '%s': element %d is %r, expected %r (%d differ)" % (
                        ranks, seed, name, wrong[0], found[name][wrong[0]], want[wrong[0]], len(wrong)))  # fmt: skip
                drawn += [tuple(m) for m in masks if name != "backward"]
        if len(set(drawn[before:])) != len(drawn) - before:
            sys.exit("two ranks, seeds or ids drew the same mask")
    # The share of zeros is p within five standard deviations of a binomial.
    count = sum(len(m) for m in drawn)
    zeros = sum(m.count(0.0) for m in drawn)
    deviation = (count * P * (1 - P)) ** 0.5
    if abs(zeros - count * P) > 5 * deviation:
        sys.exit("%d of %d elements dropped, expected %d +- %d" % (zeros, count, count * P, deviation))
    print("%d masks, %d of %d elements dropped" % (len(drawn), zeros, count))


main()
