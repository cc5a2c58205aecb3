# ===- __init__.py - models of PyTorch ------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The front end for PyTorch: traces a model, its loss and its optimizer."""
