# ===- printer.py - MLIR text ----------------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Prints ops in MLIR's generic form, whatever their dialect."""

import itertools
import math
import re

import numpy as np

from .graph import Dense, Function, Op, Single, Spelled


BITS = {"f64": "<f8", "f32": "<f4", "bf16": "<f4", "f16": "<f2"}


def number(value, dtype):
    if dtype == "i1":
        return "true" if value else "false"
    if dtype.startswith("i"):
        return str(int(value))
    if not math.isfinite(value):  # its bits; a bf16 is the upper half of an f32
        memory = np.array(value, BITS[dtype]).tobytes()[::-1]
        return "0x" + memory[:2 if dtype == "bf16" else None].hex().upper()
    text = repr(float(value))
    return text if "." in text else text.replace("e", ".0e")


def elements(values, dtype):
    if not isinstance(values, list):
        return number(values, dtype)
    return "[" + ", ".join(elements(v, dtype) for v in values) + "]"


def quoted(text):
    return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda m: f"\\{ord(m[0]):02X}", text) + '"'


def attribute(value):
    """An attribute, see graph.py."""
    if value is True:
        return "unit"
    if isinstance(value, str):
        return value.text if isinstance(value, Spelled) else quoted(value)
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        dtype = "f32" if isinstance(value, Single) else "f64"
        return f"{number(value, dtype)} : {dtype}"
    if isinstance(value, Dense):
        return f"dense<{elements(value.elements, value.type.dtype)}> : {value.type}"
    if isinstance(value, Function):
        return "@" + value.name
    if isinstance(value, dict):
        return "{" + fields(value) + "}"
    if any(isinstance(v, dict) for v in value):
        return "[" + ", ".join(map(attribute, value)) + "]"
    return "array<i64" + ": " * bool(value) + ", ".join(map(str, value)) + ">"


def fields(attributes):
    return ", ".join(f"{k} = {attribute(v)}" for k, v in attributes.items()
                     if v is not None and v is not False)


def signature(operands, results):
    def types(values):
        return "(" + ", ".join(str(v.type) for v in values) + ")"
    return f"{types(operands)} -> {types(results)}"


def print_op(op, names, indent=""):
    """The lines of an op. `names`: {Value: name}, gets those that the op defines."""
    def listed(values):
        return ", ".join(names.setdefault(v, f"%{len(names)}") for v in values)

    text = indent + (f"{listed(op.results)} = " if op.results else "")
    text += f'"{op.name}"({listed(op.operands)})'
    attributes = fields(op.attributes)
    text += f" <{{{attributes}}}>" if attributes else ""
    for arguments, ops in op.regions:
        block = ", ".join(f"{listed([v])}: {v.type} loc({quoted(location)})"
                          for v, location in arguments)
        lines = [f"{indent}^bb0({block}):"] if block else []
        lines += [print_op(o, names, indent + "  ") for o in ops]
        text += " ({\n" + "\n".join(lines) + f"\n{indent}}})"
    return f"{text} : {signature(op.operands, op.results)} loc({quoted(op.location)})"


def function_op(function):
    """A Function as an op of the dialect func."""
    donated = {r.update: i for i, r in enumerate(function.results) if r.update}

    def described(x):
        attributes = {"role": Spelled(x.role, f"#mpcomm.role<{x.role}>"), "name": x.name,
                      **x.attributes, "donated": donated.get(x)}
        return {f"mpcomm.{k}": v for k, v in attributes.items()}

    name, values = function.name, [r.value for r in function.results]
    type = signature([a.value for a in function.arguments], values)
    attributes = {"sym_name": name, "function_type": Spelled(type, type)}
    if any(r.role for r in function.results):
        attributes["arg_attrs"] = [described(a) for a in function.arguments]
        attributes["res_attrs"] = [described(r) for r in function.results]
    else:
        attributes["sym_visibility"] = "private"
    return Op("func.func", [], attributes, [], name, (
        [(a.value, a.name) for a in function.arguments],
        function.ops + [Op("func.return", values, {}, [], name)]))


def private_functions(functions):
    """The bodies that `functions` name, each with a name of its own; equal ones are
    one."""
    known = {}
    for body in (b for f in functions for b in f.bodies):
        stem = body.name.partition(".")[0]
        body.name = stem
        text = print_op(function_op(body), {})
        if text not in known:
            names = {f.name for f in [*functions, *known.values()]}
            numbered = (f"{stem}.{i}" for i in itertools.count(1))
            body.name = next(n for n in itertools.chain([stem], numbered) if n not in names)
            known[text] = body
        body.name = known[text].name
    return list(known.values())


def print_module(name, functions):
    symbol = re.sub(r"[^A-Za-z0-9_]|^(?=[0-9])", "_", name)
    bodies = private_functions(functions)
    return print_op(Op("builtin.module", [], {"sym_name": symbol}, [], name, (
        [], [function_op(f) for f in [*functions, *bodies]])), {}) + "\n"
