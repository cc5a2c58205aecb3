# ===- user_optimizers.py - optimizers as users write them -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""LAMB, Lion and an optimizer that makes updates orthogonal, and classes that break
one rule of the importer each. LAMB counts with Python's numbers, in the state of
each parameter; Lion has no count; the last one counts in its groups."""

from math import sqrt

import torch
from torch.optim import Optimizer


class Plain(Optimizer):
    """What the classes below have in common: update(group, state, p, gradient)."""

    def __init__(self, params, lr=2.0 ** -7, **options):
        super().__init__(params, dict(lr=lr, **{**self.options, **options}))

    options = {}

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(group, self.state[p], p, p.grad)


class LAMB(Plain):
    """You et al., "Large Batch Optimization for Deep Learning", 2020."""

    options = dict(betas=(0.9, 0.999), eps=1e-3, weight_decay=0.01)

    def update(self, group, state, p, gradient):
        if len(state) == 0:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(p)
            state["exp_avg_sq"] = torch.zeros_like(p)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        m.mul_(beta1).add_(gradient, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        size = sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        change = (m / v.sqrt().add_(group["eps"])).mul_(size)
        change.add_(p, alpha=group["weight_decay"])
        weight, length = p.norm().item(), change.norm().item()
        trust = weight / length if weight > 0 and length > 0 else 1.0
        p.data.add_(change, alpha=-group["lr"] * min(trust, 10.0))


class Lion(Plain):
    """Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023."""

    options = dict(betas=(0.9, 0.99), weight_decay=0.1)

    def update(self, group, state, p, gradient):
        if "exp_avg" not in state:
            state["exp_avg"] = torch.zeros_like(p)
        m, (beta1, beta2) = state["exp_avg"], group["betas"]
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(torch.sign(m * beta1 + gradient * (1 - beta1)), alpha=-group["lr"])
        m.mul_(beta2).add_(gradient, alpha=1 - beta2)


class Orthogonal(Plain):
    """As Muon, in the parameter's type: the momentum of a matrix, made orthogonal by
    Newton and Schulz's iteration; a warm-up of the rate that the group counts."""

    options = dict(momentum=0.9, warmup=5)

    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
        super().step()

    def update(self, group, state, p, gradient):
        buffer = state.setdefault("momentum_buffer", torch.zeros_like(p))
        buffer.mul_(group["momentum"]).add_(gradient)
        change = buffer
        if p.dim() == 2:
            x = buffer / (buffer.norm() + 1e-3)
            x = x.T if x.size(0) > x.size(1) else x
            for _ in range(3):
                a = x @ x.T
                x = 1.5 * x - 0.5 * a @ x
            change = x.T if p.size(0) > p.size(1) else x
        rate = group["lr"]
        if group["count"] <= group["warmup"]:
            rate = rate * group["count"] / group["warmup"]
        p.add_(change, alpha=-rate)


class Clipped(Plain):
    """The norm of all gradients."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            norm = sum((p.grad ** 2).sum() for p in group["params"]).sqrt()
            for p in group["params"]:
                p.add_(p.grad / norm, alpha=-group["lr"])


class Counting(Plain):
    """A count in an attribute."""

    calls = 0

    def update(self, group, state, p, gradient):
        self.calls = self.calls + 1
        p.add_(gradient, alpha=-group["lr"] / self.calls)


class Tallying(Plain):
    """A count in a container of the optimizer."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.counts = {"calls": 0}

    def update(self, group, state, p, gradient):
        self.counts["calls"] += 1
        p.add_(gradient, alpha=-group["lr"] / self.counts["calls"])


class Listing(Plain):
    """State that is a list."""

    def update(self, group, state, p, gradient):
        state.setdefault("history", []).append(gradient.clone())
        p.add_(state["history"][0], alpha=-group["lr"])


class Plainly(Plain):
    """The value of a tensor as a plain float."""

    def update(self, group, state, p, gradient):
        p.add_(gradient, alpha=-group["lr"] / (1 + float(gradient.norm())))


class Noisy(Plain):
    """Random numbers."""

    def update(self, group, state, p, gradient):
        p.add_(gradient + torch.randn_like(p), alpha=-group["lr"])


class Closure(Plain):
    @torch.no_grad()
    def step(self, closure):
        closure()
