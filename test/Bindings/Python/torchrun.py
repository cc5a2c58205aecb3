# Examples under torchrun on 2 ranks: the script for DistributedDataParallel and the one that
# was changed to train by a program have the same losses, and the change is at most 15 lines.
# By default the GPT of docs/examples/nanogpt; gpt2 and llama are those of transformers.
#
# REQUIRES: torch, compiler, gloo
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t 30

import difflib
import json
import math
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3)
folder, steps, name = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or ["nanogpt"])[0]
EXAMPLE = os.path.join(ROOT, "docs", "examples",
                       "nanogpt" if name == "nanogpt" else "transformers")
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"), EXAMPLE]
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from train_ddp import Text
from training import compare, reference

RANKS, BATCH, CONTEXT, LR = 2, 8, 64, 1e-3


def run(script):
    """Losses, milliseconds of each step, and the model that a script leaves."""
    losses, weights = (os.path.join(folder, script + end) for end in (".losses", ".pt"))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(RANKS)]
    if torch.__version__ < "2":  # Debian's fails on Python 3.11 where output is not redirected
        command += ["--redirects", "1", "--tee", "1"]
    done = subprocess.run(
        [*command, os.path.join(EXAMPLE, script), "--steps", str(steps), "--losses", losses,
         "--save", weights, "--batch", str(BATCH), "--context", str(CONTEXT), "--lr", str(LR),
         *([] if name == "nanogpt" else ["--model", name])],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300 + 10 * steps)
    if done.returncode:
        sys.exit(f"{script}: status {done.returncode}\n{done.stdout}")
    lines = [json.loads(line) for line in open(losses)]
    ms = sorted(line["ms"] for line in lines[1:])
    return [line["loss"] for line in lines], ms[len(ms) // 2], torch.load(weights)


def tensors(batch):
    return list(batch.values()) if isinstance(batch, dict) else batch


def batches():
    """The global batches of the scripts: those of the ranks, one after the other."""
    dataset = Text("/usr/share/common-licenses/*", CONTEXT)
    samplers = [DistributedSampler(dataset, RANKS, r, seed=1) for r in range(RANKS)]
    result, epoch = [], 0
    while len(result) < steps:
        for sampler in samplers:
            sampler.set_epoch(epoch)
        loaders = [DataLoader(dataset, BATCH, sampler=s, drop_last=True) for s in samplers]
        result += [[torch.cat(t) for t in zip(*map(tensors, parts))] for parts, _ in
                   zip(zip(*loaders), range(steps - len(result)))]
        epoch += 1
    return result


def model_of():
    torch.manual_seed(1)
    if name == "nanogpt":
        from model import GPT
        return GPT(context=CONTEXT)
    from train_ddp import make
    return make(name, CONTEXT)


def loss_of(model, batch):
    if name == "nanogpt":
        return model(*batch)[1]
    return model(input_ids=batch[0], labels=batch[1]).loss


def optimizer(parameters):
    betas = {"betas": (0.9, 0.95)} if name == "nanogpt" else {}
    return torch.optim.AdamW(parameters, lr=LR, weight_decay=0.1, **betas)


def schedule(rule):
    warmup = max(1, steps // 20)
    if name == "nanogpt":
        return torch.optim.lr_scheduler.LambdaLR(rule, lambda step: min(
            (step + 1) / warmup, 0.5 + 0.5 * math.cos(math.pi * step / steps)))
    import transformers
    return transformers.get_linear_schedule_with_warmup(rule, warmup, steps)


scripts = [open(os.path.join(EXAMPLE, s)).read().split('"""', 2)[2].splitlines()
           for s in ("train_ddp.py", "train_mpcomm.py")]
diff = [line for line in difflib.ndiff(*scripts) if line[:2] in ("+ ", "- ")]
added = sum(line[0] == "+" for line in diff)
print("\n".join(diff))
print(f"{added} lines added, {len(diff) - added} removed")
assert max(added, len(diff) - added) <= 15

theirs, their_ms, their_model = run("train_ddp.py")
ours, our_ms, our_model = run("train_mpcomm.py")
exact, bound = reference(model_of(), loss_of, optimizer, batches(), RANKS * BATCH * CONTEXT,
                         others=[theirs], clip=1.0, schedule=schedule)
compare("PyTorch", theirs, exact, bound)
compare("mpcomm", ours, exact, bound)
assert exact[-1] < exact[0]
print(f"milliseconds a step, median: PyTorch {their_ms:.1f}, mpcomm {our_ms:.1f}")
assert list(our_model) == list(their_model)
model_of().load_state_dict(our_model)  # strictly
