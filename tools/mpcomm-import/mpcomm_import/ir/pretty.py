# ===- pretty.py - mpcomm-opt on what is imported --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Verifies and pretty-prints a program: mpcomm-opt knows the dialects, Python does
not."""

import os
import re
import shutil
import subprocess
import sys

from ..errors import ImportFailure

# Locations beside the ops; values called after them.
OPTIONS = ["--mlir-print-debuginfo", "--mlir-print-local-scope",
           "--mlir-use-nameloc-as-prefix", "--mlir-print-op-on-diagnostic=false"]
DIAGNOSTIC = re.compile(r'<unknown>:0: (?:error|warning): loc\("(.*?)"\): (.*)')


def find():
    """mpcomm-opt beside the command, of the installation that this package is in, or
    in PATH; else None."""
    beside = os.path.dirname(os.path.abspath(sys.argv[0]))
    installed = os.path.join(os.path.dirname(__file__), *[os.pardir] * 4, "bin")
    return shutil.which("mpcomm-opt", path=os.pathsep.join(
        [beside, installed, os.environ.get("PATH", os.defpath)]))


def mapped(line, lines):
    """A line of diagnostics, with the lines of the model for its location. An operator
    of the backward pass has those of the operator it is the gradient of."""
    match = DIAGNOSTIC.fullmatch(line)
    if match is None:
        return line
    location, message = match.groups()
    known = lines.get(location) or lines.get(re.sub(r"\.grad$", "", location)) or []
    return ": ".join(filter(None, [" or ".join(known), location, message]))


def pretty(text, lines):
    """(the program in the dialects' own assembly formats, warnings). ImportFailure
    where it is not valid. `lines`: {location: lines of the model}."""
    tool = find()
    if tool is None:
        return text, ["found no mpcomm-opt beside mpcomm-import or in PATH: the program is "
                      "in MLIR's generic form, and not verified"]
    result = subprocess.run([tool, *OPTIONS], input=text.encode(), capture_output=True)
    messages = list(dict.fromkeys(mapped(m, lines) for m in
                                  result.stderr.decode().splitlines()))
    if result.returncode:
        raise ImportFailure("\n".join(messages) or
                            f"{tool} failed with exit status {result.returncode}")
    return result.stdout.decode(), messages
