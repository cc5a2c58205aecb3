# ===- workloads.py - what is measured on a GPU ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""GPT-2, Llama (which needs PyTorch 2) and ResNet-50 on random data, as mpcomm-import takes them and as PyTorch
trains them.

    mpcomm-import workloads.py -O model=gpt2-small --batch 16 -o step.mlir

The same Workload is made where a program is compiled and where it runs: weights and
data are drawn from a seed there, so that only the program travels. Dropout is off.
"""

import importlib.util
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "Inputs"))
from llama import Llama  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "..", "docs", "examples")

# layers, width, heads, context, vocabulary (GPT-2's 50257, rounded up to 64 as is usual)
GPT = {
    "gpt2-small": (12, 768, 12, 1024, 50304),
    "gpt2-medium": (24, 1024, 16, 1024, 50304),
    "gpt-wide": (4, 1024, 8, 1024, 50304),  # heads of 128
    "mpt-760m": (24, 1536, 12, 2048, 50368),  # MPT's sizes, with the layers of a GPT
    "mpt-1b": (24, 2048, 16, 2048, 50368),
    "gpt-check": (2, 128, 2, 128, 512),
}
# layers, width, heads, heads of keys and values, of the gated layer, context, vocabulary
LLAMA = {"llama-350m": (24, 1024, 16, 4, 2816, 1024, 32000), "llama-check": (2, 128, 4, 2, 352, 128, 512)}
# blocks of each stage, image, classes
RESNET = {"resnet50": ((3, 4, 6, 3), 224, 1000), "resnet-check": ((1, 1, 1, 1), 32, 16)}


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(EXAMPLES, name + ".py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bottleneck(nn.Module):
    """He et al., Deep Residual Learning, 2015; the stride in the 3 x 3 convolution."""

    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Identity() if stride == 1 and inside == 4 * width else nn.Sequential(
            nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))  # fmt: skip

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, stages, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inside = [], 64
        for stage, count in enumerate(stages):
            for i in range(count):
                width = 64 << stage
                blocks.append(Bottleneck(inside, width, 2 if i == 0 and stage > 0 else 1))
                inside = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inside, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def workload(model="gpt2-small", batch=8, steps=4, seed=0):
    """`steps` batches of `batch` samples."""
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed + 1)
    samples = batch * steps
    gpt = load_example("gpt")
    if model in GPT or model in LLAMA:
        if model in GPT:
            layers, d, heads, ctx, vocab = GPT[model]
            net = gpt.GPT(layers, d, heads, ctx, vocab, gelu="tanh")
        else:
            net = Llama(*LLAMA[model])
            ctx, vocab = LLAMA[model][-2:]
        ids = torch.randint(0, vocab, (samples, ctx + 1), generator=draw)
        data = {"x": ids[:, :-1].contiguous(), "y": ids[:, 1:].contiguous()}
        return mi.Workload(model=net, loss=gpt.loss, batch=batch, dataset=data, name=model,
                           optimizer=torch.optim.AdamW(net.parameters(), lr=1e-3))  # fmt: skip
    stages, image, classes = RESNET[model]
    # On so few samples a batch norm multiplies rounding: steps small enough that it stays small.
    rate = 0.05 if model == "resnet50" else 1e-4
    net = ResNet(stages, classes)
    data = {
        "x": torch.randn((samples, 3, image, image), generator=draw),
        "y": torch.randint(0, classes, (samples,), generator=draw),
    }
    return mi.Workload(model=net, loss=F.cross_entropy, batch=batch, dataset=data, name=model,
                       optimizer=torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9))  # fmt: skip
