# ===- layers.py - a model whose step is mostly its update -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Linear layers on batches of one sample: a product reads each weight once in either
direction, and an update several times."""

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


def workload(optimizer="SGD", width=1024, layers=8):
    net = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
    options = {"lr": 2.0 ** -20, **({"momentum": 0.9} if optimizer == "SGD-momentum" else {})}
    make = getattr(torch.optim, optimizer.partition("-")[0])
    return mi.Workload(net, F.mse_loss, make(net.parameters(), **options), 1,
                       {"x": torch.randn(8, width), "y": torch.randn(8, width)})
