# ===- printer.py - MLIR text ----------------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Prints functions in the assembly format of the mpcomm dialect."""

import json
import math
import re
import struct

FORMATS = {"f16": ("<e", "<H", 4), "f32": ("<f", "<I", 8), "f64": ("<d", "<Q", 16)}


def decimal(value):
    """A float as MLIR reads it: with a point, and exactly."""
    text = repr(float(value))
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + ("e" + exponent if exponent else "")


def number(value, dtype):
    """An element of a dense constant of that type."""
    if dtype == "i1":
        return "true" if value else "false"
    if dtype.startswith("i"):
        return str(int(value))
    if not math.isfinite(value):
        if dtype == "bf16":
            return "0x" + format(struct.unpack("<I", struct.pack("<f", value))[0] >> 16,
                                 "04X")
        pack, unpack, digits = FORMATS[dtype]
        bits = struct.unpack(unpack, struct.pack(pack, value))[0]
        return f"0x{bits:0{digits}X}"
    if dtype == "f32":  # the nearest f32, so that the text is what runs
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return decimal(value)


def nested(values, shape, dtype):
    if not shape:
        return number(values[0], dtype)
    step = len(values) // shape[0]
    return "[" + ", ".join(nested(values[i * step:(i + 1) * step], shape[1:], dtype)
                           for i in range(shape[0])) + "]"


def integers(values):
    return "[" + ", ".join(map(str, values)) + "]"


def sanitised(name):
    """A name as an SSA identifier: letters, digits, '_', '.', no digit first."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", name).strip(".") or "v"
    return "_" + name if name[0].isdigit() else name


class Names:
    """Unique identifiers, the first to ask gets the plain one."""

    def __init__(self):
        self.taken, self.of = {}, {}

    def give(self, value):
        stem = sanitised(value.hint)
        name, k = stem, self.taken.get(stem, 0)
        while name in self.taken:
            k += 1
            name = f"{stem}_{k}"
        self.taken[stem] = k
        self.taken.setdefault(name, 0)
        self.of[value] = "%" + name

    def __getitem__(self, value):
        return self.of[value]


def types(values):
    return ", ".join(str(v.type) for v in values)


def functional(op):
    results = types(op.results)
    if len(op.results) != 1:
        results = f"({results})"
    return f"({types(op.operands)}) -> {results}"


def same_type(op):
    return str(op.results[0].type)


def print_constant(op, args):
    type = op.results[0].type
    if "values" in op.attributes:
        text = nested(op.attributes["values"], type.shape, type.dtype)
    else:
        text = number(op.attributes["value"], type.dtype)
    return f"dense<{text}> : {type}"


def print_dot(op, args):
    def pair(name):
        left, right = op.attributes[name]
        return f"{name} = {integers(left)} x {integers(right)}"
    batching = pair("batching_dims") + ", " if "batching_dims" in op.attributes else ""
    return f"{', '.join(args)}, {batching}{pair('contracting_dims')} : {functional(op)}"


def print_lists(*names):
    def make(op, args):
        text = "".join(f", {n} = {integers(op.attributes[n])}" for n in names)
        return f"{', '.join(args)}{text} : {functional(op)}"
    return make


def print_along(op, args):
    return f"{', '.join(args)}, dim = {op.attributes['dim']} : {same_type(op)}"


def print_gelu(op, args):
    tanh = " approximate tanh" if op.attributes["approximate"] == "tanh" else ""
    return f"{', '.join(args)}{tanh} : {same_type(op)}"


def print_loss(op, args):
    a = op.attributes
    return (f"{', '.join(args)} {a['reduction']} ignore_index = {a['ignore_index']} : "
            f"{functional(op)}")


def print_embedding_grad(op, args):
    padding = op.attributes.get("padding_idx")
    text = "" if padding is None else f" padding_idx = {padding}"
    return f"{', '.join(args)}{text} : {functional(op)}"


def print_floats(*names):
    def make(op, args):
        text = "".join(f", {n} = {decimal(op.attributes[n])}" for n in names
                       if n in op.attributes)
        flag = " {nesterov}" if op.attributes.get("nesterov") else ""
        return f"{', '.join(args)}{text}{flag} : {functional(op)}"
    return make


def print_windows(*names):
    """Lists, `groups` where there are any, and flags."""
    def make(op, args):
        a = op.attributes
        text = "".join(f", {n} = {integers(a[n])}" for n in names)
        if "groups" in a:
            text += f", groups = {a['groups']}"
        if a.get("count_padding"):
            text += " {count_padding}"
        return f"{', '.join(args)}{text} : {functional(op)}"
    return make


def print_dropout(op, args):
    a = op.attributes
    return f"{', '.join(args)}, p = {decimal(a['p'])}, id = {a['id']} : {functional(op)}"


def print_batch_norm(op, args):
    a = op.attributes
    return (f"{', '.join(args)}, eps = {decimal(a['eps'])}, "
            f"feature_dim = {a['feature_dim']} : {functional(op)}")


def print_plain(op, args):
    return f"{', '.join(args)} : {functional(op)}"


def print_cast(op, args):
    return f"{args[0]} : {op.operands[0].type} to {op.results[0].type}"


PRINTERS = {
    "arith.constant": print_constant,
    "arith.cmpf": lambda op, args:
        f"{op.attributes['predicate']}, {', '.join(args)} : {op.operands[0].type}",
    "arith.cmpi": lambda op, args:
        f"{op.attributes['predicate']}, {', '.join(args)} : {op.operands[0].type}",
    "arith.select": lambda op, args:
        f"{', '.join(args)} : {op.operands[0].type}, {op.results[0].type}",
    "mpcomm.dot_general": print_dot,
    "mpcomm.reshape": print_plain,
    "mpcomm.transpose": print_lists("dims"),
    "mpcomm.broadcast_in_dim": print_lists("dims"),
    "mpcomm.slice": print_lists("starts", "limits", "strides"),
    "mpcomm.pad": print_lists("low", "high", "interior"),
    "mpcomm.reduce": lambda op, args:
        f"{op.attributes['kind']} {args[0]}, dims = {integers(op.attributes['dims'])} : "
        f"{functional(op)}",
    "mpcomm.concatenate": lambda op, args:
        f"{', '.join(args)}, dim = {op.attributes['dim']} : {functional(op)}",
    "mpcomm.iota": lambda op, args: f"dim = {op.attributes['dim']} : {same_type(op)}",
    "mpcomm.softmax": print_along,
    "mpcomm.softmax_grad": print_along,
    "mpcomm.log_softmax": print_along,
    "mpcomm.log_softmax_grad": print_along,
    "mpcomm.layer_norm": print_floats("eps"),
    "mpcomm.layer_norm_grad": print_plain,
    "mpcomm.gelu": print_gelu,
    "mpcomm.gelu_grad": print_gelu,
    "mpcomm.embedding": print_plain,
    "mpcomm.embedding_grad": print_embedding_grad,
    "mpcomm.cross_entropy": print_loss,
    "mpcomm.cross_entropy_grad": print_loss,
    "mpcomm.batch_norm_training": print_batch_norm,
    "mpcomm.batch_norm_inference": print_batch_norm,
    "mpcomm.batch_norm_grad": print_batch_norm,
    "mpcomm.dropout": print_dropout,
    "mpcomm.dropout_grad": print_dropout,
    "mpcomm.sgd_update": print_floats("momentum", "weight_decay"),
    "mpcomm.adamw_update": print_floats("beta1", "beta2", "eps", "weight_decay"),
}
for name in ("", "_input_grad", "_filter_grad"):
    PRINTERS["mpcomm.convolution" + name] = print_windows(
        "strides", "low", "high", "dilation")
for name in ("max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad"):
    PRINTERS["mpcomm." + name] = print_windows("window", "strides", "low", "high")
for cast in ("extf", "truncf", "sitofp", "uitofp", "fptosi", "extui", "extsi", "trunci"):
    PRINTERS["arith." + cast] = print_cast


def print_op(op, names):
    args = [names[v] for v in op.operands]
    make = PRINTERS.get(op.name)
    body = make(op, args) if make else f"{', '.join(args)} : {same_type(op)}"
    results = ", ".join(names[r] for r in op.results)
    return f"{results} = {op.name} {body} loc({json.dumps(op.location)})"


def attribute(key, value):
    if key == "range":
        return f"mpcomm.range = array<i64: {value[0]}, {value[1]}>"
    if key == "default":
        return f"mpcomm.default = {decimal(value)} : f32"
    if isinstance(value, int):
        return f"mpcomm.{key} = {value} : i64"
    return f"mpcomm.{key} = {json.dumps(value)}"


def dictionary(role, name, attributes):
    parts = [f"mpcomm.role = #mpcomm.role<{role}>", f"mpcomm.name = {json.dumps(name)}"]
    parts += [attribute(k, v) for k, v in attributes.items() if v is not None]
    return "{" + ", ".join(parts) + "}"


def print_function(function):
    names = Names()
    lines = [f"  func.func @{function.name}("]
    for a in function.arguments:
        names.give(a.value)
    for op in function.ops:
        for r in op.results:
            names.give(r)
    donated = {r.update: i for i, r in enumerate(function.results) if r.update}
    arguments = []
    for a in function.arguments:
        attributes = dict(a.attributes)
        if a in donated:
            attributes["donated"] = donated[a]
        arguments.append(f"      {names[a.value]}: {a.value.type} "
                         f"{dictionary(a.role, a.name, attributes)}")
    lines.append(",\n".join(arguments) + ")")
    results = [f"{r.value.type} {dictionary(r.role, r.name, r.attributes)}"
               for r in function.results]
    lines.append("   -> (" + ",\n       ".join(results) + ") {")
    lines += ["    " + print_op(op, names) for op in function.ops]
    values = [r.value for r in function.results]
    lines.append(f"    return {', '.join(names[v] for v in values)} : {types(values)}")
    lines.append("  }")
    return "\n".join(lines)


def print_module(name, functions, comment=()):
    """The text of a module; `comment` lines stand above it."""
    head = "".join(f"// {line}\n" for line in comment)
    body = "\n\n".join(print_function(f) for f in functions)
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    name = "_" + name if name[:1].isdigit() else name
    return f"{head}module @{name} {{\n{body}\n}}\n"
