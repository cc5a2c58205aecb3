# ===- program.py - what an import makes ------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The Program, and checks of it that all front ends share."""

import dataclasses
import functools

import numpy as np

from ..errors import ImportFailure
from . import safetensors
from .graph import Argument
from .pretty import pretty
from .printer import print_module


@dataclasses.dataclass
class Program:
    """What an import makes; `weights` has the tensors of the arguments that
    are state, `functions` the graphs in memory, `lines` the lines of the model
    for each location."""

    name: str
    functions: list
    weights: dict
    dataset: dict
    eval_dataset: dict
    warnings: list
    lines: dict

    @property
    def generic(self):
        return print_module(self.name, self.functions)

    @functools.cached_property
    def text(self):
        """The program as mpcomm-opt verifies and prints it, see pretty.py."""
        text, messages = pretty(self.generic, self.lines)
        self.warnings += messages
        return text

    def write(self, mlir=None, weights=None, data=None, eval_data=None):
        """Writes the files that have a name, all of them or none."""
        files = [(weights, self.weights), (data, self.dataset),
                 (eval_data, self.eval_dataset)]
        files = [(path, safetensors.writer(t)) for path, t in files if path]
        if mlir:
            text = self.text.encode()
            files.append((mlir, lambda file: file.write(text)))
        safetensors.write_files(files)


def keep_used_buffers(train, evaluate):
    """Drops buffers that neither function uses. Writing one is a use: its argument
    has the memory of what is written. What @evaluate takes, @train_step takes too."""
    for function in (evaluate, train):
        used = {v for op in function.ops for v in op.operands}
        used |= {r.value for r in function.results}
        used |= {r.update.value for r in function.results if r.update}
        kept = {a.name for a in evaluate.arguments} if function is train else ()
        function.arguments = [a for a in function.arguments if a.role != "buffer" or
                              a.value in used or a.name in kept]
    known = {a.name for a in train.arguments}
    at = next(i for i, a in enumerate(train.arguments)
              if a.role in ("hyperparameter", "rng", "batch"))
    train.arguments[at:at] = [Argument("buffer", a.name, a.value.type)
                              for a in evaluate.arguments if a.name not in known]


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
            values = np.asarray(data[a.name])
            for part, size in a.parts.items():
                taken = values[(slice(None), *[slice(*bounds) for bounds in part])]
                wrong = np.setdiff1d(taken[(taken < 0) | (taken >= size)], list(a.ignored))
                if part and wrong.size:
                    raise ImportFailure(f"{kind} '{a.name}': expected values in [0, {size}) "
                                        f"in elements {spelled(part)}, found {wrong[0]}")
            outside = set(np.unique(values[(values < low) | (values >= high)]).tolist())
            wrong = sorted(outside - a.ignored)
            if wrong:
                expected = "".join([f"[{low}, {high})"] + [
                    f" or {i} (ignored)" for i in sorted(a.ignored)])
                raise ImportFailure(f"{kind} '{a.name}': expected values in "
                                    f"{expected}, found {wrong[0]}")
            reach |= outside
        if reach:
            a.attributes["range"] = (min(low, *reach), max(high, *(i + 1 for i in reach)))


def spelled(part):
    """Slices as Python writes them."""
    return "[:, " + ", ".join(
        f"{start}:{limit}" + (f":{stride}" if stride != 1 else "")
        for start, limit, stride in part) + "]"


def check_names(function):
    """Names are keys of files: each stands for one thing."""
    for what in (function.arguments, function.results):
        known = {}
        for x in what:
            other = known.setdefault(x.name, x)
            if other is not x:
                raise ImportFailure(f"expected names that differ, found {other.role} and "
                                    f"{x.role} '{x.name}'")
