# REQUIRES: torch, compiler
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %t.dir
#
# A model with dropout, imported, has the losses that it has in PyTorch with the
# masks that a second implementation of the generator draws; its evaluation draws
# nothing.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a perceptron with dropout as a module and as a function."""

import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from philox import mask
from programs import read_losses, run

IMPORT, COMPILE, RUN, FOLDER = sys.argv[1:]
STEPS, BATCH, SEED = 8, 8, 5

MODEL = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(8, 16), nn.Linear(16, 4), nn.Dropout(0.25)

    def forward(self, x):
        return self.b(F.dropout(self.drop(torch.tanh(self.a(x))), 0.5, self.training))

def workload():
    torch.manual_seed(0)
    model = Net()
    return mi.Workload(model=model, loss=F.cross_entropy,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.5), batch=8,
                       dataset={"x": torch.randn(64, 8), "y": torch.randint(0, 4, (64,))})
"""


def path(name):
    return os.path.join(FOLDER, name)


def reference():
    torch.manual_seed(0)
    a, b = nn.Linear(8, 16), nn.Linear(16, 4)
    x, y = torch.randn(64, 8), torch.randint(0, 4, (64,))
    parameters = [*a.parameters(), *b.parameters()]
    losses = []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        h = torch.tanh(a(x[part]))
        for number, p in enumerate((0.25, 0.5)):
            drawn = mask(SEED, step, 0, 1, number, p, h.numel())
            h = h * torch.tensor(drawn).reshape(h.shape)
        loss = F.cross_entropy(b(h), y[part])
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients):
                parameter -= 0.5 * gradient
        losses.append(float(loss))
    return losses


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(path("model.py"), "w") as file:
        file.write(MODEL)
    run(IMPORT, path("model.py"), "-o", path("step.mlir"), "--weights", path("w"), "--data", path("d"))
    with open(path("step.mlir")) as file:
        step, evaluation = file.read().split("func.func @evaluate")
    counts = [step.count("mpcomm.dropout "), step.count("mpcomm.dropout_grad "), evaluation.count("dropout")]
    if counts != [2, 2, 0]:
        sys.exit("dropout, dropout_grad, in @evaluate: %s, expected 2, 2, 0" % counts)
    run(COMPILE, path("step.mlir"), "-o", path("step.so"))
    run(RUN, path("step.so"), "--weights", path("w"), "--data", path("d"), "--no-shuffle", "--seed", SEED,
        "--steps", STEPS, "--log", path("log"), "--quiet")  # fmt: skip
    found = read_losses(path("log"))
    # Losses near 1.5 of sums of 16 terms, eight steps deep: 2^-24 for each of some
    # hundred operations, each step.
    bound = STEPS * 100 * 2.0**-24
    worst = max(abs(a - b) for a, b in zip(found, reference()))
    if len(found) != STEPS or not worst <= bound:
        sys.exit("losses %s, expected %s: off by %.3g, bound %.3g" % (found, reference(), worst, bound))
    print("%d losses, off by %.2g of %.2g" % (STEPS, worst, bound))


main()
