# ===- codec_steps.py - a step whose gradients travel compressed -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A step that takes the gradients of its parameters from its batch, and the ways in which they
may travel.

Gradients are integers of at most LARGEST: all sums of a block are exact in f32, in any order, so
that both targets find the same scale, the same largest element (of equals the first) and the same
signs. There are enough of them that, in units of the scale, hardly one is half-way between two
numbers. What is left are a few operations on each element, in the same order."""

LARGEST = 65521
SHAPES = {"w": (1003,), "v": (40, 35), "b": (7,)}
WIRES = ["i8", "f8E4M3FN", "f8E5M2", "i4", "i1", "top1of8", "top1of32"]
WAYS = {
    **{wire: "wire=%s error-feedback=true wire-min-bytes=0" % wire for wire in WIRES},
    "i4-zero1": "wire=i4 wire-min-bytes=0 zero=1",
    "i1-zero2": "wire=i1 wire-min-bytes=0 zero=2",
    "top1of8-zero3": "wire=top1of8 wire-min-bytes=0 zero=3",
    "i1-momentum": "wire=i1 wire-min-bytes=0 average-momentum=true",
    "low-rank": "low-rank=2",
    "deferred": "defer-bytes=100000",
    "local": "local-steps=2 outer-lr=0.5",
}


def tensor(shape):
    return "tensor<%sxf32>" % "x".join(map(str, shape))


def graph():
    """SGD with momentum, with a batch of one sample for each rank."""
    arguments, results, body, returned = [], [], [], []
    state = lambda role, name, more="": '{mpcomm.role = #mpcomm.role<%s>, mpcomm.name = "%s"%s}' % (role, name, more)
    for index, (name, shape) in enumerate(SHAPES.items()):
        t = tensor(shape)
        arguments += ["%%%s: %s %s" % (name, t, state("parameter", name, ", mpcomm.donated = %d : i64" % (2 * index))),
                      "%%%s_m: %s %s" % (name, t, state("optimizer_state", name + ".m", ", mpcomm.donated = %d : i64" % (2 * index + 1)))]
        results += ["%s %s" % (t, state("parameter", name)), "%s %s" % (t, state("optimizer_state", name + ".m"))]
        returned += ["%%%s1" % name, "%%%s_m1" % name]
    for name, shape in SHAPES.items():
        t, batch = tensor(shape), tensor((1, *shape))
        arguments.append("%%%s_g: %s %s" % (name, batch, state("batch", name + ".g")))
        body += ["%%%s_r = mpcomm.reshape %%%s_g : (%s) -> %s" % (name, name, batch, t),
                 "%%%s1, %%%s_m1 = mpcomm.sgd_update %%%s, %%%s_r, %%lr, %%%s_m, momentum = 0.5, weight_decay = 0.0 : (%s, %s, tensor<f32>, %s) -> (%s, %s)"
                 % (name, name, name, name, name, t, t, t, t, t)]
    arguments.append("%%lr: tensor<f32> %s" % state("hyperparameter", "lr", ", mpcomm.default = 0.5 : f32"))
    body.append("%%l = mpcomm.reduce sum %%b_r, dims = [0] : (%s) -> tensor<f32>" % tensor(SHAPES["b"]))
    results.append("tensor<f32> %s" % state("loss", "loss"))
    types = [r.split(" ")[0] for r in results]
    return "func.func @train_step(\n  %s)\n  -> (%s) {\n  %s\n  return %s : %s\n}\n" % (
        ",\n  ".join(arguments), ",\n  ".join(results), "\n  ".join(body), ", ".join(returned + ["%l"]), ", ".join(types))
