# ===- aten_optimizer.py - operators of optimizers -------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations of operators that models rarely use and optimizers do."""

from .aten_pointwise import arithmetic, cast, formula
from .convert import aten
from .errors import Unsupported
from .pointwise import reduce


@aten("addcmul")
def addcmul(c, node, x, a, b, value=1):
    product = arithmetic(c, "mul", a, b)
    return arithmetic(c, "add", x, product if value == 1 else
                      arithmetic(c, "mul", product, value))


@aten("addcdiv")
def addcdiv(c, node, x, a, b, value=1):
    quotient = arithmetic(c, "div", a, b)
    return arithmetic(c, "add", x, quotient if value == 1 else
                      arithmetic(c, "mul", quotient, value))


@aten("copy")
def copy(c, node, x, value, non_blocking=False):
    return cast(c, value, c.result_meta()[1]).expand(c.result_meta()[0])


@aten("linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim")
def vector_norm(c, node, x, order=2, dims=None, keepdim=False, dtype=None):
    """The 1-norm, the 2-norm or the largest magnitude. Sums of 16-bit numbers are in
    f32, as PyTorch's are."""
    result = c.result_meta()[1]
    x = c.view(x)
    if order == 2 and x.base.type.is_float and x.base.type.width < 32:
        x = cast(c, x, "f32")
    if order not in (1, 2, float("inf")):
        raise Unsupported(f"a norm of order {order}")
    x = formula(c, "mul", x, x) if order == 2 else formula(c, "math.absf", x)
    dims = list(range(len(x.dims))) if dims is None or dims == [] else dims
    total = reduce(c.builder, "max" if order == float("inf") else "sum", x,
                   [dims] if isinstance(dims, int) else dims, keepdim)
    return cast(c, formula(c, "math.sqrt", total) if order == 2 else total, result)
