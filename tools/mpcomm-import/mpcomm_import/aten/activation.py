# ===- activation.py - activations and their gradients --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of activation functions, as formulas over elementwise ops."""

from .convert import aten
from .pointwise import compare, elementwise, extremum, formula, select


@aten("sigmoid")
def sigmoid(c, node, x):
    e = formula(c, "math.exp", formula(c, "arith.negf", c.view(x)))
    return formula(c, "div", 1.0, formula(c, "add", e, 1.0))


@aten("silu")
def silu(c, node, x):
    return formula(c, "mul", c.view(x), sigmoid(c, node, x))


@aten("relu")
def relu(c, node, x):
    return extremum(c, "max", x, 0.0)


@aten("threshold_backward")
def threshold_backward(c, node, grad, x, threshold):
    grad, x = c.view(grad), c.view(x)
    keep = compare(c, "ugt", x, threshold)
    return select(c, keep, grad, 0.0)


@aten("hardtanh_backward")
def hardtanh_backward(c, node, grad, x, low, high):
    x = c.view(x)
    inside = elementwise(c, [compare(c, "ugt", x, low), compare(c, "ult", x, high)],
                         lambda a, b: c.builder.create("arith.andi", [a, b], [a.type])[0])
    return select(c, inside, c.view(grad), 0.0)


@aten("tanh_backward")
def tanh_backward(c, node, grad, y):
    y = c.view(y)
    return formula(c, "mul", c.view(grad),
                   formula(c, "sub", 1.0, formula(c, "mul", y, y)))


@aten("sigmoid_backward")
def sigmoid_backward(c, node, grad, y):
    y = c.view(y)
    return formula(c, "mul", c.view(grad),
                   formula(c, "mul", formula(c, "sub", 1.0, y), y))


@aten("silu_backward")
def silu_backward(c, node, grad, x):
    x = c.view(x)
    s = sigmoid(c, node, x)
    t = formula(c, "add", formula(c, "mul", x, formula(c, "sub", 1.0, s)), 1.0)
    return formula(c, "mul", c.view(grad), formula(c, "mul", s, t))
