# ===- ddp_rank.py - a rank of PyTorch's training ------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains a workload by DistributedDataParallel, FSDP2 or DeepSpeed over Gloo and times its steps.

The workload comes from a file that `save` makes, so that what a model file needs
to read its data is not in the memory of the training.

Words of a configuration: `view` (gradients are views of the buckets, the best
setting), `plain` (they are not), `foreach` (the optimizer's multi-tensor form),
`tcmalloc` and `lean` (another malloc, and malloc as it is: measure.py), `alone` (the ranks do not communicate: what sharing
the machine costs by itself), `cap4` (buckets of 4 MiB rather than 25), `fp16`, `bf16` (gradients travel as 16-bit floats),
`powersgd2` (as products of matrices of rank 2, by PyTorch's hook),
`amp` (forward pass and loss under autocast to bf16). Of PyTorch 2: `fsdp` (FSDP2: ranks hold parts of parameters and of the
optimizer's state; each layer is a group, and so is the rest), and with it `keep` (what was gathered for the forward pass
stays for the backward pass) and `bf16` (it is gathered, and computed with, in bf16; gradients are reduced in f32);
`zero1`, `zero2`, `zero3` (DeepSpeed's stages), with `bf16`, too (all of the model is bf16, with f32 master weights).

A job with `local` steps runs so many more after the others without communication: what a step takes in these processes
while nothing waits for the network. Those of FSDP2 and DeepSpeed are steps of the whole model, with all of the update.
"""

import json
import os
import socket
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4)
sys.path.insert(0, os.path.join(ROOT, "tools", "mpcomm-import"))
sys.path.insert(0, os.path.join(ROOT, "test", "Integration", "PyTorch", "Inputs"))


def save(model_file, options, path):
    """Writes the workload of a model file, in a process of its own."""
    job = json.dumps({"file": model_file, "options": options, "save": path})
    subprocess.run([sys.executable, os.path.abspath(__file__), job], check=True)


def launch(job, ranks, env, timeout):
    """One process a rank; RuntimeError if one fails."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(env, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
               MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    processes = [subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), json.dumps(job)],
        env=dict(env, RANK=str(r))) for r in range(ranks)]
    end = time.time() + timeout
    try:
        for process in processes:
            if process.wait(timeout=max(1, end - time.time())):
                raise RuntimeError(f"a rank of PyTorch ended with {process.returncode}")
    finally:
        for process in processes:
            process.kill()


def peak_mb():
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024 * 1.048576


def shard(net, optimizer, words):
    """FSDP2 of a model; its optimizer."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) \
        if "bf16" in words else MixedPrecisionPolicy()
    name_of = {p: n for n, p in net.named_parameters()}
    groups = [dict(group, params=[name_of[p] for p in group["params"]])
              for group in optimizer.param_groups]
    for module in list(net.modules()):
        if isinstance(module, torch.nn.ModuleList):
            for layer in module:
                fully_shard(layer, mp_policy=policy, reshard_after_forward="keep" not in words)
    fully_shard(net, mp_policy=policy)
    named = dict(net.named_parameters())
    return type(optimizer)([dict(group, params=[named[n] for n in group["params"]])
                            for group in groups])


class Engine:
    """DeepSpeed's in the places of a model and of its optimizer."""

    def __init__(self, workload, words, batch):
        os.environ["DS_ACCELERATOR"] = "cpu"
        import deepspeed
        stage = next(int(word[-1]) for word in words if word.startswith("zero"))
        self.engine = deepspeed.initialize(
            model=workload.model, optimizer=workload.optimizer, dist_init_required=False,
            config={"train_micro_batch_size_per_gpu": batch, "gradient_accumulation_steps": 1,
                    "zero_optimization": {"stage": stage, "overlap_comm": True},
                    "zero_allow_untested_optimizer": True, "bf16": {"enabled": "bf16" in words}})[0]
        self.backward, self.step = self.engine.backward, self.engine.step

    def __call__(self, *inputs):
        return self.engine(*inputs).float()

    def zero_grad(self, set_to_none):
        pass  # step() does it


def main(job):
    import torch
    sys.path.insert(0, os.path.dirname(job["file"]))
    if "save" in job:
        import mpcomm_import as mi
        torch.save(mi.load_workload(job["file"], job["options"]), job["save"])
        return
    import sampler
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    rank, ranks, words = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), job["words"]
    torch.distributed.init_process_group("gloo")
    # From 2.6 on torch.load reads only tensors unless it is told otherwise.
    kwargs = {} if torch.__version__.startswith("1.") else {"weights_only": False}
    workload = torch.load(job["workload"], **kwargs)
    net = workload.model.train()
    if "foreach" in words:
        for group in workload.optimizer.param_groups:
            group["foreach"] = True
    is_deepspeed = any(word.startswith("zero") for word in words)
    if is_deepspeed:
        net = workload.optimizer = Engine(workload, words, job["batch"])
    elif "fsdp" in words:
        workload.optimizer = shard(net, workload.optimizer, words)
    elif "alone" not in words:
        from torch.nn.parallel import DistributedDataParallel
        masks = [n for n, b in net.named_buffers() if b.dtype == torch.bool]
        # Gloo broadcasts no booleans; all ranks build the same ones.
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, masks)
        cap = [int(w[3:]) for w in words if w.startswith("cap")] + [25]
        net = DistributedDataParallel(net, broadcast_buffers=False, bucket_cap_mb=cap[0],
                                      gradient_as_bucket_view="view" in words)
        for word in {"fp16", "bf16"}.intersection(words):
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
            hook = getattr(default_hooks, word + "_compress_hook")
            # Of its own bf16 hook DDP asks for NCCL.
            net.register_comm_hook(None, lambda state, bucket, hook=hook: hook(state, bucket))
        for word in words:
            if word.startswith("powersgd"):
                # The first steps of the hook send whole gradients; the least that it takes.
                from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hook
                net.register_comm_hook(hook.PowerSGDState(
                    None, matrix_approximation_rank=int(word[8:] or 1),
                    start_powerSGD_iter=2), hook.powerSGD_hook)
    data, batch = workload.dataset, job["batch"]
    order = sampler.Sampler(len(data["x"]), batch * ranks)
    first, *rest = workload.inputs + workload.targets
    local = job.get("local", 0)
    indices = [torch.tensor(order[s][rank * batch:(rank + 1) * batch])
               for s in range(job["steps"] + job["warmup"] + local)]
    times, losses, peak = [], [], 0
    torch.distributed.barrier()
    last = time.perf_counter()
    for step, index in enumerate(indices):
        if local and step == len(indices) - local:
            torch.distributed.barrier()
            peak = peak_mb()
            if is_deepspeed or "fsdp" in words:
                is_deepspeed = False
                workload = torch.load(job["workload"], **kwargs)
                net = workload.model.train()
                if "bf16" in words:
                    net = net.bfloat16()
                # The optimizer makes its state in the first step.
                workload.loss(net(data[first][index]), *[data[k][index] for k in rest]).backward()
                workload.optimizer.step()
            net.require_backward_grad_sync = False  # what no_sync() does
            last = time.perf_counter()
        workload.optimizer.zero_grad(set_to_none="view" not in words)
        with torch.autocast("cpu", torch.bfloat16, enabled="amp" in words):
            output = net(data[first][index])
            loss = workload.loss(output, *[data[k][index] for k in rest])
        (net.backward if is_deepspeed else torch.Tensor.backward)(loss)
        workload.optimizer.step()
        losses.append(loss.detach())
        now = time.perf_counter()
        times.append((now - last) * 1e3)
        last = now
    together = len(times) - local
    means = torch.stack(losses[:together]).double() / ranks
    torch.distributed.all_reduce(means)
    torch.distributed.barrier()
    with open(f"{job['out']}.{rank}", "w") as file:
        json.dump({"ms": times[job["warmup"]:together], "local_ms": times[together:],
                   "loss": [means[0].item(), means[-1].item()], "peak_mb": peak or peak_mb(),
                   "curve": list(zip(times[:together], means.tolist()))}, file)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
