# ===- library.py - the C ABI of sessions ---------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""include/mpcomm/Runtime/Session.h for ctypes: its structures, and its calls as methods
that raise Error.

The order of fields and arguments is that of the header; the test of the header's layout
compares the sizes.
"""

import ctypes
import functools
import os
from ctypes import (POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint32,
                    c_uint64, c_void_p)
from typing import Any, Optional

from . import tools
from .errors import Error

ABI = 1
NAME = f"libmpcomm_session.so.{ABI}"
STATUS = ("ok", "invalid_argument", "out_of_memory", "unsupported", "timeout", "peer_failed",
          "mismatch", "io_error", "internal", "not_found", "not_ready")
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool", "f8E4M3FN",
          "f8E5M2")
ROLES = ("parameter", "optimizer_state", "buffer", "batch", "hyperparameter", "loss_scale",
         "rng", "loss", "output")
DECAYS = ("constant", "cosine", "linear")
EVENTS = ("loaded", "switched", "step", "evaluated", "snapshot", "saved", "resumed", "warning",
          "failed", "adapted", "network")


class Structure(ctypes.Structure):
    """One that begins with its size, if it has such a field."""

    def __init__(self, **values: Any):
        super().__init__(**values)
        if self._fields_[0][0] == "struct_size":
            self.struct_size = ctypes.sizeof(self)


class ErrorRecord(Structure):
    _fields_ = [("code", c_int32), ("rank", c_int32), ("location", c_char * 256),
                ("message", c_char * 1760), ("is_elsewhere", c_uint8),
                ("reserved", c_uint8 * 7)]


class SessionOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("rank", c_uint32), ("size", c_uint32),
                ("address", c_char_p), ("ranks", c_void_p), ("comm", c_char_p),
                ("device", c_char_p), ("timeout_seconds", c_double), ("seed", c_uint64),
                ("reserved", c_uint32), ("flight_capacity", c_uint32), ("give_up", c_void_p),
                ("give_up_user", c_void_p)]


class SessionInfo(Structure):
    _fields_ = [("struct_size", c_uint32), ("rank", c_uint32), ("size", c_uint32),
                ("local_ranks", c_uint32), ("data_rank", c_uint32), ("data_ranks", c_uint32),
                ("programs", c_uint32), ("current", c_uint32), ("step", c_uint64),
                ("seed", c_uint64), ("backend", c_char_p), ("device", c_char_p)]


class Tensor(Structure):
    _fields_ = [("struct_size", c_uint32), ("role", c_int32), ("name", c_char_p),
                ("dtype", c_int32), ("ndim", c_uint32), ("shape", POINTER(c_int64)),
                ("global_shape", POINTER(c_int64)), ("bytes", c_uint64), ("owner", c_int32),
                ("is_local", c_uint8), ("is_replicated", c_uint8), ("is_updated", c_uint8),
                ("needs_value", c_uint8), ("data", c_void_p), ("range_begin", c_int64),
                ("range_end", c_int64), ("global_ndim", c_uint32), ("reserved", c_uint32)]


class Array(Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("dtype", c_int32), ("ndim", c_uint32),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class ScheduleRecord(Structure):
    _fields_ = [("struct_size", c_uint32), ("decay", c_int32), ("base", c_double),
                ("warmup", c_uint64), ("total", c_uint64)]


class Metric(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class Result(Structure):
    _fields_ = [("struct_size", c_uint32), ("has_loss", c_uint8), ("has_loss_scale", c_uint8),
                ("is_skipped", c_uint8), ("reserved", c_uint8), ("step", c_uint64),
                ("loss", c_double), ("loss_scale", c_double), ("milliseconds", c_double),
                ("exposed_milliseconds", c_double), ("metric_count", c_uint32),
                ("nonfinite_count", c_uint32), ("metrics", POINTER(Metric)),
                ("nonfinite", POINTER(c_char_p))]


class Text(Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class SaveOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("background", c_uint8), ("weights_only", c_uint8),
                ("allow_nonfinite", c_uint8), ("skip_nonfinite", c_uint8), ("keep", c_uint32),
                ("metadata_count", c_uint32), ("metadata", POINTER(Text)),
                ("allow_difference", c_uint8), ("reserved", c_uint8 * 7)]


class SavePlan(Structure):
    _fields_ = [("struct_size", c_uint32), ("keep", c_uint32), ("every", c_uint64),
                ("last", c_uint64)]


class ResumeOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("anyway", c_uint8), ("reserved", c_uint8 * 3)]


class AdaptOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("every", c_uint32), ("numerics", c_char_p),
                ("gain", c_double), ("budget", c_uint32), ("only_watch", c_uint8),
                ("reserved", c_uint8 * 3), ("plan_command", c_char_p)]


class EventRecord(Structure):
    _fields_ = [("kind", c_int32), ("rank", c_int32), ("step", c_uint64),
                ("time_nanoseconds", c_uint64), ("milliseconds", c_double),
                ("exposed_milliseconds", c_double), ("value", c_double), ("text", c_char * 464)]


# The arguments of each call after the session, without the error at its end.
CALLS = {
    "describe": [c_void_p], "load": [c_char_p, c_void_p], "switch": [c_uint32],
    "manifest": [c_uint32, c_void_p], "variant": [c_uint32, c_void_p], "state_count": [c_void_p],
    "state_at": [c_uint32, c_void_p], "tensor": [c_char_p, c_void_p],
    "argument": [c_char_p, c_uint32, c_void_p], "write": [c_void_p],
    "read": [c_char_p, c_void_p, c_uint64], "read_global": [c_char_p, c_void_p, c_uint64],
    "set": [c_char_p, c_double], "get": [c_char_p, c_void_p], "set_schedule": [c_void_p],
    "set_seed": [c_uint64], "set_step": [c_uint64],
    "step": [c_void_p, c_uint32, c_void_p, c_void_p],
    "evaluate": [c_char_p, c_void_p, c_uint32, c_void_p], "save": [c_char_p, c_void_p],
    "plan_saves": [c_char_p, c_void_p],
    "wait": [], "read_state": [c_char_p], "resume": [c_char_p, c_void_p],
    "metadata": [c_char_p, c_void_p], "gather": [c_void_p, c_void_p, c_uint64],
    "adapt": [c_void_p], "network": [c_void_p], "abort": [c_char_p], "events": [c_void_p, c_uint32, c_void_p, c_void_p], "close": [],
}


@functools.lru_cache(maxsize=None)
def load():
    """The library; MPCOMM_SESSION_LIBRARY names another one."""
    given = os.environ.get("MPCOMM_SESSION_LIBRARY")
    path = given or tools.find_library(NAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        found = f"cannot load {path}: {error}" if os.path.exists(path) else \
            f"MPCOMM_SESSION_LIBRARY is {given}: {error}" if given else \
            f"found no {NAME} in lib/ above {tools.HERE} or beside an mpcomm-run or " \
            f"mpcomm-compile of PATH, and the dynamic linker says: {error}; " \
            "MPCOMM_SESSION_LIBRARY can name the file, which is in lib/ of a build or an " \
            "installation"
        raise Error(found, code="not_found") from None
    found = library.mpcomm_session_abi()
    if found != ABI:
        raise Error(f"{path}: expected ABI {ABI} of sessions, found {found}", code="unsupported")
    for name, arguments in CALLS.items():
        getattr(library, "mpcomm_session_" + name).argtypes = \
            [c_void_p, *arguments, c_void_p]
    library.mpcomm_session_open.argtypes = [c_void_p, c_void_p, c_void_p]
    library.mpcomm_ranks_create.argtypes = [c_uint32, c_void_p, c_void_p]
    library.mpcomm_ranks_mark_dead.argtypes = [c_void_p, c_uint32, c_char_p, c_void_p]
    library.mpcomm_ranks_destroy.argtypes = [c_void_p]
    library.mpcomm_ranks_destroy.restype = None
    return library


def failure(record: ErrorRecord) -> Error:
    """The Error for what a call filled in."""
    code = STATUS[record.code] if 0 <= record.code < len(STATUS) else "internal"
    location = record.location.decode(errors="replace")
    message = record.message.decode(errors="replace")
    return Error(f"{location}: {message}" if location and location not in message else message,
                 code, record.rank if record.rank >= 0 else None, location)


def encoded(text: Any) -> bytes:
    return os.fsencode(text)


class Handle:
    """An open session: `handle("save", path, options)` is mpcomm_session_save."""

    def __init__(self, options: SessionOptions):
        self.library, self.pointer = load(), c_void_p()
        record = ErrorRecord()
        if self.library.mpcomm_session_open(ctypes.byref(options), ctypes.byref(self.pointer),
                                            ctypes.byref(record)):
            raise failure(record)

    def __call__(self, name: str, *arguments: Any) -> None:
        if not self.pointer:
            raise Error("the session is closed", code="not_ready")
        record = ErrorRecord()
        if getattr(self.library, "mpcomm_session_" + name)(
                self.pointer, *arguments, ctypes.byref(record)):
            raise failure(record)

    def close(self) -> None:
        pointer, self.pointer = self.pointer, c_void_p()
        record = ErrorRecord()
        if pointer and self.library.mpcomm_session_close(pointer, ctypes.byref(record)):
            raise failure(record)


class Ranks:
    """A world over shared memory, for children that are forked."""

    def __init__(self, size: int):
        self.library, self.pointer, self.size = load(), c_void_p(), size
        record = ErrorRecord()
        if self.library.mpcomm_ranks_create(size, ctypes.byref(self.pointer),
                                            ctypes.byref(record)):
            raise failure(record)

    def mark_dead(self, rank: int, reason: str) -> None:
        self.library.mpcomm_ranks_mark_dead(self.pointer, rank, encoded(reason), None)


#: The world that this process was forked into by `launch`, and its rank there.
inherited: Optional["tuple[Ranks, int]"] = None
