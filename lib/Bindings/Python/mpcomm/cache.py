# ===- cache.py - programs that were compiled before ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A folder of compiled programs, under a digest of all that they are made of.

Ranks of one machine ask for the same program at the same time. One of them gets the lock
of its entry and compiles; the others wait for the lock, and then find the program, or what
was wrong. An entry is two files:

    DIGEST.so     the program, if there is one: renamed when it is complete
    DIGEST.lock   whose lock (flock) whoever compiles or removes the entry holds, with a
                  line of JSON: its process, and afterwards the error if there was one

The kernel frees the lock of a process that is killed; the next in the queue compiles then.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import warnings
from typing import Any, Callable, Iterator, Optional

from .errors import CompileError, Error

#: Bytes of programs, and entries, that are kept; those that were used last.
MOST_BYTES, MOST_ENTRIES = 1 << 30, 512
#: Seconds between two looks at a lock.
PAUSE = 0.02
#: Of a file that is being written.
PART = ".part"


def folder() -> Optional[str]:
    """Where programs are kept: MPCOMM_CACHE_DIR, else a folder of the user's caches; None
    if that is empty or cannot be written.

    Programs are code. Where others could write them, nothing is taken."""
    path = os.environ.get("MPCOMM_CACHE_DIR")
    if path == "":
        return None
    if path is None:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = os.path.join(caches, "mpcomm")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.stat(path)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        if "MPCOMM_CACHE_DIR" in os.environ:
            raise Error(f"MPCOMM_CACHE_DIR: {error}", code="io_error") from None
        warnings.warn(f"every rank compiles for itself: {error}", stacklevel=4)
        return None
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Error(f"{path}: expected a folder of this user's that nobody else can write, "
                    "because programs in it are run; MPCOMM_CACHE_DIR names another one")
    return path


def timeout() -> float:
    """Seconds that a rank waits for another one that compiles."""
    text = os.environ.get("MPCOMM_COMPILE_TIMEOUT", "3600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise Error(f"MPCOMM_COMPILE_TIMEOUT: expected a positive number of seconds, found "
                    f"'{text}'")
    return seconds


def digest(*parts: Any) -> str:
    """A name for what is made of `parts`: bytes, texts, or what repr() tells apart."""
    result = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        result.update(b"%d:" % len(data))
        result.update(data)
    return result.hexdigest()


def shared(key: str, make: Callable[[str], None], output: str) -> None:
    """Puts the program `key` at `output`. If it has to be compiled, `make(path)` does, in
    one process at a time; what it raises, those that waited for it raise, too."""
    where = folder()
    if where is None:
        make(output)
        return
    entry = Entry(where, key)
    with entry.locked() as waited:
        if waited and entry.error() is not None:
            raise CompileError(entry.error())
        if not os.path.exists(entry.program):
            entry.note(pid=os.getpid())
            try:
                make(output)
            except CompileError as error:
                entry.note(pid=os.getpid(), error=str(error))
                raise
            entry.put(output)
        else:
            try:
                replace(entry.program, output)
            except OSError as error:
                raise CompileError(f"{output}: cannot write: {error.strerror}") from None
        entry.note(pid=os.getpid())
    trim(where)


class Entry:
    """A program of the cache, and its lock."""

    def __init__(self, where: str, key: str):
        self.lock = os.path.join(where, key + ".lock")
        self.program = os.path.join(where, key + ".so")
        self.file: Any = None

    @contextlib.contextmanager
    def locked(self, wait: bool = True) -> Iterator[bool]:
        """Holds the lock; tells whether another process had it. Without `wait`, raises
        BlockingIOError then."""
        waited, deadline = False, time.monotonic() + timeout()
        while True:
            with open(self.lock, "a+", encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    if not isinstance(error, BlockingIOError):
                        raise Error(f"{self.lock}: cannot lock it: {error}; MPCOMM_CACHE_DIR "
                                    "names another folder", code="io_error") from None
                    if not wait:
                        raise
                    if time.monotonic() > deadline:
                        raise CompileError(
                            f"waited {timeout():g} s for process {noted(file).get('pid')}, which "
                            "compiles the same program; MPCOMM_COMPILE_TIMEOUT is the time to "
                            "wait, MPCOMM_CACHE_DIR= lets every rank compile for itself") from None
                    waited = True
                else:
                    if is_at(file, self.lock):  # else its entry was removed
                        self.file = file
                        yield waited
                        return
            time.sleep(PAUSE)

    def note(self, **values: Any) -> None:
        self.file.truncate(0)
        self.file.write(json.dumps(values))
        self.file.flush()

    def error(self) -> Optional[str]:
        """What went wrong when a process compiled it last."""
        return noted(self.file).get("error")

    def put(self, program: str) -> None:
        """Keeps a copy; a disk that is full is no error of the program's."""
        try:
            replace(program, self.program)
        except OSError as error:
            warnings.warn(f"not kept for other ranks: {error}", stacklevel=5)

    def remove(self) -> None:
        """Removes both files, unless a process uses them."""
        with contextlib.suppress(OSError), self.locked(wait=False):
            for path in self.program, self.program + PART, self.lock:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def noted(file: Any) -> dict:
    """What is written in a lock."""
    file.seek(0)
    try:
        return dict(json.loads(file.read()))
    except ValueError:  # whoever had it was killed
        return {}


def is_at(file: Any, path: str) -> bool:
    """Whether an open file is the one that has this path now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def replace(source: str, target: str) -> None:
    """Copies a file; `target` is whole, or what it was before."""
    part = target + PART
    try:
        with open(source, "rb") as read, open(part, "wb") as write:
            shutil.copyfileobj(read, write)
            write.flush()
            os.fsync(write.fileno())
        os.chmod(part, 0o755)
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def trim(where: str) -> None:
    """Removes the entries that have not been used for longest."""
    found = []
    for name in os.listdir(where):
        key, dot, kind = name.rpartition(".")
        if kind != "lock":
            continue
        entry = Entry(where, key)
        with contextlib.suppress(FileNotFoundError):
            used = os.stat(entry.lock).st_mtime
            size = os.stat(entry.program).st_size if os.path.exists(entry.program) else 0
            found.append((used, size, entry))
    total = 0
    for count, (_, size, entry) in enumerate(sorted(found, key=lambda f: f[:2], reverse=True)):
        total += size
        if total > MOST_BYTES or count >= MOST_ENTRIES:
            entry.remove()
