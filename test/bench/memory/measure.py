# ===- measure.py - memory of mixed precision, beside PyTorch --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What a rank holds of a step whose activations are most of it: in f32 and with
precision=bf16, by the compile report, and at its peak, beside PyTorch's
DistributedDataParallel under autocast to bf16 (words of ../ddp/Inputs/ddp_rank.py).

Planned: the arena of each program, with what is in it when it is fullest; exact,
and the same on every run. The target is 0.55: what is left over half are the
residual stream and sums in f32, and gradients of f32 master weights.

Peaks: the largest resident size of a rank, of the process as a whole. A PyTorch
process holds its libraries, and so do both sides: `idle` is the peak of one that
trains a model of almost nothing. With --check the exit status is 1 where the
arena of bf16 exceeds 0.55 of that of f32, or our peak that of PyTorch's smallest.

A small run, to see that all of it works:
REQUIRES: torch, compiler
RUN: %python %s --layers=4 --d=32 --heads=2 --ctx=64 --batch=16 --configs=none --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run --check-plan | FileCheck %s
CHECK: | arena |
CHECK: | activations |
CHECK: arena of bf16 over f32: 0.{{[0-9]+}}
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, *[".."] * 3, "docs", "examples")
sys.path.insert(0, os.path.join(HERE, "..", "ddp", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "ddp"))
import ddp_rank  # noqa: E402  (no PyTorch until it runs)
from measure import peer_environment  # noqa: E402

MODEL = os.path.join(EXAMPLES, "gpt.py")
TARGET = 0.55
PRECISIONS = "none", "bf16"


def read_report(text):
    """Bytes by line of the first function's table."""
    table = text.split("memory per rank:", 1)[1].split("all ", 1)[0]
    return {m[1]: int(m[2]) for m in re.finditer(r"^ +([a-z].*?) +(\d+) B ", table, re.M)}


def compile_program(stem, precision, a):
    program = f"{stem}.{precision}.so"
    text = subprocess.run(
        [a.mpcomm_compile, stem + ".mlir", "-o", program, "--np", str(a.ranks),
         f"--options=precision={precision}", "--report"],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    return program, read_report(text)


def run_ours(stem, program, a):
    text = subprocess.run(
        [a.mpcomm_run, program, "--np", str(a.ranks), "--weights", stem + ".w", "--data",
         stem + ".d", "--steps", str(a.steps), "--log-every", "1000000"],
        check=True, timeout=a.timeout, stdout=subprocess.PIPE, text=True).stdout
    return max(float(m) for m in re.findall(r"peak(?: of rank \d+)? +([\d.]+) MB", text))


def run_peer(workload, config, batch, a):
    with tempfile.TemporaryDirectory() as folder:
        job = {"file": MODEL, "workload": workload, "batch": batch, "steps": a.steps,
               "warmup": 0, "words": config.split("+"), "out": os.path.join(folder, "r")}
        ddp_rank.launch(job, a.ranks, peer_environment(job["words"]), a.timeout)
        peaks = []
        for rank in range(a.ranks):
            with open(f"{job['out']}.{rank}") as file:
                peaks.append(json.load(file)["peak_mb"])
    return max(peaks)


def import_model(folder, name, options, batch, a):
    stem = os.path.join(folder, name)
    subprocess.run([a.mpcomm_import, MODEL, *[f"-O{k}={v}" for k, v in options.items()],
                    "--batch", str(batch), "-o", stem + ".mlir", "--weights", stem + ".w",
                    "--data", stem + ".d"], check=True)
    ddp_rank.save(MODEL, options, stem + ".pt")
    return stem


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in ("layers", 8), ("d", 256), ("heads", 8), ("ctx", 128), ("batch", 16):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--configs", default="view+amp+lean,view+lean,view+amp",
                   help="of PyTorch; none: ours alone")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--timeout", type=float, default=600)
    for tool in "import", "compile", "run":
        p.add_argument("--mpcomm-" + tool, default="mpcomm-" + tool)
    p.add_argument("--check", action="store_true")
    p.add_argument("--check-plan", action="store_true", help="the arenas alone")
    a = p.parse_args()
    options = {k: getattr(a, k) for k in ("layers", "d", "heads", "ctx")}
    with tempfile.TemporaryDirectory() as folder:
        stem = import_model(folder, "gpt", options, a.batch, a)
        programs = {precision: compile_program(stem, precision, a) for precision in PRECISIONS}
        print(f"GPT, {options}, {a.batch} samples a rank, {a.ranks} ranks; bytes a rank")
        print("| | f32 | bf16 | bf16 / f32 |\n|---|---|---|---|")
        tables = [programs[precision][1] for precision in PRECISIONS]
        for line, wide in tables[0].items():
            narrow = tables[1][line]
            print(f"| {line} | {wide} | {narrow} | {narrow / wide if wide else 0:.3f} |")
        ratio = tables[1]["arena"] / tables[0]["arena"]
        print(f"arena of bf16 over f32: {ratio:.3f} (target {TARGET})")
        peaks = {}
        if a.configs != "none":
            tiny = import_model(folder, "tiny", {"layers": 1, "d": 4, "heads": 1, "ctx": 4}, 1, a)
            idle = compile_program(tiny, "none", a)[0]
            for precision in PRECISIONS:
                peaks["mpcomm " + precision] = (run_ours(stem, programs[precision][0], a),
                                                run_ours(tiny, idle, a))
            for config in a.configs.split(","):
                peaks["DDP " + config] = (run_peer(stem + ".pt", config, a.batch, a),
                                          run_peer(tiny + ".pt", config, 1, a))
            print("| peak of a rank, MB | | idle |\n|---|---|---|")
            for name, (peak, base) in peaks.items():
                print(f"| {name} | {peak:.1f} | {base:.1f} |")
        missed = ratio > TARGET
        if a.check and peaks:
            least = min(peak for name, (peak, _) in peaks.items() if name.startswith("DDP"))
            missed |= peaks["mpcomm bf16"][0] > least
    return 1 if (a.check or a.check_plan) and missed else 0


if __name__ == "__main__":
    sys.exit(main())
