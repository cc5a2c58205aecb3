# ===- windows.py - convolutions and pools ---------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The meaning of convolutions, pools and their gradients: one shifted copy of the padded
input for each position in a window."""

import numpy as np

import bounded
from bounded import Bounded, products
from semantics import meaning, narrow, widen


def channels_first(op, x):
    return x.move(lambda a: np.transpose(a, (0, 3, 1, 2))) if op.attributes.get("channels_last") else x


def channels_back(op, x):
    return x.move(lambda a: np.transpose(a, (0, 2, 3, 1))) if op.attributes.get("channels_last") else x


def window(op, filter_shape=None):
    """Sizes, strides, low and high padding, and dilation of a window."""
    a = op.attributes
    size = a["window"] if filter_shape is None else filter_shape[2:]
    return size, a["strides"], a["low"], a["high"], a.get("dilation", [1, 1])


def places(size, positions, strides, dilation):
    """For each place in a window, the elements of the padded input that it meets."""
    for p in range(size[0]):
        for q in range(size[1]):
            yield tuple(slice(o * d, o * d + (n - 1) * s + 1, s)
                        for o, n, s, d in zip((p, q), positions, strides, dilation))  # fmt: skip


def padded(x, low, high, value=0.0):
    width = ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1]))
    return (np.pad(x.v, width, constant_values=value), np.pad(x.e, width))


def patches(x, op, positions, filter_shape):
    """[places, N, C, OH, OW]"""
    size, strides, low, high, dilation = window(op, filter_shape)
    v, e = padded(x, low, high)
    at = list(places(size, positions, strides, dilation))
    return Bounded(np.stack([v[(slice(None), slice(None), *i)] for i in at]),
                   np.stack([e[(slice(None), slice(None), *i)] for i in at]), x.format)  # fmt: skip


def split(x, axis, groups):
    """The axis as [groups, rest]."""
    shape = x.shape
    return x.move(lambda a: a.reshape(shape[:axis] + (groups, shape[axis] // groups) + shape[axis + 1:]))


@meaning("mpcomm.convolution")
def convolution(op, x, w):
    groups = op.attributes["groups"]
    x, w = channels_first(op, widen(x)), widen(w)
    y_shape = op.results[0].shape
    positions = y_shape[1:3] if op.attributes.get("channels_last") else y_shape[2:]
    cols = split(patches(x, op, positions, w.shape), 2, groups)  # p n g c i j
    flat = split(w.move(lambda a: a.reshape(w.shape[:2] + (-1,))), 0, groups)  # g o c p
    y = products(cols, flat, "pngcij,gocp->ngoij")
    return narrow(op, channels_back(op, y.move(lambda a: a.reshape(a.shape[0], -1, *a.shape[3:]))))


@meaning("mpcomm.convolution_filter_grad")
def convolution_filter_grad(op, dy, x):
    groups, shape = op.attributes["groups"], op.results[0].shape
    dy, x = channels_first(op, widen(dy)), channels_first(op, widen(x))
    cols = split(patches(x, op, dy.shape[2:], shape), 2, groups)
    dw = products(cols, split(dy, 1, groups), "pngcij,ngoij->gocp")
    return narrow(op, dw.move(lambda a: a.reshape(shape)))


@meaning("mpcomm.convolution_input_grad")
def convolution_input_grad(op, dy, w):
    groups, a = op.attributes["groups"], op.attributes
    dy, w = channels_first(op, widen(dy)), widen(w)
    result = op.results[0].shape
    n, h, ww, c = result if a.get("channels_last") else (result[0], result[2], result[3], result[1])
    flat = split(w.move(lambda t: t.reshape(w.shape[:2] + (-1,))), 0, groups)
    each = products(split(dy, 1, groups), flat, "ngoij,gocp->pngcij")
    each = each.move(lambda t: t.reshape(t.shape[0], n, c, *dy.shape[2:]))
    size, strides, low, high, dilation = window(op, w.shape)
    # A sum of what each place gives: of places times output channels of a group.
    dx = scatter(each, (n, c, h, ww), size, strides, low, high, dilation)
    return narrow(op, channels_back(op, dx))


def scatter(each, shape, size, strides, low, high, dilation):
    n, c, h, w = shape
    outer = (n, c, h + low[0] + high[0], w + low[1] + high[1])
    stack_v, stack_e = [], []
    for k, at in enumerate(places(size, each.shape[3:], strides, dilation)):
        v, e = np.zeros(outer), np.zeros(outer)
        v[(slice(None), slice(None), *at)] = each.v[k]
        e[(slice(None), slice(None), *at)] = each.e[k]
        stack_v.append(v), stack_e.append(e)
    total = Bounded(np.stack(stack_v), np.stack(stack_e), each.format).sum(0)
    return total[:, :, low[0] : low[0] + h, low[1] : low[1] + w]


@meaning("mpcomm.max_pool")
def max_pool(op, x):
    format = x.format
    x = channels_first(op, x)
    positions = output_positions(op, op.results[0].shape)
    cols = window_elements(op, x, positions, -np.inf)
    return channels_back(op, Bounded(cols.v.max(0), cols.e.max(0), format))


def output_positions(op, shape):
    return shape[1:3] if op.attributes.get("channels_last") else shape[2:]


def window_elements(op, x, positions, value):
    size, strides, low, high, dilation = window(op)
    v, e = padded(x, low, high, value)
    at = list(places(size, positions, strides, dilation))
    return Bounded(np.stack([v[(slice(None), slice(None), *i)] for i in at]),
                   np.stack([e[(slice(None), slice(None), *i)] for i in at]), x.format)  # fmt: skip


def sum_of_windows(op, each, shape):
    size, strides, low, high, dilation = window(op)
    n, h, w, c = shape if op.attributes.get("channels_last") else (shape[0], shape[2], shape[3], shape[1])
    return channels_back(op, scatter(each, (n, c, h, w), size, strides, low, high, dilation))


@meaning("mpcomm.max_pool_grad")
def max_pool_grad(op, dy, x):
    dy, x = channels_first(op, widen(dy)), channels_first(op, x)
    cols = window_elements(op, x, dy.shape[2:], -np.inf)
    inside = window_elements(op, Bounded(np.ones(x.shape), None, "f32"), dy.shape[2:], 0.0).v > 0
    missing = np.isnan(cols.v)
    count = cols.v.shape[0]
    values = np.where(inside, cols.v, -np.inf)
    first = np.argmax(np.where(missing, -np.inf, values), 0)
    # Padding is never the maximum, even of a window of -inf.
    only = np.isneginf(np.where(missing, -np.inf, values).max(0))
    first = np.where(only, np.argmax(inside, 0), first)
    last = count - 1 - np.argmax(missing[::-1], 0)
    chosen = np.where(missing.any(0), last, first)
    hot = np.arange(count).reshape(-1, 1, 1, 1, 1) == chosen
    with np.errstate(all="ignore"):
        # Whatever may be the maximum may get the gradient.
        top = values.max(0)
        tie = (cols.e > 0) | (np.take_along_axis(cols.e, chosen[None], 0) > 0)
        near = inside & tie & (top - values <= cols.e + np.take_along_axis(cols.e, chosen[None], 0))
        several = near.sum(0) > 1
        unsure = near & several
    size = np.abs(dy.v) + dy.e
    each = Bounded(np.where(hot, dy.v, 0.0), np.where(unsure, size, np.where(hot, dy.e, 0.0)), dy.format)
    return narrow(op, sum_of_windows(op, each, op.results[0].shape))


def divisors(op, shape, positions):
    ones = Bounded(np.ones(shape), None, "f32")
    counts = window_elements(op, ones, positions, 0.0).v.sum(0)
    if op.attributes.get("count_padding"):
        counts = np.full_like(counts, np.prod(op.attributes["window"]))
    return counts


@meaning("mpcomm.avg_pool")
def avg_pool(op, x):
    from composites import quotient

    x = channels_first(op, widen(x))
    positions = output_positions(op, op.results[0].shape)
    sums = window_elements(op, x, positions, 0.0).sum(0)
    counts = divisors(op, x.shape, positions)
    return narrow(op, channels_back(op, quotient(sums, Bounded(counts, None, x.format))))


@meaning("mpcomm.avg_pool_grad")
def avg_pool_grad(op, dy):
    from composites import quotient

    dy = channels_first(op, widen(dy))
    shape = op.results[0].shape
    first = (shape[0], shape[3], shape[1], shape[2]) if op.attributes.get("channels_last") else shape
    share = quotient(dy, Bounded(divisors(op, first, dy.shape[2:]), None, dy.format))
    each = share.move(lambda a: np.broadcast_to(a, (int(np.prod(op.attributes["window"])),) + a.shape))
    # What falls on padding is left out by the sum.
    return narrow(op, sum_of_windows(op, each, shape))
