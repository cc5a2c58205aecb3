# ===- compositions.py - random compositions of operators -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Random programs of PyTorch's operators (Inputs/composer.py), imported, compiled and run for
a step: the result and the gradient of each parameter, in f64 and in f32, are PyTorch's in f64
but for rounding.

What rounding makes of a program is measured: PyTorch runs it in f32, as it is and with each
input moved by at most an ulp, three times. E is the largest distance of these from f64, in
any element of a tensor. Ours has to be within 16 E + 64 u M of f64, in f32 (u = 2^-24, M the
largest element of the tensor), and in f64 within 2^-29 times that: f64 rounds 2^29 times
finer. In f64 a program that rounding alone moves is told from a mistake by nine digits; in
f32, where a comparison may come out the other way, what differs is only counted if it
differs in f64, too, or by more than a hundredth.

    python compositions.py --bin build/dev/bin --count 2000

Programs with an operator that the importer refuses are counted by its message. Of one that
differs the shortest part that does is printed.

REQUIRES: torch, compiler
RUN: %python %s --bin %mpcomm_obj_root/bin --count 20 | FileCheck %s
CHECK: 20 programs: {{.*}} 0 differ, 0 failed
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "Inputs"), os.path.join(HERE, "..", "Random", "Inputs")]
import checks  # noqa: E402
import torch  # noqa: E402
from composer import BATCH, compose  # noqa: E402
from mpcomm_import.ir import safetensors  # noqa: E402
from mpcomm_import.errors import ImportFailure  # noqa: E402
from formats import read_tensors  # noqa: E402
from tools import start_compiler  # noqa: E402

import mpcomm_import as mi  # noqa: E402


class Failed(Exception):
    """kind: refused, crash, failed or differs."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def workload(program, dtype):
    net = program.module(dtype)
    return mi.Workload(net, None, torch.optim.SGD(net.parameters(), lr=1.0), BATCH,
                       {"x": program.x.to(dtype), "ids": program.ids}, name="composition")


def by_pytorch(program, dtype, moved=0):
    """{name: tensor}: the result, and gradients."""
    made = workload(program, dtype)
    x = made.dataset["x"]
    if moved:
        generator = torch.Generator().manual_seed(moved)
        with torch.no_grad():
            for t in [x, *made.model.parameters()]:
                t.mul_(1 + 2.0 ** -24 * (2 * torch.rand(t.shape, generator=generator, dtype=dtype) - 1))
    made.model.train()(x, program.ids).backward()
    found = {n: p.grad for n, p in made.model.named_parameters() if p.grad is not None}
    return {"out": made.model.out, **found}


class Bench:
    def __init__(self, a, folder):
        self.server, self.folder = start_compiler(a.bin), folder
        self.runner = os.path.join(a.bin, "mpcomm-run")

    def path(self, end):
        return os.path.join(self.folder, "composition" + end)

    def ours(self, program, dtype):
        try:
            made = workload(program, dtype)
            before = {n: p.detach().clone() for n, p in made.model.named_parameters()}
            imported = mi.trace(made)
            text = imported.generic
        except ImportFailure as error:
            raise Failed("refused", str(error)) from None
        with open(self.path(".mlir"), "w") as file:
            file.write(text)
        safetensors.write_files([(self.path(".w"), safetensors.writer(imported.weights)),
                                 (self.path(".d"), safetensors.writer(imported.dataset))])
        how, messages = self.server.ask("program", self.path(".mlir"), self.path(".so"), "mesh=dp:1")
        if how != "exit 0":
            raise Failed("crash" if how.startswith("signal") else "failed", f"compiler: {how}: {messages[:2000]}")
        done = subprocess.run(
            [self.runner, self.path(".so"), "--np", "1", "--weights", self.path(".w"), "--data", self.path(".d"),
             "--steps", "1", "--no-shuffle", "--quiet", "--allow-nonfinite", "--checkpoint", self.path(".ckpt")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        if done.returncode:
            raise Failed("failed", "run: " + done.stdout[-2000:])
        after = {n: torch.from_numpy(values.copy()) for n, (_, values) in read_tensors(self.path(".ckpt")).items()}
        found = {n: before[n] - after[n] for n in before if n in after}
        return {**found, "out": after["out"]}


def bounds(program):
    """(f64's tensors, {name: bound in f32})"""
    exact = by_pytorch(program, torch.float64)
    apart = {n: torch.zeros(()) for n in exact}
    for moved in range(4):
        for name, tensor in by_pytorch(program, torch.float32, moved).items():
            apart[name] = torch.maximum(apart[name], (tensor - exact[name]).abs().max())
    return exact, {n: 16 * apart[n].item() + 64 * 2.0 ** -24 * max(1.0, t.abs().max().item())
                   for n, t in exact.items()}


def differences(got, exact, bound, share):
    for name, want in exact.items():
        if name not in got and want.abs().max() == 0:
            continue  # no gradient
        if name not in got:
            yield f"{name}: no value"
            continue
        if got[name].shape != want.shape:
            yield f"{name}: shape {tuple(got[name].shape)}, expected {tuple(want.shape)}"
            continue
        apart = (got[name].double() - want).abs()
        if not (apart <= share * bound[name]).all():
            yield (f"{name}: apart by {apart.max().item():.3g} of {share * bound[name]:.3g}\n"
                   f"  got {got[name].flatten()[:8].tolist()}\n  expected {want.flatten()[:8].tolist()}")


def trial(bench, program):
    """Failed where ours is not PyTorch's."""
    exact, bound = bounds(program)
    found = list(differences(bench.ours(program, torch.float64), exact, bound, 2.0 ** -29))
    if found:
        raise Failed("differs", "f64: " + "\n".join(found))
    coarse = {n: max(b, 0.01 * exact[n].abs().max().item()) for n, b in bound.items()}
    found = list(differences(bench.ours(program, torch.float32), exact, coarse, 1.0))
    if found:
        raise Failed("differs", "f32: " + "\n".join(found))


def outcome(bench, program):
    try:
        trial(bench, program)
        return "equal", ""
    except Failed as failed:
        return failed.kind, str(failed)
    except subprocess.TimeoutExpired:
        return "failed", "run: took longer than five minutes"
    except Exception as error:  # of the importer, which has messages for what it refuses
        return "failed", f"{type(error).__name__}: {error}"


def smallest(bench, program, kind):
    """The shortest part of a program that ends alike."""
    for part in program.prefixes():
        how, text = outcome(bench, part)
        if how == kind:
            return part, text
    return program, ""


def message(text):
    """What a refusal is about."""
    found = re.findall(r"^  (aten\.\S+|prims\.\S+).*?(?:: (.*))?$", text, re.M)
    return "; ".join(sorted({f"{n}: {why}" if why else n for n, why in found})) or text.splitlines()[0]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--show", action="store_true", help="print each program")
    a = p.parse_args()
    torch.set_num_threads(1)
    counts, refusals, start, done = collections.Counter(), collections.Counter(), time.time(), 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a, folder)
        for seed in range(a.first, a.first + a.count):
            if time.time() - start > a.seconds:
                break
            program = compose(seed)
            how, text = outcome(bench, program)
            done += 1
            counts[how] += 1
            if done % 100 == 0:
                print(f"{done}: {dict(counts)}", file=sys.stderr, flush=True)
            if a.show:
                print(f"seed {seed}: {how}", *program.source, sep="\n  ", flush=True)
            if how == "refused":
                refusals[message(text)] += 1
            elif how != "equal":
                part, reason = smallest(bench, program, how)
                shapes = {n: tuple(t.shape) for n, t in part.parameters.items()}
                print(f"seed {seed}: {how}: x {tuple(part.x.shape)}, ids {tuple(part.ids.shape)}, {shapes}",
                      *part.source, reason or text, sep="\n  ", flush=True)
        bench.server.close()
    for text, count in refusals.most_common():
        print(f"refused {count} times: {text}")
    print(f"{done} programs: {counts['equal']} equal, {counts['refused']} refused, {counts['differs']} differ, "
          f"{counts['failed'] + counts['crash']} failed")
    sys.exit(bool(counts["differs"] or counts["failed"] or counts["crash"]))


main()
