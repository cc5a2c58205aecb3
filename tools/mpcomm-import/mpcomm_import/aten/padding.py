# ===- padding.py - rolls, flips, and padding by what is there ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of operators that take elements of a dimension in another order,
or again, as emit/positions.py does."""

from .convert import aten
from .emit.positions import put, reversed_along, take
from .movement import reshaped


@aten("flip")
def flip(c, node, x, dims):
    for d in dims:
        x = reversed_along(c, x, d)
    return x


@aten("rot90")
def rot90(c, node, x, k=1, dims=(0, 1)):
    x = c.view(x)
    a, b = (d % len(x.dims) for d in dims)
    order = list(range(len(x.dims)))
    order[a], order[b] = b, a
    if k % 4 == 1:
        return reversed_along(c, x, b).permute(order)
    if k % 4 == 2:
        return reversed_along(c, reversed_along(c, x, a), b)
    return reversed_along(c, x, a).permute(order) if k % 4 == 3 else x


@aten("roll")
def roll(c, node, x, shifts, dims=()):
    x = c.view(x)
    shape = x.shape
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        x, dims = reshaped(c, x, [-1]), [0]
    for shift, dim in zip(shifts, dims):
        size = x.shape[dim]
        x = take(c, x, dim, [(i - shift) % size for i in range(size)])
    return reshaped(c, x, shape)


def reflected(i, size):
    i = abs(i)
    return i if i < size else 2 * (size - 1) - i


def clamped(i, size):
    return min(max(i, 0), size - 1)


def paddings(pad, rank, rule, sizes):
    """[(dimension, numbers of the elements along it)], the innermost first."""
    result = []
    for k in range(len(pad) // 2):
        low, high = pad[2 * k:2 * k + 2]
        dim = rank - 1 - k
        if low or high:
            result.append((dim, [rule(i, sizes[dim]) for i in range(-low, sizes[dim] + high)]))
    return result


def padding(name, rule):
    names = [f"{name}_pad{n}d" for n in (1, 2, 3)]

    @aten(*names)
    def forward(c, node, x, pad):
        x = c.view(x)
        for dim, numbers in paddings(pad, len(x.dims), rule, x.shape):
            x = take(c, x, dim, numbers)
        return x

    @aten(*(n + "_backward" for n in names))
    def backward(c, node, grad, x, pad):
        shape = c.view(x).shape
        for dim, numbers in reversed(paddings(pad, len(shape), rule, shape)):
            grad = put(c, grad, dim, numbers, shape[dim])
        return c.view(grad)


padding("reflection", reflected)
padding("replication", clamped)
