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
import functools
from typing import Callable, Dict, Mapping, Optional, Sequence, Union

import torch

from ..errors import ImportFailure
from ..model_file import TrainingSetup


# Modules that run another one, by the attribute that holds it.
WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module",
            "DistributedDataParallel": "module"}


def names_of(arguments):
    return list(arguments.values() if isinstance(arguments, Mapping) else arguments)


def call(function, arguments, batch):
    """`function` of those tensors of a batch that `arguments` names."""
    if isinstance(arguments, Mapping):
        return function(**{k: batch[n] for k, n in arguments.items()})
    return function(*[batch[n] for n in arguments])


def named_tensors(value, name=""):
    """[(name, tensor)] of what a model returns: a tensor, or tuples, lists,
    dictionaries and dataclasses of them; whatever else is in it is left out."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    if isinstance(value, Mapping):
        items = value.items()
    elif dataclasses.is_dataclass(value):
        items = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif hasattr(value, "_fields"):  # a named tuple
        items = zip(value._fields, value)
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return []
    return [t for k, v in items for t in named_tensors(v, f"{name}.{k}" if name else str(k))]


def own_loss(output):
    """The loss in what a model returned that computes it itself."""
    if isinstance(output, Mapping):
        return output.get("loss")
    if isinstance(output, (list, tuple)) and not hasattr(output, "loss"):
        return output[0] if output else None
    return getattr(output, "loss", output)


def scalar(value, what):
    """A loss or a metric as a tensor without dimensions."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        found = f"one of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) \
            else type(value).__name__
        raise ImportFailure(f"expected {what} to be a tensor of one element, found {found}")
    return value.reshape(()) if value.dim() else value


@dataclasses.dataclass
class Workload(TrainingSetup):
    """One training set-up.

    model          a torch.nn.Module
    loss           loss(output, *targets) -> a tensor of one element, or a
                   dictionary of such: what is minimised under "loss", metrics under
                   other names. None: the model computes its loss itself and returns
                   it alone, first, or under that name
    optimizer      a torch.optim.Optimizer over parameters of the model; its
                   hyper-parameters and parameter groups are read
    batch          samples in a step of one rank
    dataset        {name: tensor}; the first dimension counts samples
    eval_dataset   the same for held-out samples, or None
    inputs         names of the dataset that the model takes, in order, or {keyword:
                   name}; default: the first, or without a loss all, by their names
    targets        the same for the loss; default: the others
    name           of the program; default: the model file's
    """

    model: torch.nn.Module
    loss: Optional[Callable]
    optimizer: torch.optim.Optimizer
    batch: int
    dataset: Dict[str, torch.Tensor]
    eval_dataset: Optional[Dict[str, torch.Tensor]] = None
    inputs: Union[Sequence[str], Mapping[str, str], None] = None
    targets: Union[Sequence[str], Mapping[str, str], None] = None
    name: str = ""

    def __post_init__(self):
        names = list(self.dataset)
        while type(self.model).__name__ in WRAPPERS:
            self.model = getattr(self.model, WRAPPERS[type(self.model).__name__])
        if self.inputs is None:
            self.inputs = names[:1] if self.loss is not None else {n: n for n in names}
        if self.targets is None:
            self.targets = [] if self.loss is None else \
                [n for n in names if n not in names_of(self.inputs)]

    def forward(self, batch):
        """What the model returns for a batch, {name: tensor}."""
        return call(self.model, self.inputs, batch)

    def losses(self, output, batch):
        """The loss of what the model returned, and the metrics, {name: tensor}."""
        if self.loss is None:
            return scalar(own_loss(output), "the loss that the model returns"), {}
        result = call(functools.partial(self.loss, output), self.targets, batch)
        if not isinstance(result, Mapping):
            return scalar(result, "the loss"), {}
        if "loss" not in result:
            raise ImportFailure("expected the loss to return one under the name 'loss', found "
                                f"{', '.join(map(str, result)) or 'none'}")
        values = {n: scalar(v, f"'{n}' of the loss") for n, v in result.items()}
        return values.pop("loss"), values

    def check(self):
        if not isinstance(self.model, torch.nn.Module):
            raise ImportFailure("expected `model` to be a torch.nn.Module, found "
                                f"{type(self.model).__name__}")
        if isinstance(self.model, torch.jit.ScriptModule):
            raise ImportFailure("expected a model that runs in Python, found a "
                                "torch.jit.ScriptModule; give the module that it was made of")
        if not isinstance(self.batch, int) or self.batch < 1:
            raise ImportFailure(f"expected a batch of at least 1, found {self.batch}")
        for name in names_of(self.inputs) + names_of(self.targets):
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

    def example(self, name, other=False):
        """A batch of the data to trace with: the first, or another one."""
        data = self.dataset[name]
        return (data[-self.batch:].flip(0) if other else data[:self.batch]).clone()


class StateNames:
    """The tensors of a model under the names PyTorch gives them.

    A tensor that is in two places (tied weights) has the first of its
    names. `trained` are the names that the optimizer updates; those parameters
    that it does not are treated as buffers.
    """

    def __init__(self, model, optimizer):
        self.parameters = list(model.named_parameters())
        self.buffers = list(model.named_buffers())
        for name, tensor in self.parameters + self.buffers:
            check_tensor(name, tensor)
        name_of = {id(p): n for n, p in self.parameters}
        self.trained = set()
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) not in name_of:
                    raise ImportFailure("the optimizer has a parameter of shape "
                                        f"{tuple(p.shape)} that is not the model's")
                if p.requires_grad:
                    self.trained.add(name_of[id(p)])
                if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
                    raise ImportFailure(f"parameter '{name_of[id(p)]}' has hooks on its "
                                        "gradient, which a step does not run")


def check_tensor(name, tensor):
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise ImportFailure(f"'{name}' is not initialized; run the model once before the import")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ImportFailure(f"expected '{name}' to be a dense tensor of numbers")
    if tensor.device.type != "cpu":
        raise ImportFailure(f"expected '{name}' on the CPU, found it on {tensor.device}")
