# ===- translator.py - from StableHLO to the mpcomm dialect ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Walks a module of StableHLO and calls the translation of each op.

Translations are in this folder under @hlo("name", …) and get the translator,
the op, and its operands, where a tensor is

- a View (emit/views.py), for what depends on the inputs,
- a numpy array, for what does not: ops of such operands alone are evaluated here and
  now (constants.py),
- a Reversed, which only the convolution that follows can read in place.

Integers without a sign of their own: `unsigned(value)` tells how an op means them.
Functions that are called, and loops of a known count, are translated where they are
used. An op that cannot be translated is noted and given an undefined result, so that
all of them are found.
"""

import dataclasses
import re

import numpy as np
from jaxlib.mlir import ir

from ..emit.pointwise import align
from ..emit.views import Axis, View, coalesce, materialise
from ..errors import Unsupported, UnsupportedOperators
from ..ir.graph import Type, Value
from .constants import evaluate

TRANSLATIONS = {}

# Constants of up to this many elements are written into the graph; larger ones become
# buffers.
MAX_LITERAL = 1 << 14

NUMPY_TYPES = {"bool": "i1", "bfloat16": "bf16", **{
    f"{sign}int{n}": f"i{n}" for sign in ("", "u") for n in (8, 16, 32, 64)}, **{
    f"float{n}": f"f{n}" for n in (16, 32, 64)}}

# Ops that hand on the elements of their first operand, or some of them.
MOVES = ("mpcomm.slice", "mpcomm.reshape", "mpcomm.transpose", "mpcomm.broadcast_in_dim",
         "arith.extsi", "arith.trunci")

# The name that JAX gives an op, and lines of Python that it comes from.
NAME = re.compile(r'^loc\("((?:[^"\\]|\\.)*)"')
FRAME = re.compile(r'"((?:[^"\\]|\\.)+)":(\d+)(?::\d+)?')
# Transformations around a module's name: jvp(GPT), transpose(jvp(GPT)).
WRAPPED = re.compile(r"^(\w+)\((.*)\)$")


def hlo(*names):
    """Registers a translation for ops, "add" of StableHLO or "chlo.erf"."""
    def register(function):
        for name in names:
            name = name if "." in name else "stablehlo." + name
            assert name not in TRANSLATIONS, f"{name} has a translation"
            TRANSLATIONS[name] = function
        return function
    return register


@dataclasses.dataclass(eq=False)
class Reversed:
    """`view` with the elements of these dimensions in reverse order."""

    view: View
    dims: tuple


def element_type(type):
    """MLIR's element type without a sign: "i32" of ui32."""
    text = str(ir.RankedTensorType(type).element_type)
    return text[1:] if text.startswith("ui") else text


def type_of(value):
    """The Type of an MLIR value."""
    dtype = element_type(value.type)
    if not re.fullmatch(r"i\d+|f\d+(E\w+)?|bf16", dtype):
        raise Unsupported(f"no tensors of {dtype}")
    return Type(ir.RankedTensorType(value.type).shape, dtype)


def unsigned(value):
    """Whether an MLIR value is of integers without a sign; so are booleans."""
    text = str(ir.RankedTensorType(value.type).element_type)
    return text.startswith("ui") or text == "i1"


def attribute(op, name, default=None):
    """An attribute as Python's int, string or list."""
    if name not in op.attributes:
        return default
    value = op.attributes[name]
    if isinstance(value, ir.DenseElementsAttr):
        return np.array(value).tolist()
    if isinstance(value, (ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr)):
        return list(value)
    return value.value if hasattr(value, "value") else value


def region(op, index=0):
    return op.regions[index].blocks[0]


class Translator:
    """Translates a module's @main into `builder`'s function.

    `constants` has the tensors too large for a literal that the graph uses, {name:
    Value}, out of `pool`, {name: array}, which all functions of a program share.
    `extents` is {Value: (least, greatest)} of integer arguments, `needed` what the
    translation relies on of them: {Value: [least, greatest]}, None where any is good.
    """

    def __init__(self, builder, pool, root="", extents=None):
        self.builder, self.pool, self.root = builder, pool, root
        self.constants = {}
        self.extents, self.needed = extents or {}, {}
        self.refused, self.functions = {}, {}
        self.op = None
        self.steps = 0  # ops of loops that were unrolled

    # --- for the translations ---

    def view(self, x):
        """A View of an operand in any of its forms."""
        if isinstance(x, View):
            return x
        if isinstance(x, Reversed):
            return self.reverse(x)
        return self.constant_view(x)

    def whole(self, x):
        return materialise(self.builder, self.view(x))

    def scalar(self, number, dtype):
        return View.of(self.builder.constant(number, Type((), dtype)))

    def apply(self, name, *operands, dtype=None, **attributes):
        """An elementwise op; numbers have the type of the first View."""
        seen = [x for x in operands if isinstance(x, View)]
        first = seen[0]
        if len(seen) == 1:  # whatever way it is seen
            shape = first.base.shape
            values = [x.base if isinstance(x, View) else
                      self.builder.constant(x, Type(shape, first.dtype)) for x in operands]
            value = self.builder.create(name, values, [Type(shape, dtype or first.dtype)],
                                        **attributes)[0]
            return View(value, first.factors, first.dims)
        views = [x if isinstance(x, View) else self.scalar(x, first.dtype)
                 for x in operands]
        values, wrap = align(self.builder, views)
        type = Type(values[0].shape, dtype or first.dtype)
        return wrap(self.builder.create(name, values, [type], **attributes)[0])

    def select(self, condition, a, b):
        like = next(x for x in (a, b) if isinstance(x, View))
        views = [x if isinstance(x, View) else self.scalar(x, like.dtype) for x in (a, b)]
        values, wrap = align(self.builder, [condition, *views])
        return wrap(self.builder.create("arith.select", values, [values[1].type])[0])

    def extent(self, view):
        """(argument, least, greatest) of integers that are those of an argument."""
        value = view.base
        while value.op is not None and value.op.name in MOVES:
            value = value.op.operands[0]
        return (value, *self.extents[value]) if value in self.extents else None

    def need(self, argument, least=None, greatest=None):
        known = self.needed.setdefault(argument, [None, None])
        if least is not None:
            known[0] = least if known[0] is None else max(known[0], least)
        if greatest is not None:
            known[1] = greatest if known[1] is None else min(known[1], greatest)

    def within(self, view, size):
        """Whether all of a View's integers are known to be indices below `size`."""
        found = self.extent(view)
        if found is None or found[1] < 0 or found[2] >= size:
            return False
        self.need(found[0], 0, size - 1)
        return True

    def constant_view(self, array):
        """A View of a numpy array."""
        if array.size == 0:
            raise Unsupported("a tensor without elements")
        same = [n != 1 and (s == 0 or bool((array == array.take([0], i)).all()))
                for i, (n, s) in enumerate(zip(array.shape, array.strides))]
        small = array[tuple(slice(0, 1) if s else slice(None) for s in same)]
        small = small.reshape([n for n, s in zip(array.shape, same) if not s])
        view = self.distinct_view(np.asarray(small))
        return broadcast(view, array.shape, [i for i, s in enumerate(same) if not s])

    def distinct_view(self, array):
        dtype = numpy_type(array.dtype)
        if array.dtype.kind == "u":
            array = array.view(array.dtype.name[1:])
        type = Type(array.shape, dtype)
        if array.size == 1:
            return self.scalar(array.reshape(-1)[0].item(), dtype).reshape(array.shape)
        squeezed = array.reshape(-1)
        if dtype in ("i16", "i32", "i64") and max(array.shape) == array.size and \
                (squeezed == np.arange(array.size)).all():
            line = self.builder.create("mpcomm.iota", [], [Type((array.size,), dtype)], dim=0)
            return View.of(line[0]).reshape(array.shape)
        if array.size <= MAX_LITERAL:
            return View.of(self.builder.literal(array.tolist(), type))
        return View.of(self.constants.setdefault(self.pooled(array), Value(type)))

    def pooled(self, array):
        """The name of a constant of the program."""
        for name, known in self.pool.items():
            if known is not None and known.shape == array.shape and \
                    known.dtype == array.dtype and known.tobytes() == array.tobytes():
                return name
        module = self.builder.location.rpartition("/")[0]
        name = stem = f"{module}.constant" if module else "constant"
        while name in self.pool:
            name = f"{stem}_{len(self.pool)}"
        self.pool[name] = np.ascontiguousarray(array)
        return name

    def gradient(self, x):
        """Marks a gradient of the batch: what reads it belongs to the update."""
        value = self.whole(x)
        return View.of(self.builder.create("mpcomm.gradient", [value], [value.type])[0])

    def reverse(self, x):
        value = materialise(self.builder, x.view)
        return View.of(self.builder.create("mpcomm.reverse", [value], [value.type],
                                           dims=sorted(x.dims))[0])

    # --- the walk ---

    def run(self, module, arguments):
        """Returns what @main returns, a list of Views."""
        for function in module.body.operations:
            self.functions[ir.StringAttr(function.attributes["sym_name"]).value] = function
        results = self.call("main", arguments)
        if self.refused:
            raise UnsupportedOperators(
                [(name, reason, places) for (name, reason), places in
                 sorted(self.refused.items())])
        return results

    def call(self, name, arguments):
        return self.block(self.functions[name].regions[0].blocks[0], arguments)

    def block(self, block, arguments, outer=None):
        """What a block returns; `outer` has the values of blocks around it."""
        env = dict(outer or {})
        env.update(zip(block.arguments, arguments))
        for op in block.operations:
            operands = [env[v] for v in op.operands]
            if op.operation.name in ("func.return", "stablehlo.return"):
                return operands
            env.update(zip(op.results, self.translate(op, operands, env)))
        raise AssertionError("a block without a return")

    def translate(self, op, operands, env):
        name = op.operation.name
        self.op, self.env = op, env
        here = (self.builder.location, self.builder.line)
        self.place(op)
        try:
            if all(isinstance(x, np.ndarray) for x in operands):
                known = evaluate(op, name, operands)
                if known is not None:
                    return known
            function = TRANSLATIONS.get(name)
            if function is None:
                return self.refuse(op, name, "")
            result = function(self, op, *operands)
            result = list(result) if isinstance(result, (list, tuple)) else [result]
            return [self.checked(name, x, v) for x, v in zip(result, op.results)]
        except Unsupported as error:
            return self.refuse(op, name, str(error))
        finally:
            self.builder.location, self.builder.line = here

    def checked(self, name, x, value):
        """The translation's shape and type must be those of the op."""
        if isinstance(x, View):
            x, want = coalesce(x), type_of(value)
            if x.type != want:
                raise AssertionError(f"{name}: expected {want}, made {x.type}")
        return x

    def place(self, op):
        """Sets the location of the ops to come, "module/operator", from JAX's."""
        text = str(op.location)
        name = NAME.match(text)
        if name is None:
            return
        around = self.builder.location.rpartition("/")[0] or self.root  # of who calls
        location, line = readable(name[1], around), source_line(text)
        self.builder.location = location or self.builder.location
        self.builder.line = line or self.builder.line

    def refuse(self, op, name, reason):
        place = self.builder.location.rpartition("/")[0] or self.root
        if self.builder.line:
            place += f" ({self.builder.line})"
        places = self.refused.setdefault((name, reason), {})
        places[place] = places.get(place, 0) + 1
        return [self.undefined(v) for v in op.results]

    def undefined(self, value):
        """Stands for the result of an op that was refused, so that the walk goes on."""
        shape = ir.RankedTensorType(value.type).shape
        try:
            return View.of(Value(type_of(value)))
        except Unsupported:
            return View.of(Value(Type(shape, "f32")))


def numpy_type(dtype):
    """MLIR's name of a numpy dtype, without a sign."""
    if dtype.name in NUMPY_TYPES:
        return NUMPY_TYPES[dtype.name]
    raise Unsupported(f"no tensors of {dtype.name}")


def readable(name, around):
    """"jit(step)/transpose(jvp(GPT))/Dense_0/dot_general" as "GPT.Dense_0/dot_general.grad"."""
    *path, operator = name.rstrip(":").split("/")
    modules, backward = [], False
    for part in path:
        match = WRAPPED.match(part)
        while match and match[1] not in ("jit", "pjit", "vmap", "remat", "checkpoint"):
            backward |= match[1] == "transpose"
            part = match[2]
            match = WRAPPED.match(part)
        if match is None and part and part not in ("while", "body", "cond", "closed_call",
                                                   "rematted_computation", "checkpoint"):
            modules.append(part)
    return f"{'.'.join(modules) or around}/{operator}{'.grad' * backward}"


def source_line(text):
    """"model.py:12", the innermost line that is not of an installed package."""
    frames = FRAME.findall(text)
    own = [f for f in frames if "site-packages" not in f[0] and "dist-packages" not in f[0]
           and "mpcomm_import" not in f[0]]
    return f"{own[0][0].rpartition('/')[2]}:{own[0][1]}" if own else ""


# --- what several translations move ------------------------------------------------- #

def broadcast(view, shape, dims):
    """As broadcast_in_dim: dimension i of the view becomes dimension dims[i]."""
    place = {d: i for i, d in enumerate(dims)}
    seen = []
    for j, n in enumerate(shape):
        own = view.dims[place[j]] if j in place else []
        seen.append(own if own or n == 1 else [Axis(n)])
    return View(view.base, view.factors, seen)
