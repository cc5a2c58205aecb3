# Models that use the other supported operators, against PyTorch in f64.
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


def train(model, x, y, loss=F.cross_entropy, optimizer=None, **tensors):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return checks.check(mi.Workload(model, loss, optimizer, 4, {"x": x, "y": y},
                                    name="model", **tensors))


class MergedAttention(nn.Module):
    """q, k and v by reshape, permute and unbind; layer norm without parameters."""

    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(d, elementwise_affine=False)
        self.qkv, self.out, self.head = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 5)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm(x)).reshape(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, t, d))
        return self.head(x.mean(1))


class Rotary(nn.Module):
    """RMS norm, rotary positions, a mask made in forward(), gated SiLU."""

    def __init__(self, d=32, heads=4, t=8):
        super().__init__()
        self.heads, self.scale = heads, nn.Parameter(torch.ones(d))
        self.embed, self.head = nn.Embedding(50, d), nn.Linear(d, 50, bias=False)
        self.qkv = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(3))
        self.w = nn.ModuleList(nn.Linear(*s, bias=False)
                               for s in ((d, 64), (64, d), (d, 64), (d, d)))
        f = torch.outer(torch.arange(t) * 1.0, 100.0 ** -torch.linspace(0, 1, d // heads // 2))
        self.register_buffer("cos", torch.cat([f, f], -1).cos())
        self.register_buffer("sin", torch.cat([f, f], -1).sin())

    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, ids):
        x = self.embed(ids)
        b, t, d = x.shape
        q, k, v = (w(self.norm(x)).view(b, t, self.heads, -1).transpose(1, 2)
                   for w in self.qkv)
        a = self.rotate(q) @ self.rotate(k).transpose(2, 3) / math.sqrt(d // self.heads)
        a = F.softmax(a + torch.full((t, t), -math.inf).triu(1), -1) @ v
        x = x + self.w[3](a.transpose(1, 2).contiguous().view(b, t, d))
        y = self.norm(x)
        x = x + self.w[1](F.silu(self.w[0](y)) * self.w[2](y))
        return self.head(self.norm(x))


class Elementwise(nn.Module):
    """Activations, powers, comparisons, in-place operators, amax."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 9), nn.Linear(9, 3), nn.Linear(3, 3)

    def forward(self, x):
        h = torch.tanh(self.a(x))
        h = (h + torch.sigmoid(h)).clamp(-1, 1) + F.hardtanh(h, -0.5, 0.5)
        y = F.relu(self.b(h) * 2, inplace=True) * 1
        y += 1
        y = torch.where(y > 1.5, y.sqrt(), y ** 3) - 2 * y.log().neg() + y.sin() * y.cos()
        z = torch.maximum(self.c(y), y) / (1 + y.pow(-1)) - torch.erf(y)
        return torch.exp(-z.abs()) + 0.5 - (z - z.amax(1, keepdim=True).detach())


class Slices(nn.Module):
    """Strided slices, select, stack, pad, squeeze, broadcast both ways."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.p, self.q = nn.Parameter(torch.randn(1, 5)), nn.Parameter(torch.randn(4, 1))

    def forward(self, x):
        h = self.a(x).repeat(1, 2)[:, 4:12]
        parts = torch.stack([h[:, 1::3], h[:, :3], h[:, 5:]], 1)
        outer = (self.p + self.q)[:, 2:].unsqueeze(0).squeeze(0)
        y = F.pad(parts, (1, 2))[:, 2, 1:4] * outer
        return torch.cat([y, h[:, -1:], h[:, 0, None]], 1)


class Convolutions(nn.Module):
    """Two convolutions into patches: the gradient of the inner one's input too."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 2, 2), nn.Conv2d(6, 5, (2, 4), (2, 4), bias=False)
        self.line = nn.Conv1d(5, 7, 2, 2)

    def forward(self, x):
        return self.line(F.gelu(self.b(self.a(x)), approximate="tanh").flatten(2)).mean(2)


class Padded(nn.Module):
    """Rows of padding_idx get no gradient, one-row slices of a table do."""

    def __init__(self):
        super().__init__()
        self.words, self.place = nn.Embedding(9, 6, padding_idx=2), nn.Embedding(12, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, ids):
        x = self.words(ids) + self.place(torch.arange(3, 3 + ids.shape[1]))
        return self.head(x.sum(1))


class FunctionalPaths(nn.Module):
    """nn.TransformerEncoderLayer, sequence first."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.layer(x.transpose(0, 1))[-1])


class Decoder(nn.Module):
    """nn.TransformerDecoder, which looks at its mask: whether it is causal."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.decoder, self.head = nn.TransformerDecoder(layer, 1), nn.Linear(16, 3)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(x.dtype)
        return self.head(self.decoder(x, x.flip(1), tgt_mask=mask)[:, -1])


class LargeConstant(nn.Module):
    """Computed at import, and of too many elements for the graph."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        wave = torch.arange(18000.0, dtype=x.dtype).reshape(6, 3000).sin()
        return self.head((x @ wave).reshape(-1, 3, 1000).mean(2))


torch.manual_seed(0)
N = 12
labels = lambda classes, *shape: torch.randint(0, classes, (N,) + shape)
rows = lambda logits, y: F.cross_entropy(logits.view(-1, 50), y.view(-1), reduction="sum")
train(MergedAttention(), torch.randn(N, 6, 32), labels(5))
program = train(Rotary(), labels(50, 8), labels(50, 8), rows)
assert not any("constant" in name for name in program.weights)  # the mask is in the graph
program = train(LargeConstant(), torch.randn(N, 6), labels(3))
assert program.weights["model.constant"].shape == (6, 3000)
m = Elementwise()
train(m, torch.randn(N, 6), torch.rand(N, 3), F.mse_loss, torch.optim.SGD(
    [{"params": m.a.parameters(), "lr": 0.02, "momentum": 0.5}, {"params": m.b.parameters()}],
    lr=0.01, weight_decay=0.01))
train(Slices(), torch.randn(N, 6), torch.randn(N, 5), lambda x, y: F.mse_loss(x, y, reduction="sum"))
train(Convolutions(), torch.randn(N, 3, 8, 16), labels(7))
train(Padded(), labels(9, 5), labels(4))
train(FunctionalPaths(), torch.randn(N, 5, 16), labels(3))
train(Decoder(), torch.randn(N, 5, 16), labels(3))

# Rows whose target is -100 do not count.
y = labels(4)
y[::3] = -100
program = train(Padded(), labels(9, 5), y)
assert "array<i64: -100, 4>" in program.text
