# REQUIRES: compiler, torch
# RUN: %python %s %mpcomm-opt %mpcomm-run %mpcomm-import %mpcomm-compile %cc \
# RUN:   %mpcomm_obj_root/test/lib/FakeCuda %mpcomm_src_root/docs/examples %t.dir
#
# A GPT trained with the kernels of a GPU, which the fake driver runs thread by
# thread and stream by stream in a random order, has the losses and parameters
# that it has on the processor.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares runs of two targets."""
