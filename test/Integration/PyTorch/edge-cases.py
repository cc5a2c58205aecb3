# Operators at the edges of what PyTorch documents: ties, infinite numbers and NaN, zeros of
# either sign, tensors of one element and of none, types that mix, all arguments of a call.
# Results and gradients are PyTorch's, element by element.
#
# REQUIRES: torch
# RUN: %python %s

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import edges
import torch
import torch.nn.functional as F

torch.manual_seed(0)
I, inf, nan = torch.tensor, math.inf, math.nan
A, B = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
LINE = I([-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, inf, -inf, nan])
TIES = I([[1.0, 2, 2, 0], [3, 3, 3, 3], [0, -1, 0, -1]])
SOME, NONE = I([0, -100, 2, -100, 1, 0]), I([-100] * 6)
LOGITS, WEIGHT = torch.randn(6, 4), I([1.0, 2, 0.5, 0]).double()
CONSTANT, ZEROS = torch.rand(3, 4, 5).double(), torch.zeros(18).double()
NO_INDEX = torch.zeros(0, dtype=torch.int64)
TABLE, IDS = torch.randn(7, 3), I([0, 2, 2, 6, 1, 0, 5, 2])


def changed(x):
    """Writes to a tensor that is computed from constants, and to a view of it."""
    t = CONSTANT.clone()
    y = x + t
    t.add_(1)
    row = t[1]
    row.mul_(2)
    return y + t


def written(x, write):
    x = x.clone()
    write(x)
    return x


CASES = {
    # Where a function has a kink, or no value.
    "sign": (torch.sign, LINE), "sgn": (torch.sgn, LINE), "abs": (torch.abs, LINE),
    "hypot": (lambda x, y: torch.hypot(x[:, None], y), LINE, LINE.flip(0)),
    "relu6": (F.relu6, LINE), "clamp": (lambda x: x.clamp(-1, 1), LINE),
    "floor": (lambda x, y: torch.div(x[:, None], y, rounding_mode="floor"), LINE, LINE),
    "remainder": (lambda x, y: torch.remainder(x[:, None], y), LINE, LINE),
    "max": (lambda x, y: [torch.maximum(x[:, None], y), torch.fmin(x[:, None], y)], LINE, LINE),
    "pow": (lambda x: [x ** p for p in (0, 1, 2, 3, -1, 0.5, -0.5, -2, 1.5)], LINE),
    "ties": (lambda x: [x.amax(1), x.amin((0, -1), True), x.max(-1), x.min(), x.median(-1), x.cummax(-1),
                        x.cummin(-1), x.sort(dim=-1, descending=True, stable=True)], TIES),
    # Whose gradient at an infinite number PyTorch's is, too.
    "lerp": (lambda x, y: [torch.lerp(x, y, w) for w in (0.0, 0.3, 0.5, 1.0)] + [torch.lerp(x, y, y.tanh())],
             I([1e20, 1.0, inf, -3, 0]), I([1.0, inf, inf, 2, -0.0])),
    # A number is a line of one element.
    "number": (lambda x: [x.softmax(0), x.log_softmax(-1), x.transpose(0, -1) * 2, x.cumsum(0), x.sort()[0],
                          x.logsumexp(0), x.max(0)[0], torch.std(x, 0, unbiased=False)], I(2.0)),
    "ones": (lambda x: [x.softmax(1), x.var(1, keepdim=True, unbiased=False), F.layer_norm(x, (1,)), x.sum(0)],
             torch.randn(3, 1)),
    # Rows that are all masked, and targets that are all ignored.
    "softmax": (lambda x: x.index_fill(1, I([0]), -inf).softmax(-1), A),
    "ignored": (lambda x: [F.cross_entropy(x, NONE), F.nll_loss(x, NONE), F.nll_loss(x, NONE, WEIGHT),
                           F.cross_entropy(x, NONE, WEIGHT, label_smoothing=0.1),
                           F.cross_entropy(x, NONE, reduction="sum")], LOGITS),
    "smoothed": (lambda x: [F.cross_entropy(x, SOME, WEIGHT, reduction=r, label_smoothing=0.3)
                            for r in ("none", "mean", "sum")], LOGITS),
    # Zeros of either sign are two constants, and two parts of a concatenation.
    "zeros": (lambda x: [
        torch.copysign(x[:2], I([0.0, -0.0])), torch.copysign(x, torch.cat([ZEROS[:2], -ZEROS])),
        torch.copysign(x, I([0.0, -0.0] * 10)) + torch.copysign(2 * x, I([-0.0, 0.0] * 10)),
        torch.copysign(x, torch.cat([ZEROS[:9], -ZEROS[:9], 0 * x[:2].detach()]))], torch.rand(20) + 1),
    # Tensors without elements.
    "nothing": (lambda x: [x[:, :0].sum(1), x[:, :0].prod(1), x[:0].mean(), x[0][:, :0] @ x[1].t()[:0],
                           torch.cat([x[:, :0], x], 1), torch.cat(x.split([0, 3, 1], 1), 1), torch.cat([
                               x[NO_INDEX], x]), x.index_add(0, NO_INDEX, x[:0]), x.index_put((NO_INDEX,), x[:0]),
                           x.scatter_add(1, torch.zeros(3, 0, 5, dtype=torch.int64), x[:, :0]),
                           F.pad(x[:, :0], (0, 0, 1, 2), value=3.0), x.index_select(0, NO_INDEX).sum() + x], A),
    # Writes to what is computed at import.
    "constant": (changed, A),
    "pos_weight": (lambda x: F.binary_cross_entropy_with_logits(x, CONSTANT, pos_weight=2 * CONSTANT), A),
    # Types that mix.
    "types": (lambda x: [x + I([1, 2, 3, 4, 5]), x * (x > 0), ((x > 0) + 1) * x, torch.cat([x, x > 0], 1),
                         torch.where(x > 0, x, 2), x.masked_fill(x > 0, -1), torch.add(x, (x * 3).long(), alpha=-2),
                         torch.sub(x, 3, alpha=2), torch.rsub(x, 2.0, alpha=3), (x * 9).int() + 3.5,
                         (x * 9).int() + (x * 5).long(), (x > 0).sum(-1), (x > 0).cumsum(0), ((x * 9).long() / 2)], A),
    "integers": (lambda x: [y for v in (3, -3) for y in (
        (x * 9).long() % v, torch.fmod((x * 9).long(), v), torch.div((x * 9).long(), v, rounding_mode="floor"),
        torch.div((x * 9).long(), v, rounding_mode="trunc"))] + [(x * 3).long() ** 3, -(x * 3).int(), (
            x * 3).long().sign()], A),
    "classes": (lambda x: [torch.isnan(x), torch.isinf(x), torch.isfinite(x), torch.isinf(x.abs().clamp(
        max=9).nan_to_num().long()), torch.special.erfc(x)], LINE),
    "shifts": (lambda x: [torch.bitwise_left_shift((x * 9).long(), I([0, 1, 2, 3, 63])), torch.bitwise_right_shift(
        (x * 9).long(), I([0, 1, 2, 3, 63])), (x * 9).int() << 3, (x * 9).int() >> 31, (x * 9).long() & I(6),
        (x * 9).long() | I(5), (x * 9).long() ^ I(-3), ~(x * 9).long()], A),
    # In forms that other tests do not have.
    "forms": (lambda x, y: [
        torch.copysign(x, -1.0), x.masked_fill(x > 0, y[0, 0, 0]), torch.special.erfc(x), torch.rsub(x, y, alpha=2),
        torch.remainder(2.0, x.detach()), torch.fmod(x, y), torch.div(x, 0.7, rounding_mode="trunc"), torch.xlogy(x, 2.0),
        torch.xlogy(2.0, y.abs()), x[0, :, 0] @ y[0, :, 0], x[0] @ y[0, 0], x.norm(3), x.norm(2, (0, 1), dtype=x.dtype),
        x.clamp_min(y), torch.isfinite(x), (x > 0).all(-1), (x > -9).any(0), x.prod(), x.detach().clone().zero_(),
        torch.diag(x[0, 0]), torch.count_nonzero(x > 0, (0, 2)), torch.flatten(x[:, :1]).reshape(3, 1, 5, 1).squeeze(),
        F.channel_shuffle(x.detach()[:, :, :, None], 2), torch.rot90(x, 3, (-1, 0)), torch.meshgrid(
            x[0, 0], y[0, 0], indexing="xy")[0]], A, B),
    # All arguments.
    "products": (lambda x, y: [
        torch.addbmm(y[:, :, :4].sum(0), x, y.transpose(1, 2), beta=0.5, alpha=-2),
        torch.addmv(torch.full((4,), nan).double(), x[0], y[0, 0], beta=0, alpha=3),
        torch.addmm(y[0, :, :4], x[0], y[1].t(), beta=2),
        torch.baddbmm(y[:, :, :4], x, y.transpose(1, 2), alpha=3, beta=2)], A, B),
    "var": (lambda x: [torch.var(x, d, unbiased=u, keepdim=k) for d, u, k in (
        ((0, -1), True, True), (1, False, False), ((-2,), True, False))] + [torch.std_mean(x, (0, 2), False)], A),
    "resize": (lambda x: [F.interpolate(x, s, mode="bicubic", align_corners=a, antialias=True)
                          for s in ((4, 11), (9, 3)) for a in (False, True)], torch.randn(1, 2, 6, 7)),
    "bags": (lambda e: [e * torch._embedding_bag_forward_only(e.detach(), IDS, I([0, 2, 4, 6]), False, m)[0].sum()
                        for m in (0, 1, 2)], TABLE),
    "frequency": (lambda e: F.embedding(IDS.reshape(4, 2), e, scale_grad_by_freq=True), TABLE),
    "views": (lambda x, y: [written(x, lambda z: z[:, 1:3].add_(y[:, :2], alpha=2)), written(
        x, lambda z: z.diagonal(0, 1, 2).fill_(2)), written(x, lambda z: z[..., -2].copy_(y[..., 0])), written(
            x, lambda z: z.transpose(0, 2)[1].mul_(y[:, :, 0].t()))], A, B),
}
IS_NEW = torch.__version__ >= "2"  # 1.13 looks at values in gradients of products
KINDS = ["prod"] * IS_NEW + ["mean", "amax", "amin"]
for kind in KINDS:
    for own in (True, False):
        CASES[f"index_reduce_{kind}_{own}"] = (lambda x, y, kind=kind, own=own: x.index_reduce(
            1, I([0, 2, 2]), y[:, :3], kind, include_self=own), A, B)
for kind in ["sum", *KINDS]:
    for own in (True, False):
        CASES[f"scatter_reduce_{kind}_{own}"] = (lambda x, y, kind=kind, own=own: x.scatter_reduce(
            1, I([[0, 2, 2], [1, 1, 1], [0, 1, 0]]), y[:, :3], kind, include_self=own), TIES, TIES.flip(0))
for kind in ("add", "multiply"):  # whose gradient PyTorch does not have
    CASES[f"scatter_{kind}"] = (lambda x, y, kind=kind: [x * x.detach().scatter(
        1, I([0, 2, 3])[None, :, None].expand(3, 3, 5), y[:, :3].detach(), reduce=kind), x * x.detach().scatter(
            -1, I([0, 2, 3])[None, None], 2.5, reduce=kind)], A, B)
if IS_NEW:
    CASES["dims"] = (lambda x: [(x > 0).any((0, 1)), (x > 0).all((0, -1), True), x[:, :1].squeeze((0, 1))], A)
    CASES["masks"] = (lambda x, y: [written(x, lambda z: z.__setitem__(at, 2.0)) for at in (
        y > 0, y[:, 0, 0] > 0, (slice(None), y[0] > 0), (slice(None), slice(None), y[0, 0] > 0))], A, B)
    CASES["block_diag"] = (lambda x: torch.block_diag(x[0], x[1]), A)
    CASES["safe_softmax"] = (lambda x: [torch._safe_softmax(torch.where(x > 0.3, -inf, x).index_fill(
        1, I([0]), -inf), d) for d in (1, -1)], A)

# 1.13 runs some cases on values, where it does not say where in memory a view begins.
edges.check({"views": CASES.pop("views")})
edges.check(CASES)
