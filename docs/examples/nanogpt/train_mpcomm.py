# ===- train_mpcomm.py - trains the GPT by a compiled program -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains a GPT on text, byte by byte:

    torchrun --nproc_per_node 2 train_mpcomm.py --steps 200

It is train_ddp.py, changed to train by a compiled program.
"""

import argparse
import glob
import json
import math
import time

import mpcomm
import torch
from model import GPT
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Text(Dataset):
    """Windows of `context` bytes of files, and the same one byte later."""

    def __init__(self, pattern, context):
        text = b"\n".join(open(path, "rb").read() for path in sorted(glob.glob(pattern)))
        self.bytes, self.context = torch.tensor(list(text)), context

    def __len__(self):
        return (len(self.bytes) - 1) // self.context

    def __getitem__(self, i):
        window = self.bytes[i * self.context:(i + 1) * self.context + 1]
        return window[:-1], window[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", default="/usr/share/common-licenses/*")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8, help="samples of a rank")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--losses", default="/dev/null")
    parser.add_argument("--save", default="/dev/null")
    args = parser.parse_args()

    torch.distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    dataset = Text(args.text, args.context)
    sampler = DistributedSampler(dataset, seed=1)
    loader = DataLoader(dataset, args.batch, sampler=sampler, drop_last=True)

    torch.manual_seed(1)
    model = GPT(context=args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95),
                                  weight_decay=0.1)
    warmup = max(1, args.steps // 20)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, 0.5 + 0.5 * math.cos(
            math.pi * step / args.steps)))
    program = mpcomm.compile(model, lambda output: output[1], optimizer, next(iter(loader)),
                             inputs=(0, 1), targets=(), clip_norm=1.0)
    session = mpcomm.Session(program, lr=scheduler)
    step, epoch, start = 0, 0, time.perf_counter()
    with open(args.losses if rank == 0 else "/dev/null", "w") as log:
        while step < args.steps:
            sampler.set_epoch(epoch)
            for tokens, targets in loader:
                loss = session.step((tokens, targets))
                scheduler.step()
                step += 1
                now = time.perf_counter()
                print(json.dumps({"step": step, "loss": float(loss),
                                  "ms": 1000 * (now - start)}), file=log)
                start = now
                if rank == 0 and step % 20 == 0:
                    print(f"step {step}: loss {float(loss):.4f}")
                if step == args.steps:
                    break
            epoch += 1
    if rank == 0:
        torch.save(session.state_dict(), args.save)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
