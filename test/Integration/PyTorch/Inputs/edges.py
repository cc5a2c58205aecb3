# ===- edges.py - functions of given tensors, against PyTorch ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compares what functions of given tensors are, and their gradients, element by element:
infinite, or not a number, where PyTorch's are.

All cases are one model, which returns their results, and has for each tensor a parameter
of negative zeros that is added to it: x + -0.0 is x. A step of SGD at rate 1 makes minus
the gradient of it."""

import checks
import evaluator
import torch
import torch.nn as nn

import mpcomm_import as mi

SAMPLES = 2


def tensors_of(value):
    """The tensors in what a case returns, which may be one, or a list."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (list, tuple)) else []


class Cases(nn.Module):
    def __init__(self, cases):
        super().__init__()
        self.functions = {name: function for name, (function, *_) in cases.items()}
        self.given = nn.ModuleDict()
        for name, (_, *tensors) in cases.items():
            self.given[name] = nn.ParameterList(nn.Parameter(-torch.zeros_like(t).double()) for t in tensors)
            for i, t in enumerate(tensors):
                self.given[name].register_buffer(f"at{i}", t.double())

    def forward(self, x):
        found = {}
        for name, function in self.functions.items():
            given = self.given[name]
            result = function(*[getattr(given, f"at{i}") + p for i, p in enumerate(given)])
            found[name] = {str(i): t for i, t in enumerate(tensors_of(result))}
        return found


def loss(output, y, parameters):
    """Each element of a result with a weight of its own; every parameter has a gradient."""
    total = sum(p.sum() for p in parameters)
    for results in output.values():
        for t in results.values():
            if t.requires_grad:
                weights = torch.linspace(0.3, 1.7, t.numel(), dtype=t.dtype).reshape(t.shape)
                total = total + (t * weights).sum()
    return total


def differs(want, got):
    """What is wrong with a tensor, or "". A case is at most 30 operations, each within 4 ulps of
    the exact result on either side; sums are of at most 64 numbers."""
    if (want.shape, want.dtype) != (got.shape, got.dtype):
        return f"{got.dtype} of {tuple(got.shape)} for {want.dtype} of {tuple(want.shape)}"
    if torch.equal(want, got) and not want.is_floating_point():
        return ""
    bound = (30 * 4 + 64) * torch.finfo(want.dtype).eps if want.is_floating_point() else 0
    finite = want[torch.isfinite(want)].abs()
    scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
    near = torch.isclose(got, want, rtol=bound, atol=bound * scale, equal_nan=True)
    at = near.logical_not()
    return f"{got[at].tolist()} for {want[at].tolist()} at {at.nonzero().tolist()}" if at.any() else ""


def check(cases):
    """`cases`: {name: (function, *tensors)}; returns the program."""
    model = Cases(cases)
    parameters = list(model.parameters())
    workload = mi.Workload(
        model, lambda output, y: loss(output, y, parameters_of(model)), torch.optim.SGD(parameters, lr=1.0),
        SAMPLES, {"x": torch.zeros(SAMPLES, 1), "y": torch.zeros(SAMPLES, 1)}, name="model")
    program = mi.trace(workload)
    train, evaluate = program.functions
    state = {**checks.initial_state(program), **checks.batch_of(workload, workload.dataset, 0)}
    moved, results = evaluator.run(train, state), evaluator.run(evaluate, state)
    output = model(None)
    loss(output, None, parameters).backward()
    wrong = []
    for name, found in output.items():
        for key, want in found.items():
            whole = f"output.{name}.{key}"
            wrong.append((whole, differs(want.detach(), results[whole])))
    for name, p in model.named_parameters():
        wrong.append((f"gradient of {name}", differs(p.grad, -moved[name])))
    wrong = [f"{name}: {what}" for name, what in wrong if what]
    assert not wrong, "\n".join(wrong)
    return program


def parameters_of(model):
    """Those that forward() reads: others, while it is traced, than the registered ones."""
    return [p for given in model.given.values() for p in given]
