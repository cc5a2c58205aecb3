# ===- errors.py - what the importer can refuse ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Errors that are the user's to read: each is one message, without a trace."""


class ImportFailure(Exception):
    """The model, the optimizer or the data cannot be imported."""


class Unsupported(Exception):
    """Raised by the translation of one operator: why this use of it is not
    supported. Collected, so that one error can name all of them."""


class UnsupportedOperators(ImportFailure):
    """All unsupported operators of a model at once.

    `uses` has one entry an operator and reason: (operator, reason, {module:
    count}).
    """

    def __init__(self, uses):
        self.uses = uses
        total = sum(sum(modules.values()) for _, _, modules in uses)
        lines = [f"{len(uses)} unsupported operator{'s' * (len(uses) > 1)}, "
                 f"{total} use{'s' * (total > 1)}:"]
        for operator, reason, modules in uses:
            count = sum(modules.values())
            where = ", ".join(m if n == 1 else f"{m} ({n})"
                              for m, n in modules.items())
            lines.append(f"  {operator} x{count} in {where}" +
                         (f": {reason}" if reason else ""))
        super().__init__("\n".join(lines))
