#!/usr/bin/env python3
# ===- measure.py - how compile time grows with the graph -------------------===#
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times the whole graph-level pipeline on generated training graphs, and stock
`mlir-opt --canonicalize --cse` (with the plugin, else on the generic form with
unregistered ops) on the same files.

Clocks: `wall` and `cpu` (user and system) of the whole process with reading and
printing; `passes`, what MLIR's timing says of the passes (wall). Medians of
--repeat rounds that take turns; where other work keeps the machine busy, cpu is
the one to read. Targets, with --check an exit status of 1 where one is missed:
from the last size but one to the last, cpu grows at most 1.15 times as fast as
the number of operations; and it is at most 3 times that of stock.

With --options, those of the pipeline: 'zero=1' for state that is split. What
the passes take that assign, gather and localize shardings is then added up, to
be held against stock's passes (target 2.00).

With --instructions (needs valgrind, takes minutes) also the growth of executed
instructions, which caches and neighbours do not disturb.

A small run, to see that all of it works:
RUN: %python %s --mpcomm-opt=mpcomm-opt --sizes=200,400 --repeat=1 | FileCheck %s
CHECK: operations
CHECK: 181
CHECK: 424
CHECK: growth against linear
CHECK: ratio to stock

RUN: %python %s --mpcomm-opt=mpcomm-opt --sizes=200,400 --repeat=1 \
RUN:   --options=zero=3 | FileCheck %s --check-prefix=SHARD
SHARD: LocalizePass
SHARD: passes of shardings to passes of stock
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SHARDING = ("AssignShardingsPass", "PropagateShardingsPass", "InsertReshardsPass", "LocalizePass")
STOCK = ["canonicalize", "cse"]
NOT_PASSES = ("root", "Parser", "Output", "Rest", "Total")


def run(command):
    """Wall and CPU seconds of a command, and what its error stream says."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit("%s failed:\n%s" % (" ".join(command), done.stderr))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu}, done.stderr


def command_for(tool, file, passes):
    pipeline = "--pass-pipeline=builtin.module(%s)" % ",".join(passes)
    return [*tool, file, "-o", os.devnull, pipeline]


def time_passes(tool, file, passes):
    """Clocks of the process, and wall time by pass, in seconds."""
    command = command_for(tool, file, passes)
    clocks, _ = run(command)
    flags = ["--mlir-timing", "--mlir-timing-display=list"]
    _, report = run([*command, *flags, "--mlir-output-format=json"])
    # Upstream writes a comma too many.
    begin = report.index("[")
    text = report[begin : report.rindex("]") + 1].replace(",\n]", "\n]")
    by_pass = {}
    for entry in json.loads(text):
        if not entry.get("name") or entry["name"] in NOT_PASSES:
            continue
        name = entry["name"]
        by_pass[name] = by_pass.get(name, 0.0) + entry["wall"]["duration"]
    clocks["passes"] = sum(by_pass.values())
    return clocks, by_pass


def count_instructions(tool, file, passes):
    """Instructions that a run executes, by valgrind."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.devnull]
    command += command_for(tool, file, passes) + ["--mlir-disable-threading"]
    _, report = run(command)
    return int(report.split("Collected : ")[1].split()[0])


def count_operations(file):
    """Operations in the body of the step, the return not counted."""
    with open(file, encoding="ascii") as text:
        return sum(line.startswith("  %v") for line in text)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    build = os.path.join(here, "..", "..", "..", "build", "dev")
    parser.add_argument("--mpcomm-opt", default=os.path.join(build, "bin/mpcomm-opt"))
    parser.add_argument("--mlir-opt", default=shutil.which("mlir-opt-22") or "mlir-opt")
    parser.add_argument("--plugin", default=os.path.join(build, "lib/MPCommPlugin.so"))
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--options", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--instructions", action="store_true")
    args = parser.parse_args()
    args.generator = os.path.join(here, "generate.py")
    args.pipeline = ["mpcomm-graph{mesh=dp:2 %s}" % args.options]
    args.sizes = [int(size) for size in args.sizes.split(",")]
    return args


def stock_command(args, file, folder):
    """Stock mlir-opt, and the file in a form that it reads."""
    if os.path.exists(args.plugin):
        return [args.mlir_opt, "--load-dialect-plugin=" + args.plugin], file
    generic = os.path.join(folder, "generic.mlir")
    run([args.mpcomm_opt, file, "--mlir-print-op-generic", "-o", generic])
    return [args.mlir_opt, "--allow-unregistered-dialect"], generic


def measure(args, size, folder):
    """A row of the table: medians in seconds."""
    file = os.path.join(folder, "step.mlir")
    run([sys.executable, args.generator, "--ops=%d" % size, "-o", file])
    stock, stock_file = stock_command(args, file, folder)
    ours, theirs = [], []
    for _ in range(args.repeat):
        ours.append(time_passes([args.mpcomm_opt], file, args.pipeline))
        theirs.append(time_passes(stock, stock_file, STOCK))
    row = {"operations": count_operations(file)}
    for who, runs in (("", ours), ("stock ", theirs)):
        for clock in ("wall", "cpu", "passes"):
            row[who + clock] = statistics.median(c[clock] for c, _ in runs)
    row["by pass"] = {
        name: statistics.median(by_pass[name] for _, by_pass in ours)
        for name in ours[0][1]
    }
    if args.instructions:
        row["instructions"] = count_instructions([args.mpcomm_opt], file, args.pipeline)
    return row


def main():
    args = parse_arguments()
    columns = ["wall", "cpu", "passes", "stock wall", "stock cpu", "stock passes"]
    print("".join("%14s" % c for c in ["operations", *columns]) + "   (milliseconds)")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in args.sizes:
            row = measure(args, size, folder)
            rows.append(row)
            print("%14d" % row["operations"], end="")
            print("".join("%14.1f" % (1e3 * row[c]) for c in columns), flush=True)
    small, large = rows[-2:]
    factor = large["operations"] / small["operations"]

    def growth(column):
        return large[column] / small[column] / factor

    print("\nby pass, milliseconds at %d and %d operations, growth against linear:"
          % (small["operations"], large["operations"]))
    for name, after in large["by pass"].items():
        before = small["by pass"][name]
        if before > 0:
            print("  %-40s%10.1f%10.1f%8.2f"
                  % (name, 1e3 * before, 1e3 * after, after / before / factor))
    print("\ngrowth against linear (target 1.15 for cpu):")
    for column in columns + ["instructions"] * args.instructions:
        print("  %-20s%6.2f" % (column, growth(column)))
    ratio = {c: large[c] / large["stock " + c] for c in ("wall", "cpu", "passes")}
    print("ratio to stock: cpu %.2f (target 3.00), wall %.2f, passes %.2f"
          % (ratio["cpu"], ratio["wall"], ratio["passes"]))
    sharding = sum(large["by pass"].get(name, 0) for name in SHARDING)
    if sharding:
        print("passes of shardings to passes of stock: %.2f (target 2.00)"
              % (sharding / large["stock passes"]))
    if args.check and (growth("cpu") > 1.15 or ratio["cpu"] > 3):
        sys.exit("a target is missed")


if __name__ == "__main__":
    main()
