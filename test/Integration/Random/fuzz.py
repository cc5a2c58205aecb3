# REQUIRES: compiler, numpy, long
# RUN: rm -rf %t.dir
# RUN: %python %s --tools %mpcomm_obj_root/bin --folder %t.dir --seconds 240 --jobs 2
#
# The compiler takes any training graph that verifies: it compiles it, or ends with an error at
# an op, and never with a signal or not at all.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutates generated graphs and runs the graph phase, and the whole pipeline for processors and
for GPUs, on those that verify. Lists crashes and hangs, and errors by message."""

import argparse
import collections
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
import builder
import generator
from generator import KINDS, Generator
from mutate import mutate
from tools import BUCKETS, Server, kind_of_message, start_compiler

PHASES = ("mpcomm-graph", "mpcomm-compile", "mpcomm-compile-cuda")
MESHES = ("dp:1", "dp:1", "dp:2", "dp:2", "dp:4", "pp:2", "pp:2,dp:2", "pp:3", "dp:8")
EXTREME_SIZES = (0, 1, 1, 2, 3, 7, 16, 17, 63, 64, 65, 1000, 4096, 2**16, 2**20 + 1, 2**31 - 1, 2**31, 2**33, 2**40)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", required=True, help="folder of the compiler")
    parser.add_argument("--folder", required=True, help="where results and failing graphs go")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=20, help="seconds after which a graph hangs")
    parser.add_argument("--extreme", type=float, default=0.1, help="share of graphs of extreme sizes")
    return parser.parse_args()


class Extreme(Generator):
    """Shapes of any size that a tensor may have."""

    def __init__(self, seed, kind):
        super().__init__(seed, kind)
        r = self.random
        size = lambda: r.choice(EXTREME_SIZES)
        shape = lambda: self.bounded([size() for _ in range(r.choice((1, 1, 2, 3, 4)))])
        self.shapes = [shape(), shape()]
        self.batch = r.choice((0, 1, 4, 1000, 4095))
        self.b.size = size
        data = self.b.data
        # No one looks at the numbers.
        self.b.data = lambda dtype, shape: data(dtype, ())

    @staticmethod
    def bounded(shape):
        count, out = 1, []
        for n in shape:
            if count * max(n, 1) > 2**44:
                n = 1
            count *= max(n, 1)
            out.append(n)
        return tuple(out)


def options_of(r, kind):
    """Pipelines need a backward pass, and scales gradients."""
    mesh = r.choice([m for m in MESHES if kind == "network" or "pp" not in m])
    words = ["mesh=" + mesh, "micro-batches=%d" % (r.choice((2, 3, 4)) if "pp" in mesh else r.choice((1, 1, 2, 3, 4)))]
    words.append(r.choice(("",) * 5 + ("precision=bf16", "precision=f16", "precision=fp8", "precision=fp8 fp8-scaling=current")))
    words.append(r.choice(BUCKETS))
    scaling = ("clip-norm=1.0", "loss-scale=dynamic", "loss-scale=static:8", "check-gradients=true")
    others = ("batch-norm=sync", "wire=bf16 numerics=lossy", "wire=i8 wire-min-bytes=0 numerics=lossy",
              "attention=fused", "cluster=h100-hdr")  # fmt: skip
    words.append(r.choice(("",) * 6 + (scaling if kind == "network" else ()) + others))
    if "pp" in words[0]:
        words.append(r.choice(("", "schedule=gpipe", "schedule=zb-h1", "schedule=interleaved", "schedule=zb-v",
                               "schedule=auto", "recompute=stage")))  # fmt: skip
    return " ".join(w for w in words if w)


class Fuzzer:
    def __init__(self, options, index):
        self.options, self.index = options, index
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.scratch = tempfile.mkdtemp(prefix="fuzz-%d-" % index, dir=base)
        self.server = start_compiler(options.tools)
        self.counts, self.seen = collections.Counter(), collections.Counter()

    def path(self, name):
        return os.path.join(self.scratch, name)

    def passes(self, pipeline):
        return self.server.ask("passes", self.path("g.mlir"), self.path("out"), "builtin.module(%s)" % pipeline,
                               seconds=self.options.limit)  # fmt: skip

    def one(self, seed):
        r = random.Random("fuzz %d" % seed)
        extreme = r.random() < self.options.extreme
        kind = KINDS[seed % len(KINDS)]
        try:
            graph = (Extreme(seed, kind) if extreme else Generator(seed, kind)).make().graph
            if r.random() < 0.85:
                mutate(graph, r)
        except (ValueError, IndexError, MemoryError, OverflowError) as error:
            return [("skipped", str(error)[:80])]
        with open(self.path("g.mlir"), "w") as file:
            file.write(str(graph))
        how, text = self.passes("mpcomm-verify-training-graph")
        if how != "exit 0":
            return [self.result("verify", how, text, seed)]
        out = [("verified", "")]
        options = options_of(r, kind)
        for phase in ("mpcomm-graph{%s}" % options, "mpcomm-compile{target=cpu %s}" % options,
                      "mpcomm-compile{target=cuda chip=%s %s}" % (r.choice(("sm_80", "sm_90", "sm_100")), options)):  # fmt: skip
            how, text = self.passes(phase)
            out.append(self.result(phase, how, text, seed))
            if out[-1][0] != "compiled" and phase.startswith("mpcomm-graph"):
                break  # the others do the same
        return out

    def result(self, phase, how, text, seed):
        name = phase.split("{")[0] + ("-cuda" if "cuda" in phase else "")
        if how == "exit 0":
            return ("compiled", name)
        outcome = "error"
        if how.startswith("signal"):
            outcome = "hang" if how in Server.HANGS else "crash"
        if phase == "verify" and outcome == "error":
            outcome = "invalid"
        message = kind_of_message(outcome, text)
        self.seen[outcome, message] += 1
        if self.seen[outcome, message] <= 3 and outcome != "invalid":
            where = os.path.join(self.options.folder, outcome, str(seed))
            os.makedirs(where, exist_ok=True)
            shutil.copy(self.path("g.mlir"), os.path.join(where, "step.mlir"))
            with open(os.path.join(where, "README"), "w") as file:
                file.write("mpcomm-opt step.mlir --pass-pipeline='builtin.module(%s)'\n%s\n%s\n" % (phase, how, text[-4000:]))
        return (outcome, "%s: %s" % (name, message))

    def run(self):
        end = time.time() + self.options.seconds
        number = self.options.first + self.index
        while time.time() < end and number < self.options.first + self.options.count:
            self.counts["graphs"] += 1
            for outcome in self.one(number):
                self.counts["\t".join(outcome)] += 1
            number += self.options.jobs
        self.server.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        with open(os.path.join(self.options.folder, "counts-%d-%d.json" % (self.options.first, self.index)), "w") as file:
            json.dump(self.counts, file)


def work(options, index):
    Fuzzer(options, index).run()


def main():
    options = parse()
    os.makedirs(options.folder, exist_ok=True)
    children = [multiprocessing.Process(target=work, args=(options, i)) for i in range(options.jobs)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    if any(child.exitcode for child in children):
        sys.exit("a worker failed")
    total = collections.Counter()
    for i in range(options.jobs):
        with open(os.path.join(options.folder, "counts-%d-%d.json" % (options.first, i))) as file:
            total.update(json.load(file))
    for name, count in total.most_common():
        print("%7d  %s" % (count, name.replace("\t", ": ")))
    graphs, verified = total["graphs"], total["verified\t"]
    print("%d graphs, %.1f %% verify" % (graphs, 100 * verified / max(graphs, 1)))
    bad = sum(n for name, n in total.items() if name.split("\t")[0] in ("crash", "hang") or "cannot parse" in name)
    # Most graphs reach the end of each phase.
    shares = [total["compiled\t" + phase] / max(verified, 1) for phase in PHASES]
    sys.exit(1 if bad or verified < 0.9 * graphs or min(shares) < 0.5 else 0)


assert builder and generator
if __name__ == "__main__":
    main()
