# ===- checks.py - what holds of a program before it is written ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Refuses memory that would make the program differ from the model."""

import torch

from ..errors import ImportFailure


def check_memory(names, written):
    """Tensors of the model that overlap would change with one another, and what is
    written to an element that overlaps another one with that."""
    spans = []
    for name, tensor in names.parameters + names.buffers:
        if tensor.numel():
            start = tensor.data_ptr()
            spans.append((start, start + reach(tensor) * tensor.element_size(), name))
            if name in written and overlaps_itself(tensor):
                raise ImportFailure(f"elements of '{name}' share memory that the step "
                                    "writes; use clone() or contiguous()")
    last = None
    for span in sorted(spans):
        if last is not None and span[0] < last[1] and written & {span[2], last[2]}:
            raise ImportFailure(f"'{last[2]}' and '{span[2]}' share memory that the step "
                                "writes; give each its own, or register one tensor twice")
        last = span if last is None else max(last, span, key=lambda s: s[1])


def reach(tensor):
    """Elements of memory from the first of a tensor to its last."""
    return sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1


def overlaps_itself(tensor):
    """Whether two elements lie in one place."""
    below = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride < below:
            break
        below += (size - 1) * stride
    else:
        return False
    places = torch.arange(reach(tensor)).as_strided(tensor.shape, tensor.stride())
    return places.unique().numel() < tensor.numel()
