# ===- layers.py - layers of networks and their gradients -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Layers that GPT-2, BERT and ResNet share. Each emits its forward ops and records its
backward ones; weights of linear layers are [out, in], as PyTorch's."""

import contextlib
import math


@contextlib.contextmanager
def scope(g, name):
    old, g.scope = g.scope, name
    yield
    g.scope = old


def add(g, a, b):
    return g.record(g.add(a, b), [a, b], lambda d: [d, d])


def linear(g, x, weight, bias=None):
    """y = x weightᵀ + bias over x's last dimension."""
    w = g.cast(weight)
    last, leading = len(x.shape) - 1, list(range(len(x.shape) - 1))
    y = g.dot("dot", x, w, ([last], [1]))
    b = None
    if bias is not None:
        b = g.cast(bias)
        y = g.same("addmm", "arith.addf", y, g.broadcast(b, [last], y.shape))

    def backward(d):
        yield g.dot("addmm", d, w, ([last], [0])) if x.needs_grad else None
        yield g.dot("weight", d, x, (leading, leading))
        if b is not None:
            yield g.reduce_sum(d, leading)

    return g.record(y, [x, w] + ([b] if b is not None else []), backward)


def layer_norm(g, x, weight, bias, eps="1.0e-05"):
    gamma, beta = g.cast(weight), g.cast(bias)
    leading, dtype = x.shape[:-1], x.dtype
    y, mean, rstd = g.functional(
        ["y", "mean", "rstd"], "mpcomm.layer_norm {}, {}, {}, eps = " + eps,
        [x, gamma, beta], (x.shape, dtype), (leading, dtype), (leading, dtype))

    def backward(d):
        return g.functional(
            ["dx", "weight", "bias"], "mpcomm.layer_norm_grad {}, {}, {}, {}, {}",
            [d, x, mean, rstd, gamma], (x.shape, dtype), (gamma.shape, dtype),
            (gamma.shape, dtype))

    return g.record(y, [x, gamma, beta], backward)


def embedding(g, table, ids):
    t = g.cast(table)
    y = g.functional("embedding", "mpcomm.gather {}, {}", [t, ids],
                     ((*ids.shape, t.shape[1]), t.dtype))
    return g.record(y, [t], lambda d: [g.functional(
        "embedding", "mpcomm.gather_grad {}, {}", [d, ids], (t.shape, t.dtype))])


def add_rows(g, x, table):
    """x[b, t] + table[t]: learned positions."""
    rows = g.cast(table)
    y = g.add(x, g.broadcast(rows, [1, 2], x.shape))
    return g.record(y, [x, rows], lambda d: [d, g.reduce_sum(d, [0])])


def gelu(g, x, tanh):
    approximate = " approximate tanh" if tanh else ""
    y = g.emit("gelu", "mpcomm.gelu %s%s : %s" % (x, approximate, x.type),
               (x.shape, x.dtype))
    return g.record(y, [x], lambda d: [g.emit(
        "gelu", "mpcomm.gelu_grad %s, %s%s : %s" % (d, x, approximate, x.type),
        (x.shape, x.dtype))])


def tanh(g, x):
    y = g.same("tanh", "math.tanh", x)

    def backward(d):
        one = g.constant(1.0, y.shape, y.dtype)
        yield g.mul(d, g.sub(one, g.mul(y, y)))

    return g.record(y, [x], backward)


def relu(g, x):
    zero = g.constant(0.0, x.shape, x.dtype)
    y = g.same("relu", "arith.maximumf", x, zero)

    def backward(d):
        positive = g.emit("cmp", "arith.cmpf ugt, %s, %s : %s" % (y, zero, y.type),
                          (y.shape, "i1"))
        yield g.emit("relu", "arith.select %s, %s, %s : %s, %s" % (
            positive, d, zero, positive.type, d.type), (d.shape, d.dtype))

    return g.record(y, [x], backward)


def attention(g, qkv, heads, mask):
    """Softmax attention of the parts [q | k | v] of the last dimension. `mask` is
    ("causal", i1 [t, t]: what may not be seen) or ("additive", [b, t])."""
    b, t, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    size = width // heads
    scores_shape = (b, heads, t, t)
    parts = [g.slice(qkv, (0, 0, i * width), (b, t, (i + 1) * width)) for i in range(3)]
    q, k, v = (g.transpose(g.reshape(p, b, t, heads, size), 0, 2, 1, 3) for p in parts)
    both = ((0, 1), (0, 1))
    s = g.dot("bmm", q, k, ([3], [3]), both)
    scale = g.constant(1 / math.sqrt(size), scores_shape)
    s = g.mul(s, scale)
    kind, m = mask
    if kind == "causal":
        hidden = g.broadcast(m, [2, 3], scores_shape)
        low = g.constant(g.lowest, scores_shape)
        s = g.emit("masked_fill", "arith.select %s, %s, %s : %s, %s" % (
            hidden, low, s, hidden.type, s.type), (s.shape, s.dtype))
    else:
        s = g.add(s, g.broadcast(m, [0, 3], scores_shape))
    p = g.emit("softmax", "mpcomm.softmax %s, dim = 3 : %s" % (s, s.type),
               (s.shape, s.dtype))
    mixed = g.dot("bmm", p, v, ([3], [2]), both)
    y = g.reshape(g.transpose(mixed, 0, 2, 1, 3), b, t, width)

    def backward(d):
        d = g.transpose(g.reshape(d, b, t, heads, size), 0, 2, 1, 3)
        dv = g.dot("bmm", p, d, ([2], [2]), both)
        dp = g.dot("bmm", d, v, ([3], [3]), both)
        ds = g.emit("softmax", "mpcomm.softmax_grad %s, %s, dim = 3 : %s" % (
            dp, p, p.type), (p.shape, p.dtype))
        if kind == "causal":
            zero = g.constant(0.0, scores_shape)
            ds = g.emit("masked_fill", "arith.select %s, %s, %s : %s, %s" % (
                hidden, zero, ds, hidden.type, ds.type), (ds.shape, ds.dtype))
        ds = g.mul(ds, scale)
        dk = g.dot("bmm", ds, q, ([2], [2]), both)
        dq = g.dot("bmm", ds, k, ([3], [2]), both)
        joined = [g.reshape(g.transpose(x, 0, 2, 1, 3), b, t, width)
                  for x in (dq, dk, dv)]
        yield g.functional("split", "mpcomm.concatenate {}, {}, {}, dim = 2", joined,
                           (qkv.shape, qkv.dtype))

    return g.record(y, [qkv], backward)


def cross_entropy(g, logits, targets):
    """Mean over rows, in f32."""
    rows = math.prod(targets.shape)
    flat, ids = logits, targets
    if len(logits.shape) > 2:
        flat = g.record(g.reshape(logits, rows, logits.shape[-1]), [logits],
                        lambda d: [g.reshape(d, *logits.shape)])
        ids = g.reshape(targets, rows)
    x = g.cast(flat, "f32")
    loss, lse = g.functional(
        ["cross_entropy", "lse"],
        "mpcomm.cross_entropy {}, {} mean ignore_index = -100", [x, ids],
        ((), "f32"), ((rows,), "f32"))
    return g.record(loss, [x], lambda d: [g.functional(
        "cross_entropy",
        "mpcomm.cross_entropy_grad {}, {}, {}, {} mean ignore_index = -100",
        [d, x, ids, lse], (x.shape, "f32"))])
