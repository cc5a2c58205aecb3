# ===- pytrees.py - the state of a step of JAX ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translates between the state of a program and the pytree that it was compiled from.

A program calls an array by its path in the tree, `params.Dense_0.kernel`. Keys of
jax.random are their bits, and unsigned integers the signed ones of the same bits.
"""

import importlib
from typing import Any, Collection, Dict, Mapping

import numpy

from . import tools
from .errors import Error
from .names import listed


def to_arrays(tree: Any) -> Dict[str, numpy.ndarray]:
    """The leaves by the names that a program gives them."""
    trace = importlib.import_module(".jax_front.trace", tools.importer().__name__)
    result = {}
    for name, leaf in trace.named_leaves(tree):
        array = trace.array(leaf)
        result[name] = array.view(array.dtype.name[1:]) if array.dtype.kind == "u" else array
    return result


def filled(tree: Any, values: Mapping[str, Any], needed: Collection[str]) -> Any:
    """A tree as `tree` is, with those of its leaves that `values` has. `needed`: names that
    have to be leaves."""
    import jax
    names = to_arrays(tree)
    missing = [n for n in needed if n not in names]
    if missing:
        raise Error("the tree has no " + listed(missing), code="not_found")
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return jax.tree_util.tree_unflatten(structure, [
        like(leaf, name, values[name]) if name in values else leaf
        for leaf, name in zip(leaves, names)])


def like(leaf: Any, name: str, value: Any) -> Any:
    """A value of the program's as an array of JAX of the type of `leaf`."""
    import jax
    if hasattr(value, "detach"):  # NumPy cannot take all types of PyTorch
        value = value.float().numpy() if value.is_floating_point() else value.numpy()
    value = numpy.asarray(value)
    is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", numpy.float32), jax.dtypes.prng_key)
    if is_key:
        return jax.random.wrap_key_data(value.view(numpy.uint32),
                                        impl=jax.random.key_impl(leaf))
    wanted = jax.numpy.asarray(leaf)
    if value.shape != wanted.shape:
        raise Error(f"'{name}': expected shape {list(value.shape)}, found {list(wanted.shape)}")
    if wanted.dtype.kind == "u":
        value = value.view(wanted.dtype)
    return jax.numpy.asarray(value, wanted.dtype)
