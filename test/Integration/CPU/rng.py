# REQUIRES: compiler, numpy
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# Random numbers of a step are those that a second implementation draws, bit for bit if
# they are uniform; of another rank, step and id, others; and distributed as they should
# be: moments and a chi-squared test, at a fixed seed.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters whose gradients are random numbers, one step on one and on two ranks."""

import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from philox import M32, SplitMix, philox
from programs import read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
ROWS, COLUMNS = 257, 391  # no multiples of a vector
COUNT, CHECKED = ROWS * COLUMNS, 1000
IDS = {"uniform": 3, "other": 4, "normal": 5}

T = "tensor<%dx%dxf32>" % (ROWS, COLUMNS)
STEP = "func.func @train_step(\n"
STEP += "".join("    %%%s: %s {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = \"%s\", mpcomm.donated = %d : i64},\n"
                % (name, T, name, i + 1) for i, name in enumerate(IDS))  # fmt: skip
STEP += """    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.0 : f32},
    %seed: tensor<2xi32> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"},
    %x: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}"""
STEP += "".join(", %s {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = \"%s\"}" % (T, n) for n in IDS) + ") {\n"
STEP += "  %loss = mpcomm.reduce sum %x, dims = [0] : (tensor<1xf32>) -> tensor<f32>\n"
for name, id in IDS.items():
    kind = "normal" if name == "normal" else "uniform"
    STEP += "  %%g_%s = mpcomm.rng %s %%seed, id = %d : (tensor<2xi32>) -> %s\n" % (name, kind, id, T)
    STEP += "  %%n_%s = mpcomm.sgd_update %%%s, %%g_%s, %%lr, weight_decay = 0.0 : (%s, %s, tensor<f32>) -> %s\n" % (
        name, name, name, T, T, T)  # fmt: skip
STEP += "  return %%loss, %s : tensor<f32>, %s\n}\n" % (", ".join("%n_" + n for n in IDS), ", ".join([T] * len(IDS)))


def path(name):
    return os.path.join(FOLDER, name)


def expected(seed, rank, ranks, name):
    """The first numbers, in f64."""
    word = SplitMix(SplitMix(seed).next() ^ rank).next()
    key = word & M32, word >> 32
    drawn = [philox((e, 0, IDS[name], 0), key) for e in range(CHECKED)]
    u, v = (np.array([(w[i] >> 8) * 2.0**-24 for w in drawn]) for i in (0, 1))
    return u if name != "normal" else np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * math.pi * v)


def normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def chi_squared(numbers, edges, cdf):
    """How many deviations the statistic is from its mean: near normal for many bins."""
    found = np.histogram(numbers, [-np.inf, *edges, np.inf])[0]
    shares = np.diff([0.0, *[cdf(e) for e in edges], 1.0])
    bins = len(shares) - 1
    return (((found - shares * COUNT) ** 2 / (shares * COUNT)).sum() - bins) / math.sqrt(2 * bins)


def moments(name, x, mean, variance, fourth):
    """Mean and variance within five deviations of what samples of that size have."""
    off = abs(x.mean() - mean) / math.sqrt(variance / COUNT)
    spread = abs(x.var() - variance) / math.sqrt((fourth - variance**2) / COUNT)
    if off > 5 or spread > 5:
        sys.exit("%s: mean %g and variance %g, expected %g and %g" % (name, x.mean(), x.var(), mean, variance))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(path("step.mlir"), "w") as file:
        file.write(STEP)
    zeros = [ROWS, COLUMNS], [0.0] * COUNT
    weights = write_tensors(path("w"), {name: zeros for name in IDS})
    data = write_tensors(path("d"), {"x": ([16], [1.0] * 16)})
    for ranks in 1, 2:
        run(COMPILE, path("step.mlir"), "-o", path("step.so"), "--np", ranks)
        for seed in 0, 7:
            run(RUN, path("step.so"), "--np", ranks, "--weights", weights, "--data", data, "--steps", 1,
                "--seed", seed, "--save-weights", path("out"), "--quiet")  # fmt: skip
            found = {n: -np.array(t, np.float64) for n, t in read_tensors(path("out")).items()}
            for name in IDS:
                want = sum(expected(seed, rank, ranks, name) for rank in range(ranks)) / ranks
                # A mean of two rounds; log, cos and products of the normal ones do.
                bound = 0 if name != "normal" and ranks == 1 else 2.0**-25 if name != "normal" else 2.0**-20
                worst = np.abs(found[name][:CHECKED] - want).max()
                if not worst <= bound:
                    sys.exit("%d ranks, seed %d, '%s' is off by %g" % (ranks, seed, name, worst))
            if ranks > 1:
                continue
            u, z = found["uniform"], found["normal"]
            if u.min() < 0 or u.max() >= 1 or np.corrcoef(u, found["other"])[0, 1] > 5 / math.sqrt(COUNT):
                sys.exit("uniform numbers in [%r, %r], correlated with others" % (u.min(), u.max()))
            moments("uniform", u, 1 / 2, 1 / 12, 1 / 80)
            moments("normal", z, 0, 1, 3)
            neighbours = np.corrcoef(z[:-1], z[1:])[0, 1]
            off = [chi_squared(u, np.arange(1, 64) / 64, lambda x: x),
                   chi_squared(z, np.linspace(-2.5, 2.5, 51), normal_cdf), neighbours * math.sqrt(COUNT)]  # fmt: skip
            if max(map(abs, off)) > 5:
                sys.exit("chi-squared and correlation are %s deviations off" % off)
            print("seed %d: %s deviations off" % (seed, ", ".join("%.2f" % x for x in off)))


main()
