# ===- gpt.py - a byte-level GPT on the licences of this machine -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A GPT that learns to write licences, byte by byte.

    mpcomm-import gpt.py -o step.mlir --weights w.safetensors --data d.safetensors

The text is what any Debian machine has in /usr/share/common-licenses; option
`text` names another file or directory.
"""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, d, heads, ctx):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.register_buffer("mask", torch.ones(ctx, ctx, dtype=torch.bool).tril())

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2)
                   for y in self.qkv(x).split(d, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, heads, ctx, gelu="none"):
        super().__init__()
        self.gelu = gelu
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = Attention(d, heads, ctx)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate=self.gelu))


class GPT(nn.Module):
    def __init__(self, layers, d, heads, ctx, vocab=256, tied=True, gelu="none"):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.ModuleList(Block(d, heads, ctx, gelu) for _ in range(layers))
        self.lnf = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)
        if tied:
            self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.lnf(x))


def read_text(path):
    """The bytes of a file, or of every regular file of a directory by name."""
    if os.path.isdir(path):
        names = [os.path.join(path, n) for n in sorted(os.listdir(path))]
        names = [n for n in names if os.path.isfile(n) and not os.path.islink(n)]
    else:
        names = [path]
    data = b"\n".join(open(n, "rb").read() for n in names)
    return torch.tensor(list(data), dtype=torch.int64)


def windows(text, ctx):
    """Inputs and targets: runs of ctx bytes, and the same a byte later."""
    starts = torch.arange(0, len(text) - ctx, ctx)
    index = starts[:, None] + torch.arange(ctx)
    return {"x": text[index], "y": text[index + 1]}


def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def workload(layers=2, d=128, heads=4, ctx=128, batch=8, lr=1e-3, tied=True, vocab=256,
             gelu="none", text="/usr/share/common-licenses"):
    # A larger vocabulary than that of bytes makes a model of another's size; the tanh
    # form of gelu is GPT-2's.
    model = GPT(layers, d, heads, ctx, max(vocab, 256), tied, gelu)
    data = read_text(text)
    cut = len(data) * 9 // 10
    return mi.Workload(model=model, loss=loss, batch=batch,
                       optimizer=torch.optim.AdamW(model.parameters(), lr=lr),
                       dataset=windows(data[:cut], ctx),
                       eval_dataset=windows(data[cut:], ctx))
