# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# State takes the values that the graph says, whatever it is made of: pieces of
# itself, pads, other state, views; in whole steps, in micro-batches and in
# stages. All values are small integers or halves, so results are exact.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps whose state is expected to the bit."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import near, read_losses, read_typed, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
PARAMETERS = {"p": ([1], [2.0]), "q": ([1], [1.0])}
LAST_BIT = 2.0**-23  # a third is rounded


def shaped(shape):
    return "tensor<%sf32>" % "".join("%dx" % n for n in shape)


def write_step(file, state, body, results):
    """A step of that state and one sample `x`, whose body makes %loss and `results`."""
    arguments, types = [], []
    for i, (name, (shape, _)) in enumerate(state.items()):
        role = "parameter" if name in PARAMETERS else "buffer"
        what = 'mpcomm.role = #mpcomm.role<%s>, mpcomm.name = "%s"' % (role, name)
        arguments.append("%%%s: %s {%s, mpcomm.donated = %d : i64}" % (name, shaped(shape), what, i + 1))
        types.append("%s {%s}" % (shaped(shape), what))
    with open(file, "w") as out:
        out.write("""func.func @train_step(
    %s,
    %%lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.0 : f32},
    %%x: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        %s) {
%s
  return %s : %s
}
""" % (",\n    ".join(arguments), ",\n        ".join(types), body, ", ".join(["%loss"] + results),
       ", ".join(["tensor<f32>"] + [shaped(shape) for shape, _ in state.values()])))  # fmt: skip


# Twice x, with a parameter for each of two stages; at a learning rate of 0 they stay.
LOSS = """  %h = arith.mulf %x, %p : tensor<1xf32>
  %y = arith.mulf %h, %q : tensor<1xf32>
  %loss = mpcomm.reduce sum %y, dims = [0] : (tensor<1xf32>) -> tensor<f32>
  %dp = arith.mulf %x, %q : tensor<1xf32>
  %p1 = mpcomm.sgd_update %p, %dp, %lr, weight_decay = 0.0 : (tensor<1xf32>, tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %q1 = mpcomm.sgd_update %q, %h, %lr, weight_decay = 0.0 : (tensor<1xf32>, tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
"""
SHIFT = LOSS + """
  %a = mpcomm.slice %H, starts = [1], limits = [2], strides = [1] : (tensor<2xf32>) -> tensor<1xf32>
  %H1 = mpcomm.concatenate %a, %x, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>"""
SHIFT_DOWN = LOSS + """
  %a = mpcomm.slice %H, starts = [0], limits = [1], strides = [1] : (tensor<2xf32>) -> tensor<1xf32>
  %H1 = mpcomm.concatenate %x, %a, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>"""
ROTATE = LOSS + """
  %a = mpcomm.slice %H, starts = [1], limits = [4], strides = [1] : (tensor<4xf32>) -> tensor<3xf32>
  %b = mpcomm.slice %H, starts = [0], limits = [1], strides = [1] : (tensor<4xf32>) -> tensor<1xf32>
  %H1 = mpcomm.concatenate %a, %b, dim = 0 : (tensor<3xf32>, tensor<1xf32>) -> tensor<4xf32>"""
PAD = LOSS + """
  %c = arith.constant dense<7.0> : tensor<f32>
  %H1 = mpcomm.pad %x, %c, low = [LOW], high = [HIGH], interior = [0] : (tensor<1xf32>, tensor<f32>) -> tensor<2xf32>"""
TRANSPOSE = LOSS + """
  %H1 = mpcomm.transpose %H, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>"""


def buffer(*shape):
    count = 1
    for size in shape:
        count *= size
    return list(shape), [10.0 * (i + 1) for i in range(count)]


CASES = [
    # name, state, body, results, what a micro-batch of value x makes of the state
    ("shift", {"H": buffer(2)}, SHIFT, ["%H1"], lambda s, x: {"H": s["H"][1:] + [x]}),
    ("shift down", {"H": buffer(2)}, SHIFT_DOWN, ["%H1"], lambda s, x: {"H": [x] + s["H"][:1]}),
    ("rotate", {"H": buffer(4)}, ROTATE, ["%H1"], lambda s, x: {"H": s["H"][1:] + s["H"][:1]}),
    ("pad above", {"H": buffer(2)}, PAD.replace("LOW", "0").replace("HIGH", "1"), ["%H1"], lambda s, x: {"H": [x, 7.0]}),
    ("pad below", {"H": buffer(2)}, PAD.replace("LOW", "1").replace("HIGH", "0"), ["%H1"], lambda s, x: {"H": [7.0, x]}),
    ("transpose", {"H": buffer(2, 2)}, TRANSPOSE, ["%H1"],
     lambda s, x: {"H": [s["H"][0], s["H"][2], s["H"][1], s["H"][3]]}),
    ("swap", {"a": buffer(2), "b": ([2], [1.0, 2.0])}, LOSS, ["%b", "%a"],
     lambda s, x: {"a": s["b"], "b": s["a"]}),
    ("cycle of three", {"a": buffer(1), "b": ([1], [2.0]), "c": ([1], [3.0])}, LOSS,
     ["%b", "%c", "%a"], lambda s, x: {"a": s["b"], "b": s["c"], "c": s["a"]}),
    ("chain", {"old": buffer(1), "new": ([1], [2.0])}, LOSS, ["%new", "%x"],
     lambda s, x: {"old": s["new"], "new": [x]}),
    # What is computed of a buffer varies with it; the loss is the mean over the micro-batches.
    ("count", {"n": ([], [1.0]), "m": ([], [0.0])},
     "  %one = arith.constant dense<1.0> : tensor<f32>\n"
     "  %n1 = arith.addf %n, %one : tensor<f32>\n"
     "  %m1 = arith.addf %n1, %m : tensor<f32>\n" + LOSS, ["%n1", "%m1"],
     lambda s, x: {"n": [s["n"][0] + 1], "m": [s["m"][0] + s["n"][0] + 1]}),
    # One value is the loss and state: the mean for one, the last for the other.
    ("loss kept", {"last": ([], [0.0])}, LOSS, ["%loss"], lambda s, x: {"last": [2 * x]}),
]  # fmt: skip


def expected(state, advance, xs, per_step):
    state = {name: list(values) for name, (_, values) in state.items()}
    for x in xs:
        state = {**state, **advance(state, x)}
    losses = [2 * sum(xs[i : i + per_step]) / per_step for i in range(0, len(xs), per_step)]
    return state, losses


def check(name, state, body, results, advance):
    """What is wrong with the step, for each number of micro-batches, ranks and steps."""
    path = lambda name: os.path.join(FOLDER, name)
    state = {**state, **PARAMETERS}
    write_step(path("step.mlir"), state, body, results + ["%p1", "%q1"])
    weights = write_tensors(path("w"), {n: ("F32", shape, values) for n, (shape, values) in state.items()})
    for micro, ranks in ((1, 1), (2, 1), (3, 1), (2, 2), (3, 2)):
        options = "micro-batches=%d%s" % (micro, " mesh=pp:2" if ranks > 1 else "")
        run(COMPILE, path("step.mlir"), "-o", path("step.so"), "--options", options)
        for steps in (1, 2):
            xs = [float(5 + 3 * i) for i in range(micro * steps)]
            data = write_tensors(path("d"), {"x": ("F32", [len(xs)], xs)})
            run(RUN, path("step.so"), "--np", ranks, "--weights", weights, "--data", data, "--no-shuffle",
                "--quiet", "--steps", steps, "--checkpoint", path("c"), "--log", path("log"))  # fmt: skip
            found, _ = read_typed(path("c"))
            want, losses = expected(state, advance, xs, micro)
            what = "%s, %s, %d steps" % (name, options, steps)
            near(what, read_losses(path("log")), losses, LAST_BIT)
            for key, values in want.items():
                if found[key][2] != values:
                    yield "%s: '%s' is %s, expected %s" % (what, key, found[key][2], values)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    wrong = [what for case in CASES for what in check(*case)]
    if wrong:
        sys.exit("\n".join(wrong))


main()
