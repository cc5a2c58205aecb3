# ===- weighted.py - a loss with a small weight -----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The perceptron of docs/examples/mlp.py with its loss times 2^exponent and its
learning rate times 2^-exponent.

In f32 that is the same training, bit for bit. For f16 it is what a mean over
2^-exponent positions is, as of the pixels of a batch of images, or one term among
several of a sum: an element of the loss's gradient is at most 2^exponent / batch, and
f16 rounds to zero what is less than 2^-25."""

import importlib.util
import os

import torch
import torch.nn.functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4)
spec = importlib.util.spec_from_file_location(
    "mlp", os.path.join(ROOT, "docs", "examples", "mlp.py"))
mlp = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mlp)


def workload(exponent=-21, hidden=256, batch=30, lr=0.1, momentum=0.9):
    result = mlp.workload(hidden=hidden, batch=batch)
    weight = 2.0 ** exponent
    result.loss = lambda output, y: weight * F.cross_entropy(output, y)
    result.optimizer = torch.optim.SGD(result.model.parameters(), lr=lr / weight,
                                       momentum=momentum)
    return result
