# ===- small_llama.py - a Llama of 512 channels ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""8 heads share 2 of keys and values."""

import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "Inputs"))
from llama import Llama  # noqa: E402


def make(layers, context):
    return Llama(layers, 512, 8, 2, 1408, context, 32000)


def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def workload(layers=12, batch=8, context=1024):
    import mpcomm_import as mi

    net = make(layers, context)
    ids = torch.zeros(batch, context, dtype=torch.int64)
    return mi.Workload(net, loss, torch.optim.AdamW(net.parameters(), lr=1e-3), batch, {"x": ids, "y": ids}, name="llama")
