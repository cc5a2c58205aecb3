# ===- ray_train.py - workers of Ray Train as ranks ------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Learns handwritten digits on workers of Ray Train, which are the ranks of a session:

    python3 ray_train.py --workers 2
"""

import argparse
import os
import tempfile

import mpcomm
import ray.train
import torch
import torch.nn as nn
import torch.nn.functional as F
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader, DistributedSampler
from train_digits import digits


# [worker]
def train(config):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    sampler = DistributedSampler(digits())
    loader = DataLoader(digits(), batch_size=32, sampler=sampler, drop_last=True)

    program = mpcomm.compile(model, F.cross_entropy, optimizer, next(iter(loader)))
    with mpcomm.Session(program) as session, tempfile.TemporaryDirectory() as folder:
        checkpoint = ray.train.get_checkpoint()
        if checkpoint:  # after a failure
            with checkpoint.as_directory() as saved:
                session.resume(saved)
        first = session.steps // len(loader)
        for epoch in range(first, config["epochs"]):
            sampler.set_epoch(epoch)
            loss = sum(session.step(batch) for batch in loader) / len(loader)
            session.save(os.path.join(folder, ""))
            ray.train.report(
                {"epoch": epoch + 1, "loss": loss, "world": session.size},
                checkpoint=ray.train.Checkpoint.from_directory(folder)
                if session.rank == 0 else None)
# [end]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--storage", help="folder for results; default: Ray's")
    arguments = parser.parse_args()
    trainer = TorchTrainer(
        train, train_loop_config={"lr": 1e-3, "epochs": arguments.epochs},
        scaling_config=ray.train.ScalingConfig(num_workers=arguments.workers),
        run_config=ray.train.RunConfig(
            storage_path=arguments.storage,
            failure_config=ray.train.FailureConfig(max_failures=1)))
    result = trainer.fit()
    print(f"{result.metrics['world']} ranks, epoch {result.metrics['epoch']}: "
          f"loss {result.metrics['loss']:.4f}")
