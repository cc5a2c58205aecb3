# ===- decompose.py - operators by way of others ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The second tier of the importer: what has no translation is decomposed.

PyTorch defines most of its operators by others, down to a core. `expansion` traces
such a definition for one node of a graph, so that the converter can walk it in the
node's place; operators of it without a translation are expanded in turn. What
PyTorch has no definition of, or none in 1.13, is in decompositions.py.
"""

import torch
from torch.fx.node import map_arg

from ..torch_front import compat

OWN = {}  # name of an operator -> function, see decompositions.py


def decomposition(*names):
    """Registers what operators, of aten or named in full, are in terms of others."""
    def register(function):
        for name in names:
            name = name if name.startswith("prims.") else "aten." + name
            assert name not in OWN, f"{name} has a definition"
            OWN[name] = function
        return function
    return register


def definition(target):
    """What computes an operator by means of others, or None."""
    name = compat.op_name(target)
    own = OWN.get(name) or OWN.get(name.rsplit(".", 1)[0])
    return own or compat.definition(target)


def tensor_arguments(node):
    """The nodes that `node` reads a tensor of, each once."""
    found = {}
    map_arg((node.args, node.kwargs), lambda n: found.setdefault(n, n))
    return [n for n in found if compat.tensor_meta(n) is not None]


def with_arguments(node, values):
    """`node`'s arguments with `values` for the nodes among them."""
    return map_arg((node.args, node.kwargs),
                   lambda n: values[n] if n in values else compat.value(n))


def mutable(x):
    """`x` with lists that a definition may change, unlike those of a graph."""
    if isinstance(x, dict):
        return {k: mutable(v) for k, v in x.items()}
    if isinstance(x, tuple):
        return tuple(map(mutable, x))
    return list(map(mutable, x)) if isinstance(x, list) else x


def signature(node):
    """What an expansion depends on: equal for nodes that have the same one."""
    nodes = tensor_arguments(node)
    kinds = [compat.tensor_meta(n) + (compat.strides(n),) for n in nodes]
    names = {n: f"%{i}" for i, n in enumerate(nodes)}
    return str((node.target, with_arguments(node, names), kinds))


def expansion(node):
    """A module with the graph that computes a node's value from the tensors it reads;
    None where its operator has no definition. Whatever a definition raises passes."""
    function = definition(node.target)
    if function is None:
        return None
    nodes = tensor_arguments(node)

    def run(*values):
        args, kwargs = mutable(with_arguments(node, dict(zip(nodes, values))))
        result = function(*args, **kwargs)
        return tuple(result) if isinstance(result, (list, tuple)) else result

    module = trace(run, nodes)
    if any(compat.is_mutating(n.target) for n in module.graph.nodes):
        module = trace(compat.functionalize(run, remove="mutations"), nodes)
    remove_unused(module.graph)
    return module


def trace(function, nodes):
    """The graph of a function of tensors like those of `nodes`, by their shapes."""
    mode = compat.FakeTensorMode()
    with torch.no_grad(), mode:
        fakes = [torch.empty_strided(meta[0], compat.strides(n), dtype=meta[1])
                 for n, meta in ((n, compat.tensor_meta(n)) for n in nodes)]
        return compat.make_fx(function)(*fakes)


def remove_unused(graph):
    """Drops nodes without a use: what is computed to be looked at, and checks. A shape
    that depends on data may have been looked at, and what is written shows elsewhere."""
    for node in reversed(list(graph.nodes)):
        if node.op not in ("placeholder", "output") and not node.users and \
                not compat.is_mutating(node.target) and not compat.is_sized_by_data(node.target):
            graph.erase_node(node)
