# Generated kernels compute what numpy computes in f64, over rows shorter and
# longer than registers and chunks. Tolerances: a sum of n terms of size s is off
# by at most n / lanes * eps * s (one partial sum a lane); an elementwise result
# by a few eps of its largest intermediate.
#
# REQUIRES: compiler, numpy
# RUN: %python %s %mpcomm-opt %cc

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))

import numpy as np

import kernel_library as library
from kernel_builder import Kernel, Tools, from_bf16, to_bf16

EPS = 2.0**-24
random = np.random.default_rng(7)
tools = Tools(opt=sys.argv[1], clang=sys.argv[2])
failures = []


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def check(what, got, expected, tolerance):
    got = np.asarray(got, np.float64)
    error = np.abs(got - expected)
    bad = ~(error <= tolerance)
    if bad.any():
        at = np.unravel_index(np.argmax(bad), bad.shape) if bad.shape else ()
        failures.append(
            "%s: %d of %d off, first at %s: %r, expected %r"
            % (what, bad.sum(), bad.size, at, got[at], np.asarray(expected)[at])
        )
        print("FAIL", failures[-1])


def terms(n):
    """Additions that one partial sum of n terms goes through, at most."""
    return n / 16.0 + 8


def erf(x):
    # Abramowitz and Stegun are not good enough: the series and the tail by
    # integration of exp(-t^2) with Gauss-Legendre.
    nodes, weights = np.polynomial.legendre.leggauss(60)
    t = np.multiply.outer(x / 2, nodes + 1)
    return 2 / np.sqrt(np.pi) * (np.exp(-t * t) @ weights) * x / 2


def bias_gelu(rows, columns):
    run = tools.compile(*library.bias_gelu(rows, columns))
    x, b, y = 2 * normal(rows, columns), normal(columns), np.empty((rows, columns), np.float32)
    run(x, b, y)
    v = x.astype(np.float64) + b
    check("bias_gelu %dx%d" % (rows, columns), y, v / 2 * (1 + erf(v / np.sqrt(2))),
          8 * EPS * np.maximum(np.abs(v), 1))


def softmax_of(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax(rows, columns):
    run = tools.compile(*library.softmax(rows, columns))
    x, y = 3 * normal(rows, columns), np.empty((rows, columns), np.float32)
    run(x, y)
    expected = softmax_of(x.astype(np.float64))
    # The argument of exp is off by an ulp of up to 16, so exp by that, relative.
    check("softmax %dx%d" % (rows, columns), y, expected,
          expected * EPS * (16 + 4 + terms(columns)) + 1e-37)


def strided_softmax(rows, columns):
    k, returned = library.softmax(rows, columns, layout=[columns + 5, 1])
    run = tools.compile(k, [*returned])
    x = 3 * normal(rows, columns + 5)
    y = np.empty((rows, columns), np.float32)
    run(x, y)
    expected = softmax_of(x[:, :columns].astype(np.float64))
    check("strided softmax", y, expected, expected * EPS * (20 + terms(columns)) + 1e-37)


def masked_softmax(batch, heads, rows, columns):
    run = tools.compile(*library.masked_softmax(batch, heads, rows, columns))
    mask = np.triu(np.ones((rows, columns), np.uint8), 1)
    y = 4 * normal(batch, heads, rows, columns)
    expected = softmax_of(np.where(mask, -np.inf, y.astype(np.float64) / 8))
    run(mask, y)
    check("masked_softmax %d" % columns, y, expected,
          expected * EPS * (8 + terms(columns)) + 1e-37)


def layer_norm(rows, columns):
    run = tools.compile(*library.layer_norm(rows, columns))
    x, gamma, beta = normal(rows, columns), normal(columns), normal(columns)
    y = np.empty((rows, columns), np.float32)
    mean, rstd = np.empty(rows, np.float32), np.empty(rows, np.float32)
    run(x, gamma, beta, y, mean, rstd)
    wide = x.astype(np.float64)
    mu = wide.mean(1)
    r = 1 / np.sqrt(wide.var(1) + 1e-5)
    slack = EPS * (8 + terms(columns))
    hat = (wide - mu[:, None]) * r[:, None]
    check("layer_norm mean %d" % columns, mean, mu, slack * np.abs(wide).max())
    check("layer_norm rstd %d" % columns, rstd, r, slack * r * 4 * (1 + 1e-5 * r * r) + (r > 50) * 1e-3 * r)
    scale = np.abs(gamma) * (np.abs(hat) + np.abs(wide).max() * r[:, None]) + np.abs(beta)
    check("layer_norm y %d" % columns, y, hat * gamma + beta, 4 * slack * scale + 1e-30)


def layer_norm_grad(rows, columns):
    run = tools.compile(*library.layer_norm_grad(rows, columns))
    dy, x, gamma = normal(rows, columns), normal(rows, columns), normal(columns)
    mean, rstd = x.mean(1), (1 / np.sqrt(x.var(1) + 1e-1)).astype(np.float32)
    dx = np.empty((rows, columns), np.float32)
    dgamma, dbeta = normal(columns), normal(columns)
    run(dy, x, mean, rstd, gamma, dx, dgamma, dbeta)
    w = [a.astype(np.float64) for a in (dy, x, mean, rstd, gamma)]
    hat = (w[1] - w[2][:, None]) * w[3][:, None]
    g = w[0] * w[4]
    expected = (g - g.mean(1)[:, None] - hat * (g * hat).mean(1)[:, None]) * w[3][:, None]
    scale = np.abs(g * hat).max() * np.abs(hat).max() * w[3].max() + np.abs(g).max() * w[3].max()
    name = "layer_norm_grad %dx%d " % (rows, columns)
    check(name + "dx", dx, expected, 4 * EPS * (8 + terms(columns)) * scale)
    check(name + "dgamma", dgamma, (w[0] * hat).sum(0), EPS * (rows + 4) * np.abs(w[0] * hat).sum(0) + 1e-6)
    check(name + "dbeta", dbeta, w[0].sum(0), EPS * (rows + 1) * np.abs(w[0]).sum(0) + 1e-7)


def column_sum(rows, columns):
    run = tools.compile(*library.column_sum(rows, columns))
    x, y = normal(rows, columns), normal(columns)
    run(x, y)
    wide = x.astype(np.float64)
    check("column_sum %dx%d" % (rows, columns), y, wide.sum(0), EPS * rows * np.abs(wide).sum(0))


def total_sum(rows, columns):
    run = tools.compile(*library.total_sum(rows, columns))
    x = normal(rows, columns)
    a, b = np.empty((), np.float32), np.empty((), np.float32)
    run(x, a, b)
    wide = x.astype(np.float64)
    check("total_sum %dx%d" % (rows, columns), a, wide.sum(), EPS * (rows + terms(columns)) * np.abs(wide).sum())
    check("sum of maxima", b, wide.max(1).sum(), EPS * rows * np.abs(wide.max(1)).sum())


def adamw(n):
    run = tools.compile(*library.adamw(n))
    g, p, m = normal(n), normal(n), normal(n)
    v = np.abs(normal(n))
    lr, c1, c2 = (np.array(a, np.float32) for a in (1e-3, 0.19, 0.002))
    w = [a.astype(np.float64) for a in (g, p, m, v, lr, c1, c2)]
    m1 = 0.9 * w[2] + 0.1 * w[0]
    v1 = 0.999 * w[3] + 0.001 * w[0] ** 2
    step = w[4] * (m1 / w[5]) / (np.sqrt(v1 / w[6]) + 1e-8)
    run(g, lr, c1, c2, p, m, v)
    check("adamw m", m, m1, 4 * EPS * (np.abs(w[2]) + np.abs(w[0])))
    check("adamw v", v, v1, 4 * EPS * (w[3] + w[0] ** 2))
    # m1 may cancel; its error is that of its terms.
    check("adamw p", p, w[1] * (1 - w[4] * 0.01) - step,
          8 * EPS * (np.abs(w[1]) + np.abs(step) + (np.abs(w[2]) + np.abs(w[0])) * np.abs(step / m1)))


def cross_entropy(rows, columns):
    run = tools.compile(*library.cross_entropy(rows, columns))
    x = 3 * normal(rows, columns)
    t = random.integers(0, columns, rows)
    loss, lse = np.empty((), np.float32), np.empty(rows, np.float32)
    run(x, t, loss, lse)
    wide = x.astype(np.float64)
    expected = np.log(np.exp(wide - wide.max(1)[:, None]).sum(1)) + wide.max(1)
    slack = EPS * (32 + terms(columns))
    check("lse %dx%d" % (rows, columns), lse, expected, slack * (1 + np.abs(expected)))
    each = expected - wide[np.arange(rows), t]
    check("loss %dx%d" % (rows, columns), loss, each.mean(), (slack + rows * EPS) * (np.abs(each).mean() + 16))


def embedding(vocabulary, rows, columns):
    run = tools.compile(*library.embedding(vocabulary, rows, columns))
    table, ids = normal(vocabulary, columns), random.integers(0, vocabulary, rows)
    y = np.empty((rows, columns), np.float32)
    run(table, ids, y)
    check("embedding %dx%d" % (rows, columns), y, table[ids], 0)


def scatter_add(vocabulary, rows, columns, padding):
    run = tools.compile(*library.scatter_add(vocabulary, rows, columns, padding))
    dy, ids = normal(rows, columns), random.integers(0, vocabulary, rows)
    d = normal(vocabulary, columns)
    run(dy, ids, d)
    expected = np.zeros((vocabulary, columns), np.float32)
    for row, i in zip(dy, ids):
        if i != padding:
            expected[i] += row
    check("scatter_add %dx%d" % (rows, columns), d, expected, 0)


def transpose(rows, columns):
    run = tools.compile(*library.transpose(rows, columns))
    x, y = normal(columns, rows), np.empty((rows, columns), np.float32)
    run(x, y)
    check("transpose %dx%d" % (rows, columns), y, x.T, 0)


def bf16_row_sums(rows, columns):
    """y = bf16(x * 2 + 1) and bf16 column sums and row sums of x."""
    k = Kernel("bf16")
    x = k.input("x", [rows, columns], "bf16")
    y, c, s = k.output("y", [rows, columns], "bf16"), k.output("c", [columns], "bf16"), k.output("s", [rows], "bf16")
    r = k.generic("pp", [(x, "d0, d1")], [(y, "d0, d1")],
                  """%two = arith.constant 2.000000e+00 : bf16
                  %one = arith.constant 1.000000e+00 : f32
                  %v = arith.mulf {0}, %two : bf16
                  %w = arith.extf %v : bf16 to f32
                  %z = arith.addf %w, %one : f32
                  %r = arith.truncf %z : f32 to bf16
                  yield %r : bf16""")
    columns_sum = k.generic("rp", [(x, "d0, d1")], [(k.fill("0.0", c), "d1")],
                            "%s = arith.addf {0}, {o0} : bf16\nyield %s : bf16")
    row_sum = k.generic("pr", [(x, "d0, d1")], [(k.fill("0.0", s), "d0")],
                        "%s = arith.addf {0}, {o0} : bf16\nyield %s : bf16")
    run = tools.compile(k, [r, columns_sum, row_sum])
    x = to_bf16(normal(rows, columns))
    y, c, s = np.empty((rows, columns), np.uint16), np.empty(columns, np.uint16), np.empty(rows, np.uint16)
    run(x, y, c, s)
    wide = from_bf16(x).astype(np.float64)
    half = 2.0**-8 * (1 + 2.0**-8)
    name = "bf16 %dx%d " % (rows, columns)
    check(name + "y", from_bf16(y), wide * 2 + 1, half * np.abs(wide * 2 + 1) + 1e-30)
    check(name + "columns", from_bf16(c), wide.sum(0), half * np.abs(wide.sum(0)) + rows * EPS * np.abs(wide).sum(0))
    check(name + "rows", from_bf16(s), wide.sum(1), half * np.abs(wide.sum(1)) + columns * EPS * np.abs(wide).sum(1))


def mid_reduction(a, b, c):
    """x - max over the middle dimension: the column is not the last one."""
    k = Kernel("mid")
    x, y = k.input("x", [a, b, c]), k.output("y", [a, b, c])
    full, rest = "d0, d1, d2", "d0, d2"
    top = k.generic("prp", [(x, full)], [(k.fill("0xFF800000", k.empty([a, c])), rest)],
                    "%s = arith.maximumf {0}, {o0} : f32\nyield %s : f32")
    r = k.generic("ppp", [(x, full), (top, rest)], [(y, full)],
                  "%d = arith.subf {0}, {1} : f32\nyield %d : f32")
    run = tools.compile(k, [r])
    x, y = normal(a, b, c), np.empty((a, b, c), np.float32)
    run(x, y)
    check("mid_reduction", y, x - x.max(1, keepdims=True), 0)


def bools(rows, columns):
    """A mask made, negated and stored as bytes; a column vector of rows."""
    k = Kernel("bools")
    x, m = k.input("x", [rows, columns]), k.input("m", [rows, columns], "i1")
    y, n = k.output("y", [rows, columns], "i1"), k.output("n", [rows, columns], "i1")
    r = k.generic("pp", [(x, "d0, d1"), (m, "d0, d1")], [(y, "d0, d1"), (n, "d0, d1")],
                  """%zero = arith.constant 0.0 : f32
                  %t = arith.constant true
                  %i = linalg.index 0 : index
                  %j = linalg.index 1 : index
                  %ge = arith.cmpi sge, %i, %j : index
                  %gt = arith.cmpf ogt, {0}, %zero : f32
                  %b = arith.andi %gt, %ge : i1
                  %nm = arith.xori {1}, %t : i1
                  yield %b, %nm : i1, i1""")
    run = tools.compile(k, r)
    x, m = normal(rows, columns), random.integers(0, 2, (rows, columns)).astype(np.uint8)
    y, n = np.full((rows, columns), 7, np.uint8), np.full((rows, columns), 7, np.uint8)
    run(x, m, y, n)
    check("bools y", y, (x > 0) & np.tri(rows, columns, 0, bool), 0)
    check("bools n", n, 1 - m, 0)


def scalars():
    """No loops at all; f64 in the middle."""
    k = Kernel("scalars")
    step, out = k.input("step", []), k.output("out", [])
    r = k.generic("", [(step, "")], [(out, "")],
                  """%one = arith.constant 1.000000e+00 : f64
                  %log = arith.constant -0.1053605156578263 : f64
                  %s = arith.extf {0} : f32 to f64
                  %m = arith.mulf %s, %log : f64
                  %e = math.exp %m : f64
                  %d = arith.subf %one, %e : f64
                  %r = arith.truncf %d : f64 to f32
                  yield %r : f32""")
    run = tools.compile(k, [r])
    step, out = np.array(3, np.float32), np.empty((), np.float32)
    run(step, out)
    check("scalars", out, 1 - 0.9**3, 2 * EPS)


def same_bits(what, kernel, x, shape):
    """The same bits, however large the sums are: a shard has those of the whole."""
    found = []
    for options in "", "cache-bytes=0":
        run, y = tools.compile(*kernel, options, fused=True), np.empty(shape, np.float32)
        run(x, y)
        found.append(y)
    if found[0].tobytes() != found[1].tobytes():
        failures.append("%s has other bits where sums fit into no cache" % what)
    return found[1]


def plain_sum(terms, columns):
    what = "column_sum %dx%d" % (terms, columns)
    same_bits(what, library.column_sum(terms, columns), normal(terms, columns), columns)
    # 0.0 and terms of -0.0 are 0.0.
    x = np.full((terms, columns), -0.0, np.float32)
    if np.signbit(same_bits(what + " of -0.0", library.column_sum(terms, columns), x, columns)).any():
        failures.append(what + " of -0.0 is -0.0")


def sum_over_two(outer, kept, inner, columns):
    what, x = "sum_over_two %dx%dx%dx%d" % (outer, kept, inner, columns), normal(outer, kept, inner, columns)
    y = same_bits(what, library.sum_over_two(outer, kept, inner, columns), x, (kept, columns))
    exact = x.astype(np.float64).sum((0, 2))
    check(what, y, exact, (outer * inner + 1) * EPS * np.abs(x).astype(np.float64).sum((0, 2)))


def maxima(rows, columns):
    """With NaNs of both signs, infinities and zeros of both signs, at both ends of rows and between."""
    x = normal(rows, columns)
    x[random.random(x.shape) < 0.1] = -0.0
    x[:, random.random(columns) < 0.2] = -0.0
    x[random.random(x.shape) < 0.05] = -np.inf
    nans = random.random(x.shape) < 0.5 / rows
    nans[0, -1] = nans[-1, 0] = True
    x.view(np.uint32)[nans] = np.where(random.random(nans.sum()) < 0.5, 0x7FC00000, 0xFFC00000)
    x[:, columns // 2] = np.nan
    expected = np.abs(x).max(0)  # a NaN where there is one
    found = same_bits("magnitudes", library.column_maximum(rows, columns, True), x, columns)
    np.array_equal(found, expected, equal_nan=True) or failures.append("magnitudes %dx%d" % (rows, columns))
    # maxnumf leaves NaNs out: -inf where there is nothing else.
    expected = np.where(np.isnan(x), np.float32(-np.inf), x).max(0)
    found = same_bits("maxnumf", library.column_maximum(rows, columns, False), x, columns)
    np.array_equal(found, expected) or failures.append("maxnumf %dx%d" % (rows, columns))
    run, y = tools.compile(*library.row_magnitudes(columns, rows), fused=True), np.empty(columns, np.float32)
    run(np.ascontiguousarray(x.T), y)
    np.array_equal(y, np.abs(x).max(0), equal_nan=True) or failures.append("row_magnitudes %dx%d" % (rows, columns))


def scaled_sum(terms, rows, columns, start):
    """Also the same bits."""
    x, f = normal(terms, rows, columns), normal(terms, rows)
    products = x.astype(np.float64) * f[..., None]
    found = []
    for options in "", "cache-bytes=0":
        run = tools.compile(*library.scaled_sum(terms, rows, columns, start), options, fused=True)
        y = np.empty((rows, columns), np.float32)
        run(x, f, y)
        what = "scaled_sum %dx%dx%d %s" % (terms, rows, columns, options)
        check(what, y, products.sum(0) + float(start), (terms + 2) * EPS * (np.abs(products).sum(0) + abs(float(start))))
        found.append(y)
    if found[0].tobytes() != found[1].tobytes():
        failures.append("scaled_sum %dx%dx%d has other bits where sums fit into no cache" % (terms, rows, columns))


SIZES = [1, 3, 15, 16, 17, 63, 64, 100, 257, 1000]
for n in SIZES:
    softmax(5, n)
    layer_norm(6, n)
for n in [1, 15, 17, 64, 257]:
    bias_gelu(3, n)
    layer_norm_grad(7, n)
    column_sum(9, n)
    total_sum(5, n)
    adamw(n)
    cross_entropy(4, n)
    transpose(3, n)
for n in [10, 128, 300]:
    bf16_row_sums(6, n)
    embedding(11, 13, n)
    scatter_add(11, 13, n, -1)
    scatter_add(11, 29, n, 4)
    masked_softmax(2, 3, 5, n)
    bools(5, n)
strided_softmax(4, 40)
layer_norm_grad(3, 33)
column_sum(1024, 48)
for terms in 2, 3, 4, 5, 7, 8, 9, 12:
    scaled_sum(terms, 5, 70, "0.0")
    plain_sum(terms, 70)
for sizes in (2, 5, 4, 70), (2, 3, 3, 40), (3, 2, 8, 33), (1, 4, 5, 16), (5, 3, 1, 20):
    sum_over_two(*sizes)
for rows in 1, 2, 5, 8, 17, 40:
    maxima(rows, 70)
    maxima(rows, 129)
scaled_sum(2, 3, 40, "0.75")
scaled_sum(8, 3, 40, "0.75")
mid_reduction(3, 20, 5)
transpose(130, 70)
scalars()

if failures:
    sys.exit("%d checks failed: %s" % (len(failures), "; ".join(failures)))
print("all kernels agree with numpy")
