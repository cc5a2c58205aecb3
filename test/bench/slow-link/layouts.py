# ===- layouts.py - pipelines or data parallelism over slow links ----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Ranks behind links of limited rate train the same model on the same samples a step,
once with data parallelism and once as each pipeline that fits: what a step takes, what
the compiler's simulation says that it takes, on the cluster as `mpcomm-run --calibrate`
measures it on these ranks and links, and which of them `mesh=auto:N` chooses, and why.

`wide` is a GPT with many parameters and small activations (one sequence of 64 bytes in a
micro-batch), `narrow` one with few parameters and large activations. The median of the
steps of a run, and of the runs; runs of the layouts take turns.

Needs root, for network namespaces and rate limits (docs/Guides/SlowLinks.md).

A small run, to see that all of it works:
REQUIRES: torch, gloo, compiler, can-limit-network, long
RUN: %python %s --models=tiny --rounds=1 --steps=2 --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run | FileCheck %s
CHECK: tiny, 2 ranks, 200mbit
CHECK: | dp:2 |
CHECK: | pp:2,dp:1 |
CHECK: mesh={{.*}} is chosen
CHECK: {{^}}the fastest measured: {{dp:2|pp:2,dp:1}}; chosen: {{dp:2|pp:2,dp:1}}
"""

import argparse
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GPT = os.path.join(HERE, *[".."] * 3, "docs", "examples", "gpt.py")
# The bench beside this one; its name is that of test/bench/ddp's, which it imports.
spec = importlib.util.spec_from_file_location("slow_link", os.path.join(HERE, "measure.py"))
slow_link = importlib.util.module_from_spec(spec)
spec.loader.exec_module(slow_link)

# model: (options of docs/examples/gpt.py, sequences in a micro-batch)
MODELS = {
    "tiny": ({"layers": 2, "d": 64, "heads": 2, "ctx": 16}, 1),
    "wide": ({"layers": 6, "d": 512, "heads": 8, "ctx": 64}, 1),
    "narrow": ({"layers": 6, "d": 64, "heads": 2, "ctx": 128}, 8),
}


class Bench(slow_link.Bench):
    def prepare(self, model):
        options, batch = MODELS[model]
        subprocess.run([self.a.mpcomm_import, GPT, *[f"-O{k}={v}" for k, v in options.items()],
                        "--batch", str(batch), "-o", self.path(model, "mlir"), "--weights",
                        self.path(model, "w"), "--data", self.path(model, "d")], check=True)

    def build(self, model, form, options):
        """Compiles; what the report says."""
        return subprocess.run(
            [self.a.mpcomm_compile, self.path(model, "mlir"), "-o", self.program(model, form),
             "--report", "--options", options], check=True, stdout=subprocess.PIPE, text=True).stdout


def read_layouts(report):
    """Of the report's table, what can be taken."""
    rows = re.findall(r"^([* ]) +\d+  (\S+) +(\d+) +(\d+)  (\S*) +([\d.]+) +([\d.]+) +([\d.]+) "
                      r"+([\d.]+) +([\d.]+)$", report, re.M)
    return [{"chosen": r[0] == "*", "mesh": r[1], "chunks": r[2], "micro": r[3], "schedule": r[4],
             "ms": float(r[5]), "wait": float(r[7]), "sent": float(r[8])} for r in rows]


def measure(bench, model, ranks, rate, a):
    cluster = bench.calibrate(ranks, rate)
    common = f"cluster={cluster} schedule=auto"
    report = bench.build(model, "chosen", f"mesh=auto:{ranks} micro-batches={a.micro_batches} {common}")
    layouts = read_layouts(report)
    for i, layout in enumerate(layouts):
        chunks = f"chunks={layout['chunks']}" if "pp" in layout["mesh"] else ""
        bench.build(model, f"layout{i}", f"mesh={layout['mesh']} micro-batches={layout['micro']} "
                    f"{chunks} {common}")
    runs = [[] for _ in layouts]
    for _ in range(a.rounds):
        for i in range(len(layouts)):
            runs[i].append(bench.ours(model, ranks, a.steps, f"layout{i}"))
    print(f"\n{model}, {ranks} ranks, {rate}")
    print("| mesh | stages a rank | micro-batches | schedule | measured ms | its rounds | waits | "
          "simulated ms | waits | error | sent MB | loss |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for layout, rs in zip(layouts, runs):
        layout["measured"] = statistics.median(r["ms"] for r in rs)
        waits = statistics.median(r["exposed_ms"] for r in rs)
        rounds = " ".join(f"{r['ms']:.0f}" for r in rs)
        print(f"| {layout['mesh']} | {layout['chunks']} | {layout['micro']} | {layout['schedule']} | "
              f"{layout['measured']:.1f} | {rounds} | {waits:.1f} | {layout['ms']:.1f} | "
              f"{layout['wait']:.1f} | {100 * (layout['ms'] / layout['measured'] - 1):+.1f} % | "
              f"{layout['sent']:.2f} | {rs[0]['loss'][0]:.4f} -> {rs[0]['loss'][1]:.4f} |")
    print(re.search(r"^mesh=.* is chosen.*$", report, re.M)[0])
    best = min(layouts, key=lambda r: r["measured"])
    chosen = next(r for r in layouts if r["chosen"])
    print(f"the fastest measured: {best['mesh']}; chosen: {chosen['mesh']}, "
          f"{chosen['measured'] / best['measured']:.3f} of its step")
    sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default="wide,narrow", help=", ".join(MODELS))
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rates", default="200mbit", help="as tc reads them")
    p.add_argument("--micro-batches", type=int, default=4, help="of each rank under dp:N")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=6, help="timed steps of a run")
    p.add_argument("--no-pin", action="store_true", help="let the ranks share all cores")
    p.add_argument("--timeout", type=float, default=900, help="seconds of one run")
    p.add_argument("--mpcomm-import", default="mpcomm-import")
    p.add_argument("--mpcomm-compile", default="mpcomm-compile")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    a = p.parse_args()
    slow_link.network.isolate()
    with tempfile.TemporaryDirectory() as folder:
        links = slow_link.network.Network(a.ranks)
        bench = Bench(a, links, folder)
        for model in a.models.split(","):
            bench.prepare(model)
            for rate in a.rates.split(","):
                links.limit(rate)
                measure(bench, model, a.ranks, rate, a)
    return 0


if __name__ == "__main__":
    sys.exit(main())
