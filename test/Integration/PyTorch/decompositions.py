# Operators without a translation come in by way of their decompositions, with the name of
# the operator in their locations; what the core lacks is named with the operator.
#
# REQUIRES: torch
# RUN: %python %s

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def workload(function, loss=F.mse_loss, y=None):
    torch.manual_seed(0)
    width = function(torch.ones(2, 8)).shape[1]
    model = nn.Sequential(nn.Linear(6, 8), Call(function), nn.Linear(width, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return mi.Workload(model, loss, optimizer, 4, name="model", dataset={
        "x": torch.randn(8, 6), "y": torch.randn(8, 5) if y is None else y})


FUNCTIONS = {
    "hardswish": F.hardswish,
    "native_group_norm": nn.GroupNorm(2, 8),
    "leaky_relu": F.leaky_relu,
    "logsumexp": lambda x: x * x.logsumexp(1, True),
    "var": lambda x: x * x.var(1, keepdim=True),
    "std": lambda x: x * x.std(0, unbiased=False),
    "var_mean": lambda x: torch.var_mean(x, 1, keepdim=True)[0] * x,
    "glu": lambda x: F.glu(x, 1),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=3),
    "addcdiv": lambda x: torch.addcdiv(x, x, x * x + 1),
    "logaddexp": lambda x: torch.logaddexp(x, -x),
    # Of the same operator twice, with other arguments.
    "hardshrink": lambda x: F.hardshrink(x) + F.hardshrink(x, 0.1),
    "softshrink": lambda x: F.softshrink(x, 0.1),
    "nan_to_num": lambda x: torch.nan_to_num(torch.where(x > 0.3, math.nan, x), 0.5, 1.0) +
    torch.nan_to_num(torch.where(x > 0.3, math.nan, x), math.inf).clamp(max=2),
    "nansum": lambda x: x * torch.where(x > 0.3, math.nan, x).nansum(1, True),
    "histc": lambda x: x * torch.histc(x.detach(), 8, -0.5, 0.5) +
    torch.histc(0 * x.detach(), 8),
    # Operators with a translation, in forms that have gone wrong.
    "cat": lambda x: torch.cat([x, (x > 0).long(), x], 1)[:, 4:20:2] * x,
    "slice": lambda x: F.pad(x.unsqueeze(0), (2, -1), mode="circular")[0],
    "_weight_norm_interface": torch.nn.utils.weight_norm(nn.Linear(8, 8)),
}
for name, function in FUNCTIONS.items():
    program = checks.check(workload(function))
    places = {op.location for op in program.functions[0].ops}
    if "norm" not in name:
        assert f"1/{name}" in places, (name, places)
        assert name == "histc" or f"1/{name}.grad" in places, (name, places)

# In more forms, or by operators of other names.
FORMS = {
    "hypot": lambda x: torch.hypot(x, x.flip(0)) + torch.hypot(0 * x.detach(), 0 * x.detach()),
    "round": lambda x: x * torch.round(x, decimals=1) + x * torch.round(40 * x, decimals=-1),
    # Of the values 0 to 2 in the first column one is twice there.
    "mode": lambda x: x.gather(1, torch.mode((x.detach() * 4).round(), 1, True)[1]) +
    torch.mode((x.detach() * 4).round(), 0)[0] * x,
    "cdist": lambda x: sum(torch.cdist(x, x.flip(0) * 0.5 + k, p)[:, :1] * x for k, p in enumerate(
        (0.0, 1.0, 1.5, 2.0, 3.0, math.inf))),
    "cdist.products": lambda x: x * torch.cdist(
        x, x + 1, compute_mode="use_mm_for_euclid_dist").mean(1, True),
    "cdist.zero": lambda x: x * sum(torch.cdist(x, x.detach(), p).mean() for p in (1.5, 2.0, 3.0)),
    "pdist": lambda x: x * torch.pdist(x).sum() + x * torch.pdist(x, 3.0)[:1],
    "lerp": lambda x: torch.lerp(x, x * x, torch.sigmoid(x)),
    "shift": lambda x: x * (((x * 40).long() << 2) >> torch.arange(8) % 4).to(x.dtype) / 100 +
    x * torch.bitwise_right_shift((x * 40).int(), 1).to(x.dtype) / 100,
    "rrelu": lambda x: F.rrelu(x, 0.3, 0.3, training=True) + F.rrelu(x, 0.1, 0.4),
    "as_strided": lambda x: x.as_strided((len(x), 4, 2), (8, 1, 3)).sum(2) + x.t().as_strided(
        (len(x), 4), (8, 2), x.storage_offset() + 1),
    "unfold": lambda x: x.unfold(1, 3, 2).sum(2) + x.unfold(-1, 2, 3).prod(2),
    "trace": lambda x: x * torch.trace(x) + torch.diag(x[0])[:1],
    "bilinear": lambda x, w=torch.randn(5, 8, 8): F.bilinear(x, x * x, w.to(x.dtype)),
    "cross": lambda x: torch.cross(x[:, :3], x[:, 3:6], 1),
    "counts": lambda x: x * torch.count_nonzero(x > 0, 1)[:, None] * torch.bucketize(
        x.detach(), torch.tensor([-0.5, 0.0, 0.5], dtype=x.dtype)) * torch.isin(
            (x * 4).long(), torch.tensor([0, 1])) * torch.searchsorted(
                torch.linspace(-1, 1, 5, dtype=x.dtype), x.detach(), right=True),
    "multi_margin": lambda x: x * F.multi_margin_loss(x, torch.arange(len(x))) + F.multi_margin_loss(
        x, torch.arange(len(x)), p=2, margin=0.3, reduction="none")[:, None],
    "affine_grid": lambda x: F.affine_grid(x[:, :6].reshape(-1, 2, 3), [len(x), 1, 2, 3], align_corners=True).
    flatten(1) + F.affine_grid(x[:, :6].reshape(-1, 2, 3), [len(x), 1, 2, 3], align_corners=False).flatten(1),
    "diagonal": lambda x: x.diagonal(1).unsqueeze(1) + torch.diagonal_scatter(
        x, x[:, 0])[:, :3].diag_embed().mean(2),
}
for name, function in FORMS.items():
    try:
        checks.check(workload(function))
    except Exception as error:
        raise AssertionError(name) from error

# Rows and, in the gradient of the table, sums are in groups. PyTorch has no f64 of it.
if hasattr(torch, "_grouped_mm"):
    table = 0.2 * torch.randn(3, 8, 8)
    checks.check(workload(lambda x: torch._grouped_mm(x, table * x.mean(), torch.tensor(
        [1, 2, len(x)], dtype=torch.int32))), double=False)

# The gradient of one of many parts is that part between zeros, which are one operand each.
program = checks.check(workload(lambda x: x * x.split(1, 1)[4]))
sizes = [len(op.operands) for op in program.functions[0].ops if op.name == "mpcomm.concatenate"]
assert max(sizes, default=0) <= 3, sizes
# One number alone.
checks.check(workload(lambda x: x * torch.cat([torch.zeros(2, x.shape[1]), torch.zeros(len(x) - 2, x.shape[1])])))

# What the core lacks.
try:
    mi.trace(workload(lambda x: torch.special.bessel_j0(x.detach()) +
                      x * torch.special.log_ndtr(x.detach())))
    raise AssertionError("expected a failure")
except mi.UnsupportedOperators as error:
    uses = {name: (reason, modules) for name, reason, modules in error.uses}
    assert uses["aten.special_bessel_j0"] == ("", {"1": 1}), uses
    reason, modules = uses["aten.special_log_ndtr"]
    assert "its decomposition needs" in reason and "aten.special_erfcx" in reason or \
        torch.__version__ < "2", reason
