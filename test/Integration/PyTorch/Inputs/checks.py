# ===- checks.py - imported graphs against PyTorch itself ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains the same workload twice, by PyTorch and by the imported graph on the
evaluator, and compares losses, parameters and optimizer state at each step."""

import math
import os
import sys

import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4)
sys.path.insert(0, os.path.join(ROOT, "tools", "mpcomm-import"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import evaluator  # noqa: E402
import mpcomm_import as mi  # noqa: E402
from mpcomm_import.torch_front.workload import named_tensors  # noqa: E402

EXAMPLES = os.path.join(ROOT, "docs", "examples")


def example(name, **options):
    """The workload of an example, or of a model file."""
    path = name if name.endswith(".py") else os.path.join(EXAMPLES, name + ".py")
    return mi.load_workload(path, options)


def in_double(workload):
    """The same workload in f64: rounding is out of the way, what is left of a
    difference is a mistake. A learning rate is what a step takes as one, an f32."""
    workload.model.double()
    for group in workload.optimizer.param_groups:
        if isinstance(group.get("lr"), float):
            group["lr"] = torch.tensor(group["lr"]).item()
    for state in workload.optimizer.state.values():
        for name, value in state.items():
            if name != "step" and isinstance(value, torch.Tensor):
                state[name] = value.double()
    for data in (workload.dataset, workload.eval_dataset or {}):
        for name, tensor in data.items():
            if tensor.is_floating_point():
                data[name] = tensor.double()
    return workload


def batch_of(workload, data, step):
    n = workload.batch
    first = step * n % (len(next(iter(data.values()))) - n + 1)
    return {k: t[first:first + n] for k, t in data.items()}


def eager_step(workload, batch):
    """Loss and metrics of one PyTorch step, {name: tensor}; parameters updated."""
    workload.model.train()
    workload.optimizer.zero_grad(set_to_none=True)
    loss, metrics = workload.losses(workload.forward(batch), batch)
    loss.backward()
    workload.optimizer.step()
    return {n: t.detach() for n, t in {"loss": loss, **metrics}.items()}


def difference(a, b):
    """Largest difference, relative to the largest element."""
    scale = max(a.abs().max().item(), 1e-12)
    return (a.double() - b.double()).abs().max().item() / scale


def initial_state(program):
    """Arguments of train_step that are not data."""
    state = {}
    for a in program.functions[0].arguments:
        if a.role == "hyperparameter":
            state[a.name] = torch.tensor(a.attributes["default"], dtype=torch.float64)
        elif a.role != "batch":
            given = program.weights.get(a.name)
            state[a.name] = given.detach().clone() if given is not None else \
                torch.full(a.value.shape, a.attributes.get("default", 0),
                           dtype=evaluator.DTYPES[a.value.dtype])
    return state


def narrow_rates(program, state):
    """Learning rates as the runner passes them: in f32."""
    for a in program.functions[0].arguments:
        if a.role == "hyperparameter":
            state[a.name] = state[a.name].float()


def optimizer_state(workload):
    names = {id(p): n for n, p in workload.model.named_parameters()}
    result = {}
    for p, entries in workload.optimizer.state.items():
        for key, value in entries.items():
            if key != "step" and value is not None:
                result[f"{names[id(p)]}.{key}"] = torch.as_tensor(value, dtype=None if isinstance(
                    value, torch.Tensor) else torch.float64)
    return result


def summed(op):
    """How many numbers an element of the result is the sum of, at most."""
    shapes = [value.shape for value in op.operands]
    if op.name == "mpcomm.dot_general":
        return math.prod(shapes[0][d] for d in op.attributes["lhs_contracting_dims"])
    if op.name == "mpcomm.reduce":
        return math.prod(shapes[0][d] for d in op.attributes["dims"])
    if op.name in ("mpcomm.gather_grad", "mpcomm.scatter"):
        return math.prod(shapes[1])
    if op.name in ("mpcomm.convolution", "mpcomm.convolution_input_grad"):
        return math.prod(shapes[1])
    if op.name == "mpcomm.convolution_filter_grad" or "batch_norm" in op.name:
        return math.prod(shapes[0])
    if op.name == "mpcomm.scan":  # of one trip after the other
        return op.attributes["trips"] * sum(map(summed, op.attributes["body"].ops))
    if "pool" in op.name:
        return math.prod(op.attributes["window"])
    if any(word in op.name for word in ("softmax", "norm", "cross_entropy")):
        largest = max(shapes, key=math.prod)
        return math.prod(largest[:-1]) + largest[-1]
    return 1


def rounding(function, double):
    """What rounding makes of a function's results, relative to their largest
    element. A sum of n numbers is off by at most n units (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1), and errors of ops that stand
    after one another add up; how much an op amplifies the error of its input is
    taken to be made up for by most of them standing beside one another. In f64
    there is room for that. In f32 it would let mistakes through: there errors are
    taken to be of either sign, so that sqrt(n) is in the place of n (Higham and
    Mary, SIAM J. Sci. Comput. 41, 2019, theorem 2.4)."""
    terms = sum(map(summed, function.ops))
    return terms * 2.0**-53 if double else math.sqrt(terms) * 2.0**-24


def check(workload, steps=3, double=True):
    """Returns the program; AssertionError where the two runs part: by more than
    the rounding of a step, times the steps done, of both.

    Adam divides a gradient by its own size, or by its eps where that is larger.
    One that is nothing but rounding (that of the bias of a key, which softmax
    cancels) makes steps of any length in f32, where only the losses are compared,
    and of up to rounding / eps of the learning rate in f64."""
    if double:
        in_double(workload)
    before = {n: p.detach().clone() for n, p in workload.model.named_parameters()}
    program = mi.trace(workload)
    for n, p in workload.model.named_parameters():
        assert torch.equal(p, before[n]), f"importing changed {n}"
    train, evaluate = program.functions
    unit_error = rounding(train, double)
    state = initial_state(program)
    if not double:
        narrow_rates(program, state)
    for step in range(steps):
        batch = batch_of(workload, workload.dataset, step)
        results = evaluator.run(train, {**state, **batch})
        numbers = eager_step(workload, batch)
        expected = dict(workload.model.named_parameters())
        expected.update(workload.model.named_buffers())
        expected.update(optimizer_state(workload))
        expected.update(numbers)
        for name, got in results.items():
            if not double and name not in numbers:
                continue
            if name == "step":
                assert got.item() == step + 1, got
                continue
            if not got.is_floating_point():
                assert torch.equal(expected[name], got), name
                continue
            d = difference(expected[name].detach(), got)
            bound = 2 * (step + 1) * unit_error
            if name not in numbers:
                bound /= min([1] + [g["eps"] for g in workload.optimizer.param_groups
                                    if isinstance(g.get("eps"), float)])
            assert d <= bound, f"step {step}: {name} differs by {d:.3g} of {bound:.3g}"
        state.update({n: t for n, t in results.items() if n not in numbers})
    check_evaluate(workload, evaluate, state, 2 * (steps + 1) * unit_error)
    return program


def check_evaluate(workload, function, state, tolerance):
    data = workload.eval_dataset or workload.dataset
    batch = batch_of(workload, data, 0)
    results = evaluator.run(function, {**state, **batch})
    mode = workload.model.training
    workload.model.eval()
    output = workload.forward(batch)
    loss, metrics = workload.losses(output, batch)
    workload.model.train(mode)
    outputs = [(n, t) for n, t in named_tensors(output) if t is not loss]
    named = {f"output.{n}" if len(outputs) > 1 else "output": t for n, t in outputs}
    for name, want in {"loss": loss, **metrics, **named}.items():
        d = difference(want.detach(), results[name])
        assert d <= tolerance, f"evaluate: {name} differs by {d:.3g} of {tolerance:.3g}"


def count(program, *names):
    return {n: program.functions[0].count(n) for n in names}
