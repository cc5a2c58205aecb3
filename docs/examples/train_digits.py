# ===- train_digits.py - training from Python, in one page ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Learns handwritten digits with mpcomm from Python:

    python3 train_digits.py                          # one rank
    python3 train_digits.py --ranks 2                # two, started here
    torchrun --nproc_per_node 2 train_digits.py      # two, started by torchrun
"""

import argparse

import mpcomm
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def digits():
    data = load_digits()
    pixels = torch.tensor(data.data, dtype=torch.float32) / 16
    return TensorDataset(pixels, torch.tensor(data.target))


# [train]
def train(ranks=None, steps=100):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(digits(), batch_size=32, shuffle=True, drop_last=True)

    program = mpcomm.compile(model, F.cross_entropy, optimizer, next(iter(loader)),
                             mesh=f"dp:{ranks}" if ranks else None)
    with mpcomm.Session(program) as session:
        torch.manual_seed(session.data_rank)  # each rank shuffles in its own order
        while session.steps < steps:
            for batch in loader:
                loss = session.step(batch)
                if session.steps % 20 == 0 and session.rank == 0:
                    print(f"step {session.steps}: loss {loss:.4f}", flush=True)
                if session.steps == steps:
                    break
        model.load_state_dict(session.state_dict())
        optimizer.load_state_dict(session.optimizer_state_dict())

    pixels, labels = digits().tensors
    right = (model(pixels).argmax(1) == labels).float().mean().item()
    return right
# [end]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, help="ranks to start here")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.ranks:
        results = mpcomm.launch(train, np=arguments.ranks,
                                args=(arguments.ranks, arguments.steps))
    else:
        results = [train(steps=arguments.steps)]
    print(f"{100 * results[0]:.1f} % of the digits are recognised")
