# ===- positions.py - elements of a dimension by their numbers -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What a dimension is rolled, flipped, reflected or repeated to, known at import.

Numbers that go up or down by equal steps are a run: a slice, reversed where it
goes down, or one element repeated. `take` concatenates runs, and `put`, its
transpose, adds them up where they came from.
"""

from ...emit.pointwise import reduce, resize
from ...emit.views import Axis, View
from ..movement import concatenated, padded, sliced
from ..pointwise import formula


def runs(numbers):
    """[(first, step, count)] that `numbers` consist of. Two numbers make a run of
    their own only if they are equal or neighbours."""
    result, at = [], 0
    while at < len(numbers):
        end, step = at + 1, 1
        if end < len(numbers):
            step = numbers[end] - numbers[at]
            while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
                end += 1
            if end - at == 2 and abs(step) > 1:
                end, step = at + 1, 1
        result.append((numbers[at], step, end - at))
        at = end
    return result


def reversed_value(c, value, dim):
    """A value reversed along a dimension; what is reversed twice is as it was."""
    straight = reversed_from(value, dim)
    return c.builder.create("mpcomm.reverse", [value], [value.type], dims=[dim])[0] \
        if straight is None else straight


def reversed_from(value, dim):
    """What `value` is the reverse of along `dim` alone, or None."""
    op = value.op
    return op.operands[0] if op is not None and op.name == "mpcomm.reverse" and \
        op.attributes["dims"] == [dim] else None


def reversed_along(c, x, dim):
    x = c.view(x)
    return resize(c.builder, x, dim, x.shape[dim], lambda v, at: reversed_value(c, v, at))


def take(c, x, dim, numbers):
    """The elements of dimension `dim` with these numbers, in this order."""
    x = c.view(x)
    parts = []
    for first, step, count in runs(list(numbers)):
        last = first + (count - 1) * step
        part = sliced(c, x, dim, min(first, last), max(first, last) + 1, abs(step) or 1)
        if step < 0:
            part = reversed_along(c, part, dim)
        elif step == 0:
            part = View(part.base, part.factors, [
                [Axis(count)] if i == dim else d for i, d in enumerate(part.dims)])
        parts.append(part)
    return parts[0] if len(parts) == 1 else concatenated(c, parts, dim)


def put(c, grad, dim, numbers, size):
    """The gradient of `take` from a dimension of `size` elements."""
    grad = c.view(grad)
    total, at = None, 0
    for first, step, count in runs(list(numbers)):
        part = sliced(c, grad, dim, at, at + count)
        if step < 0:
            part = reversed_along(c, part, dim)
        elif step == 0:
            part = reduce(c.builder, "sum", part, [dim], True)
        last = first + (count - 1) * step
        part = padded(c, part, dim, min(first, last), size - 1 - max(first, last),
                      max(abs(step) - 1, 0))
        total = part if total is None else formula(c, "add", total, part)
        at += count
    return total
