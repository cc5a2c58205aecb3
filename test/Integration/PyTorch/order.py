# Order, running totals, reductions with indices, functions and integers, forward and
# backward against PyTorch in f64.
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

N = 12


class Wrapped(nn.Module):
    """`function` of what a linear layer makes, [batch, 4, 6], and of integers."""

    def __init__(self, function):
        super().__init__()
        self.function, self.a = function, nn.Linear(6, 24)

    def forward(self, x, i):
        y = self.function(self.a(x).reshape(-1, 4, 6), i)
        y = y if torch.is_tensor(y) else torch.cat([t.reshape(len(x), -1) for t in y], 1)
        return y.reshape(len(x), -1)


def train(function, name):
    torch.manual_seed(1)
    model = Wrapped(function).double()
    x, i = torch.randn(N, 6).double(), torch.randint(-9, 9, (N, 4, 6))
    i[i == 0] = 3
    with torch.no_grad():
        y = torch.randn(model(x, i).shape).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        checks.check(mi.Workload(model, F.mse_loss, optimizer, 4, {"x": x, "i": i, "y": y},
                                 inputs=["x", "i"], targets=["y"], name="model"), steps=2)
    except Exception as error:
        raise AssertionError(f"{name}: {error}") from error


# Functions on all of their domain, bounded.
unary = {
    "acos": torch.tanh, "asin": torch.tanh, "atanh": torch.tanh,
    "acosh": lambda x: x * x + 1.5, "log10": lambda x: x * x + 0.5, "log2": lambda x: x * x + 0.5,
    "log1p": lambda x: x * x, "asinh": None, "atan": None, "cosh": None, "sinh": None, "tan": torch.tanh,
    "erfc": None, "exp2": None, "expm1": None, "frac": None, "floor": None, "ceil": None,
    "trunc": None, "round": None, "neg": None, "abs": None, "sign": None,
}  # fmt: skip
for name, domain in unary.items():
    train(lambda x, i: getattr(torch, name)(domain(x) if domain else x) * x, name)

functions = {
    "atan2": lambda x, i: torch.atan2(x, x * x + i),
    "fmax": lambda x, i: torch.fmax(x, x * x) + torch.fmin(x, i.double()),
    "copysign": lambda x, i: torch.copysign(x, i.double()),
    "xlogy": lambda x, i: torch.xlogy(x, x.abs() + 1),
    "logical": lambda x, i: torch.where((x > 0) & ~(x > 1) | (i > 3).logical_xor(x < -1), x, x * 2),
    "addcmul": lambda x, i: torch.addcdiv(torch.addcmul(x, x, x, value=0.5), x, x * x + 1, value=2),
    "clamp": lambda x, i: x.clamp(torch.full((6,), -0.5).double(), x * x) + x.clamp_max(0.3),
    "pow": lambda x, i: 2.0 ** x + x ** 0 + (x * x + 1) ** x,
    "fmod": lambda x, i: torch.fmod(x, 0.7) + torch.remainder(x, 0.3) + torch.remainder(x, i),
    "divide": lambda x, i: (torch.div(x, 0.3, rounding_mode="floor") + torch.floor_divide(x.detach(), 0.2) +
                            torch.div(x, i, rounding_mode="trunc")) * x,
    "classes": lambda x, i: torch.where((x / 0 * 0).isnan() | (x / 0).isinf() & x.isfinite(), x, -x),
    "integers": lambda x, i: x * (i.abs() - (-i) + i.sign() + i ** 3 + (i & i * 5) + (i | i + 2) + (i ^ i * 7) + ~i),
    "whole": lambda x, i: x * (i // 3 + i % 4 + torch.fmod(i, 5) + torch.div(i, -2, rounding_mode="trunc") +
                               i // (i * 2 + 1) + i.remainder(i * 2 + 1) + 7 // i),
    "shifts": lambda x, i: x * ((i << 3) + (i >> 1) + (i.abs() >> i.abs()) + (i << 70 - 60)),
    "any": lambda x, i: x * ((x > 1).any(1, True) | (x > -1).all(2, True)) * (i > 8).any() * i.bool().all(),
    "prod": lambda x, i: x * x.prod(1, True) + i.prod(2, True),
    "logsumexp": lambda x, i: torch.logsumexp(x, (1, 2)) + torch.logsumexp(x, 1).sum(1),
    "norm": lambda x, i: (x.norm(dim=1), x.norm(1, 2), x.norm(math.inf, (1, 2)), x.norm(3, 1), x.norm(0, 1)),
    "arg": lambda x, i: x * x.argmax(1, True) + x.argmin(2)[:, :, None] * x + i.argmax(1, True) * x,
    "arg_all": lambda x, i: x * i.argmax() + x * x.max() + i.min(),
    "aminmax": lambda x, i: x * torch.aminmax(x.detach(), dim=1, keepdim=True)[1],
    "max": lambda x, i: x * x.max(1, True)[0] + x * x.min(2, True)[1] + i.max(1, True)[1],
    "sorted": lambda x, i: x * x.sort(1)[0] + x.sort(2, True)[0] ** 2 + x * x.sort(2)[1] + i.argsort(1) +
              torch.msort(i) + i.sort(stable=True, dim=1)[1],
    "topk": lambda x, i: x[:, :2] * x.topk(2, 1)[0] + x[:, :2] * x.topk(2, 1, False)[1] +
            i.topk(6)[0][:, :2],
    "median": lambda x, i: x * x.median() + x * x.median(2, True)[0] +
              x * x.kthvalue(3, 1, True)[0],
    "cumsum": lambda x, i: x.cumsum(1) + x.cumsum(2) * x + i.cumsum(2),
    "cumsum_bool": lambda x, i: x * (i > 0).cumsum(1),
    "cumprod": lambda x, i: x * x.cumprod(1) + i.cumprod(2),
    "cummax": lambda x, i: x * x.cummax(1)[1] + x * x.cummin(2)[0] + i.cummax(2)[0],
    "logcumsumexp": lambda x, i: x * x.logcumsumexp(1),
    "triangle": lambda x, i: x.tril(1) + x.triu(-1) * 2 + x.tril(-9) + i.triu(),
}  # fmt: skip
for name, function in functions.items():
    train(function, name)

# The gradient of a running sum is one op, in the other direction.
model = Wrapped(lambda x, i: x.cumsum(1))
program = mi.trace(mi.Workload(
    model, F.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), 4,
    {"x": torch.randn(8, 6), "i": torch.zeros(8, 4, 6).long(), "y": torch.randn(8, 24)},
    inputs=["x", "i"], targets=["y"], name="model"))
found = checks.count(program, "cumulative", "reverse")
assert found == {"cumulative": 2, "reverse": 0}, found
