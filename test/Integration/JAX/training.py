# The examples, imported, compiled and run: 20 losses on one and two ranks are JAX's on
# the samples of all ranks. Statistics of a batch norm are those of a rank's samples. One rank:
# training-long.test.
#
# REQUIRES: jax, torch2, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python-env %s %mpcomm-import %mpcomm-run %t gpt 2
# RUN: %python-env %s %mpcomm-import %mpcomm-run %t resnet 2

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
import jax_checks as checks

import jax
import jax.numpy as jnp

mpcomm_import, mpcomm_run, folder, name, ranks = sys.argv[1:]
ranks, steps = int(ranks), 20
MODELS = {
    "gpt": (os.path.join(checks.EXAMPLES, "gpt_jax.py"),
            {"layers": 1, "d": 32, "ctx": 16, "batch": 4, "clip": 1.0, "warmup": 5}),
    "resnet": (os.path.join(HERE, "Inputs", "resnet.py"), {"width": 8}),
}
path, options = MODELS[name]
files = {k: os.path.join(folder, f"{name}.{k}") for k in ("mlir", "weights", "data", "log")}
subprocess.run([sys.executable, mpcomm_import, path, "-o", files["mlir"], "--weights",
                files["weights"], "--data", files["data"],
                *[f"-O{k}={v}" for k, v in options.items()]], check=True)
subprocess.run([mpcomm_run, files["mlir"], "--np", str(ranks), "--weights", files["weights"],
                "--data", files["data"], "--steps", str(steps), "--no-shuffle", "--quiet",
                "--log", files["log"]], check=True)
with open(files["log"]) as log:
    ours = [json.loads(line)["loss"] for line in log]


def of_ranks(workload):
    """The workload whose loss and statistics are the means over the ranks' samples."""
    own = workload.loss

    def loss(params, statistics, batch):
        parts = jax.tree_util.tree_map(
            lambda x: x.reshape(ranks, len(x) // ranks, *x.shape[1:]), batch)
        results = jax.vmap(lambda b: own(params, statistics, b))(parts)
        return jax.tree_util.tree_map(lambda x: x.mean(0), results)
    workload.loss = loss


workload = checks.mi.load_workload(path, options)
graph = checks.mi.trace(workload).functions[0]
bound = checks.rounding_of.rounding(graph, False)
if workload.loss is not None:
    of_ranks(workload)
samples = len(workload.dataset["x"])
step, state = jax.jit(workload.whole_step()), workload.initial_state()
for i, loss in enumerate(ours):
    taken = ranks * workload.batch
    batch = checks.batch_of(workload, i % (samples // taken), taken)
    state, expected = step(state, jax.tree_util.tree_map(jnp.asarray, batch))
    off = abs(loss - float(expected)) / abs(float(expected))
    print(f"{name}, {ranks} ranks, step {i}: {loss:.7f}, off by {off:.2g}")
    assert off <= 2 * (i + 1) * bound, f"more than {2 * (i + 1) * bound:.2g}"
assert len(ours) == steps
