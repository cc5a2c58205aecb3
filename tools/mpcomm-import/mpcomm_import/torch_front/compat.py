# ===- compat.py - what differs between versions of PyTorch ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Every use of PyTorch that is not the same in 1.13 and in 2.x is here."""

import contextlib
import inspect

import torch
import torch._refs  # noqa: F401 (definitions of operators)
from torch._decomp import decomposition_table
from torch._subclasses import FakeTensorMode  # noqa: F401
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: F401

try:  # 2.x
    from torch.func import functionalize
except ImportError:  # 1.13
    from functorch.experimental import functionalize  # noqa: F401

# Operators that draw random numbers, for versions that do not tag them.
RANDOM = {"bernoulli", "bernoulli_", "rand", "rand_like", "randn", "randn_like",
          "randint", "randint_like", "randperm", "normal", "normal_", "uniform",
          "uniform_", "native_dropout", "multinomial", "exponential_"}


def op_name(target):
    """"aten.add.Tensor" for an operator, the Python name for anything else."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__name__", str(target))


def base_name(name):
    """The operator without namespace and overload: "add"."""
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else parts[-1]


def is_random(target):
    if base_name(op_name(target)) in RANDOM:
        return True
    tag = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
    return tag is not None and tag in getattr(target, "tags", ())


def is_sized_by_data(target):
    """Whether the shape of an operator's result depends on values."""
    tag = getattr(getattr(torch, "Tag", None), "dynamic_output_shape", None)
    return tag is not None and tag in getattr(target, "tags", ())


def is_mutating(target):
    schema = getattr(target, "_schema", None)
    if schema is None:
        return False
    return any(a.alias_info is not None and a.alias_info.is_write
               for a in schema.arguments)


def is_update(node):
    """Whether a node writes to an input: what is left of in-place operators in a
    functional graph."""
    return base_name(op_name(node.target)) == "copy_" and \
        node.args[0].op == "placeholder"


def tensor_meta(node):
    """(shape, dtype) of a traced node's value; None where it is not a tensor."""
    meta = node.meta.get("tensor_meta")
    if meta is None or not hasattr(meta, "dtype"):
        meta = node.meta.get("val")
    if meta is None or not hasattr(meta, "dtype"):
        return None
    return tuple(meta.shape), meta.dtype


def value(node):
    """A traced node's value where it is not a tensor: a number, None, a list."""
    if "val" not in node.meta and "tensor_meta" not in node.meta:
        raise ValueError(f"{node} is not known")
    return node.meta.get("val")


def strides(node):
    """Those of a traced node's value, which is a tensor."""
    for key in ("tensor_meta", "val"):
        stride = getattr(node.meta.get(key), "stride", None)
        if stride is not None:
            return tuple(stride() if callable(stride) else stride)
    raise AssertionError(f"{node} is not a tensor")


def storage_offset(node):
    """Where in its memory a traced node's value begins; None if that is not known, of real
    tensors in 1.13."""
    meta = node.meta.get("val")
    return meta.storage_offset() if hasattr(meta, "storage_offset") else None


def definition(target):
    """What PyTorch itself computes an operator by: a function that calls others."""
    if target in decomposition_table:
        return decomposition_table[target]
    for key in ("impl_aten", "prim_impl"):  # of torch.ops.prims
        if hasattr(target, key):
            return getattr(target, key)
    if isinstance(target, torch._ops.OpOverload) and \
            torch._C._dispatch_has_kernel_for_dispatch_key(target.name(),
                                                           "CompositeImplicitAutograd"):
        return target.decompose
    return None


def has_unknown_sizes(graph):
    """Whether shapes alone, without values, left sizes of the graph open (2.x)."""
    return any(not isinstance(n, int) for node in graph.nodes
               for n in (tensor_meta(node) or ((),))[0])


def memory(tensor):
    """Where a tensor lies; keeps that memory alive."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else \
        tensor._storage()
    return storage, tensor._version, (tensor.shape, tensor.stride(), tensor.storage_offset())


def is_data_assigned(was, now):
    """Whether a tensor lies elsewhere, not by an operator (`t_`), which would count as
    a version."""
    return was[0]._cdata != now[0]._cdata or was[1] == now[1] and was[2] != now[2]


def safe_softmax(x, dim):
    """Softmax; where PyTorch's attention has zeros in rows that are all -inf, with those."""
    safe = getattr(torch, "_safe_softmax", None)
    return torch.softmax(x, dim) if safe is None else safe(x, dim)


def before_forward(module, hook):
    """Registers hook(module, args), with keyword arguments as a third from 2.0 on."""
    if "with_kwargs" in inspect.signature(module.register_forward_pre_hook).parameters:
        return module.register_forward_pre_hook(hook, with_kwargs=True)
    return module.register_forward_pre_hook(hook)


def depends(tensor, inputs):
    """Whether a tensor, while it is traced, is computed from one of `inputs`; True where that
    is not known (1.13)."""
    if not hasattr(proxy_tensor, "get_innermost_proxy_mode"):
        return True
    tracer = proxy_tensor.get_innermost_proxy_mode().tracer

    def nodes_of(tensors):
        slots = [proxy_tensor.get_proxy_slot(t, tracer, None) for t in tensors]
        return [slot.proxy.node for slot in slots if slot is not None]

    wanted, todo, seen = set(nodes_of(inputs)), nodes_of([tensor]), set()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += node.all_input_nodes
    return bool(wanted & seen)


def constant_values():
    """While it is entered, a model that is traced on real tensors may look at the values of
    those that are made of constants alone, such as a mask. (2.x; nothing before.)"""
    if not hasattr(proxy_tensor, "get_innermost_proxy_mode"):
        return contextlib.nullcontext()
    from torch.utils._python_dispatch import TorchDispatchMode
    looks = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default}
    known = {}

    def is_constant(node):
        todo = [node]
        while todo:
            node = todo[-1]
            inputs = [n for n in node.all_input_nodes if n not in known]
            if node in known or node.op == "placeholder" or not inputs:
                known.setdefault(node, node.op != "placeholder" and not is_random(node.target) and
                                 all(known[n] for n in node.all_input_nodes))
                todo.pop()
            else:
                todo += inputs
        return known[node]

    class Looks(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in looks:
                tracer = proxy_tensor.get_innermost_proxy_mode().tracer
                slots = [proxy_tensor.get_proxy_slot(t, tracer, None) for t in args
                         if isinstance(t, torch.Tensor)]
                if all(slot is None or is_constant(slot.proxy.node) for slot in slots):
                    with proxy_tensor.disable_proxy_modes_tracing():
                        return func(*args)
            return func(*args, **(kwargs or {}))

    return Looks()


@contextlib.contextmanager
def observe_nodes(callback):
    """Calls `callback(node)` for each node that any fx graph creates."""
    create = torch.fx.Graph.create_node

    def observed(self, *args, **kwargs):
        node = create(self, *args, **kwargs)
        callback(node)
        return node

    torch.fx.Graph.create_node = observed
    try:
        yield
    finally:
        torch.fx.Graph.create_node = create
