# ===- bounded.py - numbers with a bound of their error --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Forward error analysis that runs beside the computation.

A `Bounded` is an array of values in f64, and of bounds: a program that rounds each
operation to `format`, takes sums in any order, and contracts or widens operations, gives a
number within the bound. The bound is 0 where no such program has to round: small numbers
with few bits stay exact through sums and products, and are compared bit for bit. It is
infinite where the program may give anything, such as a comparison of numbers that are
nearer to each other than their bounds.

The model is the standard one (Higham, "Accuracy and Stability of Numerical Algorithms",
2002, section 2.2 and 4.2): fl(a op b) = (a op b)(1 + d), |d| <= u, and a sum of n terms is
within (n - 1) u / (1 - (n - 1) u) times the sum of their magnitudes."""

import numpy as np

from formats import FLOATS


def granule(x):
    """The greatest power of two of which every element is a multiple, as its exponent; None of zeros."""
    x = x[(x != 0) & np.isfinite(x)]
    if not x.size:
        return None
    m, e = np.frexp(x)
    whole = np.abs(np.ldexp(m, 53)).astype(np.int64)
    lowest = whole & -whole
    return int((e - 53 + np.frexp(lowest.astype(np.float64))[1] - 1).min())


class Bounded:
    __slots__ = ("v", "e", "format", "terms")

    def __init__(self, v, e=None, format="f32", terms=1):
        self.v = np.asarray(v, np.float64)
        self.e = np.zeros_like(self.v) if e is None else np.broadcast_to(np.asarray(e, np.float64), self.v.shape)
        self.format, self.terms = format, terms

    @property
    def shape(self):
        return self.v.shape

    def move(self, function):
        """What only moves elements."""
        return Bounded(function(self.v), function(self.e), self.format, self.terms)

    def __getitem__(self, index):
        return self.move(lambda a: a[index])

    def __add__(self, other):
        return add(self, lift(other, self))

    def __sub__(self, other):
        return add(self, -lift(other, self))

    def __rsub__(self, other):
        return add(lift(other, self), -self)

    def __mul__(self, other):
        return multiply(self, lift(other, self))

    def __truediv__(self, other):
        return divide(self, lift(other, self))

    __radd__, __rmul__ = __add__, __mul__

    def __rtruediv__(self, other):
        return divide(lift(other, self), self)

    def __neg__(self):
        return Bounded(-self.v, self.e, self.format, self.terms)

    def sum(self, axis):
        return total(self, axis)

    def expand(self, axis):
        return self.move(lambda a: np.expand_dims(a, axis))


def lift(x, like):
    """A number of the program's text, which the type may have to round."""
    if isinstance(x, Bounded):
        return x
    return finish(np.float64(x), np.float64(0), like.format)


def finish(v, e, format, slack=0.0, roundings=1):
    """The result of an operation whose exact value is within `e` of `v`: rounded, and off by
    `slack` even where nothing has to be rounded."""
    f = FLOATS[format]
    with np.errstate(all="ignore"):
        v, e = np.asarray(v, np.float64), np.asarray(e, np.float64) + slack
        exact = (f.round(v) == v) & (e == 0) | ~np.isfinite(v)
        e = e + np.where(exact, 0, roundings * f.unit * (np.abs(v) + e) + f.tiny / 2)
        beyond = np.isfinite(v) & ~(np.abs(v) + e <= f.greatest)
        if beyond.any():
            surely = beyond & (np.abs(v) - e > f.greatest * (1 + 2 * f.unit)) & (format == "f32")
            v = np.where(surely, np.copysign(np.inf, v), v)
            e = np.where(surely, 0, np.where(beyond, np.inf, e))
        e = np.where(np.isnan(e), np.inf, e)
        return Bounded(v, e, format)


def zero(e):
    """Where both bounds are 0, products of 0 and infinity in the bound are."""
    return np.where(np.isnan(e), 0, e)


def add(a, b):
    with np.errstate(all="ignore"):
        v = a.v + b.v
        terms = a.terms + b.terms
        # The addends may join a sum that one of them is.
        e = a.e + b.e
        exactly = (e == 0) & (FLOATS[a.format].round(v) == v)
        more = (terms - 2) * FLOATS[a.format].unit * (np.abs(a.v) + np.abs(b.v))
        e = e + np.where(exactly | ~np.isfinite(v), 0, np.where(np.isfinite(more), more, 0))
        if a.format == "f64":
            back = v - a.v
            lost = (a.v - (v - back)) + (b.v - back)
            e = e + np.where(np.isfinite(lost) & (lost != 0), 2 * FLOATS["f64"].unit * np.abs(v), 0)
        out = finish(v, e, a.format)
        out.terms = terms
        return out


def multiply(a, b):
    with np.errstate(all="ignore"):
        v = a.v * b.v
        certain = (a.e == 0) & (b.e == 0)
        e = np.abs(a.v) * b.e + np.abs(b.v) * a.e + a.e * b.e
        e = np.where(certain, 0, e)
        if a.format == "f64":
            rounded = a.v.astype(np.longdouble) * b.v.astype(np.longdouble) != v
            e = e + np.where(rounded & np.isfinite(v), 2 * FLOATS["f64"].unit * np.abs(v), 0)
        return finish(v, e, a.format)


def divide(a, b):
    with np.errstate(all="ignore"):
        v = a.v / b.v
        e = (a.e + np.abs(v) * b.e) / (np.abs(b.v) - b.e)
        certain = (a.e == 0) & (b.e == 0)
        e = np.where(certain, 0, np.where(np.abs(b.v) > b.e, e, np.inf))
        # The sign of a zero is not kept track of.
        e = np.where((b.v == 0) & ~((a.v == 0) & certain), np.inf, e)
        inexact = np.isfinite(v) & (v * b.v != a.v)
        if a.format == "f64":
            e = e + np.where(inexact, 2 * FLOATS["f64"].unit * np.abs(v), 0)
        slack = np.where(inexact, FLOATS[a.format].tiny * 2.0**-20, 0)
        return finish(v, e, a.format, slack=slack)


def total(a, axis):
    """A sum in any order."""
    axis = tuple(axis) if np.ndim(axis) else (axis,)
    count = int(np.prod([a.shape[i] for i in axis], dtype=np.int64)) if a.v.size else 0
    with np.errstate(all="ignore"):
        v = a.v.sum(axis)
        finite = np.where(np.isfinite(a.v), np.abs(a.v), 0)
        return settle(v, a.e.sum(axis), (finite + zero(a.e)).sum(axis), count, granule(a.v),
                      bool((a.e == 0).all()), a.format)  # fmt: skip


def settle(v, e, magnitude, count, grain, certain, format):
    """A sum of `count` terms of `magnitude` in all, multiples of 2^grain."""
    f = FLOATS[format]
    if grain is None:
        exact = np.ones(np.shape(v), bool) & certain
    else:
        exact = (magnitude < np.ldexp(1.0, min(grain + f.p, 1023))) & certain
    grown = count * f.unit / (1 - count * f.unit)
    e = np.where(exact, 0, e + grown * magnitude + count * f.tiny)
    e = np.where((magnitude > f.greatest * (1 - f.unit)), np.inf, e)
    if format == "f64":
        e = np.where(exact, e, 2 * e)
    out = finish(v, e, format)
    out.terms = max(count, 1)
    return out


def products(a, b, equation):
    """Sums of products, `equation` as numpy.einsum has it."""
    with np.errstate(all="ignore"):
        v = np.einsum(equation, a.v, b.v)
        aa, bb = (np.where(np.isfinite(x), np.abs(x), 0) for x in (a.v, b.v))
        e = np.einsum(equation, aa, b.e) + np.einsum(equation, a.e, bb) + np.einsum(equation, a.e, b.e)
        magnitude = np.einsum(equation, aa, bb) + zero(e)
        inputs, output = equation.split("->")
        sizes = dict(zip(inputs.replace(",", ""), a.shape + b.shape))
        count = int(np.prod([n for c, n in sizes.items() if c not in output], dtype=np.int64))
        certain = bool((a.e == 0).all() and (b.e == 0).all())
        if not (np.isfinite(a.v).all() and np.isfinite(b.v).all()):
            v = np.einsum(equation, a.v, b.v)
        ga, gb = granule(a.v), granule(b.v)
        grain = None if ga is None or gb is None else ga + gb
        return settle(v, e, magnitude, count, grain, certain, a.format)


def cast(a, format):
    """To another float type; sums of narrow types stay in f32 until here."""
    if format == a.format:
        return a
    source, target = FLOATS[a.format], FLOATS[format]
    if target.p >= source.p and target.emin <= source.emin:
        return Bounded(a.v, a.e, format, a.terms)
    out = finish(a.v, a.e, format)
    out.terms = a.terms
    if format.startswith("f8"):  # casts of what is out of range are the program's to avoid
        out.e = np.where(np.abs(a.v) + a.e > target.greatest, np.inf, out.e)
    return out


def monotone(function, a, units, low=-np.inf, high=np.inf, slack=0.0):
    """`function`, which grows or falls everywhere in [low, high], off by `units` in the last place."""
    with np.errstate(all="ignore"):
        v = function(a.v)
        ends = [function(np.clip(a.v + s * a.e, low, high)) for s in (-1, 1)]
        e = np.maximum(*(np.abs(end - v) for end in ends))
        e = np.where(a.e == 0, 0, np.where(np.isnan(e), np.inf, e))
        near = 2 * units * FLOATS[a.format].unit * np.where(np.isfinite(v), np.abs(v), 0)
        return finish(v, e, a.format, slack=near + slack)


def lipschitz(function, a, constant, units, magnitude=None):
    """`function` whose derivative is at most `constant`."""
    with np.errstate(all="ignore"):
        v = function(a.v)
        size = np.abs(v) if magnitude is None else magnitude
        near = 2 * units * FLOATS[a.format].unit * np.where(np.isfinite(size), size, 0)
        return finish(v, constant * a.e, a.format, slack=near)


def choose(condition, unsure, a, b):
    """a where `condition`; either where it is `unsure`."""
    with np.errstate(all="ignore"):
        v = np.where(condition, a.v, b.v)
        same = (a.v == b.v) | (np.isnan(a.v) & np.isnan(b.v))
        apart = np.where(same, 0, np.abs(a.v - b.v))
        apart = np.where(np.isnan(apart), np.inf, apart)
        e = np.where(condition, a.e, b.e)
        return Bounded(v, np.where(unsure, np.maximum(a.e, b.e) + apart, e), a.format)


def extreme(a, axis, sign):
    """The maximum (sign 1) or minimum (-1); NaN where there is one."""
    reduce = np.max if sign > 0 else np.min
    empty = reduce(a.v, axis, initial=-sign * np.inf)
    bounds = np.max(a.e, axis, initial=0)
    return Bounded(empty, np.where(np.isnan(bounds), np.inf, bounds), a.format)


def greater(a, b):
    """The greater of two; NaN where one is."""
    return Bounded(np.maximum(a.v, b.v), np.maximum(a.e, b.e), a.format)


def lesser(a, b):
    return Bounded(np.minimum(a.v, b.v), np.maximum(a.e, b.e), a.format)
