# ===- attributes.py - what a model leaves in plain attributes -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Attributes of modules that are not registered, which a step cannot keep.

forward() may use them within a step (`self.attention = …` for the loss to read), but
what it leaves in them must not matter to the next step. To find out, the model is
traced again with what the first trace left, tensors replaced by stand-ins: if it
matters, the second graph differs. An attribute that the second trace changes again
(a count of calls) is worth a warning, as a later value of it might matter. Hooks that
forward() adds to modules are there in the next step, too.
"""

import collections
import copy
import itertools

import torch
from torch.utils._pytree import tree_map

CONTAINERS = (list, dict, set, collections.OrderedDict, collections.defaultdict,
              collections.deque)
NUMBERS = (bool, int, float, complex, str, bytes, torch.dtype, torch.device)
OWN = frozenset(vars(torch.nn.Module()))  # what every module has
HOOKS = frozenset(name for name in OWN if "_hooks" in name)  # tables of them
ABSENT = object()


class Attributes:
    """The attributes of `modules`, [(prefix, module)], and what lists and dictionaries
    among them contain, as they are now."""

    def __init__(self, modules):
        self.tables = [(prefix, vars(m), dict(vars(m))) for prefix, m in modules]
        self.contents = {id(v): (v, copy.copy(v)) for _, _, was in self.tables
                         for v in was.values() if type(v) in CONTAINERS}

    def restore(self):
        for _, table, was in self.tables:
            table.clear()
            table.update(was)
        for container, was in self.contents.values():
            if not same(container, was):
                container.clear()
                getattr(container, "update", getattr(container, "extend", None))(was)

    def changes(self):
        """{(prefix, key): value} of the plain attributes that have changed since; the
        value is ABSENT where there is none any more. Of hooks those that were added."""
        found = {}
        for prefix, table, was in self.tables:
            for key in {**was, **table}.keys() - OWN:
                old, new = was.get(key, ABSENT), table.get(key, ABSENT)
                if new is old and id(old) in self.contents:
                    old = self.contents[id(old)][1]
                if not same(old, new):
                    found[prefix, key] = copied(new)
            for key in HOOKS & was.keys() & table.keys():
                old = self.contents[id(was[key])][1] if id(was[key]) in self.contents else {}
                added = {k: h for k, h in (table[key] or {}).items() if k not in old}
                if added:
                    found[prefix, key] = added
        return found


def copied(value):
    return copy.copy(value) if type(value) in CONTAINERS else value


def identical(a, b):
    return a is b


def of_one_type(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (a.shape, a.dtype) == (b.shape, b.dtype)
    return type(a) is type(b)


def same(a, b, objects=identical):
    """Whether two values of an attribute are equal; `objects` compares tensors and
    whatever else is neither a number nor a container."""
    if a is b:
        return True
    if type(a) is not type(b):
        return objects(a, b)
    if isinstance(a, NUMBERS):
        return a == b
    if type(a) is set or not isinstance(a, CONTAINERS + (tuple,)):
        return a == b if type(a) is set else objects(a, b)
    if isinstance(a, dict):
        a, b = ([x for item in d.items() for x in item] for d in (a, b))
    return len(a) == len(b) and all(same(x, y, objects) for x, y in zip(a, b))


def stand_in(tensor):
    """A tensor of one element's memory, which same_graph knows. Its values lead a model
    that looks at them astray, so that this shows, too."""
    if tensor.is_floating_point() or tensor.is_complex():
        value = float("nan")
    else:
        value = True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max
    return torch.full((), value, dtype=tensor.dtype).expand(tuple(tensor.shape))


def for_next(changes, registered):
    """`changes` as the next trace gets them: with stand-ins for tensors but the
    `registered` ones, {id of what replaced it: tensor}. Also the ids of the stand-ins."""
    made = {}

    def convert(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in registered:
            return registered[id(value)]
        new = stand_in(value)
        made[id(new)] = new
        return new

    return {k: tree_map(convert, v) for k, v in changes.items()}, made


def same_graph(first, second, stand_ins):
    """Whether two traced modules compute the same and `second` uses no stand-in."""
    for a, b in itertools.zip_longest(first.graph.nodes, second.graph.nodes):
        if a is None or b is None or a.op != b.op:
            return False
        if any(str(x) != str(y) for x, y in ((a.target, b.target), (a.args, b.args),
                                             (a.kwargs, b.kwargs))):
            return False
        if a.op == "get_attr":
            x, y = getattr(first, a.target), getattr(second, b.target)
            if id(y) in stand_ins or x is not y and not (of_one_type(x, y) and torch.equal(x, y)):
                return False
    return True


def unsteady(first, second):
    """Names of attributes that two traces, one after the other, leave different."""
    return sorted("".join(k) for k, v in second.items()
                  if k not in first or not same(first[k], v, of_one_type))
