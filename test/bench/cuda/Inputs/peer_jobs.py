# ===- peer_jobs.py - what PyTorch and JAX are asked ------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Answers jobs of measure.py, {"job": name, ...} as JSON, with a line RESULT and JSON: one that
is an argument, or, without one, those that come on standard input, one a line. After a job that
failed nothing of the process is trusted: it ends, and the error is the answer."""

import gc
import json
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, *[".."] * 4, "tools", "mpcomm-import")]

import torch  # noqa: E402

import peers  # noqa: E402
import reference  # noqa: E402
import workloads  # noqa: E402
from clocks import IS_SMALL  # noqa: E402


def step_of(model, batch, precision, steps, compiled="", exact=False):
    return peers.TorchStep(workloads.workload(model, batch, steps), precision, compiled, exact)


def losses(model, batch, precision, steps):
    step = step_of(model, batch, precision, steps, exact=True)
    return [float(step(i).detach()) for i in range(steps)]


def steps(model, batch, precision, compiled=""):
    """Milliseconds, MB, and seconds until the first steps were through."""
    begin = time.monotonic()
    step = step_of(model, batch, precision, 2, compiled)
    for i in range(2):
        step(i)
    first = float(step(2).detach())
    begun = time.monotonic() - begin
    ms, memory = peers.time_steps(step, *((1, 2) if IS_SMALL else (10, 20)))
    return {"ms": ms, "MB": memory, "begun": begun, "loss": first}


def warm(model, batch, precision, compiled):
    """Compiles, so that a later process finds it in the cache."""
    begin = time.monotonic()
    step = step_of(model, batch, precision, 2, compiled)
    for i in range(2):
        float(step(i).detach())
    return {"seconds": time.monotonic() - begin}


def jax(model, batch):
    if model in workloads.GPT:
        return {"ms": peers.time_jax_gpt(workloads.GPT[model], batch, 2 if IS_SMALL else 20)}
    return {"ms": peers.time_jax_resnet(*workloads.RESNET[model], batch, 2 if IS_SMALL else 20)}


def inputs(model, batch, steps, stem, constants):
    """Weights, with tensors that the importer has made, and data; the data are written last."""
    from mpcomm_import.ir.safetensors import load, save
    from mpcomm_import.torch_front.workload import StateNames

    work = workloads.workload(model, batch, steps)
    names = StateNames(work.model, work.optimizer)
    known = load(constants)[0] if constants else {}
    save(stem + ".w", {**{n: t.detach() for n, t in names.parameters + names.buffers}, **known})
    save(stem + ".d.part", dict(work.dataset))
    os.replace(stem + ".d.part", stem + ".d")


JOBS = {f.__name__: f for f in (losses, steps, warm, jax, inputs)}
JOBS.update(device=reference.describe, ops=reference.time_ops, attention=reference.time_attention)


def answer(text):
    """Whether it was answered."""
    try:
        job = json.loads(text)
        value = {"value": JOBS[job.pop("job")](**job)}
    except Exception:
        value = {"error": traceback.format_exc()[-2500:]}
    print("RESULT " + json.dumps(value), flush=True)
    return "value" in value


def main():
    if len(sys.argv) > 1:
        sys.exit(not answer(sys.argv[1]))
    for line in sys.stdin:
        if not answer(line):
            sys.exit(1)
        gc.collect()
        if hasattr(torch, "_dynamo"):
            torch._dynamo.reset()
        if not IS_SMALL:
            torch.cuda.empty_cache()


main()
