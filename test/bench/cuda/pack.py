#!/usr/bin/env python3
# ===- pack.py - what a machine with a GPU needs ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, ptxas, long
# RUN: %python %s %t.pack --bin=%mpcomm_obj_root/bin --lib=%mpcomm_obj_root/lib --only=gpt-check-bf16,one-rank --small | FileCheck %s
# CHECK: gpt-check-bf16.so
# CHECK: one-rank.so
# CHECK: mpcomm-run
# CHECK: in all {{[0-9.]+}} MB, of at most 60
"""Compiles what measure.py runs and puts it into a folder, with the runner and its
libraries: all that a machine with a GPU needs of mpcomm. Needs no GPU.

  pack.py FOLDER [--chips=sm_90] [--only=NAME,...]
"""

import argparse
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
MOST_MB = 60
sys.path.insert(0, HERE)
from gpu_programs import PROGRAMS, call, import_step  # noqa: E402


def build(a, name):
    model, batch, options = PROGRAMS[name]
    if a.small and model == "gpt2-small":
        model = "gpt-check"
    options = "target=cuda chip=%s %s" % (a.chips, options)
    step = import_step(a, name, model, batch)
    if name == "one-rank":
        graph = call(os.path.join(a.bin, "mpcomm-opt"), step, "--mpcomm-graph=" + options)
        graph, count = re.subn(r'<\["dp" = 2\]>', '<["dp" = 1]>', graph)
        if count != 1:
            sys.exit("%s: expected one mesh of dp = 2, found %d" % (name, count))
        with open(step, "w") as out:
            out.write(graph)
        source = ["--from=programs"]
    else:
        source = []
    program = os.path.join(a.folder, name + ".so")
    call(os.path.join(a.bin, "mpcomm-compile"), step, "-o", program, "--options=" + options, *source)
    if not a.keep:
        os.remove(step)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--chips", default="sm_90")
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    parser.add_argument("--lib", default=os.path.join(ROOT, "build", "release", "lib"))
    parser.add_argument("--small", action="store_true", help="a small model in place of GPT-2 small")
    parser.add_argument("--keep", action="store_true", help="keep the graphs, too")
    a = parser.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    files = [build(a, name) for name in a.only.split(",")]
    libraries = [name for name in os.listdir(a.lib)
                 if name.startswith("libMPCommRuntime.so.")]  # fmt: skip
    for source in [os.path.join(a.bin, "mpcomm-run")] + [os.path.join(a.lib, name) for name in libraries]:
        target = os.path.join(a.folder, os.path.basename(source))
        shutil.copy(os.path.realpath(source), target)
        call("strip", "--strip-debug", target)
        files.append(target)
    names = a.only.split(",")
    with open(os.path.join(a.folder, "programs.json"), "w") as out:
        json.dump({name: PROGRAMS[name] for name in names}, out, indent=1)
    total = 0
    for path in files:
        size = os.path.getsize(path) / 1e6
        total += size
        print("%7.2f MB  %s" % (size, os.path.basename(path)))
    print("in all %.1f MB, of at most %d" % (total, MOST_MB))
    if total > MOST_MB:
        sys.exit("more than %d MB" % MOST_MB)


main()
