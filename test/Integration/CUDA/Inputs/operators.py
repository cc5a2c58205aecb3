# ===- operators.py - networks of the operators of one kind ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Training steps that have the operators of one kind, in a small size with odd numbers,
which no vector divides, and in one that fills a GPU.

A network is a list of branches, each of which computes something of a learned tensor
of its own; the loss is the mean of the squares of all results. So each parameter after a
step shows one gradient."""

import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4)
sys.path.insert(0, os.path.join(ROOT, "tools", "mpcomm-import"))
sys.path.insert(0, os.path.join(ROOT, "test", "Integration", "PyTorch", "Inputs"))

import mpcomm_import as mi  # noqa: E402
import user_optimizers as users  # noqa: E402


class Branches(nn.Module):
    """`branches`: [(shape, function or module)]; the first dimension of a shape is that
    of the batch and is multiplied with it."""

    def __init__(self, branches):
        super().__init__()
        self.modules_ = nn.ModuleList(f for _, f in branches if isinstance(f, nn.Module))
        self.functions = [f for _, f in branches]
        self.learned = nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape, _ in branches)

    def forward(self, x):
        first = x.reshape(-1, 1)
        made = []
        for function, learned in zip(self.functions, self.learned):
            value = learned * (1 + first[:1].reshape([1] * learned.dim()))
            made.append(function(value))
        return torch.stack([(y.float() ** 2).mean() for y in made])


def workload(branches, optimizer=None, double=False):
    torch.manual_seed(3)
    net = Branches(branches())
    optimizer = (optimizer or (lambda p: torch.optim.SGD(p, lr=0.5)))(net.parameters())
    return mi.Workload(net, lambda made, y: made.sum() + 0 * y.mean(), optimizer, 2,
                       {"x": torch.randn(8) / 4, "y": torch.randn(8)}, name="net")


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class Last(nn.Module):
    """All outputs of a recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


def windows(d):
    """Convolutions and pools of `d` dimensions."""
    kind = lambda name: getattr(nn, "%s%dd" % (name, d))

    def make(big=False):
        batch, channels, size = (16, 32, {1: 4096, 2: 56, 3: 16}[d]) if big else (2, 4, {1: 17, 2: 9, 3: 5}[d])
        x = [batch, channels] + [size] * d
        return [(x, kind("Conv")(channels, channels + 2, 3, stride=2, padding=1)),
                (x, kind("Conv")(channels, 2 * channels, 2, groups=2, dilation=2, bias=False)),
                (x, kind("ConvTranspose")(channels, 6, 3, stride=2, padding=1, output_padding=1)),
                (x, kind("ConvTranspose")(channels, 4, 2, groups=2)),
                (x, kind("MaxPool")(3, 2, 1)), (x, kind("AvgPool")(2, 1)), (x, kind("AvgPool")(3, 2, 1)),
                (x, kind("AdaptiveAvgPool")(3))]  # fmt: skip

    return make


def resizes(big=False):
    batch, channels, size = (8, 16, 48) if big else (1, 3, 7)
    def to(scale, mode, d, **options):
        shape = [batch, channels] + [size if d < 3 else size // 3 + 2] * d
        target = [int(n * scale) for n in shape[2:]]
        return shape, lambda x: F.interpolate(x, target, mode=mode, **options)

    return [to(2, "nearest", 1), to(1.6, "nearest", 2), to(0.6, "nearest", 3),
            to(1.6, "linear", 1, align_corners=False), to(2, "bilinear", 2, align_corners=False),
            to(0.7, "bilinear", 2, align_corners=True), to(1.6, "bicubic", 2, align_corners=False),
            to(1.6, "trilinear", 3, align_corners=False), to(0.6, "area", 2)]  # fmt: skip


def norms(big=False):
    batch, width, size = (32, 512, 14) if big else (3, 12, 5)
    image = [batch, width, size, size]
    return [([batch * size, width], RMSNorm(width)), ([batch * size, width + 1], RMSNorm(width + 1)),
            (image, nn.GroupNorm(4, width)), (image, nn.GroupNorm(1, width, affine=False)),
            (image, nn.InstanceNorm2d(width, affine=True)), (image[:-1], nn.InstanceNorm1d(width)),
            (image[:-1], nn.LayerNorm(size)), (image, nn.BatchNorm2d(width))]  # fmt: skip


def indexing(big=False):
    rows, width, count = (3000, 256, 2048) if big else (9, 5, 7)
    ids = torch.randint(1, rows, (count,))
    ids[3] = 0
    at = torch.randint(0, width, (rows, 3))
    places = torch.randint(0, rows, (rows, width))
    once = torch.randperm(rows)[: rows // 2]
    table = [rows, width]
    bags = torch.arange(0, count, 3)
    return [(table, lambda x: x[ids]), (table, lambda x: x.index_select(1, at[0])),
            (table, lambda x: x.gather(1, at)), (table, lambda x: x[ids, at[: len(ids), 0]] if big else x[ids[:3], at[0]]),
            (table, lambda x: F.embedding(ids, x, padding_idx=0)),
            (table, lambda x: F.embedding_bag(ids, x, bags, mode="mean")),
            (table, lambda x: torch.zeros(rows, width).scatter_add(0, places, x)),
            (table, lambda x: torch.ones(rows, width).scatter_reduce(0, places, x, "amax")),
            (table, lambda x: x.index_copy(0, once, x[: rows // 2] * 2)),
            (table, lambda x: x.index_add(0, ids, x[ids] * 0.5)),
            (table, lambda x: x.index_put((ids,), x[0], accumulate=True))]  # fmt: skip


def order(big=False):
    """No gradient of cumprod: PyTorch 1.13 writes it out, element by element."""
    rows, width = (512, 1000) if big else (3, 37)
    x = [rows, width]
    return [(x, lambda x: x.topk(5)[0]), (x, lambda x: x.topk(3, dim=0, largest=False)[0]),
            (x, lambda x: x.sort()[0] * torch.arange(width)), (x, lambda x: x.sort(0, descending=True)[0] * torch.arange(rows)[:, None]),
            (x, lambda x: x.max(1)[0]), (x, lambda x: x.median(1)[0]), (x, lambda x: x.gather(1, x.argmin(1, True))),
            (x, lambda x: x.cumsum(1)), (x, lambda x: x * (1 + x.detach() / 100).cumprod(0)), (x, lambda x: x.cummax(1)[0]),
            (x, lambda x: x.flip(1) * torch.arange(width)), (x, lambda x: x.flip(0, 1) * torch.arange(width)),
            (x, lambda x: x.roll(3, 1) * torch.arange(width)), (x, lambda x: x.roll((1, -2), (0, 1)) * torch.arange(width))]  # fmt: skip


def random(big=False):
    x = [256, 1000] if big else [5, 23]
    return [(x, lambda x: F.dropout(x, 0.3)), (x, lambda x: x * torch.rand_like(x)),
            (x, lambda x: x + torch.randn_like(x)), (x, lambda x: x * torch.bernoulli(torch.full_like(x, 0.25))),
            (x + [1, 1], lambda x: F.dropout2d(x, 0.5))]  # fmt: skip


def loops(big=False):
    steps, batch, width, hidden = (64, 32, 256, 256) if big else (6, 2, 5, 7)
    x = [steps, batch, width]
    return [(x, Last(nn.LSTM(width, hidden, bidirectional=True))), (x, Last(nn.GRU(width, hidden))),
            (x, Last(nn.RNN(width, hidden)))]  # fmt: skip


def matrices(big=False):
    """What optimizers update: matrices, biases and something of three dimensions."""
    n, m = (768, 3072) if big else (6, 11)
    return [([n, m], torch.tanh), ([m], torch.sin), ([3, 5, 7], torch.exp)]


def optimizer(kind, **options):
    make = getattr(torch.optim, kind) if isinstance(kind, str) else kind
    return lambda parameters: make(parameters, lr=2.0**-7, **options)


# PyTorch 1.13 has no Adafactor.
OPTIMIZERS = {
    "sgd": optimizer("SGD", momentum=0.9, dampening=0.5), "adam": optimizer("Adam", amsgrad=True, eps=1e-3),
    "adamw": optimizer("AdamW", eps=1e-3), "nadam": optimizer("NAdam", eps=1e-3), "radam": optimizer("RAdam", eps=1e-3),
    "adamax": optimizer("Adamax", eps=1e-3), "adadelta": optimizer("Adadelta", eps=1e-3),
    "adagrad": optimizer("Adagrad", eps=1e-3), "rmsprop": optimizer("RMSprop", centered=True, momentum=0.5, eps=1e-3),
    "rprop": optimizer("Rprop"), "asgd": optimizer("ASGD", t0=1), "lamb": optimizer(users.LAMB),
    "lion": optimizer(users.Lion), "orthogonal": optimizer(users.Orthogonal)}  # fmt: skip
KINDS = {"windows-1d": windows(1), "windows-2d": windows(2), "windows-3d": windows(3), "resizes": resizes,
         "norms": norms, "indexing": indexing, "order": order, "random": random, "loops": loops}  # fmt: skip


def names():
    return list(KINDS) + ["updates-" + name for name in OPTIMIZERS]


def make(name, big=False):
    if name in KINDS:
        return workload(lambda: KINDS[name](big))
    return workload(lambda: matrices(big), OPTIMIZERS[name.partition("-")[2]])
