# ===- small_models.py - small models trained for two targets --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The same scheduled program for two targets.

Both compute the same values from the same kernels' tensor forms; sums have another
order. A sum of n terms in f32 is off by at most (n - 1) u, u = 2^-24, of the sum of
its terms' magnitudes, in either order, so that two orders differ by 2 (n - 1) u; over S
steps that each feed the next, by 2 S (n - 1) u, where losses and parameters are of the
size of their terms' sums. In bf16 and f16 a sum that falls on the other side of a
boundary is rounded by one unit in the last place, 2^-8 or 2^-11 (2^-4 of f8E4M3FN), more:
losses, means of many such, stay within one unit. Biases added and gelu taken by the product's library are
rounded once, kernels' sums twice: one unit more in what follows. The processor computes
attention as it is written out, with scores in 16 bits, too. Parameters updated in f32 by lr
times a gradient stay within lr * S units. AdamW divides gradients by their own size: of the
first three steps each changes a parameter by at most 1.01 lr, whatever the gradients are
(Cauchy-Schwarz on its means), so that S of two runs are within 2.02 S lr; that gradients
are right is shown by the models that SGD trains."""

import json
import os

STEPS = 3
U = 2.0**-24
UNITS = {"none": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11, "fp8": 2.0**-4}

# A network with pools of each kind, dropout and odd sizes, which no vector divides.
ODD = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
def workload():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(35, 75), nn.Dropout(0.25), nn.GELU(), nn.LayerNorm(75),
                          nn.Unflatten(1, (3, 5, 5)), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 1, 1),
                          nn.Flatten(), nn.Tanh(), nn.Linear(48, 7))
    x, y = torch.randn(64, 35), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=6,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# Attention as transformers write it, and as torch does, on rows that no tile divides; by
# SGD, whose parameters show what gradients are.
ATTEND = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.own = nn.Linear(32, 96), nn.MultiheadAttention(32, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 7)
        for weight in self.qkv.weight, self.own.in_proj_weight:
            nn.init.normal_(weight, std=0.2)  # so that rows choose
        self.register_buffer("mask", torch.ones(20, 20).tril().bool())
    def forward(self, x):
        q, k, v = (t.unflatten(2, (2, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, 2))
        s = (q @ k.transpose(2, 3) / 4).masked_fill(~self.mask, float("-inf"))
        x = x + (s.softmax(3) @ v).transpose(1, 2).flatten(2)
        x = x + self.own(x, x, x, need_weights=False)[0]
        return self.head(self.norm(x).mean(1))
def workload():
    torch.manual_seed(1)
    model = Attend()
    x, y = torch.randn(64, 20, 32), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=6,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# Masks that are added: one of samples and keys, of which some samples pad, as transformers
# make it; ALiBi, of heads and keys; positions that are parameters; and those of T5, looked up in a table by
# distance.
MASKS = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
class Masks(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(32, 96) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 7)
        for linear in self.qkv:
            nn.init.normal_(linear.weight, std=0.2)  # so that rows choose
        slopes = torch.tensor([0.5, 0.25]).view(2, 1, 1)
        self.register_buffer("alibi", -slopes * torch.arange(19, -1, -1.0))
        self.positions, self.table = nn.Parameter(torch.randn(2, 20, 20)), nn.Embedding(16, 2)
        away = torch.arange(20) - torch.arange(20)[:, None]
        self.register_buffer("distances", away.abs().clamp(max=7) + 8 * (away > 0))
    def forward(self, x, keep):
        mask = (1.0 - keep)[:, None, None, :] * torch.finfo(torch.float32).min
        relative = self.table(self.distances).permute(2, 0, 1)[None]
        for i, linear in enumerate(self.qkv):
            q, k, v = (t.unflatten(2, (2, 16)).transpose(1, 2) for t in linear(x).chunk(3, 2))
            if i == 0 and hasattr(F, "scaled_dot_product_attention"):
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            else:
                y = (q @ k.transpose(2, 3) / 4 + (mask, self.alibi, self.positions, relative)[i]).softmax(3) @ v
            x = x + y.transpose(1, 2).flatten(2)
        return self.head(self.norm(x).mean(1))
def workload():
    torch.manual_seed(1)
    model = Masks()
    x, y = torch.randn(64, 20, 32), torch.randint(0, 7, (64,))
    keep = (torch.arange(20) >= torch.randint(0, 8, (64, 1))).float()
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "keep": keep, "y": y}, batch=6,
                       inputs=("x", "keep"), optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# A block of a Llama: rotary positions, keys and values that heads share, a gated layer.
LLAMA = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin
class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, n, bias=False) for n in (64, 32, 32))
        self.proj, self.gate, self.up = (nn.Linear(n, m, bias=False) for n, m in ((64, 32), (32, 40), (32, 40)))
        self.down, self.head, self.scale = nn.Linear(40, 32, bias=False), nn.Linear(32, 7), nn.Parameter(torch.ones(32))
        for linear in self.q, self.k:
            nn.init.normal_(linear.weight, std=0.2)  # so that rows choose
        angles = torch.outer(torch.arange(20.0), 100.0 ** (-torch.arange(0, 16, 2) / 16)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.ones(20, 20).tril().bool())
    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale
    def forward(self, x):
        y = self.norm(x)
        q, k, v = (f(y).unflatten(2, (-1, 16)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        s = (q @ k.transpose(2, 3) / 4).masked_fill(~self.mask, float("-inf"))
        x = x + self.proj((s.softmax(3) @ v).transpose(1, 2).flatten(2))
        y = self.norm(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(self.norm(x).mean(1))
def workload(batch=6):
    torch.manual_seed(1)
    model = Llama()
    x, y = torch.randn(64, 20, 32), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=batch,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# The odd network without dropout and pools, with the gelu that cuBLASLt knows, though not for rows of 75.
ODD_TANH = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
def workload():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(35, 75), nn.GELU(approximate="tanh"), nn.Linear(75, 7))
    x, y = torch.randn(64, 35), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=6,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# The epilogues (numbers of cublasLtEpilogue_t) that a model's products must have had.
EPILOGUES = {"gpt-tanh": {"none": ("4", "164", "192", "512"), "bf16": ("4", "164", "192")}}
# That of a bias gradient in f32 beside results of 16 bits, which a library may know: the second one here does.
WIDE = "512"

SOURCES = {"odd": ODD, "odd-tanh": ODD_TANH, "attend": ATTEND, "masks": MASKS, "llama": LLAMA}
# Rates of models that are trained by AdamW.
ADAM = {"gpt": 1e-3, "gpt-tanh": 1e-3, "vit": 1e-3, "lstm": 2e-3, "gru": 2e-3}

# name: arguments of mpcomm-import, options, ranks, terms of the longest sum
GPT = ["gpt.py", "-O", "layers=1", "-O", "d=32", "-O", "heads=2", "-O", "ctx=16", "--batch", "2"]
GPT2 = [word.replace("layers=1", "layers=2") for word in GPT]
# Heads of 64 and of 128, which warpgroups multiply.
GPT64 = [word.replace("d=32", "d=128") for word in GPT]
GPT128 = [word.replace("heads=2", "heads=1") for word in GPT64]
LSTM = ["lstm.py", "-O", "layers=2", "-O", "d=12", "-O", "hidden=20", "-O", "ctx=9", "--batch", "3"]
CASES = [
    ("gpt", GPT, "", 1, 256),
    ("gpt", GPT, "precision=bf16 clip-norm=0.5", 1, 13312),
    ("gpt", GPT, "mesh=dp:2 micro-batches=2", 2, 256),
    ("gpt-tanh", GPT + ["-O", "gelu=tanh"], "", 1, 256),
    ("gpt-tanh", GPT + ["-O", "gelu=tanh"], "precision=bf16", 1, 13312),
    ("gpt", GPT, "precision=bf16 attention=separate", 1, 13312),
    ("gpt", GPT, "precision=f16 loss-scale=static:128", 1, 13312),
    ("gpt", GPT, "precision=fp8", 1, 13312),
    ("gpt", GPT64, "precision=fp8 chip=sm_90", 1, 13312),
    ("gpt", GPT64, "precision=fp8 chip=sm_89 numerics=exact", 1, 13312),
    ("gpt", GPT2, "precision=bf16 mesh=pp:2,dp:1 micro-batches=2 recompute=selective", 2, 13312),
    ("gpt", GPT64, "precision=bf16 chip=sm_90a", 1, 13312),
    ("gpt", GPT128, "precision=f16 loss-scale=static:128 chip=sm_90a", 1, 13312),
    ("vit", ["vit.py", "-O", "layers=1", "-O", "d=32", "-O", "heads=2", "--batch", "3"], "precision=bf16", 1, 256),
    ("attend", ["attend.py"], "precision=bf16 precision-file=LOW", 1, 2000),
    ("attend", ["attend.py"], "precision=f16 precision-file=LOW", 1, 2000),
    ("masks", ["masks.py"], "precision=bf16 precision-file=LOW", 1, 2000),
    ("masks", ["masks.py"], "precision=f16 precision-file=LOW", 1, 2000),
    ("llama", ["llama.py"], "precision=bf16 precision-file=LOW", 1, 2400),
    ("llama", ["llama.py", "-O", "batch=1"], "precision=bf16 precision-file=LOW", 1, 2400),
    ("llama", ["llama.py"], "", 1, 120),
    ("resnet", ["resnet.py", "-O", "width=8", "-O", "image=8", "--batch", "4"], "", 1, 576),
    ("lstm", LSTM, "", 1, 256),
    ("lstm", LSTM, "precision=bf16 precision-file=LOW", 1, 5000),
    ("lstm", LSTM, "mesh=dp:2 micro-batches=2", 2, 256),
    ("gru", LSTM + ["-O", "cell=gru"], "precision=f16 precision-file=LOW loss-scale=static:128", 1, 5000),
    ("odd", ["odd.py"], "", 1, 75),
    ("odd", ["odd.py"], "precision=f16", 1, 6000),
    ("odd-tanh", ["odd-tanh.py"], "", 1, 75),
    ("odd-tanh", ["odd-tanh.py"], "precision=f16", 1, 6000),
    ("odd-tanh", ["odd-tanh.py"], "numerics=exact", 1, 75),
]


def has_library_attention(case):
    """Whether the case has attention in 16 bits without a mask or with a causal buffer, which a
    library may compute."""
    model, _, options, *_ = case
    has = model in ("gpt", "gpt-tanh", "vit", "attend", "llama") and "attention=separate" not in options
    return has and precision_of(options) in UNITS and precision_of(options) != "none" and "exact" not in options


def has_f8_products(case):
    """Whether products of the case read 8 bits: all its sizes are multiples of 16."""
    options = case[2]
    return precision_of(options) == "fp8" and "chip=" in options and "exact" not in options


def precision_of(options):
    return options.partition("precision=")[2].partition(" ")[0] or "none"


def on_processor(options):
    """Options of a case, without the chip that its kernels are for."""
    return " ".join(word for word in options.split() if not word.startswith("chip="))


def write_sources(folder):
    """The models that are text here, and the precision file that options name LOW; its path."""
    for model, text in SOURCES.items():
        with open(os.path.join(folder, model + ".py"), "w") as out:
            out.write(text)
    # Products in 16 bits, even if so few of them do not gain from it.
    low = os.path.join(folder, "low.json")
    with open(low, "w") as out:
        json.dump({"schema": "mpcomm-precision-1", "policy": "bf16", "compute": "lower_precision"}, out)
    return low


def distance(case, losses, state, found, other):
    """How far losses and parameters of one target are from the other's, and the bounds."""
    model, _, options, _, terms = case
    bound, unit = 2 * STEPS * (terms - 1) * U, UNITS[precision_of(options)]
    loss = max(abs(a - b) / abs(a) for a, b in zip(losses, found))
    size = max(abs(v) for values in state.values() for v in values)
    worst = max(abs(a - b) / size for key, values in state.items() for a, b in zip(values, other[key]))
    drift = bound + (2.02 * ADAM[model] * STEPS / size if unit and model in ADAM else 0.1 * STEPS * unit)
    return loss, worst, bound + unit, drift


# Networks of Inputs/operators.py: a value of n terms is off by at most 2 n u of the largest.
# A step has some DEPTH values one after the other; S steps are S times as many. The networks'
# sums have at most TERMS terms. An optimizer that divides by the size of a gradient does so
# by at least eps = 2^-10 of what the gradients are here, so that its steps, of lr = 2^-7
# each, differ by 8 times as much as gradients do.
OPERATOR_STEPS, TERMS, DEPTH = 2, 200, 2
OPERATOR_BOUND = 2 * OPERATOR_STEPS * TERMS * DEPTH * U


def largest_distance(losses, state, found, other):
    """Of losses and tensors, relative to the largest value of each; and where it is."""
    worst, where = 0.0, ""
    for key, a, b in [("loss", losses, found)] + [(key, values, other[key]) for key, values in state.items()]:
        size = max(map(abs, a), default=0.0) or 1.0
        # NaN is no difference of at most anything.
        far = max((abs(x - y) / size if x == x and y == y else float("inf") for x, y in zip(a, b)), default=0.0)
        if len(a) != len(b):
            far = float("inf")
        if far > worst:
            worst, where = far, key
    return worst, where
