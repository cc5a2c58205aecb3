# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %mpcomm_obj_root/test/lib/FakeCuda %t.dir
#
# Gradients that travel compressed between GPUs, which the fake driver emulates, end in the
# parameters and the state that they end in on the processor: in blocks, with what is lost
# kept, with ZeRO, as thin matrices, a step late, every other step. That their kernels are
# machine code without spills: assemble-codecs.py.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""codecs.py ... [<way>...]: only those ways of Inputs/codec_steps.py.

Both targets do the same operations on an element, of which one may round where the other fuses
a product with a sum: in a step those of encoding, of what is lost, of the sum, of its encoding,
of decoding and of the update, ROUNDINGS at most, each by half a unit of at most the largest
value. Products of thin matrices sum up to 40 terms in any order, in three products a step, and
divide by the length of what is left of a column, which is at least a CONDITION-th of it.

A sum of what two ranks have sent may be half-way between two numbers in units of its scale, as it
is where both have sent half of what they sent of the largest sum, and is then rounded to either: FEW
of the elements of a tensor may be off by as much as follows from one unit of the scale of 4 bits, of
a sum of two: of the momentum twice that, and of the parameter, at a rate of 0.5, that."""

import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from math import prod

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
from codec_steps import LARGEST, SHAPES, WAYS, graph
from emulation import Emulator, call
from programs import read_losses, read_tensors, run, write_tensors
from small_models import U

OPT, RUN, CC, FAKES, FOLDER = sys.argv[1:6]
STEPS, RANKS, ROUNDINGS, CONDITION = 4, 2, 16, 16
FEW, UNIT = 0.005, 2 * LARGEST / 7


def bound(way):
    own = STEPS * ROUNDINGS * U
    return own + STEPS * 3 * 2 * 40 * CONDITION * U if way == "low-rank" else own


def train(program, name, files, environment, *options):
    state, log = (os.path.join(FOLDER, name + end) for end in (".state", ".jsonl"))
    run(RUN, program, *files, "--steps", STEPS, "--np", RANKS, "--seed", 7, "--log", log, "--checkpoint", state,
        "--quiet", *options, limit=600, environment=environment)  # fmt: skip
    return {"loss": read_losses(log), **read_tensors(state)}


def compare(way, step, files, emulator):
    options = "mesh=dp:%d %s" % (RANKS, WAYS[way])
    cpu = os.path.join(FOLDER, way + ".cpu.so")
    emulator.link(call([OPT, step, "--mpcomm-compile=cluster=dgx-h100 " + options]), cpu)
    expected = train(cpu, way + ".cpu", files, {})
    gpu = emulator.compile(step, way, options)
    found = train(gpu, way, files, dict(emulator.environment, MPFAKE_SEED="1"), "--device", "cuda")
    worst, where, flipped = 0.0, "", 0
    for key, values in expected.items():
        size = max(map(abs, values), default=0) or 1
        if key.endswith(".residual"):  # a difference of what is as large as gradients
            size = LARGEST
        apart = [abs(a - b) / size for a, b in zip(values, found[key])]
        far = [a for a in apart if not a <= bound(way)]
        if len(far) <= FEW * len(apart) and all(a <= 2 * UNIT / size for a in far):
            flipped += len(far)
            apart = [a for a in apart if a <= bound(way)]
        far = max(apart, default=0) if all(a == a for a in apart) else float("nan")
        if not far <= worst:
            worst, where = far, key
    kept = [key for key in expected if "residual" in key and any(expected[key])]
    line = "%-14s %d tensors, %d of what was lost, %d rounded otherwise, %.1e off (bound %.1e)%s" % (
        way, len(expected), len(kept), flipped, worst, bound(way), " in " + where if where else "")  # fmt: skip
    same = expected.keys() == found.keys() and all(len(v) == len(found[k]) for k, v in expected.items())
    loses = way not in ("deferred", "local")
    return line, same and worst <= bound(way) and bool(kept) == loses and any(expected["w"])


def main():
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    choose = random.Random(5)
    step = os.path.join(FOLDER, "step.mlir")
    with open(step, "w") as file:
        file.write(graph())
    zeros, data = {}, {}
    for name, shape in SHAPES.items():
        zeros[name] = (shape, [0.0] * prod(shape))
        count = 2 * RANKS * prod(shape)
        data[name + ".g"] = ((2 * RANKS, *shape), [float(choose.randint(-LARGEST, LARGEST)) for _ in range(count)])
    files = ["--weights", write_tensors(os.path.join(FOLDER, "w"), zeros),
             "--data", write_tensors(os.path.join(FOLDER, "d"), data)]  # fmt: skip
    failed = []
    with ThreadPoolExecutor(2) as pool:
        names = sys.argv[6:] or list(WAYS)
        for name, (line, ok) in zip(names, pool.map(lambda way: compare(way, step, files, emulator), names)):
            print(line)
            if not ok:
                failed.append(name)
    if failed:
        sys.exit("differ: " + ", ".join(failed))


main()
