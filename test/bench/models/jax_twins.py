# ===- jax_twins.py - steps imported from JAX, beside JAX's own -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains the examples of JAX (docs/examples/gpt_jax.py, resnet_jax.py) on ranks with a core
each, and in JAX on as many cores: jitted, the state donated, batches on the device before the
clock starts; on several cores as one device with as many threads and as so many devices that
share the batch, of which the faster counts. Shown are medians of a step over rounds that take
turns.

REQUIRES: jax, torch2, compiler, long
RUN: %python-env %s --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run --rounds=1 --steps=5 --models=gpt --ranks=2 | FileCheck %s
CHECK: | model | ranks | ms a step: ours | JAX | ratio |
CHECK: | gpt | 2 |
CHECK: geometric mean
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
WARMUP = 3
# name: (file, options)
MODELS = {
    "gpt": ("gpt_jax.py", {}),
    "gpt-6x256": ("gpt_jax.py", {"layers": 6, "d": 256, "heads": 8}),
    "resnet": ("resnet_jax.py", {}),
    "resnet-64": ("resnet_jax.py", {"width": 64, "image": 32, "batch": 16}),
}


def train_jax(name, ranks, devices, steps):
    """Milliseconds of each step after the first, of a batch for all ranks. Runs in a process of
    its own, with the cores and devices that it is to have."""
    import jax
    import numpy as np
    sys.path.insert(0, os.path.join(ROOT, "tools", "mpcomm-import"))
    import mpcomm_import as mi
    file, options = MODELS[name]
    workload = mi.load_workload(os.path.join(ROOT, "docs", "examples", file), options)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("dp",))
    whole, split = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
                    for axes in ((), ("dp",)))
    size = workload.batch * ranks
    count = len(next(iter(workload.dataset.values()))) // size
    batches = [jax.device_put({k: v[i % count * size:(i % count + 1) * size]
                               for k, v in workload.dataset.items()}, split)
               for i in range(steps + WARMUP)]
    state = jax.device_put(workload.initial_state(), whole)
    step = jax.jit(workload.whole_step(), donate_argnums=0, out_shardings=(whole, whole))
    times = []
    for batch in batches:
        begin = time.perf_counter()
        state, loss = step(state, batch)
        jax.block_until_ready((state, loss))
        times.append(1e3 * (time.perf_counter() - begin))
    return times[WARMUP:], float(loss)


class Bench:
    def __init__(self, a, folder):
        self.a, self.folder = a, folder
        self.cores = sorted(os.sched_getaffinity(0))

    def path(self, name):
        return os.path.join(self.folder, name)

    def prepare(self, name):
        file, options = MODELS[name]
        subprocess.run([sys.executable, self.a.mpcomm_import,
                        os.path.join(ROOT, "docs", "examples", file), "-o", self.path("step.mlir"),
                        "--weights", self.path("w"), "--data", self.path("d"),
                        *[f"-O{k}={v}" for k, v in options.items()]], check=True)
        for ranks in self.a.ranks:
            subprocess.run([self.a.mpcomm_compile, self.path("step.mlir"), "-o",
                            self.path(f"{ranks}.so"), "--np", str(ranks)], check=True)

    def ours(self, ranks):
        cores = ",".join(map(str, self.cores[:ranks]))
        subprocess.run(["taskset", "-c", cores, self.a.mpcomm_run, self.path(f"{ranks}.so"), "--np", str(ranks), "--weights",
                        self.path("w"), "--data", self.path("d"), "--steps",
                        str(self.a.steps + WARMUP), "--no-shuffle", "--quiet", "--log",
                        self.path("log")], check=True)
        with open(self.path("log")) as log:
            rows = [json.loads(line) for line in log]
        return statistics.median(row["ms"] for row in rows[WARMUP:]), rows[-1]["loss"]

    def jax(self, name, ranks, devices):
        flags = f"--xla_force_host_platform_device_count={devices}"
        result = subprocess.run(
            ["taskset", "-c", ",".join(map(str, self.cores[:ranks])), sys.executable, "-W", "ignore",
             os.path.abspath(__file__), "--job", json.dumps([name, ranks, devices, self.a.steps])],
            check=True, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=flags))
        times, loss = json.loads(result.stdout.splitlines()[-1])
        return statistics.median(times), loss

    def measure(self, name, ranks):
        ways = sorted({1, ranks})
        ours, theirs = [], {devices: [] for devices in ways}
        for _ in range(self.a.rounds):
            ours.append(self.ours(ranks))
            for devices in ways:
                theirs[devices].append(self.jax(name, ranks, devices))
        mine = statistics.median(ms for ms, _ in ours)
        each = {devices: statistics.median(ms for ms, _ in found)
                for devices, found in theirs.items()}
        best = min(each, key=each.get)
        others = "; ".join(f"{devices} device{'s' * (devices > 1)} {ms:.2f}" for devices, ms in each.items())
        print(f"| {name} | {ranks} | {mine:.2f} | {others} | {mine / each[best]:.2f} | "
              f"{ours[0][1]:.5f} | {theirs[best][0][1]:.5f} |", flush=True)
        return mine / each[best]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", type=lambda t: t.split(","), default=list(MODELS), help=", ".join(MODELS))
    p.add_argument("--ranks", type=lambda t: [int(r) for r in t.split(",")], default=[1, 2])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--mpcomm-import", default="mpcomm-import")
    p.add_argument("--mpcomm-compile", default="mpcomm-compile")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    p.add_argument("--job", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.job:
        print(json.dumps(train_jax(*json.loads(a.job))))
        return
    print("| model | ranks | ms a step: ours | JAX | ratio | last loss: ours | JAX |\n"
          "|---|---|---|---|---|---|---|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a, folder)
        for name in a.models:
            bench.prepare(name)
            ratios += [bench.measure(name, ranks) for ranks in a.ranks]
    print(f"\ngeometric mean {statistics.geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
