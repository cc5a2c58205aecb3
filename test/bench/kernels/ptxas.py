# ===- ptxas.py - what the kernels of a GPU take -------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, ptxas
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s --folder=%t --mpcomm-import=%mpcomm-import --mpcomm-opt=%mpcomm-opt \
# RUN:   --models=gpt --precisions=bf16 --chips=sm_80,sm_90,sm_100 -Olayers=1 -Od=256 -Oheads=4 -Octx=64 | FileCheck %s
# CHECK: | gpt | bf16 | sm_80 | {{[1-9][0-9]*}} | {{[0-9]+}} | {{[0-9.]+}} | 0 |
# CHECK: | gpt | bf16 | sm_90 |
# CHECK: | gpt | bf16 | sm_100 |
# CHECK: no kernel spills: yes
"""Registers, shared memory and spills of each kernel of a training step, as ptxas
tells them when it assembles the step for each chip. Needs no GPU.

  ptxas.py [--models=gpt,vit,resnet] [--precisions=none,bf16] [--chips=...]
           [--kernels]   also a row for each kernel (of the last chip)

GPT: GPT-2 small's layer (d 768, 12 heads, 1024 tokens, vocabulary 50257), 2 of them, 8
sequences. ViT: ViT-B/16's (d 768, 12 heads, 224 x 224 images). ResNet: torchvision's
ResNet-50 on 224 x 224. LSTM: two layers of 1024 over 512 steps. The kernels of several layers are the same, so that a few do."""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "..", "build", "release", "bin")
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
from commands import assemble, call  # noqa: E402

EXAMPLES = os.path.join(HERE, "..", "..", "..", "docs", "examples")
MODELS = {
    "gpt": ["gpt.py", "-Olayers=2", "-Od=768", "-Oheads=12", "-Octx=1024", "-Ovocab=50257", "--batch=8"],
    "vit": ["vit.py", "-Olayers=2", "-Od=768", "-Oheads=12", "-Oimage=224", "-Opatch=16", "--batch=32"],
    "lstm": ["lstm.py", "-Olayers=2", "-Od=512", "-Ohidden=1024", "-Octx=512", "--batch=32"],
    "resnet": ["resnet.py", "-Omodel=resnet50", "-Oimage=224", "--batch=32"],
}


def measure(a, model, precision):
    """(chip, kernel) -> numbers"""
    step = os.path.join(a.folder, model + ".mlir")
    if not os.path.exists(step):
        words = [w for w in MODELS[model] if not any(w.startswith(o.split("=")[0] + "=") for o in a.options)]
        call(a.mpcomm_import, os.path.join(EXAMPLES, words[0]), *words[1:], *a.options, "-o", step)
    passes = "--mpcomm-compile=target=cuda chip=%s precision=%s" % (a.chips, precision)
    return {(chip, kernel): use for chip, kernel, use in assemble(a.mpcomm_opt, step, passes)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="gpt,vit,lstm,resnet")
    parser.add_argument("--precisions", default="none,bf16")
    parser.add_argument("--chips", default="sm_80,sm_90,sm_100")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--mpcomm-import", default=os.path.join(BUILD, "mpcomm-import"))
    parser.add_argument("--mpcomm-opt", default=os.path.join(BUILD, "mpcomm-opt"))
    a, a.options = parser.parse_known_args()
    spills = False
    rows = []
    print("| model | precision | chip | kernels | most registers | mean | kernels that spill | most shared bytes |")
    print("|---|---|---|---|---|---|---|---|")
    for model in a.models.split(","):
        for precision in a.precisions.split(","):
            found = measure(a, model, precision)
            for chip in a.chips.split(","):
                uses = {kernel: use for (c, kernel), use in found.items() if c == chip}
                if not uses:
                    sys.exit("no kernels of %s for %s" % (model, chip))
                spilled = [k for k, use in uses.items() if use[2] or use[3]]
                spills |= bool(spilled)
                registers = [use[0] for use in uses.values()]
                print("| %s | %s | %s | %d | %d | %.1f | %d | %d |"
                      % (model, precision, chip, len(uses), max(registers), sum(registers) / len(uses),
                         len(spilled), max(use[1] for use in uses.values())))  # fmt: skip
                if a.kernels and chip == a.chips.split(",")[-1]:
                    rows += [(model, precision, kernel, *use) for kernel, use in sorted(uses.items())]
    if rows:
        print("\n| model | precision | kernel | registers | shared bytes | spilled bytes | stack bytes |")
        print("|---|---|---|---|---|---|---|")
        for row in rows:
            print("| %s |" % " | ".join(map(str, row)))
    print("no kernel spills: %s" % ("no" if spills else "yes"))


main()
