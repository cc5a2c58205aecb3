# ===- indexing.py - order, running totals, random numbers ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The meaning of ops whose result depends on where an element is, from their
documentation."""

import math
from types import SimpleNamespace

import numpy as np

import semantics
from bounded import Bounded
from composites import log, text
from semantics import Whole, meaning, narrow, result_format, signed, wide, widen


@meaning("mpcomm.top_k")
def top_k(op, x):
    """The p-th number of a row moves by no more than its elements do. Which it is, is known
    where its neighbours are farther away than that."""
    dim, k, largest = op.attributes["dim"], op.attributes["k"], op.attributes.get("largest", False)
    if isinstance(x, Whole):
        v = x.v if x.format == "i1" else signed(x)
        missing = np.zeros(x.shape, bool)
    else:
        missing = np.isnan(x.v)
        v = np.where(missing, 0.0, x.v)
    place = np.broadcast_to(np.arange(x.shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(x.shape))]), x.shape)
    # The last key counts most; integers of 64 bits have no negative of the least.
    keys = (place, ~v if largest and isinstance(x, Whole) else -v if largest else v, ~missing if largest else missing)
    order = np.lexsort(keys, axis=dim)
    taken = np.take_along_axis(order, np.arange(k).reshape([-1 if d == dim else 1 for d in range(len(x.shape))]), dim)
    most = np.max(x.e, dim, keepdims=True, initial=0)
    in_order = np.take_along_axis(x.v, order, dim)
    with np.errstate(all="ignore"):
        near = ~(np.abs(np.diff(in_order, axis=dim)) > 2 * most) & (most > 0)
    edge = np.zeros(most.shape, bool)
    unsure = np.concatenate([edge, near], dim) | np.concatenate([near, edge], dim)
    unsure = np.take(unsure, np.arange(k), dim)
    index = Whole(taken, np.where(unsure, np.inf, 0.0), result_format(op, 1))
    value = np.take_along_axis(x.v, taken, dim)
    if isinstance(x, Whole):
        return Whole(value, np.broadcast_to(most, value.shape), x.format), index
    return Bounded(value, np.broadcast_to(most, value.shape), x.format), index


@meaning("mpcomm.cumulative")
def cumulative(op, x):
    dim, kind = op.attributes["dim"], op.attributes["reduction"]
    part = SimpleNamespace(attributes={"reduction": kind, "dims": [dim]}, results=op.results)
    turn = (lambda a: np.flip(a, dim)) if op.attributes.get("reverse", False) else lambda a: a
    x = x.move(turn)
    totals = [semantics.reduce(part, x.move(lambda a: np.take(a, np.arange(i + 1), dim))) for i in range(x.shape[dim])]
    if not totals:
        return x
    v, e = (np.stack([getattr(t, f) for t in totals], dim) for f in "ve")
    return semantics.make_like(totals[0], v, e).move(turn)


def philox(counters, key):
    """The words of Philox-4x32-10 for each counter."""
    a, b, c, d = (np.asarray(x, np.uint64) for x in counters)
    k, l = (np.uint64(int(x) & 0xFFFFFFFF) for x in key)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b, c, d = (q >> np.uint64(32)) ^ b ^ k, q & low, (p >> np.uint64(32)) ^ d ^ l, p & low
        k, l = (k + np.uint64(0x9E3779B9)) & low, (l + np.uint64(0xBB67AE85)) & low
    return a, b, c, d


def draw(seed, id, shape):
    """Four words for each element, and the bound of what is made of them."""
    count = math.prod(shape)
    at, zero = np.arange(count, dtype=np.uint64), np.zeros(count, np.uint64)
    with np.errstate(over="ignore"):
        words = philox((at, zero, zero + np.uint64(id), zero), seed.v)
    return [w.reshape(shape) for w in words], np.inf if (seed.e > 0).any() else 0.0


@meaning("mpcomm.dropout", "mpcomm.dropout_grad")
def dropout(op, x, seed):
    p = op.attributes["p"]
    words, unsure = draw(seed, op.attributes["id"], x.shape)
    kept = words[0] >= np.uint64(math.floor(p * 2**32))
    w = widen(x)
    factor = text(1 / (1 - p), w) if p < 1 else Bounded(np.inf, None, w.format)
    y = w * factor if p < 1 else Bounded(np.zeros(x.shape), None, w.format)
    if p >= 1:
        kept = np.zeros(x.shape, bool)
    y = narrow(op, y)
    return Bounded(np.where(kept, y.v, 0.0), np.maximum(np.where(kept, y.e, 0.0), unsure), y.format)


def uniform(first, second, format):
    bits = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[format]
    whole = (first << np.uint64(32)) | second
    return Bounded(np.ldexp((whole >> np.uint64(64 - bits)).astype(np.float64), -bits), None, format)


@meaning("mpcomm.rng")
def rng(op, seed):
    format = result_format(op)
    (a, b, c, d), unsure = draw(seed, op.attributes["id"], op.results[0].shape)
    if "uniform" in op.attributes["distribution"]:
        y = uniform(a, b, format)
    else:
        of = wide(format)
        u, v = uniform(a, b, of), uniform(c, d, of) if of == "f64" else uniform(b, c, of)
        rest = Bounded(1 - u.v, None, of)
        scalar = lambda name: SimpleNamespace(name=name, results=[SimpleNamespace(dtype=of)])
        radius = semantics.function(scalar("math.sqrt"), log(rest, 2.0**-53) * -2.0)
        y = narrow(op, radius * semantics.wave(scalar("math.cos"), v * (2 * math.pi)))
    return Bounded(y.v, np.maximum(y.e, unsure), y.format)
