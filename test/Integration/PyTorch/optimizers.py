# Optimizers of all supported kinds and options make the steps that PyTorch makes,
# in f64 to 1e-10; parameter groups may differ; frozen and unused parameters stay.
#
# REQUIRES: torch
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def workload(net, optimizer):
    return mi.Workload(net, F.cross_entropy, optimizer, 4, {
        "x": torch.randn(12, 6), "y": torch.randint(0, 3, (12,))}, name="net")


def arguments(program, role):
    return [a.name for a in program.functions[0].arguments if a.role == role]


sgd, adamw, adam = torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam
for make, options in [
        (sgd, dict(lr=0.1)), (sgd, dict(lr=0.1, weight_decay=0.3)),
        (sgd, dict(lr=0.1, momentum=0.9)),
        (sgd, dict(lr=0.1, momentum=0.9, weight_decay=0.3, nesterov=True)),
        (adamw, dict(lr=0.01)), (adam, dict(lr=0.01)),
        (adamw, dict(lr=0.01, betas=(0.7, 0.9), eps=1e-4, weight_decay=0.5))]:
    net = model()
    checks.check(workload(net, make(net.parameters(), **options)), steps=5)

# Groups: two rates, momentum in one group only.
net = model()
groups = [{"params": net[0].parameters(), "lr": 0.2, "momentum": 0.5},
          {"params": net[2].parameters(), "weight_decay": 0.1}]
program = checks.check(workload(net, sgd(groups, lr=0.1)), steps=5)
assert arguments(program, "hyperparameter") == ["lr", "lr.1"]
assert arguments(program, "optimizer_state") == ["0.weight.momentum_buffer",
                                                 "0.bias.momentum_buffer"]

# A frozen parameter, one that the optimizer was not given, one without gradient.
net = model()
net[0].weight.requires_grad_(False)
net.unused = nn.Linear(2, 2)
net.forward = lambda x: net[2](net[1](net[0](x)))
w = workload(net, adamw([net[0].weight, net[2].weight, *net.unused.parameters()]))
program = checks.check(w)
assert arguments(program, "parameter") == ["2.weight"]
assert arguments(program, "buffer") == ["0.weight", "0.bias", "2.bias"]
assert len(program.warnings) == 2 and "unused.weight" in program.warnings[0]

# An optimizer in the middle of a training: its state is written with the weights.
net = model()
w = workload(net, adamw(net.parameters(), lr=0.01))
batch = {k: t[:4] for k, t in w.dataset.items()}
for _ in range(3):
    checks.eager_step(w, batch)
program = mi.trace(w)
assert program.weights["step"].item() == 3
results = checks.evaluator.run(program.functions[0], {
    **{n: t.detach().clone() for n, t in program.weights.items()}, **batch,
    "lr": torch.tensor(0.01)})
checks.eager_step(w, batch)
for name, p in net.named_parameters():
    assert checks.difference(p.detach(), results[name]) < 1e-5, name
assert results["step"].item() == 4

# Two modules that share a weight, and a module that is called twice.
net = model()
net.append(nn.Linear(3, 6, bias=False)).append(net[0]).append(nn.Linear(8, 3))
net[5].weight = net[2].weight
program = checks.check(workload(net, sgd(net.parameters(), lr=0.1, momentum=0.9)))
assert arguments(program, "parameter") == [
    "0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "5.bias"]
