# ===- __init__.py - translations of PyTorch's operators ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Translations and definitions of PyTorch's operators, and the converter that walks a
traced graph.

The importer imports every module of this folder, which registers what is in it."""
