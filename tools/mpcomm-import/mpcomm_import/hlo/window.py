# ===- window.py - pools --------------------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of reductions over windows, and of the gradient of max pooling."""

import math

from ..emit.movement import padded, sliced
from ..emit.views import View
from ..errors import Unsupported
from ..ir.graph import Type
from .constants import direction
from .movement import combiner, is_neutral
from .pointwise import number
from .translator import attribute, hlo, region, type_of, unsigned

# Windows of up to this many elements are combined element by element.
MAX_WINDOW = 64


class Pool:
    """The attributes of windows; `images` are two dimensions, in which windows may be
    larger than 1, of four, or None."""

    def __init__(self, op, shape):
        ones = [1] * len(shape)
        self.window = attribute(op, "window_dimensions")
        self.strides = attribute(op, "window_strides", ones)
        self.base = attribute(op, "base_dilations", ones)
        self.dilation = attribute(op, "window_dilations", ones)
        self.padding = attribute(op, "padding", [[0, 0]] * len(shape))
        moving = [d for d in range(len(shape)) if self.window[d] > 1 or self.strides[d] > 1 or
                  any(self.padding[d])]
        self.images = None
        plain = all(n == 1 for n in self.base + self.dilation)
        fits = all(0 <= p < self.window[d] for d in moving for p in self.padding[d])
        if len(shape) == 4 and plain and fits and len(moving) <= 2:
            spare = [d for d in (2, 1, 3, 0) if d not in moving]
            self.images = sorted(moving + spare[:2 - len(moving)])

    def order(self):
        """Dimensions as [N, C, H, W]."""
        return [d for d in range(4) if d not in self.images] + self.images

    def attributes(self):
        pick = [[v[d] for d in self.images] for v in (self.window, self.strides)]
        low, high = ([self.padding[d][k] for d in self.images] for k in (0, 1))
        return dict(window=pick[0], strides=pick[1], low=low, high=high)


def pooled(t, name, views, type, order, **attributes):
    """An op on views as images; `type` is the result's, as it is seen."""
    back = [order.index(d) for d in range(4)]
    value = t.builder.create(name, [t.whole(v.permute(order)) for v in views],
                             [Type([type.shape[d] for d in order], type.dtype)], **attributes)[0]
    return View.of(value).permute(back)


@hlo("reduce_window")
def reduce_window(t, op, *operands):
    if len(operands) != 2:
        raise Unsupported(f"of {len(operands) // 2} tensors")
    x, start = t.view(operands[0]), number(operands[1])
    name, type = combiner(region(op)), type_of(op.results[0])
    kinds = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}
    if name not in kinds or not is_neutral(kinds[name], start, x.type):
        raise Unsupported("with a body that is no sum, product, minimum or maximum")
    if name in ("maximum", "minimum") and unsigned(op.operands[0]):
        raise Unsupported("of unsigned integers")
    pool = Pool(op, x.shape)
    if pool.images and x.type.is_float and name in ("maximum", "add"):
        if name == "maximum":
            return pooled(t, "mpcomm.max_pool", [x], type, pool.order(), **pool.attributes())
        mean = pooled(t, "mpcomm.avg_pool", [x], type, pool.order(), **pool.attributes(),
                      count_padding=any(any(p) for p in pool.padding))
        return t.apply("arith.mulf", mean, float(math.prod(pool.window)))
    return combined(t, x, start, pool, name, type)


def combined(t, x, start, pool, name, type):
    """The elements of windows, one slice for each, combined in order."""
    if math.prod(pool.window) > MAX_WINDOW:
        raise Unsupported(f"over windows of {math.prod(pool.window)} elements")
    target = {"add": ("arith.addf", "arith.addi"), "multiply": ("arith.mulf", "arith.muli"),
              "maximum": ("arith.maximumf", "arith.maxsi"),
              "minimum": ("arith.minimumf", "arith.minsi")}[name][not x.type.is_float]
    for d, (low, high) in enumerate(pool.padding):
        x = padded(t, x, d, 0, 0, pool.base[d] - 1, start)
        x = sliced(t, x, d, max(-low, 0), x.shape[d] + min(high, 0))
        x = padded(t, x, d, max(low, 0), max(high, 0), 0, start)
    parts = [x]
    for d, size in enumerate(pool.window):
        span = (type.shape[d] - 1) * pool.strides[d] + 1
        parts = [sliced(t, p, d, i * pool.dilation[d], i * pool.dilation[d] + span,
                        pool.strides[d]) for p in parts for i in range(size)]
    result = parts[0]
    for part in parts[1:]:
        result = t.apply(target, result, part)
    return result


@hlo("select_and_scatter")
def select_and_scatter(t, op, x, source, start):
    x, source = t.view(x), t.view(source)
    choice = list(region(op, 0).operations)
    if number(start) != 0 or combiner(region(op, 1)) != "add" or len(choice) != 2 or \
            choice[0].operation.name != "stablehlo.compare":
        raise Unsupported("that is not the gradient of a maximum")
    if direction(choice[0]) not in ("GE", "GT"):
        raise Unsupported("that is not the gradient of a maximum")
    shape = x.shape
    pool = Pool(op, shape)
    if pool.images is None:
        raise Unsupported("that is not of images, with padding smaller than the window")
    return pooled(t, "mpcomm.max_pool_grad", [source, x], Type(shape, x.dtype), pool.order(),
                  **pool.attributes())


