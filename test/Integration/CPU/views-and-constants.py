# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# Products of views with a step between their elements, gradients and indices
# that are constants, functions of f64, and ops that cannot share a kernel:
# each compiles, and gives what its definition says.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each case is a step that writes one buffer."""

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import near, read_typed, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
X = [[float(4 * i + j + 1) for j in range(4)] for i in range(3)]  # 1 to 12
STEP = """func.func @train_step(
    %%b: tensor<%s> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 1 : i64},
    %%x: tensor<3x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %%id: tensor<3xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "id"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<%s> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %%loss = mpcomm.reduce sum %%x, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<f32>
%s
  return %%loss, %%r : tensor<f32>, tensor<%s>
}
"""


def dot(a, b):
    return sum(p * q for p, q in zip(a, b))


# name, type of the buffer, body, what %r is, how far apart results may be
CASES = [
    ("rows with a step", "3x2xf32", """
  %e = mpcomm.slice %x, starts = [0, 0], limits = [3, 4], strides = [1, 2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %r = mpcomm.dot_general %e, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
""", [dot(row[::2], column) for row in X for column in ((1, 3), (2, 4))], 0),
    ("both with a step", "3x3xf32", """
  %e = mpcomm.slice %x, starts = [0, 0], limits = [3, 4], strides = [1, 2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %r = mpcomm.dot_general %e, %e, contracting_dims = [1] x [1] : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x3xf32>
""", [dot(a[::2], b[::2]) for a in X for b in X], 0),
    ("one of the last dimension", "3x3xf32", """
  %v = mpcomm.reshape %x : (tensor<3x4xf32>) -> tensor<3x2x2xf32>
  %s = mpcomm.slice %v, starts = [0, 0, 1], limits = [3, 2, 2], strides = [1, 1, 1] : (tensor<3x2x2xf32>) -> tensor<3x2x1xf32>
  %e = mpcomm.reshape %s : (tensor<3x2x1xf32>) -> tensor<3x2xf32>
  %r = mpcomm.dot_general %e, %e, contracting_dims = [1] x [1] : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x3xf32>
""", [dot(a[1::2], b[1::2]) for a in X for b in X], 0),
    # Of the last dimension's single elements the stride is that of nothing.
    ("a column of each", "2x1x2xf32", """
  %v = mpcomm.reshape %x : (tensor<3x4xf32>) -> tensor<3x2x2xf32>
  %s = mpcomm.slice %v, starts = [0, 0, 0], limits = [3, 2, 1], strides = [1, 1, 1] : (tensor<3x2x2xf32>) -> tensor<3x2x1xf32>
  %w = arith.constant dense<[[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]> : tensor<3x2xf32>
  %r = mpcomm.dot_general %s, %w, contracting_dims = [0] x [0] : (tensor<3x2x1xf32>, tensor<3x2xf32>) -> tensor<2x1x2xf32>
""", [X[0][0] + 2 * X[2][0], X[1][0], X[0][2] + 2 * X[2][2], X[1][2]], 0),
    ("a padded product", "3x5xf32", """
  %w = arith.constant dense<1.0> : tensor<4x3xf32>
  %p = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %c = arith.constant dense<-1.0> : tensor<f32>
  %r = mpcomm.pad %p, %c, low = [0, 0], high = [0, 0], interior = [0, 1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x5xf32>
""", [v for row in X for v in (sum(row), -1, sum(row), -1, sum(row))], 0),
    # Ids 2, 0, 2.
    ("embedding_grad of ones", "3x2xf32", """
  %g = arith.constant dense<0.5> : tensor<3x2xf32>
  %r = mpcomm.gather_grad %g, %id : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
""", [0.5, 0.5, 0, 0, 1, 1], 0),
    ("embedding_grad of constant ids", "3x2xf32", """
  %g = mpcomm.slice %x, starts = [0, 0], limits = [3, 2], strides = [1, 1] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %ids = arith.constant dense<1> : tensor<3xi64>
  %r = mpcomm.gather_grad %g, %ids : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
""", [0, 0, X[0][0] + X[1][0] + X[2][0], X[0][1] + X[1][1] + X[2][1], 0, 0], 0),
    # Clamped to row 0, which stays zero.
    ("embedding_grad of an index outside", "3x2xf32", """
  %g = mpcomm.slice %x, starts = [0, 0], limits = [3, 2], strides = [1, 1] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %ids = arith.constant dense<-2> : tensor<3xi64>
  %r = mpcomm.gather_grad %g, %ids padding_idx = 0 : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
""", [0, 0, 0, 0, 0, 0], 0),
    ("embedding_grad of padding", "3x2xf32", """
  %g = mpcomm.slice %x, starts = [0, 0], limits = [3, 2], strides = [1, 1] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %ids = arith.constant dense<1> : tensor<3xi64>
  %r = mpcomm.gather_grad %g, %ids padding_idx = 1 : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
""", [0, 0, 0, 0, 0, 0], 0),
    # libm's functions and products of f64: a few units in the last place.
    ("erf of f64", "3x4xf64", """
  %w = arith.extf %x : tensor<3x4xf32> to tensor<3x4xf64>
  %c = arith.constant dense<0.125> : tensor<3x4xf64>
  %s = arith.mulf %w, %c : tensor<3x4xf64>
  %r = math.erf %s : tensor<3x4xf64>
""", [math.erf(v / 8) for row in X for v in row], 2.0**-51),
    ("gelu of f64", "3x4xf64", """
  %w = arith.extf %x : tensor<3x4xf32> to tensor<3x4xf64>
  %r = mpcomm.gelu %w : tensor<3x4xf64>
""", [v / 2 * (1 + math.erf(v / math.sqrt(2))) for row in X for v in row], 2.0**-50),
    # Without instructions for bf16 a row's scalar crosses the loop over columns as f32.
    ("rows of bf16", "3x16x5xbf16", """
  %i = mpcomm.iota dim = 2 : tensor<1x16x5xbf16>
  %r = mpcomm.broadcast_in_dim %i, dims = [0, 1, 2] : (tensor<1x16x5xbf16>) -> tensor<3x16x5xbf16>
""", [0, 1, 2, 3, 4] * 48, 0),
    # The old value along rows, the new one along columns, both reductions of all.
    ("no common kernel", "4xf32", """
  %wide = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<3x4x2xf32>
  %most = mpcomm.reduce max %wide, dims = [0, 1, 2] : (tensor<3x4x2xf32>) -> tensor<f32>
  %all = mpcomm.broadcast_in_dim %most, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %twice = arith.addf %b, %b : tensor<4xf32>
  %r = arith.subf %twice, %all : tensor<4xf32>
""", [2 * v - 4 for v in (1, 2, 3, 4)], 0),
]  # fmt: skip


def main():
    os.makedirs(FOLDER, exist_ok=True)
    path = lambda name: os.path.join(FOLDER, name)
    data = write_tensors(path("d"), {"x": ("F32", [3, 4], sum(X, [])), "id": ("I64", [3], [2, 0, 2])})
    for name, kind, body, want, bound in CASES:
        with open(path("step.mlir"), "w") as file:
            file.write(STEP % (kind, kind, body, kind))
        sizes = [int(n) for n in kind.split("x")[:-1]]
        first = write_tensors(path("w"), {"b": (kind.split("x")[-1].upper(), sizes,
                                                [float(i + 1) for i in range(math.prod(sizes))])})  # fmt: skip
        run(COMPILE, path("step.mlir"), "-o", path("step.so"))
        run(RUN, path("step.so"), "--weights", first, "--data", data, "--no-shuffle", "--quiet",
            "--steps", 1, "--checkpoint", path("c"))  # fmt: skip
        found = read_typed(path("c"))[0]["b"][2]
        near(name, found, want, bound)


main()
