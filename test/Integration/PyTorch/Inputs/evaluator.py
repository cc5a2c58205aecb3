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

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
          "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i1": torch.bool}


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
        return x.sum(dims) if dims else x
    for d in sorted(dims, reverse=True):
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


def embedding_grad(dy, ids, rows, padding_idx=None):
    flat = ids.reshape(-1)
    dy = dy.reshape(flat.numel(), -1)
    if padding_idx is not None:
        dy = dy * (flat != padding_idx)[:, None]
    return torch.zeros(rows, dy.shape[1], dtype=dy.dtype).index_add(0, flat, dy)


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
    return p * counts[:, None] * scale


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


def compare(a, b, predicate):
    kind = predicate[1:] if predicate not in ("eq", "ne") else predicate
    result = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b,
              "ge": a >= b}[kind]
    if predicate[0] == "u" and predicate != "une":
        result = result | a.isnan() | b.isnan()
    return result


def constant(type, value):
    return torch.tensor(value.elements, dtype=DTYPES[type.dtype]).expand(type.shape)


def along(function):
    return lambda *x, dim: function(*x, dim)


OPS = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul,
    "arith.divf": torch.div, "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum, "arith.negf": torch.neg,
    "arith.addi": torch.add, "arith.subi": torch.sub, "arith.muli": torch.mul,
    "arith.andi": torch.logical_and, "arith.ori": torch.logical_or,
    "arith.xori": torch.logical_xor, "arith.select": torch.where,
    "arith.cmpf": compare, "arith.cmpi": lambda a, b, predicate:
        compare(a, b, predicate[-2:]),
    "math.exp": torch.exp, "math.log": torch.log, "math.sqrt": torch.sqrt,
    "math.rsqrt": torch.rsqrt, "math.tanh": torch.tanh, "math.erf": torch.erf,
    "math.sin": torch.sin, "math.cos": torch.cos, "math.absf": torch.abs,
    "math.powf": torch.pow,
    "mpcomm.dot_general": dot_general,
    "mpcomm.transpose": lambda x, dims: x.permute(dims),
    "mpcomm.reduce": reduce,
    "mpcomm.slice": lambda x, starts, limits, strides:
        x[tuple(slice(*s) for s in zip(starts, limits, strides))],
    "mpcomm.concatenate": lambda *x, dim: torch.cat(x, dim),
    "mpcomm.pad": pad,
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
    "mpcomm.embedding": lambda table, ids: table[ids],
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
    if op.name == "mpcomm.embedding_grad":
        return embedding_grad(*operands, rows=type.shape[0], **op.attributes)
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
    if op.name in OPS:
        return OPS[op.name](*operands, **op.attributes)
    if op.name.split(".")[1] in ("extf", "truncf", "sitofp", "uitofp", "fptosi",
                                 "extui", "extsi", "trunci"):
        return operands[0].to(DTYPES[type.dtype])
    raise NotImplementedError(op.name)


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


@torch.no_grad()
def run(function, arguments):
    """Results of a function by name; `arguments` is {name: tensor}."""
    values = {a.value: arguments[a.name] for a in function.arguments}
    compute(function.ops, values)
    return {r.name: values[r.value] for r in function.results}
