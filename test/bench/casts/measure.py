# ===- measure.py - casts of a step, beside autocast ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %mpcomm-import %mpcomm-opt %t --layers 2 --d 128 --heads 4 --ctx 64 \
# RUN:   --batch 8 | FileCheck %s
# CHECK: autocast: {{[0-9]+}} casts
# CHECK: mpcomm: {{[0-9]+}} casts that pass over memory
# CHECK: at most half: yes
"""How often, and how many bytes, a step of a GPT is cast: by PyTorch's
autocast("cpu", bfloat16) as it runs, and by ours as it is compiled.

  measure.py <mpcomm-import> <mpcomm-opt> <folder> [--layers 12 --d 768 ...]

Autocast: every aten::_to_copy, and every aten::copy_ between types, that one
training step executes, forward, backward and update; each is a pass over memory
of its own. What elementwise kernels convert inside (a sum of a bf16 and an f32
tensor) the profiler does not show, and is not counted.

Ours: casts in the compiled graph are arith.truncf and arith.extf. Most of them are
inside the kernel that makes or reads the value: they convert in registers and move
no bytes, as PyTorch's conversions inside kernels. What is compared with autocast
is what the lowered program launches: kernels that do nothing but cast. (A sum over
rows is complete when its kernel ends: the gradient of a bias is cast by another.)

Bytes are those of the f32 side. Counts do not depend on the sizes, bytes do."""

import argparse
import json
import math
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                "Integration", "PyTorch", "Inputs"))
import checks  # noqa: E402
import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402


class Casts(TorchDispatchMode):
    """Counts conversions between float types."""

    def __init__(self):
        super().__init__()
        self.count = self.bytes = 0

    def note(self, a, b):
        if a.dtype != b.dtype and a.is_floating_point() and b.is_floating_point():
            self.count += 1
            self.bytes += max(a.nelement() * a.element_size(),
                              b.nelement() * b.element_size())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            self.note(args[0], result)
        elif func is torch.ops.aten.copy_.default:
            self.note(args[0], args[1])
        return result


def options_of(arguments):
    return {k: getattr(arguments, k) for k in ("layers", "d", "heads", "ctx", "batch")}


def autocast(options):
    workload = checks.example("gpt", **options)
    batch = checks.batch_of(workload, workload.dataset, 0)

    def step():
        workload.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16):
            output = workload.model(batch["x"])
            loss = workload.loss(output, batch["y"])
        loss.backward()
        workload.optimizer.step()

    step()
    with torch.profiler.profile() as profile:
        step()
    copies = sum(e.count for e in profile.key_averages() if e.key == "aten::_to_copy")
    casts = Casts()
    with casts:
        step()
    # The mode sees what the profiler sees.
    assert casts.count <= copies, (casts.count, copies)
    return casts.count, casts.bytes


def elements(shape):
    return math.prod(int(n) for n in shape.split("x")[:-1])


def launched(program):
    """Casts that the lowered program launches as kernels, and their bytes."""
    count = size = 0
    for name, arguments, body in re.findall(
            r"func\.func private @(\w+)\((.*?)\) .*?\{\n(.*?)\n  \}\n", program, re.S):
        ops = set(re.findall(r"(?:arith|math)\.\w+", body)) - {"arith.constant"}
        if ops and ops <= {"arith.truncf", "arith.extf"}:
            launches = len(re.findall(rf"mprt\.launch @{name}\b", program))
            count += launches
            size += launches * 4 * max(map(elements, re.findall(r"tensor<([^>]*)>",
                                                                arguments)))
    return count, size


def ours(options, tools, folder):
    step, program = (os.path.join(folder, x) for x in ("step.mlir", "program.mlir"))
    subprocess.run([tools[0], os.path.join(checks.EXAMPLES, "gpt.py"), "-o", step]
                   + [f"-O{k}={v}" for k, v in options.items()], check=True)
    # As on a machine whose 16-bit products are fast, whatever this one is.
    policy = os.path.join(folder, "policy.json")
    with open(policy, "w") as file:
        json.dump({"schema": "mpcomm-precision-1", "policy": "bf16",
                   "compute": "lower_precision"}, file)
    run = subprocess.run(
        [tools[1], step, f"--mpcomm-graph=mesh=dp:2 precision-file={policy}",
         "--mpcomm-lower", "-o", program,
         "--remarks-filter=mpcomm-insert-casts", "--remark-format=emitRemark"],
        check=True, stderr=subprocess.PIPE, text=True)
    line = next(x for x in run.stderr.splitlines() if "InsertCasts" in x)
    found = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)}
    with open(program) as file:
        return found, *launched(file.read())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", nargs=2)
    parser.add_argument("folder")
    for name, value in (("layers", 12), ("d", 768), ("heads", 12), ("ctx", 256),
                        ("batch", 4)):
        parser.add_argument("--" + name, type=int, default=value)
    arguments = parser.parse_args()
    options = options_of(arguments)
    count, size = autocast(options)
    print(f"autocast: {count} casts, {size / 1e6:.1f} MB")
    found, launches, moved = ours(options, arguments.tools, arguments.folder)
    print(f"mpcomm: {launches} casts that pass over memory, {moved / 1e6:.1f} MB")
    print(f"mpcomm: {found['inserted']} casts in the graph, of {found['bytes'] / 1e6:.1f} MB")
    half = 2 * launches <= count and 2 * moved <= size
    print("at most half:", "yes" if half else "no")


main()
