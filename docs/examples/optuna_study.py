# ===- optuna_study.py - a search for batch size and learning rate ---------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Searches with Optuna for the batch size and the learning rate that learn handwritten
digits best in a few steps:

    python3 optuna_study.py --trials 12

A batch size is another program, which is compiled once; a learning rate is not.
"""

import argparse

import mpcomm
import optuna
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, random_split
from train_digits import digits

SAMPLES = 3200  # that every trial sees


# [objective]
def objective(trial):
    batch = trial.suggest_categorical("batch", [16, 32, 64])
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)

    torch.manual_seed(0)
    train_set, test_set = random_split(digits(), [1400, 397])
    loader = DataLoader(train_set, batch, shuffle=True, drop_last=True)
    held_out = DataLoader(test_set, batch)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters())

    program = mpcomm.compile(model, F.cross_entropy, optimizer, next(iter(loader)))
    with mpcomm.Session(program, lr=mpcomm.Cosine(lr, SAMPLES // batch)) as session:
        while session.steps < SAMPLES // batch:
            for samples in loader:
                session.step(samples)
                if session.steps == SAMPLES // batch:
                    break
            loss = session.evaluate(held_out)["loss"]
            trial.report(loss, session.steps * batch)
            if trial.should_prune():
                raise optuna.TrialPruned
    return loss
# [end]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=12)
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize",
                                sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=arguments.trials)
    for trial in study.trials:
        print(f"trial {trial.number}: batch {trial.params['batch']}, "
              f"lr {trial.params['lr']:.5f}, {trial.state.name.lower()}, "
              f"loss {trial.value if trial.value is not None else float('nan'):.4f}")
    print(f"best: batch {study.best_params['batch']}, lr {study.best_params['lr']:.5f}, "
          f"loss {study.best_value:.4f}")
