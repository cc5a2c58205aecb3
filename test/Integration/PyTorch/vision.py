# Convolutions, pools and batch norms in the forms that networks use them in,
# against PyTorch in f64: losses, parameters and buffers of three steps, and the
# evaluation with running statistics.
#
# REQUIRES: torch
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi

N = 12


def train(model, *shape, classes=5, double=True):
    torch.manual_seed(1)
    for m in model.modules():  # 1 and 0 would cancel in the next norm
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.normal_(m.bias)
    data = {"x": torch.randn(N, *shape), "y": torch.randint(0, classes, (N,))}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return checks.check(mi.Workload(model, F.cross_entropy, optimizer, 4, data,
                                    name="model"), double=double)


class Block(nn.Module):
    """As in ResNet: two convolutions beside a strided one of one pixel."""

    def __init__(self, c, d, stride):
        super().__init__()
        self.a = nn.Conv2d(c, d, 3, stride, padding=1, bias=False)
        self.b = nn.Conv2d(d, d, 3, padding=1, bias=False)
        self.short = nn.Sequential(nn.Conv2d(c, d, 1, stride, bias=False),
                                   nn.BatchNorm2d(d))
        self.na, self.nb = nn.BatchNorm2d(d), nn.BatchNorm2d(d, momentum=0.3)

    def forward(self, x):
        y = F.relu(self.na(self.a(x)), inplace=True)
        return F.relu(self.nb(self.b(y)) + self.short(x))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 5, 2, padding=2, bias=False),
                                  nn.BatchNorm2d(8),
                                  nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(Block(8, 8, 1), Block(8, 12, 2))
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.pool(self.layers(self.stem(x))).flatten(1))


class Mobile(nn.Module):
    """As in MobileNet: depthwise and of one pixel, cut at 6."""

    def __init__(self):
        super().__init__()
        def part(c, d, **options):
            return nn.Sequential(nn.Conv2d(c, d, bias=False, **options),
                                 nn.BatchNorm2d(d), nn.ReLU6(inplace=True))
        self.a = part(3, 8, kernel_size=1)
        self.b = part(8, 8, kernel_size=3, stride=2, padding=1, groups=8)
        self.c = nn.Conv2d(8, 5, 1)

    def forward(self, x):
        return F.adaptive_avg_pool2d(self.c(self.b(self.a(3 * x))), 1).flatten(1)


class Pools(nn.Module):
    """With ceil_mode, with padding counted and not, and means of windows that
    follow one another or do not."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(2, 4, (3, 2), (2, 1), (1, 0), (1, 2), groups=2)
        self.pools = nn.Sequential(
            nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(3, 1, 1),
            nn.AvgPool2d(2, 2, 1, count_include_pad=False),
            nn.AvgPool2d((3, 2), 1, ceil_mode=True), nn.AdaptiveAvgPool2d((2, 3)))
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = self.pools(F.gelu(self.a(x)))
        up = F.adaptive_avg_pool2d(x, (3, 6))  # more than there are
        return self.head(x.flatten(1)) + up.sum((2, 3)).sum(1, keepdim=True)


class Last(nn.Module):
    """As in ConvNeXt: a layer norm and a linear layer over the channels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.deep = nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.wide = nn.LayerNorm(8), nn.Linear(8, 16)
        self.thin = nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.full((8, 1, 1), 0.5))
        self.down = nn.Conv2d(8, 5, 2, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        y = self.thin(F.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return self.pool(self.down(x + self.scale * y)).flatten(1)


class Shared(nn.Module):
    """One batch norm twice: its statistics move twice a step; and one without
    any, over features that come first."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(3)
        self.plain = nn.BatchNorm1d(48, affine=False, track_running_stats=False)
        self.head = nn.Linear(48, 5)

    def forward(self, x):
        x = self.norm(self.a(F.relu(self.norm(self.a(x)))))
        return self.head(self.plain(x.flatten(1)))


torch.manual_seed(0)
program = train(Residual(), 3, 16, 20)
updated = [r.name for r in program.functions[0].results if r.role == "buffer"]
assert len(updated) == 3 * 7 and "stem.1.running_mean" in updated, updated
assert checks.count(program, "transpose", "convolution") == {"transpose": 0, "convolution": 7}
train(Mobile(), 3, 8, 8)
train(Pools(), 2, 13, 14)
train(Last(), 3, 12, 12)
train(Shared(), 3, 4, 4)
