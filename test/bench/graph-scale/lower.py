#!/usr/bin/env python3
# ===- lower.py - how the time of lowering grows with layers ----------------===#
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times each pass of the lower and program phases on generated training graphs.

Each pass runs alone, on what the passes before it have left; its time is that of
the process less that of a run without passes on the same file (user and system,
the least of --repeat). Growth is against the number of operations of the step,
from each size to the next.

A small run, to see that all of it works:
REQUIRES: long
RUN: %python %s --mpcomm-opt=mpcomm-opt --sizes=200,400 --repeat=1 | FileCheck %s
CHECK: mpcomm-form-kernels
CHECK: mpcomm-bufferize-step
CHECK: mpcomm-pack-kernels
CHECK: all
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from measure import command_for, count_operations, run

GRAPH = ["mpcomm-graph{mesh=dp:2}"]
LOWER = [
    "convert-mpcomm-to-mprt",
    "convert-mpcomm-to-linalg",
    "canonicalize,cse",
    "mpcomm-form-kernels",
    "mpcomm-bufferize-step",
    "mpcomm-plan-memory",
    "convert-linalg-to-mprt",
    "mpcomm-generate-kernels",
    "convert-mprt-to-llvm",
    "mpcomm-kernels-to-llvm",
    "mpcomm-pack-kernels",
]


def cpu(tool, file, passes, out, repeat):
    """CPU seconds of a run, the least of several; writes what it makes."""
    command = command_for([tool], file, passes)
    command[command.index("-o") + 1] = out
    # Bytecode: reading and writing take less than the pass.
    return min(run([*command, "--emit-bytecode"])[0]["cpu"] for _ in range(repeat))


def measure(args, size, folder):
    """Operations of the step, and seconds by pass."""
    file = os.path.join(folder, "step.mlir")
    out = os.path.join(folder, "out.mlirbc")
    generator = os.path.join(os.path.dirname(os.path.abspath(__file__)), "generate.py")
    subprocess.run([sys.executable, generator, "--ops=%d" % size, "-o", file], check=True)
    operations = count_operations(file)
    cpu(args.mpcomm_opt, file, GRAPH, out, 1)
    os.replace(out, file)
    seconds = {}
    for name in LOWER:
        nothing = cpu(args.mpcomm_opt, file, [], out, args.repeat)
        all_of_it = cpu(args.mpcomm_opt, file, [name], out, args.repeat)
        seconds[name] = max(all_of_it - nothing, 0.0)
        os.replace(out, file)
    return operations, seconds


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    build = os.path.join(here, "..", "..", "..", "build", "dev")
    parser.add_argument("--mpcomm-opt", default=os.path.join(build, "bin/mpcomm-opt"))
    parser.add_argument("--sizes", default="1000,4000,16000")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    args.mpcomm_opt = shutil.which(args.mpcomm_opt) or args.mpcomm_opt
    args.sizes = [int(size) for size in args.sizes.split(",")]
    return args


def main():
    args = parse_arguments()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in args.sizes:
            rows.append(measure(args, size, folder))
    print("CPU milliseconds, and growth against linear from the size before")
    print("%-28s" % "operations" + "".join("%18d" % ops for ops, _ in rows))
    for name in [*LOWER, "all"]:
        line = "%-28s" % name
        before = None
        for operations, seconds in rows:
            now = sum(seconds.values()) if name == "all" else seconds[name]
            line += "%10.1f" % (1e3 * now)
            if before and before[1] > 0:
                growth = now / before[1] / (operations / before[0])
                line += "%8.2f" % growth
            else:
                line += "%8s" % "-"
            before = operations, now
        print(line)


if __name__ == "__main__":
    main()
