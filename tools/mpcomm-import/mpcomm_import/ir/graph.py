# ===- graph.py - the graph between a front end and MLIR text -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Typed values and pure ops, in the terms of the mpcomm dialect, for every front end.

The importer builds this graph, cleans it up, and only then prints it. An op is
data: the name it is printed under ("mpcomm.dot_general"), operands, attributes
under the names that the dialect gives them, types of results. What is valid is
the dialect's business. Because every op is pure, the builder gives equal ops
one result.

Attributes are Python's bool (a unit attribute, there or not), int (i64), float
(f64), str, lists of int (array<i64>) and dictionaries, and the classes Spelled,
Single, Dense and Function (a private function of the module); None is an attribute
that is not there.
"""

import dataclasses
import math


class Type:
    """A ranked tensor with static shape: `Type((8, 128), "f32")`."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape, dtype):
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype

    def __str__(self):
        return "tensor<" + "".join(f"{n}x" for n in self.shape) + self.dtype + ">"

    __repr__ = __str__

    def __eq__(self, other):
        return (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self):
        return hash((self.shape, self.dtype))

    @property
    def is_float(self):
        return "f" in self.dtype

    @property
    def width(self):
        """Bits of an element."""
        return int(self.dtype.lstrip("bfi"))

    @property
    def size(self):
        return math.prod(self.shape)


class Spelled(str):
    """A string that is the attribute `text` in MLIR, such as a case of an
    enumeration."""

    def __new__(cls, value, text):
        self = super().__new__(cls, value)
        self.text = text
        return self


def enum(kind, case):
    """A case of an enumeration of the dialect."""
    return Spelled(case, f"#mpcomm<{kind} {case}>")


class Single(float):
    """A number of type f32."""


@dataclasses.dataclass
class Dense:
    """The value of a constant: nested lists, or one number for all elements."""

    elements: object
    type: Type


class Value:
    """A result of an op, or an argument (then `op` is None)."""

    __slots__ = ("type", "op")

    def __init__(self, type, op=None):
        self.type, self.op = type, op

    @property
    def shape(self):
        return self.type.shape

    @property
    def dtype(self):
        return self.type.dtype


class Op:
    """`results = name(operands) <{attributes}> ({regions}) loc(location)`. A region is
    ([(argument, its location)], ops)."""

    __slots__ = ("name", "operands", "attributes", "results", "location", "regions")

    def __init__(self, name, operands, attributes, types, location, *regions):
        self.name = name
        self.operands = list(operands)
        self.attributes = attributes
        self.location = location
        self.results = [Value(t, self) for t in types]
        self.regions = regions


class Argument:
    """An argument of a function with what the dialect wants to know of it."""

    def __init__(self, role, name, type, **attributes):
        self.role, self.name, self.attributes = role, name, attributes
        self.value = Value(type)
        self.ignored = set()  # indices outside of its range that do not count
        self.parts = {}  # of each sample, slices: what they have to be below


class Result:
    """A result of a function; `update` is the argument it is the next state of."""

    def __init__(self, role, name, value, update=None, **attributes):
        self.role, self.name, self.value = role, name, value
        self.update, self.attributes = update, attributes


class Function:
    """A function; arguments and results of a private one have no roles."""

    def __init__(self, name):
        self.name = name
        self.arguments, self.results, self.ops = [], [], []

    @property
    def bodies(self):
        """The functions that ops name."""
        return [a for op in self.ops for a in op.attributes.values() if isinstance(a, Function)]

    def count(self, name):
        """Number of ops of that name; "reshape" stands for "mpcomm.reshape"."""
        return sum(op.name in (name, "mpcomm." + name) for op in self.ops)


class Builder:
    """Appends ops to a function, one for all that are equal, at the `location` of
    whoever asks first; `lines`: {location: lines of the model}."""

    def __init__(self, function):
        self.function = function
        self.location, self.line = "", ""
        self.lines = {}
        self.known = {}
        self.copies = {}  # Value -> [(View, Value)], see emit/contraction.py

    def create(self, name, operands, types, **attributes):
        """Returns the list of results."""
        key = (name, tuple(id(v) for v in operands), tuple(types),
               tuple(sorted((k, repr(v)) for k, v in attributes.items())))
        op = self.known.get(key)
        if op is None:
            op = Op(name, operands, attributes, types, self.location)
            self.known[key] = op
            self.function.ops.append(op)
            known = self.lines.setdefault(self.location, [])
            if self.line and self.line not in known:
                known.append(self.line)
        return op.results

    def constant(self, value, type):
        """A tensor with `value` in every element."""
        return self.literal(float(value) if type.is_float else int(value), type)

    def literal(self, elements, type):
        """A tensor of the given elements, see Dense."""
        return self.create("arith.constant", [], [type],
                           value=Dense(elements, type))[0]


def eliminate_dead_code(function):
    """Drops ops that no result needs. Linear in the number of ops."""
    live = {id(r.value) for r in function.results}
    kept = []
    for op in reversed(function.ops):
        if any(id(r) in live for r in op.results):
            live.update(id(v) for v in op.operands)
            kept.append(op)
    function.ops = kept[::-1]
