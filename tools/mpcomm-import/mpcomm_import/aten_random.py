# ===- aten_random.py - dropout --------------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of dropout and its gradient.

The mask is not stored: both ops draw it from the seed of the step, by a number
that each dropout has of its own."""

import dataclasses

from .convert import aten
from .views import View, materialise


@dataclasses.dataclass
class Mask:
    """What was drawn; stands for the second result of native_dropout."""

    p: float
    id: int


def masked(c, name, x, mask):
    value = materialise(c.builder, c.view(x))
    return View.of(c.builder.create(
        name, [value, c.random_seed()], [value.type], p=mask.p, id=mask.id)[0])


@aten("native_dropout")
def native_dropout(c, node, x, p, train):
    if not train or p == 0:
        return c.view(x), None
    c.drawn += 1
    mask = Mask(float(p), c.drawn - 1)
    return masked(c, "mpcomm.dropout", x, mask), mask


@aten("native_dropout_backward")
def native_dropout_backward(c, node, grad, mask, scale):
    return c.view(grad) if mask is None else \
        masked(c, "mpcomm.dropout_grad", grad, mask)
