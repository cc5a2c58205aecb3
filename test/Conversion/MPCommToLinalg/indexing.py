# REQUIRES: compiler, torch
# RUN: %python %s %t %cc
"""Order, running totals and random numbers give PyTorch's: of rows that are ordered by
counting, by candidates and by merging, with ties, NaN, both zeros and infinities."""

import math
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "Inputs"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "Integration", "Inputs"))
import harness
from harness import NAMES, Case, type_of
from philox import philox

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int32, torch.int64, torch.bool]
nan, inf = math.nan, math.inf


def few(shape, dtype):
    """Elements many of which are equal."""
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point:
        x = torch.randint(-5, 5, shape, dtype=dtype)
        ends = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype=dtype)
        return torch.where(torch.rand(shape) < 0.1, ends[torch.randint(0, 2, shape)], x)
    x = torch.randint(-5, 5, shape).to(dtype) / 2
    special = torch.tensor([nan, inf, -inf, -0.0, 0.0, nan], dtype=dtype)
    return torch.where(torch.rand(shape) < 0.2, special[torch.randint(0, 6, shape)], x)


def in_order(x, dim, largest):
    """A stable order; PyTorch sorts no i1."""
    numbers = x.to(torch.uint8) if x.dtype == torch.bool else x
    return torch.sort(numbers, dim=dim, descending=largest, stable=True)[1]


def orders():
    shapes = [((3, 7), 1, 2), ((3, 7), 0, 3), ((2, 3, 5), 1, 1), ((64, 2), 0, 64), ((5, 1), 1, 1),
              ((2, 65), 1, 3), ((2, 150), 1, 32), ((2, 150), 1, 33), ((700,), 0, 700), ((2, 129), 1, 129),
              ((1, 2100), 1, 20), ((1, 256), 1, 200), ((2, 3000), 1, 2), ((2, 300), 1, 1),
              ((1, 5000), 1, 70), ((3, 0, 4), 2, 2)]  # fmt: skip
    for shape, dim, k in shapes:
        for dtype in FLOATS + INTEGERS if len(shape) > 1 and shape[1] < 8 else FLOATS[:2] + INTEGERS[:2]:
            for largest in False, True:
                x = few(shape, dtype)
                index = torch.int32 if largest else torch.int64
                at = in_order(x, dim, largest).narrow(dim, 0, k)
                values = x.gather(dim, at)
                want = values.double() if dtype.is_floating_point else values
                result = list(shape)
                result[dim] = k
                t, i = (type_of(torch.empty(result, dtype=d)) for d in (dtype, index))
                name = "top_k_%s_%s_%d_%d_%d" % (NAMES[dtype], "x".join(map(str, shape)), dim, k, largest)
                yield Case(name, [x], "%%v, %%i = mpcomm.top_k %%0, dim = %d, k = %d%s : (%s) -> (%s, %s)\n"
                           "return %%v, %%i" % (dim, k, " largest" * largest, type_of(x), t, i),
                           [want, at], [dtype, index])  # fmt: skip


RUNNING = {"sum": torch.cumsum, "prod": torch.cumprod, "max": lambda x, d: torch.cummax(x, d)[0],
           "min": lambda x, d: torch.cummin(x, d)[0]}  # fmt: skip


def running():
    shapes = [((3, 7), 1), ((3, 7), 0), ((2, 3, 5), 1), ((2, 19, 1), 1), ((5, 1), 1), ((2, 67), 1),
              ((70, 3), 0), ((0, 4), 0), ((3, 0, 4), 2)]  # fmt: skip
    for shape, dim in shapes:
        for dtype in FLOATS + INTEGERS:
            for kind, function in RUNNING.items():
                for reverse in False, True:
                    x = few(shape, dtype) if kind in ("max", "min") or not dtype.is_floating_point else \
                        1 - torch.randn(shape).to(dtype) / 64
                    whole = x.double() if dtype.is_floating_point else x.to(torch.int64)
                    whole = whole.flip(dim) if reverse else whole
                    want = function(whole, dim) if whole.numel() else whole
                    want = want.flip(dim) if reverse else want
                    t = type_of(x)
                    yield Case("cumulative_%s_%s_%s_%d_%d" % (kind, NAMES[dtype], "x".join(map(str, shape)),
                                                              dim, reverse), [x],
                               "%%r = mpcomm.cumulative %s %%0, dim = %d%s : (%s) -> %s\nreturn %%r" % (
                                   kind, dim, " reverse" * reverse, t, t),
                               [want.to(dtype) if dtype == torch.bool else want], length=shape[dim])


def random_numbers():
    seed = torch.tensor([-7, 2**31 - 1], dtype=torch.int32)
    key = tuple(int(s) & 0xFFFFFFFF for s in seed)
    shape, id = (3, 5, 7), 4294967295
    drawn = [philox((e, 0, id, 0), key) for e in range(math.prod(shape))]
    for dtype in FLOATS:
        bits = {torch.float32: 24, torch.float64: 53, torch.float16: 11, torch.bfloat16: 8}

        def unit(a, b, dtype):
            return math.ldexp((a << 32 | b) >> 64 - bits[dtype], -bits[dtype])

        wide = dtype if dtype == torch.float64 else torch.float32
        second = (2, 3) if dtype == torch.float64 else (1, 2)
        normal = [math.sqrt(-2 * math.log(1 - unit(w[0], w[1], wide))) *
                  math.cos(2 * math.pi * unit(w[second[0]], w[second[1]], wide)) for w in drawn]
        for kind, values in ("uniform", [unit(w[0], w[1], dtype) for w in drawn]), ("normal", normal):
            t = "tensor<3x5x7x%s>" % NAMES[dtype]
            yield Case("rng_%s_%s" % (kind, NAMES[dtype]), [seed],
                       "%%r = mpcomm.rng %s %%0, id = %d : (tensor<2xi32>) -> %s\nreturn %%r" % (kind, id, t),
                       [torch.tensor(values, dtype=torch.float64).reshape(shape)], [dtype])


torch.manual_seed(3)
cases = [*orders(), *running(), *random_numbers()]
sys.exit(harness.check(cases, ["--convert-mpcomm-to-linalg"], sys.argv[1], sys.argv[2]))
