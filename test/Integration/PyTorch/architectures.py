# Networks of volumes, lines and images beyond classification, written as people write
# them, against PyTorch in f64: losses, parameters and buffers of two steps.
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

N = 6


class Generator(nn.Module):
    """Of DCGAN."""

    def __init__(self, latent=10, width=8, channels=3):
        super().__init__()

        def up(a, b, *args):
            return [nn.ConvTranspose2d(a, b, *args, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
        self.main = nn.Sequential(
            *up(latent, 4 * width, 4, 1, 0), *up(4 * width, 2 * width, 4, 2, 1),
            *up(2 * width, width, 4, 2, 1), nn.ConvTranspose2d(width, channels, 4, 2, 1,
                                                               bias=False), nn.Tanh())

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self, width=8, channels=3):
        super().__init__()
        act = nn.LeakyReLU(0.2, inplace=True)
        self.main = nn.Sequential(
            nn.Conv2d(channels, width, 4, 2, 1, bias=False), act,
            nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), act,
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), act,
            nn.Conv2d(4 * width, 1, 4, 1, 0, bias=False))

    def forward(self, x):
        return self.main(x).flatten()


class Fooled(nn.Module):
    """The generator's step: only it trains, through the discriminator."""

    def __init__(self):
        super().__init__()
        self.g, self.d = Generator(), Discriminator()

    def forward(self, z):
        return self.d(self.g(z))


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2, dtype=t.dtype) / (dim // 2))
    args = t[:, None] * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], -1)


class ResBlock(nn.Module):
    def __init__(self, a, b, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, a), nn.Conv2d(a, b, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * b)
        self.n2, self.c2 = nn.GroupNorm(4, b), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.emb(F.silu(e))[:, :, None, None].chunk(2, 1)
        h = self.n2(h) * (1 + scale) + shift
        return self.skip(x) + self.c2(F.silu(h))


class SelfAttention(nn.Module):
    def __init__(self, c, heads=2):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(4, c)
        self.qkv, self.out = nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x).reshape(b, c, h * w)).chunk(3, 1)
        split = lambda y: y.reshape(b * self.heads, c // self.heads, h * w)
        q, k, v = split(q), split(k), split(v)
        a = torch.softmax(torch.einsum("bct,bcs->bts", q, k) / math.sqrt(c // self.heads), -1)
        y = torch.einsum("bts,bcs->bct", a, v).reshape(b, c, h * w)
        return x + self.out(y).reshape(b, c, h, w)


class UNet(nn.Module):
    """As denoising diffusion uses it."""

    def __init__(self, c=8, emb=16):
        super().__init__()
        self.c = c
        self.time = nn.Sequential(nn.Linear(c, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.d1, self.d2 = ResBlock(c, c, emb), ResBlock(c, 2 * c, emb)
        self.down = nn.Conv2d(c, c, 3, 2, 1)
        self.mid, self.attend = ResBlock(2 * c, 2 * c, emb), SelfAttention(2 * c)
        self.u2, self.u1 = ResBlock(4 * c, c, emb), ResBlock(2 * c, c, emb)
        self.up = nn.Conv2d(c, c, 3, padding=1)
        self.norm, self.head = nn.GroupNorm(4, c), nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x, t):
        e = self.time(timestep_embedding(t, self.c))
        h1 = self.d1(self.stem(x), e)
        h2 = self.d2(self.down(h1), e)
        h = self.attend(self.mid(h2, e))
        h = self.u2(torch.cat([h, h2], 1), e)
        h = self.up(F.interpolate(h, scale_factor=2, mode="nearest"))
        h = self.u1(torch.cat([h, h1], 1), e)
        return self.head(F.silu(self.norm(h)))


class Volumes(nn.Module):
    """A residual network of volumes, with a bottleneck and pools in depth."""

    def __init__(self, c=6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(2, c, (3, 5, 5), (1, 2, 2), (1, 2, 2), bias=False),
                                  nn.BatchNorm3d(c), nn.ReLU(), nn.MaxPool3d(3, 2, 1))
        self.a = nn.Sequential(nn.Conv3d(c, c, 3, padding=1, bias=False), nn.BatchNorm3d(c),
                               nn.ReLU(), nn.Conv3d(c, c, 3, padding=1, bias=False),
                               nn.BatchNorm3d(c))
        self.b = nn.Sequential(nn.Conv3d(c, 2 * c, (3, 1, 1), padding=(1, 0, 0)), nn.ReLU(),
                               nn.Conv3d(2 * c, 2 * c, 3, 2, 1, groups=2 * c), nn.AvgPool3d(2))
        self.head = nn.Linear(2 * c, 4)

    def forward(self, x):
        x = self.stem(x)
        x = F.relu(x + self.a(x))
        return self.head(F.adaptive_avg_pool3d(self.b(x), 1).flatten(1))


class Audio(nn.Module):
    """As wav2vec 2.0 begins: strided lines, a group norm of one channel a group, a
    convolution for positions."""

    def __init__(self, c=8):
        super().__init__()
        kernels, strides = (10, 3, 3, 2, 2), (5, 2, 2, 2, 2)
        self.convs = nn.ModuleList(nn.Conv1d(1 if i == 0 else c, c, k, s, bias=False)
                                   for i, (k, s) in enumerate(zip(kernels, strides)))
        self.first, self.norm = nn.GroupNorm(c, c), nn.LayerNorm(c)
        self.wide = nn.Linear(c, 12)
        self.position = nn.Conv1d(12, 12, 4, padding=2, groups=3)
        self.last, self.head = nn.LayerNorm(12), nn.Linear(12, 5)

    def forward(self, x):
        x = x[:, None]
        for i, conv in enumerate(self.convs):
            x = conv(x)
            x = F.gelu(self.first(x) if i == 0 else x)
        x = self.wide(self.norm(x.transpose(1, 2)))
        y = self.position(x.transpose(1, 2))[:, :, :-1]
        return self.head(self.last(x + F.gelu(y).transpose(1, 2)).mean(1))


class Tones(nn.Module):
    """As residual networks of samples are: dilated, gated, of 1 and 3 taps."""

    def __init__(self, c=6):
        super().__init__()
        self.stem = nn.Conv1d(2, c, 1)
        self.gated = nn.ModuleList(nn.Conv1d(c, 2 * c, 3, dilation=2 ** i, padding=2 ** i)
                                   for i in range(3))
        self.mix = nn.ModuleList(nn.Conv1d(c, c, 1, bias=False)
                                 for _ in range(3))
        self.norm, self.up = nn.BatchNorm1d(c), nn.ConvTranspose1d(c, 4, 4, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        for gated, mix in zip(self.gated, self.mix):
            a, b = gated(x).chunk(2, 1)
            x = x + mix(torch.tanh(a) * torch.sigmoid(b))
        return F.max_pool1d(self.up(self.norm(x)), 3, 2, 1).mean(2)


class Pyramid(nn.Module):
    """Features of several sizes, pooled and resized, as segmentation joins them."""

    def __init__(self, c=6):
        super().__init__()
        self.a = nn.Conv2d(3, c, 3, 2, 1)
        self.b = nn.Conv2d(c, c, 3, padding=2, dilation=2, bias=False)
        self.bins = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(k), nn.Conv2d(c, 2, 1))
                                  for k in (1, 2, 3))
        self.norm = nn.InstanceNorm2d(c, affine=True)
        nn.init.normal_(self.norm.bias)
        self.head = nn.Conv2d(c + 6, 4, 3, padding=1, padding_mode="reflect")

    def forward(self, x):
        size = x.shape[2:]
        x = self.norm(self.b(F.relu(self.a(x))))
        parts = [x] + [F.interpolate(b(x), x.shape[2:], mode="bilinear", align_corners=True)
                       for b in self.bins]
        y = F.interpolate(self.head(torch.cat(parts, 1)), size, mode="bicubic")
        return y.roll((1, -2), (2, 3)) + y.flip(3)


def train(model, loss, batch=3, inputs=("x",), trained=None, **data):
    optimizer = torch.optim.SGD((trained or model).parameters(), lr=0.05, momentum=0.9)
    workload = mi.Workload(model, loss, optimizer, batch, data, name="model",
                           inputs=list(inputs))
    program = checks.check(workload, steps=2)
    print(type(model).__name__, len(program.functions[0].ops), "ops")
    return program


def real(y, target):
    return F.mse_loss(y, target)


def main():
    torch.manual_seed(0)
    labels = lambda k: torch.randint(0, k, (N,))
    train(Discriminator(), real, x=torch.randn(N, 3, 32, 32), y=torch.rand(N))
    fooled = Fooled()
    for p in fooled.d.parameters():
        p.requires_grad_(False)
    train(fooled, real, trained=fooled.g, x=torch.randn(N, 10, 1, 1), y=torch.ones(N))
    train(UNet(), F.mse_loss, inputs=("x", "t"), x=torch.randn(N, 3, 8, 8),
          t=torch.rand(N) * 100, y=torch.randn(N, 3, 8, 8))
    train(Volumes(), F.cross_entropy, x=torch.randn(N, 2, 8, 16, 18), y=labels(4))
    train(Audio(), F.cross_entropy, x=torch.randn(N, 640), y=labels(5))
    train(Tones(), F.mse_loss, x=torch.randn(N, 2, 24), y=torch.randn(N, 4))
    train(Pyramid(), F.mse_loss, x=torch.randn(N, 3, 14, 18), y=torch.randn(N, 4, 14, 18))


main()
