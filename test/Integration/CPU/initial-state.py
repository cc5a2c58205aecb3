# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# State that no file holds starts from its default, in tensors of any shape, or as
# a rounded copy of a parameter; what a file holds wins; checkpoints bring all of
# it back, and those without copies and loss scales can be resumed.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a step that returns its state as it is, but for a count."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import read_typed, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
STEP = """
func.func @train_step(
    %w: tensor<2x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %low: tensor<2x3xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.bf16", mpcomm.donated = 2 : i64, mpcomm.copy_of = "w"},
    %half: tensor<2x3xf16> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w.f16", mpcomm.donated = 3 : i64, mpcomm.copy_of = "w"},
    %h: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "history", mpcomm.donated = 4 : i64, mpcomm.default = 2.5 : f32},
    %n: tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "count", mpcomm.donated = 5 : i64, mpcomm.default = -7 : i32},
    %x: tensor<1x1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2x3xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.bf16"},
        tensor<2x3xf16> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w.f16"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "history"},
        tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "count"}) {
  %loss = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<f32>
  %one = arith.constant dense<1> : tensor<i32>
  %n1 = arith.addi %n, %one : tensor<i32>
  %w1 = arith.addf %w, %w : tensor<2x3xf32>
  %low1 = arith.addf %low, %low : tensor<2x3xbf16>
  %half1 = arith.addf %half, %half : tensor<2x3xf16>
  %h1 = arith.addf %h, %h : tensor<4xf32>
  return %loss, %w1, %low1, %half1, %h1, %n1 : tensor<f32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<2x3xf16>, tensor<4xf32>, tensor<i32>
}
"""
# Ties of bf16 (8 bits) go to even, both ways; f16 has 11 bits.
W = [1.0, 1.00390625, 1.01171875, -3.1415927410125732, 0.0010000000474974513, 65504.0]
BF16 = [1.0, 1.0, 1.015625, -3.140625, 0.00099945068359375, 65536.0]
F16 = [1.0, 1.00390625, 1.01171875, -3.140625, 0.0010004043579101562, 65504.0]


def path(name):
    return os.path.join(FOLDER, name)


def expect(what, tensors, **want):
    for key, values in want.items():
        found = tensors[key.replace("_", ".")][2]
        if found != values:
            sys.exit("%s, '%s': found %s, expected %s" % (what, key, found, values))


def twice(values, times=1):
    return [v * 2**times for v in values]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(path("step.mlir"), "w") as file:
        file.write(STEP)
    run(COMPILE, path("step.mlir"), "-o", path("step.so"))
    data = write_tensors(path("d"), {"x": ("F32", [8, 1], [1.0] * 8)})
    common = [RUN, path("step.so"), "--data", data, "--quiet"]
    w = {"w": ("F32", [2, 3], W)}
    # 65536 has no f16, and twice 65504 has none: the last elements are left out.
    cut = lambda tensors: {k: (d, s, v[:5] if "w" in k else v) for k, (d, s, v) in tensors.items()}
    run(*common, "--allow-nonfinite", "--weights", write_tensors(path("w"), w), "--steps", 1, "--checkpoint", path("c1"))
    state, metadata = read_typed(path("c1"))
    metadata = {k: v for k, v in metadata.items() if "checksum" not in k}
    expect("defaults", cut(state), w=twice(W)[:5], w_bf16=twice(BF16)[:5], w_f16=twice(F16)[:5],
           history=[5.0] * 4, count=[-6])  # fmt: skip

    # What a file holds wins over both.
    own = {**w, "w.bf16": ("BF16", [2, 3], [8.0] * 6), "history": ("F32", [4], [1.0, 2.0, 3.0, 4.0]),
           "count": ("I32", [], [40])}  # fmt: skip
    run(*common, "--allow-nonfinite", "--weights", write_tensors(path("own"), own), "--steps", 1, "--checkpoint", path("c2"))
    expect("given", cut(read_typed(path("c2"))[0]), w_bf16=[16.0] * 5, history=[2.0, 4.0, 6.0, 8.0], count=[41])

    # A checkpoint brings it back; without copies and loss scales they start anew.
    run(*common, "--allow-nonfinite", "--resume", path("c2"), "--steps", 2, "--checkpoint", path("c3"))
    expect("resumed", cut(read_typed(path("c3"))[0]), w_bf16=[32.0] * 5, history=[4.0, 8.0, 12.0, 16.0], count=[42])
    older = {k: v for k, v in state.items() if k in ("w", "history")}
    run(*common, "--allow-nonfinite", "--resume", write_tensors(path("old"), older, metadata), "--steps", 2, "--checkpoint", path("c4"))
    expect("an older checkpoint", cut(read_typed(path("c4"))[0]), w=twice(W, 2)[:5], w_bf16=twice(BF16, 2)[:5],
           w_f16=twice(F16, 2)[:5], history=[10.0] * 4, count=[-6])  # fmt: skip
    del older["history"]
    text = run(*common, "--resume", write_tensors(path("less"), older, metadata), "--steps", 2, expected=1)
    if "no tensor 'history', expected optimizer_state f32 [4]" not in text:
        sys.exit("a checkpoint without optimizer state: " + text)
    print("defaults, copies, files and checkpoints agree")


main()
