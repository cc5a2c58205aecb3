# ===- compare_torch.py - kernels of a layer beside torch.compile's --------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Kernels that a layer of Inputs/small_llama.py adds to the forward and the backward pass, and
the bytes that they read and write, here (remark `Formed`, target cuda, bf16, without the
kernels of the optimizer) and by torch.compile (autocast to bf16). Run it with a Python that
has PyTorch 2:

  compare_torch.py [--layers=1,2] [--batch=1] [--context=1024]

The two numbers of layers are subtracted. Products and attention, which both leave to
others, are not counted. Without a GPU, TorchInductor's figures are those of its backend for
processors: what its scheduler fused, each buffer counted once a kernel, as
GraphLowering.count_bytes does."""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "..", "build", "release", "bin")
sys.path.insert(0, os.path.join(HERE, "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
from commands import call  # noqa: E402

SIZES = {"f32": 4, "bf16": 2}


def ours(a, layers, folder):
    """Launches and bytes of train_step without those of updates."""
    step = os.path.join(folder, "step.mlir")
    call(sys.executable, "-W", "ignore", os.path.join(a.bin, "mpcomm-import"), os.path.join(HERE, "Inputs", "small_llama.py"),
         "-Olayers=%d" % layers, "-Obatch=%d" % a.batch, "-Ocontext=%d" % a.context, "-o", step)  # fmt: skip
    text = call(os.path.join(a.bin, "mpcomm-opt"), step, "-o", os.devnull, "--mlir-print-ir-after=mpcomm-form-kernels",
                "--remarks-filter=mpcomm-form-kernels",
                "--mpcomm-compile=target=cuda precision=bf16 chip=sm_90 ptxas=none", stderr=subprocess.STDOUT)  # fmt: skip
    size, launches = map(int, re.search(r"Formed .*? Bytes=(\d+),.*Function=train_step, Launches=(\d+)", text).groups())
    body = text[text.index("func.func @train_step"):]
    for line in body[: body.index("\n  }\n")].splitlines():
        if re.search(r"launch @kernel_adamw_\w+", line):
            # What it reads, and the results that it writes.
            types = re.findall(r"tensor<((?:\d+x)*)(f32|bf16)>", line[: line.index(" outs(")] + line[line.rindex("->"):])
            launches -= 1
            for shape, element in types:
                count = SIZES[element]
                for n in shape.split("x")[:-1]:
                    count *= int(n)
                size -= count
    return launches, size


def theirs(a, layers):
    """What TorchInductor schedules in both graphs, but for calls of libraries."""
    import small_llama
    import torch
    from torch._inductor import config, graph, scheduler

    config.force_disable_caches = True
    torch._dynamo.reset()
    found, compiled = [], graph.GraphLowering._compile_to_module

    def compile_to_module(self):
        module = compiled(self)
        none = (scheduler.ExternKernelSchedulerNode, scheduler.NopKernelSchedulerNode)
        found.extend(n.get_read_write_buffers_sizes() for n in self.scheduler.nodes if not isinstance(n, none))
        return module

    graph.GraphLowering._compile_to_module = compile_to_module
    net = small_llama.make(layers, a.context)
    ids = torch.zeros(a.batch, a.context, dtype=torch.int64)

    def step(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return small_llama.loss(net(x), y)

    torch.compile(step)(ids, ids).backward()
    graph.GraphLowering._compile_to_module = compiled
    return len(found), sum(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=BUILD)
    parser.add_argument("--layers", default="1,2")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--only", default="mpcomm,torch.compile")
    a = parser.parse_args()
    few, many = map(int, a.layers.split(","))
    print("| | kernels a layer | MB a layer |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in (("mpcomm", lambda n: ours(a, n, folder)), ("torch.compile", lambda n: theirs(a, n))):
            if name in a.only:
                (k, b), (l, c) = measure(few), measure(many)
                print("| %s | %.1f | %.1f |" % (name, (l - k) / (many - few), (c - b) / (many - few) / 1e6), flush=True)


main()
