# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm_src_root/docs/examples/linear.mlir %S/memory.mlir %t.dir
#
# The table of memory adds up to what is allocated: its lines of state to the
# arguments in the manifest, the parts of the arena to the arena that the runner
# is told to make.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles programs in several ways and compares report and manifest."""

import ctypes
import json
import math
import os
import re
import subprocess
import sys

COMPILE, *SOURCES, FOLDER = sys.argv[1:]
WAYS = "", "precision=bf16", "precision=f16", "clip-norm=1.0", "wire=bf16", "wire=i8 wire-min-bytes=0"
SIZES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2}
ARENA = "activations", "gradients", "communication", "temporaries", "gaps"


def manifest_of(program):
    """The manifest that a program file exports; symbols are bound when they are called, so that no
    runtime is needed to read it."""
    library = ctypes.CDLL(program, mode=os.RTLD_LAZY)
    start = ctypes.addressof(ctypes.c_char.in_dll(library, "mpcomm_manifest"))
    return json.loads(ctypes.string_at(start))


def table_of(report):
    """Bytes by line of a function's table."""
    return {m[1]: int(m[2]) for m in
            re.finditer(r"^ +([a-z][a-z ,-]*?) +(\d+) B +\d+\.\d\d MiB$", report, re.M)}


def expect(what, found, expected):
    if found != expected:
        sys.exit("%s: %r, expected %r" % (what, found, expected))


def check(where, function, table):
    size = lambda t: SIZES.get(t["dtype"], 1) * math.prod(t["shape"])
    copies = {a["copy_of"] for a in function["arguments"] if "copy_of" in a}
    total = lambda test: sum(size(a) for a in function["arguments"] if test(a))
    role = lambda *names: lambda a: a["role"] in names and "copy_of" not in a
    state = {
        "parameters": total(lambda a: a["role"] == "parameter" and a["name"] not in copies),
        "master weights": total(lambda a: a["role"] == "parameter" and a["name"] in copies),
        "lower-precision copies": total(lambda a: "copy_of" in a),
        "optimizer state": total(role("optimizer_state")),
        "loss scaling": total(role("loss_scale")),
        "buffers": total(role("buffer")),
        "batch, hyperparameters, seed": total(role("batch", "hyperparameter", "rng")),
        "results": sum(size(r) for r in function["results"] if r["argument"] is None),
        "arena": function["arena_bytes"],
    }
    for name, bytes_ in state.items():
        expect("%s, %s" % (where, name), table.get(name), bytes_)
    expect(where + ", all", table["all"], sum(state.values()))
    expect(where + ", parts of the arena", sum(table[p] for p in ARENA), table["arena"])
    if min(table[p] for p in ARENA) < 0:
        sys.exit("%s: parts of the arena are negative: %s" % (where, table))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    count = 0
    for source in SOURCES:
        for ranks in "1", "2":
            for way in WAYS:
                where = "%s, %s ranks, '%s'" % (os.path.basename(source), ranks, way)
                program = os.path.join(FOLDER, "%d.so" % count)
                report = subprocess.run([COMPILE, source, "-o", program, "--np", ranks, "--report",
                                         "--options=" + way], check=True, stdout=subprocess.PIPE,
                                        text=True).stdout  # fmt: skip
                functions = manifest_of(program)["functions"]
                expect(where, re.findall(r"^@(\w+): ", report, re.M), [f["name"] for f in functions])
                parts = re.split(r"^@\w+: ", report, flags=re.M)[1:]
                for function, part in zip(functions, parts):
                    check(where + ", @" + function["name"], function, table_of(part))
                count += 1
    print("%d programs" % count)


main()
