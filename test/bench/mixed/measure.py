# ===- measure.py - what mixed precision saves, beside PyTorch -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Times training steps in f32 and in mixed precision on 2 ranks of one thread each:
ours over shared memory, and PyTorch's DistributedDataParallel over Gloo in f32 and
under autocast to bf16, with the same weights, samples and optimizer, at its best as
in ../ddp. Fresh processes each time, in rounds that take turns; figures are medians
over the rounds, and ratios those of the medians with the smallest and the largest of
single rounds in brackets.

Our programs are compiled for a cluster file that `mpcomm-run --calibrate` writes at
the start, from which the compiler knows whether products gain from 16 bits here.
`--ours` takes forms as NAME=OPTIONS of mpcomm-compile's pipeline, separated by
semicolons; a form named f32 is what the others are compared with.

With --roofline each form runs once more with a trace of rank 0. Shown of it, per
step: the time in products, and what they would take at the rate that the cluster
file has for their type (the best of large products by oneDNN alone, one rank a
core); the time in kernels, and what they would take at its memory bandwidth for the
bytes of their operands (below 1 where operands are still in a cache).

With --check the exit status is 1 where mixed precision takes longer than f32, or
more than 0.5 of autocast's or 0.6 of PyTorch's time in f32.

A small run, to see that all of it works:
REQUIRES: torch, sklearn, compiler, long
RUN: %python %s --models=mlp --rounds=1 --steps=12 --configs=view,view+amp --calibrate-seconds=2 --roofline --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run | FileCheck %s
CHECK: mlp, 2 ranks
CHECK: DDP view |
CHECK: DDP view+amp |
CHECK: | f32 |
CHECK: | bf16 |
CHECK: bf16: time {{[0-9.]+}} of f32 ({{.*}}), {{[0-9.]+}} of DDP view+amp ({{.*}}), {{[0-9.]+}} of DDP view ({{.*}})
CHECK: f32: products {{[0-9.]+}} ms
CHECK: bf16: products {{[0-9.]+}} ms
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "ddp", "Inputs"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "ddp"))
import ddp_rank  # noqa: E402  (no PyTorch until it runs)
import measure as ddp  # noqa: E402

# model: (options of the model file, samples of a rank, timed steps)
ddp.MODELS.update({
    "gpt-10m": ({"layers": 6, "d": 384, "heads": 6}, 8, 10),
    "gpt-124m": ({"layers": 12, "d": 768, "heads": 12, "vocab": 50257}, 1, 6),
    "vit": ({}, 32, 60),
    "digits": ({}, 32, 200),
})
ddp.FILES.update({"gpt-10m": "gpt", "gpt-124m": "gpt", "digits": "resnet"})


def calibrate(path, a):
    subprocess.run([a.mpcomm_run, "--calibrate", path, "--np", str(a.ranks),
                    "--calibrate-seconds", str(a.calibrate_seconds), "--quiet"], check=True)
    with open(path) as file:
        device = json.load(file)["device"]
    rates = ", ".join(f"{t} {r / 1e9:.0f}" for t, r in device["flops"].items())
    print(f"calibrated: GFLOP/s of {rates}; memory {device['memory_bandwidth'] / 1e9:.1f} GB/s")
    return device


def prepare(model, folder, cluster, a):
    """Imports a model and compiles its forms: the common stem of its files."""
    options, batch, _ = ddp.MODELS[model]
    stem = os.path.join(folder, model)
    subprocess.run([a.mpcomm_import, ddp.model_file(model),
                    *[f"-O{k}={v}" for k, v in options.items()], "--batch", str(batch), "-o",
                    stem + ".mlir", "--weights", stem + ".w", "--data", stem + ".d"], check=True)
    for form, words in a.forms.items():
        subprocess.run([a.mpcomm_compile, stem + ".mlir", "-o", f"{stem}.{form}.so", "--np",
                        str(a.ranks), f"--options=cluster={cluster} {words}"], check=True)
    return stem


def show(model, runs, a):
    print(f"\n{model}, {a.ranks} ranks x 1 thread, {ddp.MODELS[model][1]} samples a rank, "
          f"{a.rounds} rounds")
    print("| | ms a step | its rounds | exposed ms | peak MB a rank | loss | others' cores |")
    print("|---|---|---|---|---|---|---|")
    for name, rs in runs.items():
        exposed = f"{ddp.median(rs, 'exposed_ms'):.3f}" if "exposed_ms" in rs[0] else ""
        print(f"| {name} | {ddp.median(rs, 'ms'):.3f} | "
              f"{' '.join('%.3f' % r['ms'] for r in rs)} | {exposed} | "
              f"{max(r['peak_mb'] for r in rs):.1f} | "
              f"{rs[0]['loss'][0]:.4f} -> {rs[0]['loss'][1]:.4f} | "
              f"{max(r['others'] for r in rs):.2f} |")


def compare(model, runs, a):
    """Prints the ratios of the narrow forms; False where a target is missed."""
    targets = {"f32": 1.0}
    for amp, target in (True, 0.5), (False, 0.6):
        peers = [n for n in runs if n.startswith("DDP") and ("amp" in n) == amp]
        if peers:
            targets[min(peers, key=lambda n: ddp.median(runs[n], "ms"))] = target
    good = True
    for form in a.forms:
        if form == "f32":
            continue
        parts = []
        for other, target in targets.items():
            if other not in runs:
                continue
            ratio = ddp.median(runs[form], "ms") / ddp.median(runs[other], "ms")
            rounds = [x["ms"] / y["ms"] for x, y in zip(runs[form], runs[other])]
            parts.append(f"{ratio:.3f} of {other} ({min(rounds):.3f} to {max(rounds):.3f})")
            good &= ratio <= target
        print(f"{form}: time " + ", ".join(parts))
    return good


def roofline(stem, form, step, device, a):
    """Prints where the `step` ms of a step go, against what the processor can do."""
    steps, trace = int(min(max(12, 500 / step), 1000)), f"{stem}.{form}.trace"
    subprocess.run([a.mpcomm_run, f"{stem}.{form}.so", "--np", str(a.ranks), "--weights",
                    stem + ".w", "--data", stem + ".d", "--steps", str(steps), "--trace", trace,
                    "--quiet"], check=True, timeout=a.timeout)
    with open(trace) as file:
        events = [e for e in json.load(file)["traceEvents"]
                  if e["ph"] == "X" and e["pid"] == 0 and e["tid"] == 0]
    # The first steps make plans and touch memory; the second half is counted.
    begin = (events[0]["ts"] + events[-1]["ts"]) / 2
    events = [e for e in events if e["ts"] >= begin]
    span = (events[-1]["ts"] + events[-1]["dur"] - begin) / 1e3
    products = [e for e in events if e["cat"] == "gemm"]
    kernels = [e for e in events if e["cat"] == "kernel"]
    times = [sum(e["dur"] for e in es) / 1e3 for es in (products, kernels)]
    least = [sum(e["args"].get("flops", 0) / device["flops"][e["args"]["type"]]
                 for e in products) * 1e3,
             sum(e["args"]["bytes"] for e in kernels) / device["memory_bandwidth"] * 1e3]
    # Per step, whose length is that of the run without a trace.
    (product, kernel), (best, bound) = ([t * step / span for t in ts] for ts in (times, least))
    print(f"{form}: products {product:.3f} ms, {product / max(best, 1e-9):.2f} of oneDNN's best "
          f"({best:.3f}); kernels {kernel:.3f} ms, {kernel / max(bound, 1e-9):.2f} of memory's "
          f"({bound:.3f}); the rest {step - product - kernel:.3f} ms")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default="gpt-10m,gpt-124m,resnet18,gpt,mlp,digits,vit",
                   help=", ".join(ddp.MODELS))
    p.add_argument("--configs", default="view,view+tcmalloc,view+amp,view+amp+tcmalloc",
                   help="of PyTorch, see ../ddp/Inputs/ddp_rank.py")
    p.add_argument("--ours", default="f32=;bf16=precision=bf16", help="NAME=OPTIONS;…")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, help="timed steps of a run")
    p.add_argument("--roofline", action="store_true")
    p.add_argument("--calibrate-seconds", type=float, default=15)
    p.add_argument("--timeout", type=float, default=900)
    p.add_argument("--mpcomm-import", default="mpcomm-import")
    p.add_argument("--mpcomm-compile", default="mpcomm-compile")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    p.add_argument("--check", action="store_true")
    p.add_argument("--out", metavar="FILE", help="all numbers as JSON")
    a = p.parse_args()
    a.forms = dict(form.split("=", 1) for form in a.ours.split(";"))
    configs = [c for c in a.configs.split(",") if c]
    configs = [c for c in configs if "tcmalloc" not in c or ddp.tcmalloc()]
    good, everything = True, {}
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "cluster.json")
        device = calibrate(cluster, a)
        for model in a.models.split(","):
            steps = a.steps or ddp.MODELS[model][2]
            workload = os.path.join(folder, model + ".pt")
            ddp_rank.save(ddp.model_file(model), ddp.MODELS[model][0], workload)
            stem = prepare(model, folder, cluster, a)
            jobs = [("DDP " + c, ddp.run_peer, (model, workload, steps, c, a)) for c in configs]
            jobs += [(form, ddp.run_ours, (stem, f"{stem}.{form}.so", steps, a))
                     for form in a.forms]
            runs = everything[model] = ddp.in_turns(jobs, a.rounds)
            show(model, runs, a)
            good &= compare(model, runs, a)
            if a.roofline:
                for form in a.forms:
                    roofline(stem, form, ddp.median(runs[form], "ms"), device, a)
            sys.stdout.flush()
    if a.out:
        with open(a.out, "w") as file:
            json.dump(everything, file, indent=1)
    return 1 if a.check and not good else 0


if __name__ == "__main__":
    sys.exit(main())
