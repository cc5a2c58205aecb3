# ===- bounds.py - what bounds the kernels of a GPU -----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, ptxas, nvdisasm
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s --folder=%t --bin=%mpcomm_obj_root/bin --programs=gpt-check-bf16 | FileCheck %s
# With a test of each column it would be 47.
# CHECK: | kernel_cross_entropy_1 | 1 | 1 | 3{{[0-9]\.[0-9]}} |
# CHECK: kernels counted: 1{{[0-9]$}}
"""Instructions and bytes of each kernel of a training step, and the time that each of them takes
at least on a GPU. Needs no GPU, but ptxas and nvdisasm (both of the CUDA toolkit).

  bounds.py [--programs=gpt2-small-bf16] [--chip=sm_90] [--loops] [--nvdisasm=PATH]

Of each kernel the loops that have no other in them are counted, in machine code: instructions an
element, by what executes them. A loop's elements are the bytes that it stores (or loads, if it
stores nothing) over the bytes of an element in operands of the kernel's largest size. Loops for
what whole turns leave over are left out, as is all outside of loops, and all branches count. Times
are those of an H200: 4,255 GB/s, a copy's as measured; 132 multiprocessors at 1.755 GHz, each of which issues 4
instructions a cycle for 32 threads. Half as many go to the integer and comparison units, an eighth to
that of special functions, a quarter are accesses to memory and shuffles (NVIDIA, "CUDA C++ Programming Guide",
throughput of arithmetic instructions, 9.0).

A kernel may take less than its bytes say where a cache has them, and more than all bounds."""

import argparse
import collections
import math
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "..", "build", "release", "bin")
sys.path[:0] = [os.path.join(HERE, "..", "cuda"), os.path.join(HERE, "..", "Inputs")]
from commands import call  # noqa: E402
from gpu_programs import PROGRAMS, import_step  # noqa: E402

COPY = 4255e9
CYCLES = 132 * 1.755e9
BYTES = {"i1": 1, "i8": 1, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "index": 8}
# class: instructions, and how many threads a cycle a multiprocessor executes them for.
CLASSES = {
    "memory": (r"LDG|STG|LDS|STS|LDL|STL|LDGSTS|LDSM|ATOM|RED", 32),
    "fp32": (r"FADD|FMUL|FFMA|HADD2|HMUL2|HFMA2|IMAD|IDP", 128),
    "special": (r"MUFU|F2I|I2F|F2F|FRND|POPC|DADD|DMUL|DFMA|DSETP", 16),
    "convert": (r"F2FP|PRMT|I2FP", 64),
    "integer": (r"IADD3?|VIADD\w*|LEA|LOP3|SHF|SEL|FSEL|FMNMX|IMNMX|VIMNMX|VHMNMX|HMNMX2|ISETP|FSETP|HSETP2|PLOP3|SGXT|BMSK|FCHK|IABS|MOV|P2R|R2P|VOTE|FLO|CS2R", 64),
    "shuffle": (r"SHFL", 32),
}  # fmt: skip


def classify(name):
    for kind, (pattern, _) in CLASSES.items():
        if re.fullmatch(pattern, name):
            return kind
    return "other"  # branches, barriers, and what a warp does once


def innermost_loops(lines):
    """Of each loop that has no other in it its instructions: name, and bytes of an access to device memory or None."""
    code, labels = [], {}
    for line in lines:
        line = re.sub(r"/\*.*?\*/", "", line)
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        elif inner := re.match(r"\s*(?:@!?U?P\w+ )?([A-Z]\w*)((?:\.\w+)*)(.*)", line):
            code.append((inner[1], inner[2], re.search(r"\((\.L_x_\d+)\)", inner[3])))
    spans = set()
    for i, (name, _, target) in enumerate(code):
        if name == "BRA" and target and labels.get(target[1], i + 1) <= i:
            spans.add((labels[target[1]], i + 1))
    for first, end in sorted(spans):
        # Where the lanes of a warp are collected before a shuffle, code returns to the middle of a loop.
        isLoop = lambda a, b: not any(name == "ENDCOLLECTIVE" for name, _, _ in code[a:b])
        if isLoop(first, end) and not any(first <= a and b <= end and (a, b) != (first, end) and isLoop(a, b) for a, b in spans):
            yield [
                (name, (int((re.search(r"\.(\d+)$", suffix.replace(".CONSTANT", "")) or [0, 32])[1]) // 8
                        if not re.search(r"\.[US](8|16)\b", suffix) else int(re.search(r"[US](8|16)", suffix)[1]) // 8)
                 if name in ("LDG", "STG") else None)
                for name, suffix, _ in code[first:end] if name != "NOP"
            ]  # fmt: skip


def operands(launch):
    """Elements and their bytes, of what a launch reads and of what it writes."""
    parts = []
    for part in re.findall(r"(?:ins|outs)\((.*?) : (.*?)\)(?= outs| \{| *$)", launch):
        parts.append([(math.prod(map(int, shape.split("x")[:-1])) if "x" in shape else 1, BYTES.get(shape.split("x")[-1], 4))
                      for shape in re.findall(r"memref<([\w]+)", part[1])])  # fmt: skip
    return (parts if len(parts) == 2 else [[], parts[0] if parts else []])


def read_launches(text):
    """By kernel: how often the step launches it, its operands, and bytes that it moves."""
    step = text[text.index("func.func @train_step") :]
    step = step[: step.index("\n  }")]
    found = collections.OrderedDict()
    for launch in re.findall(r"mprt\.launch .*", step):
        name = re.search(r"@(\w+)", launch)[1]
        entry = found.setdefault(name, [0, operands(launch)])
        entry[0] += 1
    moved = dict(re.findall(r"func\.func private @(\w+)\(.*?mprt\.moved_bytes = (\d+)", text))
    return {name: (count, parts, int(moved.get(name, 0))) for name, (count, parts) in found.items()}


def count(loops, parts):
    """Instructions an element by class, summed up over the loops that go through all elements; or None."""
    elements = max([size for part in parts for size, _ in part] or [0])
    widths = [sum(width for size, width in part if size == elements) for part in parts]
    total, kept = collections.Counter(), []
    accesses = lambda loop, what: sum(size for name, size in loop if name == what)
    most = {what: max([accesses(loop, what) for loop in loops] or [0]) for what in ("LDG", "STG")}
    for loop in loops:
        stores, loads = accesses(loop, "STG"), accesses(loop, "LDG")
        if stores and widths[1]:
            per_turn, whole = stores / widths[1], stores == most["STG"]
        else:
            per_turn, whole = loads / (widths[0] or widths[1] or 1), loads == most["LDG"]
        if per_turn == 0 or not whole:
            continue
        kinds = collections.Counter(classify(name) for name, _ in loop)
        kept.append((len(loop), per_turn, {**kinds, **({"stores": stores} if stores else {})}))
        for kind, number in kinds.items():
            total[kind] += number / per_turn
    if widths[1] and not any("stores" in one for _, _, one in kept):
        kept = []  # loops of rare cases within one that is not counted
    return elements, total, kept


def kernels_of(a, program):
    model, batch, options = PROGRAMS[program]
    path = lambda name: os.path.join(a.folder, program + name)
    step = import_step(a, program, model, batch)
    passes = "--mpcomm-compile=target=cuda chip=%s ptxas=none %s" % (a.chip, options)
    done = subprocess.run(
        [os.path.join(a.bin, "mpcomm-opt"), step, passes, "-o", os.devnull, "--mlir-disable-threading", "--mlir-print-ir-after=mpcomm-generate-gpu-kernels"],
        stderr=subprocess.PIPE, text=True)  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    text = done.stderr[done.stderr.index("module") :]
    text = re.sub(r"^// -----//.*", "", text, flags=re.M)
    with open(path(".kernels.mlir"), "w") as out:
        out.write(text)
    call(os.path.join(a.bin, "mpcomm-opt"), path(".kernels.mlir"), "-o", os.devnull, "--mpcomm-gpu-kernels-to-nvvm",
         "--mpcomm-assemble-kernels=chip=%s ptxas=none ptx-directory=%s" % (a.chip, a.folder))  # fmt: skip
    call(a.ptxas, "-O3", "-arch=" + a.chip, os.path.join(a.folder, a.chip + ".ptx"), "-o", path(".cubin"))
    sass = call(a.nvdisasm, "-c", path(".cubin"))
    code = re.split(r"^\.text\.(\w+):", sass, flags=re.M)
    return read_launches(text), dict(zip(code[1::2], code[2::2]))


def tool(name):
    """From the path or the CUDA toolkit."""
    return shutil.which(name) or os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", default="gpt2-small-bf16")
    parser.add_argument("--chip", default="sm_90")
    parser.add_argument("--loops", action="store_true", help="print each loop, too")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--bin", default=BUILD)
    parser.add_argument("--ptxas", default=tool("ptxas"))
    parser.add_argument("--nvdisasm", default=tool("nvdisasm"))
    a = parser.parse_args()
    kinds = [*CLASSES, "other"]
    for program in a.programs.split(","):
        launches, code = kernels_of(a, program)
        counted = 0
        print("%s on %s: instructions an element, and microseconds a launch" % (program, a.chip))
        print("| kernel | launches | loops | all | %s | bytes, us | issue, us | integer, us | special, us | bound by |" % " | ".join(kinds))
        print("|" + "---|" * (9 + len(kinds)))
        for name, (times, parts, moved) in launches.items():
            elements, total, kept = count(list(innermost_loops(code.get(name, "").split("\n"))), parts)
            # Kernels that add up what others have left have their operands; attention does not say what it moves.
            if not kept or moved < elements:
                print("| %s | %d | 0 |%s not counted |" % (name, times, " |" * (5 + len(kinds))))
                continue
            counted += 1
            half = total["integer"] + total["convert"]
            us = {
                "bytes": moved / COPY * 1e6,
                "issue": elements * sum(total.values()) / 128 / CYCLES * 1e6,
                "integer": elements * half / 64 / CYCLES * 1e6,
                "special": elements * total["special"] / 16 / CYCLES * 1e6,
            }
            print("| %s | %d | %d | %.1f | %s | %s | %s |" % (
                name, times, len(kept), sum(total.values()), " | ".join("%.2f" % total[kind] for kind in kinds),
                " | ".join("%.1f" % value for value in us.values()), max(us, key=us.get)))  # fmt: skip
            if a.loops:
                for size, per_turn, by_kind in kept:
                    print("  %d instructions for %g elements: %s" % (size, per_turn, by_kind))
        print("kernels counted: %d" % counted)


main()
