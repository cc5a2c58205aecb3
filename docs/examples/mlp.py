# ===- mlp.py - a perceptron on handwritten digits -------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Three linear layers on scikit-learn's 1,797 handwritten digits of 8 x 8.

    mpcomm-import mlp.py -o step.mlir --weights w.safetensors --data d.safetensors
        --eval-data e.safetensors
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

import mpcomm_import as mi


def digits(share=0.8, seed=0):
    """Pixels in [0, 1] and labels, shuffled and cut in two."""
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 16
    y = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    cut = int(len(x) * share)
    return tuple({"x": x[i], "y": y[i]} for i in (order[:cut], order[cut:]))


def workload(hidden=256, batch=32, lr=0.1, momentum=0.9):
    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(),
                          nn.Linear(hidden, hidden), nn.ReLU(),
                          nn.Linear(hidden, 10))
    train, test = digits()
    return mi.Workload(
        model=model, loss=F.cross_entropy, batch=batch, dataset=train,
        eval_dataset=test,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum))
