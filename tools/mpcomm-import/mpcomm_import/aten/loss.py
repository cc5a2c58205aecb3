# ===- loss.py - log-softmax and cross-entropy ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of losses.

PyTorch's cross-entropy is _log_softmax and nll_loss_forward, its gradient
nll_loss_backward and _log_softmax_backward_data. The dialect has one op for
each pair, so the first of a pair is deferred: it becomes an op of its own only
if something else asks for its value.
"""

import dataclasses

from ..emit.views import View, coalesce, emit_reshape, materialise
from ..errors import Unsupported
from ..ir.graph import Type, enum
from .convert import aten
from .neural import along_dim
from .pointwise import formula, reduced

REDUCTIONS = {1: "mean", 2: "sum"}


@dataclasses.dataclass(eq=False)
class LogSoftmax:
    """log_softmax(x) that no one has needed as a tensor yet."""

    x: View
    dim: int
    place: str
    result: View = None

    def force(self, c):
        if self.result is None:
            here, c.builder.location = c.builder.location, self.place
            self.result = along_dim(c, "log_softmax", [self.x], self.dim)
            c.builder.location = here
        return self.result


@dataclasses.dataclass(eq=False)
class CrossEntropyGrad:
    """The gradient of nll_loss by its input, before that of log_softmax."""

    grad: View
    of: LogSoftmax
    targets: View
    reduction: str
    ignore: int
    node: object
    given: list  # what the node reads

    def force(self, c):
        return c.expand(self.node, "its result is used by more than cross-entropy", self.given)

    def plus(self, c, other):
        return LossGrads([self, other])


@dataclasses.dataclass(eq=False)
class LossGrads:
    """The sum of gradients, CrossEntropyGrad and others, by one log_softmax."""

    parts: list

    def force(self, c):
        first, *rest = [c.view(p) for p in self.parts]
        for part in rest:
            first = formula(c, "add", first, part)
        return first

    def plus(self, c, other):
        return LossGrads(self.parts + [other])


@aten("_log_softmax")
def log_softmax(c, node, x, dim, half_to_float):
    return LogSoftmax(c.view(x), dim, c.builder.location)


@aten("_log_softmax_backward_data")
def log_softmax_backward(c, node, grad, y, dim, dtype):
    parts = grad.parts if isinstance(grad, LossGrads) else [grad]
    losses = [p for p in parts if isinstance(p, CrossEntropyGrad) and p.of is y]
    found = [cross_entropy_grad(c, p) for p in losses]
    rest = [p for p in parts if p not in losses]
    if rest:
        found.append(along_dim(c, "log_softmax_grad", [c.view(LossGrads(rest)), c.view(y)], dim))
    return LossGrads(found).force(c)


def rows(c, loss):
    """Logits [N, C] and targets [N] as values, and the logits' layout."""
    logits = coalesce(loss.x)
    value = materialise(c.builder, logits)
    return value, logits


@aten("nll_loss_forward")
def nll_loss(c, node, x, targets, weight, reduction, ignore):
    check(c, x, weight, reduction)
    logits, _ = rows(c, x)
    targets = coalesce(c.view(targets))
    c.index(targets.base, logits.shape[1], ignore)
    c.builder.location = c.builder.location.rsplit("/", 1)[0] + "/cross_entropy"
    return [View.of(cross_entropy(c, logits, materialise(c.builder, targets),
                                  REDUCTIONS[reduction], ignore)[0]), None]


def cross_entropy(c, logits, targets, reduction, ignore):
    """The loss, and the log-sum-exp of each row."""
    return c.builder.create(
        "mpcomm.cross_entropy", [logits, targets],
        [Type((), logits.dtype), Type(logits.shape[:1], logits.dtype)],
        reduction=enum("loss_reduction", reduction), ignore_index=ignore)


def check(c, x, weight, reduction):
    if weight is not None:
        raise Unsupported("class weights")
    if reduction not in REDUCTIONS:
        raise Unsupported("reduction 'none'")
    if not isinstance(x, LogSoftmax) or len(x.x.dims) != 2 or x.dim % 2 != 1:
        raise Unsupported("only on log_softmax along the classes of [N, C]")


@aten("nll_loss_backward")
def nll_loss_backward(c, node, grad, x, targets, weight, reduction, ignore, total):
    check(c, x, weight, reduction)
    return CrossEntropyGrad(c.view(grad), x, c.view(targets), REDUCTIONS[reduction], ignore,
                            node, c.given(node))


def cross_entropy_grad(c, deferred):
    logits, layout = rows(c, deferred.of)
    targets = materialise(c.builder, deferred.targets)
    where = c.builder.location
    # The forward op again, which the builder knows already.
    lse = cross_entropy(c, logits, targets, deferred.reduction, deferred.ignore)[1]
    c.builder.location = where.rsplit("/", 1)[0] + "/cross_entropy.grad"
    value = c.builder.create(
        "mpcomm.cross_entropy_grad",
        [materialise(c.builder, deferred.grad), logits, targets, lse], [logits.type],
        reduction=enum("loss_reduction", deferred.reduction),
        ignore_index=deferred.ignore)[0]
    if layout.repeated() or [a for f in layout.factors for a in f] != \
            [a for d in layout.dims for a in d]:
        return View.of(value)
    # Back to the shape that the logits came in: what follows has that shape.
    return View(emit_reshape(c.builder, value, layout.base.shape),
                layout.factors, layout.dims)


# --- mean squared error ------------------------------------------------------------ #

@aten("mse_loss")
def mse_loss(c, node, x, y, reduction=1):
    x, y = c.view(x), c.view(y)
    d = formula(c, "sub", x, y)
    d = formula(c, "mul", d, d)
    if reduction == 0:
        return d
    total = reduced(c, "sum", d, None, False)
    return total if reduction == 2 else formula(c, "div", total, float(d.type.size))


@aten("mse_loss_backward")
def mse_loss_backward(c, node, grad, x, y, reduction):
    x, y = c.view(x), c.view(y)
    factor = 2.0 / x.type.size if reduction == 1 else 2.0
    d = formula(c, "mul", formula(c, "sub", x, y), factor)
    return formula(c, "mul", d, c.view(grad))
