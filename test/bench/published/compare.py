#!/usr/bin/env python3
# ===- compare.py - simulated steps beside published throughputs ---------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s --bin=%mpcomm_obj_root/bin --folder=%t --rows=bert-512-v100,gpt2-124m-a100 | FileCheck %s
# CHECK: | gpt2-124m-a100 | llm.c | {{.*}} | 300 ms/step |
# CHECK: | bert-512-v100 | NVIDIA DeepLearningExamples | {{.*}} | 40.95 samples/s |
# CHECK: | its kernels | {{0\.9[0-9]|1\.0[0-9]}} | {{.*}} | 2 of 2 |
# RUN: %python %s --bin=%mpcomm_obj_root/bin --folder=%t --rows=gpt2-124m-h100 \
# RUN:   --h200=%mpcomm_src_root/test/bench/cuda/measured/h200-rates-cluster.json | FileCheck %s --check-prefix=MEASURED
# MEASURED: | gpt2-124m-h100 | {{.*}} | 0.9{{[5-9]}} | 0.9{{[5-9]}} |
"""What the cost model and the simulator predict for training throughputs that others have
measured and published: published.json has the rows with their sources, and the clusters.

  compare.py [--rows=NAME,...] [--folder=DIR] [--by-op] [--h200=cluster.json]

Each row is imported (Inputs/models.py), compiled for its cluster and simulated, in two
ways: as the compiler would run it; and with unfused kernels, where what was published runs
them. A ratio is the predicted
rate over the published one, above 1 where the prediction is too fast. --folder keeps the
imported graphs, --by-op tells what each kind of op takes in the last way. --h200 has rates that were
measured on an H200 (mpcomm-run --calibrate), which the rows of H100s take in place of the preset's: the
chips differ in their memories alone."""

import argparse
import collections
import json
import math
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
from commands import call  # noqa: E402

# Whether kernels are those of what was published.
WAYS = {"as compiled": False, "its kernels": True}


def preset(a, name, path):
    call(os.path.join(a.bin, "mpcomm-sim"), "--cluster=" + name, "--write-cluster=" + path)
    with open(path) as file:
        return json.load(file)


def measured_device(a, h100):
    """The rates of a.h200, with the memory of an H100."""
    with open(a.h200) as file:
        device = json.load(file)["device"]
    h200 = preset(a, "h200-nvlink-8", os.path.join(a.folder, "h200.json"))["device"]
    return dict(device, flops={**h100["flops"], **device["flops"]}, memory_bytes=h100["memory_bytes"],
                memory_bandwidth=device["memory_bandwidth"] * h100["memory_bandwidth"] / h200["memory_bandwidth"])  # fmt: skip


def cluster_file(a, name, description):
    """The preset that a cluster starts from, with its own figures in place of the preset's."""
    path = os.path.join(a.folder, name + ".json")
    cluster = preset(a, description["preset"], path)
    cluster["name"] = name
    if a.h200 and description["preset"] == "dgx-h100":
        cluster["device"] = measured_device(a, cluster["device"])
    device = cluster["device"]
    device.update(description.get("device", {}))
    device["flops"].update(description.get("flops", {}))
    with open(path, "w") as file:
        json.dump(cluster, file)
    return path


def import_graph(a, row):
    options = ["%s=%s" % (key, row[key]) for key in ("model", "batch", "sequence", "masked") if key in row]
    path = os.path.join(a.folder, "-".join(option.split("=")[1] for option in options) + ".mlir")
    if not os.path.exists(path):
        command = [os.path.join(a.bin, "mpcomm-import"), os.path.join(HERE, "Inputs", "models.py"), "-o", path + ".part"]
        call(*command, *[word for option in options for word in ("-O", option)])
        os.rename(path + ".part", path)
    return path


PRODUCTS = {"dot_general", "convolution", "convolution_input_grad", "convolution_filter_grad", "attention", "attention_grad"}
# What is a view in a framework without fusion, and what is no computation.
OTHERS = {"broadcast_in_dim", "reshape", "slice", "transpose", "constant", "mesh", "call", "return", "func",
          "all_reduce", "async", "await", "yield"}  # fmt: skip


def count_bytes(types):
    """Bytes of the tensors in a list of types."""
    size = 0
    for sizes, width in re.findall(r"tensor<((?:\d+x)*)\w*?(\d+)", types):
        size += math.prod(map(int, sizes.split("x")[:-1])) * max(int(width), 8) // 8
    return size


def write_unfused(a, path, graph, cluster):
    """A profile in which every op that is no product moves its operands and results through
    memory in a kernel of its own: the bytes at the cluster's bandwidth, and a launch. A
    product adds its bias."""
    with open(cluster) as file:
        device = json.load(file)["device"]
    text = call(os.path.join(a.bin, "mpcomm-opt"), path, "--pass-pipeline=builtin.module(%s)" % graph, "--mlir-print-op-generic")
    maker, seconds = {}, {}
    for line in text.splitlines():
        op = re.match(r'\s+(?:(%\w+)(?::\d+)? = )?"(\w+\.(\w+))"\(([^)]*)\).* : \((.*?)\) -> (.*)', line)
        if not op:
            continue
        result, name, short, operands, inputs, outputs = op.groups()
        makers = [maker.get(re.match(r"%\w+", operand)[0]) for operand in operands.split(", ") if operand]
        maker[result] = short
        is_bias = short == "addf" and {"broadcast_in_dim", "dot_general"} <= set(makers)
        if is_bias or short in PRODUCTS | OTHERS:
            continue
        outputs = outputs.strip("()")
        shapes = "->".join(",".join(re.sub(r"tensor<(.*?)>", r"\1", types).split(", ")) for types in (inputs, outputs))
        seconds[name, shapes] = (count_bytes(inputs) + count_bytes(outputs)) / device["memory_bandwidth"] + device["launch"]
    profile = os.path.join(a.folder, "unfused.json")
    with open(profile, "w") as file:
        json.dump({"schema": "mpcomm-profile-1", "entries": [
            {"op": name, "shapes": shapes, "seconds": t} for (name, shapes), t in seconds.items()]}, file)  # fmt: skip
    return profile


def simulate(a, row, cluster, is_unfused):
    """Seconds of a step, and the timeline."""
    timeline = os.path.join(a.folder, "timeline.json")
    graph = "mpcomm-graph{target=cuda cluster=%s mesh=dp:%d precision=%s attention=%s micro-batches=%d}" % (
        cluster, row["gpus"], row["precision"], row["attention"], row["accumulation"])  # fmt: skip
    path = import_graph(a, row)
    profile = ["--profile-file=" + write_unfused(a, path, graph, cluster)] if is_unfused else []
    call(os.path.join(a.bin, "mpcomm-sim"), path, "--pipeline=" + graph, "--cluster=" + cluster, "--json=" + timeline, *profile)
    with open(timeline) as file:
        timeline = json.load(file)
    return timeline["seconds"], timeline


def in_unit(row, seconds):
    """What a step of so many seconds is in the row's unit, and the factor of a rate."""
    samples = row["gpus"] * row["batch"] * row["accumulation"]
    if row["unit"] == "ms/step":
        return seconds * 1e3, row["published"] / (seconds * 1e3)
    rate = samples / seconds
    if row["unit"] == "tokens/s/GPU":
        rate *= row["sequence"] / row["gpus"]
    return rate, rate / row["published"]


def by_op(timeline):
    total = collections.Counter()
    for stream in timeline["streams"]:
        if stream["name"] == "compute":
            for event in stream["events"]:
                total[event["name"]] += event["end"] - event["begin"]
    whole = sum(total.values())
    return ", ".join("%s %.1f %%" % (name, 100 * t / whole) for name, t in total.most_common(8)) + \
        ", exposed %.1f %%" % (100 * timeline["exposed"] / timeline["seconds"])  # fmt: skip


def configuration(row):
    steps = " x %d" % row["accumulation"] if row["accumulation"] > 1 else ""
    sequence = " x %d" % row["sequence"] if row.get("sequence") else ""
    return "%s, %d%s%s, %s, %s" % (row["model"], row["batch"], sequence, steps, row["precision"], row["kernels"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="their ids; else all")
    parser.add_argument("--folder", help="else a temporary one")
    parser.add_argument("--by-op", action="store_true")
    parser.add_argument("--h200")
    parser.add_argument("--figures", default=os.path.join(HERE, "published.json"))
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    a = parser.parse_args()
    with open(a.figures) as file:
        figures = json.load(file)
    rows = figures["rows"]
    if a.rows:
        unknown = set(a.rows.split(",")) - {row["id"] for row in rows}
        if unknown:
            sys.exit("no row '%s' in %s" % (min(unknown), a.figures))
        rows = [row for row in rows if row["id"] in a.rows.split(",")]
    ratios = {way: {} for way in WAYS}
    with tempfile.TemporaryDirectory() as temporary:
        a.folder = a.folder or temporary
        clusters = {name: cluster_file(a, name, figures["clusters"][name]) for name in sorted({row["cluster"] for row in rows})}
        print("| row | source | hardware | a step of a GPU | published | predicted | " + " | ".join(WAYS) + " |")
        print("|---|---|---|---|---|---|" + "---|" * len(WAYS))
        for row in rows:
            for way, as_published in WAYS.items():
                seconds, timeline = simulate(a, row, clusters[row["cluster"]], as_published and row["kernels"] == "unfused")
                predicted, ratios[way][row["id"]] = in_unit(row, seconds)
            print("| %s | %s | %d x %s | %s | %g %s | %.0f | %s |" % (
                row["id"], re.sub(r",.*", "", row["source"]), row["gpus"], row["hardware"],
                configuration(row), row["published"], row["unit"], predicted,
                " | ".join("%.2f" % ratios[way][row["id"]] for way in WAYS)), flush=True)  # fmt: skip
            if a.by_op:
                print("    " + by_op(timeline), flush=True)
    print()
    print("| | geometric mean | worst | within a factor of 1.25 |")
    print("|---|---|---|---|")
    for way, of_row in ratios.items():
        worst = max(of_row, key=lambda name: abs(math.log(of_row[name])))
        print("| %s | %.2f | %.2f (%s) | %d of %d |" % (
            way, math.exp(sum(map(math.log, of_row.values())) / len(of_row)), of_row[worst], worst,
            sum(abs(math.log(ratio)) <= math.log(1.25) for ratio in of_row.values()), len(of_row)))  # fmt: skip


main()
