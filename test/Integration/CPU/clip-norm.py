# REQUIRES: torch, compiler
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %t.dir
#
# Clipping by the norm over all gradients, alone and after loss scaling, on one
# and two ranks, gives the parameters of torch.nn.utils.clip_grad_norm_ followed
# by AdamW or SGD.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a perceptron here and in PyTorch, with a norm that bites at first."""

import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import read_typed, run

IMPORT, COMPILE, RUN, FOLDER = sys.argv[1:]
STEPS, BATCH, NORM = 12, 16, 1.38

MODEL = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi

def workload(adam=False):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(7, 33), nn.Tanh(), nn.Linear(33, 5))
    x, y = torch.randn(%d, 7) * 4, torch.randint(0, 5, (%d,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01) if adam else \\
        torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return mi.Workload(model=model, loss=F.cross_entropy, optimizer=optimizer,
                       batch=BATCH, dataset={"x": x, "y": y})
"""


def path(name):
    return os.path.join(FOLDER, name)


def read(name):
    kinds = {"F32": torch.float32, "I64": torch.int64}
    return {key: torch.tensor(values, dtype=kinds[dtype]).reshape(shape)
            for key, (dtype, shape, values) in read_typed(path(name))[0].items()}  # fmt: skip


def reference(adam):
    """Parameters after the steps, the samples in order, and how often it clipped."""
    weights, data = read("w"), read("d")
    model = torch.nn.Sequential(torch.nn.Linear(7, 33), torch.nn.Tanh(), torch.nn.Linear(33, 5))
    model.load_state_dict({k: v for k, v in weights.items() if k in model.state_dict()})
    optimizer = (torch.optim.AdamW(model.parameters(), lr=0.01) if adam else
                 torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9))  # fmt: skip
    clipped = 0
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data["x"][part]), data["y"][part]).backward()
        clipped += bool(torch.nn.utils.clip_grad_norm_(model.parameters(), NORM) > NORM)
        optimizer.step()
    return {k: v.detach() for k, v in model.state_dict().items()}, clipped


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for adam in False, True:
        for ranks in 1, 2:
            with open(path("model.py"), "w") as file:
                samples = STEPS * BATCH
                file.write((MODEL % (samples, samples)).replace("BATCH", str(BATCH // ranks)))
            run(IMPORT, path("model.py"), "-O", "adam=%s" % adam, "-o", path("step.mlir"),
                "--weights", path("w"), "--data", path("d"))  # fmt: skip
            want, clipped = reference(adam)
            if not 3 <= clipped < STEPS:
                sys.exit("the norm tests little: clipped in %d of %d steps" % (clipped, STEPS))
            for scale in "none", "static:1024", "dynamic":
                run(COMPILE, path("step.mlir"), "-o", path("step.so"), "--np", ranks,
                    "--options", "clip-norm=%g loss-scale=%s" % (NORM, scale))  # fmt: skip
                run(RUN, path("step.so"), "--np", ranks, "--weights", path("w"), "--data", path("d"),
                    "--no-shuffle", "--steps", STEPS, "--save-weights", path("out"), "--quiet")  # fmt: skip
                found = read("out")
                # Both sides round each of some 50 operations on the way to a
                # weight by 2^-24, step after step; Adam divides small gradients
                # by their own size, which makes of the relative error of a sum
                # of 16 terms an absolute one times the learning rate.
                worst = max(float((found[k] - v).abs().max() / v.abs().max()) for k, v in want.items())
                bound = STEPS * (50 * 2.0**-24 + (0.01 * 2e-3 if adam else 0))
                if not worst <= bound:
                    sys.exit("adam=%s, %d ranks, loss-scale=%s: off by %.3g, bound %.3g" % (
                        adam, ranks, scale, worst, bound))  # fmt: skip
                print("adam=%s, %d ranks, loss-scale=%s: clipped %d of %d, off by %.2g of %.2g" % (
                    adam, ranks, scale, clipped, STEPS, worst, bound))  # fmt: skip


main()
