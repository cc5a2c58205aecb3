# ===- contraction.py - matrix products and convolutions ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of dot_general and of convolution in its forms: forward, and the
gradients by input and by filter, which JAX writes as convolutions too.

The dialect has convolutions of two dimensions on [N, C, H, W] with filters [O, I, H, W];
other orders of dimensions are transposes, and a convolution of one dimension has a
height of 1.
"""

import dataclasses
import math
import re

from ..emit.contraction import contract
from ..emit.movement import padded, sliced
from ..emit.views import View
from ..errors import Unsupported
from ..ir.graph import Type
from .movement import reshaped
from .pointwise import cast
from .translator import Reversed, attribute, hlo, type_of

# #stablehlo.dot<lhs_batching_dimensions = [0], …>
LISTS = re.compile(r"(\w+) = \[([\d, ]*)\]")
CONV = re.compile(r"\[(.*?)\]x\[(.*?)\]->\[(.*?)\]")


def lists(attribute):
    """The lists of integers of an attribute such as #stablehlo.gather<…>."""
    return {name: [int(n) for n in text.split(",") if n.strip()]
            for name, text in LISTS.findall(str(attribute))}


@hlo("dot_general")
def dot_general(t, op, lhs, rhs):
    found = lists(op.attributes["dot_dimension_numbers"])
    dtype = type_of(op.results[0]).dtype
    if not Type((), dtype).is_float:
        raise Unsupported(f"on {dtype}")
    lhs, rhs = (cast(t, t.view(x), dtype) for x in (lhs, rhs))
    pairs = [list(zip(found.get(f"lhs_{kind}_dimensions", []),
                      found.get(f"rhs_{kind}_dimensions", [])))
             for kind in ("batching", "contracting")]
    return contract(t.builder, lhs, rhs, *pairs)


# --- convolution ------------------------------------------------------------------------ #

@dataclasses.dataclass
class Windows:
    """Lists with an entry for each of two dimensions."""

    strides: list
    low: list
    high: list
    lhs: list  # dilation of the input
    rhs: list  # dilation of the filter

    def attributes(self, strides, low, high, dilation, groups):
        return dict(strides=strides, low=low, high=high, dilation=dilation, groups=groups)


def order(text, first, second):
    """Where [first, second, 0, 1, …] are among the dimensions "b, 0, 1, f"."""
    names = [n.strip() for n in text.split(",")]
    spatial = sorted(n for n in names if n.isdigit())
    return [names.index(n) for n in (first, second, *spatial)]


@hlo("convolution")
def convolution(t, op, x, w):
    texts = CONV.search(str(op.attributes["dimension_numbers"]))
    turned = ()
    if isinstance(w, Reversed):
        w, turned = w.view, w.dims
    orders = [order(texts[1], "b", "f"), order(texts[2], "o", "i"), order(texts[3], "b", "f")]
    x, w = t.view(x).permute(orders[0]), t.view(w).permute(orders[1])
    rank = len(x.shape) - 2
    if not 1 <= rank <= 2:
        raise Unsupported(f"of {rank} dimensions")
    ones = [1] * rank
    pads = attribute(op, "padding", [[0, 0]] * rank)
    windows = Windows(attribute(op, "window_strides", ones), [p[0] for p in pads],
                      [p[1] for p in pads], attribute(op, "lhs_dilation", ones),
                      attribute(op, "rhs_dilation", ones))
    turned = {orders[1].index(d) - 2 for d in turned}
    for d, flag in enumerate(attribute(op, "window_reversal", [False] * rank)):
        if flag:
            turned ^= {d}
    result = type_of(op.results[0])
    shape = [result.shape[d] for d in orders[2]]
    if rank == 1:
        x, w = (reshaped(t, v, v.shape[:2] + (1,) + v.shape[2:]) for v in (x, w))
        shape.insert(2, 1)
        turned = {d + 1 for d in turned}
        windows = Windows([1] + windows.strides, [0] + windows.low, [0] + windows.high,
                          [1] + windows.lhs, [1] + windows.rhs)
    if any(0 in v.shape for v in (x, w)):
        raise Unsupported("a tensor without elements")
    dtype = result.dtype
    groups = {k: op.attributes[f"{k}_group_count"].value for k in ("feature", "batch")}
    y = convolve(t, cast(t, x, dtype), cast(t, w, dtype), shape, windows, turned, groups)
    if rank == 1:
        y = reshaped(t, y, [n for i, n in enumerate(shape) if i != 2])
    return y.permute([orders[2].index(d) for d in range(rank + 2)])


def convolve(t, x, w, shape, windows, turned, groups):
    """[N, C, H, W] by [O, I, H, W], in the op that has this form."""
    turned = {d for d in turned if w.shape[2 + d] != 1}
    whole = all(w.shape[2 + d] == 1 or d in turned for d in (0, 1))
    dilated = any(n > 1 for n in windows.lhs)
    if groups["batch"] > 1 or (groups["feature"] == 1 and not turned and not dilated and
                               is_gradient(x, w, shape, windows)):
        if dilated or turned:
            raise Unsupported("with groups of the batch, and dilated input")
        return filter_gradient(t, x, w, shape, windows, groups["batch"])
    if (turned or dilated) and whole and windows.strides == [1, 1]:
        return input_gradient(t, x, w, shape, windows, groups["feature"])
    if turned:
        w = t.reverse(Reversed(w, tuple(2 + d for d in turned)))
    for d in (0, 1):
        if windows.lhs[d] > 1:
            x = padded(t, x, 2 + d, 0, 0, windows.lhs[d] - 1, 0.0)
        low, high = windows.low[d], windows.high[d]
        x = sliced(t, x, 2 + d, max(-low, 0), x.shape[2 + d] + min(high, 0))
    low, high = ([max(n, 0) for n in side] for side in (windows.low, windows.high))
    return View.of(t.builder.create(
        "mpcomm.convolution", [t.whole(x), t.whole(w)], [Type(shape, x.dtype)],
        **windows.attributes(windows.strides, low, high, windows.rhs, groups["feature"]))[0])


def is_gradient(x, w, shape, windows):
    """Whether a convolution is the gradient of another by its filter: its own filter is
    then that one's output, larger than what comes out."""
    return math.prod(w.shape[2:]) > math.prod(shape[2:]) or \
        (any(n > 1 for n in windows.rhs) and math.prod(w.shape[2:]) >= math.prod(shape[2:]))


def closing(size, out, window, stride, low, dilation):
    """The padding after `size` elements with which a convolution has `out` positions."""
    span = (window - 1) * dilation + 1
    high = (out - 1) * stride + span - size - low
    if high < 0 and -high < stride:
        return 0
    return high


def filter_gradient(t, x, dy, shape, windows, groups):
    """x is [C, N, …] here, dy [O, N, …]; what comes out is [C / groups, O, …]."""
    x, dy = x.permute([1, 0, 2, 3]), dy.permute([1, 0, 2, 3])
    low = list(windows.low)
    high = []
    for d in (0, 1):
        size, out, window = x.shape[2 + d], dy.shape[2 + d], shape[2 + d]
        x = sliced(t, x, 2 + d, max(-low[d], 0), size)
        low[d] = max(low[d], 0)
        pad = closing(x.shape[2 + d], out, window, windows.rhs[d], low[d], windows.strides[d])
        if pad < 0:
            x = sliced(t, x, 2 + d, 0, x.shape[2 + d] + pad)
        high.append(max(pad, 0))
    result = t.builder.create(
        "mpcomm.convolution_filter_grad", [t.whole(dy), t.whole(x)],
        [Type((shape[1], shape[0], *shape[2:]), x.dtype)],
        **windows.attributes(windows.rhs, low, high, windows.strides, groups))[0]
    return View.of(result).permute([1, 0, 2, 3])


def input_gradient(t, dy, w, shape, windows, groups):
    """dy is dilated by the strides of the convolution that this is the gradient of, and
    w is its filter, reversed; channels that go in and come out change places."""
    out, inner = w.shape[:2]
    if groups > 1:
        w = reshaped(t, w, (groups, out // groups, inner, *w.shape[2:]))
        w = reshaped(t, w.permute([0, 2, 1, 3, 4]), (groups * inner, out // groups, *w.shape[3:]))
    else:
        w = w.permute([1, 0, 2, 3])
    low, high, sizes, cuts = [], [], [], []
    for d in (0, 1):
        span = (w.shape[2 + d] - 1) * windows.rhs[d] + 1
        before, size = span - 1 - windows.low[d], shape[2 + d]
        cut = max(-before, 0)  # zeros ahead of what is reached
        before, size = max(before, 0), size - cut
        after = closing(size, dy.shape[2 + d], w.shape[2 + d], windows.lhs[d], before,
                        windows.rhs[d])
        more = max(-after, 0)  # and after it
        low.append(before)
        high.append(max(after, 0))
        sizes.append(size - more)
        cuts.append((cut, more))
    result = View.of(t.builder.create(
        "mpcomm.convolution_input_grad", [t.whole(dy), t.whole(w)],
        [Type((*shape[:2], *sizes), dy.dtype)],
        **windows.attributes(windows.lhs, low, high, windows.rhs, groups))[0])
    for d, (cut, more) in enumerate(cuts):
        result = padded(t, result, 2 + d, cut, more, 0, 0.0)
    return result
