# ===- batches.py - batches of tensors of any library ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Turns tensors of PyTorch, NumPy and other libraries into arrays of the C ABI.

Nothing is copied here. A batch whose tensors have the program's types and shapes takes a
few tenths of a microsecond a tensor; others are described anew, and the library converts
or refuses them.
"""

import ctypes
import sys
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import (Any, Callable, Collection, Dict, List, Mapping, NamedTuple, Optional,
                    Sequence, Tuple)

import numpy

from .errors import Error
from .library import DTYPES, Array

CODES = {name: code for code, name in enumerate(DTYPES)}
NUMPY = {"f32": numpy.float32, "f64": numpy.float64, "f16": numpy.float16, "i8": numpy.int8,
         "u8": numpy.uint8, "i16": numpy.int16, "i32": numpy.int32, "i64": numpy.int64,
         "bool": numpy.bool_}
FROM_NUMPY = {numpy.dtype(t): n for n, t in NUMPY.items()}
TORCH = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8",
         "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64", "bool": "bool",
         "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
FROM_TORCH = {"torch." + t: n for n, t in TORCH.items()}
# (code, bits) of a DLPack type. Bool is 6 since DLPack 0.8.
FROM_DLPACK = {(2, 32): "f32", (2, 64): "f64", (2, 16): "f16", (4, 16): "bf16", (0, 8): "i8",
               (1, 8): "u8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64", (6, 8): "bool"}


class Described(NamedTuple):
    """Where the values of a tensor are. `strides` count elements; None: row-major.
    `holder` keeps them there."""

    address: int
    dtype: str
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]
    holder: Any


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)),
                ("byte_offset", c_uint64)]


def describe(name: str, value: Any) -> Described:
    """Where the values of `value` are; `name` is for messages."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout != torch.strided:
            raise Error(f"'{name}': expected a dense tensor on the CPU, found one on "
                        f"{value.device} of layout {value.layout}")
        dtype = FROM_TORCH.get(str(value.dtype))
        strides = None if value.is_contiguous() else tuple(value.stride())
        found = Described(value.data_ptr(), dtype or str(value.dtype), tuple(value.shape),
                          strides, value)
    elif isinstance(value, (numpy.ndarray, numpy.generic, int, float, bool)):
        array = numpy.asarray(value)
        if any(s % array.itemsize for s in array.strides):
            array = numpy.array(array, order="C")  # a field of records, for instance
        dtype = FROM_NUMPY.get(array.dtype) or ("bf16" if array.dtype.name == "bfloat16" else None)
        strides = None if array.flags.c_contiguous else \
            tuple(s // array.itemsize for s in array.strides)
        found = Described(array.__array_interface__["data"][0], dtype or str(array.dtype),
                          array.shape, strides, array)
    elif type(value).__name__ == "PyCapsule" or hasattr(value, "__dlpack__"):
        found = from_dlpack(name, value)
        dtype = found.dtype
    else:
        raise Error(f"'{name}': expected a tensor, an array or a DLPack capsule, found "
                    f"{type(value).__name__}")
    if dtype not in CODES:
        raise Error(f"'{name}': no tensors of type {found.dtype}")
    return found


def from_dlpack(name: str, value: Any) -> Described:
    capsule = value if type(value).__name__ == "PyCapsule" else value.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        tensor = DLTensor.from_address(get(capsule, b"dltensor"))
    except ValueError:
        raise Error(f"'{name}': expected a DLPack capsule that no one has used") from None
    if tensor.device_type not in (1, 3):  # CPU; memory of the host that CUDA pinned
        raise Error(f"'{name}': expected a tensor on the CPU, found one on DLPack's device "
                    f"{tensor.device_type}")
    dtype = FROM_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None
    return Described((tensor.data or 0) + tensor.byte_offset,
                     dtype or f"{tensor.code} of {tensor.bits} bits in DLPack",
                     tuple(tensor.shape[:tensor.ndim]), strides, (value, capsule))


def fill(array: Array, found: Described) -> Any:
    """Describes a tensor to the library; returns what has to live as long."""
    shape = (c_int64 * len(found.shape))(*found.shape)
    strides = (c_int64 * len(found.shape))(*found.strides) if found.strides else None
    array.data, array.dtype, array.ndim = found.address, CODES[found.dtype], len(found.shape)
    array.shape = shape
    array.strides = strides
    return shape, strides, found.holder


def names_of_batch(batch: Any) -> Tuple[str, Dict[str, Any]]:
    """("mapping", "sequence" or "tensor", the batch's tensors by name). Tensors without a
    name have that of their position: batch.0, batch.1, …"""
    if isinstance(batch, Mapping):
        return "mapping", dict(batch)
    if isinstance(batch, (tuple, list)):
        return "sequence", {f"batch.{i}": t for i, t in enumerate(batch)}
    return "tensor", {"batch.0": batch}


def for_each_tensor(batch: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(batch, Mapping):
        return {k: change(v) for k, v in batch.items()}
    if isinstance(batch, (tuple, list)):
        return tuple(change(v) for v in batch)
    return change(batch)


def count_samples(batch: Any) -> Optional[int]:
    """Of tensors that can be indexed; None if there is none, or if they differ."""
    tensors = names_of_batch(batch)[1].values()
    if not all(hasattr(v, "__getitem__") for v in tensors):
        return None
    found = {tuple(getattr(v, "shape", ()))[:1] for v in tensors}
    return found.pop()[0] if len(found) == 1 and () not in found else None


class Slot:
    """A batch argument of a function, and the Array that describes it to the library."""

    def __init__(self, name: str, dtype: str, shape: Sequence[int], array: Array):
        self.name, self.dtype, self.shape, self.array = name, dtype, tuple(shape), array
        self.key: Any = name
        self.numpy = numpy.dtype(NUMPY[dtype]) if dtype in NUMPY else None
        self.torch: Any = None  # its torch.dtype, once PyTorch is there
        self.own = (c_int64 * len(self.shape))(*self.shape)
        array.name = name.encode()
        self.reset()

    def reset(self) -> None:
        self.array.dtype, self.array.ndim = CODES[self.dtype], len(self.shape)
        self.array.shape, self.array.strides = self.own, None
        self.held: Any = None

    def other(self, value: Any) -> None:
        """Takes what is not as the program has it, if the library can convert it."""
        found = describe(self.name, value)
        if found.shape != self.shape:
            hint = ""
            if found.shape[1:] == self.shape[1:]:
                hint = " (a last batch of a loader? drop_last=True leaves it out)" \
                    if 0 < found.shape[0] < self.shape[0] else \
                    "; a step has one size of batch, that of the example"
            raise Error(f"batch '{self.name}': expected shape {list(self.shape)}, found "
                        f"{list(found.shape)}{hint}")
        if (found.dtype[0] in "fb") != (self.dtype[0] in "fb") or \
                (found.dtype == "bool") != (self.dtype == "bool"):
            raise Error(f"batch '{self.name}': expected {self.dtype}, found {found.dtype}")
        self.held = fill(self.array, found)


class Batches:
    """Describes batches to a function of the program, whose batch arguments are
    `arguments`, [(name, dtype, shape)]. `order` are the names of a batch without names, in
    its order; `known` names that a batch may have and the function does not take."""

    def __init__(self, arguments: Sequence[Tuple[str, str, Sequence[int]]],
                 order: Sequence[str], known: Collection[str] = ()):
        self.count = len(arguments)
        self.arrays = (Array * max(1, self.count))()
        self.slots: List[Slot] = [Slot(n, d, s, self.arrays[i])
                                  for i, (n, d, s) in enumerate(arguments)]
        self.names = [s.name for s in self.slots]
        self.order = list(order) or self.names
        self.known = set(known) | set(self.order) | set(self.names)
        self.positions = [self.order.index(n) for n in self.names]
        self.tensor: Any = None  # torch.Tensor, once PyTorch is there

    def take(self, batch: Any) -> None:
        """Puts the addresses of a batch into `arrays`."""
        if isinstance(batch, Mapping):
            if len(batch) != self.count:
                self.check_keys(batch)
            keys: Sequence[Any] = self.names
        else:
            if not isinstance(batch, (tuple, list)):
                batch = (batch,)
            if len(batch) != len(self.order):
                raise Error(f"expected a batch of {len(self.order)} tensors "
                            f"({', '.join(self.order)}), found {len(batch)}")
            keys = self.positions
        if self.tensor is None and "torch" in sys.modules:
            self.tensor = sys.modules["torch"].Tensor
            for slot in self.slots:
                slot.torch = getattr(sys.modules["torch"], TORCH[slot.dtype], None)
        tensor, array = self.tensor, numpy.ndarray
        for slot, key in zip(self.slots, keys):
            try:
                value = batch[key]
            except KeyError:
                self.check_keys(batch)
                raise
            if slot.held is not None:
                slot.reset()
            kind = type(value)
            if kind is tensor and value.dtype is slot.torch and value.shape == slot.shape \
                    and value.is_cpu and value.is_contiguous():
                slot.array.data = value.data_ptr()
            elif kind is array and value.dtype == slot.numpy and value.shape == slot.shape \
                    and value.flags.c_contiguous:
                slot.array.data = value.__array_interface__["data"][0]
            else:
                slot.other(value)

    @property
    def samples(self) -> int:
        """Of a batch, the first dimension of its tensors; 0 where they differ, or where
        this rank takes none."""
        found = {s.shape[0] if s.shape else 0 for s in self.slots}
        return found.pop() if len(found) == 1 else 0

    @staticmethod
    def parts(batch: Any, size: int) -> List[Any]:
        """A batch as batches of `size` samples, of which the last may have fewer. What is no
        mapping, tuple or list of tensors with equally many samples is returned as it is."""
        samples = count_samples(batch)
        if not size or samples is None or samples <= size:
            return [batch]
        return [for_each_tensor(batch, lambda v: v[begin:begin + size])
                for begin in range(0, samples, size)]

    @staticmethod
    def filled(batch: Any, size: int) -> Optional[Tuple[Any, Any]]:
        """Of a batch of fewer than `size` samples: the batch filled with copies of its last
        sample, and a batch of these copies alone. None for others."""
        samples = count_samples(batch)
        if not samples or samples >= size:
            return None
        return (for_each_tensor(batch, lambda v: v[numpy.minimum(range(size), samples - 1)]),
                for_each_tensor(batch, lambda v: v[numpy.full(size, samples - 1)]))

    def check_keys(self, batch: Mapping) -> None:
        missing = [n for n in self.names if n not in batch]
        unknown = [str(n) for n in batch if n not in self.known]
        if missing or unknown:
            found = "no '" + "', '".join(missing) + "'" if missing else \
                "unknown '" + "', '".join(unknown) + "'"
            raise Error(f"batch: expected the tensors {', '.join(self.names)}, found {found}")
