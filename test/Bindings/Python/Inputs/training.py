# ===- training.py - the same training by PyTorch, in several ways --------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Losses of PyTorch, and how near to them others have to be.

The bound is that of test/Integration/PyTorch/parity/parity.py, where it is derived: all
ways compute one sequence of real numbers L[s] and differ by rounding, which PyTorch's own
four ways measure. These share their kernels and with them much of their rounding, so that
there are four more runs that start from parameters moved by one ulp, each at random up or
down: what a rounding anywhere before the first step may do. With S[s] the largest distance
of the eight from L within 4 steps of s,

    |ours[s] - L[s]| <= 4 S[s] + u sqrt(n) |L[s]|

where L is PyTorch's in f64, u = 2^-24, and n the terms of the loss.
"""

import copy
import math
import sys

import torch

torch.set_num_threads(1)  # small sums, on cores that ranks share
WAYS = [{}, {"reverse": True}, {"slices": 2}, {"slices": 4}]
MOVED = 4  # runs from moved parameters


def train(model, loss, optimizer, batches, reverse=False, slices=1, clip=None, schedule=None):
    """The loss of each of `batches`, {name: tensor} or tuples, which model, loss and
    optimizer are then trained on. `loss(model, batch)`; `optimizer(parameters)`."""
    rule = optimizer(model.parameters())
    scheduler = schedule(rule) if schedule else None
    result = []
    for batch in batches:
        rule.zero_grad(set_to_none=True)
        total = 0.0
        order = torch.arange(len(batch[0]))
        for part in (order.flip(0) if reverse else order).chunk(slices):
            value = loss(model, [t[part] for t in batch])
            (value / slices).backward()
            total += value.item() / slices
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        rule.step()
        if scheduler:
            scheduler.step()
        result.append(total)
    return result


def moved(model, seed):
    """`model` with each parameter in floating point moved by one ulp, up or down by `seed`."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point():
                up = torch.randint(0, 2, p.shape, generator=generator).bool()
                limit = torch.full_like(p, math.inf)
                p.copy_(torch.nextafter(p, torch.where(up, limit, -limit)))
    return model


def reference(model, loss, optimizer, batches, terms, ways=WAYS, others=(), **options):
    """(L, the bound of each step). `others`: losses of further ways in f32; `terms`: n."""
    double = [[t.double() if t.is_floating_point() else t for t in b] for b in batches]
    exact = train(copy.deepcopy(model).double(), loss, optimizer, double, **options)
    runs = [train(copy.deepcopy(model), loss, optimizer, batches, **way, **options)
            for way in ways] + list(others)
    runs += [train(moved(copy.deepcopy(model), seed), loss, optimizer, batches, **options)
             for seed in range(MOVED)]
    band = [max(abs(r[s] - exact[s]) for r in runs) for s in range(len(exact))]
    return exact, [4 * max(band[max(s - 4, 0):s + 5]) + 2 ** -24 * math.sqrt(terms) * abs(l)
                   for s, l in enumerate(exact)]


def compare(what, losses, exact, bound):
    """Ends the test where losses are further from `exact` than `bound`."""
    assert len(losses) == len(exact), (len(losses), len(exact))
    apart = [abs(a - b) for a, b in zip(losses, exact)]
    worst = max(range(len(apart)), key=lambda s: apart[s] / bound[s])
    print(f"{what}: at most {max(apart):.3g} from f64; nearest to the bound in step "
          f"{worst + 1}: {apart[worst]:.3g} of {bound[worst]:.3g}; loss {losses[0]:.5f} -> "
          f"{losses[-1]:.5f}")
    if not apart[worst] <= bound[worst]:
        sys.exit(f"{what}: losses are further apart than rounding explains")


class Mlp(torch.nn.Sequential):
    """Its last layer has a bias, so that there are parameters of both ranks; a buffer that
    no one reads, and one that forward reads."""

    def __init__(self, inputs=16, hidden=32, classes=4):
        super().__init__(torch.nn.Linear(inputs, hidden), torch.nn.Tanh(),
                         torch.nn.Linear(hidden, classes))
        self.register_buffer("shift", torch.linspace(-0.1, 0.1, inputs))
        self.register_buffer("unused", torch.arange(3))

    def forward(self, x):
        return super().forward(x + self.shift)


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1)


def data(steps, samples=8, inputs=16, classes=4, seed=0):
    """Batches of (x, y); y depends on x, so that there is something to learn."""
    g = torch.Generator().manual_seed(seed)
    rule = torch.randn(inputs, classes, generator=g)
    xs = [torch.randn(samples, inputs, generator=g) for _ in range(steps)]
    return [(x, (x @ rule).argmax(1)) for x in xs]


def seeded(seed=0, **sizes):
    torch.manual_seed(seed)
    return Mlp(**sizes)
