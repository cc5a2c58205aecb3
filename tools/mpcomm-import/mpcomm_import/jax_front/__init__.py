# ===- __init__.py - steps of JAX -----------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The front end for JAX: lowers a step, divides it by roles, gathers its updates."""
