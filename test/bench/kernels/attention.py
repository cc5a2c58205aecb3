# ===- attention.py - what the kernels of attention take --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, ptxas
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s --folder=%t --mpcomm-opt=%mpcomm-opt | FileCheck %s
# CHECK: | 64 | none | sm_80 | kernel_attention |
# CHECK: | 128 | causal | sm_100 | kernel_attention_grad_rows |
# CHECK: | 128 | causal | sm_90a | kernel_attention_grad_rows |
# CHECK: | 128 | causal, bias | sm_100 | kernel_attention_grad_bias |
# CHECK: | 128 | causal, bias | sm_100 | kernel_attention_grad_rows |
# CHECK: kernels that spill more than 8 bytes: none
"""Registers, shared memory and spills of the kernels of attention, as ptxas tells them,
and what their loops over tiles consist of: products, fragments, copies to shared memory of 16
bytes and of less, powers of two, barriers and all instructions of the PTX. Needs no GPU.

A bias is that of heads, in the type --bias, and has a gradient.

  attention.py [--sizes=64,128] [--chips=sm_80,sm_90,sm_100,sm_90a] [--type=bf16] [--rows=1024] [--bias=f32]"""

import argparse
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "..", "build", "release", "bin")
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
from commands import assemble  # noqa: E402

COUNTED = {
    "mma": r"mma\.sync", "wgmma": r"wgmma\.mma_async", "ldmatrix": r"ldmatrix", "copies": r"cp\.async\.\w+\.shared\S* .*, 16",
    "narrow": r"cp\.async\.\w+\.shared\S* .*, [48]\b", "ex2": r"ex2", "barriers": r"bar(rier\.cta)?\.sync",
}  # fmt: skip


def program(a, size, mask):
    """8 sequences, 12 heads, as views of a buffer of q, k and v."""
    heads = 12
    view = "memref<8x%dx%dx%dx%s, strided<[%d, %d, %d, 1]>>" % (
        a.rows, heads, size, a.type, a.rows * 3 * heads * size, 3 * heads * size, size)  # fmt: skip
    plain = "memref<8x%dx%dx%dx%s>" % (a.rows, heads, size, a.type)
    lse, kept = "memref<8x%dx%dxf32>" % (heads, a.rows), "memref<%dx%dxi1>" % (a.rows, a.rows)
    bias = "memref<1x%dx%dx%dx%s>" % (heads, a.rows, a.rows, a.bias)
    names, types = (", %m", ", " + kept) if "causal" in mask else ("", "")
    grad, of_bias = bias.replace("x%s>" % a.bias, "xf32>"), ("", "")
    if "bias" in mask:
        lse, names, types = lse.replace("xf32", "x2xf32"), names + ", %b", types + ", " + bias
        of_bias = ", %db", ", " + grad
    return """func.func @f(%%q: %s, %%dq: %s, %%o: %s, %%l: %s, %%m: %s, %%b: %s, %%db: %s) {
  mprt.attention "attention" scale = 0.125 ins(%%q, %%q, %%q%s : %s%s) outs(%%o, %%l : %s, %s)
  mprt.attention "attention_grad" scale = 0.125 ins(%%o, %%q, %%q, %%q, %%o, %%l%s : %s%s) outs(%%dq, %%dq, %%dq%s : %s%s)
  return
}
""" % (view, view, plain, lse, kept, bias, grad, names, ", ".join([view] * 3), types, plain, lse,
       names, ", ".join([plain] + [view] * 3 + [plain, lse]), types, of_bias[0], ", ".join([view] * 3), of_bias[1])  # fmt: skip


def loops(ptx):
    """By kernel: the lines of its loop with most products."""
    found = {}
    for name, body in re.findall(r"\.entry (\w+)\(.*?\n\{(.*?)\n\}", ptx, re.S):
        lines = [line.strip() for line in body.split("\n")]
        labels = {line[:-1]: i for i, line in enumerate(lines) if line.startswith("$") and line.endswith(":")}
        labels.update({line.split(":")[0]: i for i, line in enumerate(lines) if re.match(r"\$\w+:", line)})
        best = []
        for i, line in enumerate(lines):
            target = re.search(r"\bbra(?:\.uni)?\s+(\$\w+);", line)
            if target and labels.get(target[1], i) < i:
                span = [x for x in lines[labels[target[1]] : i + 1] if re.match(r"(@!?%\w+\s+)?[a-z]", x)]
                size = lambda part: (sum("mma" in x for x in part), len(part))
                best = max(best, span, key=size)
        found[name] = best
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="64,128")
    parser.add_argument("--chips", default="sm_80,sm_90,sm_100,sm_90a")
    parser.add_argument("--type", default="bf16")
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--bias", default="f32")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--mpcomm-opt", default=os.path.join(BUILD, "mpcomm-opt"))
    a = parser.parse_args()
    spills = set()
    print("| size | mask | chip | kernel | registers | shared bytes | spilled | stack | %s | all |" % " | ".join(COUNTED))
    print("|" + "---|" * (9 + len(COUNTED)))
    for size in map(int, a.sizes.split(",")):
        # The kernels of sm_90a are others.
        chips = {own: [c for c in a.chips.split(",") if (c == "sm_90a") == own] for own in (False, True)}
        masks = ("none", "causal", "bias", "causal, bias")
        for mask, own in [(mask, own) for mask in masks for own in chips if chips[own]]:
            name = os.path.join(a.folder, "attention-%d-%s" % (size, mask.replace(", ", "-")))
            with open(name + ".mlir", "w") as file:
                file.write(program(a, size, mask))
            os.makedirs(name, exist_ok=True)
            passes = ["--mpcomm-generate-gpu-kernels=warpgroups=%d" % own, "--mpcomm-gpu-kernels-to-nvvm",
                      "--mpcomm-assemble-kernels=chip=%s ptx-directory=%s" % (",".join(chips[own]), name)]  # fmt: skip
            for chip, kernel, use in assemble(a.mpcomm_opt, name + ".mlir", *passes):
                with open(os.path.join(name, chip + ".ptx")) as file:
                    ptx = file.read()
                loop = loops(ptx).get(kernel, [])
                spills |= {kernel} if use[2] > 8 or ".local" in ptx else set()
                counts = [sum(bool(re.search(pattern, x)) for x in loop) for pattern in COUNTED.values()]
                print("| %d | %s | %s | %s | %s |" % (
                    size, mask, chip, kernel, " | ".join(map(str, use + counts + [len(loop)]))))  # fmt: skip
    print("kernels that spill more than 8 bytes: %s" % (", ".join(sorted(spills)) or "none"))


main()
