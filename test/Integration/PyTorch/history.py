# A history that a model shifts by a concatenation, compiled, with and without stages and
# micro-batches: parameters and buffers after two steps are PyTorch's. All numbers are
# small multiples of powers of two, so they are equal.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %mpcomm-compile %mpcomm-run

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "Inputs"), os.path.join(HERE, "..", "Inputs")]
import checks  # noqa: F401 (sets the path)
import programs
import torch
import torch.nn as nn

import mpcomm_import as mi

STEPS, BATCH = 2, 2


class Layers(nn.Module):
    """A history of `shape`; `change` gives the next from the last one, the input and
    a weight."""

    def __init__(self, shape, change):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("hist", torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape))
        self.change = change
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randint(-1, 2, p.shape))

    def forward(self, x):
        self.hist.copy_(self.change(self.hist, x.detach(), self.b.bias.detach()))
        return self.b(torch.relu(self.a(x)))


class Weight(Layers):
    """Nothing but a parameter, so that the history is most of the step."""

    def forward(self, x):
        self.hist.copy_(self.change(self.hist, x.detach(), self.b.bias.detach()))
        return self.b.bias * 2


CHANGES = {
    "rows": ((4, 4), lambda h, x, w: torch.cat([h[2:], x])),
    "rows first": ((5, 4), lambda h, x, w: torch.cat([x, h[:-2]])),
    "one of a parameter": ((4,), lambda h, x, w: torch.cat([h[1:], w.sum(0)[None]])),
    "one of a parameter first": ((4,), lambda h, x, w: torch.cat([w.sum(0)[None], h[:-1]])),
    "one of the batch": ((2,), lambda h, x, w: torch.cat([h[1:], x.sum()[None]])),
}
WAYS = [(1, 1, []), (1, 2, ["--options=micro-batches=2"]),
        (2, 2, ["--options=mesh=pp:2 micro-batches=2"])]


def eager(workload, micro):
    """A step takes `micro` batches, one after the other."""
    x = workload.dataset["x"].split(BATCH)
    for step in range(STEPS):
        workload.optimizer.zero_grad()
        for k in range(micro):
            (workload.loss(workload.model(x[step * micro + k])) / micro).backward()
        workload.optimizer.step()
    return {**dict(workload.model.named_parameters()), **dict(workload.model.named_buffers())}


def check(kind, name, way, folder, compiler, runner):
    ranks, micro, options = way
    what = f"{kind.__name__}, {name}, {ranks} ranks, {micro} micro-batches"
    torch.manual_seed(0)
    model = kind(*CHANGES[name])
    data = torch.randint(-3, 4, (STEPS * 2 * BATCH, 4)).float()
    workload = mi.Workload(model, lambda y: y.mean(),
                           torch.optim.SGD(model.parameters(), lr=0.5), BATCH, {"x": data},
                           name="history")
    stem = os.path.join(folder, what.replace(", ", "-").replace(" ", "-"))
    program = mi.trace(workload)
    program.write(stem + ".mlir", weights=stem + ".w", data=stem + ".d")
    programs.run(compiler, stem + ".mlir", "-o", stem + ".so", *options)
    programs.run(runner, stem + ".so", "--np", ranks, "--weights", stem + ".w", "--data",
                 stem + ".d", "--no-shuffle", "--steps", STEPS, "--quiet", "--save-weights",
                 stem + ".out")
    kept = programs.read_tensors(stem + ".out")
    expected = eager(workload, micro)
    missing = {"hist", *(a.name for a in program.functions[0].arguments
                         if a.role == "parameter")} - set(kept)
    if missing:
        sys.exit(f"{what}: {sorted(missing)} not saved")
    for n in kept:
        if n in expected and kept[n] != expected[n].flatten().tolist():
            sys.exit(f"{what}: {n} is {kept[n]}, expected {expected[n].flatten().tolist()}")


for change in CHANGES:
    for way in WAYS:
        check(Layers, change, way, *sys.argv[1:])
    for way in WAYS[:2]:
        check(Weight, change, way, *sys.argv[1:])
