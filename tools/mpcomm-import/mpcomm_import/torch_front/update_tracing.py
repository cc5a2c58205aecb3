# ===- update_tracing.py - an optimizer's step as a graph ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Traces `step()` of any torch.optim.Optimizer for one parameter.

Two traces tell what is state. The first runs on a parameter without state: what
the optimizer then has is its state. The later one runs on that state as inputs.
If the first trace is the later one with a constant in the place of each state,
these constants are the initial state. Otherwise the graph has both, and selects
by the count of steps.
"""

import collections
import copy
import dataclasses
import inspect
import os

import torch

from ..errors import ImportFailure
from . import compat
from .attributes import of_one_type, same
from .mutation import functional
from .traced_numbers import Number, Paths, Untraceable, check_followed, following

# Options that choose an implementation and not a result.
IMPLEMENTATION = {"foreach": False, "fused": False, "capturable": False,
                  "differentiable": False}
COPIES = ("clone", "detach", "alias", "lift_fresh", "lift_fresh_copy")
MOVES = COPIES + ("_to_copy", "expand", "view")


@dataclasses.dataclass
class State:
    """One entry of the state of a parameter. A counter counts steps: its value
    after a step is one more, and it starts at 0 (`initial` is that of a run that
    goes on). `initial` is None if the first step does not read it."""

    key: str
    shape: tuple
    dtype: torch.dtype
    initial: float = None
    is_counter: bool = False


@dataclasses.dataclass
class Update:
    """`module` computes (parameter, states…) from `inputs`: "parameter",
    "gradient", "lr", "step" (the count before this step) and keys of states."""

    module: torch.fx.GraphModule
    inputs: list
    states: list


class StateTable(dict):
    """The state of one parameter; its numbers are Numbers."""

    def __setitem__(self, key, value):
        super().__setitem__(key, as_number(value))

    def setdefault(self, key, value=None):
        if key not in self:
            self[key] = value
        return self[key]

    def update(self, *args, **kwargs):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_number(value):
    if not is_number(value) or isinstance(value, Number):
        return value
    return Number(torch.full((), float(value), dtype=torch.float64))


def plain_step(optimizer):
    """`step` without what PyTorch wraps it in, for profilers and hooks."""
    step = type(optimizer).step
    library = os.path.dirname(torch.__file__)
    while hasattr(step, "__wrapped__") and \
            step.__code__.co_filename.startswith(library):
        step = step.__wrapped__
    return step


# Attributes that a step gets from elsewhere.
OWN = {"state", "param_groups", "defaults"}


def contents(value):
    """What is in a container."""
    if isinstance(value, dict):
        value = [x for item in value.items() for x in item]
    return value if isinstance(value, (list, tuple, set)) else []


def copied(attributes):
    """Attributes of an optimizer for a step that may change containers among them."""
    return {k: copy.deepcopy(v) if k not in OWN and isinstance(v, (dict, list, set)) else v
            for k, v in attributes.items()}


def is_changed(value, old):
    if isinstance(value, torch.Tensor):
        return value is not old
    return not same(value, old, of_one_type)


class UpdateTracer:
    """Traces updates of the parameters of `group`, one of the optimizer's."""

    def __init__(self, optimizer, group):
        self.optimizer, self.group = optimizer, group
        self.kind = type(optimizer).__name__
        self.group_numbers = {}  # numbers of the group that a step changes: value before
        self.known = {}  # what a trace depends on -> Update
        self.step = plain_step(optimizer)
        parameters = list(inspect.signature(self.step).parameters.values())[1:]
        if any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
               for p in parameters):
            raise ImportFailure(f"optimizer {self.kind}: step() needs a closure, expected one "
                                "that updates from the gradients of one backward pass")
        for k, value in vars(optimizer).items():
            if k not in OWN and any(isinstance(x, torch.nn.Parameter) for x in contents(value)):
                raise ImportFailure(f"optimizer {self.kind}: its attribute '{k}' is a table of "
                                    "parameters, expected what differs between them in groups")

    def trace(self, parameter):
        """The Update of a parameter; equal ones share theirs."""
        state = dict(self.optimizer.state.get(parameter) or {})
        self.attributes = vars(parameter)
        key = (tuple(parameter.shape), parameter.dtype, repr(self.attributes), tuple(
            (k, tuple(v.shape), v.dtype) if isinstance(v, torch.Tensor) else
            (k, "number" if is_number(v) else repr(v)) for k, v in state.items()))
        if key not in self.known:
            try:
                with torch.no_grad(), following(self.step):
                    self.known[key] = self.trace_new(parameter, state)
            except Untraceable as error:
                raise ImportFailure(f"optimizer {self.kind}: {error}") from None
            except ImportFailure:
                raise
            except Exception as error:  # PyTorch's own or the optimizer's, of any type
                text = (str(error).strip().splitlines() or [""])[0]
                raise ImportFailure(f"optimizer {self.kind}: step() stopped on a parameter of "
                                    f"shape {tuple(parameter.shape)}: "
                                    f"{type(error).__name__}: {text}") from error
        return self.known[key]

    def trace_new(self, parameter, state):
        self.like = parameter
        given = {k: self.describe(k, v) for k, v in state.items()}
        first = None
        self.numbers = {k for k, v in state.items() if is_number(v)}
        if not state:
            first, after = self.record({})
            if self.find_group_numbers():
                first, after = self.record({})
            given = after
        later, after = self.record(given)
        if after.keys() != given.keys() or any(
                given[k] != v for k, v in after.items()):
            changed = sorted({k for k in set(given) | set(after) if
                              given.get(k) != after.get(k)})
            raise Untraceable(f"its state {', '.join(changed)} has another type after the "
                              "second step than after the first")
        if not self.known:
            self.check_alone(given)
        states = [State(k, *v) for k, v in given.items() if isinstance(v, tuple)]
        inputs = ["parameter", "gradient", "lr", "step"] + [s.key for s in states]
        outputs = list(later.graph.nodes)[-1].args[0]
        placeholders = [n for n in later.graph.nodes if n.op == "placeholder"]
        for s, placeholder, output in zip(states, placeholders[4:], outputs[1:]):
            s.is_counter = counts(output, placeholder)
        if first is None:
            return Update(later, inputs, states)
        initial = initial_state(first, later, states)
        for i, s in enumerate(states, 1):
            own = initial if initial is not None or not s.is_counter else \
                initial_state(first, later, states, [i])
            s.initial = (own or {}).get(s.key)
            s.is_counter &= s.initial is not None
        if initial is None:
            later, _ = self.record(given, first=True)
        return Update(later, inputs, states)

    def describe(self, key, value):
        """(shape, dtype) of a state; what else it is."""
        if isinstance(value, Number) or is_number(value):
            return (), self.number_type()
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), value.dtype
        if value is None or isinstance(value, (bool, str)):
            return [value]
        raise Untraceable(f"its state '{key}' is a {type(value).__name__}, expected tensors "
                          "and numbers")

    def number_type(self):
        return torch.float64 if self.like.dtype == torch.float64 else torch.float32

    def find_group_numbers(self):
        """Whether the last step has changed numbers of the group that were not known."""
        new = {}
        for key, value in self.group_after.items():
            old = self.group.get(key, 0)
            if is_number(value) and key not in self.group_numbers and \
                    not isinstance(value, Number) and value != old:
                if key not in self.group and value != 1:
                    raise Untraceable(f"its first step puts '{key}' into the group, expected a "
                                      "count of steps")
                new[key] = old
        self.group_numbers.update(new)
        return bool(new)

    # --- traces ---

    def record(self, given, first=False):
        """(graph, {key: description of the state after a step}) of a step that starts
        with state as `given` describes; if `first`, of one that may be the first."""
        keys = [k for k, v in given.items() if isinstance(v, tuple)]
        shape, dtype = self.like.shape, self.like.dtype
        examples = [torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype),
                    torch.empty(()), torch.empty(())]
        examples += [torch.empty(given[k][0], dtype=given[k][1]) for k in keys]
        after = {}

        def run(*inputs):
            parameter, gradient, lr, step = inputs[:4]
            tensors = dict(zip(keys, inputs[4:]))

            def once(tensors, given):
                return self.once(parameter, gradient, lr, {
                    k: tensors[k] if isinstance(v, tuple) else v[0]
                    for k, v in given.items()})

            result = Paths().run(lambda: once(tensors, given))
            if first:
                start = Paths().run(lambda: once({}, {}))
                result = {k: torch.where(step == 0, tensor_of(start[k], v), v)
                          if isinstance(v, torch.Tensor) else
                          Number(torch.where(step == 0, start[k].tensor, v.tensor))
                          if isinstance(v, Number) else v for k, v in result.items()}
            new = result.pop("")
            after.update({k: self.describe(k, v) for k, v in result.items()})
            return (new,) + tuple(tensor_of(v, self.number_type()) for v in result.values()
                                  if isinstance(v, (Number, torch.Tensor)))

        module = traced(run, examples)
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        for node, example in zip(placeholders, examples):
            node.meta["dtype"] = example.dtype
        return module, after

    def check_alone(self, given):
        """Refuses an update that depends on other parameters, as by a common norm."""
        keys = [k for k, v in given.items() if isinstance(v, tuple)]
        like = [torch.empty_like(self.like) for _ in range(4)]
        state = [torch.empty(given[k][0], dtype=given[k][1]) for k in keys]

        def run(parameter, gradient, other, its_gradient, *tensors):
            state = {**{k: v[0] for k, v in given.items()}, **dict(zip(keys, tensors))}
            lr = torch.zeros(())
            result = {}
            for answer in (True, False):
                try:
                    result[answer] = Paths(answer).once(lambda: self.once(
                        parameter, gradient, lr, state, (other, its_gradient)))
                except Exception:  # an error that ends a path, or that another trace names
                    continue
            return [tensor_of(v, torch.float64) for r in result.values() for v in r.values()
                    if isinstance(v, (Number, torch.Tensor))]

        graph = traced(run, like + state).graph
        if any(n.users for n in [n for n in graph.nodes if n.op == "placeholder"][2:4]):
            raise Untraceable("the update of one parameter depends on other parameters or "
                              "their gradients")

    def once(self, parameter, gradient, lr, state, others=()):
        """Runs step(); {"": new parameter, key: state}."""
        optimizer = object.__new__(type(self.optimizer))
        vars(optimizer).update(copied(vars(self.optimizer)))
        own = parameter.clone()
        vars(own).update(self.attributes)
        own.grad = gradient.clone()
        parameters = [own]
        optimizer.state = collections.defaultdict(StateTable)
        group = {k: v for k, v in self.group.items() if k != "params"}
        group.update({k: v for k, v in IMPLEMENTATION.items() if k in group})
        if "lr" in group:
            group["lr"] = Number(lr)
        fresh = {k: v for k, v in state.items() if k not in self.group_numbers}
        for k, value in self.group_numbers.items():
            group[k] = Number(state[k]) if k in state else as_number(value)
        if others:
            other = others[0].clone()
            other.grad = others[1].clone()
            parameters.append(other)
        for p in parameters:
            table = optimizer.state[p]
            for k, value in fresh.items():
                is_tensor = isinstance(value, torch.Tensor)
                table[k] = Number(value) if k in self.numbers else \
                    value.clone() if is_tensor else value
            if not table:
                del optimizer.state[p]
        group["params"] = parameters
        optimizer.param_groups = [group]
        self.step(optimizer)
        for k, value in vars(optimizer).items():
            old = vars(self.optimizer).get(k)
            if k not in OWN and is_changed(value, old):
                raise Untraceable(f"step() changes its attribute '{k}', expected what changes "
                                  "from step to step in the state of a parameter")
        self.group_after = {k: v for k, v in group.items() if k != "params"}
        result = dict(optimizer.state[own])
        for k in self.group_numbers:
            if k in result:
                raise Untraceable(f"'{k}' is in the group and in the state of a parameter")
            result[k] = as_number(group[k])
        self.numbers = {k for k, v in result.items() if isinstance(v, Number)}
        return {"": own, **result}


def traced(function, examples):
    """The graph of a function, without what nothing needs."""
    module = compat.make_fx(function, tracing_mode="fake")(*examples)
    module = functional(module, examples, [], "fake")
    check_followed(module.graph)
    if any(n.op == "call_function" and compat.is_random(n.target) for n in module.graph.nodes):
        raise Untraceable("step() draws random numbers")
    merge_equal(module.graph)
    module.graph.eliminate_dead_code()
    return module


def merge_equal(graph):
    """Leaves one of equal nodes, and no copies: runs of one function begin alike. Writes
    to where a mask holds become selections, and maxima of two stacked tensors maxima."""
    known = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        name = compat.base_name(compat.op_name(node.target))
        if name == "index_put" and is_mask(node):
            node.target, name = torch.ops.aten.where.self, "where"
            node.args = (node.args[1][0], node.args[2], node.args[0])
        elif name == "amax" and (pair := stacked(node)):
            node.target, node.args, node.kwargs = torch.ops.aten.maximum.default, pair, {}
        if name == "where" and len(node.args) == 3:
            condition, a, b = node.args
            a, b = (x.args[1 + i] if is_where(x, condition) else x
                    for i, x in enumerate((a, b)))
            node.args = (condition, a, b)
        is_copy = name in COPIES or name == "_to_copy" and \
            compat.tensor_meta(node) == compat.tensor_meta(node.args[0])
        same = node.args[0] if is_copy else \
            node.args[1] if name == "where" and node.args[1] is node.args[2] else \
            known.setdefault((node.target, repr(node.args), repr(node.kwargs)), node)
        if same is not node:
            node.replace_all_uses_with(same)


def is_mask(put):
    """Whether an index_put writes one number where a mask holds."""
    x, indices, value = put.args[:3]
    meta = compat.tensor_meta(value)
    number = meta[0] == () if meta else value.op == "get_attr" and \
        getattr(put.graph.owning_module, value.target).dim() == 0
    return number and len(put.args) == 3 and len(indices) == 1 and \
        compat.tensor_meta(indices[0]) == (compat.tensor_meta(x)[0], torch.bool)


def stacked(amax):
    """The two tensors that lie one after the other in what an amax reduces."""
    cat, parts = amax.args[0], []
    if len(amax.args) > 2 or amax.args[1] not in (0, [0]) or name_of(cat) != "cat" or \
            len(cat.args[0]) != 2 or (cat.args[1] if len(cat.args) > 1 else 0) != 0:
        return None
    for part in cat.args[0]:
        if name_of(part) != "unsqueeze" or part.args[1] != 0:
            return None
        parts.append(part.args[0])
    return tuple(parts)


def name_of(node):
    return compat.base_name(compat.op_name(node.target)) if node.op == "call_function" else ""


def is_where(x, condition):
    return isinstance(x, torch.fx.Node) and x.op == "call_function" and \
        compat.base_name(compat.op_name(x.target)) == "where" and len(x.args) == 3 and \
        x.args[0] is condition


# --- the first step ---------------------------------------------------------------- #

def initial_state(first, later, states, which=None):
    """{key: number in all elements} of the state that makes a later step of the first
    one, in the outputs `which`; None if there is no such state."""
    outputs = [list(m.graph.nodes)[-1].args[0] for m in (first, later)]
    inputs = [[n for n in m.graph.nodes if n.op == "placeholder"] for m in (first, later)]
    free = dict(zip(inputs[1][4:], (s.key for s in states)))
    match = Match(first, later, dict(zip(inputs[1][:4], inputs[0][:4])), free)
    if len(outputs[0]) != len(outputs[1]):
        return None
    for i in range(len(outputs[0])) if which is None else which:
        if not match.same(outputs[0][i], outputs[1][i]):
            return None
    initial = {s.key: 0.0 for s in states}
    for placeholder, node in match.bound.items():
        if placeholder in free:
            initial[free[placeholder]] = uniform(first, node)
    return None if None in initial.values() else initial


def tensor_of(value, like):
    """A state as what the graph returns; Numbers are of type `like`."""
    dtype = like.dtype if isinstance(like, torch.Tensor) else like
    return value.tensor.to(dtype) if isinstance(value, Number) else value


class Match:
    """Whether two graphs are equal once inputs of the later one are replaced by
    values of the first one."""

    def __init__(self, first, later, bound, free):
        self.first, self.later = first, later
        self.bound, self.free, self.known = bound, free, {}

    def same(self, a, b):
        if isinstance(b, torch.fx.Node):
            return isinstance(a, torch.fx.Node) and self.same_nodes(a, b)
        if isinstance(b, (list, tuple)):
            return isinstance(a, (list, tuple)) and len(a) == len(b) and \
                all(self.same(x, y) for x, y in zip(a, b))
        return type(a) is type(b) and a == b

    def same_nodes(self, a, b):
        if b in self.known:
            return self.known[b] is a
        if name_of(b) == "_to_copy" and b.args[0] in self.free and name_of(a) != "_to_copy":
            b = b.args[0]  # a number, which the first trace has as it is
        if b.op == "placeholder":
            return self.bound.setdefault(b, a) is a if b in self.free or b in self.bound \
                else False
        if a.op != b.op:
            return False
        if a.op == "get_attr":
            x, y = getattr(self.first, a.target), getattr(self.later, b.target)
            equal = x.dtype == y.dtype and torch.equal(x, y)
        else:
            equal = a.target == b.target and self.same(a.args, b.args) and \
                a.kwargs.keys() == b.kwargs.keys() and \
                all(self.same(a.kwargs[k], v) for k, v in b.kwargs.items())
        if equal:
            self.known[b] = a
        return equal


def uniform(module, node):
    """The number that all elements of a node's value are, if the graph says so."""
    if node.op == "get_attr":
        value = getattr(module, node.target).detach()
        return float(value.flatten()[0]) if (value == value.flatten()[0]).all() else None
    if node.op != "call_function":
        return None
    name = compat.base_name(compat.op_name(node.target))
    if name in MOVES:
        return uniform(module, node.args[0])
    if name in ("zeros", "zeros_like", "new_zeros"):
        return 0.0
    if name in ("ones", "ones_like", "new_ones"):
        return 1.0
    at = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0, "fill": 1}.get(name)
    if at is not None and is_number(node.args[at]):
        return float(node.args[at])
    return None


def counts(output, placeholder):
    """Whether an output is an input plus one."""
    node = stripped(output)
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and \
        compat.base_name(compat.op_name(node.target)) == "add" and \
        not node.kwargs and stripped(node.args[0]) is placeholder and \
        is_one(node.args[1])


def is_one(x):
    x = stripped(x)
    if isinstance(x, torch.fx.Node):
        return x.op == "call_function" and \
            compat.base_name(compat.op_name(x.target)) == "full" and x.args[1] == 1
    return x == 1


def stripped(node):
    while isinstance(node, torch.fx.Node) and node.op == "call_function" and \
            compat.base_name(compat.op_name(node.target)) in MOVES:
        node = node.args[0]
    return node
