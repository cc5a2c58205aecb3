# ===- ops.py - functions of JAX that are ops of the dialect --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Keeps softmax and GELU whole on the way through StableHLO, and their gradients.

The dialect has an op for each, which becomes one kernel, and from which attention is
recognised. While a step is lowered by the importer, jax.nn.softmax and jax.nn.gelu are
calls; otherwise they are what they were. Their derivatives are linear in the tangent and
equal to their own transposes, so one op serves both directions of differentiation.
"""

import functools

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

plain_softmax, plain_gelu = jax.nn.softmax, jax.nn.gelu


def primitive(name, implementation, is_lowering):
    """A primitive with one parameter, whose result is like its first operand."""
    p = Primitive(name)
    p.def_impl(implementation)
    p.def_abstract_eval(lambda x, *others, **parameter: x)
    plain = mlir.lower_fun(implementation, multiple_results=False)

    def lower(context, *operands, **parameter):
        if not is_lowering():
            return plain(context, *operands, **parameter)
        text, = parameter.values()
        call = stablehlo.CustomCallOp([operands[0].type], operands, f"mpcomm.{name}",
                                      backend_config=ir.StringAttr.get(str(text)))
        return call.results

    def batch(operands, dims, **parameter):  # axes are counted from the last
        size = next(x.shape[d] for x, d in zip(operands, dims) if d is not None)
        moved = [jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
                 for x, d in zip(operands, dims)]
        return p.bind(*moved, **parameter), 0

    mlir.register_lowering(p, lower, cacheable=False)
    batching.primitive_batchers[p] = batch
    return p


def differentiable(name, implementation, gradient, of_result, is_lowering):
    """A primitive and its derivative, gradient(tangent, result or operand)."""
    p = primitive(name, implementation, is_lowering)
    g = primitive(f"{name}_grad", gradient, is_lowering)

    def derive(values, tangents, **parameter):
        (x,), (t,) = values, tangents
        y = p.bind(x, **parameter)
        if type(t) is ad.Zero:
            return y, t
        return y, g.bind(t, y if of_result else x, **parameter)

    def derive_gradient(values, tangents, **parameter):
        tangents = [ad.instantiate_zeros(t) for t in tangents]
        return jax.jvp(functools.partial(gradient, **parameter), tuple(values), tuple(tangents))

    def transpose(cotangent, t, at, **parameter):
        return [None if type(cotangent) is ad.Zero else g.bind(cotangent, at, **parameter), None]

    ad.primitive_jvps[p], ad.primitive_jvps[g] = derive, derive_gradient
    ad.primitive_transposes[g] = transpose
    return p


def softmax_gradient(t, y, axis):
    return y * (t - (y * t).sum(axis, keepdims=True))


def gelu_gradient(t, x, approximate):
    slope = jax.grad(lambda v: plain_gelu(v, approximate=approximate == "tanh").sum())
    return t * slope(x)


def is_float(x):
    return isinstance(x, jax.Array) and x.ndim > 0 and jnp.issubdtype(x.dtype, jnp.floating)


def install(is_lowering):
    softmax_p = differentiable("softmax", lambda x, axis: plain_softmax(x, axis),
                               softmax_gradient, True, is_lowering)
    gelu_p = differentiable(
        "gelu", lambda x, approximate: plain_gelu(x, approximate == "tanh"), gelu_gradient,
        False, is_lowering)

    @functools.wraps(plain_softmax)
    def softmax(x, axis=-1, *args, **kwargs):
        if is_float(x) and isinstance(axis, int) and not args and \
                all(v is None for v in kwargs.values()):
            return softmax_p.bind(x, axis=axis % x.ndim - x.ndim)
        return plain_softmax(x, axis, *args, **kwargs)

    @functools.wraps(plain_gelu)
    def gelu(x, approximate=True):
        if is_float(x):
            return gelu_p.bind(x, approximate="tanh" if approximate else "none")
        return plain_gelu(x, approximate)

    jax.nn.softmax, jax.nn.gelu = softmax, gelu
