# ===- measure.py - pipelines beside one rank ------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Losses and memory of a GPT and of torchvision's ResNet-18 as pipelines, under each
schedule and over each backend, beside the same micro-batches on one rank (or, with
data parallelism, on as many ranks as there are pipelines).

Losses: `equal` is bit for bit. A GPT ties its head to its embedding, which two stages
then hold: the gradients of both uses are added up in another order than on one rank.
The bound is that of test/Integration/CPU/pipeline.py: 2 S n u, for S steps of n terms a
sum (the tokens of a step), with u = 2^-24.

Memory: the arena that is planned for each rank, and its peak as measured, beside
those of one rank; MB.

A small run, to see that all of it works:
REQUIRES: torch, compiler
RUN: %python %s --models=gpt --layers=2 --d=32 --stages=2 --schedules=1f1b --comms=shm --steps=2 --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run | FileCheck %s
CHECK: | gpt | pp 2 | shm | 1f1b |
CHECK: 1 of 1 within the bound
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GPT = os.path.join(HERE, *[".."] * 3, "docs", "examples", "gpt.py")
RESNET = """
import torch, torchvision, torch.nn.functional as F
import mpcomm_import as mi

def workload():
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=10)
    x, y = torch.randn(256, 3, 64, 64), torch.randint(0, 10, (256,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=4,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
"""


def import_model(folder, model, a):
    stem = os.path.join(folder, model)
    words = [GPT, f"-Olayers={a.layers}", f"-Od={a.d}"]
    if model == "resnet18":
        with open(stem + ".py", "w") as file:
            file.write(RESNET)
        words = [stem + ".py"]
    subprocess.run([a.mpcomm_import, *words, "-o", stem + ".mlir", "--weights", stem + ".w",
                    "--data", stem + ".d"], check=True)
    return stem


def train(stem, mesh, ranks, comm, schedule, a):
    """Losses, the planned arenas and the peaks by rank, in MB."""
    program = stem + ".so"
    options = f"--options=mesh={mesh} micro-batches={a.micro_batches} schedule={schedule}"
    subprocess.run([a.mpcomm_compile, stem + ".mlir", "-o", program, options], check=True)
    launcher = ["mpirun", "--oversubscribe", "-np", str(ranks)] if comm == "mpi" else []
    text = subprocess.run(
        [*launcher, a.mpcomm_run, program, "--np", str(ranks), "--comm", comm, "--weights", stem + ".w",
         "--data", stem + ".d", "--steps", str(a.steps), "--no-shuffle", "--log", stem + ".log"],
        check=True, timeout=a.timeout, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"),
    ).stdout
    with open(stem + ".log") as log:
        losses = [json.loads(line)["loss"] for line in log]
    lines = re.findall(r"peak(?: of rank \d+)? +([\d.]+ [kMG]?B), arena ([\d.]+ [kMG]?B)", text)
    if len(lines) > 1:  # the first line is the most of all
        lines = lines[-ranks:]
    unit = {"B": 1e-6, "kB": 1e-3, "MB": 1, "GB": 1e3}
    read = lambda size: float(size.split()[0]) * unit[size.split()[1]]  # noqa: E731
    return losses, [read(arena) for _, arena in lines], [read(peak) for peak, _ in lines]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default="gpt,resnet18")
    p.add_argument("--stages", default="2,4,2x2", help="stages, or stages x pipelines")
    p.add_argument("--comms", default="shm,mpi")
    p.add_argument("--schedules", default="gpipe,1f1b,interleaved,zb-h1,zb-v,auto")
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--d", type=int, default=128)
    p.add_argument("--micro-batches", type=int, default=4)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--timeout", type=float, default=300)
    for tool in "import", "compile", "run":
        p.add_argument("--mpcomm-" + tool, default="mpcomm-" + tool)
    a = p.parse_args()
    print("| model | mesh | backend | schedule | losses | arenas | peaks |")
    print("|---|---|---|---|---|---|---|")
    good = total = 0
    sizes = lambda values: " ".join("%.1f" % v for v in values)  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        for model in a.models.split(","):
            stem = import_model(folder, model, a)
            bound = 0
            if model == "gpt":
                bound = 2 * a.steps * 8 * 128 * a.micro_batches * 2.0**-24
            references = {}
            for word in a.stages.split(","):
                stages, pipelines = (int(n) for n in (word + "x1").split("x")[:2])
                if pipelines not in references:
                    one = train(stem, f"dp:{pipelines}", pipelines, "shm", "1f1b", a)
                    references[pipelines] = one
                    print(f"| {model} | dp {pipelines} | shm | | reference | {sizes(one[1])} | "
                          f"{sizes(one[2])} |", flush=True)
                for comm in a.comms.split(","):
                    for schedule in a.schedules.split(","):
                        losses, arenas, peaks = train(
                            stem, f"pp:{stages},dp:{pipelines}", stages * pipelines, comm,
                            schedule, a)
                        one = references[pipelines][0]
                        far = max(abs(x - y) / max(1, abs(y)) for x, y in zip(losses, one))
                        ok = len(losses) == len(one) and far <= bound
                        total += 1
                        good += ok
                        what = "equal" if losses == one else "%.1e" % far
                        mesh = f"pp {stages}" + (f" dp {pipelines}" if pipelines > 1 else "")
                        print(f"| {model} | {mesh} | {comm} | {schedule} | {what} | "
                              f"{sizes(arenas)} | {sizes(peaks)} |", flush=True)
    print(f"{good} of {total} within the bound")
    return 0 if good == total else 1


sys.exit(main())
