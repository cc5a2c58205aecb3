# ===- state.py - tensors of a session, read and written ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The state of a session: its table, and copies of its tensors as PyTorch's or NumPy's."""

import ctypes
import hashlib
import json
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Set, Tuple

import numpy

from .batches import NUMPY, TORCH, Described, describe, fill
from .errors import Error
from .library import DTYPES, ROLES, Array, Handle, Tensor


#: Bytes of a checksum, and of a tensor that ranks send at a time.
DIGEST, BLOCK = 8, 1 << 20


class TensorInfo(NamedTuple):
    """A tensor of a session.

    role           "parameter", "optimizer_state", "buffer", "loss_scale", "output", …
    dtype          "f32", "bf16", "i64", …
    shape          of the whole, of which a rank may have a part
    owner          the lowest rank that has it
    is_local       whether this rank has it
    is_replicated  whether all ranks have the whole of it; else those of a pipeline's stage
                   have it, or each rank has a part
    is_part        whether this rank has a part of it
    """

    name: str
    role: str
    dtype: str
    shape: Tuple[int, ...]
    owner: int
    is_local: bool
    is_replicated: bool
    is_part: bool
    nbytes: int


def info_of(tensor: Tensor) -> TensorInfo:
    shape = tensor.global_shape[:tensor.global_ndim]
    is_part = bool(tensor.is_local) and tensor.shape[:tensor.ndim] != shape
    return TensorInfo(tensor.name.decode(), ROLES[tensor.role], DTYPES[tensor.dtype],
                      tuple(shape), tensor.owner, bool(tensor.is_local),
                      bool(tensor.is_replicated), is_part, tensor.bytes)


def arguments(handle: Handle, function: str) -> List[TensorInfo]:
    """The arguments of a function of the current program; [] if there is none."""
    result: List[TensorInfo] = []
    while True:
        tensor = Tensor()
        try:
            handle("argument", function.encode(), len(result), ctypes.byref(tensor))
        except Error as error:
            if error.code != "not_found":
                raise
            return result
        result.append(info_of(tensor))


def empty(info: TensorInfo) -> Tuple[Any, int]:
    """A new tensor of that type and shape, and its address: one of PyTorch if the process
    uses that, else an array."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, TORCH[info.dtype]):
        tensor = torch.empty(info.shape, dtype=getattr(torch, TORCH[info.dtype]))
        return tensor, tensor.data_ptr()
    array = numpy.empty(info.shape, NUMPY.get(info.dtype, numpy.uint16))
    return array, array.ctypes.data


def converted(info: TensorInfo, value: Any) -> bytes:
    """The bytes of a value in the type that the program has."""
    copy, address = empty(info)
    if isinstance(copy, numpy.ndarray):
        array = numpy.asarray(value)
        copy[...] = array.view(copy.dtype) if array.dtype.name == "bfloat16" else array
    else:
        copy.copy_(sys.modules["torch"].as_tensor(value))
    return ctypes.string_at(address, element_bytes(info))


def finished(info: TensorInfo, value: Any) -> Any:
    """NumPy has no bfloat16: its values are f32 there."""
    if info.dtype == "bf16" and isinstance(value, numpy.ndarray):
        return (value.astype(numpy.uint32) << 16).view(numpy.float32)
    return value


class State:
    """The tensors of state that the programs of a session have, on any rank."""

    def __init__(self, handle: Handle):
        self.handle = handle
        self.own: Set[str] = set()  # names of tensors of which each rank has its own
        count = ctypes.c_uint32()
        handle("state_count", ctypes.byref(count))
        self.table: Dict[str, TensorInfo] = {}
        for index in range(count.value):
            tensor = Tensor()
            handle("state_at", index, ctypes.byref(tensor))
            info = info_of(tensor)
            self.table[info.name] = info

    def mean(self, name: str) -> Any:
        """A tensor as one rank has it, as `read`; of what each has its own, the mean, or of
        integers what the first has."""
        value = self.read(name)
        if name not in self.own:
            return value
        return value.mean(0) if kind_of(self.table[name].dtype) == "float" else value[0]

    def names(self, *roles: str) -> List[str]:
        return [n for n, i in self.table.items() if i.role in roles]

    def read(self, name: str) -> Any:
        """A copy of a tensor; all ranks call it for one that not all of them have."""
        info = self.table[name]
        value, address = empty(info)
        self.handle("read" if info.is_replicated else "read_global", name.encode(), address,
                    element_bytes(info))
        return finished(info, value)

    def result(self, name: str) -> Any:
        """A copy of a result of the last step or evaluation on this rank."""
        tensor = Tensor()
        self.handle("tensor", name.encode(), ctypes.byref(tensor))
        info = info_of(tensor)
        value, address = empty(info)
        self.handle("read", name.encode(), address, info.nbytes)
        return finished(info, value)

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuses values that do not fit, before any is written."""
        for name, value in values.items():
            info, found = self.table[name], describe(name, value)
            if found.shape != info.shape:
                raise Error(f"'{name}': expected shape {list(info.shape)}, found "
                            f"{list(found.shape)}")
            if kind_of(found.dtype) != kind_of(info.dtype):
                raise Error(f"'{name}': expected {info.dtype}, found {found.dtype}")

    def write(self, values: Mapping[str, Any]) -> None:
        """Writes those of the tensors that this rank has. Of what each has its own, values
        may be those of all ranks, or one for all."""
        values = {n: self.for_each_rank(n, v) if n in self.own else v for n, v in values.items()}
        self.check(values)
        for name, value in values.items():
            if self.table[name].is_local:
                array = Array(name=name.encode())
                held = fill(array, describe(name, value))
                self.handle("write", ctypes.byref(array))
                del held

    def for_each_rank(self, name: str, value: Any) -> Any:
        shape = tuple(self.table[name].shape)
        if tuple(numpy.shape(value)) != shape[1:]:
            return value
        expand = getattr(value, "expand", None)
        return expand(shape) if expand else numpy.broadcast_to(value, shape)

    def memory(self, name: str) -> Any:
        """The bytes of a tensor that this rank has, until the next call that changes it."""
        tensor = Tensor()
        self.handle("tensor", name.encode(), ctypes.byref(tensor))
        return (ctypes.c_char * tensor.bytes).from_address(tensor.data) if tensor.bytes else b""

    def broadcast(self, rank: int, size: int, initial: Mapping[str, Any]) -> None:
        """Gives the `size` ranks the values of rank 0, as DistributedDataParallel does (all
        ranks): those that it has written, of other stages those in its `initial`, and where
        it has neither those of the tensor's owner. Ranks of one seed have them already: they
        compare checksums, and send what differs."""
        def mine(name: str) -> Any:
            info = self.table[name]
            if info.is_local and not info.is_part:
                return self.memory(name)
            # What a rank has in memory of one that is in parts is not what it was given.
            is_given = name in initial and (rank == 0 or info.is_part)
            return converted(info, initial[name]) if is_given else b""
        own = b"".join(hashlib.blake2b(held, digest_size=DIGEST).digest() if held else
                       bytes(DIGEST) for held in map(mine, self.table))
        sums = self.gather(own, size)
        for index, (name, info) in enumerate(self.table.items()):
            found = [s[index * DIGEST:(index + 1) * DIGEST] for s in sums]
            source = 0 if any(found[0]) else info.owner
            if any(f not in (found[source], bytes(DIGEST)) for f in found):
                self.send(name, info, source, size, mine(name) if rank == source else b"")

    def send(self, name: str, info: TensorInfo, source: int, size: int, mine: Any) -> None:
        """Gives all ranks a tensor that the rank `source` has."""
        value, address = empty(info)
        total = element_bytes(info)
        mine = mine or bytes(total)
        for at in range(0, total, BLOCK):
            block = self.gather(mine[at:at + BLOCK], size)[source]
            ctypes.memmove(address + at, block, len(block))
        if info.is_local:
            array = Array(name=name.encode())
            held = fill(array, Described(address, info.dtype, info.shape, None, value))
            self.handle("write", ctypes.byref(array))
            del held

    def gather(self, mine: bytes, size: int) -> List[bytes]:
        """What each rank gives (all ranks)."""
        everyone = ctypes.create_string_buffer(size * len(mine))
        self.handle("gather", mine, everyone, len(mine))
        return [everyone.raw[i * len(mine):(i + 1) * len(mine)] for i in range(size)]

    def initial(self, manifest: str, name: str) -> Any:
        """What the program says that a tensor of the optimizer's state starts with."""
        info = self.table[name]
        for function in json.loads(manifest)["functions"]:
            for argument in function["arguments"]:
                if argument["name"] == name and "copy_of" in argument:
                    return self.read(argument["copy_of"])
                if argument["name"] == name:
                    value, _ = empty(info)
                    value[...] = argument.get("default", 0)
                    return value
        raise Error(f"the program has no state '{name}'", code="not_found")


def kind_of(dtype: str) -> str:
    return dtype if dtype == "bool" else "float" if dtype[0] in "fb" else "integer"


def element_bytes(info: TensorInfo) -> int:
    count = 1
    for size in info.shape:
        count *= size
    return count * (1 if info.dtype[:2] == "f8" or info.dtype == "bool" else
                    int("".join(c for c in info.dtype if c.isdigit())) // 8)
