# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# Two stages of a pipeline, written by hand as scheduled rank programs, train as the training graph
# that they were cut from does on one rank; with data parallelism beside, on two.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two linear layers with a product of activations between them."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import near, read_losses, read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
STEPS, SAMPLES = 12, 96
# Sums of at most 16 terms of a value's own size in another order: 16 u a step, and twice that.
BOUND = 2 * STEPS * 16 * 2.0**-24

# The signature's pieces: an argument with its role, and what becomes of it.
W0 = '%w0: tensor<4x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64}'
W1 = '%w1: tensor<3x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = WHERE : i64}'
LR = '%lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.0e-01 : f32}'
X = '%x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}'
Y = '%y: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"}'
LOSS = 'tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}'
NEW0 = 'tensor<4x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"}'
NEW1 = 'tensor<3x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"}'

GRAPH = """
module @pair {
  func.func @train_step(%s, %s, %s, %s, %s) -> (%s, %s, %s) {
    %%h = mpcomm.dot_general %%x, %%w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %%a = arith.mulf %%h, %%h : tensor<8x3xf32>
    %%p = mpcomm.dot_general %%a, %%w1, contracting_dims = [1] x [0] : (tensor<8x3xf32>, tensor<3x2xf32>) -> tensor<8x2xf32>
    %%e = arith.subf %%p, %%y : tensor<8x2xf32>
    %%e2 = arith.mulf %%e, %%e : tensor<8x2xf32>
    %%sum = mpcomm.reduce sum %%e2, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
    %%n = arith.constant dense<6.250000e-02> : tensor<f32>
    %%loss = arith.mulf %%sum, %%n : tensor<f32>
    %%scale = arith.constant dense<1.250000e-01> : tensor<8x2xf32>
    %%dp = arith.mulf %%e, %%scale : tensor<8x2xf32>
    %%dw1 = mpcomm.dot_general %%a, %%dp, contracting_dims = [0] x [0] : (tensor<8x3xf32>, tensor<8x2xf32>) -> tensor<3x2xf32>
    %%da = mpcomm.dot_general %%dp, %%w1, contracting_dims = [1] x [1] : (tensor<8x2xf32>, tensor<3x2xf32>) -> tensor<8x3xf32>
    %%dh0 = arith.mulf %%da, %%h : tensor<8x3xf32>
    %%dh = arith.addf %%dh0, %%dh0 : tensor<8x3xf32>
    %%dw0 = mpcomm.dot_general %%x, %%dh, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
    %%n0 = mpcomm.sgd_update %%w0, %%dw0, %%lr, weight_decay = 0.0 : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %%n1 = mpcomm.sgd_update %%w1, %%dw1, %%lr, weight_decay = 0.0 : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
    return %%loss, %%n0, %%n1 : tensor<f32>, tensor<4x3xf32>, tensor<3x2xf32>
  }
}
""" % (W0, W1.replace("WHERE", "2"), LR, X, Y, LOSS, NEW0, NEW1)

PARTS = """
  func.func private @forward0(%w0: tensor<4x3xf32>, %x: tensor<4x4xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
    %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %a = arith.mulf %h, %h : tensor<4x3xf32>
    return %h, %a : tensor<4x3xf32>, tensor<4x3xf32>
  }
  func.func private @backward0(%x: tensor<4x4xf32>, %h: tensor<4x3xf32>, %da: tensor<4x3xf32>, %sum: tensor<4x3xf32> {mpcomm.donated = 0 : i64}) -> tensor<4x3xf32> {
    %dh0 = arith.mulf %da, %h : tensor<4x3xf32>
    %dh = arith.addf %dh0, %dh0 : tensor<4x3xf32>
    %dw = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %r = arith.addf %sum, %dw : tensor<4x3xf32>
    return %r : tensor<4x3xf32>
  }
  func.func private @both1(%w1: tensor<3x2xf32>, %a: tensor<4x3xf32>, %y: tensor<4x2xf32>, %loss: tensor<f32> {mpcomm.donated = 0 : i64}, %sum: tensor<3x2xf32> {mpcomm.donated = 1 : i64}) -> (tensor<f32>, tensor<3x2xf32>, tensor<4x3xf32>) {
    %p = mpcomm.dot_general %a, %w1, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %e = arith.subf %p, %y : tensor<4x2xf32>
    %e2 = arith.mulf %e, %e : tensor<4x2xf32>
    %squares = mpcomm.reduce sum %e2, dims = [0, 1] : (tensor<4x2xf32>) -> tensor<f32>
    %n = arith.constant dense<6.250000e-02> : tensor<f32>
    %part = arith.mulf %squares, %n : tensor<f32>
    %total = arith.addf %loss, %part : tensor<f32>
    %scale = arith.constant dense<1.250000e-01> : tensor<4x2xf32>
    %dp = arith.mulf %e, %scale : tensor<4x2xf32>
    %dw1 = mpcomm.dot_general %a, %dp, contracting_dims = [0] x [0] : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
    %r = arith.addf %sum, %dw1 : tensor<3x2xf32>
    %da = mpcomm.dot_general %dp, %w1, contracting_dims = [1] x [1] : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x3xf32>
    return %total, %r, %da : tensor<f32>, tensor<3x2xf32>, tensor<4x3xf32>
  }
"""

HALVES = """
    %{v}0 = mpcomm.slice %{v}, starts = [0, 0], limits = [4, {n}], strides = [1, 1] : (tensor<8x{n}xf32>) -> tensor<4x{n}xf32>
    %{v}1 = mpcomm.slice %{v}, starts = [4, 0], limits = [8, {n}], strides = [1, 1] : (tensor<8x{n}xf32>) -> tensor<4x{n}xf32>
"""


def send(future, value, to, channel, tag):
    return """
    %%%s = mpcomm.async {
      mpcomm.send(%%%s) on @mesh axes ["pp"] to = %d channel = %d {mpcomm.tag = "%s"} : tensor<4x3xf32>
      mpcomm.yield
    } : !mpcomm.future<>
""" % (future, value, to, channel, tag)


def receive(future, source, channel, tag):
    return """
    %%%s = mpcomm.async {
      %%r = mpcomm.recv on @mesh axes ["pp"] from = %d channel = %d {mpcomm.tag = "%s"} : tensor<4x3xf32>
      mpcomm.yield %%r : tensor<4x3xf32>
    } : !mpcomm.future<tensor<4x3xf32>>
""" % (future, source, channel, tag)


AWAIT = "    %%%s = mpcomm.await %%%s : !mpcomm.future<tensor<4x3xf32>>\n"
SENT = "    mpcomm.await %%%s : !mpcomm.future<>\n"
BROADCAST = '    %loss = mpcomm.collective_broadcast(%mine) on @mesh axes ["pp"] root = 1 {mpcomm.tag = "loss"} : tensor<f32>\n'


def programs(dp):
    """Both micro-batches go forward before the first comes back."""
    stage0 = "  func.func @train_step.stage0(%s, %s, %s) -> (%s, %s) {" % (W0, LR, X, LOSS, NEW0)
    stage0 += HALVES.format(v="x", n=4)
    for m in 0, 1:
        stage0 += "    %%h%d:2 = call @forward0(%%w0, %%x%d) : (tensor<4x3xf32>, tensor<4x4xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)\n" % (m, m)
        stage0 += send("f%d" % m, "h%d#1" % m, 1, 1, "F%d" % m) + receive("b%d" % m, 1, 2, "B%d" % m)
    stage0 += "    %s0 = arith.constant dense<0.0> : tensor<4x3xf32>\n"
    for m in 0, 1:
        stage0 += AWAIT % ("da%d" % m, "b%d" % m)
        stage0 += "    %%s%d = call @backward0(%%x%d, %%h%d#0, %%da%d, %%s%d) : (tensor<4x4xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>\n" % (m + 1, m, m, m, m)
        stage0 += SENT % ("f%d" % m)
    stage0 += """
    %dw0 = mpcomm.all_reduce(%s2) on @mesh axes ["dp"] mean : tensor<4x3xf32>
    %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %mine = arith.constant dense<0.0> : tensor<f32>
""" + BROADCAST + """
    return %loss, %n0 : tensor<f32>, tensor<4x3xf32>
  }
"""
    stage1 = "  func.func @train_step.stage1(%s, %s, %s) -> (%s, %s) {" % (
        W1.replace("WHERE", "1"), LR, Y, LOSS, NEW1)
    stage1 += HALVES.format(v="y", n=2)
    stage1 += receive("f0", 0, 1, "F0") + receive("f1", 0, 1, "F1")
    stage1 += "    %l0 = arith.constant dense<0.0> : tensor<f32>\n"
    stage1 += "    %s0 = arith.constant dense<0.0> : tensor<3x2xf32>\n"
    before = "%l0", "%s0"
    for m in 0, 1:
        stage1 += AWAIT % ("a%d" % m, "f%d" % m)
        stage1 += "    %%r%d:3 = call @both1(%%w1, %%a%d, %%y%d, %s, %s) : (tensor<3x2xf32>, tensor<4x3xf32>, tensor<4x2xf32>, tensor<f32>, tensor<3x2xf32>) -> (tensor<f32>, tensor<3x2xf32>, tensor<4x3xf32>)\n" % (m, m, m, *before)
        stage1 += send("b%d" % m, "r%d#2" % m, 0, 2, "B%d" % m)
        before = "%%r%d#0" % m, "%%r%d#1" % m
    stage1 += """
    %mine, %dw1 = mpcomm.all_reduce(%r1#0, %r1#1) on @mesh axes ["dp"] mean : tensor<f32>, tensor<3x2xf32>
    %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
""" + BROADCAST + SENT % "b0" + SENT % "b1" + """
    return %loss, %n1 : tensor<f32>, tensor<3x2xf32>
  }
"""
    return """
module @pair {
  mpcomm.mesh @mesh <["pp" = 2, "dp" = %d]>
  mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.stage0, @train_step.stage1]
""" % dp + PARTS + stage0 + stage1 + "}\n"


def path(name):
    return os.path.join(FOLDER, name)


def compile_to(name, text, *options):
    with open(path(name + ".mlir"), "w") as file:
        file.write(text)
    run(COMPILE, path(name + ".mlir"), "-o", path(name + ".so"), *options)


def train(name, steps=STEPS, start=("--weights", "w")):
    """Losses, and the parameters."""
    run(RUN, path(name + ".so"), start[0], path(start[1]), "--data", path("d"), "--steps", steps,
        "--log", path("log"), "--checkpoint", path("out"), "--quiet")  # fmt: skip
    return read_losses(path("log")), read_tensors(path("out"))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    source = random.Random(3)
    draw = lambda count: [source.uniform(-1, 1) for _ in range(count)]
    write_tensors(path("w"), {"w0": ([4, 3], draw(12)), "w1": ([3, 2], draw(6))})
    write_tensors(path("d"), {"x": ([SAMPLES, 4], draw(SAMPLES * 4)), "y": ([SAMPLES, 2], draw(SAMPLES * 2))})
    for dp in 1, 2:
        compile_to("graph", GRAPH, "--np", dp)
        compile_to("stages", programs(dp), "--from", "programs")
        whole, parameters = train("graph")
        if not sum(whole[STEPS // 2:]) < sum(whole[:STEPS // 2]):
            sys.exit("it does not learn: %s" % whole)
        losses, ours = train("stages")
        near("losses, dp = %d" % dp, losses, whole, BOUND)
        for name, values in parameters.items():
            near("%s, dp = %d" % (name, dp), ours[name], values, BOUND)
        # A checkpoint of the stages goes on as the whole, and the reverse.
        for first, second in ("stages", "graph"), ("graph", "stages"):
            begun, _ = train(first, STEPS // 2)
            os.rename(path("out"), path("half"))
            os.remove(path("log"))
            near("%s, then %s" % (first, second), begun + train(second, start=("--resume", "half"))[0], whole, BOUND)


main()
