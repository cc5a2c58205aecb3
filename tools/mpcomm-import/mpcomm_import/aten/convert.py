# ===- convert.py - from ATen to the mpcomm dialect ------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Walks a traced graph and calls the translation of each operator.

Translations are in this folder under @aten("name", …) and get the
converter, the node and the operator's arguments, where a tensor is

- a View (emit/views.py), for what depends on the inputs,
- a torch.Tensor, for what does not: operators of such arguments alone are
  evaluated here and now,
- a deferred object (loss.py), for what only makes sense together with the
  operator that uses it; `converter.view` makes a View of any of these.

An operator without a translation, or whose translation raises Unsupported, is
decomposed into others (decompose.py), which are translated in its place. What cannot
be had that way either is noted and given an undefined result, so that all of them are
found.
"""

import operator
import torch

from ..emit.views import View, coalesce
from ..errors import Unsupported, UnsupportedOperators
from ..ir.graph import Type, Value
from ..torch_front import compat
from ..torch_front.dtypes import DTYPES, TORCH_DTYPES
from .decompose import expansion, remove_unused, signature, tensor_arguments

TRANSLATIONS = {}

# Constants of up to this many elements are written into the graph; larger ones
# become buffers.
MAX_LITERAL = 1 << 14


def aten(*names):
    """Registers a translation for ATen operators, "add.Tensor" or "relu" (any
    overload)."""
    def register(function):
        for name in names:
            assert "aten." + name not in TRANSLATIONS, f"{name} has a translation"
            TRANSLATIONS["aten." + name] = function
        return function
    return register


def find_translation(name):
    return TRANSLATIONS.get(name) or TRANSLATIONS.get(name.rsplit(".", 1)[0])


def short(name):
    """An operator's name as messages have it."""
    return name[:-len(".default")] if name.endswith(".default") else name


def mlir_dtype(dtype):
    if dtype not in DTYPES:
        raise Unsupported(f"no tensors of {str(dtype).split('.')[-1]}")
    return DTYPES[dtype]


class Converter:
    """Translates one traced graph into `builder`'s function.

    `inputs` are the Views of the placeholders. `constants` has the tensors too
    large for a literal that the graph uses, {name: Value}, out of `pool`, {name:
    torch.Tensor}, which all graphs of a program share; `ranges` the integer
    values used as indices: {Value: [(number of rows, index that does not
    count or None)]}, one entry a use.
    """

    def __init__(self, builder, traced, inputs, root, pool):
        self.builder, self.traced, self.root = builder, traced, root
        self.inputs = list(inputs)
        self.pool, self.constants, self.ranges = pool, {}, {}
        self.updates = {}  # (kind, name) -> View of the next value
        self.env, self.refused = {}, {}
        self.node = None
        self.expanding = []  # [(node, signature)], each part of the expansion before
        self.expansions = {}  # signature -> Expansion
        self.lacking = set()  # operators that the outermost of `expanding` needs
        self.seed, self.drawn = None, 0  # see random.py

    # --- for the translations ---

    def index(self, value, size, ignored=None):
        """Notes that `value` chooses among `size`, or is `ignored`."""
        self.ranges.setdefault(value, []).append((size, ignored))

    def view(self, x):
        """A View of a tensor argument in any of its forms."""
        if isinstance(x, View):
            return x
        if isinstance(x, torch.Tensor):
            return self.constant_tensor(x)
        if hasattr(x, "force"):
            return x.force(self)
        raise Unsupported(f"expected a tensor, found {type(x).__name__}")

    def overwrite(self, target, value):
        """The operator writes `value` to its argument `target`, a node of the graph,
        which schemas of PyTorch do not always say (torch_front/mutation.py)."""
        self.env[target] = value

    def random_seed(self):
        """The Value that random numbers of a step are drawn from, an argument."""
        if self.seed is None:
            self.seed = Value(Type((2,), "i32"))
        return self.seed

    def scalar(self, value, dtype):
        return View.of(self.builder.constant(value, Type((), dtype)))

    def empty(self, shape, dtype):
        """A tensor without elements, a constant whatever it is computed from."""
        return torch.empty(shape, dtype=TORCH_DTYPES[dtype])

    def result_meta(self):
        """(shape, MLIR dtype) of the current node's value."""
        meta = compat.tensor_meta(self.node)
        if meta is None:
            raise Unsupported("its result has no static type")
        return meta[0], mlir_dtype(meta[1])

    def constant_tensor(self, tensor):
        type = Type(tensor.shape, mlir_dtype(tensor.dtype))
        flat = tensor.detach().reshape(-1)
        if flat.numel() == 0:
            raise Unsupported("a tensor without elements")
        if flat.numel() == 1 or is_same(flat, flat[:1].expand_as(flat)):
            return self.scalar(flat[0].item(), type.dtype).expand(type.shape)
        if is_iota(flat) and tensor.dim() == 1:
            return View.of(self.builder.create("mpcomm.iota", [], [type], dim=0)[0])
        if flat.numel() <= MAX_LITERAL:
            return View.of(self.builder.literal(tensor.tolist(), type))
        name = self.pooled(tensor)
        value = self.constants.setdefault(name, Value(type))
        return View.of(value)

    def pooled(self, tensor):
        """The name of a constant of the program."""
        for name, known in self.pool.items():
            if known is not None and known.shape == tensor.shape and \
                    known.dtype == tensor.dtype and is_same(known, tensor):
                return name
        origin = self.node.meta.get("mpcomm") if self.node else None
        name = stem = f"{origin.module}.constant" if origin else "constant"
        while name in self.pool:
            name = f"{stem}_{len(self.pool)}"
        self.pool[name] = tensor.clone()  # what is computed at import may be written later
        return name

    # --- the walk ---

    def run(self):
        """Returns what the graph returns, a list of Views and None."""
        remove_unused(self.traced.graph)
        result = self.walk(self.traced.graph, self.traced.constants, self.inputs)
        if self.refused:
            raise UnsupportedOperators(
                [(name, reason, dict(sorted(modules.items())))
                 for (name, reason), modules in sorted(self.refused.items())])
        return [r if r is None else self.view(r) for r in result]

    def walk(self, graph, constants, inputs):
        """Translates a graph whose placeholders are `inputs`, in an environment of its
        own; returns what it returns."""
        outer, self.env = (self.env, self.node), {}
        inputs = iter(inputs)
        for node in graph.nodes:
            self.node = node
            if node.op == "placeholder":
                self.env[node] = next(inputs)
            elif node.op == "get_attr":
                self.env[node] = self.attribute(node, constants)
            elif node.op == "call_function":
                self.env[node] = self.call(node)
            elif node.op == "output":
                result = self.resolve(node.args[0])
        self.env, self.node = outer
        return result

    def attribute(self, node, tensor):
        for part in node.target.split("."):
            tensor = getattr(tensor, part)
        if not isinstance(tensor, torch.Tensor):  # a generator of random numbers
            return tensor
        node.meta["val"] = tensor.detach()
        if isinstance(tensor, torch.nn.Parameter) or tensor.requires_grad:
            return self.refuse(node, "parameter",
                               "used but not registered with its module")
        return node.meta["val"]

    def resolve(self, x):
        if isinstance(x, torch.fx.Node):
            return self.env[x]
        if isinstance(x, (list, tuple)):
            return type(x)(self.resolve(y) for y in x) if type(x) in (list, tuple) \
                else [self.resolve(y) for y in x]
        return x

    def call(self, node):
        args = [self.resolve(a) for a in node.args]
        kwargs = {k: self.resolve(a) for k, a in node.kwargs.items()}
        if node.target is operator.getitem:
            return args[0][args[1]] if isinstance(args[0], (list, tuple)) \
                else self.undefined(node)
        name = compat.op_name(node.target)
        if compat.is_update(node) and not self.expanding:
            return self.write_input(node, args)
        is_random = compat.is_random(node.target)
        if not is_random and all_constant(args) and all_constant(list(kwargs.values())):
            with torch.no_grad():  # in place, too, where no copy to write to is the model's
                return node.target(*args, **kwargs)
        self.place(self.expanding[0][0] if self.expanding else node)
        translation = find_translation(name)
        if translation is None and compat.is_sized_by_data(node.target):
            return self.refuse(node, name, "a result whose shape depends on the data")
        meta = compat.tensor_meta(node)
        if meta is not None and 0 in meta[0] and not compat.is_sized_by_data(node.target):
            return torch.empty(meta[0], dtype=meta[1])  # as `empty`
        if translation is None:
            return self.expand(node, "draws random numbers" if is_random else "")
        try:
            return self.checked(node, name, translation(self, node, *args, **kwargs))
        except Unsupported as error:
            return self.expand(node, str(error)) if node.users else None
        except Exception:
            if self.refused or self.lacking:  # an argument may be made of such
                return self.undefined(node)
            raise

    def given(self, node):
        """What `expand` reads of a node's arguments."""
        return [self.env[n] for n in tensor_arguments(node)]

    def expand(self, node, reason, given=None):
        """The value of a node by its operator's decomposition; `reason` is why it has
        to be had that way, `given` the value of `given` for another time than now."""
        name, key = compat.op_name(node.target), signature(node)
        try:
            if key not in self.expansions:
                self.expansions[key] = expansion(node)
            module = self.expansions[key]
        except Exception as error:  # PyTorch's own, of whatever type
            text = str(error).strip().splitlines() or [""]
            return self.refuse(node, name, reason or "its decomposition stopped: "
                               f"{type(error).__name__}: {text[0]}")
        if module is None or key in (k for _, k in self.expanding):  # by itself, in the end
            return self.refuse(node, name, reason)
        for part in module.graph.nodes:
            part.meta["mpcomm"] = node.meta.get("mpcomm")
        self.expanding.append((node, key))
        result = self.walk(module.graph, module, self.given(node) if given is None else given)
        self.expanding.pop()
        if self.lacking and self.expanding:
            return self.undefined(node)
        if self.lacking:
            lacking, self.lacking = sorted(self.lacking), set()
            if lacking == [short(name)]:
                return self.refuse(node, name, reason)
            needs = "its decomposition needs " + ", ".join(lacking)
            return self.refuse(node, name, f"{reason}; {needs}" if reason else needs)
        return self.checked(node, name, result)

    def place(self, node):
        """Sets the location of the ops to come, "module/operator"."""
        origin = node.meta.get("mpcomm")
        base = compat.base_name(compat.op_name(node.target))
        module = origin.module if origin else self.root
        what = origin.function + ".grad" if origin and origin.is_backward else base
        self.builder.location = f"{module}/{what.strip('_')}"
        self.builder.line = origin.line if origin else ""

    def checked(self, node, name, result):
        """The translation's shape and type must be those that PyTorch saw."""
        meta = compat.tensor_meta(node)
        if isinstance(result, View):
            result = coalesce(result)
            if meta is not None:
                want = (tuple(meta[0]), mlir_dtype(meta[1]))
                if (result.shape, result.dtype) != want and (self.refused or self.lacking):
                    return self.undefined(node)  # made of such
                if (result.shape, result.dtype) != want:
                    raise AssertionError(
                        f"{name}: expected {Type(*want)}, made {result.type}")
        return result

    def write_input(self, node, args):
        """One of the copies that a functional graph ends in: the next value of an
        input. What reads the input, another such copy too, reads the old one."""
        at = self.inputs.index(args[0])
        kind, name = self.traced.inputs[at]
        if kind == "parameter":
            return self.refuse(node, "update in place", "of a parameter in forward()",
                               name.rpartition(".")[0] or self.root)
        if kind == "buffer":  # a batch is another one in the next step
            try:
                self.updates[kind, name] = self.view(args[1])
            except Unsupported as error:
                return self.refuse(node, "update in place", str(error))
        return args[0]

    def refuse(self, node, name, reason, module=None):
        origin = node.meta.get("mpcomm")
        module = module or (origin.module if origin else self.root)
        name = short(name)
        if self.expanding:
            self.lacking.add(f"{name} ({reason})" if reason else name)
            return self.undefined(node)
        modules = self.refused.setdefault((name, reason), {})
        modules[module] = modules.get(module, 0) + 1
        return self.undefined(node)

    def undefined(self, node):
        """Stands for the result of a refused operator, so that the walk goes on
        over the rest of the graph."""
        meta = compat.tensor_meta(node)
        if meta is None:
            return Undefined(self, node)
        return View.of(Value(Type(meta[0], DTYPES.get(meta[1], "i8"))))


class Undefined(tuple):
    """A refused operator with several results: its items are undefined too."""

    def __new__(cls, converter, node):
        items = {}
        for user in node.users:
            if user.target is operator.getitem:
                items[user.args[1]] = converter.undefined(user)
        return super().__new__(cls, [items.get(i) for i in range(max(items, default=-1) + 1)])


def all_constant(args):
    for a in args:
        if isinstance(a, (list, tuple)):
            if not all_constant(a):
                return False
        elif isinstance(a, View) or hasattr(a, "force"):
            return False
    return True


def is_same(a, b):
    """Whether two tensors are equal, and their zeros in sign, too."""
    return torch.equal(a, b) and \
        (not a.is_floating_point() or torch.equal(a.signbit(), b.signbit()))


def is_iota(flat):
    return not flat.is_floating_point() and flat.dtype != torch.bool and \
        bool((flat == torch.arange(flat.numel(), dtype=flat.dtype)).all())
