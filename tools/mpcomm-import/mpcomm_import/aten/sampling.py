# ===- sampling.py - images read at given points ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Definitions of grid_sampler: elements of an image at the points of a grid, by gathers
of the elements around a point.

A point of the grid is in [-1, 1] along each dimension, the last one first. The gradient is
that of the definition: it is written so that a kink has the slope that PyTorch's has.
"""

import functools
import itertools
import math

import torch

from .decompose import decomposition

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
CUBIC = -0.75  # Keys' constant, as PyTorch's


def clipped(x, size):
    """x in [0, size - 1], without a slope on the ends."""
    return torch.where(x <= 0, 0.0, torch.where(x >= size - 1, size - 1.0, x))


def reflected(x, low, high):
    """x mirrored at both ends of an interval until it is inside."""
    if low == high:
        return torch.zeros_like(x)
    x = torch.where(x < low, low - x, x - low)
    rest = torch.fmod(x, high - low)
    is_even = torch.fmod(torch.floor(x / (high - low)), 2) == 0
    return torch.where(is_even, rest + low, high - rest)


def bounded(x, size, padding, align):
    if padding == REFLECTION:
        x = reflected(x, 0.0, size - 1.0) if align else reflected(x, -0.5, size - 0.5)
    return x if padding == ZEROS else clipped(x, size)


def elements(x, place):
    """Elements of x [N, C, …] at whole numbers, one tensor [N, …] a dimension; 0 outside."""
    sizes, flat = x.shape[2:], 0
    inside = functools.reduce(torch.logical_and, [
        (at >= 0) & (at <= size - 1) for at, size in zip(place, sizes)])
    for at, size in zip(place, sizes):
        flat = flat * size + at.clamp(0, size - 1).to(torch.int64)
    index = flat.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    found = x.flatten(2).gather(2, index).unflatten(2, flat.shape[1:])
    return torch.where(inside.unsqueeze(1), found, 0.0)


def cubic_weights(t):
    """Of the elements at -1, 0, 1 and 2, for a point at t in [0, 1)."""
    def near(t):
        return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1

    def far(t):
        return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def sample(x, grid, mode, padding, align):
    sizes = x.shape[2:]
    points = []
    for d, size in enumerate(sizes):
        point = grid[..., len(sizes) - 1 - d] + 1
        point = point * ((size - 1) / 2) if align else point * (size / 2) - 0.5
        points.append(point if mode == BICUBIC else bounded(point, size, padding, align))
    if mode == NEAREST:
        return elements(x, [p.round() for p in points])
    starts = [p.detach().floor() for p in points]
    rests = [p - s for p, s in zip(points, starts)]
    weights = [cubic_weights(r) if mode == BICUBIC else [1 - r, r] for r in rests]
    result = 0
    for at in itertools.product(range(len(weights[0])), repeat=len(sizes)):
        place = [s + k for s, k in zip(starts, at)]
        if mode == BICUBIC:
            place = [bounded(p - 1, n, padding, align) for p, n in zip(place, sizes)]
        weight = math.prod(w[k] for w, k in zip(weights, at))
        result = result + elements(x, place) * weight.unsqueeze(1)
    return result


@decomposition("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(x, grid, mode, padding, align):
    return sample(x, grid, mode, padding, align)


@decomposition("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(grad, x, grid, mode, padding, align, output_mask):
    with torch.enable_grad():
        inputs = [t.detach().requires_grad_() for t in (x, grid)]
        result = sample(*inputs, mode, padding, align)
        wanted = [t for t, is_wanted in zip(inputs, output_mask) if is_wanted]
        found = iter(torch.autograd.grad(result, wanted, grad, allow_unused=True))
    grads = [next(found) if is_wanted else None for is_wanted in output_mask]
    return tuple(torch.zeros_like(t) if is_wanted and g is None else g
                 for t, g, is_wanted in zip((x, grid), grads, output_mask))
