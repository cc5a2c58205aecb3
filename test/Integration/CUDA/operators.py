# REQUIRES: compiler, torch
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %mpcomm_obj_root/test/lib/FakeCuda %t.dir
#
# The operators of Inputs/operators.py, with gradients and all optimizers, on the fake GPU
# have the losses and the state of training that they have on the processor. That their
# kernels are machine code without spills: assemble-operators.py.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""operators.py ... [<name>...]: only those networks. Bounds: Inputs/small_models.py."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
import operators
from small_models import OPERATOR_BOUND, OPERATOR_STEPS, largest_distance
from emulation import Emulator, call
from programs import read_losses, read_tensors, run

OPT, RUN, CC, FAKES, FOLDER = sys.argv[1:6]


def train(program, name, files, environment, *options):
    out, log = (os.path.join(FOLDER, name + end) for end in (".safetensors", ".jsonl"))
    run(RUN, program, *files, "--steps", OPERATOR_STEPS, "--seed", 7, "--log", log, "--save-weights", out, "--quiet", *options,
        limit=600, environment=environment)  # fmt: skip
    return read_losses(log), read_tensors(out)


def compare(name, step, weights, data, emulator):
    """A network trained on both targets: what is to be printed, and whether they agree."""
    files = ["--weights", weights, "--data", data]
    cpu = os.path.join(FOLDER, name + ".cpu.so")
    emulator.link(call([OPT, step, "--mpcomm-compile=cluster=dgx-h100"]), cpu)
    gpu = emulator.compile(step, name)
    losses, state = train(cpu, name + ".cpu", files, {})
    found, other = train(gpu, name, files, dict(emulator.environment, MPFAKE_SEED="1"), "--device", "cuda")
    worst, where = largest_distance(losses, state, found, other)
    initial = {key: values for key, values in read_tensors(weights).items() if re.fullmatch(r"learned\.\d+", key)}
    stuck = [key for key, values in initial.items() if state[key] == values]
    line = "%-20s %d tensors, %.1e off%s" % (name, len(state) + 1, worst, " in " + where if where else "")
    return line, worst <= OPERATOR_BOUND and initial and not stuck


def main():
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    failed, jobs = [], []
    with ThreadPoolExecutor(2) as pool:
        for name in sys.argv[6:] or operators.names():
            files = [os.path.join(FOLDER, name + end) for end in (".mlir", ".w", ".d")]
            operators.mi.trace(operators.make(name)).write(files[0], weights=files[1], data=files[2])
            jobs.append((name, pool.submit(compare, name, *files, emulator)))
        for name, job in jobs:
            line, ok = job.result()
            print(line)
            if not ok:
                failed.append(name)
    if failed:
        sys.exit("differ by more than %g, or have parameters that do not move: %s" % (OPERATOR_BOUND, ", ".join(failed)))


main()
