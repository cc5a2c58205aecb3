# ===- __init__.py - ops on views, for every front end --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Ops on Views: products, elementwise ops, reductions, slices. No framework is needed."""
