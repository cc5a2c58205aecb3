# ===- decompositions.py - operators in terms of others --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Definitions of operators that PyTorch has none for, or none in 1.13, or only by
itself. Each is a function of tensors, with the operator's arguments, that
decompose.py traces."""

import itertools
import math

import torch

from ..errors import Unsupported
from .decompose import decomposition
from .pool import adaptive_taps


def dims_of(x, dims):
    return list(range(x.dim())) if dims is None or dims == [] or not x.dim() else \
        [dims] if isinstance(dims, int) else list(dims)


def reduce_loss(loss, reduction):
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


# --- statistics ---------------------------------------------------------------------- #

@decomposition("var_mean.correction")
def var_mean(x, dim=None, correction=None, keepdim=False):
    dims = dims_of(x, dim)
    count = math.prod(x.shape[d] for d in dims) - (1 if correction is None else correction)
    mean = x.mean(dims, True)
    var = (x - mean).square().sum(dims, keepdim) / max(count, 0)
    return var, mean if keepdim else x.mean(dims)


@decomposition("var.correction")
def var(x, dim=None, correction=None, keepdim=False):
    return var_mean(x, dim, correction, keepdim)[0]


@decomposition("std.correction")
def std(x, dim=None, correction=None, keepdim=False):
    return var(x, dim, correction, keepdim).sqrt()


@decomposition("std_mean.correction")
def std_mean(x, dim=None, correction=None, keepdim=False):
    variance, mean = var_mean(x, dim, correction, keepdim)
    return variance.sqrt(), mean


# --- losses -------------------------------------------------------------------------- #

def class_weights(x, target, weight, ignore_index):
    """How much each target counts, of the shape of `target`, and the targets that
    count, 0 for the others."""
    counts = target != ignore_index
    safe = torch.where(counts, target, 0)
    ones = x.new_ones(()) if weight is None else weight[safe]
    return torch.where(counts, ones, 0.0).to(x.dtype), safe


@decomposition("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(x, target, weight, reduction, ignore_index):
    dim = min(x.dim() - 1, 1)
    factor, safe = class_weights(x, target, weight, ignore_index)
    loss = -x.gather(dim, safe.unsqueeze(dim)).squeeze(dim) * factor
    loss = torch.where(target != ignore_index, loss, 0.0)
    total = factor.sum()
    if reduction == 0:
        return loss, total
    return loss.sum() / total if reduction == 1 else loss.sum(), total


@decomposition("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total):
    dim = min(x.dim() - 1, 1)
    factor, safe = class_weights(x, target, weight, ignore_index)
    each = -grad * factor
    if reduction == 1:  # of no target that counts, 0 / 0
        each = torch.where(target != ignore_index, each / total, 0.0)
    classes = torch.arange(x.shape[dim]).reshape([-1] + [1] * (x.dim() - 1 - dim))
    return torch.where(classes == safe.unsqueeze(dim), each.unsqueeze(dim), 0.0).to(x.dtype)


@decomposition("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(x, y, weight=None, pos_weight=None, reduction=1):
    softplus = (-x).clamp(min=0) + torch.log1p((-x.abs()).exp())
    positive = 1 if pos_weight is None else (pos_weight - 1) * y + 1
    loss = (1 - y) * x + positive * softplus
    return reduce_loss(loss if weight is None else loss * weight, reduction)


@decomposition("smooth_l1_loss")
def smooth_l1_loss(x, y, reduction=1, beta=1.0):
    d = (x - y).abs()
    return reduce_loss(torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)
                       if beta > 0 else d, reduction)


@decomposition("smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad, x, y, reduction, beta):
    d = x - y
    slope = torch.where(d.abs() < beta, d / beta, d.sign()) if beta > 0 else d.sign()
    return grad * slope / (d.numel() if reduction == 1 else 1)


def margins(x, target, p, margin, weight):
    """How far each class is within the margin of the target's, [N, C], and its weight."""
    x = x.reshape(-1, x.shape[-1])
    target = target.reshape(-1, 1)
    z = (margin - x.gather(1, target) + x).clamp(min=0)
    others = torch.arange(x.shape[1]) != target
    share = others.to(x.dtype) / x.shape[1]
    return z, share if weight is None else share * weight[target], target


@decomposition("multi_margin_loss")
def multi_margin_loss(x, target, p=1, margin=1, weight=None, reduction=1):
    z, share, _ = margins(x, target, p, margin, weight)
    loss = ((z if p == 1 else z * z) * share).sum(1)
    return reduce_loss(loss.reshape(target.shape), reduction)


@decomposition("multi_margin_loss_backward")
def multi_margin_loss_backward(grad, x, target, p, margin, weight=None, reduction=1):
    z, share, target = margins(x, target, p, margin, weight)
    slope = ((z > 0).to(z.dtype) if p == 1 else 2 * z) * share
    slope = slope.scatter_add(1, target, -slope.sum(1, True))
    each = grad.reshape(-1, 1) / (len(z) if reduction == 1 else 1)
    return (each * slope).reshape(x.shape)


@decomposition("huber_loss_backward")
def huber_loss_backward(grad, x, y, reduction, delta):
    return grad * (x - y).clamp(-delta, delta) / (x.numel() if reduction == 1 else 1)


# --- elementwise ---------------------------------------------------------------------- #

@decomposition("prims.convert_element_type")
def convert_element_type(x, dtype):
    return x.to(dtype)


@decomposition("prims.sum")
def prims_sum(x, dims, *, output_dtype=None):
    return x.sum(dims, dtype=output_dtype or x.dtype)


@decomposition("logaddexp")
def logaddexp(x, y):
    top = torch.maximum(x, y)
    finite = torch.where(top.abs() == math.inf, 0.0, top)
    return finite + torch.log((x - finite).exp() + (y - finite).exp())


@decomposition("nan_to_num")
def nan_to_num(x, nan=None, posinf=None, neginf=None):
    if not x.is_floating_point():
        return x.clone()
    limits = torch.finfo(x.dtype)
    y = torch.where(x == math.inf, limits.max if posinf is None else posinf, x)
    y = torch.where(x == -math.inf, limits.min if neginf is None else neginf, y)
    return torch.where(x != x, nan or 0.0, y)


@decomposition("nansum")
def nansum(x, dim=None, keepdim=False, dtype=None):
    return torch.where(x != x, 0.0, x).sum(dims_of(x, dim), keepdim, dtype=dtype)


@decomposition("hardshrink_backward", "softshrink_backward")
def hardshrink_backward(grad, x, bound):
    return torch.where(x.abs() <= bound, 0.0, grad)


@decomposition("hypot")
def hypot(x, y):
    x, y = x.abs(), y.abs()
    low, top = torch.minimum(x, y), torch.maximum(x, y)
    ratio = low / torch.where(top == 0, 1.0, top)
    infinite = (x == math.inf) | (y == math.inf)  # whatever the other is, NaN too
    return torch.where(infinite, math.inf, top * (1 + ratio * ratio).sqrt())


@decomposition("round.decimals")
def round_decimals(x, *, decimals):
    ten = 10.0 ** abs(decimals)
    return (x * ten).round() / ten if decimals >= 0 else (x / ten).round() * ten


@decomposition("mode")
def mode(x, dim=-1, keepdim=False):
    """The least of the most frequent values, and where it is last."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    size = x.shape[dim]
    place = torch.arange(size).reshape([size if d == dim % x.dim() else 1 for d in range(x.dim())])
    if size > 1:
        begins = values.narrow(dim, 1, size - 1) != values.narrow(dim, 0, size - 1)
        begins = torch.cat([torch.ones_like(begins.narrow(dim, 0, 1)), begins], dim)
        first = torch.where(begins, place, 0).cummax(dim)[0]
        best = (place - first).argmax(dim, True)
        values, places = values.gather(dim, best), places.gather(dim, best)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


@decomposition("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(x, dim=None):
    return (x != 0).sum(dims_of(x, dim))


@decomposition("isin.Tensor_Tensor")
def isin(x, values, *, assume_unique=False, invert=False):
    found = (x.unsqueeze(-1) == values.flatten()).any(-1)
    return found.logical_not() if invert else found


@decomposition("searchsorted.Tensor")
def searchsorted(sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    """How many elements are before each one of x."""
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    sequence, x = sequence.unsqueeze(-2), x.unsqueeze(-1)
    before = sequence <= x if right or side == "right" else sequence < x
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@decomposition("bucketize.Tensor")
def bucketize(x, boundaries, *, out_int32=False, right=False):
    before = boundaries <= x.unsqueeze(-1) if right else boundaries < x.unsqueeze(-1)
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


# --- products -------------------------------------------------------------------------- #

def added(x, product, beta, alpha):
    """beta x + alpha product; of x nothing, not even NaN, where beta is 0."""
    product = alpha * product
    return product if beta == 0 else beta * x + product


@decomposition("addmv")
def addmv(x, a, b, *, beta=1, alpha=1):
    return added(x, a @ b, beta, alpha)


@decomposition("addbmm")
def addbmm(x, a, b, *, beta=1, alpha=1):
    return added(x, (a @ b).sum(0), beta, alpha)


@decomposition("linalg_cross")
def cross(a, b, *, dim=-1):
    return a.roll(-1, dim) * b.roll(1, dim) - a.roll(1, dim) * b.roll(-1, dim)


@decomposition("_trilinear")
def trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum of a product of three tensors, as that of two products of two."""
    for dims, which in ((expand1, "a"), (expand2, "b"), (expand3, "c")):
        for d in dims:
            a, b, c = [t.unsqueeze(d) if w == which else t for w, t in zip("abc", (a, b, c))]
    early = [d for d in sumdim if c.shape[d] == 1 and d not in expand3] or \
        [d for d in sumdim if c.shape[d] == 1]
    product = (a * b).sum(early, True) if early else a * b
    return (product * c).sum(sumdim)


@decomposition("affine_grid_generator")
def affine_grid_generator(theta, size, align_corners):
    """Points of a grid over an image, [N, …, D], after a linear map of D dimensions."""
    sizes, lines = list(size[2:]), []
    for n in sizes:
        half = 1 if align_corners else (n - 1) / n
        lines.append(torch.linspace(-half, half, n, dtype=theta.dtype) if n > 1 else
                     torch.zeros(1, dtype=theta.dtype))
    points = torch.stack([*torch.meshgrid(*lines, indexing="ij")][::-1] +
                         [torch.ones(sizes, dtype=theta.dtype)], -1)
    result = points.flatten(0, -2) @ theta.transpose(1, 2)
    return result.reshape([len(theta), *sizes, len(sizes)])


# --- windows of one dimension ------------------------------------------------------------- #

def window_places(count, size, step):
    return (step * torch.arange(count).unsqueeze(1) + torch.arange(size)).flatten()


@decomposition("unfold")
def unfold(x, dim, size, step):
    dim %= x.dim()
    count = (x.shape[dim] - size) // step + 1
    return x.index_select(dim, window_places(count, size, step)).unflatten(
        dim, (count, size)).movedim(dim + 1, -1)


@decomposition("unfold_backward")
def unfold_backward(grad, sizes, dim, size, step):
    dim %= len(sizes)
    places = window_places(grad.shape[dim], size, step)
    return grad.new_zeros(sizes).index_add(
        dim, places, grad.movedim(-1, dim + 1).flatten(dim, dim + 1))


# --- diagonals -------------------------------------------------------------------------- #

def diagonal_places(rows, columns, offset):
    """Where the elements of a diagonal are in a matrix, row by row."""
    first = offset if offset >= 0 else -offset * columns
    count = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    return first + (columns + 1) * torch.arange(max(count, 0))


@decomposition("diagonal")
def diagonal(x, offset=0, dim1=0, dim2=1):
    x = x.movedim((dim1, dim2), (-2, -1))
    return x.flatten(-2).index_select(-1, diagonal_places(*x.shape[-2:], offset))


@decomposition("diagonal_backward")
def diagonal_backward(grad, sizes, offset, dim1, dim2):
    rows, columns = sizes[dim1], sizes[dim2]
    flat = grad.new_zeros([*grad.shape[:-1], rows * columns]).index_add(
        -1, diagonal_places(rows, columns, offset), grad)
    return flat.unflatten(-1, (rows, columns)).movedim((-2, -1), (dim1, dim2))


@decomposition("diagonal_scatter")
def diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    written = diagonal_backward(source, x.shape, offset, dim1, dim2)
    rows, columns = torch.arange(x.shape[dim1]), torch.arange(x.shape[dim2])
    shape = [1] * x.dim()
    shape[dim1] = -1
    rows, shape[dim1] = rows.reshape(shape), 1
    shape[dim2] = -1
    return torch.where(columns.reshape(shape) - rows == offset, written, x)


@decomposition("diag")
def diag(x, diagonal=0):
    if x.dim() == 2:
        return torch.diagonal(x, diagonal)
    size = len(x) + abs(diagonal)
    return diagonal_backward(x, [size, size], diagonal, 0, 1)


@decomposition("trace")
def trace(x):
    return torch.diagonal(x).sum()


# --- distances ------------------------------------------------------------------------ #

def norm_of(d, p):
    """The p-norm of the last dimension."""
    if p == 0:
        return (d != 0).to(d.dtype).sum(-1)
    if p == 1:
        return d.abs().sum(-1)
    if p == 2:
        return d.square().sum(-1).sqrt()
    return d.abs().amax(-1) if p == math.inf else d.abs().pow(p).sum(-1).pow(1 / p)


def norm_slope(d, norm, p):
    """The derivative of norm_of as PyTorch has it, 0 where the norm is."""
    if p == 0:
        return torch.zeros_like(d)
    if p == 1:
        return d.sign()
    norm = norm.unsqueeze(-1)
    if p == math.inf:
        return torch.where(d.abs() == norm, d.sign(), 0.0)
    length = torch.where(norm == 0, 1.0, norm)
    if p == 2:
        return d / length
    slope = d.sign() * torch.where(d == 0, 0.0, torch.where(d == 0, 1.0, d.abs()).pow(p - 1))
    return torch.where(norm == 0, 0.0, slope / length.pow(p - 1))


@decomposition("_cdist_forward")
def cdist(a, b, p, compute_mode):
    return norm_of(a.unsqueeze(-2) - b.unsqueeze(-3), p)


@decomposition("_cdist_backward")
def cdist_backward(grad, a, b, p, norm):
    slope = norm_slope(a.unsqueeze(-2) - b.unsqueeze(-3), norm, p)
    return (grad.unsqueeze(-1) * slope).sum(-2)


@decomposition("_euclidean_dist")
def euclidean_dist(a, b):
    squares = a.square().sum(-1, True) + b.square().sum(-1).unsqueeze(-2)
    return (squares - 2 * (a @ b.transpose(-2, -1))).clamp(min=0).sqrt()


@decomposition("_pdist_forward")
def pdist(x, p=2.0):
    a, b = torch.triu_indices(len(x), len(x), 1)
    return norm_of(x[a] - x[b], p)


@decomposition("_pdist_backward")
def pdist_backward(grad, x, p, norm):
    a, b = torch.triu_indices(len(x), len(x), 1)
    each = grad.unsqueeze(-1) * norm_slope(x[a] - x[b], norm, p)
    return torch.zeros_like(x).index_add(0, a, each).index_add(0, b, -each)


# --- windows ------------------------------------------------------------------------------- #

def greatest_of(x, taps, before):
    """The first of the greatest elements of each window, and its index among all elements
    of a sample's channel. taps[d][k] are the k-th elements of the windows along dimension
    d, of x with before[d] elements more in front."""
    rank, sizes = len(taps), [*x.shape[-len(taps):]]
    pads = [n for d in reversed(range(rank))
            for n in (before[d], max(0, int(max(map(max, taps[d]))) + 1 - sizes[d] - before[d]))]
    padded = torch.nn.functional.pad(x, pads, value=-math.inf) if any(pads) else x
    best = index = None
    for chosen in itertools.product(*taps):
        part, here = padded, torch.zeros((), dtype=torch.int64)
        for d, positions in enumerate(map(torch.tensor, chosen)):
            part = part.index_select(d - rank, positions)
            here = here.unsqueeze(-1) * sizes[d] + positions - before[d]
        here = here.expand(part.shape)
        if best is None:
            best, index = part, here
            continue
        better = (part > best) | (part != part)
        best, index = torch.where(better, part, best), torch.where(better, here, index)
    return best, index


def greatest_of_windows(rank):
    @decomposition(f"max_pool{rank}d_with_indices")
    def of_pool(x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        def each(given):
            given = [given] if isinstance(given, int) else list(given)
            return given * rank if len(given) == 1 else given

        kernel, padding, taps = each(kernel), each(padding), []
        for n, k, s, p, d in zip(x.shape[-rank:], kernel, each(stride or kernel), padding,
                                 each(dilation)):
            room = n + 2 * p - d * (k - 1) - 1
            count = (-(-room // s) if ceil_mode else room // s) + 1
            if ceil_mode and (count - 1) * s >= n + p:
                count -= 1
            taps.append([[i * s + at * d for i in range(count)] for at in range(k)])
        return greatest_of(x, taps, padding)

    @decomposition(f"adaptive_max_pool{rank}d")
    def of_adaptive(x, out):
        return greatest_of(x, list(map(adaptive_taps, x.shape[-rank:], out)), [0] * rank)


greatest_of_windows(2)
greatest_of_windows(3)


def unpooled(rank):
    @decomposition(f"max_unpool{rank}d")
    def definition(x, indices, output_size, *_):
        lead = list(x.shape[:-rank])
        zeros = x.new_zeros(lead + [math.prod(output_size)])
        return zeros.scatter(-1, indices.flatten(-rank), x.flatten(-rank)).reshape(
            lead + list(output_size))


unpooled(2)
unpooled(3)


# --- weight norm ------------------------------------------------------------------------- #

@decomposition("_weight_norm_interface")
def weight_norm(v, g, dim=0):
    norm = v.square().sum(other_dims(v, dim), True).sqrt()
    return v * (g / norm), norm


@decomposition("_weight_norm_interface_backward")
def weight_norm_backward(grad, v, g, norm, dim):
    norm = norm.reshape(g.shape)
    along = (grad * v).sum(other_dims(v, dim), True) / norm
    return g / norm * (grad - v * (along / norm)), along


def other_dims(v, dim):
    return [d for d in range(v.dim()) if d != dim]


# --- mixtures of experts -------------------------------------------------------------- #

@decomposition("_grouped_mm")
def grouped_mm(a, b, offs=None, bias=None, out_dtype=None):
    """A product for each group. Group g of a dimension that is a matrix's own ends before
    offs[g]; what is in no group is 0."""
    if bias is not None or out_dtype not in (None, a.dtype):
        raise Unsupported("with a bias or of another type")
    if offs is None:
        return a @ b
    size = a.shape[0] if b.dim() == 3 else a.shape[1] if a.dim() == 2 else b.shape[1]
    place = torch.arange(size)
    before = torch.cat([offs.new_zeros(1), offs[:-1]])
    within = ((place >= before[:, None]) & (place < offs[:, None])).to(a.dtype)
    if b.dim() == 3:
        return ((a * within[:, :, None]) @ b).sum(0)
    if a.dim() == 2:
        return (a * within[:, None, :]) @ b
    return ((a @ b) * within[:, None, :]).sum(0)


@decomposition("histc")
def histc(x, bins=100, min=0, max=0):
    x = x.reshape(-1)
    low, high = min, max
    if low == high:
        low, high = x.amin(), x.amax()
        wide = (low == high).to(x.dtype)
        low, high = low - wide, high + wide
    place = ((x - low) * (bins / (high - low))).floor().clamp(max=bins - 1)
    inside = (x >= low) & (x <= high)
    return ((place[:, None] == torch.arange(bins)) & inside[:, None]).to(x.dtype).sum(0)
