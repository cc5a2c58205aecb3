# ===- resnet.py - convolutional networks on handwritten digits ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A residual network of three blocks, or a network of torchvision's.

    mpcomm-import resnet.py -o step.mlir --weights w.safetensors --data d.safetensors
    mpcomm-import resnet.py -O model=resnet18 -O image=64 …

The images are scikit-learn's digits, enlarged to `image` pixels; torchvision's
networks see them in three equal colours. Nothing draws random numbers: dropout and
stochastic depth are off.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

import mpcomm_import as mi

# What torchvision calls the chance to drop, by the start of a model's name.
CHANCES = {"vgg": "dropout", "mobilenet": "dropout", "convnext": "stochastic_depth_prob"}


class Block(nn.Module):
    def __init__(self, c, d, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c, d, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(d, d, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(d), nn.BatchNorm2d(d)
        self.shortcut = nn.Identity() if stride == 1 and c == d else nn.Sequential(
            nn.Conv2d(c, d, 1, stride, bias=False), nn.BatchNorm2d(d))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        w = width
        self.stem = nn.Sequential(nn.Conv2d(3, w, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(w, w, 1), Block(w, 2 * w, 2),
                                    Block(2 * w, 4 * w, 2))
        self.head = nn.Linear(4 * w, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def network(name, width, image):
    if name == "small":
        return ResNet(width, classes=10)
    import torchvision
    options = {c: 0.0 for start, c in CHANCES.items() if name.startswith(start)}
    if name.startswith("vit"):
        options["image_size"] = image
    return getattr(torchvision.models, name)(num_classes=10, **options)


def images(size, share=0.8, seed=0):
    """Images in [-1, 1] and labels, shuffled and cut in two."""
    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32)[:, None] / 8 - 1
    x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    x = x.repeat(1, 3, 1, 1)
    y = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    cut = int(len(x) * share)
    return tuple({"x": x[i], "y": y[i]} for i in (order[:cut], order[cut:]))


def workload(model="small", width=16, image=16, batch=32, lr=0.05, momentum=0.9):
    net = network(model, width, image)
    train, test = images(image)
    return mi.Workload(model=net, loss=F.cross_entropy, batch=batch, dataset=train,
                       eval_dataset=test,
                       optimizer=torch.optim.SGD(net.parameters(), lr=lr,
                                                 momentum=momentum))
