# ===- composites.py - layers, losses, optimizers --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The meaning of ops that are formulas of several operations, by the formula in their
documentation. It is computed in f32 for narrower types, and rounded to the result's type; a
quotient may be a product with an inverse."""

import math

import numpy as np

import bounded
from bounded import Bounded, cast, finish, monotone, products
from formats import FLOATS
from semantics import MEANINGS, Whole, known, meaning, narrow, wide, widen


def exp(x):
    units = 2 if x.format == "f32" else 4
    out = monotone(np.exp, x, units, slack=0.0)
    tiny = 2.0**-125 if x.format == "f32" else 0.0
    with np.errstate(all="ignore"):
        return Bounded(out.v, out.e + np.where(np.isfinite(out.v) & (out.v > 0), tiny, 0), x.format)


def log(x, least):
    """The logarithm of what is at least `least`, by how it is made."""
    return monotone(np.log, x, 2 if x.format == "f32" else 4, low=least)


def within(x, low, high, finite=True):
    """What is between `low` and `high`, by how it is made, but for rounding, if what it is made of is finite."""
    with np.errstate(all="ignore"):
        far = np.maximum(high - x.v, x.v - low) + 4 * FLOATS[x.format].unit * max(abs(low), abs(high))
        return Bounded(x.v, np.where(np.isfinite(x.v) & np.isfinite(far) & finite, np.minimum(x.e, far), x.e), x.format)


def row_is_finite(x, dim):
    """Whether no element along `dim` has an error without bound: it may be infinite."""
    return np.isfinite(x.e).all(axis=dim, keepdims=True) & np.ones(x.shape, bool)


def quotient(a, b):
    """a / b, or a times 1 / b."""
    one = Bounded(np.ones_like(b.v), None, b.format)
    out = a * (one / b)
    with np.errstate(all="ignore"):
        direct = a / b
        exact = (direct.e == 0) & (out.e == 0)
        return Bounded(direct.v, np.where(exact, 0, np.maximum(out.e, direct.e)), a.format)


def inverse_root(x, least=0.0):
    """1 / sqrt of what is at least `least`, by how it is made."""
    return monotone(lambda a: 1 / np.sqrt(a), x, 1.5, low=least * 0.999)


def text(x, like):
    """A number of the program's text."""
    return finish(np.float64(x), 0.0, like.format)


def mean(x, axis):
    count = int(np.prod([x.shape[i] for i in axis], dtype=np.int64))
    return quotient(x.sum(axis), Bounded(np.float64(count), None, x.format))


def centred(x, dim):
    return x - bounded.extreme(x, dim, 1).expand(dim)


@meaning("mpcomm.softmax")
def softmax(op, x):
    dim, x = op.attributes["dim"], widen(x)
    y = exp(centred(x, dim))
    return narrow(op, within(quotient(y, y.sum(dim).expand(dim)), 0, 1, row_is_finite(x, dim)))


@meaning("mpcomm.softmax_grad")
def softmax_grad(op, dy, y):
    dim, dy, y = op.attributes["dim"], widen(dy), widen(y)
    return narrow(op, y * (dy - (dy * y).sum(dim).expand(dim)))


@meaning("mpcomm.log_softmax")
def log_softmax(op, x):
    dim, x = op.attributes["dim"], widen(x)
    d = centred(x, dim)
    return narrow(op, d - log(exp(d).sum(dim), 0.99).expand(dim))


@meaning("mpcomm.log_softmax_grad")
def log_softmax_grad(op, dy, y):
    dim, dy, y = op.attributes["dim"], widen(dy), widen(y)
    return narrow(op, dy - exp(y) * dy.sum(dim).expand(dim))


@meaning("mpcomm.layer_norm")
def layer_norm(op, x, gamma, beta):
    x, gamma, beta = widen(x), widen(gamma), widen(beta)
    axes = tuple(range(len(x.shape) - len(gamma.shape), len(x.shape)))
    m = mean(x, axes)
    d = x - m.move(lambda a: np.expand_dims(a, axes))
    variance = mean(d * d, axes)
    rstd = inverse_root(variance + text(op.attributes["eps"], x), op.attributes["eps"])
    y = d * rstd.move(lambda a: np.expand_dims(a, axes)) * gamma + beta
    return narrow(op, y), narrow(op, m, 1), narrow(op, rstd, 2)


@meaning("mpcomm.layer_norm_grad")
def layer_norm_grad(op, dy, x, m, rstd, gamma):
    dy, x, m, rstd, gamma = (widen(v) for v in (dy, x, m, rstd, gamma))
    axes = tuple(range(len(x.shape) - len(gamma.shape), len(x.shape)))
    lead = tuple(range(axes[0]))
    m, rstd = (v.move(lambda a: np.expand_dims(a, axes)) for v in (m, rstd))
    hat, g = (x - m) * rstd, dy * gamma
    keep = lambda v: v.move(lambda a: np.expand_dims(a, axes))
    dx = rstd * (g - keep(mean(g, axes)) - hat * keep(mean(g * hat, axes)))
    summed = lambda v: v.sum(lead) if lead else v
    return narrow(op, dx), narrow(op, summed(dy * hat), 1), narrow(op, summed(dy), 2)


@meaning("mpcomm.rms_norm")
def rms_norm(op, x, gamma):
    x, gamma = widen(x), widen(gamma)
    axes = tuple(range(len(x.shape) - len(gamma.shape), len(x.shape)))
    rstd = inverse_root(mean(x * x, axes) + text(op.attributes["eps"], x), op.attributes["eps"])
    y = x * rstd.move(lambda a: np.expand_dims(a, axes)) * gamma
    return narrow(op, y), narrow(op, rstd, 1)


@meaning("mpcomm.rms_norm_grad")
def rms_norm_grad(op, dy, x, rstd, gamma):
    dy, x, rstd, gamma = (widen(v) for v in (dy, x, rstd, gamma))
    axes = tuple(range(len(x.shape) - len(gamma.shape), len(x.shape)))
    lead = tuple(range(axes[0]))
    keep = lambda v: v.move(lambda a: np.expand_dims(a, axes))
    rstd = keep(rstd)
    hat, g = x * rstd, dy * gamma
    dgamma = dy * hat
    return narrow(op, rstd * (g - hat * keep(mean(g * hat, axes)))), narrow(op, dgamma.sum(lead) if lead else dgamma, 1)


erf = np.vectorize(math.erf, otypes=[np.float64])


def units(x, f32):
    return f32 if x.format == "f32" else 8


@meaning("mpcomm.gelu")
def gelu(op, x):
    x, half = widen(x), Bounded(0.5, None, wide(x.format))
    if "tanh" in op.attributes.get("approximate", ""):
        inner = text(math.sqrt(2 / math.pi), x) * (x + text(0.044715, x) * (x * x * x))
        return narrow(op, half * x * (monotone(np.tanh, inner, units(x, 6)) + 1.0))
    phi = half * (monotone(erf, x * text(math.sqrt(0.5), x), units(x, 6)) + 1.0)
    return narrow(op, x * phi)


@meaning("mpcomm.gelu_grad")
def gelu_grad(op, dy, x):
    dy, x = widen(dy), widen(x)
    half = Bounded(0.5, None, x.format)
    if "tanh" in op.attributes.get("approximate", ""):
        c, k = text(math.sqrt(2 / math.pi), x), text(0.044715, x)
        t = monotone(np.tanh, c * (x + k * (x * x * x)), units(x, 6))
        slope = c * (text(3 * 0.044715, x) * (x * x) + 1.0)
        d = half * (t + 1.0) + half * x * ((1.0 - t * t) * slope)
    else:
        phi = half * (monotone(erf, x * text(math.sqrt(0.5), x), units(x, 6)) + 1.0)
        density = exp(-half * x * x) * text(1 / math.sqrt(2 * math.pi), x)
        d = phi + x * density
    return narrow(op, dy * d)


def rows_that_count(op, targets):
    counts = targets.v != op.attributes["ignore_index"]
    return counts, bool((targets.e > 0).any()), op.attributes["reduction"].split()[-1].rstrip(">") == "mean"


@meaning("mpcomm.cross_entropy")
def cross_entropy(op, logits, targets):
    x = widen(logits)
    top = bounded.extreme(x, 1, 1)
    lse = log(exp(x - top.expand(1)).sum(1), 0.99) + top
    rows, columns = x.shape
    inside = (targets.v >= 0) & (targets.v < columns)
    picked = x[np.arange(rows), np.clip(targets.v, 0, max(columns - 1, 0))]
    picked = picked.move(lambda a: np.where(inside, a, 0.0))
    cost = lse - picked
    counts, unsure, is_mean = rows_that_count(op, targets)
    loss = cost.move(lambda a: np.where(counts, a, 0.0)).sum(0)
    if is_mean:
        loss = quotient(loss, Bounded(np.float64(counts.sum()), None, x.format))
        if not counts.any():
            loss = Bounded(np.nan, 0.0, x.format)
    if unsure:
        loss = Bounded(loss.v, np.inf, x.format)
    return narrow(op, loss), narrow(op, lse, 1)


@meaning("mpcomm.cross_entropy_grad")
def cross_entropy_grad(op, dloss, logits, targets, lse):
    dloss, x, lse = widen(dloss), widen(logits), widen(lse)
    counts, unsure, is_mean = rows_that_count(op, targets)
    hot = Bounded((targets.v[:, None] == np.arange(x.shape[1])).astype(np.float64), None, x.format)
    d = exp(x - lse.expand(1)) - hot
    if is_mean:
        dloss = quotient(dloss, Bounded(np.float64(max(counts.sum(), 1)), None, x.format))
    out = (dloss * d).move(lambda a: np.where(counts[:, None], a, 0.0))
    if unsure:
        out = Bounded(out.v, np.full(out.shape, np.inf), out.format)
    return narrow(op, out)


# ===----------------------------------------------------------------------=== #
# Batch norm
# ===----------------------------------------------------------------------=== #


def feature_shape(op, x):
    return [-1 if i == op.attributes["feature_dim"] else 1 for i in range(len(x.shape))]


def others(op, x):
    return tuple(i for i in range(len(x.shape)) if i != op.attributes["feature_dim"])


@meaning("mpcomm.batch_norm_training")
def batch_norm_training(op, x, gamma, beta):
    x, gamma, beta = (cast_up(v) for v in (x, gamma, beta))
    shape, axes = feature_shape(op, x), others(op, x)
    m = mean(x, axes) if axes else x
    d = x - m.move(lambda a: a.reshape(shape))
    variance = mean(d * d, axes) if axes else d * d
    y = normalise(op, x, gamma, beta, m, variance)
    return narrow(op, y), narrow(op, m, 1), narrow(op, variance, 2)


def cast_up(x):
    return widen(x)


def normalise(op, x, gamma, beta, m, variance):
    """(x - mean) rstd gamma + beta, or x (rstd gamma) + (beta - mean rstd gamma)."""
    if any(v.format == "f64" for v in (x, gamma)):
        x, gamma, beta, m, variance = (cast(v, "f64") for v in (x, gamma, beta, m, variance))
    shape = feature_shape(op, x)
    along = lambda v: v.move(lambda a: a.reshape(shape))
    rstd = inverse_root(variance + text(op.attributes["eps"], variance), op.attributes["eps"])
    return (x - along(m)) * along(rstd) * along(gamma) + along(beta)


@meaning("mpcomm.batch_norm_inference")
def batch_norm_inference(op, x, gamma, beta, m, variance):
    return narrow(op, normalise(op, *(cast_up(v) for v in (x, gamma, beta, m, variance))))


@meaning("mpcomm.batch_norm_grad")
def batch_norm_grad(op, dy, x, gamma, m, variance):
    dy, x, gamma, m, variance = (cast_up(v) for v in (dy, x, gamma, m, variance))
    if any(v.format == "f64" for v in (x, gamma)):
        dy, x, gamma, m, variance = (cast(v, "f64") for v in (dy, x, gamma, m, variance))
    shape, axes = feature_shape(op, x), others(op, x)
    along = lambda v: v.move(lambda a: a.reshape(shape))
    rstd = inverse_root(variance + text(op.attributes["eps"], variance))
    hat = (x - along(m)) * along(rstd)
    over = (lambda v: mean(v, axes)) if axes else (lambda v: v)
    summed = (lambda v: v.sum(axes)) if axes else (lambda v: v)
    dx = along(gamma * rstd) * (dy - along(over(dy)) - hat * along(over(dy * hat)))
    return narrow(op, dx), narrow(op, summed(dy * hat), 1), narrow(op, summed(dy), 2)


# ===----------------------------------------------------------------------=== #
# Attention
# ===----------------------------------------------------------------------=== #


def optional(op, rest):
    """The mask and the bias, or None."""
    present, rest = op.attributes["operandSegmentSizes"].counts[-2:], list(rest)
    return [rest.pop(0) if is_present else None for is_present in present]


def scores(op, q, k, mask, bias, own):
    s = text(op.attributes["scale"], q) * products(q, k, "bihd,bjhd->bhij")
    s = widen(operand_roundings(s, own))
    if bias is not None:
        s = s + cast(bias, s.format).move(lambda a: np.broadcast_to(a, s.shape))
    if mask is not None:
        s = bounded.choose(mask.v != 0, mask.e > 0, s, Bounded(np.full(s.shape, -np.inf), None, s.format))
    return s


def operand_roundings(x, format):
    """Scores, less their bias, and probabilities may be rounded to the operands' type once."""
    return x if FLOATS[format].bits >= 32 else finish(x.v, x.e, format)


@meaning("mpcomm.attention")
def attention(op, q, k, v, *rest):
    own = q.format
    q, k, v = widen(q), widen(k), widen(v)
    mask, bias = optional(op, rest)
    s = scores(op, q, k, mask, bias, own)
    top = bounded.extreme(s, 3, 1).expand(3)
    top = top.move(lambda a: np.where(np.isneginf(a), 0, a)) if s.shape[3] else top
    p = exp(s - top)
    sums = p.sum(3).expand(3)
    lse = (log(sums, 0.0) + top)[..., 0] if bias is None else beside(top, log(sums, 0.0))
    probabilities = widen(operand_roundings(within(quotient(p, sums), 0, 1, row_is_finite(s, 3)), own))
    out = products(probabilities, v, "bhij,bjhd->bihd")
    return narrow(op, out), narrow(op, lse, 1)


def beside(a, b):
    return Bounded(*(np.concatenate([getattr(x, field) for x in (a, b)], -1) for field in "ve"), a.format)


@meaning("mpcomm.attention_grad")
def attention_grad(op, dout, q, k, v, out, lse, *rest):
    own = q.format
    dout, q, k, v, out, lse = (widen(x) for x in (dout, q, k, v, out, lse))
    mask, bias = optional(op, rest)
    s = scores(op, q, k, mask, bias, own)
    s = s - lse.expand(3) if bias is None else s - lse[..., :1] - lse[..., 1:]
    p = widen(operand_roundings(exp(s), own))
    dp = products(dout, v, "bihd,bjhd->bhij")
    row = (dout * out).sum(3).move(lambda a: np.swapaxes(a, 1, 2)[..., None])
    exact = p * (dp - row)
    ds = widen(operand_roundings(exact, own))
    scale = text(op.attributes["scale"], q)
    results = (scale * products(ds, k, "bhij,bjhd->bihd"), scale * products(ds, q, "bhij,bihd->bjhd"),
               products(p, dout, "bhij,bihd->bjhd"))  # fmt: skip
    if op.attributes.get("with_bias_grad"):
        same = [dim for dim in range(4) if bias.shape[dim] != exact.shape[dim]]
        of_bias = exact.sum(same) if same else exact
        results += (of_bias.move(lambda a: a.reshape(bias.shape)),)
    return tuple(narrow(op, r, i) for i, r in enumerate(results))


# ===----------------------------------------------------------------------=== #
# Updates and scaling
# ===----------------------------------------------------------------------=== #


@meaning("mpcomm.sgd_update")
def sgd_update(op, p, g, lr, b=None):
    a = op.attributes
    dtype = p.format
    p, g, lr = widen(p), widen(g), cast(lr, wide(p.format)) if lr.format != "f64" else lr
    lr = cast(lr, p.format)
    d = g + text(a["weight_decay"], p) * p if a["weight_decay"] else g
    if b is None:
        return narrow(op, p - lr * d)
    b = widen(b)
    momentum = text(a["momentum"], p)
    new = momentum * b + d
    # The buffer may be rounded to its type before it is used, or not.
    used = widen(finish(new.v, new.e, dtype)) if FLOATS[dtype].bits < 32 else new
    d = d + momentum * used if a.get("nesterov") else used
    return narrow(op, p - lr * d), narrow(op, new, 1)


def power(base, x):
    """base^x for a bounded x, by exp(x log base)."""
    with np.errstate(all="ignore"):
        v = np.float64(base) ** x.v
        f = FLOATS[x.format]
        e = np.abs(v) * (np.abs(math.log(base)) * x.e if base > 0 else 0)
        return finish(v, e, x.format, slack=4 * f.unit * np.abs(v) + rounding_of(base, x) * np.abs(x.v * v))


def rounding_of(base, x):
    """The base is rounded to the type."""
    near = float(FLOATS[x.format].round(base))
    return abs(near - base) / base if base else 0.0


@meaning("mpcomm.adamw_update")
def adamw_update(op, p, g, m, v, step, lr):
    a = op.attributes
    dtype = p.format
    p, g, m, v = (widen(x) for x in (p, g, m, v))
    step, lr = cast(widen(step), p.format), cast(widen(lr), p.format)
    one = lambda x: Bounded(np.ones_like(x.v), None, p.format)
    b1, b2 = a["beta1"], a["beta2"]
    decayed = p * (one(lr) - lr * text(a["weight_decay"], p)) if a["weight_decay"] else p
    m1 = text(b1, p) * m + text(1 - b1, p) * g
    v1 = text(b2, p) * v + text(1 - b2, p) * (g * g)
    used = [widen(finish(x.v, x.e, dtype)) if FLOATS[dtype].bits < 32 else x for x in (m1, v1)]
    c1, c2 = one(step) - power(b1, step), one(step) - power(b2, step)
    root = lambda x: monotone(np.sqrt, Bounded(np.maximum(x.v, 0), x.e, x.format), 0.5, low=0)
    denominator = quotient(root(used[1]), root(c2)) + text(a["eps"], p)
    new = decayed - quotient(lr, c1) * quotient(used[0], denominator)
    return narrow(op, new), narrow(op, m1, 1), narrow(op, v1, 2)


@meaning("mpcomm.update")
def update(op, *operands):
    values = dict(zip(map(id, op.region.arguments), operands))
    for inner in op.region.ops:
        values[id(inner.results[0])] = MEANINGS[inner.name](inner, *[values[id(v)] for v in inner.operands])
    return tuple(values[id(v)] for v in op.region.results)


@meaning("mpcomm.gradient")
def gradient(op, grad):
    return grad


@meaning("mpcomm.unscale")
def unscale(op, *operands):
    *grads, scale = operands
    inverse = Bounded(1.0, None, "f32") / scale
    results, bad, unsure = [], [], []
    for i, g in enumerate(grads):
        w = widen(g)
        results.append(narrow(op, w * cast(inverse, w.format), i))
        bad.append(bool((~np.isfinite(g.v)).any()))
        unsure.append(not bad[-1] and bool((~np.isfinite(g.e)).any()))
    if op.attributes.get("each"):
        found = Bounded(np.array(bad, np.float64), np.where(unsure, 1.0, 0.0), "f32")
    else:
        found = Bounded(float(any(bad)), 1.0 if any(unsure) and not any(bad) else 0.0, "f32")
    return (*results, found)


def squares(grads):
    parts = [widen(g) for g in grads]
    flat = Bounded(np.concatenate([cast(g, "f32").v.reshape(-1) for g in parts]),
                   np.concatenate([cast(g, "f32").e.reshape(-1) for g in parts]), "f32")  # fmt: skip
    return products(flat, flat, "n,n->")


@meaning("mpcomm.squared_norm")
def squared_norm(op, *grads):
    return squares(grads)


@meaning("mpcomm.clip_by_global_norm")
def clip_by_global_norm(op, *operands):
    grads = operands[: len(op.results) - 1]
    norm = operands[len(grads)] if len(operands) > len(grads) else monotone(np.sqrt, squares(grads), 0.5, low=0)
    limit = text(op.attributes["max_norm"], norm)
    factor = within(bounded.lesser(Bounded(1.0, None, "f32"), quotient(limit, norm + text(1e-6, norm))), 0, 1, np.isfinite(norm.e))
    if np.isnan(norm.v):
        factor = Bounded(np.nan, norm.e, "f32")
    results = []
    for i, g in enumerate(grads):
        w = widen(g)
        results.append(narrow(op, w * cast(factor, w.format), i))
    return (*results, norm)


@meaning("mpcomm.update_loss_scale")
def update_loss_scale(op, scale, good, hyst, found):
    a = op.attributes
    unsure = np.inf if (found.e > 0 and abs(found.v) <= found.e) or (good.e > 0) or (hyst.e > 0) else 0.0
    g, h = int(good.v), int(hyst.v)
    new = scale
    if found.v > 0:
        g, h = 0, max(h - 1, 0)
        if h == 0:
            new = bounded.greater(scale * text(a["backoff"], scale), text(a["min"], scale))
    else:
        g += 1
        if g == a["interval"]:
            new = bounded.lesser(scale * text(a["growth"], scale), text(a["max"], scale))
            g, h = 0, a["hysteresis"]
    return Bounded(new.v, np.maximum(new.e, unsure), "f32"), Whole(g, unsure, "i32"), Whole(h, unsure, "i32")


@meaning("mpcomm.update_fp8_scale")
def update_fp8_scale(op, history, scale, amax):
    finite = np.isfinite(amax.v)
    first = Bounded(np.where(finite, amax.v, 0.0).reshape(1), amax.e.reshape(1), "f32")
    v, e = (np.concatenate([getattr(first, f), getattr(history, f)[:-1]]) for f in "ve")
    new = Bounded(v, e, "f32")
    top = bounded.extreme(new, 0, 1)
    greatest = FLOATS[op.attributes["format"]].greatest
    target = quotient(Bounded(greatest, None, "f32"), top) * Bounded(2.0 ** -op.attributes["margin"], None, "f32")
    keep = top.v == 0 or not np.isfinite(top.v) or not np.isfinite(target.v)
    unsure = top.e > 0 and not (abs(top.v) > 2 * top.e)
    out = scale if keep else target
    return new, Bounded(out.v, np.inf if unsure else out.e, "f32")
