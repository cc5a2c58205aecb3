# ===- measure.py - torchvision's networks beside PyTorch ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Imports networks of torchvision, trains each 20 steps on 2 ranks, and compares
the losses with those of DistributedDataParallel for the same weights and samples.

How near they have to be is measured in the same run, as in
test/Integration/PyTorch/parity/parity.py: PyTorch computes the losses in f32 in
three ways that differ in the order of their sums alone (DDP on 2 ranks, and two
slices of each batch in one process, in the opposite order, with oneDNN and without).
Their largest distance from one another up to the step after step s is the tolerance band
S[s]; ours has to be within 8 S[s] + 2 u sqrt(n) |L[s]| of DDP's, u = 2^-24 and n the
samples of a batch. (The exact losses would take some of these networks hours in f64.)
The multiple: ours is a fourth way, with errors like those of the other three. Where
these are four draws of one normal distribution, the fourth is further than eight times
the range of three from the first of them with a probability of 0.57 % (two million
draws; 2.3 % for four times), as rare as what parity.py lets through; where one step
does not outweigh all others S is the largest of several, and it is rarer still (0.01 %
for two equal ones). Mistakes are hundreds of S. The second term is the rounding of the two
losses themselves, as there.

Networks with batch norms and few samples to a rank amplify rounding hundredfold a
step, and after five steps PyTorch's own losses differ in the first digit: there the
first steps are what is compared.

A network that does not get that far is listed with the operators that it lacks, and
the exit status is 1.

A small run, to see that all of it works:
REQUIRES: torch, torchvision, sklearn, compiler
RUN: %python %s --models=resnet18 --steps=3 --mpcomm-import=%mpcomm-import --mpcomm-run=%mpcomm-run | FileCheck %s
CHECK: | resnet18 |
CHECK: 1 of 1
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, *[".."] * 2, "Integration", "PyTorch", "Inputs"))
import checks  # noqa: E402
from peer import Way, train  # noqa: E402

MODELS = ["resnet18", "resnet50", "vgg11", "mobilenet_v2", "convnext_tiny", "vit_b_16"]
WAYS = [Way(ranks=2), Way(slices=2, reverse=True), Way(slices=2, native=True)]


class Failure(Exception):
    pass


def run(command, timeout):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout)
    if done.returncode:
        raise Failure(done.stdout.strip())


def ours(options, folder, a):
    """Losses, and milliseconds of a step."""
    stem = os.path.join(folder, options["model"])
    run([a.mpcomm_import, os.path.join(checks.EXAMPLES, "resnet.py"),
         *[f"-O{k}={v}" for k, v in options.items()], "--batch", str(a.batch // 2),
         "-o", stem + ".mlir", "--weights", stem + ".w", "--data", stem + ".d"], a.timeout)
    run([a.mpcomm_run, stem + ".mlir", "--np", "2", "--weights", stem + ".w", "--data",
         stem + ".d", "--steps", str(a.steps), "--quiet", "--log", stem + ".log"],
        a.timeout)
    with open(stem + ".log") as log:
        rows = [json.loads(line) for line in log]
    return [r["loss"] for r in rows], statistics.median(r["ms"] for r in rows)


def compare(model, folder, a):
    """Prints a row; False where the losses part."""
    options = {"model": model, "image": a.image, "lr": a.lr}
    losses, ms = ours(options, folder, a)
    # One step more, so that there is one after the last.
    ways = [train("resnet", options, a.batch, a.steps + 1, way) for way in WAYS]
    band = [max(w) - min(w) for w in zip(*ways)]
    band = [max(band[:s + 2]) for s in range(a.steps)]
    bound = [8 * s + 2 * 2 ** -24 * math.sqrt(a.batch) * abs(l)
             for s, l in zip(band, ways[0])]
    apart = [abs(x - y) for x, y in zip(losses, ways[0])]
    worst = max(range(a.steps), key=lambda s: apart[s] / bound[s])
    good = apart[worst] <= bound[worst]
    print(f"| {model} | {losses[0]:.6f} -> {losses[-1]:.6f} | {ways[0][a.steps - 1]:.6f} | "
          f"{apart[worst]:.2g} of {bound[worst]:.2g} in step {worst + 1} | {ms:.1f} | "
          f"{'yes' if good else 'NO'} |", flush=True)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--batch", type=int, default=16, help="samples of both ranks")
    p.add_argument("--image", type=int, default=64)
    p.add_argument("--lr", type=float, default=0.001)
    p.add_argument("--timeout", type=float, default=240)
    p.add_argument("--mpcomm-import", default="mpcomm-import")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    a = p.parse_args()
    print("| network | loss | DDP's last | nearest to the bound | ms a step | within |")
    print("|---|---|---|---|---|---|")
    names, good = a.models.split(","), 0
    for model in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                good += compare(model, folder, a)
            except Failure as error:
                print(f"| {model} | {error} |")
    print(f"{good} of {len(names)} within the bound")
    sys.exit(good != len(names))


main()
