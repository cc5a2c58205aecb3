# ===- gpu_programs.py - what is measured on a GPU -------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
from commands import call  # noqa: E402

# name: model, samples a rank and step, options of mpcomm-compile
PROGRAMS = {
    "gpt2-small-bf16": ("gpt2-small", 32, "precision=bf16"),
    "gpt2-small-f32": ("gpt2-small", 8, ""),
    "gpt2-small-bf16-8": ("gpt2-small", 8, "precision=bf16"),
    "gpt2-medium-bf16": ("gpt2-medium", 16, "precision=bf16"),
    "resnet50-bf16": ("resnet50", 256, "precision=bf16"),
    "resnet50-f32": ("resnet50", 128, ""),
    "resnet50-bf16-128": ("resnet50", 128, "precision=bf16"),
    "llama-350m-bf16": ("llama-350m", 8, "precision=bf16"),
    "gpt-check-f32": ("gpt-check", 8, ""),
    "gpt-check-bf16": ("gpt-check", 8, "precision=bf16"),
    "gpt-check-dp2": ("gpt-check", 4, "mesh=dp:2"),
    "gpt-check-dp4": ("gpt-check", 2, "mesh=dp:4"),
    "gpt-check-f16": ("gpt-check", 8, "precision=f16 loss-scale=static:1024"),
    "gpt-check-zero": ("gpt-check", 4, "mesh=dp:2 zero=1"),
    "llama-check-f32": ("llama-check", 8, ""),
    "llama-check-bf16": ("llama-check", 8, "precision=bf16"),
    "resnet-check-f32": ("resnet-check", 32, ""),
    "resnet-check-bf16": ("resnet-check", 32, "precision=bf16"),
    "resnet-check-dp2": ("resnet-check", 16, "mesh=dp:2 batch-norm=sync"),
    # What two ranks do with their buckets, by one: packed, cast, reduced by NCCL, unpacked.
    "one-rank": ("gpt2-small", 8, "mesh=dp:2 wire=bf16"),
}


def import_step(a, name, model, batch, weights=None):
    """The graph of a step of a model, as a file in the folder; its weights as one more."""
    step = os.path.join(a.folder, name + ".mlir")
    words = ["--weights", weights] if weights else []
    call(sys.executable, os.path.join(a.bin, "mpcomm-import"), os.path.join(HERE, "Inputs", "workloads.py"),
         "-O", "model=" + model,
         "-O", "batch=%d" % batch, "-O", "steps=1", "-o", step, *words)  # fmt: skip
    return step
