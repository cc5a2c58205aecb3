# REQUIRES: torch, compiler
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %t.dir
#
# A step of several micro-batches trains as one whole batch does, on one and two
# ranks, in f32 and with bf16; its arena does not grow with their number.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A perceptron whose samples come in the file's order."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import near, read_losses, read_tensors, run

IMPORT, COMPILE, RUN, FOLDER = sys.argv[1:]
STEPS, BATCH, HIDDEN = 6, 64, 48

MODEL = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi

def workload():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(7, %d), nn.GELU(), nn.Linear(%d, %d), nn.Tanh(), nn.Linear(%d, 5))
    x, y = torch.randn(%d, 7), torch.randint(0, 5, (%d,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y},
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1), batch=8)
""" % (HIDDEN, HIDDEN, HIDDEN, HIDDEN, STEPS * BATCH, STEPS * BATCH)


def path(name):
    return os.path.join(FOLDER, name)


def train(batch, micro_batches, ranks, precision):
    """Losses, the parameters, and the arena's bytes."""
    run(IMPORT, path("model.py"), "--batch", batch, "-o", path("step.mlir"), "--weights", path("w"),
        "--data", path("d"))  # fmt: skip
    run(COMPILE, path("step.mlir"), "-o", path("step.so"), "--np", ranks,
        "--options", "micro-batches=%d precision=%s" % (micro_batches, precision))  # fmt: skip
    run(RUN, path("step.so"), "--np", ranks, "--weights", path("w"), "--data", path("d"),
        "--steps", STEPS, "--no-shuffle", "--log", path("log"), "--save-weights", path("out"),
        "--checkpoint", path("state"), "--quiet")  # fmt: skip
    with open(path("step.so"), "rb") as file:
        text = file.read()
    begin = text.index(b'"arena_bytes":')
    return read_losses(path("log")), read_tensors(path("out")), int(text[begin:].split(b":")[1].split(b",")[0])


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(path("model.py"), "w") as file:
        file.write(MODEL)
    for precision, unit in ("none", 2.0**-24), ("bf16", 2.0**-9):
        # Sums of BATCH terms in another order: each step moves a value by at most
        # n u of the sum of their magnitudes, which is of the value's own size here;
        # STEPS of them, and twice that for what they do to each other.
        bound = 2 * STEPS * BATCH * unit
        whole, weights, arena = train(BATCH, 1, 1, precision)
        if not whole[-1] < whole[0]:
            sys.exit("it does not learn: %s" % whole)
        arenas = []
        for ranks, count in (1, 2), (1, 8), (2, 4):
            losses, parameters, bytes_ = train(BATCH // ranks // count, count, ranks, precision)
            what = "%s, %d ranks, %d micro-batches" % (precision, ranks, count)
            near(what, losses, whole, bound)
            for name, values in weights.items():
                near("%s, %s" % (what, name), parameters[name], values, bound)
            arenas.append(bytes_)
        # The greatest magnitudes of a step are those of all its samples.
        if precision == "none":
            histories = []
            for ranks, count in (1, 1), (1, 4), (2, 4):
                losses, _, _ = train(BATCH // ranks // count, count, ranks, "fp8")
                if not losses[-1] < losses[0]:
                    sys.exit("it does not learn in 8 bits: %s" % losses)
                histories.append(read_tensors(path("state"))["x.fp8.amax_history"])
            if histories[1:] != histories[:1] * 2 or not all(histories[0][:STEPS]):
                sys.exit("other magnitudes: %s" % histories)
        # Eight micro-batches of 8 samples need less than one of 64.
        if precision == "none" and not arenas[1] < arena:
            sys.exit("8 micro-batches take %d bytes, one batch %d" % (arenas[1], arena))


main()
