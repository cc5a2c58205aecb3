# ===- writers.py - random models that write to their buffers --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Random modules whose forward() writes to buffers, to views of them and to
activations, reads what it has written under other names, and replaces buffers.

A program is the text of a class. Each statement is tried on tensors when it is
drawn, so that what remains runs in PyTorch. All numbers are small multiples of
powers of two, and sums have a power of two of terms: results are exact and equal,
whatever the order of operations.
"""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SHAPES = [(4,), (4,), (2, 4), (4, 4), (4, 2), (2, 2, 4), ()]
LONG = [(4,), (32,), (32,), (32, 2), (2, 32), (2, 4), ()]  # of each fourth program
BATCH = 4
STEPS = 3


class Refused(Exception):
    """PyTorch does not run the program."""


def small(rng, shape):
    return [rng.randint(-3, 3) for _ in range(math.prod(shape))]


def tensor_text(rng, shape, dtype):
    if dtype == "bool":
        values = [rng.random() < 0.5 for _ in range(math.prod(shape))]
    else:
        values = small(rng, shape)
    return f"torch.tensor({values}, dtype={dtype_text(dtype)}).reshape({list(shape)})"


def dtype_text(dtype):
    return "torch.get_default_dtype()" if dtype == "float" else f"torch.{dtype}"


class Writer:
    """Draws one program. `lines` are the statements of its forward()."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.head, self.lines, self.count = [], [], 0
        self.buffers, self.parameters = [], ["self.w"]
        init = self.head.append
        init(f"self.w = nn.Parameter({tensor_text(rng, (4,), 'float')})")
        if rng.random() < 0.3:
            init(f"self.m = nn.Parameter({tensor_text(rng, (4, 4), 'float')})")
            self.parameters.append("self.m")
        for i in range(rng.randint(2, 4)):
            dtype = rng.choice(["float"] * 8 + ["int64", "bool"])
            shape = rng.choice(LONG if seed % 4 == 3 else SHAPES)
            init(f"self.register_buffer('b{i}', {tensor_text(rng, shape, dtype)})")
            self.buffers.append(f"self.b{i}")
        if rng.random() < 0.3:  # one tensor in two places
            init("self.part = nn.Module()")
            init(f"self.part.register_buffer('s', {self.buffers[0]})")
            self.buffers.append("self.part.s")
            if rng.random() < 0.5:
                init("self.part.w = self.w")
                self.parameters.append("self.part.w")
        self.model = build(self.text)
        self.scope = {"self": self.model, "torch": torch, "F": F,
                      "x": torch.tensor(small(rng, (BATCH, 4))).reshape(BATCH, 4)
                      * torch.ones(())}
        self.names = self.buffers + self.parameters + ["x"]
        self.draw([self.write_strided] * 4 if seed % 4 == 3 else [])

    @property
    def text(self):
        body = ["def __init__(self):", "    super().__init__()"]
        body += ["    " + line for line in self.head]
        body += ["def forward(self, x):"] + ["    " + line for line in self.lines]
        if not self.lines:
            body.append("    pass")
        return "class Program(nn.Module):\n" + "\n".join("    " + b for b in body) + "\n"

    # --- names and expressions ---

    def value(self, text):
        return eval(text, self.scope)  # pylint: disable=eval-used

    def pick(self, accept=lambda t: True):
        names = [n for n in self.names if accept(self.value(n))]
        if not names:
            raise Refused("no such name")
        return self.rng.choice(names)

    def floats(self):
        return self.pick(lambda t: t.is_floating_point())

    def number(self):
        return self.rng.choice(["0.5", "2.0", "-1.0", "0.25", "1.5"])

    def index(self, tensor):
        if not tensor.dim():
            return "..."
        parts = []
        for size in tensor.shape[:self.rng.randint(1, tensor.dim())]:
            start, stop = sorted(self.rng.sample(range(size + 1), 2))
            parts.append(self.rng.choice([
                ":", f"{start}:{stop}", f"{start}:", f":{stop}", "::2", "1::2",
                str(start % size), "-1", f"-{size - start}:" if start < size else ":"]))
        if self.rng.random() < 0.15:
            parts.insert(0, "...")
        return ", ".join(parts)

    def view(self, name):
        t, rng = self.value(name), self.rng
        choices = [f"[{self.index(t)}]", ".view(-1)", ".reshape(-1)", ".detach()",
                   ".unsqueeze(0)", ".unsqueeze(-1)", ".squeeze()", ".flatten()",
                   ".view(2, -1)", f".expand(2, {', '.join(map(str, t.shape))})"
                   if t.dim() else ".expand(4)"]
        if t.dim() > 1:
            order = rng.sample(range(t.dim()), t.dim())
            choices += [".transpose(0, 1)", f".permute({order})", ".transpose(-1, -2)",
                        ".unbind(0)[1]", ".chunk(2)[1]", ".split(1)[0]", ".select(1, 1)"]
        if t.dim() == 2:
            choices += [".t()", ".T"]
        return name + rng.choice(choices)

    def expression(self, depth=0):
        rng = self.rng
        kind = rng.random()
        if depth > 2 or kind < 0.2:
            return self.floats()
        if kind < 0.45:
            return self.view(self.floats())
        a = self.expression(depth + 1)
        if kind < 0.6:
            return rng.choice(["({} * " + self.number() + ")", "({} + 1)", "-{}",
                               "F.relu({})", "{}.abs()", "{}.clamp(-2, 2)",
                               "{}.clone()", "{}.detach()", "{}.contiguous()"]).format(a)
        if kind < 0.8:
            b = self.expression(depth + 1)
            return rng.choice(["({} + {})", "({} - {})", "torch.maximum({}, {})",
                               "torch.minimum({}, {})"]).format(a, b)
        if kind < 0.9:
            return rng.choice(["{}.sum(0)", "{}.mean(-1)", "{}.sum()", "{}.amax(0)",
                               "{}.mean(0, keepdim=True)"]).format(a)
        b = self.expression(depth + 1)
        c = self.floats()
        return rng.choice(["torch.cat([{}, {}])", "torch.stack([{}, {}])",
                           "torch.cat([{}, {}], -1)",
                           "torch.where({} > 0, {}, " + c + ")"]).format(a, b)

    def fitting(self, target):
        """An expression that broadcasts to the shape of `target`, in memory of its
        own: what PyTorch makes of operands that overlap is undefined."""
        shape = target.shape
        for _ in range(40):
            text = self.expression()
            try:
                with torch.no_grad():
                    value = self.value(text)
                if torch.broadcast_shapes(value.shape, shape) == shape and \
                        value.abs().max() < 2 ** 12:
                    return text + ".clone()" if torch._C._is_alias_of(value, target) else text
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue
        return f"torch.tensor({self.number()})"

    # --- statements ---

    def fresh(self):
        self.count += 1
        return f"t{self.count}"

    def target(self):
        name = self.pick(lambda t: not (t.is_leaf and t.requires_grad))
        roll = self.rng.random()
        if roll < 0.5:
            return name
        if roll < 0.7:
            return f"{name}[{self.index(self.value(name))}]"
        return self.view(name)

    def assign_view(self):
        name = self.fresh()
        return f"{name} = {self.view(self.pick())}", name

    def assign_name(self):
        name = self.fresh()
        return f"{name} = {self.pick()}", name

    def assign(self):
        name = self.fresh()
        return f"{name} = {self.expression()}", name

    def make(self):
        name = self.fresh()
        like = self.floats()
        return self.rng.choice([
            f"{name} = torch.zeros_like({like})", f"{name} = {like}.clone()",
            f"{name} = torch.ones(2, 4, dtype=x.dtype)", f"{name} = torch.full_like({like}, 2)"]), name

    def write(self):
        target = self.target()
        with torch.no_grad():
            value = self.value(target)
        if value.dtype == torch.bool:
            return self.rng.choice([f"{target}.logical_not_()", f"{target}.fill_(True)",
                                    f"{target}.copy_({self.fitting(value)} > 0)"]), None
        e = self.fitting(value)
        if not value.is_floating_point():
            return self.rng.choice([f"{target}.add_(1)", f"{target}.mul_(2)", f"{target}.zero_()",
                                    f"{target}.copy_({e})" if "self" in e else f"{target}.sub_(3)"]), None
        return self.rng.choice([
            f"{target}.copy_({e})", f"{target}.copy_({e})", f"{target}.add_({e})",
            f"{target}.sub_({e})", f"{target}.add_({e}, alpha=2)", f"{target}.mul_({self.number()})",
            f"{target}.mul_(0.5).add_({e})", f"{target}.neg_()", f"{target}.zero_()",
            f"{target}.fill_({self.number()})", f"{target}.clamp_(-2, 2)", f"{target}.relu_()",
            f"{target}.div_(2)", f"{target}.abs_()", f"{target}.masked_fill_({target} > 1, -1.0)",
            f"{target}.data.copy_({e})", f"{target}.lerp_({e}, 0.5)",
            f"torch.add({target}, 1, out={target})"]), None

    def write_slice(self):
        often = self.rng.random() < 0.9
        name = self.pick(lambda t: not (t.requires_grad and (often or t.is_leaf)) and t.dim() and
                         t.is_floating_point())
        index = self.index(self.value(name))
        with torch.no_grad():
            e = self.fitting(self.value(f"{name}[{index}]"))
        return f"{name}[{index}] {self.rng.choice(['=', '=', '+=', '-='])} {e}", None

    def write_strided(self):
        """Along a dimension whose mask is no short constant."""
        name = self.pick(lambda t: not t.requires_grad and t.is_floating_point() and
                         max(t.shape, default=0) > 16)
        shape = self.value(name).shape
        index = ", ".join(f"{self.rng.choice(['', 1, 3, 16])}:{self.rng.choice(['', '', 17, 30])}:"
                          f"{self.rng.choice([2, 3, 7])}" if size > 16 else ":" for size in shape)
        with torch.no_grad():
            e = self.fitting(self.value(f"{name}[{index}]"))
        return f"{name}[{index}] {self.rng.choice(['=', '+=', '-='])} {e}", None

    def augmented(self):
        name = self.pick(lambda t: not (t.is_leaf and t.requires_grad) and t.is_floating_point())
        e = self.fitting(self.value(name))
        return f"{name} {self.rng.choice(['+=', '-='])} {e}", None

    def pair(self):
        """Two buffers of one type."""
        a = self.rng.choice(self.buffers)
        t = self.value(a)
        others = [n for n in self.buffers if n != a and self.value(n).shape == t.shape and
                  self.value(n).dtype == t.dtype]
        if not others:
            raise Refused("no pair")
        return a, self.rng.choice(others)

    def shift(self):
        """History: what one buffer had goes on to another."""
        a, b = self.pair()
        e = self.fitting(self.value(a))
        return self.rng.choice([f"{b}.copy_({a}); {a}.copy_({e})",
                                f"{b}.copy_({a}); {a}.mul_(0.5).add_({e})",
                                f"{b} = {a}; {a} = ({e} + torch.zeros_like({a})).to({a}.dtype)"]), None

    def swap(self):
        a, b = self.pair()
        t = self.fresh()
        return self.rng.choice([
            f"{t} = {a}.clone(); {a}.copy_({b}); {b}.copy_({t})",
            f"{t} = {a}; {a}.copy_({b}); {b}.copy_({t})", f"{a}, {b} = {b}, {a}"]), None

    def roll(self):
        name = self.pick(lambda t: t.dim() and t.is_floating_point() and t.shape[0] > 1 and
                         not (t.is_leaf and t.requires_grad))
        e = self.fitting(self.value(name)[0])
        new = f"(torch.zeros_like({name}[:1]) + {e})"
        return self.rng.choice([f"{name}.copy_(torch.cat([{name}[1:], {new}]))",
                                f"{name}.copy_(torch.cat([{new}, {name}[:-1]]))",
                                f"{name}[1:] = {name}[:-1].clone(); {name}[0] = {e}",
                                f"{name}.copy_(torch.cat([{name}[1:], {name}[:1]]))"]), None

    def replace(self):
        name = self.rng.choice(self.buffers)
        t = self.value(name)
        if not t.is_floating_point():
            raise Refused("not a float")
        return f"{name} = ({self.fitting(t)} + torch.zeros_like({name})).detach()", None

    def activation(self):
        name = self.fresh()
        h = self.rng.choice(self.parameters)
        return self.rng.choice([
            f"{name} = x * self.w", f"{name} = {h} * {self.rng.choice(self.buffers)}",
            f"{name} = x @ self.m" if "self.m" in self.parameters else f"{name} = x + {h}",
            f"{name} = {h} * 2"]), name

    def relu(self):
        name = self.fresh()
        h = self.pick(lambda t: t.requires_grad and not t.is_leaf)
        return f"{name} = F.relu({h}, inplace=True)", name

    def draw(self, more):
        kinds = [self.assign_view, self.assign_view, self.assign_name, self.assign, self.make,
                 self.write, self.write, self.write, self.write, self.write_slice,
                 self.write_slice, self.augmented, self.shift, self.shift, self.swap, self.roll,
                 self.replace, self.activation, self.relu] + more
        self.perform(f"h = x * {self.parameters[-1]}", "h")
        wanted, tries = self.rng.randint(3, 12), 0
        while len(self.lines) < wanted and tries < 200:
            tries += 1
            try:
                statement, name = self.rng.choice(kinds)()
                self.perform(statement, name)
            except (Refused, RuntimeError, IndexError, ValueError, TypeError):
                continue
        grads = [n for n in self.names if n not in self.parameters and
                 self.value(n).requires_grad]
        ends = [n for n in grads if self.value(n).dim()] or grads
        end = self.rng.choice(ends) if ends else "h"
        extra = self.fitting(self.value(end))
        self.lines.append(f"return {end} + {extra}" if self.rng.random() < 0.7 else f"return {end}")

    def perform(self, statement, name):
        if self.rng.random() < 0.06 and name is None:
            statement = "with torch.no_grad(): " + statement
        elif self.rng.random() < 0.05 and name is None:
            statement = "if self.training: " + statement
        exec(statement, self.scope)  # pylint: disable=exec-used
        for n in self.names + ([name] if name else []):
            if self.value(n).numel() > 64 or not self.value(n).numel():
                raise Refused("a size")
            if self.value(n).is_floating_point() and self.value(n).detach().abs().max() > 2 ** 14:
                raise Refused("large numbers")
        self.lines.append(statement)
        if name:
            self.names.append(name)


def build(text):
    scope = {"torch": torch, "nn": nn, "F": F}
    exec(text, scope)  # pylint: disable=exec-used
    return scope["Program"]()


def batch(seed, step):
    rng = random.Random(seed * 1009 + step)
    return torch.tensor(small(rng, (BATCH, 4)), dtype=torch.get_default_dtype()).reshape(BATCH, 4)


def loss(output):
    """Linear, with a factor of its own for each element."""
    factors = torch.arange(output.numel()).remainder(5).sub(2).to(output.dtype) * 0.25
    return (output.reshape(-1) * factors).sum()


def state_of(model):
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def train(model, seed):
    """Yields loss and state after each step of PyTorch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(STEPS):
        value = loss(model(batch(seed, step)))
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()
        yield value.detach(), {n: t.detach().clone() for n, t in state_of(model).items()}


def draw(seed):
    """The text of program `seed`; None where PyTorch does not train it, or rounds in
    the type that is set."""
    dtype = torch.get_default_dtype()
    results = []
    try:
        torch.set_default_dtype(torch.float64)
        text = Writer(seed).text
        for kind in (torch.float64, dtype):
            torch.set_default_dtype(kind)
            results.append(list(train(build(text), seed)))
    except (Refused, RuntimeError):
        return None
    finally:
        torch.set_default_dtype(dtype)
    for (loss64, state64), (value, state) in zip(*results):
        if loss64 != value or any(not torch.equal(state64[n], t.to(state64[n].dtype))
                                  for n, t in state.items()):
            return None
    return text
