# REQUIRES: torch, compiler
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %t.dir
#
# A pipeline of 2 and 4 stages, alone and with data parallelism, under each
# schedule and with stages placed anywhere, trains as one rank does on the same
# batch.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A perceptron, a network with running statistics, and one with tied weights."""

import os
import platform
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import near, read_losses, read_tensors, run

IMPORT, COMPILE, RUN, FOLDER = sys.argv[1:]
STEPS, BATCH, MICRO = 4, 8, 4
SCHEDULES = "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "auto"

# By ranks: placements of stages, some with several neighbours or another number
# of stages on a rank; and an order of one as PyTorch's CSV, with bubbles.
PLACEMENTS = {2: ("1,0", "0,1,1", "1,1,0,0,1"), 3: ("2,0,1,1", "0,1,2,1,0"), 4: ("3,1,0,2,2",)}
CSV = (
    "1F0,2F0,1F1,2F1,,,2B0,1B0,1F2,2F2,2B1,1B1,1F3,2F3,2B2,1B2,2B3,1B3\n"
    "0F0,0F1,,0F2,3F0,3B0,3F1,3I1,0F3,0B0,3W1,(3F2;0B1)OVERLAP_F_B,3B2,3F3,3B3,0B2,0B3\n"
)

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
"""

# Eight layers, so that four ranks may have two stages each; SGD with momentum.
PERCEPTRON = HEAD + """
def workload():
    torch.manual_seed(1)
    layers = [m for _ in range(7) for m in (nn.Tanh(), nn.Linear(20, 20))]
    model = nn.Sequential(nn.Linear(6, 20), *layers)
    x, y = torch.randn(256, 6), torch.randint(0, 20, (256,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=8,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# Running statistics go from one micro-batch to the next.
NORMED = HEAD + """
def workload():
    torch.manual_seed(2)
    def block(i, o): return [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
    model = nn.Sequential(*block(1, 4), *block(4, 4), *block(4, 4), *block(4, 8), *block(8, 8),
                          *block(8, 8), nn.Flatten(), nn.Linear(8 * 16, 5), nn.Linear(5, 5))
    x, y = torch.randn(256, 1, 4, 4), torch.randint(0, 5, (256,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y},
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.05), batch=8)
"""

# The first and the last stage share a table; AdamW counts steps.
TIED = HEAD + """
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

class Model(nn.Module):
    def __init__(self, words=24, d=16):
        super().__init__()
        self.table = nn.Embedding(words, d)
        self.blocks = nn.Sequential(*[Block(d) for _ in range(4)])
        self.head = nn.Linear(d, words, bias=False)
        self.head.weight = self.table.weight
    def forward(self, x):
        return self.head(self.blocks(self.table(x)))

def workload():
    torch.manual_seed(3)
    model = Model()
    x, y = torch.randint(0, 24, (256, 5)), torch.randint(0, 24, (256, 5))
    return mi.Workload(model=model, loss=lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten()),
                       dataset={"x": x, "y": y}, optimizer=torch.optim.AdamW(model.parameters(), lr=0.01),
                       batch=8)
"""


def path(name):
    return os.path.join(FOLDER, name)


def train(name, ranks, options, *flags):
    """Losses, and what the ranks have in the end."""
    run(COMPILE, path(name + ".mlir"), "-o", path("step.so"), "--options", options, *flags)
    run(RUN, path("step.so"), "--np", ranks, "--weights", path(name + ".w"), "--data", path(name + ".d"),
        "--steps", STEPS, "--no-shuffle", "--log", path("log"), "--checkpoint", path("state"),
        "--quiet", "--timeout", 300)  # fmt: skip
    return read_losses(path("log")), read_tensors(path("state"))


def compare(what, ours, one, unit):
    """Equal where unit is 0. Else gradients are sums of BATCH * MICRO terms a
    rank, in another order: n u of the sum of magnitudes in each step, which
    STEPS steps hand on; AdamW divides a gradient by its own size, so that its
    relative error is that of a step of size lr."""
    bound = 2 * STEPS * BATCH * MICRO * unit
    (losses, state), (whole, expected) = ours, one
    if len(losses) != STEPS or not set(state) == set(expected):
        sys.exit("%s: %d losses, %s" % (what, len(losses), set(state) ^ set(expected)))
    near(what + ", loss", losses, whole, bound)
    for name in sorted(state):
        near("%s, %s" % (what, name), state[name], expected[name], bound)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    unit = 2.0**-24
    for name, text in ("perceptron", PERCEPTRON), ("normed", NORMED), ("tied", TIED):
        with open(path(name + ".py"), "w") as file:
            file.write(text)
        run(IMPORT, path(name + ".py"), "-o", path(name + ".mlir"), "--weights", path(name + ".w"),
            "--data", path(name + ".d"))  # fmt: skip
        one = train(name, 1, "mesh=dp:1 micro-batches=%d" % MICRO)
        before = read_tensors(path(name + ".w"))
        moved = [k for k in before if any(abs(a - b) > 1e-4 for a, b in zip(before[k], one[1][k]))]
        if len(moved) != len(before):
            sys.exit("%s does not train %s" % (name, set(before) - set(moved)))
        for stages in 2, 4:
            # Of the other models, half of the schedules on two ranks and half on four.
            for schedule in SCHEDULES if name == "perceptron" else SCHEDULES[stages == 4 :: 2]:
                what = "%s, %d stages, %s" % (name, stages, schedule)
                options = "mesh=pp:%d micro-batches=%d schedule=%s" % (stages, MICRO, schedule)
                # Only tied weights are added up in another order.
                compare(what, train(name, stages, options), one, unit if name == "tied" else 0)
        exact = unit if name == "tied" else 0
        for ranks, placements in PLACEMENTS.items():
            for placement in placements:
                options = "mesh=pp:%d micro-batches=%d schedule=auto placement=%s" % (ranks, MICRO, placement)
                compare("%s, stages on ranks %s" % (name, placement), train(name, ranks, options), one, exact)
        with open(path("schedule.csv"), "w") as file:
            file.write(CSV)
        options = "micro-batches=%d schedule-file=%s" % (MICRO, path("schedule.csv"))
        compare(name + ", from a file", train(name, 2, "mesh=pp:2 " + options), one, exact)
        two = train(name, 2, "mesh=dp:2 micro-batches=%d" % MICRO)
        compare(name + ", from a file, 2 stages on 2 ranks", train(name, 4, "mesh=pp:2,dp:2 " + options), two, exact)
        for schedule in "1f1b", "interleaved", "zb-v":
            both = train(name, 4, "mesh=pp:2,dp:2 micro-batches=%d schedule=%s" % (MICRO, schedule))
            compare("%s, %s, 2 stages on 2 ranks" % (name, schedule), both, two, unit if name == "tied" else 0)
    # What is recomputed is what was kept, but for sums that kernels round together with products.
    # Where a processor cannot, the last bit is the same.
    flags = ["--cpu=x86-64-v2"] if platform.machine() == "x86_64" else []
    for name in "normed", "tied":
        for stages, schedule in (2, "1f1b"), (4, "zb-h1"):
            options = "mesh=pp:%d micro-batches=%d schedule=%s" % (stages, MICRO, schedule)
            kept = train(name, stages, options, *flags)
            for policy in "selective", "stage":
                ours = train(name, stages, options + " recompute=" + policy, *flags)
                compare("%s, %d stages, recompute=%s" % (name, stages, policy), ours, kept, 0 if flags else unit)
    # Everything that gradients have in common crosses stages.
    for options in "clip-norm=0.1", "precision=bf16", "precision=f16 clip-norm=0.5":
        one = train("tied", 1, "mesh=dp:1 micro-batches=%d %s" % (MICRO, options))
        ours = train("tied", 2, "mesh=pp:2 micro-batches=%d %s" % (MICRO, options))
        # In 16 bits too: what is added up in another order, gradients over
        # micro-batches and uses, is so in f32, and so is the state compared.
        compare("tied, " + options, ours, one, unit)
        # To other data ranks gradients travel narrow: sums that differ in the last bit of f32 may then
        # differ by 2^-10 of themselves in f16 (bf16: 2^-7), and steps of AdamW by as much of lr.
        rounding = 2.0**-7 if "bf16" in options else 2.0**-10 if "f16" in options else 0
        two = train("tied", 2, "mesh=dp:2 micro-batches=%d %s" % (MICRO, options))
        both = train("tied", 4, "mesh=pp:2,dp:2 schedule=zb-v micro-batches=%d %s" % (MICRO, options))
        compare("tied, 2 stages on 2 ranks, " + options, both, two, unit + 0.01 * rounding / (BATCH * MICRO))
    # Scales that several stages read are the same on all of them, or the run fails.
    train("tied", 4, "mesh=pp:2,dp:2 micro-batches=%d precision=fp8" % MICRO)


main()
