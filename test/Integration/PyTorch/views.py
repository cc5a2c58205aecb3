# Chains of reshapes, transposes, expansions and slices, and products, sums and
# reductions of what they make, against the same done by PyTorch: whatever a
# view absorbs, the values are those. The seed is printed, an
# argument sets it.
#
# REQUIRES: torch
# RUN: %python %s 1500 0

import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks  # noqa: F401 (sets the path)
import evaluator
import torch

from mpcomm_import.aten import movement, neural
from mpcomm_import.aten.convert import Converter
from mpcomm_import.aten.pointwise import simple
from mpcomm_import.emit import contraction, pointwise
from mpcomm_import.emit.views import View, materialise
from mpcomm_import.ir.graph import Argument, Builder, Function, Result, Type

seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10 ** 6)
print("seed", seed)
rng = random.Random(seed)
torch.manual_seed(seed)


class Case:
    """A function being built beside the tensors that it should compute."""

    def __init__(self):
        self.function = Function("f")
        self.c = Converter.__new__(Converter)
        self.c.builder = self.builder = Builder(self.function)
        self.arguments = {}

    def input(self, shape):
        name = f"x{len(self.arguments)}"
        argument = Argument("batch", name, Type(shape, "f64"))
        self.function.arguments.append(argument)
        # Whole numbers: sums and products of so few are exact, whatever their order.
        self.arguments[name] = torch.randint(-3, 4, shape).double()
        return View.of(argument.value), self.arguments[name]

    def check(self, view, tensor, bound=0):
        assert view.shape == tuple(tensor.shape), (view.shape, tensor.shape)
        value = materialise(self.builder, view)
        self.function.results = [Result("output", "y", value)]
        got = evaluator.run(self.function, self.arguments)["y"]
        assert torch.allclose(got, tensor, rtol=bound, atol=bound), \
            [op.name for op in self.function.ops]


def factorisation(n):
    shape = []
    while n > 1 and rng.random() < 0.8:
        d = rng.choice([k for k in range(2, n + 1) if n % k == 0])
        shape.append(d)
        n //= d
    shape += [n] if n > 1 or not shape else []
    for _ in range(rng.randrange(2)):
        shape.insert(rng.randrange(len(shape) + 1), 1)
    return shape


def wander(case, view, tensor, steps):
    for _ in range(steps):
        kind = rng.choice(["reshape", "permute", "expand", "slice", "squeeze", "unary"])
        if kind == "reshape":
            shape = factorisation(tensor.numel())
            view, tensor = movement.reshaped(case.c, view, shape), tensor.reshape(shape)
        elif kind == "permute":
            order = rng.sample(range(tensor.dim()), tensor.dim())
            view, tensor = view.permute(order), tensor.permute(order)
        elif kind == "expand" and tensor.numel() < 300:
            shape = [3 if n == 1 and rng.random() < 0.5 else n for n in tensor.shape]
            shape = ([2] if rng.random() < 0.2 else []) + shape
            view, tensor = view.expand(shape), tensor.expand(shape)
        elif kind == "slice" and tensor.dim():
            d = rng.randrange(tensor.dim())
            start = rng.randrange(tensor.shape[d])
            stop = rng.randrange(start, tensor.shape[d]) + 1
            step = rng.choice([1, 1, 2])
            view = movement.sliced(case.c, view, d, start, stop, step)
            tensor = tensor[(slice(None),) * d + (slice(start, stop, step),)]
        elif kind == "squeeze":
            view, tensor = movement.squeeze(case.c, None, view), tensor.squeeze()
        elif kind == "unary":
            view = simple(case.c, "arith.negf", [view])
            tensor = -tensor
    return view, tensor


def one_view():
    case = Case()
    case.check(*wander(case, *case.input(factorisation(rng.choice([24, 36, 64, 30]))), 6))


def reshaped_to(case, view, tensor, shape):
    return movement.reshaped(case.c, view, shape), tensor.reshape(shape)


def product():
    case = Case()
    b, m, k, n = (rng.choice([1, 2, 4, 6]) for _ in range(4))
    sides = []
    for shape in ([b, m, k], [b, k, n]):
        order = rng.sample(range(3), 3)
        view, tensor = case.input([shape[i] for i in order])
        view, tensor = wander(case, view, tensor, 3)
        if tensor.numel() != math.prod(shape):
            view, tensor = case.input([shape[i] for i in order])
        else:
            view, tensor = reshaped_to(case, view, tensor, [shape[i] for i in order])
        back = [order.index(i) for i in range(3)]
        sides.append((view.permute(back), tensor.permute(back)))
    (va, a), (vb, x) = sides
    result = contraction.contract(case.builder, va, vb, [(0, 0)], [(2, 1)])
    case.check(*wander(case, result, a @ x, 2))


def sums():
    """Contractions of one or two dimensions that each have several axes, in orders in memory
    that differ between the operands and from the seen one."""
    case = Case()
    inner = [rng.choice([2, 3]) for _ in range(rng.randint(1, 4))]
    cut = rng.randint(1, len(inner))
    views = []
    for free in (rng.choice([1, 4]), rng.choice([1, 5])):
        sizes = [free] + inner
        order = rng.sample(range(len(sizes)), len(sizes))
        view, tensor = case.input([sizes[i] for i in order])
        back = [order.index(i) for i in range(len(sizes))]
        shape = [free, math.prod(inner[:cut]), math.prod(inner[cut:])]
        views.append(reshaped_to(case, view.permute(back), tensor.permute(back), shape))
    (va, a), (vb, b) = views
    result = contraction.contract(case.builder, va.permute([1, 0, 2]), vb,
                                  contracting=[(0, 1), (2, 2)])
    case.check(result, a.flatten(1) @ b.flatten(1).t())
    result = contraction.contract(case.builder, va, vb.permute([2, 0, 1]),
                                  contracting=[(2, 0), (1, 2)])
    case.check(result, a.flatten(1) @ b.flatten(1).t())


def gram():
    case = Case()
    view, tensor = wander(case, *case.input(factorisation(24)), 3)
    view, tensor = reshaped_to(case, view, tensor, [-1, tensor.shape[-1] if tensor.dim() else 1])
    case.check(contraction.contract(case.builder, view, view.permute([1, 0]),
                                    contracting=[(1, 0)]), tensor @ tensor.t())


def addition():
    case = Case()
    va, a = wander(case, *case.input(factorisation(24)), 3)
    vb, b = wander(case, *case.input([24]), 3)
    if b.numel() == a.numel():
        vb, b = reshaped_to(case, vb, b, a.shape)
    else:
        d = [n if rng.random() < 0.5 else 1 for n in a.shape][rng.randrange(2):]
        vb, b = case.input(d)
        if d and len(d) == a.dim() and rng.random() < 0.5:
            va, a = va.permute(range(a.dim())[::-1]), a.permute(*range(a.dim())[::-1])
            vb, b = vb.permute(range(a.dim())[::-1]), b.permute(*range(a.dim())[::-1])
    case.check(simple(case.c, "arith.addf", [va, vb]), a + b)


def reduction():
    case = Case()
    view, tensor = wander(case, *case.input(factorisation(36)), 4)
    if not tensor.dim():
        return
    dims = rng.sample(range(tensor.dim()), rng.randrange(1, tensor.dim() + 1))
    keep = rng.random() < 0.5
    result = pointwise.reduce(case.builder, "sum", view, dims, keep)
    case.check(*wander(case, result, tensor.sum(dims, keep), 2))


def safe_softmax():
    """_safe_softmax, which newer versions trace attention to: rows of -inf alone."""
    case = Case()
    view, tensor = case.input([3, 4])
    tensor[1], tensor[2, 2] = -math.inf, -math.inf
    case.c.result_meta = lambda: ((3, 4), "f64")
    case.check(neural.safe_softmax(case.c, None, view, -1),
               torch.softmax(tensor, -1).nan_to_num(),
               # Difference, exponential, a sum of four and a quotient, twice.
               bound=2 * 7 * 2.0**-53)


safe_softmax()
for k in range(int(sys.argv[1])):
    for test in (one_view, product, sums, gram, addition, reduction):
        test()
