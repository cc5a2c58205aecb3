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
# RUN: %python %s --bin=%mpcomm_obj_root/bin --folder=%t --rows=bert-512-v100,gpt2-124m-a100-pcie --markdown=%t/table.md | FileCheck %s
# RUN: FileCheck %s < %t/table.md
# CHECK: | gpt2-124m-a100-pcie | {{.*}} | 145000 tokens/s/GPU | {{1?[0-9.]+}} |
# CHECK: | bert-512-v100 | {{.*}} | 75 samples/s | {{[01][.][0-9]+}} |
# CHECK: 2 rows: predicted rates are {{[0-9.]+}} of the published ones (geometric mean), the worst {{[0-9.]+}} ({{.*}})
"""What the cost model and the simulator predict for training throughputs that others have
measured and published: published.json has the rows with their sources, and the clusters.

  compare.py [--rows=NAME,...] [--markdown=FILE] [--folder=DIR] [--by-op]

Each row is imported (Inputs/models.py), compiled for its cluster and simulated. The
ratio is the predicted rate over the published one, above 1 where the prediction is too
fast. --folder keeps the imported graphs, --by-op tells what each kind of op takes."""

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


def cluster_file(a, name, description):
    """The preset that a cluster starts from, with its own figures in place of the preset's."""
    path = os.path.join(a.folder, name + ".json")
    call(os.path.join(a.bin, "mpcomm-sim"), "--cluster=" + description["preset"], "--write-cluster=" + path)
    with open(path) as file:
        cluster = json.load(file)
    cluster["name"] = name
    cluster["device"].update(description.get("device", {}))
    for link, bandwidth in zip(cluster["links"], description.get("bandwidths", [])):
        link["bandwidth"] = bandwidth
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


def simulate(a, row, cluster):
    """Seconds of a step, and the timeline."""
    timeline = os.path.join(a.folder, "timeline.json")
    graph = "mpcomm-graph{target=cuda cluster=%s mesh=dp:%d precision=%s attention=%s micro-batches=%d}" % (
        cluster, row["gpus"], row["precision"], row["attention"], row["accumulation"])  # fmt: skip
    call(os.path.join(a.bin, "mpcomm-sim"), import_graph(a, row), "--pipeline=" + graph, "--cluster=" + cluster,
         "--json=" + timeline)  # fmt: skip
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
    return "%s, %d%s%s, %s" % (row["model"], row["batch"], sequence, steps, row["precision"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="their ids; else all")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--folder", help="else a temporary one")
    parser.add_argument("--by-op", action="store_true")
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
    lines = []

    def tell(line):
        lines.append(line)
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        a.folder = a.folder or temporary
        clusters = {name: cluster_file(a, name, figures["clusters"][name]) for name in sorted({row["cluster"] for row in rows})}
        ratios = {}
        tell("| row | source | hardware | configuration of a GPU | predicted | published | ratio |")
        tell("|---|---|---|---|---|---|---|")
        for row in rows:
            seconds, timeline = simulate(a, row, clusters[row["cluster"]])
            predicted, ratios[row["id"]] = in_unit(row, seconds)
            tell("| %s | [%s](%s) | %d x %s | %s | %.0f | %g %s | %.2f |" % (
                row["id"], re.sub(r",.*", "", row["source"]), row["address"], row["gpus"], row["hardware"],
                configuration(row), predicted, row["published"], row["unit"], ratios[row["id"]]))  # fmt: skip
            if a.by_op:
                print("    " + by_op(timeline), flush=True)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst = max(ratios, key=lambda name: abs(math.log(ratios[name])))
    within = sum(abs(math.log(ratio)) <= math.log(1.25) for ratio in ratios.values())
    tell("")
    tell("%d rows: predicted rates are %.2f of the published ones (geometric mean), the worst %.2f (%s); "
         "%d within a factor of 1.25." % (len(rows), mean, ratios[worst], worst, within))  # fmt: skip
    if a.markdown:
        with open(a.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")


main()
