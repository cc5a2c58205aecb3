# ===- workload.py - what a user hands to the importer ---------------------=== #
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

import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import inspect
import os
import random
import sys
import traceback
from typing import Callable, Dict, Optional, Sequence

import torch

from .errors import ImportFailure


@dataclasses.dataclass
class Workload:
    """One training set-up.

    model          a torch.nn.Module that returns one tensor
    loss           loss(output, *targets) -> a tensor of one element
    optimizer      a torch.optim.Optimizer over parameters of the model; its
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


def load_workload(path, options, seed=0):
    """Runs the model file and its `workload` with the options it knows.

    `options` is {name: text or value}; text is read as the type of the
    parameter's default. Random numbers start from `seed`."""
    if not os.path.isfile(path):
        raise ImportFailure(f"{path}: no such file")
    stem = os.path.splitext(os.path.basename(path))[0]
    # Whatever the name ends in.
    loader = importlib.machinery.SourceFileLoader(stem, path)
    spec = importlib.util.spec_from_file_location(stem, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(stem, module)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    seed_all(seed)
    with errors_of(path):
        spec.loader.exec_module(module)
    function = getattr(module, "workload", None)
    if not callable(function):
        raise ImportFailure(f"{path}: expected a function `workload` that returns an "
                            "mpcomm_import.Workload")
    seed_all(seed)
    chosen = read_options(path, function, options)
    with errors_of(path):
        result = function(**chosen)
    if not isinstance(result, Workload):
        raise ImportFailure(f"{path}: expected `workload` to return an "
                            f"mpcomm_import.Workload, found {type(result).__name__}")
    result.name = result.name or stem
    return result


@contextlib.contextmanager
def errors_of(path):
    """Says of an error in the user's file where in it that is."""
    try:
        yield
    except ImportFailure:
        raise
    except Exception as error:
        here = os.path.abspath(path)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if os.path.abspath(frame.filename) == here]
        message = str(error)
        if isinstance(error, SyntaxError):
            lines, message = [error.lineno], error.msg
            path = error.filename or path
        where = f"{path}:{lines[-1]}" if lines else path
        raise ImportFailure(f"{where}: {type(error).__name__}: {message}") from error


def seed_all(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy
        numpy.random.seed(seed % 2 ** 32)
    except ImportError:
        pass


def read_options(path, function, options):
    parameters = inspect.signature(function).parameters
    result = {}
    for name, value in options.items():
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise ImportFailure(f"{path}: no option '{name}'; its options are {known}")
        default = parameters[name].default
        if isinstance(value, str) and isinstance(default, (bool, int, float)):
            value = read_value(name, value, type(default))
        result[name] = value
    return result


def read_value(name, text, kind):
    if kind is bool:
        if text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off"):
            return False
        raise ImportFailure(f"option {name}: expected true or false, found '{text}'")
    try:
        return kind(text)
    except ValueError:
        raise ImportFailure(f"option {name}: expected a number, found '{text}'") from None
