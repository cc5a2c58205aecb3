# ===- kernel_library.py - kernels of training steps ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The kernels that training steps are made of, over rows of any length. Each
function returns a Kernel and the names of what it returns."""

from kernel_builder import Kernel


def unary(op, n, dtype="f32"):
    k = Kernel("unary")
    x, y = k.input("x", [n], dtype), k.output("y", [n], dtype)
    r = k.generic("p", [(x, "d0")], [(y, "d0")], "%%r = %s {0} : %s\nyield %%r : %s" % (op, dtype, dtype))
    return k, [r]


def bias_gelu(rows, columns):
    """y = gelu(x + bias), exact."""
    k = Kernel("bias_gelu")
    x, b = k.input("x", [rows, columns]), k.input("b", [columns])
    y = k.output("y", [rows, columns])
    r = k.generic(
        "pp",
        [(x, "d0, d1"), (b, "d1")],
        [(y, "d0, d1")],
        """%half = arith.constant 5.000000e-01 : f32
        %one = arith.constant 1.000000e+00 : f32
        %root = arith.constant 0.707106769 : f32
        %v = arith.addf {0}, {1} : f32
        %s = arith.mulf %v, %root : f32
        %e = math.erf %s : f32
        %p = arith.addf %e, %one : f32
        %h = arith.mulf %v, %half : f32
        %r = arith.mulf %h, %p : f32
        yield %r : f32""",
    )
    return k, [r]


def row_reduce(k, x, rows, columns, op, init, lead="d0"):
    start = k.fill(init, k.empty([rows]))
    return k.generic(
        "pr", [(x, "d0, d1")], [(start, lead)],
        "%%s = arith.%s {0}, {o0} : f32\nyield %%s : f32" % op,
    )


def softmax(rows, columns, layout=None):
    k = Kernel("softmax")
    x = k.input("x", [rows, columns], layout=layout)
    y = k.output("y", [rows, columns])
    top = row_reduce(k, x, rows, columns, "maxnumf", "0xFF800000")
    e = k.generic(
        "pp", [(x, "d0, d1"), (top, "d0")], [(k.empty([rows, columns]), "d0, d1")],
        "%d = arith.subf {0}, {1} : f32\n%e = math.exp %d : f32\nyield %e : f32",
    )
    total = row_reduce(k, e, rows, columns, "addf", "0.0")
    r = k.generic(
        "pp", [(e, "d0, d1"), (total, "d0")], [(y, "d0, d1")],
        "%r = arith.divf {0}, {1} : f32\nyield %r : f32",
    )
    return k, [r]


def masked_softmax(batch, heads, rows, columns):
    """softmax(where(mask, -inf, x / 8)), mask [rows, columns], in place."""
    k = Kernel("masked_softmax")
    shape = [batch, heads, rows, columns]
    full = "d0, d1, d2, d3"
    m = k.input("m", [rows, columns], "i1")
    y = k.output("y", shape)
    s = k.generic(
        "pppp", [(y, full), (m, "d2, d3")], [(k.empty(shape), full)],
        """%inf = arith.constant 0xFF800000 : f32
        %scale = arith.constant 1.250000e-01 : f32
        %v = arith.mulf {0}, %scale : f32
        %s = arith.select {1}, %inf, %v : f32
        yield %s : f32""",
    )
    top = k.generic(
        "pppr", [(s, full)], [(k.fill("0xFF800000", k.empty(shape[:3])), "d0, d1, d2")],
        "%s = arith.maxnumf {0}, {o0} : f32\nyield %s : f32",
    )
    e = k.generic(
        "pppp", [(s, full), (top, "d0, d1, d2")], [(k.empty(shape), full)],
        "%d = arith.subf {0}, {1} : f32\n%e = math.exp %d : f32\nyield %e : f32",
    )
    total = k.generic(
        "pppr", [(e, full)], [(k.fill("0.0", k.empty(shape[:3])), "d0, d1, d2")],
        "%s = arith.addf {0}, {o0} : f32\nyield %s : f32",
    )
    r = k.generic(
        "pppp", [(e, full), (total, "d0, d1, d2")], [(y, full)],
        "%r = arith.divf {0}, {1} : f32\nyield %r : f32",
    )
    return k, [r]


def layer_norm(rows, columns):
    k = Kernel("layer_norm")
    x = k.input("x", [rows, columns])
    gamma, beta = k.input("gamma", [columns]), k.input("beta", [columns])
    y = k.output("y", [rows, columns])
    mean, rstd = k.output("mean", [rows]), k.output("rstd", [rows])
    sums = row_reduce(k, x, rows, columns, "addf", "0.0")
    mu = k.generic(
        "p", [(sums, "d0")], [(mean, "d0")],
        "%%n = arith.constant %r : f32\n%%m = arith.divf {0}, %%n : f32\nyield %%m : f32" % float(columns),
    )
    squares = k.generic(
        "pr", [(x, "d0, d1"), (mu, "d0")], [(k.fill("0.0", k.empty([rows])), "d0")],
        """%d = arith.subf {0}, {1} : f32
        %q = arith.mulf %d, %d : f32
        %s = arith.addf {o0}, %q : f32
        yield %s : f32""",
    )
    r = k.generic(
        "p", [(squares, "d0")], [(rstd, "d0")],
        """%%n = arith.constant %r : f32
        %%eps = arith.constant 1.000000e-05 : f32
        %%v = arith.divf {0}, %%n : f32
        %%e = arith.addf %%v, %%eps : f32
        %%r = math.rsqrt %%e : f32
        yield %%r : f32""" % float(columns),
    )
    out = k.generic(
        "pp",
        [(x, "d0, d1"), (mu, "d0"), (r, "d0"), (gamma, "d1"), (beta, "d1")],
        [(y, "d0, d1")],
        """%d = arith.subf {0}, {1} : f32
        %h = arith.mulf %d, {2} : f32
        %g = arith.mulf %h, {3} : f32
        %y = arith.addf %g, {4} : f32
        yield %y : f32""",
    )
    return k, [out, mu, r]


def layer_norm_grad(rows, columns):
    k = Kernel("layer_norm_grad")
    dy, x = k.input("dy", [rows, columns]), k.input("x", [rows, columns])
    mean, rstd = k.input("mean", [rows]), k.input("rstd", [rows])
    gamma = k.input("gamma", [columns])
    dx = k.output("dx", [rows, columns])
    dgamma, dbeta = k.output("dgamma", [columns]), k.output("dbeta", [columns])
    full, row = "d0, d1", "d0"
    hat = k.generic(
        "pp", [(x, full), (mean, row), (rstd, row)], [(k.empty([rows, columns]), full)],
        "%d = arith.subf {0}, {1} : f32\n%h = arith.mulf %d, {2} : f32\nyield %h : f32",
    )
    g = k.generic(
        "pp", [(dy, full), (gamma, "d1")], [(k.empty([rows, columns]), full)],
        "%g = arith.mulf {0}, {1} : f32\nyield %g : f32",
    )
    s1 = row_reduce(k, g, rows, columns, "addf", "0.0")
    s2 = k.generic(
        "pr", [(g, full), (hat, full)], [(k.fill("0.0", k.empty([rows])), row)],
        "%p = arith.mulf {0}, {1} : f32\n%s = arith.addf %p, {o0} : f32\nyield %s : f32",
    )
    out = k.generic(
        "pp", [(g, full), (hat, full), (s1, row), (s2, row), (rstd, row)], [(dx, full)],
        """%%n = arith.constant %r : f32
        %%a = arith.mulf {2}, %%n : f32
        %%b = arith.mulf {3}, %%n : f32
        %%c = arith.mulf {1}, %%b : f32
        %%d = arith.subf {0}, %%a : f32
        %%e = arith.subf %%d, %%c : f32
        %%r = arith.mulf %%e, {4} : f32
        yield %%r : f32""" % (1.0 / columns),
    )
    dg = k.generic(
        "rp", [(dy, full), (hat, full)], [(k.fill("0.0", dgamma), "d1")],
        "%p = arith.mulf {0}, {1} : f32\n%s = arith.addf %p, {o0} : f32\nyield %s : f32",
    )
    db = k.generic(
        "rp", [(dy, full)], [(k.fill("0.0", dbeta), "d1")],
        "%s = arith.addf {0}, {o0} : f32\nyield %s : f32",
    )
    return k, [out, dg, db]


def column_sum(rows, columns, dtype="f32"):
    k = Kernel("column_sum")
    x, y = k.input("x", [rows, columns], dtype), k.output("y", [columns], dtype)
    r = k.generic(
        "rp", [(x, "d0, d1")], [(k.fill("0.0", y), "d1")],
        "%%s = arith.addf {0}, {o0} : %s\nyield %%s : %s" % (dtype, dtype),
    )
    return k, [r]


def scaled_sum(terms, rows, columns, start):
    """Sums of `terms` blocks of rows, each row with a factor of its own."""
    k = Kernel("scaled_sum")
    x, f = k.input("x", [terms, rows, columns]), k.input("f", [terms, rows])
    y = k.output("y", [rows, columns])
    r = k.generic(
        "rpp", [(x, "d0, d1, d2"), (f, "d0, d1")], [(k.fill(start, y), "d1, d2")],
        "%p = arith.mulf {0}, {1} : f32\n%s = arith.addf {o0}, %p : f32\nyield %s : f32",
    )
    return k, [r]


def sum_over_two(outer, kept, inner, columns):
    """Sums over two dimensions that another one lies between."""
    k = Kernel("sum_over_two")
    x, y = k.input("x", [outer, kept, inner, columns]), k.output("y", [kept, columns])
    r = k.generic(
        "rprp", [(x, "d0, d1, d2, d3")], [(k.fill("0.0", y), "d1, d3")],
        "%s = arith.addf {0}, {o0} : f32\nyield %s : f32",
    )
    return k, [r]


def column_maximum(rows, columns, of_magnitudes):
    """Of magnitudes by maximumf, else by maxnumf, from -inf on."""
    k = Kernel("column_maximum")
    x, y = k.input("x", [rows, columns]), k.output("y", [columns])
    body = ("%m = math.absf {0} : f32\n%s = arith.maximumf %m, {o0} : f32\nyield %s : f32" if of_magnitudes
            else "%s = arith.maxnumf {0}, {o0} : f32\nyield %s : f32")  # fmt: skip
    r = k.generic("rp", [(x, "d0, d1")], [(k.fill("0xFF800000", y), "d1")], body)
    return k, [r]


def row_magnitudes(rows, columns):
    """The largest magnitude of each row, from 0 on."""
    k = Kernel("row_magnitudes")
    x, y = k.input("x", [rows, columns]), k.output("y", [rows])
    r = k.generic(
        "pr", [(x, "d0, d1")], [(k.fill("0.0", y), "d0")],
        "%m = math.absf {0} : f32\n%s = arith.maximumf %m, {o0} : f32\nyield %s : f32",
    )
    return k, [r]


def total_sum(rows, columns):
    """The sum of all elements and that of their row maxima."""
    k = Kernel("total_sum")
    x = k.input("x", [rows, columns])
    a, b = k.output("a", []), k.output("b", [])
    s = k.generic(
        "rr", [(x, "d0, d1")], [(k.fill("0.0", a), "")],
        "%s = arith.addf {0}, {o0} : f32\nyield %s : f32",
    )
    top = row_reduce(k, x, rows, columns, "maximumf", "0xFF800000")
    t = k.generic(
        "r", [(top, "d0")], [(k.fill("0.0", b), "")],
        "%s = arith.addf {0}, {o0} : f32\nyield %s : f32",
    )
    return k, [s, t]


def adamw(n):
    """p, m, v in place; bias corrections are scalars."""
    k = Kernel("adamw")
    g = k.input("g", [n])
    lr, c1, c2 = k.input("lr", []), k.input("c1", []), k.input("c2", [])
    p, m, v = k.output("p", [n]), k.output("m", [n]), k.output("v", [n])
    results = k.generic(
        "p",
        [(g, "d0"), (p, "d0"), (m, "d0"), (v, "d0"), (lr, ""), (c1, ""), (c2, "")],
        [(p, "d0"), (m, "d0"), (v, "d0")],
        """%b1 = arith.constant 9.000000e-01 : f32
        %nb1 = arith.constant 1.000000e-01 : f32
        %b2 = arith.constant 9.990000e-01 : f32
        %nb2 = arith.constant 1.000000e-03 : f32
        %eps = arith.constant 1.000000e-08 : f32
        %wd = arith.constant 1.000000e-02 : f32
        %one = arith.constant 1.000000e+00 : f32
        %ma = arith.mulf {2}, %b1 : f32
        %mb = arith.mulf {0}, %nb1 : f32
        %m1 = arith.addf %ma, %mb : f32
        %g2 = arith.mulf {0}, {0} : f32
        %va = arith.mulf {3}, %b2 : f32
        %vb = arith.mulf %g2, %nb2 : f32
        %v1 = arith.addf %va, %vb : f32
        %mh = arith.divf %m1, {5} : f32
        %vh = arith.divf %v1, {6} : f32
        %sq = math.sqrt %vh : f32
        %de = arith.addf %sq, %eps : f32
        %up = arith.divf %mh, %de : f32
        %lw = arith.mulf {4}, %wd : f32
        %k = arith.subf %one, %lw : f32
        %pa = arith.mulf {1}, %k : f32
        %pb = arith.mulf {4}, %up : f32
        %p1 = arith.subf %pa, %pb : f32
        yield %p1, %m1, %v1 : f32, f32, f32""",
    )
    return k, results


def cross_entropy(rows, columns):
    """loss (mean over the rows) and log-sum-exp of each row."""
    k = Kernel("cross_entropy")
    x, t = k.input("x", [rows, columns]), k.input("t", [rows], "i64")
    loss, lse = k.output("loss", []), k.output("lse", [rows])
    top = row_reduce(k, x, rows, columns, "maxnumf", "0xFF800000")
    total = k.generic(
        "pr", [(x, "d0, d1"), (top, "d0")], [(k.fill("0.0", k.empty([rows])), "d0")],
        """%d = arith.subf {0}, {1} : f32
        %e = math.exp %d : f32
        %s = arith.addf %e, {o0} : f32
        yield %s : f32""",
    )
    l = k.generic(
        "p", [(total, "d0"), (top, "d0")], [(lse, "d0")],
        "%l = math.log {0} : f32\n%s = arith.addf %l, {1} : f32\nyield %s : f32",
    )
    picked = k.generic(
        "pr", [(x, "d0, d1"), (t, "d0")], [(k.fill("0.0", k.empty([rows])), "d0")],
        """%zero = arith.constant 0.0 : f32
        %i = linalg.index 1 : index
        %j = arith.index_cast %i : index to i64
        %c = arith.cmpi eq, %j, {1} : i64
        %v = arith.select %c, {0}, %zero : f32
        %s = arith.addf %v, {o0} : f32
        yield %s : f32""",
    )
    r = k.generic(
        "r", [(l, "d0"), (picked, "d0")], [(k.fill("0.0", loss), "")],
        """%%n = arith.constant %r : f32
        %%d = arith.subf {0}, {1} : f32
        %%v = arith.mulf %%d, %%n : f32
        %%s = arith.addf %%v, {o0} : f32
        yield %%s : f32""" % (1.0 / rows),
    )
    return k, [r, l]


def embedding(vocabulary, rows, columns):
    k = Kernel("embedding")
    table = k.input("table", [vocabulary, columns])
    ids = k.input("ids", [rows], "i64")
    y = k.output("y", [rows, columns])
    k.counter += 100
    dims = "%s" % k.tensor([vocabulary, columns], "f32")
    r = k.generic(
        "pp", [(ids, "d0")], [(y, "d0, d1")],
        """%i = arith.index_cast {0} : i64 to index
        %j = linalg.index 1 : index
        %v = tensor.extract TABLE[%i, %j] : TYPE
        yield %v : f32""",
    )
    k.lines[-1] = k.lines[-1].replace("TABLE", "%table").replace("TYPE", dims)
    return k, [r]


def scatter_add(vocabulary, rows, columns, padding=-1):
    k = Kernel("scatter_add")
    k.input("dy", [rows, columns])
    k.input("ids", [rows], "i64")
    d = k.output("d", [vocabulary, columns])
    more = "clamp" + (" skipped = %d" % padding if padding >= 0 else "")
    return k, [k.scatter("sum", "dy", "ids", k.fill("0.0", d), more=more)]


def transpose(rows, columns):
    k = Kernel("transpose")
    x, y = k.input("x", [columns, rows]), k.output("y", [rows, columns])
    r = k.generic("pp", [(x, "d1, d0")], [(y, "d0, d1")], "yield {0} : f32")
    return k, [r]
