# ===- llama.py - a Llama of 512 channels ----------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Touvron et al., LLaMA, 2023, with grouped queries, written with what PyTorch 2 has
for it: scaled_dot_product_attention and rms_norm. 8 heads share 2 of keys and values."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, HEADS, GROUPS, INNER, VOCABULARY = 512, 8, 2, 1408, 32000


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        size = D // HEADS
        self.ln1, self.ln2 = (nn.Parameter(torch.ones(D)) for _ in range(2))
        self.q, self.k, self.v = (nn.Linear(D, n * size, bias=False) for n in (HEADS, GROUPS, GROUPS))
        self.proj = nn.Linear(D, D, bias=False)
        self.gate, self.up = (nn.Linear(D, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, D, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        heads = lambda y, n: y.view(b, t, n, d // HEADS).transpose(1, 2)
        y = F.rms_norm(x, (d,), self.ln1, 1e-5)
        q, k, v = heads(self.q(y), HEADS), heads(self.k(y), GROUPS), heads(self.v(y), GROUPS)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (z.repeat_interleave(HEADS // GROUPS, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        y = F.rms_norm(x, (d,), self.ln2, 1e-5)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Llama(nn.Module):
    def __init__(self, layers, context):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, D)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.Parameter(torch.ones(D)), nn.Linear(D, VOCABULARY, bias=False)
        size = D // HEADS
        angles = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(F.rms_norm(x, (D,), self.norm, 1e-5))


def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def adamw(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-3)


def workload(layers=12, batch=8, context=1024):
    import mpcomm_import as mi

    net = Llama(layers, context)
    ids = torch.zeros(batch, context, dtype=torch.int64)
    return mi.Workload(net, loss, adamw(net), batch, {"x": ids, "y": ids}, name="llama")
