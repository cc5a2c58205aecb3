# ===- indexed.py - gathers and scatters -----------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The meaning of ops that read and write at indices, index by index."""

import math

import numpy as np

import bounded
from bounded import Bounded
from semantics import Whole, meaning, narrow, widen


class Slices:
    """Of a tensor of `shape` the elements that indices name, as [planes, indices, slice]:
    the linear place of each, the index as it is clamped, and whether it was in range."""

    def __init__(self, op, shape, ids):
        self.dim, batch = op.attributes.get("dim", 0), op.attributes.get("batch_dims", 0)
        size, own = shape[self.dim], ids.shape[batch:]
        planes, slice_ = math.prod(shape[: self.dim]), math.prod(shape[self.dim + 1 :])
        shared = math.prod(shape[:batch])
        self.shape = shape[: self.dim] + own + shape[self.dim + 1 :]
        self.grid = (planes, math.prod(own), slice_)
        each = np.repeat(ids.v.reshape(shared, -1), planes // shared if shared else 0, 0)
        index = np.broadcast_to(each.reshape(planes, -1, 1), self.grid)
        self.near = np.clip(index, 0, max(size - 1, 0))
        self.inside = self.near == index if size else np.zeros(self.grid, bool)
        plane, column = np.arange(planes)[:, None, None], np.arange(slice_)
        self.place = (plane * size + self.near) * slice_ + column
        self.is_unsure = bool((ids.e > 0).any())

    def unsure(self, x):
        """Anything, where the indices are not known."""
        e = np.maximum(x.e, np.inf if self.is_unsure else 0.0)
        return Bounded(x.v, e, x.format) if isinstance(x, Bounded) else Whole(x.v, e, x.format)


@meaning("mpcomm.gather")
def gather(op, x, ids):
    slices = Slices(op, x.shape, ids)
    return slices.unsure(x.move(lambda a: a.reshape(-1)[slices.place].reshape(slices.shape)))


def combined(kind, a, b):
    if kind is None:
        return b
    if isinstance(a, Bounded):
        return {"sum": lambda: a + b, "prod": lambda: a * b, "min": lambda: bounded.lesser(a, b),
                "max": lambda: bounded.greater(a, b)}[kind]()  # fmt: skip
    v = {"sum": a.v | b.v if a.format == "i1" else a.v + b.v, "prod": a.v * b.v,
         "min": np.minimum(a.v, b.v), "max": np.maximum(a.v, b.v)}[kind]  # fmt: skip
    return Whole(v, np.maximum(a.e, b.e), a.format)


def scattered(x, slices, updates, counts, kind):
    """One index after the other: of one index all elements are at different places."""
    v, e = x.v.reshape(-1).copy(), x.e.reshape(-1).copy()
    like = lambda a, b: Bounded(a, b, x.format) if isinstance(x, Bounded) else Whole(a, b, x.format)
    flat = updates.move(lambda a: a.reshape(slices.grid))
    for i in range(slices.grid[1]):
        taken = counts[:, i]
        at = slices.place[:, i][taken]
        made = combined(kind, like(v[at], e[at]), flat.move(lambda a: a[:, i][taken]))
        v[at], e[at] = made.v, made.e
    return slices.unsure(like(v.reshape(x.shape), e.reshape(x.shape)))


@meaning("mpcomm.gather_grad")
def gather_grad(op, dy, ids):
    dy = widen(dy)
    slices = Slices(op, op.results[0].shape, ids)
    counts = slices.near != op.attributes.get("padding_idx", math.inf)
    zeros = Bounded(np.zeros(op.results[0].shape), None, dy.format)
    return narrow(op, scattered(zeros, slices, dy, counts, "sum"))


@meaning("mpcomm.scatter")
def scatter(op, x, ids, updates):
    kind = op.attributes.get("reduction")
    kind = kind and kind.split()[-1].rstrip(">")
    slices = Slices(op, x.shape, ids)
    if kind in ("sum", "prod") and isinstance(x, Bounded):
        return narrow(op, scattered(widen(x), slices, widen(updates), slices.inside, kind))
    return scattered(x, slices, updates, slices.inside, kind)
