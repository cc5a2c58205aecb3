# ===- composer.py - random compositions of PyTorch's operators -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Writes random Python programs of PyTorch operators: from a batch, whole numbers and
parameters to one tensor.

    program = compose(seed)
    print(program.source)                # the body of forward()
    module = program.module(torch.float64)

A line is drawn from RULES, run, and kept if it works and its result is a tensor of
moderate size with numbers of moderate size. A rule is a function of a Composer and a
float value of it, and returns the text of an expression, or None where the value's
shape does not suit.
"""

import dataclasses
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

MOST = 2048  # elements of a value
BATCH = 4
RULES = []


class Composed(nn.Module):
    """Runs a program. What it gives is also left in a buffer."""

    def __init__(self, source, parameters, out):
        super().__init__()
        for name, tensor in parameters.items():
            setattr(self, name, nn.Parameter(tensor))
        self.register_buffer("out", torch.zeros(out, dtype=next(self.parameters()).dtype))
        weights = torch.linspace(0.3, 1.3, max(math.prod(out), 1)).reshape(out)
        self.register_buffer("weights", weights.to(self.out.dtype))
        text = "def forward(p, x, ids):\n  " + "\n  ".join(source) + "\n  return result\n"
        space = {"torch": torch, "F": F, "math": math}
        exec(compile(text, "composition", "exec"), space)
        self.run = space["forward"]

    def forward(self, x, ids):
        result = self.run(self, x, ids)
        if self.training:
            self.out.copy_(result.detach())
        return (result * self.weights).sum()


@dataclasses.dataclass
class Program:
    seed: int
    source: list
    parameters: dict
    x: torch.Tensor
    ids: torch.Tensor
    out: tuple

    def module(self, dtype):
        return Composed(self.source, {n: t.to(dtype) for n, t in self.parameters.items()},
                        self.out)

    def prefixes(self):
        """Programs that end earlier, shortest first."""
        for last in range(1, len(self.source)):
            lines = self.source[:last]
            name = lines[-1].split(" = ")[0]
            try:
                yield finished(self.seed, lines, self.parameters, self.x, self.ids, name)
            except Exception:  # it ends with no float tensor
                continue


def finished(seed, lines, parameters, x, ids, name):
    """A program whose result is the value `name`, without lines that it does not need."""
    needed, kept = {name}, []
    for line in reversed(lines):
        target, text = line.split(" = ", 1)
        if target in needed:
            kept.append(line)
            needed |= {word for word in words(text)}
    used = {n: t for n, t in parameters.items() if "p." + n in " ".join(kept)}
    lines = kept[::-1] + [f"result = {name}"]
    program = Program(seed, lines, used, x, ids, ())
    value = evaluate(lines, used, x, ids)
    if not value.is_floating_point() or not value.requires_grad:
        raise ValueError("nothing to differentiate")
    value.sum().backward()
    program.out = tuple(value.shape)
    return program


def words(text):
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def evaluate(lines, parameters, x, ids):
    holder = nn.Module()
    for name, tensor in parameters.items():
        setattr(holder, name, nn.Parameter(tensor.clone()))
    space = {"torch": torch, "F": F, "math": math, "p": holder, "x": x, "ids": ids}
    for line in lines:
        exec(line, space)
    return space["result"]


class Composer:
    def __init__(self, seed):
        self.r = random.Random(seed)
        torch.manual_seed(seed)
        self.seed, self.lines, self.parameters = seed, [], {}
        shape = (BATCH, *self.sizes(self.r.choice((1, 1, 2, 2, 3, 3, 4))))
        self.x = torch.randn(shape, dtype=torch.float64)
        self.ids = torch.randint(0, 5, (BATCH, self.r.choice((2, 3, 6))))
        self.values = {"x": self.x, "ids": self.ids}
        # What follows depends on a parameter, or nothing would be differentiated.
        self.add(f"x * {self.parameter(shape)}")

    def sizes(self, rank):
        most = {1: 12, 2: 8, 3: 6, 4: 4}[rank]
        return [min(self.r.choice((1, 2, 3, 4, 5, 6, 8, 12)), most) if self.r.random() < 0.8 else 1
                for _ in range(rank)]

    def parameter(self, shape, scale=1.0):
        name = f"w{len(self.parameters)}"
        self.parameters[name] = torch.randn(tuple(shape), dtype=torch.float64) * scale
        return "p." + name

    def dim(self, value, least=1):
        """A dimension with at least so many elements; ValueError where none has."""
        dims = [d for d in range(value.dim()) if value.shape[d] >= least]
        if not dims:
            raise ValueError
        d = self.r.choice(dims)
        return d if self.r.random() < 0.5 else d - value.dim()

    def number(self, low=-2.0, high=2.0):
        return round(self.r.uniform(low, high), 2)

    def index(self, size, *shape):
        """A tensor of whole numbers below `size`: constant, or from the batch."""
        if self.r.random() < 0.3:
            return f"(ids[:, 0] % {size})"
        shape = shape or (self.r.randint(1, 5),)
        return "torch.tensor(%s)" % torch.tensor(
            [self.r.randrange(size) for _ in range(math.prod(shape))]).reshape(shape).tolist()

    def other(self, value):
        """A value or parameter that broadcasts with `value`."""
        fits = [n for n, v in self.values.items() if v.is_floating_point() and
                broadcasts(v.shape, value.shape)]
        if fits and self.r.random() < 0.6:
            return self.r.choice(fits)
        shape = [1 if self.r.random() < 0.3 else n for n in value.shape]
        return self.parameter(shape[self.r.randint(0, len(shape)):])

    def add(self, text):
        """Adds a line if it works; its name, or None."""
        known = set(self.parameters)
        holder = nn.Module()
        for name, tensor in self.parameters.items():
            setattr(holder, name, nn.Parameter(tensor.clone()))
        try:
            value = eval(text, {"torch": torch, "F": F, "math": math, "p": holder, **self.values})
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):
            value = None
        if isinstance(value, torch.Tensor) and value.requires_grad:
            try:
                value.sum().backward(retain_graph=True)
            except RuntimeError:  # without a derivative
                value = None
        if not isinstance(value, torch.Tensor) or value.numel() > MOST or value.numel() == 0 or \
                value.dim() > 5 or value.is_floating_point() and \
                not value.detach().abs().max().item() < 100:
            return None
        assert known == set(self.parameters)
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = value
        return name

    def step(self):
        floats = [n for n, v in self.values.items() if v.is_floating_point() and n != "x"]
        name = self.r.choice(floats[-3:])
        rule = self.r.choice(RULES)
        before = dict(self.parameters)
        try:
            text = rule(self, name, self.values[name].detach())
        except (ValueError, IndexError):
            text = None
        if text is None or self.add(text) is None:
            self.parameters = before


def broadcasts(a, b):
    """Whether `a` broadcasts to a shape no larger than `b`."""
    return len(a) <= len(b) and all(m in (1, n) for m, n in zip(a[::-1], b[::-1]))


def compose(seed, steps=None):
    composer = Composer(seed)
    for _ in range(steps or composer.r.randint(4, 14)):
        composer.step()
    last = [n for n, v in composer.values.items() if v.is_floating_point() and v.requires_grad]
    return finished(seed, composer.lines, composer.parameters, composer.x, composer.ids, last[-1])


import composer_rules  # noqa: E402,F401 (fills RULES)
