# Each form of an op of StableHLO that is translated, against JAX, in f32 and f64, on
# shapes that are drawn.
#
# REQUIRES: jax, torch2
# RUN: %python-env %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import jax_checks as checks

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(0)
CASES = []


def case(function):
    CASES.append(function)
    return function


def floats(dtype, *shape, low=-2.0, high=2.0):
    return random.uniform(low, high, shape).astype(dtype)


def sizes(count, low=1, high=5):
    return [int(n) for n in random.integers(low, high + 1, count)]


def gradient(function, *inputs):
    """The sum of a function, and its gradients by all inputs of floats."""
    where = tuple(i for i, x in enumerate(inputs) if x.dtype.kind == "f")

    def weighed(*x):
        y = function(*x)
        return (y * jnp.cos(jnp.arange(y.size)).reshape(y.shape).astype(y.dtype)).sum(), y
    return jax.value_and_grad(weighed, where, has_aux=True)


@case
def unary(dtype):
    x = floats(dtype, *sizes(2))
    near, positive = x / 2.5, np.abs(x) + 0.1
    for f in (jnp.exp, jnp.expm1, jnp.tanh, jnp.sin, jnp.cos, jnp.floor, jnp.ceil, jnp.round,
              jnp.sign, jnp.abs, jnp.negative, jnp.square, jax.nn.sigmoid, jax.nn.silu,
              jax.nn.gelu, jax.nn.softplus, jax.nn.elu, lax.erf, lax.erfc, jnp.arctan,
              jnp.sinh, jnp.cosh, jnp.arcsinh, jax.nn.relu, jax.nn.relu6, jnp.isfinite):
        checks.same(f, x, units=64)
    for f in (jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.cbrt, lambda x: x ** 0.7,
              lambda x: x ** -2, jnp.log2):
        checks.same(f, positive, units=64)
    for f in (jnp.arcsin, jnp.arccos, jnp.arctanh, jnp.tan):
        checks.same(f, near, units=64)
    for f in (jnp.isnan, jnp.isinf, jnp.isfinite, jnp.nan_to_num):
        checks.same(f, np.array([0, np.inf, -np.inf, np.nan, 1], dtype))


@case
def binary(dtype):
    shape = sizes(3)
    x, y = floats(dtype, *shape), floats(dtype, *shape) + np.asarray(0.1, dtype)
    for f in (jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum,
              jnp.arctan2, lax.rem, jnp.mod, jnp.hypot, jnp.logaddexp, jnp.less, jnp.less_equal,
              jnp.greater, jnp.greater_equal, jnp.equal, jnp.not_equal, jnp.heaviside):
        checks.same(f, x, y, units=64)
    checks.same(lambda a, b: jnp.where(a > b, a, 2 * b).clip(-1, 1), x, y)
    checks.same(lambda a, b: a[0] + b + jnp.arange(b.shape[-1]), x, y)


@case
def integers(dtype):
    for kind in (np.int32, np.int64, np.uint32, np.int8, np.uint8):
        info = np.iinfo(kind)
        a, b = (random.integers(info.min, info.max, (3, 4), kind, endpoint=True) for _ in "ab")
        # By nothing and by -1, of the least number too.
        a[0], b[0] = info.min, [0, -1 if info.min else info.max, 1, 2]
        for f in (jnp.add, jnp.subtract, jnp.multiply, lax.div, lax.rem, jnp.maximum, jnp.minimum,
                  jnp.bitwise_and, jnp.bitwise_or, jnp.bitwise_xor, jnp.less, jnp.greater_equal,
                  jnp.equal):
            checks.same(f, a, b)
        shift = (b % (8 * a.dtype.itemsize + 2)).astype(kind)
        for f in (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic):
            checks.same(f, a, np.abs(shift))
        checks.same(lambda x: (x.astype(dtype), ~x, x.astype(np.int64), x.astype(np.uint16),
                               x.astype(bool), x >> 3), a)
        checks.same(lambda x: (lax.population_count(x), lax.clz(x)), a)
    checks.same(lambda x: (x.astype(np.int32), x.astype(np.float32), x.astype(bool),
                           x.astype(jnp.bfloat16)), floats(dtype, 5, high=90))
    p, q = random.integers(0, 2, (2, 7)).astype(bool)
    checks.same(lambda p, q: (p & q, p | q, p ^ q, ~p, p.any(), q.all(), p.sum(), p < q), p, q)
    checks.same(lambda x: lax.bitcast_convert_type(x, jnp.int32), floats(np.float32, 5))


@case
def movement(dtype):
    a, b, c = sizes(3, 2)
    x = floats(dtype, a, b, c)
    checks.same(lambda x: x.transpose(2, 0, 1).reshape(c, -1).T, x)
    checks.same(lambda x: (x[..., ::2], x[1:], x[:, ::-1], x[-1], x[:, None, 1]), x)
    checks.same(lambda x: jnp.pad(x, ((1, 2), (0, 0), (2, 0)), constant_values=3.0), x)
    checks.same(lambda x: lax.pad(x, np.asarray(0, dtype), ((1, -1, 2), (0, 1, 1), (-1, 0, 0))), x)
    checks.same(lambda x: jnp.concatenate([x, 2 * x[:, :1], x], 1), x)
    checks.same(lambda x: jnp.stack([x, -x], 1).swapaxes(0, 2), x)
    checks.same(lambda x: jnp.broadcast_to(x[:, None], (a, 3, b, c)) + jnp.eye(b, c, dtype=dtype), x)
    checks.same(lambda x: (jnp.tile(x, (2, 1, 3)), jnp.repeat(x, 2, 1), jnp.roll(x, 1, 2)), x)
    checks.same(lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.where(jnp.tri(b, c, dtype=bool), x, -jnp.inf)), x)


@case
def reductions(dtype):
    x = floats(dtype, *sizes(3, 2))
    for f in (jnp.sum, jnp.max, jnp.min, jnp.prod, jnp.mean, jnp.var, jnp.argmax, jnp.argmin,
              jax.nn.logsumexp):
        for axis in (0, 1, -1):
            checks.same(lambda x: f(x, axis=axis), x, units=64)
    checks.same(lambda x: (x.sum(), x.max((0, 2)), x.mean(keepdims=True), jnp.any(x > 1, 0)), x)
    checks.same(lambda x: lax.reduce(x, np.asarray(2, dtype), lax.add, (1,)), x)
    checks.same(lambda x: (jnp.argmax(jnp.round(x), 1), jnp.argmin(jnp.round(x), 1)), x)
    checks.same(lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 2)), x, units=64)
    checks.same(gradient(lambda x: jnp.max(x, 1) * jax.nn.softmax(x, -1).sum(), x), x, units=64)
    i = random.integers(0, 9, (3, 4))
    checks.same(lambda x: (x.sum(0), x.max(), x.min(1), jnp.cumsum(x), x.argmax(1)), i)


@case
def products(dtype):
    a, b, c, d = sizes(4, 2)
    x, y, z = floats(dtype, a, b, c), floats(dtype, a, c, d), floats(dtype, c, d)
    checks.same(gradient(lambda x, y: x @ y, x, y), x, y)
    checks.same(gradient(lambda x, z: x @ z, x, z), x, z)
    checks.same(gradient(lambda x, y: jnp.einsum("abc,acd->dba", x, y), x, y), x, y)
    checks.same(gradient(lambda x, y: jnp.einsum("abc,acd->b", x, y), x, y), x, y)
    checks.same(lambda x, z: lax.dot_general(x, z, (((2,), (0,)), ((), ())),
                                             preferred_element_type=np.float64), x, z)
    h = floats(dtype, a, b, 2, c)
    checks.same(gradient(lambda q, k: jax.nn.softmax(jnp.einsum(
        "bqhd,bkhd->bhqk", q, k / np.sqrt(c).astype(dtype))), h, h), h, h, units=64)


@case
def kept_whole(dtype):
    """softmax and GELU, forward and backward, twice differentiated, and under vmap."""
    x = floats(dtype, *sizes(3, 2))
    for f, name in ((jax.nn.softmax, "softmax"), (lambda x: jax.nn.softmax(x, 1), "softmax"),
                    (jax.nn.gelu, "gelu"), (lambda x: jax.nn.gelu(x, False), "gelu")):
        graph = checks.same(gradient(f, x), x, units=64)
        assert graph.count(name) == graph.count(f"{name}_grad") == 1
        assert checks.same(jax.vmap(lambda r: f(r[None])[0]), x, units=64).count(name) == 1
        assert checks.same(lambda x: jax.jvp(f, (x,), (x * x,)), x, units=64).count(name) == 1
        checks.same(jax.grad(lambda x: (jax.grad(lambda x: (f(x) ** 3).sum())(x) ** 2).sum()), x,
                    units=256)


@case
def lookups(dtype):
    n, d = sizes(2, 3, 6)
    table, i = floats(dtype, n, d), random.integers(0, n, (4, 3)).astype(np.int32)
    rows = random.integers(0, d, n).astype(np.int32)
    wild = random.integers(-2 * n, 2 * n, (4, 3)).astype(np.int32)
    for extents in (None, {1: (0, n - 1)}):
        g = checks.same(gradient(lambda t, i: t[i], table, i), table, i, extents=extents)
        assert (g.count("arith.cmpi") == 0) == (extents is not None)
        checks.same(gradient(lambda t, i: jnp.take(t, i, axis=0), table, i), table, i, extents=extents)
    checks.same(gradient(lambda t, i: jnp.take(t, i, axis=1, mode="clip"), table, wild), table, wild)
    checks.same(gradient(lambda t, i: jnp.take(t, i, axis=0, mode="wrap"), table, wild), table, wild)
    checks.same(lambda t, i: jnp.take(t, i, axis=0), table, wild)
    checks.same(gradient(lambda t, i: jnp.take(t, i, axis=0, fill_value=0), table, wild), table, wild)
    for extents in (None, {1: (0, d - 1)}):
        checks.same(gradient(lambda t, r: jnp.take_along_axis(t, r[:, None], 1), table, rows),
                    table, rows, extents=extents)
    checks.same(gradient(lambda t, r: t[jnp.arange(n), r], table, rows), table, rows)
    many = random.integers(0, n, (n, 2, d)).astype(np.int32)
    checks.same(gradient(lambda t, r: jnp.take_along_axis(t[:, None], r % 1 + r[:, :1] * 0, 1), table, many), table, many)
    checks.same(gradient(lambda t: t[jnp.array([0, 2, 1, 0])], table), table)
    checks.same(gradient(lambda t: t[:, jnp.array([1, 0])], table), table)
    checks.same(lambda t: t.at[1].set(5.0).at[:, 0].add(2.0), table)
    checks.same(lambda t: t.at[1:3].set(0.5).at[jnp.array([0, 2])].add(1.0), table)
    checks.same(lambda t, i: t.at[i[0]].add(1.0), table, i)
    checks.same(lambda t, i: (t.at[i[0]].max(0.5), t.at[i[1]].multiply(2.0), t.at[i[2]].set(1.0)),
                table, wild[:, :1].repeat(3, 1))
    checks.same(lambda t, i, r: t.at[i[:, 0], r[:1]].add(1.0), table, wild, rows)
    checks.same(lambda t, i: t[i], random.integers(0, 99, (n, 2)), i)
    checks.same(lambda t, i: jax.ops.segment_sum(t, i, 3), table, rows % 3)
    start = np.int32(1)
    checks.same(gradient(lambda t: lax.dynamic_slice(t, (1, 0), (2, 2)), table), table)
    for at in (start, np.int32(-1), np.int32(50)):
        checks.same(lambda t, s: lax.dynamic_slice_in_dim(t, s, 2, 1), table, at)
        checks.same(lambda t, s: lax.dynamic_update_slice_in_dim(t, t[:, :2] * 2, s, 1), table, at)
    checks.same(lambda x: jax.nn.one_hot(x, 5, dtype=dtype), i)


@case
def sorting(dtype):
    x = floats(dtype, *sizes(2, 2, 6))
    checks.same(lambda x: (jnp.sort(x), jnp.sort(x, 0), jnp.argsort(x, 1), lax.top_k(x, 2),
                           jnp.median(x), jnp.sort(x, descending=True)), x)
    checks.same(gradient(lambda x: jnp.sort(x, 0) * jnp.arange(x.shape[1]), x), x)
    checks.same(gradient(lambda x: lax.top_k(x, 2)[0], x), x)
    checks.same(lambda i: (jnp.sort(i), jnp.argsort(i)), random.integers(-9, 9, (3, 5)))


@case
def convolutions(dtype):
    for _ in range(24):
        groups = int(random.choice([1, 1, 2]))
        n, c, o = sizes(1, 1, 3)[0], groups * sizes(1, 1, 3)[0], groups * sizes(1, 1, 3)[0]
        rank = int(random.choice([1, 2, 2]))
        kernel = sizes(rank, 1, 3)
        dilation = sizes(rank, 1, 2)
        image = [2 * k + int(random.integers(2, 7)) for k in kernel]
        strides = sizes(rank, 1, 3)
        padding = [tuple(sizes(2, 0, 2)) for _ in kernel] if random.random() < 0.6 else \
            str(random.choice(["SAME", "VALID"]))
        names = ("NHWC", "HWIO", "NHWC") if random.random() < 0.7 else ("NCHW", "OIHW", "NCHW")
        if rank == 1:
            names = tuple(x.replace("H", "") for x in names)
        shapes = []
        for text, of in zip(names[:2], ({"N": n, "C": c}, {"I": c // groups, "O": o})):
            spatial = iter(image if "N" in text else kernel)
            shapes.append([of[x] if x in of else next(spatial) for x in text])
        x, w = (floats(dtype, *s) for s in shapes)

        def f(x, w):
            return lax.conv_general_dilated(x, w, strides, padding, rhs_dilation=dilation,
                                            dimension_numbers=names, feature_group_count=groups)
        graph = checks.same(gradient(f, x, w), x, w)
        products = [op.name for op in graph.ops if "convolution" in op.name]
        assert len(products) == 3, products
    x, w = floats(dtype, 2, 4, 5, 3), floats(dtype, 3, 3, 2, 3)
    for padding in ("SAME", "VALID"):
        checks.same(gradient(lambda x, w: lax.conv_transpose(
            x, w, (2, 2), padding, transpose_kernel=True), x, w), x, w)
        checks.same(lambda x, w: lax.conv_transpose(x, w, (2, 1), padding),
                    x, floats(dtype, 3, 3, 3, 2))


@case
def pools(dtype):
    import flax.linen as nn
    for _ in range(8):
        n, c = sizes(2, 1, 3)
        window, strides = sizes(2, 1, 3), sizes(2, 1, 3)
        image = [k + int(random.integers(1, 6)) for k in window]
        padding = str(random.choice(["SAME", "VALID"]))
        x = floats(dtype, n, *image, c)
        checks.same(gradient(lambda x: nn.max_pool(x, tuple(window), tuple(strides), padding), x), x)
        checks.same(gradient(lambda x: nn.avg_pool(x, tuple(window), tuple(strides), padding), x), x, units=32)
    checks.same(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 1), (1, 2, 1), "SAME"),
                floats(dtype, 2, 7, 3))


@case
def control(dtype):
    x, w = floats(dtype, 5, 3), floats(dtype, 3, 3)

    def recurrent(x, w):
        return lax.scan(lambda c, v: ((d := jnp.tanh(c @ w + v)), d * 2), x[0], x)
    checks.same(recurrent, x, w, units=64)
    checks.same(gradient(lambda x, w: recurrent(x, w)[1], x, w), x, w, units=64)
    checks.same(lambda x: lax.fori_loop(0, 4, lambda i, v: v * 0.5 + i, x), x)
    checks.same(lambda x: lax.cond(x[0, 0] > 0, lambda y: y + 1, lambda y: y * 2, x), x)
    checks.same(lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), x, np.int32(1))
    checks.same(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), x)
    checks.same(jax.vmap(lambda r: (r @ w) / (1 + jnp.linalg.norm(r))), x, units=64)


@case
def random_numbers(dtype):
    seed = random.integers(0, 1 << 32, 2, dtype=np.uint32)

    def draw(seed):
        key = jax.random.wrap_key_data(seed)
        a, b = jax.random.split(key)
        return (jax.random.bits(a, (3, 4)), jax.random.bernoulli(b, 0.3, (5,)),
                jax.random.uniform(jax.random.fold_in(a, 7), (2, 3), np.float32),
                jax.random.normal(b, (4,), np.float32), jax.random.randint(a, (6,), 0, 10))
    checks.same(draw, seed, units=64)
    checks.same(lambda x: x * jax.random.bernoulli(jax.random.key(3), 0.5, (4,)), floats(dtype, 4))


wanted = sys.argv[1:]
for test in CASES:
    for dtype in (np.float32, np.float64):
        if not wanted or test.__name__ in wanted:
            test(dtype)
            print(test.__name__, dtype.__name__)
