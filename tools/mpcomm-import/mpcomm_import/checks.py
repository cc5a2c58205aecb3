# ===- checks.py - what holds of a program before it is written ------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Refuses data, names and memory that would make the program differ from the model."""

import torch

from .errors import ImportFailure


def check_ranges(workload, function):
    """Data outside of an index range would be refused when it is run. An index
    that does not count may lie outside; the range, which has no holes, then
    reaches to it."""
    for a in function.arguments:
        if "range" not in a.attributes:
            continue
        low, high = a.attributes["range"]
        reach = set()
        for kind, data in (("dataset", workload.dataset),
                           ("evaluation dataset", workload.eval_dataset or {})):
            if a.name not in data:
                continue
            values = data[a.name]
            outside = {int(v) for v in values[(values < low) | (values >= high)].unique()}
            wrong = sorted(outside - a.ignored)
            if wrong:
                expected = "".join([f"[{low}, {high})"] + [
                    f" or {i} (ignored)" for i in sorted(a.ignored)])
                raise ImportFailure(f"{kind} '{a.name}': expected values in "
                                    f"{expected}, found {wrong[0]}")
            reach |= outside
        if reach:
            a.attributes["range"] = (min(low, *reach), max(high, *(i + 1 for i in reach)))


def check_names(function):
    """Names are keys of files: each stands for one thing."""
    for what in (function.arguments, function.results):
        known = {}
        for x in what:
            other = known.setdefault(x.name, x)
            if other is not x:
                raise ImportFailure(f"expected names that differ, found {other.role} and "
                                    f"{x.role} '{x.name}'")


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
