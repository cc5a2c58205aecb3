# ===- trace.py - a step of JAX as a module of StableHLO ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Lowers functions of JAX, with their gradients marked.

What jax.grad and jax.value_and_grad return is a gradient of the batch: from there on a
step is its optimizer. That is known only while JAX traces, so both are wrapped once
this module is imported; the mark is an identity, which is lowered to a call that the
translation knows when the importer lowers, and to nothing otherwise.
"""

import contextlib
import functools
import traceback

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxlib.mlir.dialects import stablehlo

from ..errors import ImportFailure
from . import ops as jax_ops

MARK = "mpcomm.gradient"
_state = {"lowering": False}

gradient_p = Primitive("gradient")
gradient_p.def_impl(lambda x: x)
gradient_p.def_abstract_eval(lambda x: x)
ad.deflinear(gradient_p, lambda cotangent: [cotangent])
batching.defvectorized(gradient_p)


def lower_mark(context, x):
    if not _state["lowering"]:
        return [x]
    return stablehlo.CustomCallOp([x.type], [x], MARK).results


# Not cached: what it is lowered to depends on who lowers.
mlir.register_lowering(gradient_p, lower_mark, cacheable=False)


def mark(tree):
    def each(x):
        is_float = jax.numpy.issubdtype(getattr(x, "dtype", np.int32), np.floating)
        return gradient_p.bind(x) if is_float else x
    return jax.tree_util.tree_map(each, tree)


def marking(transform, gradient_of):
    """`transform` of jax, with the gradient in its result marked."""
    @functools.wraps(transform)
    def wrapped(function, *args, **kwargs):
        inner = transform(function, *args, **kwargs)
        has_aux = kwargs.get("has_aux", args[1] if len(args) > 1 else False)

        @functools.wraps(inner)
        def apply(*inputs, **named):
            return gradient_of(inner(*inputs, **named), has_aux)
        return apply
    wrapped.marks_gradients = True
    return wrapped


def install():
    if not hasattr(jax.grad, "marks_gradients"):
        jax.grad = marking(jax.grad, lambda result, has_aux:
                           (mark(result[0]), *result[1:]) if has_aux else mark(result))
        jax.value_and_grad = marking(jax.value_and_grad, lambda result, has_aux:
                                     (result[0], mark(result[1])))
        jax_ops.install(lambda: _state["lowering"])


install()


@contextlib.contextmanager
def marks_lowered():
    _state["lowering"] = True
    try:
        yield
    finally:
        _state["lowering"] = False


def lower(name, function, *arguments):
    """(module, shapes of the results as a pytree) of `function` at these arguments,
    arrays or jax.ShapeDtypeStruct. Every leaf of them is an argument of @main."""
    try:
        with marks_lowered():
            lowered = jax.jit(function, keep_unused=True).lower(*arguments)
            return lowered.compiler_ir("stablehlo"), lowered.out_info
    except ImportFailure:
        raise
    except Exception as error:  # the user's, or JAX's
        frames = [f for f in traceback.extract_tb(error.__traceback__)
                  if "site-packages" not in f.filename and
                  "mpcomm_import" not in f.filename]
        where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        text = (str(error).strip().splitlines() or [""])[0]
        raise ImportFailure(f"tracing of {name} stopped{where}: {type(error).__name__}: "
                            f"{text}") from error


def path_name(path):
    """"params.Dense_0.kernel" of a path in a pytree."""
    parts = []
    for key in path:
        for field in ("key", "name", "idx"):
            if hasattr(key, field):
                parts.append(str(getattr(key, field)))
                break
        else:
            parts.append(str(key))
    return ".".join(parts)


def named_leaves(tree):
    """[(name, leaf)] of a pytree."""
    return [(path_name(path), leaf) for path, leaf in
            jax.tree_util.tree_flatten_with_path(tree)[0]]


def array(leaf):
    """A leaf as a numpy array of the type that JAX gives it; keys as their bits."""
    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if not hasattr(leaf, "dtype") or isinstance(leaf, np.ndarray):
        leaf = np.asarray(leaf)
        return leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype), copy=False)
    return np.asarray(leaf)
