# ===- safetensors.py - tensors in a file ----------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The safetensors format: an 8-byte length, a JSON header, the bytes.

Written whole to a temporary file beside the target, synced and renamed, so that
a reader never sees half a file. As mpcomm-run does it: a link stays, and a lock
shows whether the writer of a temporary file lives.
"""

import fcntl
import json
import os
import re
import secrets
import struct

import numpy as np

DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": None,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U8": np.uint8, "BOOL": np.bool_,
}
NAMES = {np.dtype(t): n for n, t in DTYPES.items() if t is not None}
SIZES = {n: 2 if t is None else np.dtype(t).itemsize for n, t in DTYPES.items()}


def to_array(tensor):
    """(dtype name, bytes-like array) of a numpy array or a torch tensor."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().contiguous()
        if str(tensor.dtype) == "torch.bfloat16":
            import torch
            return "BF16", tensor.view(torch.int16).numpy()
        tensor = tensor.numpy()
    # numpy's ascontiguousarray would make a 0-d array 1-d.
    array = np.asarray(tensor, order="C")
    if array.dtype.name == "bfloat16":  # of ml_dtypes
        return "BF16", array.view(np.int16)
    if array.dtype not in NAMES:
        raise ValueError(f"no safetensors type for {array.dtype}")
    return NAMES[array.dtype], array


def writer(tensors, metadata=None):
    """A function that writes `tensors`, a dict of name to array or tensor, in
    its order to a file."""
    header, arrays, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = {str(k): str(v) for k, v in metadata.items()}
    for name, tensor in tensors.items():
        dtype, array = to_array(tensor)
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        arrays.append(array)
        offset += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def write(file):
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for array in arrays:
            file.write(array.tobytes())
    return write


def save(path, tensors, metadata=None):
    write_files([(path, writer(tensors, metadata))])


def remove_abandoned(path):
    """Removes temporary files beside `path` whose writers were killed."""
    folder, base = os.path.split(path)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if re.fullmatch(re.escape(base) + r"\.mpcomm-tmp-[0-9a-f]{16}", name):
            try:
                flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
                with open(os.open(os.path.join(folder, name), flags), "wb") as file:
                    status = os.fstat(file.fileno())
                    if status.st_uid == os.geteuid() and status.st_nlink == 1:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(os.path.join(folder, name))
            except OSError:
                pass


def open_temporary(path):
    """A new file beside `path`, locked."""
    while True:
        file = open(f"{path}.mpcomm-tmp-{secrets.token_hex(8)}", "xb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks; nobody there removes it
        if os.path.exists(file.name):
            return file
        file.close()  # another import took it for abandoned before it was locked


def write_files(files):
    """`write(file)` for each (path, write): all to temporary names first, then
    renamed; on an error none of the paths is touched and nothing else left.
    ValueError where two of them are one file, or one is no regular file."""
    staged, seen, open_files = [], {}, []
    for path, _ in files:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"{os.fspath(path)}: cannot write: not a regular file")
        first = seen.setdefault(os.path.realpath(path), path)
        if first is not path:
            raise ValueError(f"{os.fspath(path)}: two outputs go to this file")
    try:
        for path, write in files:
            path = os.path.realpath(path)
            remove_abandoned(path)
            file = open_temporary(path)
            open_files.append(file)
            staged.append((file.name, path))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        for temporary, path in staged:
            os.replace(temporary, path)
    except BaseException:
        for temporary, _ in staged:
            if os.path.exists(temporary):
                os.unlink(temporary)
        raise
    finally:
        for file in open_files:
            file.close()


def load(path):
    """(tensors, metadata). BF16 comes as int16 bit patterns. ValueError where
    the file is not what it claims."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8:
        raise ValueError(f"{path}: shorter than a safetensors header")
    size = struct.unpack("<Q", data[:8])[0]
    if size > len(data) - 8:
        raise ValueError(f"{path}: header of {size} bytes in a file of {len(data)}")
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    body, tensors = memoryview(data)[8 + size:], {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]] or np.int16
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if not 0 <= begin <= end <= len(body) or \
                end - begin != count * SIZES[entry["dtype"]]:
            raise ValueError(f"{path}: {name}: offsets do not fit its shape")
        tensors[name] = np.frombuffer(body[begin:end], dtype).reshape(entry["shape"])
    return tensors, metadata
