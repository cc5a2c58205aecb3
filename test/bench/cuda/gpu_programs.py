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

# name: model, samples a rank and step, options of mpcomm-compile. A `chip` there is that program's.
PROGRAMS = {
    "gpt2-small-bf16": ("gpt2-small", 32, "precision=bf16"),
    "gpt2-small-f32": ("gpt2-small", 8, ""),
    "gpt2-small-bf16-8": ("gpt2-small", 8, "precision=bf16"),
    "gpt2-small-fp8": ("gpt2-small", 32, "precision=fp8"),
    "gpt2-medium-bf16": ("gpt2-medium", 16, "precision=bf16"),
    "gpt-wide-bf16": ("gpt-wide", 8, "precision=bf16"),
    "resnet50-bf16": ("resnet50", 256, "precision=bf16"),
    "resnet50-f32": ("resnet50", 128, ""),
    "resnet50-bf16-128": ("resnet50", 128, "precision=bf16"),
    "llama-350m-bf16": ("llama-350m", 8, "precision=bf16"),
    "gpt-check-f32": ("gpt-check", 8, ""),
    "gpt-check-bf16": ("gpt-check", 8, "precision=bf16"),
    "gpt-check-dp2": ("gpt-check", 4, "mesh=dp:2"),
    "gpt-check-dp4": ("gpt-check", 2, "mesh=dp:4"),
    "gpt-check-f16": ("gpt-check", 8, "precision=f16 loss-scale=static:1024"),
    "gpt-check-fp8": ("gpt-check", 8, "precision=fp8"),
    "gpt-check-zero": ("gpt-check", 4, "mesh=dp:2 zero=1"),
    "llama-check-f32": ("llama-check", 8, ""),
    "llama-check-bf16": ("llama-check", 8, "precision=bf16"),
    "llama-check-fp8": ("llama-check", 8, "precision=fp8"),
    "resnet-check-f32": ("resnet-check", 32, ""),
    "resnet-check-bf16": ("resnet-check", 32, "precision=bf16"),
    "resnet-check-dp2": ("resnet-check", 16, "mesh=dp:2 batch-norm=sync"),
    # What two ranks do with their buckets, by one: packed, cast, reduced by NCCL, unpacked.
    "one-rank": ("gpt2-small", 8, "mesh=dp:2 wire=bf16"),
}

# Other kernels for a program: compiled as programs of their own and listed beside it. NAME-WORD: options that differ.
# One whose chip the assembler or LLVM does not know is left out by pack.py, which says so, as does the pack.
VARIANTS = {
    "gpt2-small-bf16": {"sm90a": "chip=sm_90a"},
    "llama-350m-bf16": {"sm90a": "chip=sm_90a"},
    "gpt-wide-bf16": {"sm90a": "chip=sm_90a"},
}
# What those tools say then.
UNKNOWN_CHIP = r"ptxas fatal *: Value '\w+' is not defined for option 'gpu-name'|this LLVM does not know the chip '\w+'"
for base, ways in VARIANTS.items():
    for word, more in ways.items():
        PROGRAMS["%s-%s" % (base, word)] = PROGRAMS[base][:2] + (PROGRAMS[base][2] + " " + more,)

# Whose steps are timed, in the order of their value, and whether PyTorch's and JAX's are, too.
MEASURED = {
    "gpt2-small-bf16": True, "resnet50-bf16": True, "llama-350m-bf16": True, "gpt2-medium-bf16": True, "one-rank": False,
    "gpt2-small-bf16-8": False, "gpt2-small-f32": False, "gpt2-small-fp8": False, "gpt-wide-bf16": False,
    "resnet50-bf16-128": False, **{"%s-%s" % (base, word): False for base, ways in VARIANTS.items() for word in ways},
    "resnet50-f32": False,
}  # fmt: skip
# Which torch.compile tunes: that takes minutes.
TUNED = ["gpt2-small-bf16", "resnet50-bf16"]
# Begin of the names of models that Inputs/peers.py has in JAX.
JAX = ("gpt", "resnet")

# Small models in the place of large ones, where a measurement is only tried.
SMALL = {"gpt2-small": "gpt-check", "gpt2-medium": "gpt-check", "gpt-wide": "gpt-check", "llama-350m": "llama-check",
         "resnet50": "resnet-check"}  # fmt: skip

# Tests of kernels that are launched alone: the script, and its arguments: seed, and the chip or how many.
ALONE = {"attention": ("attention", "1"), "attention-sm90a": ("attention", "1", "sm_90a"), "kernels": ("kernels", "1", "96")}
KERNELS = os.path.normpath(os.path.join(HERE, "..", "..", "Codegen", "Kernels", "CPU", "Inputs"))


def for_chips(chips, options):
    """Options of a program for GPUs: its own chip, or else `chips`."""
    return "target=cuda %s%s" % ("" if "chip=" in options else "chip=%s " % chips, options)


def small_program(name):
    model, batch, options = PROGRAMS[name]
    return SMALL.get(model, model), min(batch, 8), options


def import_step(a, name, model, batch, weights=None):
    """The graph of a step of a model, as a file in the folder; its weights as one more."""
    step = os.path.join(a.folder, name + ".mlir")
    words = ["--weights", weights] if weights else []
    call(sys.executable, os.path.join(a.bin, "mpcomm-import"), os.path.join(HERE, "Inputs", "workloads.py"),
         "-O", "model=" + model,
         "-O", "batch=%d" % batch, "-O", "steps=1", "-o", step, *words)  # fmt: skip
    return step
