# What it costs to compare a large state.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of two holds a buffer of 1024 MiB. The cost of a comparison is that of a run with one after each of 10
steps, less one without.

    python3 test/bench/checksums/measure.py build/release/bin/mpcomm-run cc include /tmp/checksums 1024

A small run, to see that all of it works:
REQUIRES: long
RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir 1 | FileCheck %s
CHECK: a comparison of 0.00 GB: {{.*}} GB/s
"""

import array
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "Runtime", "run", "Inputs"))
from stages import *

STEPS, REPEATS = 10, 5
mebibytes = int(sys.argv[5])


def write_weights(count):
    """As write_tensors, without a list of so many numbers."""
    header, at = {}, 0
    for name, shape, size in ("w", [DIM], DIM), ("b", [], 1), ("scale", [], 1), ("ballast", [count], count):
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * size]}
        at += 4 * size
    text = json.dumps(header).encode()
    with open(path("weights"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.write(struct.pack("<6f", 0, 0, 0, 0, 0, 1))
        block = array.array("f", (i / 7 for i in range(1 << 18))).tobytes()
        for _ in range(count >> 18):
            file.write(block)
    return path("weights")


def seconds(*options):
    """The fastest of some runs."""
    runs = [run(program, "--weights", weights, "--data", data, "--steps", STEPS, "--quiet", *options)
            for _ in range(REPEATS)]  # fmt: skip
    assert all(outcome.code == 0 for outcome in runs), runs[0]
    return min(outcome.seconds for outcome in runs)


shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
count = mebibytes << 18
program = build_stages("heavy.so", staged(ballast=count), BALLAST=1)
weights, data = write_weights(count), Samples(64).write("data")
plain = seconds()
gigabytes = mebibytes / 1024 * 1.073741824
each = (seconds("--check-replicas", 1) - plain) / STEPS
print("a comparison of %.2f GB: %.3f s, %.1f GB/s" % (gigabytes, each, gigabytes / each))
shutil.rmtree(WORK)
