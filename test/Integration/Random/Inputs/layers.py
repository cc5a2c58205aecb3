# ===- layers.py - composite ops, made at random ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Ways to make a value by a layer's op, a loss, a window or an attention, and by their
gradients."""

import math

from builder import Builder, is_float, way
from graph import Body, Result, Text, Value


def often(b, factor=3.0):
    """Functions that round come in as often as the graph wants them."""
    return b.random.random() < b.smooth * factor


def pick(b, made, index=0):
    return made[index] if isinstance(made, list) else made


@way(2, is_float)
def along_dim(b, dtype, shape, depth):
    if not shape or not often(b):
        return None
    r = b.random
    name = r.choice(("softmax", "softmax_grad", "log_softmax", "log_softmax_grad"))
    operands = [b.make(dtype, shape, depth) for _ in range(2 if name.endswith("grad") else 1)]
    return b.add("mpcomm." + name, operands, {"dim": r.randrange(len(shape))}, (dtype, shape))


def norm_operands(b, dtype, shape, depth):
    """Leading and normalised dimensions, eps, x and gamma."""
    r = b.random
    inner = r.randrange(1, len(shape) + 1) if r.random() < 0.4 else 1
    lead, trail = shape[:-inner], shape[-inner:]
    eps = {"eps": r.choice((1e-5, 0.5, 1.0))}
    return lead, trail, eps, b.make(dtype, shape, depth), b.make(dtype, trail, depth)


@way(1.5, is_float)
def layer_norm(b, dtype, shape, depth):
    if not shape or not often(b):
        return None
    r = b.random
    lead, trail, eps, x, gamma = norm_operands(b, dtype, shape, depth)
    three = ((dtype, shape), (dtype, lead), (dtype, lead))
    made = b.add("mpcomm.layer_norm", [x, gamma, b.make(dtype, trail, depth)], eps, *three)
    if r.random() < 0.5:
        return made[0]
    dy = b.make(dtype, shape, depth)
    return b.add("mpcomm.layer_norm_grad", [dy, x, made[1], made[2], gamma], {}, (dtype, shape), (dtype, trail), (dtype, trail))[0]


@way(1, is_float)
def rms_norm(b, dtype, shape, depth):
    if not shape or not often(b):
        return None
    lead, trail, eps, x, gamma = norm_operands(b, dtype, shape, depth)
    made = b.add("mpcomm.rms_norm", [x, gamma], eps, (dtype, shape), (dtype, lead))
    if b.random.random() < 0.5:
        return made[0]
    dy = b.make(dtype, shape, depth)
    return b.add("mpcomm.rms_norm_grad", [dy, x, made[1], gamma], {}, (dtype, shape), (dtype, trail))[0]


@way(1, is_float)
def batch_norm(b, dtype, shape, depth):
    if not shape or not often(b):
        return None
    r = b.random
    d = r.randrange(len(shape))
    features = (shape[d],)
    of = "f32" if dtype in ("f16", "bf16") and "f32" in b.floats and r.random() < 0.5 else dtype
    attributes = {"eps": r.choice((1e-5, 0.5, 1.0)), "feature_dim": d}
    x, gamma, beta = b.make(dtype, shape, depth), b.make(of, features, depth), b.make(of, features, depth)
    if r.random() < 0.3:
        mean, variance = b.make(of, features, depth), b.make(of, features, depth)
        variance = b.add("math.absf", [variance], {}, (of, features))
        return b.add("mpcomm.batch_norm_inference", [x, gamma, beta, mean, variance], attributes, (dtype, shape))
    made = b.add("mpcomm.batch_norm_training", [x, gamma, beta], attributes, (dtype, shape), (of, features), (of, features))
    if r.random() < 0.5:
        return made[0]
    dy = b.make(dtype, shape, depth)
    return b.add("mpcomm.batch_norm_grad", [dy, x, gamma, made[1], made[2]], attributes,
                 (dtype, shape), (of, features), (of, features))[0]  # fmt: skip


def index_dims(b, shape):
    """A dimension of `shape`, and how many of those before it indices share."""
    dim = b.random.randrange(len(shape))
    batch = b.random.randrange(dim + 1) if b.random.random() < 0.6 else 0
    return dim, batch, {k: v for k, v in (("dim", dim), ("batch_dims", batch)) if v}


def index_type(b):
    return b.random.choice([t for t in b.integers if t in ("i32", "i64")] or ["i32"])


@way(2)
def gather(b, dtype, shape, depth):
    """A dimension of the result, or several, or none, is that of the indices."""
    dim, batch, attributes = index_dims(b, (*shape, 1))
    end = b.random.randrange(dim, len(shape) + 1)
    x = b.make(dtype, (*shape[:dim], b.size(), *shape[end:]), depth)
    ids = b.make(index_type(b), (*shape[:batch], *shape[dim:end]), depth)
    return b.add("mpcomm.gather", [x, ids], attributes, (dtype, shape))


def scatter_operands(b, dtype, shape, depth):
    """Attributes, indices and updates for a target of `shape`."""
    dim, batch, attributes = index_dims(b, shape)
    own = tuple(b.size() for _ in range(b.random.choice((0, 1, 1, 1, 2))))
    ids = b.make(index_type(b), shape[:batch] + own, depth)
    return attributes, ids, b.make(dtype, shape[:dim] + own + shape[dim + 1 :], depth)


@way(1, is_float)
def gather_grad(b, dtype, shape, depth):
    if not shape or 0 in shape:
        return None
    attributes, ids, dy = scatter_operands(b, dtype, shape, depth)
    if b.random.random() < 0.3:
        attributes["padding_idx"] = b.random.randrange(shape[attributes.get("dim", 0)])
    return b.add("mpcomm.gather_grad", [dy, ids], attributes, (dtype, shape))


@way(1.5)
def scatter(b, dtype, shape, depth):
    if not shape:
        return None
    x = b.make(dtype, shape, depth)
    attributes, ids, updates = scatter_operands(b, dtype, shape, depth)
    kind = b.random.choice((None, "sum", "prod", "min", "max"))
    if kind:
        attributes["reduction"] = Text("#mpcomm<reduction %s>" % kind)
    return b.add("mpcomm.scatter", [x, ids, updates], attributes, (dtype, shape))


@way(2, is_float)
def cross_entropy(b, dtype, shape, depth):
    """A loss where a scalar is wanted, its gradient where a matrix is."""
    if len(shape) not in (0, 2) or not often(b):
        return None
    r = b.random
    rows, columns = shape or (b.size(), b.size())
    index = r.choice([t for t in b.integers if t in ("i32", "i64")] or ["i32"])
    attributes = {"reduction": Text("#mpcomm<loss_reduction %s>" % r.choice(("mean", "sum"))),
                  "ignore_index": r.choice((-100, 0, 1))}  # fmt: skip
    logits, targets = b.make(dtype, (rows, columns), depth), b.make(index, (rows,), depth)
    made = b.add("mpcomm.cross_entropy", [logits, targets], attributes, (dtype, ()), (dtype, (rows,)))
    if not shape:
        return made[0]
    dloss = b.make(dtype, (), min(depth, 1))
    return b.add("mpcomm.cross_entropy_grad", [dloss, logits, targets, made[1]], attributes, (dtype, shape))


def seeds_of(b):
    seeds = b.pool.get(("i32", (2,)), [])
    return [v for v in seeds if any(a.value is v and a.role == "rng" for a in b.graph.arguments)]


@way(0.7, is_float)
def dropout(b, dtype, shape, depth):
    seeds = seeds_of(b)
    if not seeds:
        return None
    b.dropouts += 1
    name = b.random.choice(("dropout", "dropout_grad"))
    attributes = {"p": b.random.choice((0.5, 0.5, 0.75, 0.1, 0.0)), "id": b.dropouts}
    return b.add("mpcomm." + name, [b.make(dtype, shape, depth), seeds[0]], attributes, (dtype, shape))


@way(0.5, lambda dtype: is_float(dtype) and not dtype.startswith("f8"))
def rng(b, dtype, shape, depth):
    seeds = seeds_of(b)
    if not seeds:
        return None
    b.dropouts += 1
    kind = "normal" if often(b) else "uniform"
    attributes = {"distribution": Text("#mpcomm<rng_distribution %s>" % kind), "id": b.dropouts}
    return b.add("mpcomm.rng", [seeds[0]], attributes, (dtype, shape))


# ===----------------------------------------------------------------------=== #
# Order
# ===----------------------------------------------------------------------=== #


@way(1.5, lambda dtype: not dtype.startswith("f8"))
def top_k(b, dtype, shape, depth):
    """Values, or indices where the type is one of theirs."""
    if not shape or 0 in shape:
        return None
    r = b.random
    dim, index = r.randrange(len(shape)), dtype in ("i32", "i64") and r.random() < 0.6
    # Rows that are ordered by counting, and longer ones.
    size = shape[dim] + r.choice((0, 0, 1, 3, 60, 130))
    source = [*shape[:dim], size, *shape[dim + 1 :]]
    if math.prod(source) > 2000:
        return None
    of = r.choice((*b.floats, *b.integers)) if index else dtype
    if of.startswith("f8"):
        return None
    attributes = {"dim": dim, "k": shape[dim], **({"largest": True} if r.random() < 0.5 else {})}
    other = dtype if index else r.choice(("i32", "i64"))
    made = b.add("mpcomm.top_k", [b.make(of, source, depth)], attributes, (of, shape), (other, shape))
    return made[1 if index else 0]


@way(1.5, lambda dtype: not dtype.startswith("f8"))
def cumulative(b, dtype, shape, depth):
    if not shape:
        return None
    r = b.random
    kind = r.choice(("sum", "sum", "max", "min", "prod"))
    attributes = {"reduction": Text("#mpcomm<reduction %s>" % kind), "dim": r.randrange(len(shape)),
                  **({"reverse": True} if r.random() < 0.5 else {})}  # fmt: skip
    return b.add("mpcomm.cumulative", [b.make(dtype, shape, depth)], attributes, (dtype, shape))


# ===----------------------------------------------------------------------=== #
# Windows
# ===----------------------------------------------------------------------=== #


def positions(size, window, stride, low, high, dilation=1):
    return (size + low + high - (window - 1) * dilation - 1) // stride + 1


def layout(shape, last):
    """[N, C, H, W] of a type in either layout, and back."""
    return (shape[0], shape[3], shape[1], shape[2]) if last else shape


def laid(shape, last):
    return (shape[0], shape[2], shape[3], shape[1]) if last else shape


def solve(r, out, window, dilation=1):
    """A stride, paddings and an input's size that give `out` positions."""
    stride = r.choice((1, 1, 1, 2, 3))
    low, high = (r.randrange(min(window, 3)) for _ in range(2))
    least = (out - 1) * stride + (window - 1) * dilation + 1 - low - high
    size = least + r.randrange(stride)
    return (stride, low, high, size) if size >= 1 else None


@way(2.5, lambda dtype: is_float(dtype))
def convolution(b, dtype, shape, depth):
    if len(shape) != 4 or 0 in shape:
        return None
    r = b.random
    kind = r.choice(("forward", "forward", "input", "filter"))
    # Both layouts are made; the one of filters is always [O, I, H, W].
    last = r.random() < 0.3
    groups = r.choice((1, 1, 1, 2, 3))
    dilation = [r.choice((1, 1, 2)) for _ in range(2)]
    if kind == "filter":
        o, i, *window = shape
        if o % groups:
            groups = 1
        out = [r.choice((1, 2, 3)) for _ in range(2)]
        n, c = r.choice((1, 2, 3)), i * groups
    else:
        n, ch, *sizes = layout(shape, last)
        window = [r.choice((1, 1, 2, 3)) for _ in range(2)]
        if ch % groups:
            groups = 1
    if kind == "input":
        # Given is the input's size; the output's follows.
        strides = [r.choice((1, 1, 2)) for _ in range(2)]
        low, high = ([r.randrange(min(w, 3)) for w in window] for _ in range(2))
        out = [positions(*x) for x in zip(sizes, window, strides, low, high, dilation)]
        if min(out) < 1:
            return None
        c, size = ch, sizes
        o = groups * r.choice((1, 2))
    else:
        if kind == "forward":
            out, o, c = sizes, ch, groups * r.choice((1, 2, 3))
        solved = [solve(r, *x) for x in zip(out, window, dilation)]
        if None in solved:
            return None
        strides, low, high, size = (list(x) for x in zip(*solved))
    filter_shape = (o, c // groups, *window)
    x_shape, y_shape = laid((n, c, *size), last), laid((n, o, *out), last)
    if math.prod(x_shape) > 2000 or math.prod(y_shape) > 2000 or math.prod(filter_shape) > 2000:
        return None
    attributes = {"strides": strides, "low": low, "high": high, "dilation": dilation, "groups": groups,
                  "channels_last": last}  # fmt: skip
    name, operands = {"forward": ("convolution", (x_shape, filter_shape)),
                      "input": ("convolution_input_grad", (y_shape, filter_shape)),
                      "filter": ("convolution_filter_grad", (y_shape, x_shape))}[kind]  # fmt: skip
    values = [b.make(dtype, s, depth) for s in operands]
    return b.add("mpcomm." + name, values, attributes, (dtype, shape))


@way(2, is_float)
def pool(b, dtype, shape, depth):
    if len(shape) != 4 or 0 in shape:
        return None
    r = b.random
    last, grad = r.random() < 0.3, r.random() < 0.4
    kind = r.choice(("max", "avg"))
    n, c, *sizes = layout(shape, last)
    window = [r.choice((1, 2, 2, 3)) for _ in range(2)]
    if grad:
        strides = [r.choice((1, 2)) for _ in range(2)]
        low, high = ([r.randrange(w) for w in window] for _ in range(2))
        out, size = [positions(*x) for x in zip(sizes, window, strides, low, high)], sizes
        if min(out) < 1:
            return None
    else:
        out = sizes
        solved = [solve(r, *x) for x in zip(out, window)]
        if None in solved:
            return None
        strides, low, high, size = (list(x) for x in zip(*solved))
        if any(l >= w or h >= w for l, h, w in zip(low, high, window)):
            return None
    attributes = {"window": window, "strides": strides, "low": low, "high": high, "channels_last": last}
    if kind == "avg":
        attributes["count_padding"] = r.random() < 0.5
        # A window of padding alone has no mean.
        if not attributes["count_padding"] and any((o - 1) * s - l >= m for o, s, l, m in zip(out, strides, low, size)):
            return None
    x_shape, y_shape = laid((n, c, *size), last), laid((n, c, *out), last)
    if math.prod(x_shape) > 2000 or math.prod(y_shape) > 2000:
        return None
    if not grad:
        return b.add("mpcomm.%s_pool" % kind, [b.make(dtype, x_shape, depth)], attributes, (dtype, shape))
    operands = [b.make(dtype, y_shape, depth)]
    if kind == "max":
        operands.append(b.make(dtype, x_shape, depth))
    return b.add("mpcomm.%s_pool_grad" % kind, operands, attributes, (dtype, shape))


@way(2, is_float)
def attention(b, dtype, shape, depth):
    if len(shape) != 4 or 0 in shape or not often(b):
        return None
    r = b.random
    n, rows, heads, d = shape
    columns = b.size()
    keys = (n, columns, heads, d)
    of = "f32" if dtype in ("f16", "bf16") else dtype
    q, k, v = b.make(dtype, shape, depth), b.make(dtype, keys, depth), b.make(dtype, keys, depth)
    mask = []
    if r.random() < 0.4:
        import numpy as np

        kept = b.data("i1", (rows, columns))
        kept[:, 0] = 1
        mask = [b.constant("i1", (rows, columns), np.asarray(kept))]
    bias = []
    if r.random() < 0.4:
        biased = tuple(size if r.random() < 0.6 else 1 for size in (n, heads, rows, columns))
        bias = [b.make(of if r.random() < 0.5 else dtype, biased, depth)]
    rest = [*mask, *bias]
    attributes = {"scale": r.choice((0.5, 1.0, 0.25)), "operandSegmentSizes": Segments(1, 1, 1, len(mask), len(bias))}
    made = b.add("mpcomm.attention", [q, k, v, *rest], attributes, (dtype, shape),
                 (of, (n, heads, rows) + (2,) * len(bias)))  # fmt: skip
    if r.random() < 0.5:
        return made[0]
    attributes = {**attributes, "operandSegmentSizes": Segments(*[1] * 6, len(mask), len(bias))}
    of_bias = []
    if bias and r.random() < 0.7:
        attributes["with_bias_grad"], of_bias = True, [(of, bias[0].shape)]
    grads = b.add("mpcomm.attention_grad", [b.make(dtype, shape, depth), q, k, v, *made, *rest], attributes,
                  (dtype, shape), (dtype, keys), (dtype, keys), *of_bias)  # fmt: skip
    return grads[0]


class Segments(Text):
    """Numbers of operands, by kind."""

    def __new__(cls, *counts):
        self = super().__new__(cls, "array<i32: %s>" % ", ".join(map(str, counts)))
        self.counts = counts
        return self


@way(0.7, is_float)
def loop(b, dtype, shape, depth):
    """A loop with a body of random ops; what is wanted is a carry, or is stacked."""
    r = b.random
    is_stacked = bool(shape) and 0 < shape[0] <= 9 and r.random() < 0.6
    trips = shape[0] if is_stacked else r.choice((1, 2, 3, 5))
    if b.is_body or not is_stacked and trips * math.prod(shape) > 512:
        return None
    wanted = (dtype, tuple(shape[1:] if is_stacked else shape))
    def types():
        others = [wanted, (dtype, (b.size(),)), (dtype, (b.size(), b.size())), (r.choice(b.integers), (b.size(),))]
        return [r.choice(others) for _ in range(r.choice((0, 1, 1, 2)))]
    carries, slices, captured, stacked = types(), types(), types(), types()
    (stacked if is_stacked else carries).append(wanted)
    body = Builder(r.random(), b.floats, b.integers, b.smooth, b.rough)
    body.is_body, body.graph.kind = True, b.graph.kind
    arguments = [body.keep(Value(*t)) for t in carries + slices + captured]
    results = [body.make(*t, 2) for t in carries + stacked]
    body.graph.results = [Result(v, None, None) for v in results]
    body.graph.remove_dead()
    b.bodies += 1
    attributes = {"body": Body("loop%d" % b.bodies, arguments, body.graph.ops, results), "trips": trips,
                  "reverse": r.random() < 0.5, "operandSegmentSizes": Segments(len(carries), len(slices), len(captured))}
    along = lambda types: [(t, (trips, *s)) for t, s in types]
    operands = [b.make(*t, depth) for t in carries + along(slices) + captured]
    made = b.add("mpcomm.scan", operands, attributes, *carries, *along(stacked))
    made = made if isinstance(made, list) else [made]
    return made[-1] if is_stacked else made[len(carries) - 1]
