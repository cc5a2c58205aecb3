# ===- measure.py - steps that are mostly updates, beside PyTorch ----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Times steps of a model whose update dominates (Inputs/layers.py), for several
optimizers: a program of ours, and PyTorch with its implementations of a step, one
tensor at a time, `foreach` and, where there is one, `fused`. One thread each. A figure is
the smallest of several rounds that take turns, each the median of its steps; the update
of PyTorch by itself is shown too, and the time that a copy of what an update moves takes.

A small run, to see that all of it works:
REQUIRES: torch, compiler
RUN: %python %s --width=64 --rounds=1 --steps=5 --optimizers=RMSprop --mpcomm-import=%mpcomm-import --mpcomm-run=%mpcomm-run | FileCheck %s
CHECK: RMSprop: {{.*}}ours
"""

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, *[".."] * 3, "tools", "mpcomm-import"))
import mpcomm_import as mi  # noqa: E402
import torch  # noqa: E402

MODEL = os.path.join(HERE, "Inputs", "layers.py")
NAMES = ["SGD-momentum", "AdamW", "RMSprop", "NAdam", "RAdam", "Adadelta", "Adamax", "Adagrad"]
# Tensors of a parameter's size that an update reads and writes, the gradient and the parameter too.
MOVED = {"SGD-momentum": 5, "RMSprop": 5, "Adagrad": 5}


def eager(name, options, form):
    """A function that makes a step and returns (ms of the step, of its update)."""
    w = mi.load_workload(MODEL, {**options, "optimizer": name})
    if form != "single" and form not in inspect.signature(type(w.optimizer).__init__).parameters:
        return None
    for group in w.optimizer.param_groups:
        group.update(foreach=form == "foreach")
        if "fused" in group:
            group.update(fused=form == "fused")

    def step():
        start = time.perf_counter()
        w.optimizer.zero_grad(set_to_none=True)
        w.loss(w.model(w.dataset["x"][:1]), w.dataset["y"][:1]).backward()
        middle = time.perf_counter()
        w.optimizer.step()
        end = time.perf_counter()
        return 1e3 * (end - start), 1e3 * (end - middle)

    return step


def ours(arguments, name, options, folder):
    stem = os.path.join(folder, name)
    flags = [f"-O{k}={v}" for k, v in {**options, "optimizer": name}.items()]
    subprocess.run([arguments.mpcomm_import, MODEL, *flags, "-o", stem + ".mlir", "--weights",
                    stem + ".w", "--data", stem + ".d"], check=True)

    def run():
        subprocess.run([arguments.mpcomm_run, stem + ".mlir", "--np", "1", "--weights", stem + ".w",
                        "--data", stem + ".d", "--steps", str(arguments.steps), "--quiet", "--log",
                        stem + ".log"], check=True)
        with open(stem + ".log") as file:
            return statistics.median([json.loads(line)["ms"] for line in file][1:])

    return run


def copy_ms(name, options):
    count = options["layers"] * options["width"] ** 2 * MOVED.get(name, 7) // 2
    a, b = torch.ones(count), torch.zeros(count)

    def once():
        start = time.perf_counter()
        b.copy_(a)
        return 1e3 * (time.perf_counter() - start)

    return min(once() for _ in range(5))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--optimizers", default=",".join(NAMES))
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--mpcomm-import", default="mpcomm-import")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    arguments = p.parse_args()
    options = {"width": arguments.width, "layers": arguments.layers}
    torch.set_num_threads(1)
    for name in arguments.optimizers.split(","):
        with tempfile.TemporaryDirectory() as folder:
            run = ours(arguments, name, options, folder)
            forms = {f: eager(name, options, f) for f in ("single", "foreach", "fused")}
            forms = {f: step for f, step in forms.items() if step}
            best, steps, updates = [], {f: [] for f in forms}, {f: [] for f in forms}
            for _ in range(arguments.rounds):
                best.append(run())
                for form, step in forms.items():
                    times = [step() for _ in range(arguments.steps)][1:]
                    steps[form].append(statistics.median(t for t, _ in times))
                    updates[form].append(statistics.median(t for _, t in times))
        mine = min(best)
        text = ", ".join(f"{f} {min(t):.2f} ms (update {min(updates[f]):.2f})" for f, t in steps.items())
        fastest = min(min(t) for t in steps.values())
        print(f"{name}: ours {mine:.2f} ms; PyTorch {text}; ratio {mine / fastest:.2f}; copy "
              f"{copy_ms(name, options):.2f} ms", flush=True)


main()
