# ===- peer.py - the same training by PyTorch ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains an example, or another model file, by PyTorch on the samples that mpcomm-run
takes, and returns the loss of each step over the global batch; or by a program of ours.

    train(model, options, size, steps, Way(ranks=2))

With several ranks it is DistributedDataParallel over Gloo, one process and one
thread a rank. `measure` also tells the milliseconds of each step and the memory.
"""

import dataclasses
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "Inputs")]
import checks  # noqa: E402
import sampler  # noqa: E402
from mpcomm_import.torch_front.workload import call  # noqa: E402
from programs import read_losses, run  # noqa: E402


# What PyTorch 2.13 now and then hangs in freeing: the destructor of a group of Gloo waits
# with Python's lock for a thread that waits for that lock.
KEPT = []


@dataclasses.dataclass
class Way:
    """How one and the same step is computed: all of these are equal but for
    rounding."""

    ranks: int = 1          # processes under DistributedDataParallel
    double: bool = False    # in f64
    reverse: bool = False   # samples of a batch in the opposite order
    slices: int = 1         # gradients of slices of the batch, averaged
    autocast: bool = False  # forward pass under autocast, in bf16
    native: bool = False    # convolutions by PyTorch's own code, not by oneDNN
    compiled: bool = False  # by torch.compile
    moved: int = 0          # with this seed: parameters moved by at most a unit in the last place
    shuffle: bool = True    # samples as mpcomm-run takes them without --no-shuffle

    @property
    def label(self):
        label = "f64" if self.double else \
            f"DDP, {self.ranks} ranks" if self.ranks > 1 else \
            "reversed batch" if self.reverse else \
            f"{self.slices} slices" if self.slices > 1 else "one process"
        return label + (", autocast" if self.autocast else "") + \
            (", native" if self.native else "") + (", compiled" if self.compiled else "") + \
            (f", moved {self.moved}" if self.moved else "")


def distributed(workload):
    """DistributedDataParallel at its best: gradients are views of buckets."""
    from torch.nn.parallel import DistributedDataParallel
    net = workload.model
    masks = [n for n, b in net.named_buffers() if b.dtype == torch.bool]
    # Gloo broadcasts no booleans; all ranks build the same ones.
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, masks)
    trained = {id(p) for g in workload.optimizer.param_groups for p in g["params"]}
    for p in net.parameters():
        p.requires_grad_(p.requires_grad and id(p) in trained)
    return DistributedDataParallel(net, broadcast_buffers=False, static_graph=True,
                                   gradient_as_bucket_view=True)


def move(net, seed):
    """Each element of the parameters by -1, 0 or 1 unit in the last place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            where = torch.randint(-1, 2, p.shape, generator=generator)
            p.copy_(torch.where(where == 0, p, torch.nextafter(p, where * torch.inf)))


def run_rank(model, options, size, steps, way, rank):
    """{"losses", "ms", "peak"} of a rank: the losses of the global batch, milliseconds
    of each step, bytes of memory."""
    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(not way.native)
    workload = checks.example(model, **options)
    if way.double:
        checks.in_double(workload)
    data, net = workload.dataset, workload.model.train()
    if way.moved:
        move(net, way.moved)
    if way.ranks > 1:
        torch.distributed.init_process_group("gloo")
        net = distributed(workload)
    if way.compiled:
        net = torch.compile(net)
    samples = len(next(iter(data.values())))
    order = sampler.Sampler(samples, size) if way.shuffle else sampler.InOrder(samples, size)
    part = size // way.ranks
    losses, ms = [], []
    for step in range(steps):
        start = time.perf_counter()
        indices = order[step][rank * part:(rank + 1) * part]
        indices = torch.tensor(indices[::-1] if way.reverse else indices)
        workload.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for chunk in indices.chunk(way.slices):
            with torch.autocast("cpu", torch.bfloat16, enabled=way.autocast):
                batch = {k: t[chunk] for k, t in data.items()}
                loss, _ = workload.losses(call(net, workload.inputs, batch), batch)
            (loss / way.slices if way.slices > 1 else loss).backward()
            total += loss.item() / way.slices
        workload.optimizer.step()
        losses.append(total)
        ms.append(1000 * (time.perf_counter() - start))
    if way.ranks > 1:
        mean = torch.tensor(losses, dtype=torch.float64)
        torch.distributed.all_reduce(mean)
        losses = (mean / way.ranks).tolist()
        KEPT.append(net)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"losses": losses, "ms": ms, "peak": peak}


def train(model, options, size, steps, way):
    return measure(model, options, size, steps, way)["losses"]


def measure(model, options, size, steps, way, limit=240):
    if way.ranks == 1:
        return run_rank(model, options, size, steps, way, 0)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "result")
        job = json.dumps([model, options, size, steps, dataclasses.asdict(way), out])
        env = dict(os.environ, WORLD_SIZE=str(way.ranks), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), job],
                                  env=dict(env, RANK=str(r))) for r in range(way.ranks)]
        try:
            # The results are rank 0's.
            end = time.monotonic() + limit
            while ranks[0].poll() is None:
                if any(process.poll() for process in ranks) or time.monotonic() > end:
                    break
                time.sleep(0.02)
            if ranks[0].returncode != 0:
                raise RuntimeError(f"PyTorch ranks ended with {[r.returncode for r in ranks]}")
        finally:
            for process in ranks:
                process.kill()
        with open(out) as file:
            return json.load(file)


def distance(a, b):
    return [abs(x - y) for x, y in zip(a, b)]


def reference(model, options, size, steps, exact, ways):
    """The losses by way `exact`, and how far from them the other ways are in the steps around each."""
    losses = train(model, options, size, steps, exact)
    assert losses[-1] < losses[0], "the loss does not fall"
    band = [0.0] * steps
    for way in ways:
        d = distance(train(model, options, size, steps, way), losses)
        print(f"{model}: PyTorch, {way.label}: at most {max(d):.3g} from f64")
        band = [max(a, b) for a, b in zip(band, d)]
    return losses, [max(band[max(s - 4, 0):s + 5]) for s in range(steps)]


def import_example(tool, model, options, batch, stem):
    flags = [f"-O{k}={v}" for k, v in options.items()]
    run(tool, os.path.join(checks.EXAMPLES, model + ".py"), *flags, "--batch", batch,
        "-o", stem + ".mlir", "--weights", stem + ".w", "--data", stem + ".d")


def run_example(tool, program, ranks, steps, stem):
    """Losses of our program, or of our graph, on what was imported as `stem`."""
    run(tool, program, "--np", ranks, "--weights", stem + ".w", "--data", stem + ".d",
        "--steps", steps, "--quiet", "--log", stem + ".log", limit=240)
    return read_losses(stem + ".log")


if __name__ == "__main__":
    *args, way, out = json.loads(sys.argv[1])
    rank = int(os.environ["RANK"])
    result = run_rank(*args, Way(**way), rank)
    if rank == 0:
        with open(out, "w") as file:
            json.dump(result, file)
    sys.stdout.flush()
    os._exit(0)
