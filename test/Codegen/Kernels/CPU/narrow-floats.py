# Casts of 8-bit floats against the formats' definition: every code to f32, and to
# each code the numbers that round to it: itself, both ends of its interval, what
# lies just within and just beyond them; in vectors and in scalars.
#
# REQUIRES: compiler, numpy
# RUN: %python %s %mpcomm-opt %cc
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))

import numpy as np

from kernel_builder import Kernel, Tools

tools = Tools(opt=sys.argv[1], clang=sys.argv[2])
# type: bits of the mantissa, bias, first code that is no finite number, infinity's
FORMATS = {"f8E4M3FN": (3, 7, 0x7F, None), "f8E5M2": (2, 15, 0x7C, 0x7C)}


def number(code, mantissa, bias):
    """What a code without sign stands for, specials read as if they were finite."""
    exponent, fraction = code >> mantissa, code & ((1 << mantissa) - 1)
    if exponent == 0:
        return fraction * 2.0 ** (1 - bias - mantissa)
    return (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)


def cast(op, values, source, target):
    k = Kernel("cast")
    x, y = k.input("x", [values.size], source), k.output("y", [values.size], target)
    r = k.generic("p", [(x, "d0")], [(y, "d0")],
                  "%%r = arith.%s {0} : %s to %s\nyield %%r : %s" % (op, source, target, target))  # fmt: skip
    run = tools.compile(k, [r])
    result = np.empty(values.size, np.float32 if target == "f32" else np.uint8)
    run(values, result)
    return result


def expected_of(values, mantissa, bias, special, infinity):
    """To nearest, ties to the even code, by search among all numbers."""
    finite = [number(c, mantissa, bias) for c in range(special + 1)]  # the next one too
    bounds = np.array([(a + b) / 2 for a, b in zip(finite, finite[1:])])
    magnitude = np.abs(values.astype(np.float64))
    code = np.searchsorted(bounds, magnitude, side="left")
    tie = np.isin(magnitude, bounds)
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    beyond = infinity if infinity is not None else 0x7F
    code = np.where(code >= special, beyond, code)
    return code | np.where(np.signbit(values), 0x80, 0)


def same(name, got, expected, values):
    wrong = np.nonzero(got != expected)[0]
    if wrong.size:
        i = wrong[0]
        sys.exit("%s of %r: expected %r, found %r (%d of %d are wrong)" % (
            name, values[i], expected[i], got[i], wrong.size, got.size))  # fmt: skip


for name, (mantissa, bias, special, infinity) in FORMATS.items():
    codes = np.arange(256, dtype=np.uint8)
    wide = cast("extf", codes, name, "f32")
    magnitude = codes & 0x7F
    exact = np.array([number(int(c), mantissa, bias) for c in magnitude], np.float32)
    exact = np.where(codes & 0x80, -exact, exact)
    finite = magnitude < special
    same("extf " + name, wide[finite].view(np.uint32), exact[finite].view(np.uint32), codes[finite])
    if infinity is not None:
        assert np.array_equal(wide[magnitude == infinity], np.array([np.inf, -np.inf], np.float32))
    nans = ~finite if infinity is None else magnitude > infinity
    assert np.all(np.isnan(wide[nans])) and nans.any()

    points = np.array([number(c, mantissa, bias) for c in range(special + 1)])
    ends = ((points[:-1] + points[1:]) / 2).astype(np.float32)
    values = [points.astype(np.float32), ends, np.nextafter(ends, np.float32(np.inf)),
              np.nextafter(ends, np.float32(0))]  # fmt: skip
    values.append(np.array([1e-45, 1e-38, 1e6, 3e38, np.inf], np.float32))
    values = np.concatenate(values)
    values = np.concatenate([values, -values])
    expected = expected_of(values, mantissa, bias, special, infinity)
    same("truncf " + name, cast("truncf", values, "f32", name), expected, values)
    # One at a time, for what scalar code does.
    for i in range(0, values.size, 97):
        one = cast("truncf", values[i : i + 1].copy(), "f32", name)
        same("truncf " + name, one, expected[i : i + 1], values[i : i + 1])
    nan = cast("truncf", np.array([np.nan, -np.nan], np.float32), "f32", name)
    assert np.all((nan & 0x7F) == (0x7F if infinity is None else 0x7E)), nan
    print(name, "ok")
