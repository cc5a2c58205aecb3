#!/usr/bin/env python3
# ===- simulate.py - a step on more GPUs than there are ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, long
# RUN: rm -rf %t && mkdir %t
# RUN: echo '{"cells": {"steps/gpt-check-bf16": {"value": {"ms": 0.5}}}}' > %t/results.json
# RUN: %python %s --bin=%mpcomm_obj_root/bin --folder=%t --programs=gpt-check-bf16 --ranks=1,8 \
# RUN:   --measured=%t/results.json | FileCheck %s
# CHECK: | gpt-check-bf16 | 1 |{{.*}} | 0.5 | {{[+-][0-9.]+}} % |
# CHECK: | gpt-check-bf16 | 8 |
# CHECK: Assumptions
# RUN: %python %s --bin=%mpcomm_obj_root/bin --folder=%t --published=resnet50 | FileCheck %s --check-prefix=PUBLISHED
# PUBLISHED: | ResNet-50, 16 bits | 1 | 256 | {{[0-9,]+}} images | 2,470 | {{[+-][0-9]+}} % |
"""What a step would take on N GPUs: each program of pack.py, compiled for N ranks of
a cluster and simulated.

  simulate.py [--ranks=1,8,1024] [--cluster=dgx-h100] [--device=cluster.json]
              [--profile=NAME=profile.json ...] [--programs=NAME,...] [--measured=results.json]

--device takes rates of products, memory and launches from a file that
mpcomm-run --calibrate wrote on one GPU; links, and what is not in it, are the
cluster's. --profile takes what each kernel took in a run of program NAME. --measured lists the
steps that measure.py has timed on one GPU beside the prediction.

  simulate.py --published[=MODEL,...] [--device=cluster.json]

sets the prediction of steps beside throughputs that others have published. Rates of
--device, measured on an H200, are taken for an H100, whose memory has 3.35 of its 4.8 TB/s."""

import argparse
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
sys.path.insert(0, HERE)
from gpu_programs import PROGRAMS, call, for_chips, import_step  # noqa: E402


# What: (model, samples a GPU, options, cluster, unit, of which a sample has so many, {GPUs: published of one a second}, source).
PUBLISHED = {
    "GPT-2 small": ("gpt2-small", 64, "precision=bf16", "dgx-h100", "tokens", 1024, {8: 10e9 / (45 * 60) / 8},
                    "llm.c: 10 billion tokens in 45 minutes (github.com/KellerJordan/modded-nanogpt, record 1)"),
    "MPT 760M": ("mpt-760m", 24, "precision=bf16 zero=1", "dgx-h100", "tokens", 2048, {16: 68551, 32: 67971},
                 "FSDP, in blocks of 24 sequences (github.com/mosaicml/llm-foundry, scripts/train/benchmarking)"),
    "MPT 1B": ("mpt-1b", 20, "precision=bf16 zero=1", "dgx-h100", "tokens", 2048, {16: 46037, 32: 45130, 64: 44402},
               "FSDP, in blocks of 20 sequences (as above)"),
    "ResNet-50, 16 bits": ("resnet50", 256, "precision=f16 loss-scale=static:128", "dgx-a100", "images", 1,
                           {1: 2470, 8: 16621 / 8},
                           "PyTorch 21.03 (github.com/NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5)"),
}  # fmt: skip
# By which rates of an H200's memory become those of an H100: data sheets.
H100_MEMORY = 3.35 / 4.8


def cluster_file(a, memory=1.0):
    path = os.path.join(a.folder, "cluster.json")
    call(os.path.join(a.bin, "mpcomm-sim"), "--cluster=" + a.cluster, "--write-cluster=" + path)
    if a.device:
        with open(path) as file:
            cluster = json.load(file)
        with open(a.device) as file:
            measured = json.load(file)["device"]
        measured["flops"] = {**cluster["device"]["flops"], **measured["flops"]}
        measured["memory_bandwidth"] *= memory
        cluster["device"] = measured
        cluster["name"] += " with measured device"
        with open(path, "w") as file:
            json.dump(cluster, file)
    return path


def measured_steps(path):
    """ms by program, of one or of several runs in a file, the last of which counts."""
    with open(path) as file:
        results = json.load(file)
    steps = {}
    for run in results.values():
        steps.update(run.get("steps", {}) if isinstance(run, dict) else {})
    steps.update({key[len("steps/") :]: cell["value"] for key, cell in results.get("cells", {}).items()
                  if key.startswith("steps/") and "value" in cell})  # fmt: skip
    return {name: step["ms"] for name, step in steps.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,8,1024")
    parser.add_argument("--cluster", default="dgx-h100")
    parser.add_argument("--device")
    parser.add_argument("--chips", default="sm_90", help="that programs are compiled for; they decide how 8 bits are multiplied")
    parser.add_argument("--profile", action="append", default=[])
    parser.add_argument("--programs", default="gpt2-small-bf16,gpt2-medium-bf16,resnet50-bf16")
    parser.add_argument("--measured")
    parser.add_argument("--published", nargs="?", const=",".join(model for model, *_ in PUBLISHED.values()))
    parser.add_argument("--folder", help="for what is compiled; else a temporary one")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        a.folder = a.folder or temporary
        print_published(a) if a.published else print_table(a)


def simulate(a, step, cluster, ranks, options, profile=()):
    """Seconds of a step, of its compute, and of what of its communication is exposed."""
    graph = "mpcomm-graph{cluster=%s mesh=dp:%d %s}" % (cluster, ranks, for_chips(a.chips, options))
    text = call(os.path.join(a.bin, "mpcomm-sim"), step, "--pipeline=" + graph, "--cluster=" + cluster, *profile)
    return {label: float(re.search(r"^%s +([\d.]+) us" % label, text, re.M).group(1)) * 1e-6
            for label in ("step", "compute", "exposed")}  # fmt: skip


def print_published(a):
    print("| step | GPUs | samples a GPU | predicted, a GPU and second | published | off by | published by |")
    print("|---|---|---|---|---|---|---|")
    device = a.device
    for name, (model, batch, options, a.cluster, unit, size, published, source) in PUBLISHED.items():
        if model not in a.published.split(","):
            continue
        a.device = device if a.cluster == "dgx-h100" else None
        cluster = cluster_file(a, H100_MEMORY)
        step = import_step(a, model, model, batch)
        for ranks, seen in published.items():
            rate = batch * size / simulate(a, step, cluster, ranks, options)["step"]
            print("| %s | %d | %d | %s %s | %s | %+.0f %% | %s |" % (
                name, ranks, batch, format(round(rate), ","), unit, format(round(seen), ","), 100 * (rate / seen - 1), source))  # fmt: skip
            sys.stdout.flush()
        os.remove(step)


def print_table(a):
    cluster = cluster_file(a)
    profiles = dict(p.split("=", 1) for p in a.profile)
    measured = measured_steps(a.measured) if a.measured else {}
    print("| program | GPUs | samples a step | ms | compute ms | exposed ms | samples/s | efficiency | measured, ms | off by |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in a.programs.split(","):
        model, batch, options = PROGRAMS[name]
        step = import_step(a, name, model, batch)
        profile = ["--profile-file=" + profiles[name]] if name in profiles else []
        alone = None
        for ranks in map(int, a.ranks.split(",")):
            own = options + " profile-file=" + profiles[name] if profile else options
            seconds = simulate(a, step, cluster, ranks, own, profile)
            rate = batch * ranks / seconds["step"]
            alone = alone or rate / ranks
            ms, seen = seconds["step"] * 1e3, measured.get(name) if ranks == 1 else None
            print("| %s | %d | %d | %.2f | %.2f | %.2f | %.0f | %.1f %% | %s |" % (
                name, ranks, batch * ranks, ms, seconds["compute"] * 1e3, seconds["exposed"] * 1e3,
                rate, 100 * rate / ranks / alone, "%.1f | %+.1f %%" % (seen, 100 * (ms / seen - 1)) if seen else "|"))  # fmt: skip
            sys.stdout.flush()
        os.remove(step)
    print("""
Assumptions: links and collectives are those of cluster '%s' (docs/Design/ClusterFile.md has their sources: NCCL's
tuning model, NVIDIA's data sheets); every GPU computes the same, and alone; %s; %s; samples are
where they are needed when a step begins.""" % (
        a.cluster,
        "the device's rates are measured (%s)" % a.device if a.device else "the device's rates are the preset's, none is measured",
        "kernels took what %s recorded" % ", ".join(profiles.values()) if profiles else
        "products reach their rate at any shape, other ops are bound by memory"))  # fmt: skip


main()
