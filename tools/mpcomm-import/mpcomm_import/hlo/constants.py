# ===- constants.py - ops whose operands are known ------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Evaluates ops of numpy arrays: what JAX leaves to the compiler of index arithmetic,
masks and keys of random numbers."""

import math

import numpy as np
from jaxlib.mlir import ir

# Larger results are left to the step.
MAX_ELEMENTS = 1 << 22


def evaluate(op, name, operands):
    """The results as arrays, or None where the op is not evaluated here."""
    function = FUNCTIONS.get(name)
    if function is None:
        return None
    types = [ir.RankedTensorType(v.type) for v in op.results]
    if any(math.prod(t.shape) > MAX_ELEMENTS for t in types):
        return None
    with np.errstate(all="ignore"):
        result = function(op, *operands)
    if result is None:
        return None
    dtypes = [dtype_of(t.element_type) for t in types]
    if any(d is None for d in dtypes):  # float64 equals None
        return None
    return [np.asarray(result).astype(d, copy=False) for d in dtypes]


def dtype_of(type):
    """The numpy dtype of an MLIR element type, or None."""
    name = str(type)
    if name == "bf16":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    known = {"i1": "bool", "f16": "float16", "f32": "float32", "f64": "float64"}
    if name not in known and name.lstrip("u")[:1] == "i" and name.lstrip("ui").isdigit():
        known[name] = name.replace("i", "int", 1)
    return np.dtype(known[name]) if name in known else None


def attribute_array(attribute):
    """The value of a constant."""
    type = ir.RankedTensorType(attribute.type)
    dtype = dtype_of(type.element_type)
    if dtype is None:
        return None
    if attribute.is_splat:
        value = attribute.get_splat_value()
        number = value.value if hasattr(value, "value") else bool(value)
        if dtype.kind == "u":
            number %= 1 << 8 * dtype.itemsize
        return np.broadcast_to(np.asarray(number).astype(dtype), type.shape)
    if dtype.name == "bfloat16":
        return np.array(attribute, np.float32).astype(dtype).reshape(type.shape)
    return np.array(attribute).astype(dtype).reshape(type.shape)


def constant(op):
    return attribute_array(op.attributes["value"])


def dims(op, name):
    return list(op.attributes[name])


def iota(op):
    type = ir.RankedTensorType(op.results[0].type)
    at = ir.IntegerAttr(op.attributes["iota_dimension"]).value
    line = np.arange(type.shape[at]).reshape([-1 if i == at else 1 for i in range(type.rank)])
    return np.broadcast_to(line, type.shape)


def broadcast_in_dim(op, x):
    shape = ir.RankedTensorType(op.results[0].type).shape
    seen = [1] * len(shape)
    for n, d in zip(x.shape, dims(op, "broadcast_dimensions")):
        seen[d] = n
    return np.broadcast_to(x.reshape(seen), shape)


def slice_(op, x):
    return x[tuple(map(slice, dims(op, "start_indices"), dims(op, "limit_indices"),
                       dims(op, "strides")))]


def shift(function):
    """Shifts by as many bits as there are, or more, leave nothing."""
    def apply(op, x, n):
        bits = 8 * x.dtype.itemsize
        plain = x.view(f"uint{bits}") if function is np.right_shift else x
        amount = n.astype(np.uint64)
        moved = function(plain, np.minimum(amount, bits - 1).astype(plain.dtype))
        return np.where(amount >= bits, 0, moved).astype(plain.dtype).view(x.dtype)
    return apply


COMPARE = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal,
           "GT": np.greater, "GE": np.greater_equal}


def direction(op):
    """"LT" of a comparison."""
    text = str(op.attributes["comparison_direction"])
    return next(k for k in COMPARE if f" {k}>" in text)


def reduce(op, x, start):
    body = [o.operation.name for o in op.regions[0].blocks[0].operations]
    functions = {"stablehlo.add": np.add, "stablehlo.maximum": np.maximum,
                 "stablehlo.minimum": np.minimum, "stablehlo.multiply": np.multiply,
                 "stablehlo.and": np.bitwise_and, "stablehlo.or": np.bitwise_or}
    if len(body) != 2 or body[0] not in functions:
        return None
    function = functions[body[0]]
    axis = tuple(dims(op, "dimensions"))
    return function(function.reduce(x, axis=axis), start) if axis else function(x, start)


def dynamic_slice(op, x, *starts):
    sizes = dims(op, "slice_sizes")
    return x[tuple(slice(s, s + n) for s, n in zip(clamped(starts, x.shape, sizes), sizes))]


def clamped(starts, shape, sizes):
    return [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes)]


def divide(op, a, b):
    if a.dtype.kind not in "iu":
        return a / b
    return None if (b == 0).any() else (np.sign(a) * np.sign(b) * (abs(a) // abs(b)))


def plain(function):
    return lambda op, *x: function(*x)


FUNCTIONS = {"stablehlo." + name: function for name, function in {
    "constant": constant, "iota": iota, "broadcast_in_dim": broadcast_in_dim,
    "reshape": lambda op, x: x.reshape(ir.RankedTensorType(op.results[0].type).shape),
    "transpose": lambda op, x: x.transpose(dims(op, "permutation")),
    "slice": slice_, "dynamic_slice": dynamic_slice, "reduce": reduce,
    "concatenate": lambda op, *x: np.concatenate(
        x, ir.IntegerAttr(op.attributes["dimension"]).value),
    "reverse": lambda op, x: np.flip(x, dims(op, "dimensions")),
    "convert": lambda op, x: x, "divide": divide,
    "bitcast_convert": lambda op, x: x.view(dtype_of(ir.RankedTensorType(
        op.results[0].type).element_type)) if x.dtype.itemsize == dtype_of(
            ir.RankedTensorType(op.results[0].type).element_type).itemsize else None,
    "compare": lambda op, a, b: COMPARE[direction(op)](a, b),
    "select": plain(lambda p, a, b: np.where(p, a, b)),
    "clamp": plain(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "add": plain(np.add), "subtract": plain(np.subtract), "multiply": plain(np.multiply),
    "maximum": plain(np.maximum), "minimum": plain(np.minimum),
    "remainder": plain(np.fmod), "power": plain(np.power),
    "and": plain(np.bitwise_and), "or": plain(np.bitwise_or), "xor": plain(np.bitwise_xor),
    "not": plain(np.invert), "negate": plain(np.negative), "abs": plain(np.abs),
    "sign": plain(np.sign), "exponential": plain(np.exp), "log": plain(np.log),
    "sqrt": plain(np.sqrt), "rsqrt": plain(lambda x: 1 / np.sqrt(x)),
    "sine": plain(np.sin), "cosine": plain(np.cos), "tanh": plain(np.tanh),
    "floor": plain(np.floor), "ceil": plain(np.ceil), "is_finite": plain(np.isfinite),
    "shift_left": shift(np.left_shift), "shift_right_logical": shift(np.right_shift),
}.items()}
FUNCTIONS["chlo.square"] = plain(np.square)
