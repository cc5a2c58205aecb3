# ===- graphs.py - random graphs on tensors ---------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Functions that mix row spaces, reductions, products and views at random, with
what PyTorch makes of them. Values stay near 1, so that errors stay small."""

import random

import torch

from harness import Case, type_of

ROWS, COLUMNS = (3, 4), 5


class Graph:
    """Builds the text of a function and its values side by side."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.inputs, self.lines, self.values = [], [], []
        for shape in [ROWS + (COLUMNS,)] * 2 + [(COLUMNS,), ROWS, (), (COLUMNS, COLUMNS)]:
            tensor = torch.randn(shape)
            name = "%%%d" % len(self.inputs)
            self.inputs.append(tensor)
            self.values.append((name, tensor.double()))

    def emit(self, op, result):
        name = "%%v%d" % len(self.lines)
        self.lines.append("%s = %s" % (name, op))
        self.values.append((name, result))
        return name, result

    def pick(self, shape=None):
        fitting = [v for v in self.values if shape is None or tuple(v[1].shape) == shape]
        # Mostly what is new, so that graphs are deep.
        return self.rng.choice(fitting[-4:] if self.rng.random() < 0.6 else fitting)

    def type(self, value):
        return type_of(value.float())

    def broadcast(self, value, dims):
        name, tensor = value
        shape = [1] * 3
        for d, n in zip(dims, tensor.shape):
            shape[d] = n
        result = tensor.reshape(shape).expand(ROWS + (COLUMNS,))
        return self.emit("mpcomm.broadcast_in_dim %s, dims = %s : (%s) -> %s" % (
            name, list(dims), self.type(tensor), self.type(result)), result)

    def reduce(self, value, dims):
        name, tensor = value
        result = tensor.sum(dims)
        name, result = self.emit("mpcomm.reduce sum %s, dims = %s : (%s) -> %s" % (
            name, dims, self.type(tensor), self.type(result)), result)
        return self.tame(name, result)

    def tame(self, name, tensor):
        return self.emit("math.tanh %s : %s" % (name, self.type(tensor)), tensor.tanh())

    def step(self):
        full = ROWS + (COLUMNS,)
        kind = self.rng.choice(["add", "mul", "tanh", "bias", "row", "scalar", "sum_columns",
                                "sum_rows", "sum_some", "sum_all", "softmax", "product", "flat",
                                "turn", "rowwise", "slice"])
        if kind in ("add", "mul"):
            (a, x), (b, y) = self.pick(full), self.pick(full)
            op, z = ("addf", x + y) if kind == "add" else ("mulf", x * y)
            self.tame(*self.emit("arith.%s %s, %s : %s" % (op, a, b, self.type(z)), z))
        elif kind == "tanh":
            self.tame(*self.pick(full))
        elif kind in ("bias", "row", "scalar"):
            shape, dims = {"bias": ((COLUMNS,), [2]), "row": (ROWS, [0, 1]),
                           "scalar": ((), [])}[kind]
            b, y = self.broadcast(self.pick(shape), dims)
            a, x = self.pick(full)
            self.emit("arith.addf %s, %s : %s" % (a, b, self.type(x)), x + y)
        elif kind == "sum_columns":
            self.reduce(self.pick(full), [2])
        elif kind == "sum_rows":
            self.reduce(self.pick(full), [0, 1])
        elif kind == "sum_some":
            self.reduce(self.pick(full), self.rng.choice([[0], [1], [0, 2]]))
        elif kind == "sum_all":
            self.reduce(self.pick(full), [0, 1, 2])
        elif kind == "softmax":
            a, x = self.pick(full)
            self.emit("mpcomm.softmax %s, dim = 2 : %s" % (a, self.type(x)), x.softmax(2))
        elif kind == "product":
            (a, x), (b, y) = self.pick(full), self.pick((COLUMNS, COLUMNS))
            z = x @ y
            self.tame(*self.emit(
                "mpcomm.dot_general %s, %s, contracting_dims = [2] x [0] : (%s, %s) -> %s" % (
                    a, b, self.type(x), self.type(y), self.type(z)), z))
        elif kind == "flat":
            # To another shape, on it, and back.
            a, x = self.pick(full)
            b, y = self.emit("mpcomm.reshape %s : (%s) -> %s" % (
                a, self.type(x), self.type(x.reshape(-1, COLUMNS))), x.reshape(-1, COLUMNS))
            b, y = self.tame(b, y)
            self.emit("mpcomm.reshape %s : (%s) -> %s" % (b, self.type(y), self.type(x)),
                      y.reshape(full))
        elif kind == "turn":
            a, x = self.pick(full)
            y = x.permute(1, 2, 0).contiguous()
            b, y = self.emit("mpcomm.transpose %s, dims = [1, 2, 0] : (%s) -> %s" % (
                a, self.type(x), self.type(y)), y)
            b, y = self.tame(b, y)
            z = y.permute(2, 0, 1).contiguous()
            self.emit("mpcomm.transpose %s, dims = [2, 0, 1] : (%s) -> %s" % (
                b, self.type(y), self.type(z)), z)
        elif kind == "rowwise":
            self.tame(*self.pick(self.rng.choice([ROWS, (), (COLUMNS,)])))
        elif kind == "slice":
            a, x = self.pick(full)
            y = x[1:2]
            b, y = self.emit("mpcomm.slice %s, starts = [1, 0, 0], limits = [2, 4, 5], "
                             "strides = [1, 1, 1] : (%s) -> %s" % (
                                 a, self.type(x), self.type(y)), y)
            b, y = self.emit("mpcomm.reshape %s : (%s) -> %s" % (
                b, self.type(y), self.type(y[0])), y[0])
            self.broadcast((b, y), [1, 2])


def graph(seed, steps=24, results=6):
    built = Graph(seed)
    for _ in range(steps):
        built.step()
    made = built.values[len(built.inputs):]
    chosen = built.rng.sample(made, min(results, len(made) - 1)) + [made[-1]]
    body = "\n".join(built.lines) + "\nreturn " + ", ".join(n for n, _ in chosen)
    return Case("graph_%d" % seed, built.inputs, body,
                [v.contiguous() for _, v in chosen], [torch.float32] * len(chosen),
                length=steps * 60)


def all_cases(seeds):
    return [graph(seed) for seed in seeds]
