# ===- scan.py - an operator that is a loop --------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The operator `mpcomm::scan`, which a trace has as one node.

It runs a function of CELLS once for each row of its slices, as mpcomm.scan does. A cell
takes the carries, a row of each slice and what is captured; it returns the next carries
and what is stacked.
"""

import torch

CELLS = {}


def cell(function):
    """Registers what a loop does once."""
    CELLS[function.__name__] = function
    return function


def run_scan(cell, carries, slices, captured, reverse):
    carries, stacked = list(carries), []
    trips = range(len(slices[0]))
    for t in reversed(trips) if reverse else trips:
        results = CELLS[cell](*carries, *[s[t] for s in slices], *captured)
        carries = list(results[:len(carries)])
        stacked.append(results[len(carries):])
    if reverse:
        stacked.reverse()
    return carries + [torch.stack(s) for s in zip(*stacked)]


def shape_of_scan(cell, carries, slices, captured, reverse):
    results = CELLS[cell](*carries, *[s[0] for s in slices], *captured)
    return [torch.empty_like(c) for c in carries] + \
        [r.new_empty((len(slices[0]), *r.shape)) for r in results[len(carries):]]


LIBRARY = torch.library.Library("mpcomm", "DEF")
LIBRARY.define("scan(str cell, Tensor[] carries, Tensor[] slices, Tensor[] captured, "
               "bool reverse) -> Tensor[]")
LIBRARY.impl("scan", run_scan, "CompositeExplicitAutograd")
LIBRARY.impl("scan", shape_of_scan, "Meta")


def scan(cell, carries, slices, captured, reverse=False):
    return torch.ops.mpcomm.scan.default(cell, carries, slices, captured, reverse)
