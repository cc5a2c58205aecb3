# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# A perceptron that trains with products from 8 bits, both recipes, on one and two
# ranks, against the same steps in Python: losses, parameters, histories and
# scales. A run that is cut off and resumed ends in the same bits.
#
# How near: 8-bit values are equal or far apart, so what is left is the arithmetic
# of f32: sums of at most 8 terms of like size, whose error is below NEAR of the sum
# of their magnitudes. The reference looks for samples of which no value is so near
# to a boundary between two 8-bit numbers that this error may carry it across.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference computes in f64 what the design says of precision fp8."""

import json
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import f32, read_losses, read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
BATCH, IN, HIDDEN, OUT, STEPS, LR = 8, 6, 8, 4, 5, 0.25
HISTORY, MARGIN = 2, 1
# Samples of the third step are larger than any before: they saturate.
SIZES = [1.0, 0.7, 5.0, 1.0, 0.5]
# Number of bits of the fraction, exponent of the least normal number, greatest.
FORWARD, BACKWARD = (3, -6, 448.0), (2, -14, 57344.0)
NEAR = 2.0**-20

STEP = """func.func @train_step(
    %w1: tensor<6x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 1 : i64},
    %b1: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b1", mpcomm.donated = 2 : i64},
    %w2: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2", mpcomm.donated = 3 : i64},
    %x: tensor<8x6xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 4>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<6x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"},
        tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b1"},
        tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %lr = arith.constant dense<0.25> : tensor<f32>
  %h = mpcomm.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %b = mpcomm.broadcast_in_dim %b1, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
  %hb = arith.addf %h, %b : tensor<8x8xf32>
  %zeros = arith.constant dense<0.0> : tensor<8x8xf32>
  %g = arith.maximumf %hb, %zeros : tensor<8x8xf32>
  %z = mpcomm.dot_general %g, %w2, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %loss, %lse = mpcomm.cross_entropy %z, %y mean ignore_index = -100 : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %dz = mpcomm.cross_entropy_grad %one, %z, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<8x4xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x4xf32>
  %dw2 = mpcomm.dot_general %g, %dz, contracting_dims = [0] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %w2t = mpcomm.transpose %w2, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %dg = mpcomm.dot_general %dz, %w2t, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %on = arith.cmpf ogt, %hb, %zeros : tensor<8x8xf32>
  %dh = arith.select %on, %dg, %zeros : tensor<8x8xi1>, tensor<8x8xf32>
  %dw1 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8x6xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %db = mpcomm.reduce sum %dh, dims = [0] : (tensor<8x8xf32>) -> tensor<8xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %n2 = mpcomm.sgd_update %b1, %db, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %n3 = mpcomm.sgd_update %w2, %dw2, %lr, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %loss, %n1, %n2, %n3 : tensor<f32>, tensor<6x8xf32>, tensor<8xf32>, tensor<8x4xf32>
}
"""


class Ambiguous(Exception):
    """A value so near a boundary that f32 may round it to either side."""


def amax_of(matrix):
    return max(abs(v) for row in matrix for v in row)


def round8(value, form):
    """The nearest number of the format, ties to even; saturating."""
    bits, least, top = form
    if value == 0 or abs(value) >= top:
        return math.copysign(min(abs(value), top), value)
    unit = 2.0 ** (max(math.frexp(value)[1] - 1, least) - bits)
    return round(value / unit) * unit


def quantize(matrix, sizes, scale, form):
    """What a product sees of the matrix. `sizes`: of the terms of each element."""

    def one(v, size):
        error = size * NEAR * scale
        result = round8(v * scale, form)
        if not round8(v * scale - error, form) == result == round8(v * scale + error, form):
            raise Ambiguous()
        return result / scale

    return [[one(*pair) for pair in zip(*rows)] for rows in zip(matrix, sizes)]


def multiply(a, b):
    return [[sum(p * q for p, q in zip(row, column)) for column in zip(*b)] for row in a]


def size_of(matrix):
    return [[abs(v) for v in row] for row in matrix]


def turn(a):
    return [list(column) for column in zip(*a)]


NAMES = {"x": "x.fp8", "w1": "w1.fp8", "g": "fp8.activation.0", "w2": "w2.fp8",
         "dz": "fp8.gradient.0", "dh": "fp8.gradient.1"}  # fmt: skip


class Scaling:
    """The scales of one step on one rank."""

    def __init__(self, delayed, scales):
        self.delayed, self.scales, self.amax, self.clipped = delayed, scales, {}, 0

    def __call__(self, name, matrix, sizes=None):
        form = BACKWARD if name[0] == "d" else FORWARD
        self.amax[name] = most = amax_of(matrix)
        scale = self.scales[name] if self.delayed else f32(form[2] / 2**MARGIN / f32(most))
        self.clipped += most * scale > form[2]
        return quantize(matrix, sizes or size_of(matrix), scale, form)


def gradients(q, w1, b1, w2, x, y):
    """loss, dw1, db1, dw2 of one rank"""
    qx, qw1 = q("x", x), q("w1", w1)
    h = [[a + b for a, b in zip(row, b1)] for row in multiply(qx, qw1)]
    sizes = [[a + abs(b) for a, b in zip(row, b1)] for row in multiply(size_of(qx), size_of(qw1))]
    if any(abs(v) < size * NEAR for rows in zip(h, sizes) for v, size in zip(*rows)):
        raise Ambiguous()
    on = lambda values: [[b if a > 0 else 0.0 for a, b in zip(*rows)] for rows in zip(h, values)]
    qg, qw2 = q("g", on(h), on(sizes)), q("w2", w2)
    loss, dz, parts = 0.0, [], []
    for row, label in zip(multiply(qg, qw2), y):
        total = math.log(sum(map(math.exp, row)))
        loss += (total - row[label]) / BATCH
        dz.append([(math.exp(v - total) - (i == label)) / BATCH for i, v in enumerate(row)])
        parts.append([(math.exp(v - total) + (i == label)) / BATCH for i, v in enumerate(row)])
    qdz = q("dz", dz, parts)
    dh = on(multiply(qdz, turn(qw2)))
    qdh = q("dh", dh, on(multiply(size_of(qdz), size_of(turn(qw2)))))
    return loss, multiply(turn(qx), qdh), [list(map(sum, zip(*dh)))], multiply(turn(qg), qdz)


def train(delayed, ranks, weights, samples):
    """Losses, and the last state by name."""
    w1, b1, w2 = weights
    history = {name: [0.0] * HISTORY for name in NAMES}
    scales = {name: 1.0 for name in NAMES}
    losses, clipped = [], 0
    for at in range(STEPS):
        parts, amax = [], {name: 0.0 for name in NAMES}
        for x, y in samples[at * ranks : (at + 1) * ranks]:
            scaling = Scaling(delayed, scales)
            parts.append(gradients(scaling, w1, b1[0], w2, x, y))
            amax = {name: max(amax[name], scaling.amax[name]) for name in NAMES}
            clipped += scaling.clipped
        losses.append(sum(part[0] for part in parts) / ranks)
        mean = lambda k: [[sum(v) / ranks for v in zip(*rows)] for rows in zip(*(p[k] for p in parts))]
        step = lambda w, d: [[f32(a - LR * b) for a, b in zip(*rows)] for rows in zip(w, d)]
        w1, b1, w2 = step(w1, mean(1)), step(b1, mean(2)), step(w2, mean(3))
        for name in NAMES:
            history[name] = [f32(amax[name])] + history[name][:-1]
            top = BACKWARD[2] if name[0] == "d" else FORWARD[2]
            scales[name] = f32(top / 2**MARGIN / max(history[name]))
    state = {"w1": w1, "b1": b1, "w2": w2}
    if delayed:
        state.update({NAMES[n] + ".amax_history": [h] for n, h in history.items()})
        state.update({NAMES[n] + ".scale": [[s]] for n, s in scales.items()})
    return losses, clipped, {name: sum(rows, []) for name, rows in state.items()}


def draw(seed, ranks):
    """Weights, and the samples of each step and rank; ranks differ in size."""
    source = random.Random(seed)
    matrix = lambda rows, columns, size: [[f32(source.gauss(0, size)) for _ in range(columns)] for _ in range(rows)]
    weights = matrix(IN, HIDDEN, 0.4), matrix(1, HIDDEN, 0.1), matrix(HIDDEN, OUT, 0.4)
    return weights, [(matrix(BATCH, IN, size * (1 + 0.5 * rank)), [source.randrange(OUT) for _ in range(BATCH)])
                     for size in SIZES for rank in range(ranks)]  # fmt: skip


def find(delayed, ranks):
    for seed in range(200):
        weights, samples = draw(seed, ranks)
        try:
            return seed, weights, samples, train(delayed, ranks, weights, samples)
        except Ambiguous:
            continue
    sys.exit("no samples without a value near a boundary")


def check(recipe, ranks):
    path = lambda name: os.path.join(FOLDER, "%s-%d-%s" % (recipe, ranks, name))
    seed, weights, samples, (losses, clipped, state) = find(recipe == "delayed", ranks)
    flat = lambda rows: sum(rows, [])
    start = write_tensors(path("weights"), {"w1": ([IN, HIDDEN], flat(weights[0])), "b1": ([HIDDEN], flat(weights[1])),
                                            "w2": ([HIDDEN, OUT], flat(weights[2]))})  # fmt: skip
    rows = len(samples) * BATCH
    data = write_tensors(path("data"), {"x": ([rows, IN], flat(flat([x for x, _ in samples]))),
                                        "y": ("I64", [rows], flat([y for _, y in samples]))})  # fmt: skip
    # All but the operands of products in f32.
    with open(path("policy.json"), "w") as file:
        json.dump({"schema": "mpcomm-precision-1", "policy": "fp8", "compute": "fp32", "activations": "fp32",
                   "gradients": "fp32", "fp8": {"scaling": recipe, "history": HISTORY, "margin": MARGIN}}, file)  # fmt: skip
    program = path("step.so")
    run(COMPILE, os.path.join(FOLDER, "step.mlir"), "-o", program, "--np", ranks, "--options",
        "precision-file=" + path("policy.json"))  # fmt: skip
    common = [RUN, program, "--np", ranks, "--data", data, "--no-shuffle", "--log-every", 1, "--quiet"]
    run(*common, "--steps", STEPS, "--weights", start, "--log", path("log"), "--checkpoint", path("whole"))
    found = read_losses(path("log"))
    if len(found) != STEPS:
        sys.exit("%s, %d ranks: %d losses, expected %d" % (recipe, ranks, len(found), STEPS))
    for at, (a, b) in enumerate(zip(found, losses)):
        if not abs(a - b) <= 2.0**-18 * max(1, abs(b)):
            sys.exit("%s, %d ranks, step %d: loss %.9g, expected %.9g" % (recipe, ranks, at + 1, a, b))
    end = read_tensors(path("whole"))
    if set(end) != set(state):
        sys.exit("%s, %d ranks: state %s, expected %s" % (recipe, ranks, sorted(end), sorted(state)))
    for name, values in state.items():
        bound = 2.0**-18 * max(map(abs, values))
        for a, b in zip(end[name], values):
            if not abs(a - b) <= bound:
                sys.exit("%s, %d ranks, '%s': %r, expected %r" % (recipe, ranks, name, end[name], values))
    if recipe == "delayed" and not clipped:
        sys.exit("nothing saturates: the samples test little")

    for cut in 1, 3:
        run(*common, "--steps", cut, "--weights", start, "--checkpoint", path("part"))
        run(*common, "--steps", STEPS, "--resume", path("part"), "--checkpoint", path("rest"))
        with open(path("whole"), "rb") as whole, open(path("rest"), "rb") as rest:
            if whole.read() != rest.read():
                sys.exit("%s, %d ranks: another file after a cut at step %d" % (recipe, ranks, cut))
    print("%s, %d ranks, seed %d: losses %s, %d tensors clipped" % (
        recipe, ranks, seed, " ".join("%.4f" % v for v in found), clipped))  # fmt: skip


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "step.mlir"), "w") as file:
        file.write(STEP)
    for recipe in "delayed", "current":
        for ranks in 1, 2:
            check(recipe, ranks)


main()
