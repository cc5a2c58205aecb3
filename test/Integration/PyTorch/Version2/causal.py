# REQUIRES: torch2, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python-env %mpcomm-import %s -o %t/step.mlir --weights %t/w --data %t/d
# RUN: %mpcomm-opt %t/step.mlir --mpcomm-compile="target=cuda ptxas=none precision=bf16" -o /dev/null \
# RUN:   --mlir-disable-threading --mlir-print-ir-after=mpcomm-generate-gpu-kernels 2>&1 | FileCheck %s
#
# A causal mask of scaled_dot_product_attention that is too large for a constant of the graph is a buffer, which
# the kernels take as it is: so cuDNN may compute the attention, forward and backward.
#
# CHECK-LABEL: func.func @train_step(
# CHECK-SAME: %[[MASK:arg[0-9]+]]: memref<160x160xi1>
# CHECK: mprt.launch @kernel_attention_mask ins({{.*}}, %[[MASK]] : {{.*}} {mprt.attention = {kind = "attention",
# CHECK: mprt.launch @kernel_attention_grad_mask ins({{.*}}, %[[MASK]] : {{.*}} {mprt.attention = {kind = "attention_grad",
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A layer of attention of 160 tokens, which mpcomm-import takes."""

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 32)).transpose(1, 2) for y in self.qkv(x).split(64, dim=-1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).sum((1, 2))


def workload():
    torch.manual_seed(0)
    data = {"x": torch.randn(4, 160, 64), "y": torch.randn(4, 32)}
    net = Layer()
    return mi.Workload(model=net, loss=F.mse_loss, batch=2, dataset=data, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
