# ===- workload.py - a training set-up of PyTorch --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The Workload: a model, its loss, its optimizer and its data.

A model file defines `workload(...)`, whose keyword arguments are the options it
understands and which returns a Workload.
"""

import dataclasses
from typing import Callable, Dict, Optional, Sequence

import torch

from .errors import ImportFailure
from .model_file import TrainingSetup


@dataclasses.dataclass
class Workload(TrainingSetup):
    """One training set-up.

    model          a torch.nn.Module that returns one tensor
    loss           loss(output, *targets) -> a tensor of one element
    optimizer      a torch.optim.SGD or AdamW over parameters of the model; its
                   hyper-parameters and parameter groups are read
    batch          samples in a step of one rank
    dataset        {name: tensor}; the first dimension counts samples
    eval_dataset   the same for held-out samples, or None
    inputs         names of the dataset that the model takes, in order; default:
                   the first
    targets        names that the loss takes, in order; default: the others
    name           of the program; default: the model file's
    """

    model: torch.nn.Module
    loss: Callable
    optimizer: torch.optim.Optimizer
    batch: int
    dataset: Dict[str, torch.Tensor]
    eval_dataset: Optional[Dict[str, torch.Tensor]] = None
    inputs: Optional[Sequence[str]] = None
    targets: Optional[Sequence[str]] = None
    name: str = ""

    def __post_init__(self):
        names = list(self.dataset)
        self.inputs = list(self.inputs if self.inputs is not None else names[:1])
        self.targets = list(self.targets if self.targets is not None else
                            [n for n in names if n not in self.inputs])

    def check(self):
        if not isinstance(self.model, torch.nn.Module):
            raise ImportFailure("expected `model` to be a torch.nn.Module, found "
                                f"{type(self.model).__name__}")
        if not isinstance(self.batch, int) or self.batch < 1:
            raise ImportFailure(f"expected a batch of at least 1, found {self.batch}")
        for name in self.inputs + self.targets:
            if name not in self.dataset:
                raise ImportFailure(f"the dataset has no tensor named '{name}'; it "
                                    f"has {', '.join(self.dataset) or 'none'}")
        for kind, data in (("dataset", self.dataset),
                           ("evaluation dataset", self.eval_dataset)):
            if data is not None:
                self.check_dataset(kind, data)

    def check_dataset(self, kind, data):
        if list(data) != list(self.dataset):
            raise ImportFailure(f"expected the {kind} to have the tensors "
                                f"{', '.join(self.dataset)}, found {', '.join(data)}")
        counts = {}
        for name, tensor in data.items():
            if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
                raise ImportFailure(f"{kind} '{name}': expected a tensor whose first "
                                    "dimension counts samples")
            if tensor.dtype == torch.uint8:
                raise ImportFailure(f"{kind} '{name}': no tensors of uint8; convert "
                                    "to float32 or int64")
            if tensor.shape[1:] != self.dataset[name].shape[1:] or \
                    tensor.dtype != self.dataset[name].dtype:
                raise ImportFailure(f"{kind} '{name}': samples differ in shape or type "
                                    "from the training set's")
            counts[name] = len(tensor)
        if len(set(counts.values())) > 1:
            raise ImportFailure(f"{kind}: numbers of samples differ: " + ", ".join(
                f"{n} has {k}" for n, k in counts.items()))
        if min(counts.values()) < self.batch:
            raise ImportFailure(f"{kind}: expected at least one batch of {self.batch} "
                                f"samples, found {min(counts.values())}")

    def translate(self):
        from .importer import import_workload
        return import_workload(self)

    def replace_optimizer(self, kind, options):
        from .optimizers import replace_optimizer
        replace_optimizer(self, kind, options)

    def example(self, name):
        """A batch of the data to trace with."""
        return self.dataset[name][:self.batch].clone()


class StateNames:
    """The tensors of a model under the names PyTorch gives them.

    A tensor that is in two places (tied weights) has the first of its
    names. `trained` are the names that the optimizer updates; those parameters
    that it does not are treated as buffers.
    """

    def __init__(self, model, optimizer):
        self.parameters = list(model.named_parameters())
        self.buffers = list(model.named_buffers())
        name_of = {id(p): n for n, p in self.parameters}
        self.trained = set()
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) not in name_of:
                    raise ImportFailure("the optimizer has a parameter of shape "
                                        f"{tuple(p.shape)} that is not the model's")
                if p.requires_grad:
                    self.trained.add(name_of[id(p)])
