# ===- evaluator.py - runs an imported graph on PyTorch tensors ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""An interpreter of the ops that mpcomm-import emits, one line of PyTorch each.

It shares nothing with the translation: what it computes for a graph follows
from the documentation of the dialect's ops.
"""

import math
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "Inputs"))
from philox import philox  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
          "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i16": torch.int16, "i8": torch.int8, "i1": torch.bool}


def dot_general(a, b, lhs_batching_dims, rhs_batching_dims, lhs_contracting_dims,
                rhs_contracting_dims):
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [None] * a.dim(), [None] * b.dim()
    batch = []
    for i, j in zip(lhs_batching_dims, rhs_batching_dims):
        left[i] = right[j] = next(letters)
        batch.append(left[i])
    for i, j in zip(lhs_contracting_dims, rhs_contracting_dims):
        left[i] = right[j] = next(letters)
    for side in (left, right):
        for i, letter in enumerate(side):
            side[i] = letter or next(letters)
    free = [x for x in left if x not in right] + [x for x in right if x not in left]
    return torch.einsum(f"{''.join(left)},{''.join(right)}->{''.join(batch + free)}",
                        a, b)


def broadcast(x, shape, dims):
    view = [1] * len(shape)
    for size, d in zip(x.shape, dims):
        view[d] = size
    return x.reshape(view).expand(shape)


def reduce(x, reduction, dims):
    if reduction == "sum":
        return x.sum(dims).to(x.dtype) if dims else x
    for d in sorted(dims, reverse=True):
        if x.dtype == torch.bool and reduction == "prod":
            x = x.all(d)
            continue
        x = {"max": torch.amax, "min": torch.amin, "prod": torch.prod}[reduction](x, d)
    return x


def pad(x, value, low, high, interior):
    size = [lo + n + (n - 1) * gap + hi
            for n, lo, hi, gap in zip(x.shape, low, high, interior)]
    out = value.expand(size).clone()
    where = tuple(slice(lo, lo + (n - 1) * (gap + 1) + 1, gap + 1)
                  for n, lo, gap in zip(x.shape, low, interior))
    out[where] = x
    return out


def layer_norm(x, gamma, beta, eps):
    dims = list(range(x.dim() - gamma.dim(), x.dim()))
    mean = x.mean(dims, keepdim=True)
    rstd = ((x - mean) ** 2).mean(dims, keepdim=True).add(eps).rsqrt()
    lead = x.shape[:x.dim() - gamma.dim()]
    return (x - mean) * rstd * gamma + beta, mean.reshape(lead), rstd.reshape(lead)


def layer_norm_grad(dy, x, mean, rstd, gamma):
    lead = list(range(x.dim() - gamma.dim()))
    dims = list(range(x.dim() - gamma.dim(), x.dim()))
    mean, rstd = (v.reshape(v.shape + (1,) * gamma.dim()) for v in (mean, rstd))
    xhat, g = (x - mean) * rstd, dy * gamma
    dx = rstd * (g - g.mean(dims, keepdim=True) -
                 xhat * (g * xhat).mean(dims, keepdim=True))
    return dx, (dy * xhat).sum(lead), dy.sum(lead)


def convolution(x, w, strides, low, high, dilation, groups):
    x = F.pad(x, (low[1], high[1], low[0], high[0]))
    return F.conv2d(x, w, None, strides, 0, dilation, groups)


def by_autograd(function, dy, like):
    """The gradient of a function of one tensor."""
    x = like.detach().clone().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(function(x), x, dy)[0]


def max_pool(x, window, strides, low, high):
    x = F.pad(x, (low[1], high[1], low[0], high[0]), value=float("-inf"))
    return F.max_pool2d(x, window, strides)


def avg_pool(x, window, strides, low, high, count_padding=False):
    sides = (low[1], high[1], low[0], high[0])
    sums = F.avg_pool2d(F.pad(x, sides), window, strides, divisor_override=1)
    ones = torch.ones_like(x)
    return sums / (math.prod(window) if count_padding else F.avg_pool2d(
        F.pad(ones, sides), window, strides, divisor_override=1))


def per_feature(x, feature_dim):
    """Dimensions to take statistics over, and how one a feature is seen."""
    shape = [1] * x.dim()
    shape[feature_dim] = -1
    return [d for d in range(x.dim()) if d != feature_dim], shape


def batch_norm(x, gamma, beta, mean, variance, eps, feature_dim):
    shape = per_feature(x, feature_dim)[1]
    mean, gamma, beta = (v.reshape(shape) for v in (mean, gamma, beta))
    return (x - mean) / (variance + eps).sqrt().reshape(shape) * gamma + beta


def batch_norm_training(x, gamma, beta, eps, feature_dim):
    dims, shape = per_feature(x, feature_dim)
    mean = x.mean(dims)
    variance = ((x - mean.reshape(shape)) ** 2).mean(dims)
    return batch_norm(x, gamma, beta, mean, variance, eps, feature_dim), mean, variance


def batch_norm_grad(dy, x, gamma, mean, variance, eps, feature_dim):
    dims, shape = per_feature(x, feature_dim)
    rstd = (variance + eps).rsqrt().reshape(shape)
    xhat = (x - mean.reshape(shape)) * rstd
    dx = gamma.reshape(shape) * rstd * (
        dy - dy.mean(dims, keepdim=True) - xhat * (dy * xhat).mean(dims, keepdim=True))
    return dx, (dy * xhat).sum(dims), dy.sum(dims)


def gelu_grad(dy, x, approximate):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(F.gelu(x, approximate=approximate), x, dy)[0]


def places(shape, ids, dim, batch_dims):
    """For each element of a gather from a tensor of `shape`, and for each of the
    indices: the linear place of what it names, and the index."""
    slices = shape[:dim] + list(ids.shape[batch_dims:]) + shape[dim + 1:]
    inner = ids.dim() - batch_dims
    own = ids.reshape(list(ids.shape[:batch_dims]) + [1] * (dim - batch_dims) +
                      list(ids.shape[batch_dims:]) + [1] * (len(shape) - dim - 1)).expand(slices)
    place = torch.zeros(slices, dtype=torch.int64)
    for d, size in enumerate(shape):
        at = d if d < dim else d - 1 + inner
        line = own if d == dim else torch.arange(size).reshape(
            [-1 if i == at else 1 for i in range(len(slices))])
        place = place * size + line
    return place, own


def gather(x, ids, dim=0, batch_dims=0):
    place, _ = places(list(x.shape), ids.clamp(0, x.shape[dim] - 1), dim, batch_dims)
    return x.reshape(-1)[place]


def gather_grad(dy, ids, shape, dim=0, batch_dims=0, padding_idx=None):
    place, own = places(shape, ids.clamp(0, shape[dim] - 1), dim, batch_dims)
    if padding_idx is not None:
        dy = torch.where(own == padding_idx, 0.0, dy).to(dy.dtype)
    flat = torch.zeros(math.prod(shape), dtype=dy.dtype)
    return flat.index_add(0, place.reshape(-1), dy.reshape(-1)).reshape(shape)


def scatter(x, ids, updates, dim=0, batch_dims=0, reduction=None):
    place, own = places(list(x.shape), ids, dim, batch_dims)
    result = x.reshape(-1).clone()
    combine = {None: lambda a, b: b, "sum": torch.add, "prod": torch.mul, "min": torch.minimum,
               "max": torch.maximum}[reduction]
    for at, i, update in zip(place.reshape(-1), own.reshape(-1), updates.reshape(-1)):
        if 0 <= i < x.shape[dim]:
            result[at] = combine(result[at], update)
    return result.reshape(x.shape)


def cross_entropy(logits, targets, reduction, ignore_index):
    lse = torch.logsumexp(logits, 1)
    counts = targets != ignore_index
    picked = logits.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    total = ((lse - picked) * counts).sum()
    return (total / counts.sum() if reduction == "mean" else total), lse


def cross_entropy_grad(d, logits, targets, lse, reduction, ignore_index):
    counts = targets != ignore_index
    p = torch.exp(logits - lse[:, None])
    p = p - F.one_hot(targets.clamp(min=0), logits.shape[1]).to(p.dtype)
    scale = d / counts.sum() if reduction == "mean" else d
    return torch.where(counts[:, None], p * scale, 0.0)


def sgd(p, g, lr, *buffer, weight_decay, momentum=None, nesterov=False):
    d = g + weight_decay * p
    if not buffer:
        return p - lr * d
    b = momentum * buffer[0] + d
    return p - lr * (d + momentum * b if nesterov else b), b


def adamw(p, g, m, v, step, lr, beta1, beta2, eps, weight_decay):
    p = p * (1 - lr * weight_decay)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    step = step.double()
    scale = lr / (1 - beta1 ** step)
    root = torch.sqrt(1 - beta2 ** step)
    return (p - (scale * m / (v.sqrt() / root + eps)).to(p.dtype)), m, v


def top_k(x, dim, k, largest=False):
    """Equal elements in the order of their indices; the type of these is the op's."""
    values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


def cumulative(x, reduction, dim, reverse=False):
    x = x.flip(dim) if reverse else x
    y = {"sum": lambda: torch.cumsum(x, dim), "prod": lambda: torch.cumprod(x, dim),
         "max": lambda: torch.cummax(x, dim)[0],
         "min": lambda: torch.cummin(x, dim)[0]}[reduction]().to(x.dtype)
    return y.flip(dim) if reverse else y


def words(seed, id, shape):
    """Four words of 32 bits for each element, as i64."""
    key = tuple(int(k) & 0xFFFFFFFF for k in seed)
    drawn = [philox((e & 0xFFFFFFFF, e >> 32, id, 0), key) for e in range(math.prod(shape))]
    return torch.tensor(drawn, dtype=torch.int64).reshape(-1, 4).unbind(1)


def uniform(first, second, dtype):
    if dtype == torch.float64:
        return torch.tensor([((int(a) << 32 | int(b)) >> 11) * 2.0**-53
                             for a, b in zip(first, second)], dtype=dtype)
    bits = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}[dtype]
    return ((first >> 32 - bits).double() * 2.0**-bits).to(dtype)


def rng(seed, distribution, id, type):
    dtype, (a, b, c, d) = DTYPES[type.dtype], words(seed, id, type.shape)
    if distribution == "uniform":
        return uniform(a, b, dtype).reshape(type.shape)
    wide = dtype if dtype == torch.float64 else torch.float32
    u = uniform(a, b, wide)
    v = uniform(c, d, wide) if wide == torch.float64 else uniform(b, c, wide)
    radius = torch.sqrt(-2 * torch.log(1 - u))
    return (radius * torch.cos(2 * math.pi * v)).to(dtype).reshape(type.shape)


def dropout(x, seed, p, id):
    kept = words(seed, id, x.shape)[0].reshape(x.shape) >= math.floor(p * 2**32)
    return torch.where(kept, x / (1 - p), torch.zeros((), dtype=x.dtype))


def compare(a, b, predicate):
    if predicate in ("ord", "uno"):
        return (a.isnan() | b.isnan()) == (predicate == "uno")
    kind = predicate[1:] if predicate not in ("eq", "ne") else predicate
    if predicate == "uno":
        return a.isnan() | b.isnan()
    result = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b,
              "ge": a >= b}[kind]
    if predicate[0] == "u" and predicate != "une":
        result = result | a.isnan() | b.isnan()
    return result


def compare_integers(a, b, predicate):
    if predicate[0] == "u":  # in the order of the bits
        low = torch.iinfo(a.dtype).min
        a, b = a ^ low, b ^ low
    return compare(a, b, "o" + predicate[-2:])


def constant(type, value):
    return torch.tensor(value.elements, dtype=DTYPES[type.dtype]).expand(type.shape)


def along(function):
    return lambda *x, dim: function(*x, dim)


OPS = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul,
    "arith.divf": torch.div, "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum, "arith.negf": torch.neg,
    "arith.addi": torch.add, "arith.subi": torch.sub, "arith.muli": torch.mul,
    "arith.andi": torch.bitwise_and, "arith.ori": torch.bitwise_or,
    "arith.xori": torch.bitwise_xor, "arith.select": torch.where,
    "arith.remf": torch.fmod, "arith.remsi": torch.fmod,
    "arith.divsi": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "arith.floordivsi": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "arith.shli": torch.bitwise_left_shift, "arith.shrsi": torch.bitwise_right_shift,
    "arith.maxsi": torch.maximum, "arith.minsi": torch.minimum,
    "arith.maxnumf": torch.fmax, "arith.minnumf": torch.fmin,
    "arith.cmpf": compare, "arith.cmpi": compare_integers,
    "math.exp": torch.exp, "math.log": torch.log, "math.sqrt": torch.sqrt,
    "math.rsqrt": torch.rsqrt, "math.tanh": torch.tanh, "math.erf": torch.erf,
    "math.sin": torch.sin, "math.cos": torch.cos, "math.absf": torch.abs,
    "math.powf": torch.pow, "math.absi": torch.abs, "math.roundeven": torch.round,
    "math.acosh": torch.acosh, "math.asinh": torch.asinh, "math.atanh": torch.atanh,
    **{"math." + f.__name__: f for f in (
        torch.acos, torch.asin, torch.atan, torch.atan2, torch.ceil, torch.copysign,
        torch.cosh, torch.erfc, torch.exp2, torch.expm1, torch.floor, torch.log10,
        torch.log1p, torch.log2, torch.sinh, torch.tan, torch.trunc)},
    "mpcomm.dot_general": dot_general,
    "mpcomm.transpose": lambda x, dims: x.permute(dims),
    "mpcomm.reduce": reduce,
    "mpcomm.slice": lambda x, starts, limits, strides:
        x[tuple(slice(*s) for s in zip(starts, limits, strides))],
    "mpcomm.reverse": lambda x, dims: x.flip(dims),
    "mpcomm.concatenate": lambda *x, dim: torch.cat(x, dim),
    "mpcomm.pad": pad,
    "mpcomm.cumulative": cumulative,
    "mpcomm.dropout": dropout, "mpcomm.dropout_grad": dropout,
    "mpcomm.softmax": along(torch.softmax),
    "mpcomm.softmax_grad": along(
        lambda dy, y, dim: y * (dy - (dy * y).sum(dim, keepdim=True))),
    "mpcomm.log_softmax": along(torch.log_softmax),
    "mpcomm.log_softmax_grad": along(
        lambda dy, y, dim: dy - y.exp() * dy.sum(dim, keepdim=True)),
    "mpcomm.layer_norm": layer_norm,
    "mpcomm.layer_norm_grad": layer_norm_grad,
    "mpcomm.gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "mpcomm.gelu_grad": gelu_grad,
    "mpcomm.gather": gather,
    "mpcomm.scatter": scatter,
    "mpcomm.cross_entropy": cross_entropy,
    "mpcomm.cross_entropy_grad": cross_entropy_grad,
    "mpcomm.convolution": convolution,
    "mpcomm.max_pool": max_pool,
    "mpcomm.max_pool_grad": lambda dy, x, **a: by_autograd(
        lambda v: max_pool(v, **a), dy, x),
    "mpcomm.avg_pool": avg_pool,
    "mpcomm.batch_norm_training": batch_norm_training,
    "mpcomm.batch_norm_inference": batch_norm,
    "mpcomm.batch_norm_grad": batch_norm_grad,
    "mpcomm.sgd_update": sgd,
    "mpcomm.adamw_update": adamw,
}


def execute(op, operands):
    type = op.results[0].type
    if op.name == "arith.constant":
        return constant(type, **op.attributes)
    if op.name == "mpcomm.reshape":
        return operands[0].reshape(type.shape)
    if op.name == "mpcomm.broadcast_in_dim":
        return broadcast(operands[0], type.shape, **op.attributes)
    if op.name == "mpcomm.iota":
        d = op.attributes["dim"]
        return broadcast(torch.arange(type.shape[d]), type.shape, [d]).to(
            DTYPES[type.dtype])
    if op.name == "mpcomm.gather_grad":
        return gather_grad(*operands, shape=list(type.shape), **op.attributes)
    if op.name == "mpcomm.rng":
        return rng(*operands, **op.attributes, type=type)
    if op.name == "mpcomm.top_k":
        values, indices = top_k(*operands, **op.attributes)
        return values, indices.to(DTYPES[op.results[1].dtype])
    like = torch.zeros(type.shape, dtype=DTYPES.get(type.dtype))
    if op.name == "mpcomm.convolution_input_grad":
        dy, w = operands
        return by_autograd(lambda x: convolution(x, w, **op.attributes), dy, like)
    if op.name == "mpcomm.convolution_filter_grad":
        dy, x = operands
        return by_autograd(lambda w: convolution(x, w, **op.attributes), dy, like)
    if op.name == "mpcomm.avg_pool_grad":
        return by_autograd(lambda x: avg_pool(x, **op.attributes), operands[0], like)
    if op.name == "mpcomm.update":
        (arguments, ops), = op.regions
        values = dict(zip((v for v, _ in arguments), operands))
        compute(ops[:-1], values)
        return tuple(values[v] for v in ops[-1].operands)
    if op.name == "mpcomm.scan":
        return scan(operands, **op.attributes)
    if op.name in OPS:
        return OPS[op.name](*operands, **op.attributes)
    if op.name.split(".")[1] in ("extf", "truncf", "sitofp", "uitofp", "fptosi",
                                 "extui", "extsi", "trunci"):
        return operands[0].to(DTYPES[type.dtype])
    raise NotImplementedError(op.name)


def scan(operands, body, trips, operandSegmentSizes, reverse=False):
    """A loop over the first dimension of the operands in the middle."""
    carried, sliced, _ = map(int, operandSegmentSizes.split(", "))
    carries, slices = operands[:carried], operands[carried:carried + sliced]
    captured, rows = operands[carried + sliced:], [None] * trips
    for t in reversed(range(trips)) if reverse else range(trips):
        results = run_ops(body, [*carries, *[s[t] for s in slices], *captured])
        carries, rows[t] = results[:carried], results[carried:]
    return (*carries, *map(torch.stack, zip(*rows)))


def compute(ops, values):
    """Adds the results of `ops` to `values`, {Value: tensor}."""
    for op in ops:
        results = execute(op, [values[v] for v in op.operands])
        for value, result in zip(op.results, results if isinstance(results, tuple)
                                 else [results]):
            if tuple(result.shape) != value.shape or \
                    result.dtype != DTYPES[value.dtype]:
                raise AssertionError(f"{op.name} at {op.location}: expected "
                                     f"{value.type}, computed {tuple(result.shape)} "
                                     f"{result.dtype}")
            values[value] = result


def run_ops(function, arguments):
    """Results of a function, in order."""
    values = dict(zip([a.value for a in function.arguments], arguments))
    compute(function.ops, values)
    return [values[r.value] for r in function.results]


@torch.no_grad()
def run(function, arguments):
    """Results of a function by name; `arguments` is {name: tensor}."""
    results = run_ops(function, [arguments[a.name] for a in function.arguments])
    return {r.name: v for r, v in zip(function.results, results)}
