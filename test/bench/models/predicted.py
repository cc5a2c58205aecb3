# ===- predicted.py - the kernels that the step model predicts -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: torch, torchvision, sklearn, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s --bin=%mpcomm_obj_root/bin --folder=%t --models=mlp,gpt,vit,resnet,gpt-check | FileCheck %s
# CHECK: 65 of 65 equal
"""Compares the kernels that the step model predicts with those that are formed:
the launches of each function, and the bytes that they read and write (remarks
`Predicted` and `Formed`, docs/Design/CostModel.md). They have to be equal. The last
column is the ratio of the predicted arena to that of mpcomm-plan-memory, of the
function where it is furthest from 1.

Models are the examples, networks of torchvision, and those of test/bench/cuda."""

import argparse
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, *[".."] * 3))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "cuda"))
import subprocess  # noqa: E402

from commands import call  # noqa: E402
from gpu_programs import PROGRAMS, import_step  # noqa: E402

EXAMPLES = ["mlp", "gpt", "vit", "resnet"]
NETWORKS = ["resnet18", "resnet50", "vgg11", "mobilenet_v2", "convnext_tiny", "vit_b_16", "densenet121"]
GPU = list(dict.fromkeys(model for model, _, _ in PROGRAMS.values()))
BATCHES = {model: batch for model, batch, _ in reversed(PROGRAMS.values())}
# Arenas: by how much they may be apart. What stages send and receive is copied where the model expects it in its place,
# or the other way round; what a compressed collective packs into is not modelled. DenseNet's evaluation makes parts of
# its nested concatenations in place, which the model does not see.
MOST_APART = {"densenet": 1, "wire=i8": 1, "pp:": 0.2, "fp8": 0.15, "": 0.05}
# What parts of the compiler change kernels: casts, scales, micro-batches, stages, compression, attention.
OPTIONS = ["mesh=dp:1", "mesh=dp:2", "mesh=dp:2 precision=bf16", "mesh=dp:1 precision=fp8",
           "mesh=dp:1 precision=f16 loss-scale=dynamic", "mesh=dp:2 micro-batches=2 precision=bf16",
           "mesh=pp:2 micro-batches=2", "mesh=dp:2 wire=i8 wire-min-bytes=0 numerics=lossy",
           "mesh=dp:2 precision=bf16 attention=fused", "mesh=dp:1 target=cuda",
           "mesh=dp:2 target=cuda precision=bf16", "mesh=dp:2 target=cuda precision=fp8",
           "mesh=dp:1 target=cuda precision=fp8 chip=sm_90"]  # fmt: skip
REMARK = re.compile(r" (Predicted|Formed) \|.*\| (?:ArenaBytes=(\d+), )?Bytes=(\d+),.* Function=([^ ,]+), Launches=(\d+)")
ARENA = re.compile(r" Arena \|.* Function=([^ ,]+) \|.* Bytes=(\d+),")


def import_model(a, model):
    if model in GPU:
        return import_step(a, model, model, BATCHES[model])
    step = os.path.join(a.folder, model + ".mlir")
    example = model if model in EXAMPLES else "resnet"
    words = [] if model in EXAMPLES else ["-Omodel=" + model, "-Oimage=64", "--batch=8"]
    call(os.path.join(a.bin, "mpcomm-import"), os.path.join(ROOT, "docs", "examples", example + ".py"), *words, "-o", step)
    return step


def kernels(a, step, options):
    """(launches, bytes) and bytes of the arena by function: as predicted, and as made."""
    target = " ".join(word for word in options.split() if word.startswith(("target=", "chip=")))
    remarks = call(os.path.join(a.bin, "mpcomm-opt"), step, "-o", os.devnull,
                   "--remarks-filter=mpcomm-(form-kernels|plan-memory)", "--remark-format=emitRemark",
                   "-pass-pipeline=builtin.module(mpcomm-graph{%s},mpcomm-lower{%s})" % (options, target),
                   stderr=subprocess.STDOUT)  # fmt: skip
    found = {"Predicted": {}, "Formed": {}}
    predicted = {}
    for name, arena, size, function, launches in REMARK.findall(remarks):
        found[name][function] = (int(launches), int(size))
        if arena:
            predicted[function] = int(arena)
    made = {function: int(size) for function, size in ARENA.findall(remarks)}
    return found["Predicted"], found["Formed"], predicted, made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(EXAMPLES + NETWORKS + GPU))
    parser.add_argument("--folder", help="for what is imported; else a temporary one")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        a.folder = a.folder or temporary
        count = equal = 0
        for model in a.models.split(","):
            step = import_model(a, model)
            for options in OPTIONS:
                predicted, formed, arenas, made = kernels(a, step, options)
                ratios = [arenas.get(f, 0) / made[f] for f in made if made[f]]
                worst = max(ratios, key=lambda ratio: abs(ratio - 1), default=1)
                near = abs(worst - 1) <= next(most for word, most in MOST_APART.items() if word in model + " " + options)
                good = bool(formed) and predicted == formed and near
                count, equal = count + 1, equal + good
                launches, size = (sum(n) for n in zip((0, 0), *formed.values()))
                print("| %s | %s | %d | %.1f MB | %s | %.4f |" % (
                    model, options, launches, size / 1e6, "equal" if good else "NO", worst))  # fmt: skip
                for function in sorted(set(predicted) | set(formed)) if not good else ():
                    print("  %s: predicted %s, formed %s" % (function, predicted.get(function), formed.get(function)))
                sys.stdout.flush()
            os.remove(step)
    print("%d of %d equal" % (equal, count))
    sys.exit(equal != count)


main()
