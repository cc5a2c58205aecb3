# ===- __init__.py - what translations of several kinds emit --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Convolutions, pools, gathers and reordered dimensions, as ops of the dialect on Views."""
