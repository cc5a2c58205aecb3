# ===- vit.py - a vision transformer on handwritten digits -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A vision transformer: patches by convolution, a class token, four layers.

    mpcomm-import vit.py -o step.mlir --weights w.safetensors --data d.safetensors

The images are scikit-learn's digits, enlarged from 8 x 8 to 16 x 16 pixels, so
that patches of 4 x 4 make 16 tokens.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

import mpcomm_import as mi


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        y = self.ln1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class ViT(nn.Module):
    def __init__(self, layers, d, heads, image, patch, classes):
        super().__init__()
        tokens = (image // patch) ** 2
        self.embed = nn.Conv2d(1, d, kernel_size=patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, d) * 0.02)
        self.position = nn.Parameter(torch.randn(1, tokens + 1, d) * 0.02)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)

    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x[:, 0]))


def images(size, share=0.8, seed=0):
    """Images in [-1, 1] and labels, shuffled and cut in two."""
    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32)[:, None] / 8 - 1
    x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    y = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    cut = int(len(x) * share)
    return tuple({"x": x[i], "y": y[i]} for i in (order[:cut], order[cut:]))


def workload(layers=4, d=64, heads=4, image=16, patch=4, batch=32, lr=1e-3):
    model = ViT(layers, d, heads, image, patch, classes=10)
    train, test = images(image)
    return mi.Workload(model=model, loss=F.cross_entropy, batch=batch, dataset=train,
                       eval_dataset=test,
                       optimizer=torch.optim.AdamW(model.parameters(), lr=lr,
                                                   weight_decay=0.05))
