# ===- models.py - the models of published throughputs ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The networks whose training throughput others have published, as mpcomm-import takes
them. Only shapes count: weights and data are not drawn.

    mpcomm-import models.py -O model=bert-large -O batch=32 -O sequence=512 -o step.mlir
"""

import importlib.util
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi

CUDA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cuda", "Inputs", "workloads.py")

# layers, width, heads, vocabulary, form of gelu
GPT = {
    "gpt2-124m": (12, 768, 12, 50304, "tanh"),
    "gpt2-350m": (24, 1024, 16, 50304, "tanh"),
    "gpt2-774m": (36, 1280, 20, 50304, "tanh"),
    "gpt2-1558m": (48, 1600, 25, 50304, "tanh"),
    "mpt-125m": (12, 768, 12, 50368, "none"),
    "mpt-350m": (24, 1024, 16, 50368, "none"),
    "mpt-760m": (24, 1536, 12, 50368, "none"),
    "mpt-1b": (24, 2048, 16, 50368, "none"),
    "mpt-3b": (32, 2560, 20, 50368, "none"),
}


def load_workloads():
    spec = importlib.util.spec_from_file_location("workloads", CUDA)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leave_weights_undrawn():
    """Initialisers that do nothing, so that billions of weights cost no time and memory."""
    for name in dir(nn.init):
        if name.endswith("_") and not name.startswith("_"):
            setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor)
    nn.Embedding.reset_parameters = lambda self: None


def trace_gradients_of_convolutions_by_shape():
    """PyTorch 1.13 computes them even where tensors are shapes alone ("fake")."""
    from torch._subclasses import fake_tensor

    compute = fake_tensor.run_fallback_kernel

    def run(mode, function, args, kwargs, error):
        if function is not torch.ops.aten.convolution_backward.default:
            return compute(mode, function, args, kwargs, error)
        shapes = [args[1].shape, args[2].shape, args[3] or [0]]
        return tuple(fake_tensor.FakeTensor(mode, torch.empty(shape, device="meta"), args[1].device) if wanted else None
                     for shape, wanted in zip(shapes, args[-1]))  # fmt: skip

    fake_tensor.run_fallback_kernel = run


class BertLayer(nn.Module):
    """Devlin et al., BERT, 2018: norms follow the sums. No padding, so no mask."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.proj, self.ln1 = nn.Linear(d, d), nn.LayerNorm(d)
        self.fc, self.out, self.ln2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), nn.LayerNorm(d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (layer(x).view(b, t, self.heads, d // self.heads).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))  # fmt: skip
        scores = q @ k.transpose(2, 3) / (d // self.heads) ** 0.5
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = self.ln1(x + self.proj(y))
        return self.ln2(x + self.out(F.gelu(self.fc(x))))


class Bert(nn.Module):
    """With a head for masked tokens, which are the first of each sequence here, so that
    they are a slice; the head for pairs of sentences (2 classes) is left out."""

    def __init__(self, layers, d, heads, context, vocab, masked):
        super().__init__()
        self.masked = masked
        self.wte, self.wpe, self.ln = nn.Embedding(vocab, d), nn.Embedding(context, d), nn.LayerNorm(d)
        self.layers = nn.Sequential(*[BertLayer(d, heads) for _ in range(layers)])
        self.transform, self.lnf = nn.Linear(d, d), nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.layers(self.ln(self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))))
        return self.head(self.lnf(F.gelu(self.transform(x[:, : self.masked]))))


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    """Touvron et al., LLaMA, 2023, with grouped queries: each head of keys and values is
    written as often as queries read it."""

    def __init__(self, d, heads, groups, inner, context):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, d // heads
        self.ln1, self.ln2 = RMSNorm(d), RMSNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, groups * self.size, bias=False) for _ in range(2))
        self.proj = nn.Linear(d, d, bias=False)
        self.gate, self.up = (nn.Linear(d, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, d, bias=False)
        self.register_buffer("mask", torch.ones(context, context, dtype=torch.bool).tril())
        self.register_buffer("cos", torch.ones(context, 1, self.size))
        self.register_buffer("sin", torch.ones(context, 1, self.size))

    def rotate(self, x):
        half = self.size // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * self.cos + turned * self.sin

    def forward(self, x):
        b, t, d = x.shape
        y = self.ln1(x)
        q = self.rotate(self.q(y).view(b, t, self.heads, self.size))
        k = self.rotate(self.k(y).view(b, t, self.groups, self.size))
        v = self.v(y).view(b, t, self.groups, self.size)
        k, v = (torch.cat([z] * (self.heads // self.groups), dim=2) for z in (k, v))
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))
        scores = q @ k.transpose(2, 3) / self.size ** 0.5
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        y = self.ln2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, d, heads, groups, inner, context, vocab):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.blocks = nn.Sequential(*[LlamaBlock(d, heads, groups, inner, context) for _ in range(layers)])
        self.lnf, self.head = RMSNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        return self.head(self.lnf(self.blocks(self.wte(ids))))


def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def workload(model="gpt2-124m", batch=8, sequence=1024, masked=0):
    leave_weights_undrawn()
    trace_gradients_of_convolutions_by_shape()
    cuda = load_workloads()
    if model == "resnet50":
        net = cuda.ResNet(*cuda.RESNET[model][::2])
        data = {"x": torch.empty(batch, 3, 224, 224), "y": torch.zeros(batch, dtype=torch.int64)}
        return mi.Workload(model=net, loss=F.cross_entropy, batch=batch, dataset=data, name=model,
                           optimizer=torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))  # fmt: skip
    if model in GPT:
        layers, d, heads, vocab, gelu = GPT[model]
        net = cuda.load_example("gpt").GPT(layers, d, heads, sequence, vocab, gelu=gelu)
    elif model == "bert-large":
        net = Bert(24, 1024, 16, 512, 30528, masked)
    elif model == "tinyllama":
        net = Llama(22, 2048, 32, 4, 5632, sequence, 32000)
    data = {"x": torch.zeros(batch, sequence, dtype=torch.int64),
            "y": torch.zeros(batch, masked or sequence, dtype=torch.int64)}  # fmt: skip
    return mi.Workload(model=net, loss=loss, batch=batch, dataset=data, name=model,
                       optimizer=torch.optim.AdamW(net.parameters(), lr=1e-3))  # fmt: skip
