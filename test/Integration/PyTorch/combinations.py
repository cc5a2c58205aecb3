# Convolutions, pools, interpolation, padding and norms with random arguments, against
# PyTorch in f64: results, and by a step of rate 1 the gradients of inputs and
# parameters. The seed and the module of a case that differs are in the message.
#
# REQUIRES: torch
# RUN: %python %s 10 2

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import cases
import torch

import mpcomm_import as mi


def check(kind, count, seed):
    model, data = cases.several(kind, count, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    workload = mi.Workload(model, cases.weighted_sum, optimizer, cases.SAMPLES,
                           data, name="model")
    try:
        checks.check(workload, steps=1)
    except Exception as error:
        print(f"{kind}, seed {seed}:", file=sys.stderr)
        for i, module in enumerate(model.cases):
            print(f"  {i}: {module} of {model.shapes[i]}", file=sys.stderr)
        raise error


count, seeds = int(sys.argv[1]), int(sys.argv[2])
kinds = sys.argv[3:] or cases.KINDS
for kind in kinds:
    for seed in range(seeds):
        check(kind, count, seed)
print(f"{len(kinds) * count * seeds} combinations")
