#!/usr/bin/env python3
# ===- pack.py - what a machine with a GPU needs ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, ptxas, long
# RUN: %python %s %t.pack --bin=%mpcomm_obj_root/bin --only=gpt-check-bf16,one-rank --cases=odd,loops --small | FileCheck %s
# CHECK: gpt-check-bf16.so
# CHECK: one-rank.so
# CHECK: mpcomm-run
# CHECK: 3 small models
# CHECK: tar.xz: {{[0-9.]+}} MB, of at most 48
"""Compiles what measure.py runs and puts it into a folder, with the runner and its
libraries, and into FOLDER.tar.xz: all that a machine with a GPU needs of mpcomm. Needs no GPU.

  pack.py FOLDER [--chips=sm_90] [--only=NAME,...] [--cases=WORD,...]

Beside the programs that are measured it packs small models (test/Integration/CUDA/Inputs:
small_models.py and operators.py), with the losses and the state that they have on a processor. Those
whose names hold one of the words; "none" for none.
"""

import argparse
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
# What a program of this size may come to; more means that something has grown.
MOST_MB = 48
INPUTS = os.path.join(ROOT, "test", "Integration", "CUDA", "Inputs")
sys.path[:0] = [HERE, INPUTS, os.path.join(ROOT, "tools", "mpcomm-import")]
import small_models  # noqa: E402
from gpu_programs import ALONE, KERNELS, PROGRAMS, UNKNOWN_CHIP, VARIANTS, call, for_chips, import_step, small_program  # noqa: E402


def keep_constants(a, name, model, batch, wanted):
    """Tensors that the importer has made, and that PyTorch's model lacks."""
    from mpcomm_import.ir.safetensors import load, save

    weights = os.path.join(a.folder, name + ".w")
    import_step(a, name, model, batch, weights)
    tensors, _ = load(weights)
    save(os.path.join(a.folder, name + ".constants"), {key: tensors[key] for key in sorted(wanted)})
    os.remove(weights)


def build(a, name):
    model, batch, options = a.programs[name]
    options = for_chips(a.chips, options)
    step = import_step(a, name, model, batch)
    with open(step) as graph:
        constants = set(re.findall(r'mpcomm\.name = "([^"]*\bconstant[^"]*)"', graph.read()))
    if constants:
        keep_constants(a, name, model, batch, constants)
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


def compile_case(a, name, options, steps, ranks):
    """NAME.mlir, .w and .d to a program for a GPU, and to NAME.state: what training leaves
    on a processor; its losses."""
    path = lambda end: os.path.join(a.folder, "cases", name + end)
    tool = lambda program, *words: call(os.path.join(a.bin, program), *map(str, words))
    here = "cluster=dgx-h100 " + small_models.on_processor(options)
    for end, words in ((".so", for_chips(a.chips, options)), (".cpu.so", here)):
        tool("mpcomm-compile", path(".mlir"), "-o", path(end), "--options=" + words)
    tool("mpcomm-run", path(".cpu.so"), "--weights", path(".w"), "--data", path(".d"), "--steps", steps, "--np", ranks,
         "--seed", 7, "--log", path(".log"), "--save-weights", path(".state"), "--quiet")  # fmt: skip
    with open(path(".log")) as lines:
        losses = [json.loads(line)["loss"] for line in lines]
    for end in (".mlir", ".cpu.so", ".log"):
        if not a.keep:
            os.remove(path(end))
    return losses


def build_cases(a):
    folder = os.path.join(a.folder, "cases")
    os.makedirs(folder, exist_ok=True)
    low, made = small_models.write_sources(folder), []
    wanted = lambda name: any(word in name for word in a.cases.split(","))
    for number, (model, words, options, ranks, _) in enumerate(small_models.CASES):
        name = "%s-%d" % (model, number)
        if not wanted(name):
            continue
        path = os.path.join(folder, name)
        source = os.path.join(folder if model in small_models.SOURCES else os.path.join(ROOT, "docs", "examples"), words[0])
        call(sys.executable, os.path.join(a.bin, "mpcomm-import"), source, *words[1:], "-o", path + ".mlir", "--weights", path + ".w",
             "--data", path + ".d")  # fmt: skip
        losses = compile_case(a, name, options.replace("LOW", low), small_models.STEPS, ranks)
        made.append({"name": name, "case": number, "ranks": ranks, "steps": small_models.STEPS, "losses": losses})
    if a.cases != "none":
        import operators

        for name in filter(wanted, operators.names()):
            path = os.path.join(folder, name)
            operators.mi.trace(operators.make(name)).write(path + ".mlir", weights=path + ".w", data=path + ".d")
            losses = compile_case(a, name, "", small_models.OPERATOR_STEPS, 1)
            made.append({"name": name, "ranks": 1, "steps": small_models.OPERATOR_STEPS, "losses": losses})
    with open(os.path.join(folder, "cases.json"), "w") as out:
        json.dump(made, out, indent=1)
    return len(made)


def pack_alone(a):
    for name, (script, *words) in ALONE.items():
        call(sys.executable, os.path.join(ROOT, "test", "Integration", "CUDA", script + ".py"), os.path.join(a.bin, "mpcomm-opt"),
             a.cc, "pack", KERNELS, os.path.join(a.folder, name), *words)  # fmt: skip


def needed(path):
    """Shared libraries of ours that a program needs, by ldd."""
    found = []
    for name, place in re.findall(r"^\s*(\S+) => (/\S+)", call("ldd", path), re.M):
        if re.match(r"lib(mpcomm|MPComm|mprt)", name):
            found.append((name, place))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--chips", default="sm_90")
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--cases", default="", metavar="WORD,...")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    parser.add_argument("--cc", default="clang-22", help="the C compiler of references of kernels")
    parser.add_argument("--small", action="store_true", help="small models in place of large ones")
    parser.add_argument("--keep", action="store_true", help="keep the graphs, too")
    a = parser.parse_args()
    a.folder = os.path.normpath(a.folder)
    os.makedirs(a.folder, exist_ok=True)
    a.programs = {name: small_program(name) if a.small else PROGRAMS[name] for name in a.only.split(",")}
    variants = {"%s-%s" % (base, word) for base, ways in VARIANTS.items() for word in ways}
    files, left_out = [], {}
    for name in list(a.programs):
        try:
            files.append(build(a, name))
        except SystemExit as error:
            reason = re.search(UNKNOWN_CHIP, str(error))
            if name not in variants or not reason:
                raise
            left_out[name] = reason.group()
            print("%s is left out: %s" % (name, left_out[name]))
            del a.programs[name]
    runner = os.path.join(a.bin, "mpcomm-run")
    for name, source in [("mpcomm-run", runner)] + needed(runner):
        target = os.path.join(a.folder, name)
        shutil.copy(os.path.realpath(source), target)
        call("strip", "--strip-debug", target)
        files.append(target)
    print("%d small models" % build_cases(a))
    if a.cases != "none":
        pack_alone(a)
    with open(os.path.join(a.folder, "programs.json"), "w") as out:
        json.dump({"programs": a.programs, "left out": left_out}, out, indent=1)
    for path in files:
        if os.path.dirname(path) == a.folder:
            print("%7.2f MB  %s" % (os.path.getsize(path) / 1e6, os.path.basename(path)))
    archive = shutil.make_archive(a.folder, "xztar", os.path.dirname(a.folder) or ".", os.path.basename(a.folder))
    total = os.path.getsize(archive) / 1e6
    print("%s: %.1f MB, of at most %d" % (os.path.basename(archive), total, MOST_MB))
    if total > MOST_MB:
        sys.exit("more than %d MB" % MOST_MB)


if __name__ == "__main__":
    main()
