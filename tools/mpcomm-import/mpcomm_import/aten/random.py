# ===- random.py - random numbers -----------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of operators that draw random numbers.

No number is stored: each op draws from the seed of the step, by an id of its own. The
mask of dropout is drawn again by its gradient."""

import dataclasses
import math

from ..emit.views import View, materialise
from ..errors import Unsupported
from ..ir.graph import Type, enum
from .convert import aten
from .pointwise import cast, compare, formula, operands, simple


@dataclasses.dataclass
class Mask:
    """What was drawn; stands for the second result of native_dropout."""

    p: float
    id: int


def masked(c, name, x, mask):
    value = materialise(c.builder, c.view(x))
    return View.of(c.builder.create(
        name, [value, c.random_seed()], [value.type], p=mask.p, id=mask.id)[0])


@aten("native_dropout")
def native_dropout(c, node, x, p, train):
    if not train or p == 0:
        return c.view(x), None
    c.drawn += 1
    mask = Mask(float(p), c.drawn - 1)
    return masked(c, "mpcomm.dropout", x, mask), mask


@aten("native_dropout_backward")
def native_dropout_backward(c, node, grad, mask, scale):
    return c.view(grad) if mask is None else \
        masked(c, "mpcomm.dropout_grad", grad, mask)


# --- distributions ------------------------------------------------------------------ #

def draw(c, distribution, shape, dtype):
    """Numbers that no other op of the step draws."""
    c.drawn += 1
    return View.of(c.builder.create(
        "mpcomm.rng", [c.random_seed()], [Type(shape, dtype)],
        distribution=enum("rng_distribution", distribution), id=c.drawn - 1)[0])


def like_result(c, distribution):
    shape, dtype = c.result_meta()
    if not Type((), dtype).is_float:
        raise Unsupported(f"random numbers of type {dtype}")
    return draw(c, distribution, shape, dtype)


def stretched(c, x, factor, start):
    if factor != 1:
        x = formula(c, "mul", x, factor)
    return x if start == 0 else formula(c, "add", x, start)


@aten("rand", "rand_like")
def rand(c, node, *args, **kwargs):
    return like_result(c, "uniform")


@aten("randn", "randn_like")
def randn(c, node, *args, **kwargs):
    return like_result(c, "normal")


def in_place(function):
    """For an operator that 1.13 leaves writing to its first argument."""
    def translate(c, node, *args, **kwargs):
        result = function(c, node, *args, **kwargs)
        c.overwrite(node.args[0], result)
        return result
    return translate


def into(*names):
    """Registers the operators, and those of them that are in place, "uniform_"."""
    def register(function):
        plain = [n for n in names if not n.split(".")[0].endswith("_")]
        aten(*plain)(function)
        aten(*[n for n in names if n not in plain])(in_place(function))
        return function
    return register


@into("uniform", "uniform_")
def uniform(c, node, x, low=0.0, high=1.0, generator=None):
    return stretched(c, like_result(c, "uniform"), high - low, low)


@into("normal_functional", "normal_")
def normal(c, node, x, mean=0.0, std=1.0, generator=None):
    return stretched(c, like_result(c, "normal"), std, mean)


@aten("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor",
      "normal.float_float")
def normal_of(c, node, mean, std=1.0, *args, **kwargs):
    return stretched(c, like_result(c, "normal"), std, mean)


@into("exponential", "exponential_")
def exponential(c, node, x, rate=1.0, generator=None):
    rest = formula(c, "sub", 1.0, like_result(c, "uniform"))
    return formula(c, "mul", formula(c, "math.log", rest), -1.0 / rate)


def trials(c, p):
    """1 with probability p, a number or a tensor, else 0."""
    shape, dtype = c.result_meta()
    wide = dtype if Type((), dtype).is_float and Type((), dtype).width > 16 else "f32"
    hits = compare(c, "olt", draw(c, "uniform", shape, wide),
                   p if isinstance(p, float) else cast(c, p, wide))
    return cast(c, hits, dtype)


@aten("bernoulli.default")
def bernoulli(c, node, p, generator=None):
    return trials(c, p)


@into("bernoulli.p", "bernoulli_.float")
def bernoulli_p(c, node, x, p=0.5, generator=None):
    return trials(c, float(p))


@into("bernoulli.Tensor", "bernoulli_.Tensor")
def bernoulli_tensor(c, node, x, p, generator=None):
    return trials(c, p)


@aten("randint.default", "randint.generator", "randint_like.default")
def randint(c, node, x, high=None, *args, **kwargs):
    # randint(high, size) or randint_like(x, high).
    return integers(c, 0, x if isinstance(x, int) else high)


@aten("randint.low", "randint.low_generator")
def randint_low(c, node, low, high, *args, **kwargs):
    return integers(c, low, high)


@aten("randint_like.low_dtype")
def randint_like_low(c, node, x, low, high, *args, **kwargs):
    return integers(c, low, high)


def integers(c, low, high):
    """floor(u (high - low)) + low; u has 24 bits, or 53 for what these do not reach."""
    shape, dtype = c.result_meta()
    wide = "f32" if high - low <= 2**24 else "f64"
    scaled = formula(c, "mul", draw(c, "uniform", shape, wide), float(high - low))
    # Rounding may reach the end, which is not in the range.
    below = formula(c, "arith.minimumf", simple(c, "math.floor", [scaled]),
                    float(high - low - 1))
    whole = cast(c, below, dtype)
    if low == 0:
        return whole
    name = "arith.addf" if Type((), dtype).is_float else "arith.addi"
    return simple(c, name, operands(c, [whole, low], dtype))


@aten("randperm")
def randperm(c, node, n, *args, **kwargs):
    """The order of n random numbers."""
    shape, dtype = c.result_meta()
    keys = draw(c, "uniform", shape, "f64").base
    index = "i32" if dtype == "i32" else "i64"
    found = c.builder.create("mpcomm.top_k", [keys], [keys.type, Type(shape, index)],
                             dim=0, k=math.prod(shape))[1]
    return cast(c, View.of(found), dtype)


@aten("multinomial")
def multinomial(c, node, p, count, replacement=False, generator=None):
    """Without replacement, by the order of p / e for exponential numbers e (Efraimidis
    and Spirakis, 2006)."""
    if replacement and count > 1:
        raise Unsupported("with replacement")
    p = c.view(p)
    rest = formula(c, "sub", 1.0, draw(c, "uniform", p.shape, p.dtype))
    race = formula(c, "div", p, formula(c, "arith.negf", formula(c, "math.log", rest)))
    value = materialise(c.builder, race)
    shape = value.shape[:-1] + (count,)
    return View.of(c.builder.create(
        "mpcomm.top_k", [value], [Type(shape, value.dtype), Type(shape, "i64")],
        dim=len(shape) - 1, k=count, largest=True)[1])
