# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir 1
#
# Gathers, their gradients and scatters of random shapes, types and reductions give what
# their definition says, element by element, on small whole numbers: nothing rounds.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program with many ops; each writes a buffer. `gather-scatter.py ... <seed>` makes
another one."""

import itertools
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import read_typed, run, write_tensors

COMPILE, RUN, FOLDER, SEED = sys.argv[1:]
KINDS = [None, "sum", "prod", "min", "max"]
TYPES = ["f32", "f64", "bf16", "f16", "i64", "i32", "i8", "i1"]
# Where the indexed dimension is, how many are shared, and the others.
LAYOUTS = [([7], 0, 0, [5]), ([7, 40], 0, 0, [33]), ([3, 9], 1, 1, [4]), ([3, 9, 2], 1, 1, [2, 2]),
           ([2, 3, 6], 2, 0, [4]), ([2, 3, 6, 19], 2, 1, [5]), ([4, 1, 3, 2], 1, 0, [2]), ([5, 6], 1, 0, [3]),
           ([3, 64], 0, 0, [1]), ([2, 5, 17], 1, 0, [])]  # fmt: skip


class Case:
    def __init__(self, rng, name, op, layout, dtype, kind):
        self.name, self.op, self.dtype, self.kind = name, op, dtype, kind
        self.shape, self.dim, self.batch, own = layout
        self.index_shape = self.shape[: self.batch] + own
        self.slices = self.shape[: self.dim] + own + self.shape[self.dim + 1 :]
        size = self.shape[self.dim]
        self.index_type = rng.choice(["i64", "i32"])
        self.padding = rng.randrange(size) if op == "gather_grad" and rng.random() < 0.4 else None
        low = 0 if dtype == "i1" else -2
        number = lambda shape: [rng.randint(low, 1 if dtype == "i1" else 2) for _ in range(math.prod(shape))]
        self.x, self.u = number(self.shape), number(self.slices)
        if rng.random() < 0.2 and op == "scatter":  # the same everywhere: a constant
            self.u = [1] * len(self.u)
        if rng.random() < 0.2 and op == "scatter":
            self.x = [1] * len(self.x)
        self.indices = [rng.randint(-2, size + 1) for _ in range(math.prod(self.index_shape))]

    def expected(self):
        size, out = self.shape[self.dim], [0] * len(self.x) if self.op == "gather_grad" else list(self.x)
        inner = len(self.index_shape) - self.batch
        gathered = []
        for number, at in enumerate(itertools.product(*map(range, self.slices))):
            place = at[: self.batch] + at[self.dim : self.dim + inner]
            index = self.indices[flat(place, self.index_shape)]
            near = min(max(index, 0), size - 1)
            element = flat(at[: self.dim] + (near,) + at[self.dim + inner :], self.shape)
            gathered.append(self.x[element])
            if self.op == "gather_grad" and near != self.padding:
                out[element] += self.u[number]
            elif self.op == "scatter" and index == near:
                out[element] = self.combined(out[element], self.u[number])
        return gathered if self.op == "gather" else out

    def combined(self, a, b):
        if self.dtype == "i1":
            return {None: b, "sum": a | b, "prod": a & b, "min": min(a, b), "max": max(a, b)}[self.kind]
        made = {None: b, "sum": a + b, "prod": a * b, "min": min(a, b), "max": max(a, b)}[self.kind]
        return (made + 128) % 256 - 128 if self.dtype == "i8" else made

    def text(self):
        """Arguments, body, and what the body makes."""
        tensor = lambda shape, of: "tensor<%s>" % "x".join([str(n) for n in shape] + [of])
        n, lines = self.name, []

        def cast(value, shape, to, back=False):
            low, high = ("i64", to)
            name = {"f": "sitofp", "i": "trunci", "b": "sitofp"}[to[0]]
            if back:
                low, high = to, "i64"
                name = "fptosi" if to[0] in "fb" else "extui" if to == "i1" else "extsi"
            if to == "i64":
                return value
            lines.append("%%%s_%d = arith.%s %s : %s to %s" % (
                n, len(lines), name, value, tensor(shape, low), tensor(shape, high)))  # fmt: skip
            return "%%%s_%d" % (n, len(lines) - 1)

        def operand(values, shape, argument):
            if len(set(values)) == 1:
                value = {"f": "%d.0", "b": "%d.0", "i": "%d"}[self.dtype[0]] % values[0]
                value = ["false", "true"][values[0]] if self.dtype == "i1" else value
                lines.append("%%%s_%d = arith.constant dense<%s> : %s" % (n, len(lines), value, tensor(shape, self.dtype)))
                return "%%%s_%d" % (n, len(lines) - 1)
            return cast("%%%s_%s" % (n, argument), shape, self.dtype)

        options = "".join(" %s = %d" % (k, v) for k, v in (("dim", self.dim), ("batch_dims", self.batch)) if v)
        ids = cast("%%%s_i" % n, self.index_shape, self.index_type)
        index_type, x_type, u_type = (tensor(self.index_shape, self.index_type), tensor(self.shape, self.dtype),
                                      tensor(self.slices, self.dtype))  # fmt: skip
        if self.op == "gather":
            values, types, made = [operand(self.x, self.shape, "x"), ids], [x_type, index_type], self.slices
        elif self.op == "gather_grad":
            values, types, made = [operand(self.u, self.slices, "u"), ids], [u_type, index_type], self.shape
            options += " padding_idx = %d" % self.padding if self.padding is not None else ""
        else:
            values = [operand(self.x, self.shape, "x"), ids, operand(self.u, self.slices, "u")]
            types, made = [x_type, index_type, u_type], self.shape
            options = (" reduction %s" % self.kind if self.kind else "") + options
        lines.append("%%%s_%d = mpcomm.%s %s%s : (%s) -> %s" % (
            n, len(lines), self.op, ", ".join(values), options, ", ".join(types), tensor(made, self.dtype)))  # fmt: skip
        result = cast("%%%s_%d" % (n, len(lines) - 1), made, self.dtype, back=True)
        buffers = [("i", self.index_shape), ("x", self.shape), ("u", self.slices)]
        return [("%s_%s" % (n, k), tensor(s, "i64")) for k, s in buffers], lines, (result, tensor(made, "i64"), made)


def flat(place, shape):
    at = 0
    for p, n in zip(place, shape):
        at = at * n + p
    return at


def make_cases():
    rng = random.Random(int(SEED))
    cases = []
    for layout in LAYOUTS:
        for op, kinds in (("gather", [None]), ("gather_grad", [None]), ("scatter", KINDS)):
            for kind in kinds:
                types = [t for t in TYPES if op != "gather_grad" or t[0] in "fb"]
                for dtype in rng.sample(types, 2):
                    cases.append(Case(rng, "c%d" % len(cases), op, layout, dtype, kind))
    return cases


def main():
    os.makedirs(FOLDER, exist_ok=True)
    path = lambda name: os.path.join(FOLDER, name)
    cases = make_cases()
    arguments, results, body, weights = [], [], [], {}
    for number, case in enumerate(cases):
        buffers, lines, (value, kind, shape) = case.text()
        for (name, of), values in zip(buffers, (case.indices, case.x, case.u)):
            arguments.append('%%%s: %s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "%s"}' % (name, of, name))
            weights[name] = ("I64", [int(n) for n in of[7:].split("x")[:-1]], values)
        name = case.name + "_r"
        arguments.append('%%%s: %s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "%s", mpcomm.donated = %d : i64}'
                         % (name, kind, name, number + 1))  # fmt: skip
        weights[name] = ("I64", shape, [0] * math.prod(shape))
        results.append((value, kind, name))
        body += lines
    arguments.append('%data: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "data"}')
    returned = ["tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = \"loss\"}"]
    returned += ['%s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "%s"}' % (k, n) for _, k, n in results]
    with open(path("step.mlir"), "w") as file:
        file.write("func.func @train_step(\n  %s)\n  -> (%s) {\n" % (",\n  ".join(arguments), ",\n  ".join(returned)))
        file.write("  %loss = mpcomm.reduce sum %data, dims = [0] : (tensor<1xf32>) -> tensor<f32>\n")
        file.write("".join("  %s\n" % line for line in body))
        file.write("  return %s : %s\n}\n" % (", ".join(["%loss"] + [v for v, _, _ in results]),
                                              ", ".join(["tensor<f32>"] + [k for _, k, _ in results])))  # fmt: skip
    run(COMPILE, path("step.mlir"), "-o", path("step.so"))
    run(RUN, path("step.so"), "--weights", write_tensors(path("w"), weights),
        "--data", write_tensors(path("d"), {"data": ([1], [1.0])}), "--no-shuffle", "--quiet",
        "--steps", 1, "--checkpoint", path("c"))  # fmt: skip
    made = read_typed(path("c"))[0]
    for case in cases:
        want, found = case.expected(), made[case.name + "_r"][2]
        if found != want:
            sys.exit("seed %s, %s %s %s of %s, dim %d, batch_dims %d, indices %s:\n%s, expected\n%s" % (
                SEED, case.op, case.kind, case.dtype, case.shape, case.dim, case.batch, case.indices, found, want))  # fmt: skip
    print("%d cases equal" % len(cases))


main()
