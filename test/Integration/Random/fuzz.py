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
CHECK = "mpcomm-verify-training-graph"
CHUNK = 16  # graphs that are compiled in one process
# No phase takes it, nor does the check of graphs: it has no stage but one, and its result is no scalar.
WRONG = """func.func @train_step(%x: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<2xf32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  return %x : tensor<2xf32>
}"""
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
    parser.add_argument("--assemble", type=float, default=0.05, help="share of graphs whose kernels are assembled")
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
              "attention=fused", "cluster=dgx-h100")  # fmt: skip
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
        self.refuses()

    def refuses(self):
        """Fails if passes do not run."""
        with open(self.path("wrong.mlir"), "w") as file:
            file.write(WRONG)
        for target in (CHECK, "mpcomm-graph{mesh=pp:2 micro-batches=2}",
                       "mpcomm-compile{target=cpu mesh=pp:2 micro-batches=2}",
                       "mpcomm-compile{target=cuda mesh=pp:2 micro-batches=2}"):  # fmt: skip
            if self.passes("wrong", target)[0] != "exit 1":
                raise RuntimeError("%s takes a graph that is wrong" % target)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def passes(self, seed, pipeline):
        return self.server.ask("passes", self.path("%s.mlir" % seed), self.path("out"), pipeline,
                               seconds=self.options.limit)  # fmt: skip

    def make(self, seed):
        """The phases of a graph that is written, or why there is none."""
        r = random.Random("fuzz %d" % seed)
        extreme = r.random() < self.options.extreme
        kind = KINDS[seed % len(KINDS)]
        try:
            graph = (Extreme(seed, kind) if extreme else Generator(seed, kind)).make().graph
            if r.random() < 0.85:
                mutate(graph, r)
        except (ValueError, IndexError, MemoryError, OverflowError) as error:
            return None, str(error)[:80]
        with open(self.path("%d.mlir" % seed), "w") as file:
            file.write(str(graph))
        options = options_of(r, kind)
        # The assembler is not ours, and takes as long as all of the rest.
        chip = r.choice(("sm_80", "sm_90", "sm_100")) + ("" if r.random() < self.options.assemble else " ptxas=none")
        return ("mpcomm-graph{%s}" % options, "mpcomm-compile{target=cpu %s}" % options,
                "mpcomm-compile{target=cuda chip=%s %s}" % (chip, options)), None  # fmt: skip

    def several(self, seeds):
        """Most graphs compile: many in one process. The others, and all if it dies, are looked at on their own."""
        made = {seed: self.make(seed) for seed in seeds}
        todo = [seed for seed in seeds if made[seed][0]]
        with open(self.path("list"), "w") as file:
            for seed in todo:  # the first phase is the beginning of the others
                file.write("|".join([self.path("%d.mlir" % seed), CHECK, *made[seed][0][1:]]) + "\n")
            file.write(self.path("wrong.mlir") + "|" + CHECK + "\n")
        how, text = self.server.ask("each", self.path("list"), self.path("done"), "-", seconds=self.options.limit)
        right = set()
        if how == "exit 0":
            with open(self.path("done")) as file:
                *lines, last = [line.strip() for line in file]
            if len(lines) != len(todo) or last != "1":
                raise RuntimeError("a list of %d graphs and a wrong one gives %s, %s" % (len(todo), lines, last))
            right = {seed for seed, line in zip(todo, lines) if line == "0"}
        outcomes = list(self.alone(seeds, made, right))
        if how != "exit 0" and not any(outcome in ("crash", "hang") for outcome, *_ in outcomes):
            outcomes.append(("crash", "together: %s: %s" % (how, kind_of_message("crash", text))))
            shutil.copy(self.path("list"), os.path.join(self.options.folder, "list-%d" % seeds[0]))
        for seed in todo:
            os.remove(self.path("%d.mlir" % seed))
        return outcomes

    def alone(self, seeds, made, right):
        for seed in seeds:
            phases, reason = made[seed]
            if seed in right:
                yield from [("verified", ""), *(("compiled", name) for name in PHASES)]
            elif phases:
                yield from self.one(seed, phases)
            else:
                yield ("skipped", reason)

    def one(self, seed, phases):
        how, text = self.passes(seed, CHECK)
        if how != "exit 0":
            return [self.result("verify", how, text, seed)]
        out = [("verified", "")]
        for phase in phases:
            how, text = self.passes(seed, phase)
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
            shutil.copy(self.path("%d.mlir" % seed), os.path.join(where, "step.mlir"))
            with open(os.path.join(where, "README"), "w") as file:
                file.write("mpcomm-opt step.mlir --pass-pipeline='builtin.module(%s)'\n%s\n%s\n" % (phase, how, text[-4000:]))
        return (outcome, "%s: %s" % (name, message))

    def run(self):
        end = time.time() + self.options.seconds
        number = self.options.first + self.index
        while time.time() < end and number < self.options.first + self.options.count:
            seeds = range(number, self.options.first + self.options.count, self.options.jobs)[:CHUNK]
            for outcome in self.several(seeds):
                self.counts["\t".join(outcome)] += 1
            self.counts["graphs"] += len(seeds)
            number += len(seeds) * self.options.jobs
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
