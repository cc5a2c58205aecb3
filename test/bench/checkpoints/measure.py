# ===- measure.py - what checkpoints in the background cost ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs that write one checkpoint at their end, and runs that also write two in the
background, in turns. Shown are medians over the rounds of: the wall time of a run;
the median step; the slowest step after the first three, as a share of the median, in
the rounds without and with checkpoints in the background. Steps do not contain the
pause in which state is checked and copied; wall times do.

    measure.py build/release/bin/mpcomm-run gpt2.so --weights gpt2.w --data tokens

A small run, to see that all of it works:
REQUIRES: compiler, long
RUN: mpcomm-compile %mpcomm_src_root/docs/examples/linear.mlir -o %t.so --np 2
RUN: %python %S/Inputs/zeros.py %t.w weight=4x2 bias=2
RUN: %python %S/Inputs/zeros.py %t.d x=64x4 y=64x2
RUN: %python %s %mpcomm-run %t.so --weights=%t.w --data=%t.d --every=4 --rounds=1 --folder=%t.dir | FileCheck %s
CHECK: at the end only: {{[0-9.]+}} s, step {{[0-9.]+}} ms, slowest {{[0-9.]+}}
CHECK: in the background, too: {{[0-9.]+}} s, step {{[0-9.]+}} ms, slowest {{[0-9.]+}}
CHECK: each checkpoint: {{-?[0-9.]+}} s, {{-?[0-9.]+}} % of 4 steps
"""

import argparse
import json
import os
import statistics
import subprocess
import time

WARM = 3  # steps


def run(options, a):
    """Wall time, and the times of steps in milliseconds."""
    log = os.path.join(a.folder, "log")
    begin = time.monotonic()
    subprocess.run([a.mpcomm_run, a.program, "--np", str(a.np), "--steps", str(a.every * 5 // 2), "--quiet",
                    "--log", log, "--checkpoint", os.path.join(a.folder, "c"), *a.inputs, *options], check=True)
    wall = time.monotonic() - begin
    with open(log) as file:
        steps = [entry["ms"] for entry in map(json.loads, file) if "ms" in entry]
    return wall, steps[WARM:]


def summarize(name, runs):
    wall = statistics.median(wall for wall, _ in runs)
    step = statistics.median(statistics.median(steps) for _, steps in runs)
    slowest = statistics.median(max(steps) / statistics.median(steps) for _, steps in runs)
    print(f"{name}: {wall:.2f} s, step {step:.1f} ms, slowest {slowest:.3f} of the median")
    return wall, step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mpcomm_run")
    parser.add_argument("program")
    parser.add_argument("--weights")
    parser.add_argument("--data")
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--every", type=int, default=20, help="steps from a checkpoint to the next")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=".")
    a = parser.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    a.inputs = [text for name in ("weights", "data") if getattr(a, name) for text in ("--" + name, getattr(a, name))]
    background = ["--checkpoint-every", str(a.every), "--checkpoint-background"]
    ends, both = zip(*((run([], a), run(background, a)) for _ in range(a.rounds)))
    wall, step = summarize("at the end only", ends)
    more = (summarize("in the background, too", both)[0] - wall) / 2
    print(f"each checkpoint: {more:.2f} s, {100 * more / (a.every * step / 1e3):.1f} % of {a.every} steps")


if __name__ == "__main__":
    main()
