# ===- optimized.py - a small classifier with any optimizer ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A model file: an MLP on made-up data, with the optimizer of that name, of
torch.optim or of user_optimizers.py, and the options that CASES has for it."""

import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import user_optimizers  # noqa: E402

# Options of both groups; of the second one alone. Rates are what f32 and f64 have alike.
RATE = 2.0 ** -7
CASES = {
    "SGD": (dict(momentum=0.9, dampening=0.5), dict(weight_decay=0.01)),
    "Adam": (dict(amsgrad=True, eps=1e-3), dict(weight_decay=0.01)),
    "AdamW": (dict(amsgrad=True, eps=1e-3), dict(weight_decay=0.1)),
    "NAdam": (dict(eps=1e-3), dict(weight_decay=0.1)),
    "RAdam": (dict(eps=1e-3), dict(betas=(0.5, 0.9))),
    "Adamax": (dict(eps=1e-3), dict(weight_decay=0.1)),
    "Adadelta": (dict(eps=1e-3, lr=1.0), dict(rho=0.5)),
    "Adagrad": (dict(lr_decay=0.125, initial_accumulator_value=0.5), dict(weight_decay=0.01)),
    "RMSprop": (dict(centered=True, momentum=0.5, eps=1e-3), dict(alpha=0.9)),
    "Rprop": (dict(), dict(step_sizes=(1e-5, 0.1))),
    "ASGD": (dict(t0=20, lr=2.0 ** -4), dict(weight_decay=0.1)),
    "Adafactor": (dict(eps=(1e-3, 1e-3)), dict(weight_decay=0.1)),
    "LAMB": (dict(), dict(weight_decay=0.0)),
    "Lion": (dict(lr=2.0 ** -9), dict(weight_decay=0.0)),
    "Orthogonal": (dict(), dict(momentum=0.5)),
    "Muon": (dict(), dict(momentum=0.5, nesterov=False, adjust_lr_fn="match_rms_adamw")),
}


def workload(optimizer="RMSprop", batch=16):
    bias = optimizer != "Muon"  # which is for matrices
    net = nn.Sequential(nn.Linear(12, 24, bias), nn.Tanh(), nn.Linear(24, 24, bias), nn.Tanh(),
                        nn.Linear(24, 4, bias))
    x = torch.randn(128, 12)
    y = (x @ torch.randn(12, 4)).argmax(1)
    make = getattr(torch.optim, optimizer, None) or getattr(user_optimizers, optimizer)
    options, second = CASES[optimizer]
    parameters = list(net.parameters())
    half = (len(parameters) + 1) // 2
    groups = [{"params": parameters[:half]}, {"params": parameters[half:], **second}]
    return mi.Workload(model=net, loss=F.cross_entropy, batch=batch, dataset={"x": x, "y": y},
                       optimizer=make(groups, **{"lr": RATE, **options}))
