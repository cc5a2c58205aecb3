#!/usr/bin/env python3
# ===- measure.py - simulated steps of buckets solved and buckets swept --=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Simulates the training steps of models.py on clusters known by name, with gradients
bucketed by the fixed sizes that DistributedDataParallel, XLA, Horovod and Megatron-LM
use by default, and as the pipeline solves and schedules it. Prints the time of the
step, the share of it that is exposed, and the lower bound.

All plans share the graph, the data-parallel pass and the simulator. The baselines' buckets
are those of `mpcomm-combine-collectives policy=…`; they start as soon as they are full
and are awaited as late as their results are needed, so that no baseline is worse here than
at home. `bound` is the compiler's: no buckets take less in the order of the backward pass
that it chose, however they are scheduled (`JointProblem::lowerBound`); where ours splits collectives by levels of
links, which then run beside each other, it is the simulator's bound for those, if that
is smaller.

A small run, to see that all of it works:
RUN: %python %s --models=gpt2-small --clusters=ethernet-10g --quick | FileCheck %s
CHECK: gpt2-small {{.*}}ethernet-10g
CHECK: never worse than the best baseline: 1 of 1
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import models  # noqa: E402


class Cluster:
    """Ranks, the type that its devices train in, and micro-batches of samples that fit
    beside f32 weights and AdamW's state."""

    def __init__(self, ranks, dtype, batches, sequence=None):
        self.ranks, self.dtype = ranks, dtype
        self.batches, self.sequence = batches, sequence


NAMES = ["gpt2-small", "gpt2-medium", "bert-large", "resnet-50"]
CLUSTERS = {
    # 8 nodes of 8 H100 of 80 GB; one node of 8 H200 of 141 GB.
    "dgx-h100": Cluster(64, "bf16", dict(zip(NAMES, (12, 8, 16, 256)))),
    "h200-nvlink-8": Cluster(8, "bf16", dict(zip(NAMES, (24, 16, 32, 256)))),
    # 4 nodes of 4 V100 of 16 GB; 4 nodes of 8 V100 of 32 GB.
    "ethernet-10g": Cluster(16, "f16", dict(zip(NAMES, (4, 1, 4, 64)))),
    "ethernet-100g": Cluster(32, "f16", dict(zip(NAMES, (8, 4, 8, 128)))),
    # Two cores of one machine: sequences of 128 tokens.
    "local": Cluster(2, "f32", dict(zip(NAMES, (2, 1, 1, 2))), sequence=128),
}

# Plan: the policy of mpcomm-combine-collectives that does as they do by default
# (bucket_cap_mb of DistributedDataParallel, xla_gpu_all_reduce_combine_threshold_bytes,
# HOROVOD_FUSION_THRESHOLD, bucket_size of Megatron-LM's DistributedDataParallelConfig).
BASELINES = {"DDP": "ddp", "XLA": "xla", "Horovod": "horovod", "Megatron": "megatron"}
OURS = "ours"


class Tools:
    def __init__(self, a):
        self.opt, self.sim, self.timeout = a.mpcomm_opt, a.mpcomm_sim, a.timeout

    def run(self, command):
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=self.timeout, check=False)
        if result.returncode:
            sys.exit("error: %s\n%s" % (" ".join(command), result.stderr[-2000:]))
        return result.stdout, result.stderr

    def bucket(self, graph, cluster, ranks, policy, out):
        """The graph phase with buckets after a fixed rule."""
        self.run([self.opt, graph, "-o", out, "--mpcomm-verify-training-graph",
                  "--canonicalize", "--cse", "--mpcomm-data-parallel=size=%d" % ranks,
                  "--mpcomm-sink-updates",
                  "--mpcomm-combine-collectives=policy=%s cluster=%s" % (policy, cluster),
                  "--mpcomm-make-async"])

    def solve(self, graph, cluster, ranks, out):
        """The whole graph phase; returns remarks of buckets and of what is exposed."""
        _, remarks = self.run([
            self.opt, graph, "-o", out,
            "--remarks-filter=mpcomm-(combine|explain).*", "--remark-format=emitRemark",
            "--mpcomm-graph=mesh=dp:%d cluster=%s" % (ranks, cluster)])
        return remarks

    def simulate(self, program, cluster):
        out = program + ".json"
        self.run([self.sim, program, "--cluster=" + cluster, "--json=" + out])
        with open(out, encoding="utf-8") as file:
            return json.load(file)


def lower_bound(remarks, facts):
    """Of all plans, from the remark of mpcomm-combine-collectives. It speaks of the
    program in which each tensor has a collective of its own, which may keep operations
    apart that are one kernel in what mpcomm-explain-communication sees: so much less may
    computation be.
    """
    found = re.search(r"\bOrder \|.*\bcompute_us=([0-9.]+),.*\border_bound_us=([0-9.]+)", remarks)
    last = re.search(r"\bStep \|.*\bcompute_us=([0-9.]+)", remarks)
    if not found or not last:
        sys.exit("error: no remark with a lower bound:\n" + remarks[-2000:])
    alone, bound, compute = (1e-6 * float(text) for text in (*found.groups(), last.group(1)))
    bound -= max(0.0, alone - compute)
    if any(c["name"] != "all_reduce" for c in facts["collectives"]):
        bound = min(bound, facts["lower_bound"])
    return bound


class Cell:
    """A model on a cluster: {plan: (seconds, exposed seconds)} and the bound."""

    def __init__(self, model, cluster, batch, ranks):
        self.model, self.cluster, self.batch, self.ranks = model, cluster, batch, ranks
        self.steps, self.bound, self.peak, self.buckets = {}, 0.0, 0, 0

    @property
    def best_rival(self):
        return min(t for name, (t, _) in self.steps.items() if name != OURS)

    @property
    def seconds(self):
        return self.steps[OURS][0]


def measure(model, name, tools, folder, quick):
    cluster = CLUSTERS[name]
    batch = 1 if quick else cluster.batches[model]
    sequence = 128 if quick else cluster.sequence
    graph = os.path.join(folder, "graph.mlir")
    out = os.path.join(folder, "program.mlir")
    g, loss, _ = models.build(model, batch, sequence, cluster.dtype)
    with open(graph, "w", encoding="ascii") as file:
        g.write(loss, file)
    cell = Cell(model, name, batch, cluster.ranks)
    for plan in [*BASELINES, OURS]:
        if plan == OURS:
            remarks = tools.solve(graph, name, cluster.ranks, out)
        else:
            tools.bucket(graph, name, cluster.ranks, BASELINES[plan], out)
        facts = tools.simulate(out, name)
        cell.steps[plan] = facts["seconds"], facts["exposed"]
    cell.bound = lower_bound(remarks, facts)
    cell.peak, cell.buckets = facts["peak_bytes"], len(facts["collectives"])
    return cell


def show(cells, markdown):
    plans = [*BASELINES, OURS]
    head = ["model", "batch", "cluster", "ranks", *(p + " ms (exposed)" for p in plans),
            "buckets", "bound ms", "ours/bound", "DDP/ours", "peak GB"]
    rows = [head]
    for c in cells:
        rows.append([c.model, str(c.batch), c.cluster, str(c.ranks), *(
            "%.2f (%.1f %%)" % (1e3 * t, 100 * e / t)
            for t, e in (c.steps[p] for p in plans)),
            str(c.buckets), "%.2f" % (1e3 * c.bound), "%.3f" % (c.seconds / c.bound),
            "%.2f" % (c.steps["DDP"][0] / c.seconds), "%.1f" % (c.peak / 1e9)])
    if markdown:
        rows.insert(1, ["---"] * len(head))
        for row in rows:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    for row in rows:
        print("  ".join(text.ljust(w) if i in (0, 2) else text.rjust(w)
                        for i, (text, w) in enumerate(zip(row, widths))))


def summarize(cells):
    """What the table has to show. A cell is bound by bandwidth if DDP's default leaves
    a fifth of the step exposed."""
    worse = [c for c in cells if c.seconds > c.best_rival * (1 + 1e-9)]
    near = [c for c in cells if c.seconds <= 1.03 * c.bound]
    bound = [c for c in cells if c.steps["DDP"][1] >= 0.2 * c.steps["DDP"][0]]
    print("\nnever worse than the best baseline: %d of %d cells" % (
        len(cells) - len(worse), len(cells)))
    for c in worse:
        print("  worse: %s on %s, %.4f times" % (
            c.model, c.cluster, c.seconds / c.best_rival))
    print("within 3 %% of the lower bound: %d of %d cells" % (len(near), len(cells)))
    if bound:
        ratios = sorted(c.steps["DDP"][0] / c.seconds for c in bound)
        print("DDP/ours where DDP leaves a fifth exposed (%d cells): %.2f to %.2f, "
              "at least 1.1 in %d" % (len(bound), ratios[0], ratios[-1],
                                      sum(r >= 1.1 for r in ratios)))
    return not worse


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--models", default=",".join(NAMES))
    p.add_argument("--clusters", default=",".join(CLUSTERS))
    p.add_argument("--markdown", action="store_true")
    p.add_argument("--json", metavar="FILE", help="write all figures")
    p.add_argument("--quick", action="store_true", help="micro-batches of one sample")
    p.add_argument("--check", action="store_true",
                   help="exit status 1 where a baseline is better")
    p.add_argument("--mpcomm-opt", default="mpcomm-opt")
    p.add_argument("--mpcomm-sim", default="mpcomm-sim")
    p.add_argument("--timeout", type=float, default=600, help="seconds a command")
    a = p.parse_args()
    tools, cells = Tools(a), []
    folder = tempfile.mkdtemp(prefix="mpcomm-overlap-")
    try:
        for cluster in a.clusters.split(","):
            for model in a.models.split(","):
                cells.append(measure(model, cluster, tools, folder, a.quick))
    finally:
        shutil.rmtree(folder)
    show(cells, a.markdown)
    good = summarize(cells)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as out:
            json.dump([vars(c) for c in cells], out, indent=1)
    return 1 if a.check and not good else 0


if __name__ == "__main__":
    sys.exit(main())
