# ===- errors.py - what mpcomm can refuse ---------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One type for all errors, so that one `except` catches them."""

from typing import Optional


class Error(Exception):
    """What mpcomm refuses or what failed.

    code       a short name: "invalid_argument", "timeout", "peer_failed", …
    rank       the rank that failed, or None
    location   the place in the model or in its graph, or ""
    """

    def __init__(self, message: str, code: str = "invalid_argument",
                 rank: Optional[int] = None, location: str = ""):
        super().__init__(message)
        self.code, self.rank, self.location = code, rank, location

    def __reduce__(self):
        return type(self), (str(self), self.code, self.rank, self.location)


class CompileError(Error):
    """The model, its optimizer or an option cannot be imported or compiled."""
