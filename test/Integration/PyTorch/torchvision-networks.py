# Small configurations of torchvision's networks against PyTorch in f64.
#
# REQUIRES: torch, torchvision
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as models

import mpcomm_import as mi


class Hardsigmoid(nn.Module):
    """PyTorch multiplies the gradient of its own by 1/6 in f32, for f64 too."""

    def forward(self, x):
        return F.relu6(x + 3) / 6


def exact(model):
    for m in list(model.modules()):
        for name, child in m.named_children():
            if isinstance(child, nn.Hardsigmoid):
                setattr(m, name, Hardsigmoid())
        if isinstance(m, nn.BatchNorm2d):  # no gradient that is nothing but rounding
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.normal_(m.bias)
    return model


NETWORKS = {
    "swin": (lambda: models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=5,
                                            stochastic_depth_prob=0.0), 32),
    "maxvit": (lambda: models.MaxVit(
        input_size=(64, 64), stem_channels=16, partition_size=4, block_channels=[16, 32],
        block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.0, num_classes=5), 64),
    "mobilenet_v3": (lambda: models.mobilenet_v3_small(num_classes=5, dropout=0.0), 48),
    "convnext": (lambda: models.ConvNeXt([models.convnext.CNBlockConfig(8, 16, 1),
                                          models.convnext.CNBlockConfig(16, None, 1)],
                                         num_classes=5), 32),
}

for name, (make, size) in NETWORKS.items():
    torch.manual_seed(0)
    model = exact(make())
    data = {"x": torch.randn(4, 3, size, size), "y": torch.randn(4, 5)}
    checks.check(mi.Workload(model, lambda y, weights: (y * weights).mean(),
                             torch.optim.SGD(model.parameters(), lr=0.01), 2, data, name=name),
                 steps=1)
    print(name)
