# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-compile %mpcomm-run %t.dir
#
# A scripted sequence of overflows on one and two ranks: the scale, skipped
# steps and every state are, step for step, those of torch.cuda.amp.GradScaler's
# rule, and with a hysteresis and bounds those of Megatron-LM's; a run that is cut
# off and resumed ends in the same bits; parameters whose gradients overflow are
# named.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients are the samples: a large one overflows once it is scaled."""

import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import f32, read_tensors, run, write_tensors

OPT, COMPILE, RUN, FOLDER = sys.argv[1:]
INTERVAL, FIRST = 3, 2.0**16
# Exponents of the sample of each step: 2^k times the scale is infinite from
# 2^128 on. Growth at every third good step makes the same sample overflow later.
SCRIPT = [0, 0, 0, 111, 0, 112, 0, 0, 112, 0, 0, 0, 0, 0, 0, 110, 110, 110, 110, 110,
          113, 0, 127, 127, 127, 0, 0, 0, 0, 0, 0, None, 0, 0]  # fmt: skip

STEP = """
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %v: tensor<3x5xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 2 : i64},
    %m: tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v.exp_avg", mpcomm.donated = 3 : i64},
    %q: tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v.exp_avg_sq", mpcomm.donated = 4 : i64},
    %step: tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 5 : i64},
    %count: tensor<f32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "forwards", mpcomm.donated = 6 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.001 : f32},
    %x: tensor<1x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<1x3x5xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<3x5xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
        tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v.exp_avg"},
        tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v.exp_avg_sq"},
        tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"},
        tensor<f32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "forwards"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %small = arith.constant dense<7.52316385E-37> : tensor<f32>  // 2^-120
  %next = arith.addf %step, %one : tensor<f32>
  %counted = arith.addf %count, %one : tensor<f32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1, 2] : (tensor<1x3x5xf32>) -> tensor<f32>
  %seed = mpcomm.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %row = mpcomm.reshape %x : (tensor<1x4xf32>) -> tensor<4xf32>
  %gw = arith.mulf %row, %seed : tensor<4xf32>
  %gv = mpcomm.reshape %y : (tensor<1x3x5xf32>) -> tensor<3x5xf32>
  %w1 = mpcomm.sgd_update %w, %gw, %small, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %v1, %m1, %q1 = mpcomm.adamw_update %v, %gv, %m, %q, %next, %lr, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01
    : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<f32>, tensor<f32>) -> (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>)
  return %loss, %w1, %v1, %m1, %q1, %next, %counted : tensor<f32>, tensor<4xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<f32>, tensor<f32>
}
"""


def path(name):
    return os.path.join(FOLDER, name)


class GradScaler:
    """torch.cuda.amp.GradScaler with found_inf as an argument."""

    def __init__(self):
        self.scale, self.growth_tracker = FIRST, 0

    def update(self, found_inf):
        if found_inf:
            self.scale *= 0.5
            self.growth_tracker = 0
            return
        self.growth_tracker += 1
        if self.growth_tracker == INTERVAL:
            self.scale *= 2.0
            self.growth_tracker = 0


class Megatron:
    """megatron.core.optimizer.grad_scaler.DynamicGradScaler, with a maximum."""

    def __init__(self, hysteresis, least, most):
        self.scale, self.least, self.most = FIRST, least, most
        self.growth_tracker, self.hysteresis, self.left = 0, hysteresis, hysteresis

    def update(self, found_inf):
        if found_inf:
            self.growth_tracker = 0
            self.left -= 1
            if self.left <= 0:
                self.scale = max(self.scale * 0.5, self.least)
            return
        self.growth_tracker += 1
        if self.growth_tracker == INTERVAL:
            self.growth_tracker = 0
            self.left = self.hysteresis
            self.scale = min(self.scale * 2.0, self.most)


def samples(ranks):
    """x and y of each step and rank: the large x comes to the last rank."""
    x, y = [], []
    for at, exponent in enumerate(SCRIPT):
        for rank in range(ranks):
            large = rank == ranks - 1
            value = 1.0 if not large else math.inf if exponent is None else 2.0**exponent
            x.append([1.0, 2.0 + rank, 0.5, value])
            y.append([f32(math.sin(at + rank + i)) for i in range(15)])
    return x, y


def reference(ranks, scaler):
    """(scale, skipped) after each step, and the last state."""
    rows = []
    x, y = samples(ranks)
    w = [0.0] * 4
    v, m, q, step, skips = [0.0] * 15, [0.0] * 15, [0.0] * 15, 0, 0
    for at in range(len(SCRIPT)):
        own = x[at * ranks : (at + 1) * ranks]
        scaled = [f32(f32(sum(f32(row[i] * scaler.scale) for row in own)) / ranks) for i in range(4)]
        found = not all(map(math.isfinite, scaled))
        if not found:
            step += 1
            for i in range(4):
                w[i] = f32(w[i] - 2.0**-120 * (scaled[i] / scaler.scale))
            for i in range(15):
                g = sum(row[i] for row in y[at * ranks : (at + 1) * ranks]) / ranks
                m[i] = 0.9 * m[i] + 0.1 * g
                q[i] = 0.999 * q[i] + 0.001 * g * g
                root = (q[i] / (1 - 0.999**step)) ** 0.5
                v[i] = v[i] * (1 - 1e-5) - 0.001 / (1 - 0.9**step) * m[i] / (root + 1e-8)
        skips += found
        scaler.update(found)
        rows.append((scaler.scale, found))
    return rows, {"w": w, "v": v, "v.exp_avg": m, "v.exp_avg_sq": q, "step": [step],
                  "forwards": [len(SCRIPT)], "loss_scale": [scaler.scale],
                  "loss_scale.good_steps": [scaler.growth_tracker],
                  "loss_scale.skipped": [skips]}  # fmt: skip


def log_of(name):
    with open(path(name)) as file:
        return [json.loads(line) for line in file]


def expect(what, found, want):
    if found != want:
        sys.exit("%s: found %s, expected %s" % (what, found, want))


def check(ranks):
    x, y = samples(ranks)
    data = write_tensors(path("d%d" % ranks), {"x": ([len(x), 4], sum(x, [])), "y": ([len(y), 3, 5], sum(y, []))})
    weights = write_tensors(path("w"), {"w": ([4], [0.0] * 4), "v": ([3, 5], [0.0] * 15), "forwards": ([], [0.0])})
    program = path("step%d.so" % ranks)
    options = "loss-scale=dynamic loss-scale-interval=%d check-gradients" % INTERVAL
    run(COMPILE, path("step.mlir"), "-o", program, "--np", ranks, "--options", options)
    common = [RUN, program, "--np", ranks, "--data", data, "--no-shuffle", "--log-every", 1,
              "--allow-nonfinite"]  # the sample that is infinite
    last = ["--steps", len(SCRIPT)]
    text = run(*common, *last, "--weights", weights, "--log", path("whole"), "--checkpoint", path("whole.ckpt"))
    rows, want = reference(ranks, GradScaler())
    log = log_of("whole")
    for at, (row, entry) in enumerate(zip(rows, log)):
        expect("%d ranks, step %d" % (ranks, at + 1), (entry["loss_scale"], entry["skipped"]), row)
        expect("%d ranks, step %d, named" % (ranks, at + 1), entry.get("nonfinite", []), ["w"] * row[1])
    expect("steps", len(log), len(SCRIPT))
    expect("lines that name w", text.count("the gradient of 'w' is not finite"), want["loss_scale.skipped"][0])
    expect("the table", "steps skipped          %d\n" % want["loss_scale.skipped"][0] in text, True)
    found = read_tensors(path("whole.ckpt"))
    for name, values in want.items():
        # Adam's reference is in double precision: one rounding of 2^-24 for each
        # of a few operations a step, over the steps, relative to the largest.
        bound = 0 if name[0] != "v" else 8 * len(SCRIPT) * 2.0**-24 * max(map(abs, values))
        for i, (a, b) in enumerate(zip(found[name], values)):
            if not abs(a - b) <= bound:
                sys.exit("%d ranks, '%s' element %d: %r, expected %r" % (ranks, name, i, a, b))
    if not 5 <= want["loss_scale.skipped"][0] <= len(SCRIPT) - 10:
        sys.exit("the script tests little: %d skipped" % want["loss_scale.skipped"][0])

    # Cut off in the middle of a run of good steps, and right after an overflow.
    for cut in 4, 8, 17:
        run(*common, "--steps", cut, "--weights", weights, "--checkpoint", path("part.ckpt"), "--log", path("part"))
        run(*common, *last, "--resume", path("part.ckpt"), "--log", path("part"), "--checkpoint", path("end.ckpt"))
        with open(path("whole.ckpt"), "rb") as whole, open(path("end.ckpt"), "rb") as end:
            expect("resumed after %d steps: same file" % cut, end.read() == whole.read(), True)
        rest = [(e["loss_scale"], e["skipped"]) for e in log_of("part")]
        expect("resumed after %d steps: log" % cut, rest, rows)
    print("%d ranks: %d steps, %d skipped, last scale %g" % (
        ranks, len(SCRIPT), want["loss_scale.skipped"][0], want["loss_scale"][0]))  # fmt: skip


def check_bounds():
    """Options that the pass has and the pipeline has not."""
    x, y = samples(1)
    options = "mode=dynamic interval=%d hysteresis=2 min=16384 max=131072" % INTERVAL
    run(OPT, path("step.mlir"), "--mpcomm-scale-loss=" + options, "-o", path("bounded.mlir"))
    run(COMPILE, path("bounded.mlir"), "-o", path("bounded.so"))
    data = write_tensors(path("d"), {"x": ([len(x), 4], sum(x, [])), "y": ([len(y), 3, 5], sum(y, []))})
    run(RUN, path("bounded.so"), "--data", data, "--no-shuffle", "--allow-nonfinite", "--weights", path("w"),
        "--steps", len(SCRIPT), "--log", path("bounded"), "--quiet")  # fmt: skip
    rows, _ = reference(1, Megatron(2, 16384.0, 131072.0))
    found = [(e["loss_scale"], e["skipped"]) for e in log_of("bounded")]
    expect("with a hysteresis", found, rows)
    scales = [scale for scale, _ in rows]
    held = [a for a, b, (_, skipped) in zip(scales, scales[1:], rows[1:]) if skipped and a == b > 16384]
    if min(scales) != 16384 or max(scales) != 131072 or not held:
        sys.exit("the script does not reach both bounds and the hysteresis: %s" % scales)
    print("hysteresis 2: scales from %g to %g" % (min(scales), max(scales)))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(path("step.mlir"), "w") as file:
        file.write(STEP)
    for ranks in 1, 2:
        check(ranks)
    check_bounds()


main()
