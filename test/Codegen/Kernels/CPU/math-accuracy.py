# mpcomm-expand-math against libm in f64: the largest error in units of the last
# place of f32 over samples of all magnitudes, and the special values.
#
# REQUIRES: compiler, numpy
# RUN: %python %s %mpcomm-opt %cc

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))

import numpy as np

import kernel_library as library
from kernel_builder import Kernel, Tools

N = 1 << 17
inf, nan = np.inf, np.nan
random = np.random.default_rng(11)
tools = Tools(opt=sys.argv[1], clang=sys.argv[2])
failed = False


def magnitudes(low, high, negative=True):
    """Log-uniform magnitudes with both signs, and uniform ones."""
    x = np.exp(random.uniform(np.log(low), np.log(high), N // 2))
    y = random.uniform(0, high, N - N // 2)
    both = np.concatenate([x, y]).astype(np.float32)
    return np.where(random.integers(0, 2, N) == 0, both, -both) if negative else both


def report(name, x, y, expected, bound, floor=0.0):
    """`floor`: results below it may be zero."""
    global failed
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = expected.astype(np.float32)
    unit = np.spacing(np.abs(rounded)).astype(np.float64)
    finite = np.isfinite(rounded) & (np.abs(expected) >= floor)
    error = np.abs(y[finite].astype(np.float64) - expected[finite]) / unit[finite]
    worst = error.argmax()
    same = np.array_equal(
        np.where(np.isfinite(rounded), 0, rounded), np.where(np.isfinite(rounded), 0, y),
        equal_nan=True)
    small = np.abs(y[np.abs(expected) < floor]).max(initial=0.0) <= 2 * floor
    good = error[worst] <= bound and same and small
    failed |= not good
    print("%-6s %6.2f ulp at %r (bound %g)%s" % (
        name, error[worst], tuple(a[finite][worst] for a in x), bound,
        "" if good else "  FAIL%s" % ("" if same else ": not finite where it should be, or the other way")))


def one(op, x, reference, bound, floor=0.0, special=True):
    """`special`: with numbers so large that they have no period."""
    ends = np.array([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 1e-45, 3e38, -3e38, 1e-38], np.float32)
    x = np.concatenate([x, ends if special else ends[np.abs(ends) < 2]])
    run = tools.compile(*library.unary("math." + op, x.size))
    y = np.empty_like(x)
    run(x, y)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64))
    report(op, (x,), y, expected, bound, floor)
    # The same through scalar code.
    k = Kernel("scalar")
    a, r = k.input("a", []), k.output("r", [])
    out = k.generic("", [(a, "")], [(r, "")], "%%r = math.%s {0} : f32\nyield %%r : f32" % op)
    run = tools.compile(k, [out])
    for i in range(0, x.size, x.size // 7):
        r = np.empty((), np.float32)
        run(x[i : i + 1].copy(), r)
        if not (r == y[i] or (np.isnan(r) and np.isnan(y[i]))):
            # Contraction may differ between the two: one unit.
            report(op + " scalar", (x[i : i + 1],), r.reshape(1), expected[i : i + 1], bound, floor)


def power():
    x = np.concatenate([magnitudes(1e-30, 1e30), np.full(N, 0.999, np.float32)])
    y = np.concatenate([magnitudes(1e-3, 4), random.integers(0, 100000, N).astype(np.float32)])
    whole = random.integers(0, 3, N) == 0
    y[:N][whole] = np.round(y[:N][whole])
    special = np.array([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 2.0, -2.0, 3.0, 0.5, -0.5, -3.0], np.float32)
    a, b = np.meshgrid(special, special)
    x, y = np.concatenate([x, a.ravel()]), np.concatenate([y, b.ravel()])
    k = Kernel("power")
    p, q, r = k.input("p", [x.size]), k.input("q", [x.size]), k.output("r", [x.size])
    out = k.generic("p", [(p, "d0"), (q, "d0")], [(r, "d0")], "%r = math.powf {0}, {1} : f32\nyield %r : f32")
    run = tools.compile(k, [out])
    result = np.empty_like(x)
    run(x, y, result)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64))
    report("powf", (x, y), result, expected, 1.0)


erf = np.vectorize(math.erf)
one("exp", magnitudes(1e-6, 100), np.exp, 2.0, floor=2.0**-125)
one("exp2", magnitudes(1e-6, 126), np.exp2, 1.0, floor=2.0**-126)
one("log", magnitudes(1e-38, 3e38, negative=False), np.log, 2.0)
one("log", (1 + random.uniform(-0.3, 0.4, N)).astype(np.float32), np.log, 2.0)
one("tanh", magnitudes(1e-6, 12), np.tanh, 6.0)
one("erf", magnitudes(1e-6, 5), erf, 7.0)
one("rsqrt", magnitudes(1e-37, 1e37, negative=False), lambda x: 1 / np.sqrt(x), 1.5)
power()
# In f64, rounded once.
unit = np.concatenate([random.uniform(-1, 1, N // 2).astype(np.float32), magnitudes(1e-30, 1)[N // 2 :]])
everywhere = magnitudes(1e-30, 3e38)
one("acos", unit, np.arccos, 1.0)
one("asin", unit, np.arcsin, 1.0)
one("atan", everywhere, np.arctan, 1.0)
one("acosh", magnitudes(1, 3e38, negative=False), np.arccosh, 1.0)
one("asinh", everywhere, np.arcsinh, 1.0)
one("atanh", unit, np.arctanh, 1.0)
one("cosh", magnitudes(1e-20, 89), np.cosh, 1.0)
one("sinh", magnitudes(1e-20, 89), np.sinh, 1.0)
one("cos", magnitudes(1e-20, 1e6), np.cos, 1.0, special=False)
one("sin", magnitudes(1e-20, 1e6), np.sin, 1.0, special=False)
one("tan", magnitudes(1e-20, 1e6), np.tan, 1.0, special=False)
one("log2", np.abs(everywhere), np.log2, 1.0)
one("log10", np.abs(everywhere), np.log10, 1.0)
one("erfc", magnitudes(1e-20, 10), np.vectorize(math.erfc), 1.0)
# Upstream's.
one("expm1", magnitudes(1e-30, 89), np.expm1, 3.0)
one("log1p", np.concatenate([unit, np.abs(everywhere)]), np.log1p, 3.0)
sys.exit(failed)
