# ===- ir.py - the graph between PyTorch and MLIR text ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Typed values and pure ops, in the terms of the mpcomm dialect.

The importer builds this graph, cleans it up, and only then prints it. An op
carries the name it will be printed under ("mpcomm.dot_general"), its operands
and a dictionary of attributes; what is valid is the dialect's business.
Because every op is pure, the builder gives equal ops one result.
"""

import math
import re

# PyTorch's dtype name -> MLIR's. A bool is one byte in memory and i1 in types.
DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "i8",
    "bool": "i1",
}


class Type:
    """A ranked tensor with static shape: `Type((8, 128), "f32")`."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape, dtype):
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype

    def __str__(self):
        return "tensor<" + "".join(f"{n}x" for n in self.shape) + self.dtype + ">"

    def __eq__(self, other):
        return (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self):
        return hash((self.shape, self.dtype))

    @property
    def is_float(self):
        return self.dtype in ("f16", "bf16", "f32", "f64")

    @property
    def size(self):
        return math.prod(self.shape)


class Value:
    """A result of an op, or an argument (then `op` is None)."""

    __slots__ = ("type", "op", "hint", "id")

    def __init__(self, type, op=None, hint=""):
        self.type, self.op, self.hint, self.id = type, op, hint, None

    @property
    def shape(self):
        return self.type.shape

    @property
    def dtype(self):
        return self.type.dtype


class Op:
    """`results = name(operands) {attributes} loc(location)`."""

    __slots__ = ("name", "operands", "attributes", "results", "location")

    def __init__(self, name, operands, attributes, types, location, hints):
        self.name = name
        self.operands = list(operands)
        self.attributes = attributes
        self.location = location
        self.results = [Value(t, self, h) for t, h in zip(types, hints)]


class Argument:
    """An argument of a function with what the dialect wants to know of it."""

    def __init__(self, role, name, type, **attributes):
        self.role, self.name, self.attributes = role, name, attributes
        self.value = Value(type, None, name)
        self.ignored = set()  # indices outside of its range that do not count


class Result:
    """A result of a function; `update` is the argument it is the next state of."""

    def __init__(self, role, name, value, update=None, **attributes):
        self.role, self.name, self.value = role, name, value
        self.update, self.attributes = update, attributes


class Function:
    def __init__(self, name):
        self.name = name
        self.arguments, self.results, self.ops = [], [], []

    def count(self, name):
        """Number of ops of that name; "reshape" stands for "mpcomm.reshape"."""
        return sum(op.name in (name, "mpcomm." + name) for op in self.ops)


# How results are called where no one gives them a better name.
HINTS = {"dot_general": "dot", "broadcast_in_dim": "bcast", "concatenate": "concat"}


def short_name(name):
    name = name.split(".")[1]
    return HINTS.get(name, name[:-1] if name.endswith("f") else name)


class Builder:
    """Appends ops to a function, one for all that are equal.

    `location` and `hint` (how results are called in the text) are those of
    whoever asks first.
    """

    def __init__(self, function):
        self.function = function
        self.location = ""
        self.module = ""
        self.known = {}
        self.copies = {}  # Value -> [(View, Value)], see contraction.py

    def create(self, name, operands, types, hint=None, **attributes):
        """Returns the list of results."""
        key = (name, tuple(id(v) for v in operands), tuple(types),
               tuple(sorted((k, repr(v)) for k, v in attributes.items())))
        op = self.known.get(key)
        if op is None:
            stem = (self.module + "." if self.module else "")
            hints = hint if isinstance(hint, list) else [
                stem + (hint or short_name(name))] * len(types)
            op = Op(name, operands, attributes, types, self.location, hints)
            self.known[key] = op
            self.function.ops.append(op)
        return op.results

    def constant(self, value, type):
        """A tensor with `value` in every element."""
        value = float(value) if type.is_float else int(value)
        return self.create("arith.constant", [], [type], [constant_hint(value)],
                           value=value)[0]

    def literal(self, values, type):
        """A tensor of the given elements, a flat list in row-major order."""
        return self.create("arith.constant", [], [type], ["const"],
                           values=tuple(values))[0]


def constant_hint(value):
    text = f"{value:g}".replace("-", "neg").replace("+", "")
    return "c" + re.sub(r"[^A-Za-z0-9_.]", "_", text)


def eliminate_dead_code(function):
    """Drops ops that no result needs. Linear in the number of ops."""
    live = {id(r.value) for r in function.results}
    kept = []
    for op in reversed(function.ops):
        if any(id(r) in live for r in op.results):
            live.update(id(v) for v in op.operands)
            kept.append(op)
    function.ops = kept[::-1]
