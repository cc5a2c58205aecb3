# ===- graph.py - a training graph in memory -------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One function @train_step on tensors: values, ops and a signature, printed in MLIR's
generic syntax."""

import math

STATE_ROLES = ("parameter", "optimizer_state", "buffer", "loss_scale")


class Value:
    __slots__ = ("dtype", "shape", "name", "op", "number")

    def __init__(self, dtype, shape, name=None, op=None, number=0):
        self.dtype, self.shape, self.name = dtype, tuple(int(n) for n in shape), name
        self.op, self.number = op, number

    @property
    def type(self):
        return "tensor<%s%s>" % ("".join("%dx" % n for n in self.shape), self.dtype)

    @property
    def size(self):
        return math.prod(self.shape)


class Text(str):
    """An attribute that is printed as it is."""


class Op:
    def __init__(self, name, operands, attributes, types, region=None):
        self.name, self.operands, self.attributes = name, list(operands), dict(attributes)
        self.region = region
        self.results = [Value(dtype, shape, op=self, number=i) for i, (dtype, shape) in enumerate(types)]


def unrounded(x):
    return x


class Body:
    """A private function, the body of loops: arguments and results are values."""

    def __init__(self, name, arguments, ops, results):
        self.name, self.arguments, self.ops, self.results = name, arguments, ops, results
        self.rounded = unrounded  # what may happen to a value in it, see interpreter.py

    def __str__(self):
        names = {id(v): "%%arg%d" % i for i, v in enumerate(self.arguments)}
        lines = print_ops(self.ops, names, "%v", "    ")
        return "  func.func private @%s(%s)\n      -> (%s) {\n%s\n    return %s : %s\n  }\n" % (
            self.name, ", ".join("%s: %s" % (names[id(v)], v.type) for v in self.arguments), types(self.results),
            "\n".join(lines), ", ".join(names[id(v)] for v in self.results), types(self.results))  # fmt: skip


class Region:
    """The body of an op, on arguments of its own; `results` are what it yields."""

    def __init__(self, operands):
        self.arguments = [Value(v.dtype, v.shape) for v in operands]
        self.ops, self.results = [], []

    def add(self, name, operands, attributes, type_):
        self.ops.append(Op(name, operands, attributes, [type_]))
        return self.ops[-1].results[0]

    def lines(self, stem, indent):
        names = {id(v): "%s_a%d" % (stem, i) for i, v in enumerate(self.arguments)}
        head = ", ".join("%s: %s" % (names[id(v)], v.type) for v in self.arguments)
        end = Op("mpcomm.yield", self.results, {}, [])
        return [indent + "^bb0(%s):" % head] + print_ops(self.ops + [end], names, stem + "_", indent + "  ")


class Argument:
    def __init__(self, value, role, name, donated=False, default=None):
        self.value, self.role, self.name = value, role, name
        self.donated, self.default = donated, default


class Result:
    def __init__(self, value, role, name):
        self.value, self.role, self.name = value, role, name


class Graph:
    def __init__(self):
        self.arguments, self.ops, self.results = [], [], []
        self.kind = ""

    def argument(self, name, role, dtype, shape, donated=False, default=None):
        value = Value(dtype, shape)
        self.arguments.append(Argument(value, role, name, donated, default))
        return value

    def add(self, name, operands, attributes, *types):
        """The new op's results; one of them by itself."""
        op = Op(name, operands, attributes, types)
        self.ops.append(op)
        return op.results[0] if len(op.results) == 1 else op.results

    def returns(self, value, role, name):
        self.results.append(Result(value, role, name))

    def remove_dead(self):
        """Leaves out ops that nothing needs."""
        needed = {id(r.value) for r in self.results}
        kept = []
        for op in reversed(self.ops):
            if any(id(v) in needed for v in op.results):
                needed.update(id(v) for v in op.operands)
                kept.append(op)
        self.ops = kept[::-1]

    def __str__(self):
        names = {id(a.value): "%%arg%d" % i for i, a in enumerate(self.arguments)}
        lines = print_ops(self.ops, names, "%v", "    ")
        place = {r.name: i for i, r in enumerate(self.results)}
        arguments = []
        for a in self.arguments:
            more = ""
            if a.donated and a.name in place:
                more += ", mpcomm.donated = %d : i64" % place[a.name]
            if a.default is not None:
                more += ", mpcomm.default = %s : %s" % (number(a.default, a.value.dtype), a.value.dtype)
            arguments.append('%s: %s {mpcomm.role = #mpcomm.role<%s>, mpcomm.name = "%s"%s}'
                             % (names[id(a.value)], a.value.type, a.role, a.name, more))  # fmt: skip
        results = ['%s {mpcomm.role = #mpcomm.role<%s>, mpcomm.name = "%s"}' % (r.value.type, r.role, r.name)
                   for r in self.results]  # fmt: skip
        bodies = {id(x): str(x) for op in self.ops for x in op.attributes.values() if isinstance(x, Body)}
        return "module {\n  func.func @train_step(%s)\n      -> (%s) {\n%s\n    return %s : %s\n  }\n%s}\n" % (
            ",\n      ".join(arguments), ",\n      ".join(results), "\n".join(lines),
            ", ".join(names[id(r.value)] for r in self.results), types([r.value for r in self.results]),
            "".join(bodies.values()))  # fmt: skip


def print_ops(ops, names, stem, indent):
    """The lines of ops; their results are named after `stem`."""
    lines = []
    for i, op in enumerate(ops):
        for j, value in enumerate(op.results):
            names[id(value)] = "%s%d" % (stem, i) if len(op.results) == 1 else "%s%d#%d" % (stem, i, j)
        result = "" if not op.results else "%s%d%s = " % (stem, i, ":%d" % len(op.results) if len(op.results) > 1 else "")
        attributes = ", ".join("%s%s" % (k, "" if v is True else " = " + attribute(v))
                               for k, v in op.attributes.items() if v is not False)  # fmt: skip
        region = " ({\n%s\n%s})" % ("\n".join(op.region.lines("%%r%d" % i, indent)), indent) if op.region else ""
        lines.append('%s%s"%s"(%s)%s%s : (%s) -> %s' % (
            indent, result, op.name, ", ".join(names[id(v)] for v in op.operands), region,
            " {%s}" % attributes if attributes else "", types(op.operands), result_types(op.results)))  # fmt: skip
    return lines


def types(values):
    return ", ".join(v.type for v in values)


def result_types(values):
    return "()" if not values else values[0].type if len(values) == 1 else "(%s)" % types(values)


def number(x, dtype):
    if dtype == "i1":
        return "true" if x else "false"
    if dtype.startswith("i"):
        return "%d" % x
    if math.isfinite(x):
        return "%.17e" % x
    # NaN and infinity are written as bits.
    bits = {"f64": (11, 52), "f32": (8, 23), "f16": (5, 10), "bf16": (8, 7)}[dtype]
    word = ((1 << bits[0]) - 1) << bits[1]
    if math.isnan(x):
        word |= 1 << (bits[1] - 1)
    elif x < 0:
        word |= 1 << sum(bits)
    return "0x%0*X" % ((1 + sum(bits)) // 4, word)


def elements(values, dtype):
    """A nested list of numbers as MLIR writes it."""
    if getattr(values, "ndim", 0) == 0:
        return number(values.item() if hasattr(values, "item") else values, dtype)
    return "[%s]" % ", ".join(elements(v, dtype) for v in values)


def attribute(x):
    if isinstance(x, Text):
        return x
    if isinstance(x, Body):
        return "@" + x.name
    if isinstance(x, bool):
        return "unit" if x else "false"
    if isinstance(x, int):
        return "%d : i64" % x
    if isinstance(x, float):
        return "%.17e : f64" % x
    if isinstance(x, (list, tuple)):
        return "array<i64%s>" % (": " + ", ".join("%d" % n for n in x) if x else "")
    raise TypeError(x)
