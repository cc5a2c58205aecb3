# ===- train_mpcomm.py - trains models of transformers by a program --------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains a small GPT-2 or Llama of transformers on text, byte by byte:

    torchrun --nproc_per_node 2 train_mpcomm.py --model llama --steps 200

It is train_ddp.py, changed to train by a compiled program.
"""

import argparse
import glob
import json
import time

import mpcomm
import torch
import transformers
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Text(Dataset):
    """Windows of `context` bytes of files. The models shift the labels."""

    def __init__(self, pattern, context):
        text = b"\n".join(open(path, "rb").read() for path in sorted(glob.glob(pattern)))
        self.windows = torch.tensor(list(text[:len(text) // context * context])).view(-1, context)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        return {"input_ids": self.windows[i], "labels": self.windows[i]}


def make(name, context):
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=256, n_positions=context, n_embd=64, n_layer=2, n_head=4,
            attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=context))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["gpt2", "llama"], default="gpt2")
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
    model = make(args.model, args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    scheduler = transformers.get_linear_schedule_with_warmup(
        optimizer, max(1, args.steps // 20), args.steps)
    program = mpcomm.compile(model, None, optimizer, next(iter(loader)), clip_norm=1.0)
    session = mpcomm.Session(program, lr=scheduler)
    step, epoch, start = 0, 0, time.perf_counter()
    with open(args.losses if rank == 0 else "/dev/null", "w") as log:
        while step < args.steps:
            sampler.set_epoch(epoch)
            for batch in loader:
                loss = session.step(batch)
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
