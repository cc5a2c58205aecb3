# ===- formats.py - element types of tensors -------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Element types: rounding to each, bytes of each, and files of tensors.

Values of any float type are kept in arrays of f64, which holds all of them; integers in
arrays of i64."""

import json
import os
import struct

import numpy as np


class Float:
    """p bits of precision; the least normal number is 2^emin."""

    def __init__(self, name, bits, p, emin, greatest, infinite=True):
        self.name, self.bits, self.p, self.emin = name, bits, p, emin
        self.greatest, self.infinite = greatest, infinite
        self.unit = 2.0**-p  # half the distance between 1 and the next number
        self.tiny = 2.0 ** (emin - p + 1)  # the least subnormal number

    def round(self, x):
        """The nearest number, ties to even; beyond the greatest infinity, or NaN."""
        x = np.asarray(x, np.float64)
        if self.name == "f64":
            return x
        if self.name == "f32":
            return x.astype(np.float32).astype(np.float64)
        _, e = np.frexp(np.where(np.isfinite(x), x, 1))
        q = np.ldexp(1.0, np.maximum(e - 1, self.emin) - (self.p - 1))
        r = np.where(np.isfinite(x), np.rint(x / q) * q, x)
        over = np.copysign(np.inf, r) if self.infinite else np.full_like(r, np.nan)
        return np.where(np.isnan(r), r, np.where(np.abs(r) > self.greatest, over, r))


class Integer:
    def __init__(self, name, bits):
        self.name, self.bits = name, bits

    def wrap(self, x):
        """The number of this width with the same low bits: 0 or 1 of i1, else with a sign."""
        x = np.asarray(x, np.int64)
        if self.bits == 64:
            return x
        if self.bits == 1:
            return x & 1
        half = 1 << (self.bits - 1)
        return ((x + half) & ((1 << self.bits) - 1)) - half


FLOATS = {f.name: f for f in (
    Float("f64", 64, 53, -1022, np.finfo(np.float64).max),
    Float("f32", 32, 24, -126, float(np.finfo(np.float32).max)),
    Float("f16", 16, 11, -14, 65504.0),
    Float("bf16", 16, 8, -126, float(np.frombuffer(b"\0\0\x7f\x7f", np.float32)[0])),
    Float("f8E4M3FN", 8, 4, -6, 448.0, infinite=False),
    Float("f8E5M2", 8, 3, -14, 57344.0))}  # fmt: skip
INTEGERS = {"i%d" % n: Integer("i%d" % n, n) for n in (1, 8, 16, 32, 64)}
TYPES = {**FLOATS, **INTEGERS}

FILE_TYPES = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i1": "BOOL", "i8": "I8",
              "i16": "I16", "i32": "I32", "i64": "I64"}  # fmt: skip
ARRAYS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i1": np.uint8, "i8": np.int8,
          "i16": np.int16, "i32": np.int32, "i64": np.int64}  # fmt: skip


def to_bytes(dtype, values):
    """Little-endian bytes of values that the type holds."""
    if dtype == "bf16":
        words = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return (words >> 16).astype(np.uint16).tobytes()
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values).astype(ARRAYS[dtype]).tobytes()


def from_bytes(dtype, data):
    if dtype == "bf16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, ARRAYS[dtype]).astype(np.float64 if dtype in FLOATS else np.int64)


def write_tensors(path, tensors):
    """`tensors`: name -> (type, values), as a safetensors file."""
    header, parts, offset = {}, [], 0
    for name, (dtype, values) in tensors.items():
        parts.append(to_bytes(dtype, values))
        end = offset + len(parts[-1])
        header[name] = {"dtype": FILE_TYPES[dtype], "shape": list(np.shape(values)), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_tensors(path):
    """name -> (type, values), with the shards of a checkpoint"""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    metadata = header.pop("__metadata__", {})
    known = {name: dtype for dtype, name in FILE_TYPES.items()}
    tensors = {name: (known[entry["dtype"]],
                      from_bytes(known[entry["dtype"]], body[slice(*entry["data_offsets"])]).reshape(entry["shape"]))
               for name, entry in header.items()}  # fmt: skip
    for key, text in metadata.items():
        if key.startswith("mpcomm.shard."):
            tensors.update(read_tensors(os.path.join(os.path.dirname(path), text.rsplit(" ", 1)[0])))
    return tensors
