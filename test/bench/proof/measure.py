#!/usr/bin/env python3
# ===- measure.py - mutants of right programs before the proof ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Changes one communication op of programs that are right, gives the mutants to
mpcomm-verify-communication, and holds its answers against what the mutants do: in
execute.py, which knows nothing of the proof, and over shared memory on the runtime.

  measure.py [--mutants 20] [--replay 600] [--scale] [--seed 1]

--mutants: of each program by each operator. --replay: how many run on the runtime,
half of them accepted ones. --scale: also the time for a program of 10,000 ranks.

Fails if an accepted mutant hangs, mismatches, leaves a message, or gets wrong data.

REQUIRES: compiler
RUN: %python %s --mutants=2 --replay=40 --bin %mpcomm_obj_root/bin | FileCheck %s
CHECK: | program | ranks |
CHECK: | **all** |
CHECK: accepted mutants that hang or corrupt: 0
CHECK: rejected mutants that do neither: {{[0-9]+}}
CHECK: accepted mutants on the runtime: {{([1-9][0-9]*)}}, of which completed: all
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import execute  # noqa: E402
import mutate  # noqa: E402
import pipeline  # noqa: E402
import programs  # noqa: E402

ROOT = HERE.parents[2]
TWO_LEVELS = ROOT / "test/Transforms/Communicate/Inputs/two-levels.json"


def tool(arguments, name):
    found = os.path.join(arguments.bin, name) if arguments.bin else shutil.which(name)
    if not found or not os.path.exists(found):
        sys.exit("measure.py: %s is not there: give its folder by --bin" % name)
    return found


def optimized(arguments, source, *passes, name="train_step"):
    """What passes make of IR, read back."""
    command = [tool(arguments, "mpcomm-opt"), "-", *passes]
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    if result.returncode:
        sys.exit("%s: %s" % (" ".join(command), result.stderr))
    return programs.read(result.stdout, name)


def base_programs(arguments):
    """Name and problem of each right program."""

    def generate(ops):
        command = [sys.executable, str(ROOT / "test/bench/graph-scale/generate.py"), "--ops=%d" % ops]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    step, larger = generate(160), generate(500)
    norms = (HERE / "Inputs/batch-norm.mlir").read_text()

    def compiled(source, options, *passes):
        return optimized(arguments, source, "--mpcomm-graph=" + options, *passes)

    to_runtime = "--convert-mpcomm-to-mprt"
    ddp = " buckets=ddp max-bucket-bytes=1024 first-bucket-bytes=256"
    made = {
        "dp 2, not merged": compiled(step, "mesh=dp:2 buckets=none"),
        "dp 4, buckets, wire": compiled(step, "mesh=dp:4 wire=bf16" + ddp),
        "dp 4, runtime ops": compiled(step, "mesh=dp:4" + ddp, to_runtime),
        "dp 8, two levels": compiled(step, "mesh=dp:8 cluster=%s" % TWO_LEVELS),
        "dp 8, two levels, runtime ops": compiled(step, "mesh=dp:8 cluster=%s" % TWO_LEVELS, to_runtime),
        "dp 4, 8 bits": compiled(step, "mesh=dp:4 wire=i8 wire-min-bytes=0 overlap=false"),
        "dp 2, sync batch norm": compiled(norms, "mesh=dp:2 batch-norm=sync"),
    }
    for name in "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v":
        stages = 8 if name in ("interleaved", "zb-v") else 4
        made["%s, pp 4, dp 2, compiled" % name] = optimized(
            arguments, larger, "--mpcomm-data-parallel=size=2",
            "--mpcomm-partition-pipeline=stages=%d micro-batches=8" % stages,
            "--mpcomm-schedule-pipeline=ranks=4 micro-batches=8 schedule=%s" % name,
            "--mpcomm-combine-collectives=policy=ddp", "--mpcomm-make-async")  # fmt: skip
    # Those have small messages, which the runtime buffers; these have 80 KiB, which
    # it does not.
    for name in "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v":
        schedule = pipeline.Schedule((HERE / ("Inputs/%s.csv" % name)).read_text())
        replicas = 1 if len(schedule.placement) > schedule.stages else 2
        made["%s, pp 4, dp %d" % (name, replicas)] = pipeline.make_problem(
            schedule, replicas, 40960, [[64, 4096], [512]])  # fmt: skip
    made["ring of 4"] = pipeline.make_ring(4, 4, 20480)
    lowered = programs.write(made["1f1b, pp 4, dp 2"])
    made["1f1b, pp 4, dp 2, runtime ops"] = optimized(arguments, lowered, "--convert-mpcomm-to-mprt", name="step")
    return made


def prove(arguments, problems):
    """By problem, whether the pass accepts it; all must pass their verifiers."""
    text, starts = [], []
    line = 1
    for problem in problems:
        module = programs.write(problem)
        starts.append(line)
        text.append(module)
        line += module.count("\n") + 1
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mutants.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write("// -----\n".join(text))
        command = [tool(arguments, "mpcomm-opt"), path, "--split-input-file", "-o", os.devnull]
        valid = subprocess.run(command, capture_output=True, text=True)
        if valid.returncode:
            sys.exit("a mutant is no valid IR:\n" + valid.stderr[:4000])
        result = subprocess.run(command + ["--mpcomm-verify-communication"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        sys.exit("mpcomm-opt crashed:\n" + result.stderr[-4000:])
    rejected = set()
    for split, at in re.findall(r"(?:within split at \S*:(\d+) offset )?\S*?:(\d+):\d+: error: ", result.stderr):
        place = int(at) + (int(split) - 1 if split else 0)
        rejected.add(max(i for i, start in enumerate(starts) if start <= place))
    if bool(rejected) != bool(result.returncode):
        sys.exit("no error was understood:\n" + result.stderr[:4000])
    return [i not in rejected for i in range(len(problems))]


def replay(arguments, problems):
    """By problem, what it does on the runtime, over shared memory."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for i, problem in enumerate(problems):
            file.write(execute.replay_text("p%d" % i, problem))
        file.flush()
        result = subprocess.run([tool(arguments, "mprt-replay"), file.name, "1"], capture_output=True, text=True)
    outcomes = [line.split()[1] for line in result.stdout.splitlines()]
    if result.returncode or len(outcomes) != len(problems):
        sys.exit("mprt-replay: " + result.stderr)
    return outcomes


class Mutant:
    def __init__(self, name, operator, scope, problem, seed):
        self.name, self.operator, self.scope, self.problem = name, operator, scope, problem
        # The order of steps does not matter in the model; so two orders agree.
        self.strict = execute.execute(problem, seed)
        if execute.execute(problem, seed + 1) != self.strict:
            sys.exit("%s, %s: two executions differ" % (name, operator))
        self.lenient = [execute.execute(problem, seed + i, True) for i in (2, 3)]
        self.runs_if_lenient = all(outcome == "completed" for outcome in self.lenient)
        self.accepted = self.replayed = None

    def is_wrong(self):
        return self.strict != "completed" or not self.runs_if_lenient


def make_mutants(arguments, bases):
    generator, made = random.Random(arguments.seed), []
    for name, base in bases.items():
        for operator in mutate.OPERATORS:
            left, tries = arguments.mutants, 0
            while left and tries < 50 * arguments.mutants:
                tries += 1
                mutant = mutate.mutate(base, operator, generator)
                if mutant:
                    left -= 1
                    made.append(Mutant(name, operator, mutant[1], mutant[0], generator.randrange(2**30)))
    return made


def print_table(mutants, bases):
    columns = ["mutants", "rejected", "accepted", "hang", "mismatch", "accepted, hang or corrupt",
               "rejected, do neither", "rejected, run if lenient"]  # fmt: skip

    def row(title, ranks, chosen):
        rejected = [m for m in chosen if not m.accepted]
        counts = [len(chosen), len(rejected), len(chosen) - len(rejected),
                  sum(m.strict == "hang" for m in chosen), sum(m.strict == "mismatch" for m in chosen),
                  sum(m.accepted and m.is_wrong() for m in chosen), sum(not m.is_wrong() for m in rejected),
                  sum(m.is_wrong() and m.runs_if_lenient for m in rejected)]  # fmt: skip
        print("| %s | %s | %s |" % (title, ranks, " | ".join("{:,}".format(c) for c in counts)))

    print("| program | ranks | %s |" % " | ".join(columns))
    print("|---" * (len(columns) + 2) + "|")
    for name, base in bases.items():
        row(name, len(base.runs), [m for m in mutants if m.name == name])
    for operator in mutate.OPERATORS:
        row(operator, "", [m for m in mutants if m.operator == operator])
    for scope in "class", "rank":
        row({"class": "all ranks of a function", "rank": "one rank"}[scope], "",
            [m for m in mutants if m.scope == scope])  # fmt: skip
    row("**all**", "", mutants)


def campaign(arguments):
    bases = base_programs(arguments)
    problems = list(bases.values())
    for (name, base), accepted, outcome in zip(bases.items(), prove(arguments, problems), replay(arguments, problems)):
        done = {execute.execute(base, seed, lenient) for seed in range(3) for lenient in (False, True)}
        if not accepted or done != {"completed"} or outcome != "completed":
            sys.exit("%s: accepted %s, executed %s, on the runtime %s" % (name, accepted, done, outcome))
    mutants = make_mutants(arguments, bases)
    begin = time.monotonic()
    for i in range(0, len(mutants), 100):
        batch = mutants[i : i + 100]
        for mutant, accepted in zip(batch, prove(arguments, [m.problem for m in batch])):
            mutant.accepted = accepted
    print_table(mutants, bases)
    print()
    wrong = [m for m in mutants if m.accepted and m.is_wrong()]
    print("proved, with reading and checking the IR, in %.1f s" % (time.monotonic() - begin))
    print("accepted mutants that hang or corrupt: %d" % len(wrong))
    print("rejected mutants that do neither: %d" % sum(not m.accepted and not m.is_wrong() for m in mutants))

    # Half of them accepted ones.
    random.Random(arguments.seed).shuffle(mutants)
    accepted = [m for m in mutants if m.accepted][: arguments.replay // 2]
    chosen = accepted + [m for m in mutants if not m.accepted][: arguments.replay - len(accepted)]
    for mutant, outcome in zip(chosen, replay(arguments, [m.problem for m in chosen])):
        mutant.replayed = outcome
    outcomes = Counter(m.replayed for m in accepted)
    complete = outcomes["completed"] == len(accepted)
    print("accepted mutants on the runtime: %d, of which completed: %s"
          % (len(accepted), "all" if complete else dict(outcomes)))  # fmt: skip
    rejected = Counter(m.replayed for m in chosen if not m.accepted)
    print("rejected mutants on the runtime: %d: %s"
          % (sum(rejected.values()), ", ".join("%s %d" % pair for pair in sorted(rejected.items()))))  # fmt: skip
    for m in wrong + [m for m in accepted if m.replayed != "completed"]:
        print("accepted, but: %s, %s of %s: %s, lenient %s, on the runtime %s"
              % (m.name, m.operator, m.scope, m.strict, m.lenient, m.replayed))  # fmt: skip
        print(programs.write(m.problem))
    return not wrong and complete


def scale(arguments):
    """Times for programs of 10,000 ranks, the IR read from a file."""
    for stages, replicas, microbatches in (16, 625, 64), (16, 625, 1000):
        schedule = pipeline.Schedule(pipeline.one_f_one_b(stages, microbatches))
        problem = pipeline.make_problem(schedule, replicas, 40960, [[64, 4096], [512]])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.mlir")
            with open(path, "w", encoding="utf-8") as file:
                # By stage, as the compiler writes it.
                one = programs.Problem([("pp", stages), ("dp", replicas)], problem.functions,
                                       problem.runs[::replicas])  # fmt: skip
                file.write(programs.write(one).replace('axes ["pp", "dp"] runs', 'axes ["pp"] runs'))
            command = [tool(arguments, "mpcomm-opt"), path, "-o", os.devnull, "--mpcomm-verify-communication",
                       "--mlir-timing", "--mlir-timing-display=list"]  # fmt: skip
            times = []
            for _ in range(3):
                begin = time.monotonic()
                result = subprocess.run(command, check=True, capture_output=True, text=True)
                whole = time.monotonic() - begin
                proof = re.search(r"([\d.]+) +\( *[\d.]+%\) +VerifyCommunicationPass", result.stderr)
                times.append((whole, float(proof.group(1))))
        print("pp %d x dp %d, %d micro-batches: %.2f s, of which reading and proving communication %.2f s"
              % (stages, replicas, microbatches, *min(times)))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=20)
    parser.add_argument("--replay", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--bin")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    ok = campaign(arguments)
    if arguments.scale:
        scale(arguments)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
