# ===- measure.py - what sums of 16-bit gradients lose ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Mean relative error of an all-reduced gradient that travels in bf16, against
the sum of the same 16-bit gradients in f64, for growing numbers of ranks: ours,
by a program that `mpcomm-run` runs on that many processes (sums in f32, rounded
once), and a ring that keeps partial sums in bf16, as a ring over a network that
reduces in the type on the wire does (each of N - 1 hops rounds).

Gradients of a rank are a common part and noise of the same size, as those of
samples of one data set are.

A small run, to see that all of it works:
REQUIRES: compiler, long
RUN: %python %s --ranks=2,8 --count=4096 --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run | FileCheck %s
CHECK: | ranks | ours | ring in bf16 | ring / ours |
CHECK: | 2 |
CHECK: | 8 |
CHECK: ours, most ranks to fewest: {{[0-9.]+}}
"""

import argparse
import os
import random
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, *[".."] * 2, "Integration", "Inputs"))
from programs import read_tensors, run, write_tensors  # noqa: E402

STEP = """
func.func @train_step(
    %w: tensor<{n}xf32> {{mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64}},
    %lr: tensor<f32> {{mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = -1.0 : f32}},
    %x: tensor<1x{n}xf32> {{mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}})
    -> (tensor<f32> {{mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}},
        tensor<{n}xf32> {{mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}}) {{
  %g = mpcomm.reshape %x : (tensor<1x{n}xf32>) -> tensor<{n}xf32>
  %loss = mpcomm.reduce max %g, dims = [0] : (tensor<{n}xf32>) -> tensor<f32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<{n}xf32>, tensor<{n}xf32>, tensor<f32>) -> tensor<{n}xf32>
  return %loss, %w1 : tensor<f32>, tensor<{n}xf32>
}}
"""


def bf16(value):
    """Rounded to nearest, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def gradients(ranks, count, seed):
    source = random.Random(seed)
    common = [source.gauss(0, 1) for _ in range(count)]
    return [[bf16(c + source.gauss(0, 1)) for c in common] for _ in range(ranks)]


def ours(a, folder, parts):
    """The mean over ranks as the program gives it. Data is sent as it is: bf16."""
    ranks, count = len(parts), len(parts[0])
    path = lambda name: os.path.join(folder, name)
    with open(path("step.mlir"), "w") as file:
        file.write(STEP.format(n=count))
    run(a.mpcomm_compile, path("step.mlir"), "-o", path("step.so"), "--np", str(ranks),
                    "--options=wire=" + a.wire)
    write_tensors(path("w"), {"w": ([count], [0.0] * count)})
    write_tensors(path("x"), {"x": ([ranks, count], [v for part in parts for v in part])})
    run(a.mpcomm_run, path("step.so"), "--weights", path("w"), "--data", path("x"),
                    "--steps", "1", "--no-shuffle", "--quiet", "--save-weights", path("out"))
    return read_tensors(path("out"))["w"]


def ring(parts):
    """Partial sums go round in bf16; each slice begins at another rank."""
    ranks, count = len(parts), len(parts[0])
    means = []
    for i in range(count):
        first = i * ranks // count
        total = parts[first][i]
        for hop in range(1, ranks):
            total = bf16(total + parts[(first + hop) % ranks][i])
        means.append(bf16(total / ranks))
    return means


def error(values, parts):
    """Mean of |value - mean in f64| over the mean of |mean in f64|."""
    exact = [sum(part[i] for part in parts) / len(parts) for i in range(len(values))]
    return sum(abs(v - e) for v, e in zip(values, exact)) / sum(map(abs, exact))


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", default="2,4,8,16,32,64")
    p.add_argument("--count", type=int, default=16384, help="elements of the gradient")
    p.add_argument("--wire", default="bf16", help="type in which ours travels")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--mpcomm-compile", default="mpcomm-compile")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    a = p.parse_args()
    print("| ranks | ours | ring in bf16 | ring / ours |\n|---|---|---|---|")
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in map(int, a.ranks.split(",")):
            parts = gradients(ranks, a.count, a.seed)
            mine, theirs = error(ours(a, folder, parts), parts), error(ring(parts), parts)
            errors.append(mine)
            print(f"| {ranks} | {mine:.2e} | {theirs:.2e} | {theirs / mine:.2f} |", flush=True)
    print(f"ours, most ranks to fewest: {errors[-1] / errors[0]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
