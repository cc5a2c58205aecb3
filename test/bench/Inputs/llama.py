# ===- llama.py - a Llama as benches train it ------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Touvron et al., LLaMA, 2023, with grouped queries, written with what PyTorch 2 has
for it: scaled_dot_product_attention and rms_norm."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, d, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, size = heads, groups, d // heads
        self.ln1, self.ln2 = (nn.Parameter(torch.ones(d)) for _ in range(2))
        self.q, self.k, self.v = (nn.Linear(d, n * size, bias=False) for n in (heads, groups, groups))
        self.proj = nn.Linear(d, d, bias=False)
        self.gate, self.up = (nn.Linear(d, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, d, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        split = lambda y, n: y.view(b, t, n, d // self.heads).transpose(1, 2)
        y = F.rms_norm(x, (d,), self.ln1, 1e-5)
        q, k, v = split(self.q(y), self.heads), split(self.k(y), self.groups), split(self.v(y), self.groups)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (z.repeat_interleave(self.heads // self.groups, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        y = F.rms_norm(x, (d,), self.ln2, 1e-5)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, d, heads, groups, inner, context, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, d)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.blocks = nn.ModuleList(LlamaBlock(d, heads, groups, inner) for _ in range(layers))
        self.norm, self.head = nn.Parameter(torch.ones(d)), nn.Linear(d, vocabulary, bias=False)
        size = d // heads
        angles = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(F.rms_norm(x, x.shape[-1:], self.norm, 1e-5))
