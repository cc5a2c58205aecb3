# ===- families.py - the registry of the zoo ------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""name -> Entry, and what the models share: data, and usual losses and optimizers."""

import dataclasses
import functools
import importlib
import os
import sys
from typing import Callable

import torch
import torch.nn.functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4)
try:
    import mpcomm_import as mi
except ImportError:  # PyTorch alone: the module of the source tree
    sys.path.insert(0, os.path.join(ROOT, "tools", "mpcomm-import"))
    import mpcomm_import as mi

MODELS = {}
SAMPLES = 32  # of a dataset


@dataclasses.dataclass
class Entry:
    """`needs`: the package that has the model. `random`: it draws numbers in a step
    even without dropout, so that PyTorch's losses are others. `ordered`: the order of the
    samples of a batch matters."""

    name: str
    family: str
    make: Callable
    needs: str = ""
    random: bool = False
    ordered: bool = False


def model(family, name=None, needs="", **marks):
    """Registers a function that makes the Workload `name`."""
    def register(function):
        known = name or function.__name__.replace("_", "-")
        assert known not in MODELS, known
        MODELS[known] = Entry(known, family, function, needs, **marks)
        return function
    return register


@functools.lru_cache(None)
def load(package):
    """A package; None where this Python has none, or not in a version that works.

    PyPI's torchvision is built for GPUs: beside PyTorch for processors its library is
    not loaded, and registering the shapes of its operators fails because these are not
    declared. None of the models here uses them.
    """
    if package in ("torchvision", "timm", "transformers"):
        try:
            importlib.import_module("torchvision")
        except ImportError:
            pass
        except RuntimeError:
            for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "DEF")
            library.define("nms(Tensor dets, Tensor scores, float threshold) -> Tensor")
            library.define("qnms(Tensor dets, Tensor scores, float threshold) -> Tensor")
            load.kept = library
    try:
        return importlib.import_module(package)
    except ImportError:
        return None


def missing(entry):
    """What an entry needs and this Python does not have, or ""."""
    return entry.needs if entry.needs and load(entry.needs) is None else ""


def chosen(names):
    """Entries by their names or families, in that order."""
    unknown = [n for n in names if n not in MODELS and
               n not in {e.family for e in MODELS.values()}]
    if unknown:
        sys.exit(f"zoo: no model or family {', '.join(unknown)}")
    found = [e for n in names for e in MODELS.values() if n in (e.name, e.family)]
    return list({e.name: e for e in found}.values()) if names else list(MODELS.values())


# Data that a model can learn something of in a few steps: labels depend on the samples.

def labels(x, classes):
    """A class for each sample of `x`, by the sign of sums of its elements."""
    flat = x.float().flatten(1)
    return (flat @ torch.randn(flat.shape[1], classes)).argmax(1)


def images(pixels, channels=3, classes=10, samples=SAMPLES):
    size = pixels if isinstance(pixels, tuple) else (pixels, pixels)
    x = torch.randn(samples, channels, *size)
    return {"x": x, "y": labels(x, classes)}


def text(length, vocabulary, samples=SAMPLES):
    """Tokens with a pattern: most are the one before, plus one."""
    start = torch.randint(vocabulary, (samples, 1))
    line = (start + torch.arange(length)) % vocabulary
    noise = torch.randint(vocabulary, line.shape)
    return torch.where(torch.rand(line.shape) < 0.2, noise, line)


def padding(length, samples=SAMPLES):
    """1 for tokens, 0 behind the end of a line."""
    ends = torch.randint(length // 2, length + 1, (samples, 1))
    return (torch.arange(length) < ends).long()


# What people train with.

def sgd(net, lr=0.01, momentum=0.9, weight_decay=1e-4):
    return torch.optim.SGD(net.parameters(), lr, momentum, weight_decay=weight_decay)


def adamw(net, lr=1e-3, weight_decay=0.01):
    """No decay for biases and norms."""
    decayed = [p for p in net.parameters() if p.requires_grad and p.dim() > 1]
    others = [p for p in net.parameters() if p.requires_grad and p.dim() <= 1]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": weight_decay},
                              {"params": others, "weight_decay": 0.0}], lr=lr)


def tokens_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def classifier(net, data, batch=4, optimizer=None, loss=F.cross_entropy):
    return mi.Workload(model=net, loss=loss, optimizer=optimizer or sgd(net), batch=batch,
                       dataset=data)
