# ===- mutation.py - what a model writes -----------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""From a graph that writes to tensors to one that only makes new ones.

A step is a pure function: what the model writes to a buffer is a result. The
graph that `functional` gives ends in one `copy_` for each input that is written.
The sources of these copies are values from before all of them, so that no copy
reads what another one has written.
"""

import collections
import contextlib
import math

import torch

from ..errors import ImportFailure
from . import compat
from .attributes import ABSENT, HOOKS, Attributes, copied, for_next


def functional(module, state, batch, tensors_mode):
    """`module` without in-place operators; the same graph if it has none."""
    name_statistics(module.graph)
    check_writes(module.graph)
    if not any(compat.is_mutating(n.target) for n in module.graph.nodes):
        return module

    class Replay(torch.fx.Interpreter):
        origin = reordered = None

        def run_node(self, node):
            self.origin = node.meta.get("mpcomm")
            if compat.base_name(compat.op_name(node.target)) in STRIDED and \
                    tuple(self.env[node.args[0]].stride()) != compat.strides(node.args[0]):
                self.reordered = self.origin.module if self.origin else "the model"
            return super().run_node(node)

    flat = torch.fx.GraphModule(module, module.graph)
    flat.graph._codegen = torch.fx.graph.CodeGen()
    flat.recompile()
    replay = Replay(flat)

    def note(node):
        if replay.origin is not None:
            node.meta["mpcomm"] = replay.origin

    def run(state, batch):
        # A result that no operator reads may have been written through an alias.
        return tuple(None if r is None else r.clone()
                     for r in replay.run(*state, *batch))

    with torch.no_grad(), compat.observe_nodes(note):
        result = compat.make_fx(compat.functionalize(run, remove="mutations"),
                                tracing_mode=tensors_mode)(
            [t.detach() for t in state], batch)
    if replay.reordered:
        raise ImportFailure(f"forward() of {replay.reordered} writes to a view of a transposed "
                            "tensor, whose order in memory PyTorch loses; use contiguous() or "
                            "PyTorch 2")
    return result


# Operators that look for elements by strides. 1.13 makes functional tensors contiguous that
# are not.
STRIDED = ("as_strided", "as_strided_scatter")


def name_statistics(graph):
    """A batch norm writes its running statistics, which its schema does not say:
    it gets copies of them, which are copied back after it."""
    for node in list(graph.nodes):
        if compat.base_name(compat.op_name(node.target)) not in (
                "native_batch_norm", "_native_batch_norm_legit"):
            continue
        training = node.args[5]
        for at in (3, 4):
            old = node.args[at]
            if not training or old is None:
                continue
            with graph.inserting_before(node):
                new = graph.call_function(torch.ops.aten.clone.default, (old,))
            node.update_arg(at, new)
            with graph.inserting_after(node):
                back = graph.call_function(torch.ops.aten.copy_.default, (old, new))
            for made in (new, back):
                made.meta["mpcomm"] = node.meta.get("mpcomm")


CONSTANT = "a tensor that is not a registered buffer, which the next step would not see"
REPEATED = "a view of an expanded tensor, where an element is in several places"


def check_writes(graph):
    """Refuses writes that a functional graph cannot express, or that
    `functionalize` gets wrong."""
    refused = {}  # node -> why what lies in its memory must not be written
    for node in graph.nodes:
        if node.op == "get_attr":
            refused[node] = CONSTANT
        if node.op != "call_function":
            continue
        for argument, is_write in aliased(node):
            if is_write and argument in refused:
                origin = node.meta.get("mpcomm")
                raise ImportFailure(f"forward() of {origin.module if origin else 'the model'} "
                                    f"writes to {refused[argument]}")
            if argument in refused:
                refused[node] = refused[argument]
            elif is_expanded(node, argument):
                refused[node] = REPEATED


def aliased(node):
    """[(argument, whether it is written)] of the arguments, nodes, in whose memory
    an operator's result lies."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:  # an item of a list of views
        found = [(a, False) for a in node.args]
    else:
        given = dict(zip((a.name for a in schema.arguments), node.args))
        given.update(node.kwargs)
        found = [(given.get(a.name), a.alias_info.is_write)
                 for a in schema.arguments if a.alias_info is not None]
    return [(a, w) for a, w in found if isinstance(a, torch.fx.Node)]


def is_expanded(node, argument):
    """Whether a view repeats elements of what it is a view of."""
    views = [compat.tensor_meta(n) for n in (node, argument)]
    return all(views) and math.prod(views[0][0]) > math.prod(views[1][0])


class Substitution:
    """`model` with other tensors for its parameters and buffers while it is entered,
    its hooks reporting to `origins`; afterwards it is what it was before.

    A tensor that is in two places is replaced in both, also in a list of parameters, as
    recurrent modules have one. Tensors that are plain
    attributes of a module are replaced by `copies`, {name: copy}; then plain attributes
    get the values of `given`, {(prefix, key): value}. If it `begins` an evaluation, the
    model is told so then."""

    def __init__(self, model, names, origins, given, begins=False):
        self.model, self.origins, self.given, self.begins = model, origins, given, begins
        self.modules = [(n + "." if n else "", m) for n, m in model.named_modules()]
        self.held = dict(names.parameters + names.buffers)
        self.name_of = {id(t): n for n, t in self.held.items()}
        self.parameters = {n for n, _ in names.parameters}
        self.copies, self.views = {}, {}  # name -> copy, tensor it is a view of
        for prefix, module in self.modules:
            for key, value in vars(module).items():
                if not isinstance(value, torch.Tensor) or id(value) in self.name_of:
                    continue
                self.copies[prefix + key] = value.detach().clone()
                for name, held in self.held.items():
                    if torch._C._is_alias_of(value, held):
                        self.views[prefix + key] = name
        self.left = {}  # plain attributes that forward() has changed, like `given`

    @contextlib.contextmanager
    def entered(self, tensors):
        """`tensors`: {name: tensor}."""
        self.tensors, self.saved, handles = tensors, [], []
        before = Attributes(self.modules)
        try:
            for prefix, module in self.modules:
                for table in (vars(module), module._parameters, module._buffers):
                    self.saved.append((prefix, table, dict(table)))
                    for key, value in table.items():
                        if id(value) in self.name_of:
                            table[key] = tensors[self.name_of[id(value)]]
                        elif table is vars(module) and prefix + key in self.copies:
                            table[key] = self.copies[prefix + key]
                        elif type(value) is list and value and \
                                all(id(v) in self.name_of for v in value):
                            table[key] = [tensors[self.name_of[id(v)]] for v in value]
                self.give(prefix, vars(module))
                handles.append(compat.before_forward(module, self.origins.enter))
                handles.append(module.register_forward_hook(self.origins.leave))
            if self.begins:
                self.model.train()
                self.model.eval()
            self.memory = {n: (t, compat.memory(t)) for n, t in
                           [*tensors.items(), *self.copies.items()]}
            self.attributes = Attributes(self.modules)
            yield
        finally:
            for handle in handles:
                handle.remove()
            before.restore()

    def give(self, prefix, table):
        for (module, key), value in self.given.items():
            if module != prefix:
                continue
            if value is ABSENT:
                table.pop(key, None)
            elif key in HOOKS:
                table[key] = collections.OrderedDict({**table[key], **value})
            elif id(value) in self.name_of:
                table[key] = self.tensors[self.name_of[id(value)]]
            else:
                table[key] = copied(value)

    def write_back(self, results):
        """Buffers that the model replaced by others (`self.mean = …`) are written;
        returns `results` as they were before that."""
        self.check_registered()
        new = self.replaced()
        self.left = self.attributes.changes()
        if not new:
            return results
        with torch.no_grad():
            results = tuple(None if r is None else r.clone() for r in results)
            values = [(self.tensors[n], t.detach().clone()) for n, t in new.items()]
            for tensor, value in values:
                tensor.copy_(value)
        return results

    def check_registered(self):
        """Refuses what the graph would lose without a message: new tensors and modules,
        and memory exchanged by `.data = …`, which no operator shows."""
        for prefix, module in self.modules:
            for what in ("_parameters", "_buffers", "_modules"):
                table = vars(module)[what]
                was = self.attributes.contents[id(table)][1]
                for key in table.keys() - was.keys():
                    raise ImportFailure(f"forward() registers '{prefix}{key}', expected it to "
                                        "be registered before the import")
                for key, old in was.items():
                    if what == "_modules" and table.get(key) is not old:
                        raise ImportFailure(f"forward() replaces module '{prefix}{key}'")
        for name, (tensor, was) in self.memory.items():
            if compat.is_data_assigned(was, compat.memory(tensor)):
                raise ImportFailure(f"forward() assigns the data of '{name}'; use copy_()")

    def replaced(self):
        """{name: tensor that the model now has in the place of that buffer}."""
        now = {}
        for prefix, table, was in self.saved:
            for key, old in was.items():
                name, new = prefix + key, table.get(key)
                if id(old) not in self.name_of:
                    if old is None and isinstance(new, torch.Tensor) and \
                            "_parameters" not in was:
                        raise ImportFailure(f"expected '{name}' to be a tensor before "
                                            "forward(), found None")
                    continue
                if now.setdefault(self.name_of[id(old)], new) is not new:
                    raise ImportFailure(f"forward() replaces '{name}' in one of several "
                                        "places that share it")
        new = {n: t for n, t in now.items() if t is not self.tensors[n]}
        for name, tensor in new.items():
            self.check_type(name, tensor)
        for name, tensor in new.items():
            for other, value in now.items():
                if other != name and torch._C._is_alias_of(value, tensor):
                    raise ImportFailure(f"after forward() '{name}' and '{other}' share their "
                                        "memory; use clone()")
        return new

    def check_type(self, name, tensor):
        old = self.tensors[name]
        if name in self.parameters or not isinstance(tensor, torch.Tensor):
            raise ImportFailure(f"forward() replaces '{name}', expected it to replace "
                                "buffers by tensors alone")
        if (tensor.shape, tensor.dtype) != (old.shape, old.dtype):
            raise ImportFailure(
                f"forward() replaces '{name}', {tuple(old.shape)} of {old.dtype}, by "
                f"{tuple(tensor.shape)} of {tensor.dtype}; expected one type: if the first step "
                "alone does so, run the model on a batch before the import")

    def for_next(self):
        """What forward() has left, for the next trace; and the stand-ins in it."""
        return for_next(self.left, {id(t): self.held[n] for n, t in self.tensors.items()})

    def check_references(self, module):
        """Refuses tensors of the traced `module` that look like constants and change
        from step to step."""
        for node in module.graph.nodes:
            if node.op != "get_attr":
                continue
            tensor = getattr(module, node.target)
            for view, name in self.views.items():
                if tensor is self.copies[view]:
                    raise ImportFailure(f"'{name}' is read through '{view}', which is a view of "
                                        "it; make the view in forward()")
            if isinstance(tensor, torch.nn.Parameter):
                continue  # named with others that are not supported
            for name, held in self.held.items():
                if torch._C._is_alias_of(tensor, held):
                    raise ImportFailure(f"'{name}' is read through a reference other than "
                                        "the attribute it is registered as")
