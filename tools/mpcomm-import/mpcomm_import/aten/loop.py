# ===- loop.py - loops ----------------------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The translation of `mpcomm::scan` (torch_front/scan.py): its cell is traced for itself and
becomes a function, the body of the loop."""

import inspect

import torch

from ..emit.views import View, materialise
from ..ir.graph import Argument, Builder, Function, Result, Spelled, Type
from ..torch_front import compat
from ..torch_front.dtypes import TORCH_DTYPES
from ..torch_front.scan import CELLS
from ..torch_front.tracing import Traced
from .convert import TRANSLATIONS, Converter


def body_of(cell, types):
    """The cell as a Function of arguments of these types."""
    function = Function(cell)
    parameters = inspect.signature(CELLS[cell]).parameters
    names = [*parameters, *[f"{list(parameters)[-1]}{i}" for i in range(len(types))]]
    function.arguments = [Argument(None, n, t) for n, t in zip(names, types)]
    module = compat.make_fx(CELLS[cell], tracing_mode="fake")(
        *[torch.zeros(t.shape, dtype=TORCH_DTYPES[t.dtype]) for t in types])
    traced = Traced(module.graph, [], module, (), [])
    converter = Converter(Builder(function), traced,
                          [View.of(a.value) for a in function.arguments], cell, {})
    function.results = [Result(None, "", materialise(converter.builder, v))
                        for v in converter.run()]
    return function


def scan(c, node, cell, carries, slices, captured, reverse):
    groups = [[materialise(c.builder, c.view(x)) for x in group]
              for group in (carries, slices, captured)]
    carries, slices, captured = groups
    trips = slices[0].shape[0]
    body = body_of(cell, [v.type for v in carries] +
                   [Type(v.shape[1:], v.dtype) for v in slices] + [v.type for v in captured])
    types = [r.value.type for r in body.results]
    types[len(carries):] = [Type((trips, *t.shape), t.dtype) for t in types[len(carries):]]
    sizes = ", ".join(str(len(g)) for g in groups)
    results = c.builder.create(
        "mpcomm.scan", carries + slices + captured, types, body=body, trips=trips,
        reverse=bool(reverse),
        operandSegmentSizes=Spelled(sizes, f"array<i32: {sizes}>"))
    return [View.of(r) for r in results]


TRANSLATIONS["mpcomm.scan"] = scan
