# ===- tools.py - where the parts of an installation are ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Finds the compiler, the importer and the library of sessions.

This package is in a folder of an installation (PREFIX/lib/python3/dist-packages), of a build
tree (build/python), or of an environment of Python that pip filled. In each of these,
some folder above the package has `bin/` and `lib/`; a wheel has both in the package.
"""

import contextlib
import functools
import importlib
import os
import platform
import shutil
import sys
import sysconfig
from typing import Iterator, Optional, Tuple

from .errors import CompileError

HERE = os.path.dirname(os.path.abspath(__file__))


def roots() -> Iterator[str]:
    """This folder and those above it, nearest first."""
    folder = HERE
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


@functools.lru_cache(maxsize=None)
def find_tool(name: str) -> Optional[str]:
    """A command of this installation, else of PATH, else None."""
    folders = [os.path.join(root, "bin") for root in roots()]
    return shutil.which(name, path=os.pathsep.join(folders)) or shutil.which(name)


def tool(name: str) -> str:
    path = find_tool(name)
    if path is None:
        raise CompileError(f"found no {name} beside {HERE} or in PATH")
    return path


def identity(path: str) -> Tuple[str, int, int]:
    """What changes when a tool is built or installed anew."""
    path = os.path.realpath(path)
    found = os.stat(path)
    return path, found.st_size, found.st_mtime_ns


@functools.lru_cache(maxsize=None)
def processor() -> Tuple[str, ...]:
    """What code for this processor depends on: its name and its features."""
    lines = [platform.machine()]
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii",
                                            errors="replace") as file:
        for line in file:
            if not line.strip():
                break  # the first of several
            key = line.partition(":")[0].strip()
            if key in ("vendor_id", "cpu family", "model", "model name", "flags", "Features"):
                lines.append(line.strip())
    return tuple(lines)


def find_library(name: str) -> str:
    """The path of a shared object of this installation, or of that of the tools in PATH;
    else its name alone, for the dynamic linker to find."""
    folders = ["lib", os.path.join("lib", sysconfig.get_config_var("MULTIARCH") or "")]
    commands = [shutil.which(name) for name in ("mpcomm-run", "mpcomm-compile")]
    beside = [os.path.dirname(os.path.dirname(os.path.realpath(c))) for c in commands if c]
    for root in (*roots(), *beside):
        for folder in folders:
            path = os.path.join(root, folder, name)
            if os.path.exists(path):
                return path
    return name


@functools.lru_cache(maxsize=None)
def importer():
    """The package mpcomm_import: installed as one, or beside the command mpcomm-import."""
    try:
        return importlib.import_module("mpcomm_import")
    except ModuleNotFoundError as error:
        if error.name != "mpcomm_import":
            raise
    command = os.path.dirname(os.path.realpath(tool("mpcomm-import")))
    for folder in (command, os.path.join(command, os.pardir, "share", "mpcomm-import")):
        if os.path.isdir(os.path.join(folder, "mpcomm_import")):
            sys.path.append(os.path.abspath(folder))
            return importlib.import_module("mpcomm_import")
    raise CompileError(f"found no package mpcomm_import beside {command}/mpcomm-import")
