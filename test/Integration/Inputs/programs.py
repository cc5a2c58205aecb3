# ===- programs.py - running tools, and files of tensors -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What tests that compile and run a program share: commands that have to end as
expected, losses that a run leaves and how near they are, and safetensors files, written
and read with the standard library."""

import json
import math
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../Runtime/run/Inputs"))  # fmt: skip
from seal import seal

FORMATS = {"F32": "f", "F64": "d", "F16": "e", "I32": "i", "I64": "q", "BOOL": "?"}


def run(*command, expected=0, limit=300, environment=()):
    """What a command printed; the test ends where its status is another. `environment`: what it
    is given beside this process's."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=limit, env={**os.environ, **dict(environment)})  # fmt: skip
    if done.returncode != expected:
        sys.exit("%s\nended with status %d, expected %d:\n%s"
                 % (" ".join(command), done.returncode, expected, done.stdout))  # fmt: skip
    return done.stdout


def call(command, data=None):
    """What a command made of `data`, as bytes."""
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit("%s\nfailed with status %d:\n%s"
                 % (" ".join(command), done.returncode, done.stderr.decode()[-4000:]))  # fmt: skip
    return done.stdout


# Code for a processor without bf16 keeps a bf16 that crosses blocks as f32, and calls this
# function of newer compiler libraries (GCC 13, compiler-rt) to store it. To nearest, ties to even.
TRUNCATE = b"""
define weak hidden bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %isNaN = fcmp uno float %x, 0.0
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %near = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %word = select i1 %isNaN, i32 %quiet, i32 %near
  %short = trunc i32 %word to i16
  %out = bitcast i16 %short to bfloat
  ret bfloat %out
}
"""


def link(cc, text, output):
    """LLVM dialect to a program file."""
    ir = call([shutil.which("mlir-translate-22") or "mlir-translate", "--mlir-to-llvmir"], text)
    if b"bfloat" in ir:
        ir += TRUNCATE
    call([cc, "-O1", "-w", "-march=native", "-fPIC", "-shared", "-x", "ir", "-", "-o", output, "-lm"], ir)
    seal(output)


def read_losses(log):
    """The loss of each step of a run with --log."""
    with open(log) as file:
        return [json.loads(line)["loss"] for line in file]


def near(what, ours, others, bound):
    """The test ends where values are further apart than `bound`, relative to those above 1."""
    if len(ours) != len(others):
        sys.exit("%s: %d values, expected %d" % (what, len(ours), len(others)))
    for a, b in zip(ours, others):
        if not abs(a - b) <= bound * max(1, abs(b)):
            sys.exit("%s: %r and %r are further apart than %g" % (what, a, b, bound))


def f32(value):
    """The nearest number of f32."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def pack(dtype, values):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack("<%d%s" % (len(values), FORMATS[dtype]), *values)


def unpack(dtype, data):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    kind = FORMATS[dtype]
    return list(struct.unpack("<%d%s" % (len(data) // struct.calcsize(kind), kind), data))


def write_tensors(file, tensors, metadata=None):
    """`tensors`: name -> (shape, values) of f32, or (dtype, shape, values)."""
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, entry in tensors.items():
        dtype, shape, values = entry if len(entry) == 3 else ("F32", *entry)
        part = pack(dtype, values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
    return file


def read_typed(file):
    """(name -> (dtype, shape, values), metadata)"""
    with open(file, "rb") as source:
        (length,) = struct.unpack("<Q", source.read(8))
        header, data = json.loads(source.read(length)), source.read()
    metadata = header.pop("__metadata__", {})
    tensors = {name: (entry["dtype"], entry["shape"], unpack(entry["dtype"], data[slice(*entry["data_offsets"])]))
               for name, entry in header.items()}  # fmt: skip
    # A checkpoint of several ranks is an index and shards beside it.
    for key, text in metadata.items():
        if key.startswith("mpcomm.shard."):
            tensors.update(read_typed(os.path.join(os.path.dirname(file), text.rsplit(" ", 1)[0]))[0])
    return tensors, metadata


def read_tensors(file):
    """name -> list of values"""
    return {name: values for name, (_, _, values) in read_typed(file)[0].items()}
