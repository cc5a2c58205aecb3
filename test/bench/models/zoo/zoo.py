# ===- zoo.py - the models of the scoreboard, one workload each -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Models that people train, written as they write them, with random weights and data.

    mpcomm-import test/bench/models/zoo/zoo.py -O model=gpt2 -o step.mlir …
    python zoo.py [--check] [name or family …]     # lists, or runs, what there is

Sizes are small (some hundred features, a few layers, images of 64 pixels), so that a
step takes a second; depth and structure are the architecture's. With -O dropout=false
nothing that the model drops by chance is dropped, so that numbers can be compared; with
-O double=true model and data are in f64.
"""

import argparse
import os
import sys
import time

import torch

import families
# Each registers its models.
import torchvision_models  # noqa: F401
import transformers_models  # noqa: F401
import timm_models  # noqa: F401
import networks  # noqa: F401
import tasks  # noqa: F401
from families import MODELS, missing

# What chances to drop are called by torch, torchvision, timm and transformers.
CHANCE = ("drop", "jitter", "mask_time_prob")


def without_chance(model):
    """Sets every chance to drop to 0: those of modules, and those that their forward
    reads from attributes or a configuration."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) or \
                type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        for holder in (module, getattr(module, "config", None)):
            for name, value in list(vars(holder or argparse.Namespace()).items()):
                if isinstance(value, float) and any(word in name for word in CHANCE):
                    setattr(holder, name, 0.0)
    return model


def workload(model="resnet18", dropout=True, double=False):
    made = MODELS[model].make()
    made.name = model
    if not dropout:
        without_chance(made.model)
    if double:
        sys.path.append(os.path.join(families.ROOT, "test", "Integration", "PyTorch", "Inputs"))
        from checks import in_double
        in_double(made)
    return made


def one_loss(made):
    batch = {name: tensor[:made.batch] for name, tensor in made.dataset.items()}
    made.model.train()
    return made.losses(made.forward(batch), batch)[0]


def check(entry):
    """Two losses of one batch, forward passes in training mode, are equal but where
    the model draws random numbers."""
    start = time.time()
    torch.manual_seed(0)
    made = workload(entry.name, dropout=False)
    # Running statistics may move between the two; the loss does not depend on them.
    loss, again = one_loss(made), one_loss(made)
    loss.backward()
    with_gradient = [p for g in made.optimizer.param_groups for p in g["params"]
                     if p.grad is not None]
    assert with_gradient and loss.dim() == 0, loss
    assert entry.random or torch.equal(loss, again), (loss, again)
    size = sum(p.numel() for p in made.model.parameters())
    print(f"{entry.name}: loss {loss.item():.4f}, {size / 1e6:.2f} M parameters, "
          f"{time.time() - start:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models or families; default: all")
    parser.add_argument("--check", action="store_true", help="run one step of each")
    arguments = parser.parse_args()
    failed = 0
    for entry in families.chosen(arguments.names):
        lacks = missing(entry)
        if lacks or not arguments.check:
            print(entry.name, "|", entry.family, f"| needs {lacks}" if lacks else "")
            continue
        try:
            check(entry)
        except Exception as error:  # each model on its own
            failed += 1
            text = str(error).strip().splitlines() or [""]
            print(f"{entry.name}: {type(error).__name__}: {text[0]}", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
