#!/usr/bin/env python3
# ===- generate.py - training graphs of any size ----------------------------===#
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Prints the training step of a GPT (forward, backward, AdamW) as a training
graph of about --ops operations: tiny tensors, as many blocks as it takes. The
updates are at the end, as a PyTorch step has them, or (--updates=inline)
right after their gradients. With --layers it has so many blocks, each head of the
attention apart from the others; --gpt3 gives it the sizes of the 175-billion one.

A step of one block passes the gates and gets its 16 gradients averaged:
RUN: %python %s --ops=1 | mpcomm-opt --mpcomm-verify-training-graph \
RUN:   --mpcomm-data-parallel=size=2 --mpcomm-verify-shardings \
RUN:   | FileCheck %s
CHECK-COUNT-17: mpcomm.all_reduce
CHECK-NOT: mpcomm.all_reduce

Sizes are what was asked for, to half a block of 81 operations:
RUN: %python %s --ops=1000 --updates=inline > %t
RUN: mpcomm-opt --mpcomm-verify-training-graph -o /dev/null %t
RUN: grep -c " = \\(mpcomm\\|arith\\)" %t | FileCheck %s --check-prefix=SIZE
SIZE: {{^(9[5-9].|10[0-4].)$}}

Heads apart from one another are a graph too:
RUN: %python %s --layers=2 --heads=3 | mpcomm-opt --mpcomm-verify-training-graph \
RUN:   | grep -c mpcomm.softmax_grad | FileCheck %s --check-prefix=HEADS
HEADS: {{^6$}}
"""

import argparse
import sys

def tensor(*shape, dtype="f32"):
    return "tensor<" + "".join("%dx" % d for d in shape) + dtype + ">"


def set_sizes(batch, tokens, heads, width, words):
    """Of batch, sequence, heads, width and vocabulary."""
    global B, T, H, D, V, N, HD, HEADS, SCORES
    B, T, H, D, V = batch, tokens, heads, width, words
    N, HD = B * T, D // H
    HEADS, SCORES = tensor(B, H, T, HD), tensor(B, H, T, T)


set_sizes(2, 4, 2, 8, 16)
BATCH = "batching_dims = [0, 1] x [0, 1], "


class Graph:
    """Ops as text; values are SSA names with a type."""

    def __init__(self):
        self.arguments, self.lines, self.types = [], [], {}
        self.updates, self.results = [], []
        self.ops = 0

    def argument(self, role, name, type_, extra=""):
        value = "%%a%d" % len(self.arguments)
        self.types[value] = type_
        self.arguments.append([value, type_, role, name, extra])
        return value

    def emit(self, text, operands, results):
        """One op: `text` has {0}, {1}, … for its operands."""
        names = ["%%v%d_%d" % (self.ops, i) for i in range(len(results))]
        self.types.update(zip(names, results))
        self.lines.append("%s = %s" % (", ".join(names), text.format(*operands)))
        self.ops += 1
        return names[0] if len(names) == 1 else names

    def functional(self, text, operands, *results):
        """An op printed with `(operand types) -> result types`."""
        types = ", ".join(self.types[o] for o in operands)
        text += " : (%s) -> (%s)" % (types, ", ".join(results))
        return self.emit(text, operands, results)

    def same(self, text, *operands):
        """An op printed with the one type of its operands and result."""
        type_ = self.types[operands[-1]]
        return self.emit("%s : %s" % (text, type_), operands, [type_])

    # Shorthands.
    def dot(self, a, b, dims, result, batch=""):
        return self.functional(
            "mpcomm.dot_general {0}, {1}, %scontracting_dims = [%d] x [%d]"
            % (batch, *dims),
            [a, b],
            result,
        )

    def add(self, a, b):
        return self.same("arith.addf {0}, {1}", a, b)

    def constant(self, value, type_):
        return self.emit("arith.constant dense<%s> : %s" % (value, type_), [], [type_])

    def reshape(self, x, *shape):
        return self.functional("mpcomm.reshape {0}", [x], tensor(*shape))

    def transpose(self, x, result):
        return self.functional("mpcomm.transpose {0}, dims = [0, 2, 1, 3]", [x], result)

    def rows(self, bias):
        """A bias repeated for each row."""
        width = int(self.types[bias].split("<")[1].split("x")[0])
        return self.functional(
            "mpcomm.broadcast_in_dim {0}, dims = [1]", [bias], tensor(N, width)
        )

    def column_sums(self, x):
        width = int(self.types[x].split("x")[1])
        return self.functional(
            "mpcomm.reduce sum {0}, dims = [0]", [x], tensor(width)
        )

    def norm(self, x, gamma, beta):
        return self.functional(
            "mpcomm.layer_norm {0}, {1}, {2}, eps = 1.0e-05",
            [x, gamma, beta],
            tensor(N, D),
            tensor(N),
            tensor(N),
        )

    def norm_grad(self, dy, x, mean, rstd, gamma):
        return self.functional(
            "mpcomm.layer_norm_grad {0}, {1}, {2}, {3}, {4}",
            [dy, x, mean, rstd, gamma],
            tensor(N, D),
            tensor(D),
            tensor(D),
        )

    def parameter(self, name, *shape):
        type_ = tensor(*shape)
        return [
            self.argument("parameter", name, type_),
            self.argument("optimizer_state", name + ".exp_avg", type_),
            self.argument("optimizer_state", name + ".exp_avg_sq", type_),
        ]


class Block:
    """One transformer block: forward keeps what backward uses."""

    def __init__(self, g, index, mask):
        self.g, self.mask = g, mask
        shapes = {
            "ln1.weight": [D], "ln1.bias": [D],
            "qkv.weight": [D, 3 * D], "qkv.bias": [3 * D],
            "proj.weight": [D, D], "proj.bias": [D],
            "ln2.weight": [D], "ln2.bias": [D],
            "fc.weight": [D, 4 * D], "fc.bias": [4 * D],
            "out.weight": [4 * D, D], "out.bias": [D],
        }
        self.p = {
            name: g.parameter("blocks.%d.%s" % (index, name), *shape)
            for name, shape in shapes.items()
        }

    def w(self, name):
        return self.p[name][0]

    def linear(self, x, name, width):
        g = self.g
        y = g.dot(x, self.w(name + ".weight"), (1, 0), tensor(N, width))
        return g.add(y, g.rows(self.w(name + ".bias")))

    def forward(self, x):
        g = self.g
        self.x = x
        self.h1, self.m1, self.r1 = g.norm(x, self.w("ln1.weight"), self.w("ln1.bias"))
        self.mixed = self.attend(self.linear(self.h1, "qkv", 3 * D))
        self.x1 = g.add(x, self.linear(self.mixed, "proj", D))
        self.h2, self.m2, self.r2 = g.norm(
            self.x1, self.w("ln2.weight"), self.w("ln2.bias")
        )
        self.f = self.linear(self.h2, "fc", 4 * D)
        self.act = g.same("mpcomm.gelu {0}", self.f)
        return g.add(self.x1, self.linear(self.act, "out", D))

    def attend(self, qkv):
        g = self.g
        self.heads = []
        for i in range(3):
            part = g.functional(
                "mpcomm.slice {0}, starts = [0, %d], limits = [%d, %d], strides = [1, 1]"
                % (i * D, N, (i + 1) * D),
                [qkv],
                tensor(N, D),
            )
            self.heads.append(g.transpose(g.reshape(part, B, T, H, HD), HEADS))
        q, k, v = self.heads
        scores = g.dot(q, k, (3, 3), SCORES, BATCH)
        self.scale = g.constant("0.5", SCORES)
        scores = g.same("arith.mulf {0}, {1}", scores, self.scale)
        masked = g.constant("-1.0e+30", SCORES)
        scores = g.emit(
            "arith.select {0}, {1}, {2} : %s, %s"
            % (g.types[self.mask], SCORES),
            [self.mask, masked, scores],
            [SCORES],
        )
        self.weights = g.same("mpcomm.softmax {0}, dim = 3", scores)
        mixed = g.dot(self.weights, v, (3, 2), HEADS, BATCH)
        return g.reshape(g.transpose(mixed, tensor(B, T, H, HD)), N, D)

    def linear_grad(self, x, name, dy):
        """Gradients of weight and bias are noted; returns that of x."""
        g = self.g
        weight = self.w(name + ".weight")
        update(g, self.p[name + ".bias"], g.column_sums(dy))
        update(g, self.p[name + ".weight"], g.dot(x, dy, (0, 0), g.types[weight]))
        return g.dot(dy, weight, (1, 1), g.types[x])

    def norm_grad(self, dy, x, mean, rstd, name):
        g = self.g
        dx, dgamma, dbeta = g.norm_grad(dy, x, mean, rstd, self.w(name + ".weight"))
        update(g, self.p[name + ".weight"], dgamma)
        update(g, self.p[name + ".bias"], dbeta)
        return dx

    def backward(self, dy):
        g = self.g
        d = self.linear_grad(self.act, "out", dy)
        d = g.same("mpcomm.gelu_grad {0}, {1}", d, self.f)
        d = self.linear_grad(self.h2, "fc", d)
        dx1 = g.add(dy, self.norm_grad(d, self.x1, self.m2, self.r2, "ln2"))
        d = self.attend_grad(self.linear_grad(self.mixed, "proj", dx1))
        d = self.linear_grad(self.h1, "qkv", d)
        return g.add(dx1, self.norm_grad(d, self.x, self.m1, self.r1, "ln1"))

    def attend_grad(self, d):
        g = self.g
        d = g.transpose(g.reshape(d, B, T, H, HD), HEADS)
        q, k, v = self.heads
        dweights = g.dot(d, v, (3, 3), SCORES, BATCH)
        dv = g.dot(self.weights, d, (2, 2), HEADS, BATCH)
        ds = g.same("mpcomm.softmax_grad {0}, {1}, dim = 3", dweights, self.weights)
        zero = g.constant("0.0", SCORES)
        ds = g.emit(
            "arith.select {0}, {1}, {2} : %s, %s"
            % (g.types[self.mask], SCORES),
            [self.mask, zero, ds],
            [SCORES],
        )
        ds = g.same("arith.mulf {0}, {1}", ds, self.scale)
        dq = g.dot(ds, k, (3, 2), HEADS, BATCH)
        dk = g.dot(ds, q, (2, 2), HEADS, BATCH)
        parts = [
            g.reshape(g.transpose(part, tensor(B, T, H, HD)), N, D)
            for part in (dq, dk, dv)
        ]
        return g.functional(
            "mpcomm.concatenate {0}, {1}, {2}, dim = 1", parts, tensor(N, 3 * D)
        )


class BlockOfHeads(Block):
    """The same, but that attention is written head by head."""

    def attend(self, qkv):
        g, self.kept, mixed = self.g, [], []
        head, scores = tensor(B, T, HD), tensor(B, T, T)
        for h in range(H):
            q, k, v = (
                self.columns(qkv, (part * H + h) * HD, head) for part in range(3)
            )
            s = g.dot(q, k, (2, 2), scores, "batching_dims = [0] x [0], ")
            s = g.same("arith.mulf {0}, {1}", s, g.constant("0.5", scores))
            s = self.masked(s, "-1.0e+30")
            weights = g.same("mpcomm.softmax {0}, dim = 2", s)
            y = g.dot(weights, v, (2, 1), head, "batching_dims = [0] x [0], ")
            mixed.append(g.reshape(y, N, HD))
            self.kept.append((q, k, v, weights))
        return self.side_by_side(mixed, D)

    def attend_grad(self, d):
        g, parts = self.g, [[], [], []]
        head, scores = tensor(B, T, HD), tensor(B, T, T)
        batch = "batching_dims = [0] x [0], "
        for h, (q, k, v, weights) in enumerate(self.kept):
            dy = self.columns(d, h * HD, head)
            ds = g.dot(dy, v, (2, 2), scores, batch)
            dv = g.dot(weights, dy, (1, 1), head, batch)
            ds = g.same("mpcomm.softmax_grad {0}, {1}, dim = 2", ds, weights)
            ds = self.masked(ds, "0.0")
            ds = g.same("arith.mulf {0}, {1}", ds, g.constant("0.5", scores))
            dq = g.dot(ds, k, (2, 1), head, batch)
            dk = g.dot(ds, q, (1, 1), head, batch)
            for part, gradient in zip(parts, (dq, dk, dv)):
                part.append(g.reshape(gradient, N, HD))
        return self.side_by_side(sum(parts, []), 3 * D)

    def columns(self, x, start, head):
        """HD columns of x as a head."""
        part = self.g.functional(
            "mpcomm.slice {0}, starts = [0, %d], limits = [%d, %d], strides = [1, 1]"
            % (start, N, start + HD),
            [x],
            tensor(N, HD),
        )
        return self.g.functional("mpcomm.reshape {0}", [part], head)

    def masked(self, scores, value):
        g, type_ = self.g, self.g.types[scores]
        fill = g.constant(value, type_)
        return g.emit(
            "arith.select {0}, {1}, {2} : %s, %s" % (g.types[self.mask], type_),
            [self.mask, fill, scores],
            [type_],
        )

    def side_by_side(self, parts, width):
        names = ", ".join("{%d}" % i for i in range(len(parts)))
        return self.g.functional(
            "mpcomm.concatenate %s, dim = 1" % names, parts, tensor(N, width)
        )


def update(g, parameter, gradient):
    if g.inline:
        emit_update(g, parameter, gradient)
    else:
        g.updates.append((parameter, gradient))


def emit_update(g, parameter, gradient):
    p, m, v = parameter
    type_ = g.types[p]
    results = g.functional(
        "mpcomm.adamw_update {0}, {1}, {2}, {3}, {4}, {5}, beta1 = 0.9, "
        "beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01",
        [p, gradient, m, v, g.step, g.lr],
        type_,
        type_,
        type_,
    )
    for argument, result in zip(parameter, results):
        g.results.append((argument, result))


def step(ops, inline, layers=0):
    """The whole graph; with `layers` of so many blocks, heads apart."""
    g = Graph()
    g.inline = inline
    mask = g.argument("buffer", "mask", tensor(T, T, dtype="i1"))
    table = g.parameter("wte.weight", V, D)
    head = g.parameter("head.weight", D, V)
    norm = [g.parameter("ln.weight", D), g.parameter("ln.bias", D)]
    count = g.argument("optimizer_state", "step", tensor())
    g.lr = g.argument(
        "hyperparameter", "lr", tensor(), ", mpcomm.default = 1.0e-03 : f32"
    )
    data = ", mpcomm.range = array<i64: 0, %d>" % V
    x = g.argument("batch", "x", tensor(B, T, dtype="i64"), data)
    y = g.argument("batch", "y", tensor(B, T, dtype="i64"), data)
    one = g.constant("1.0", tensor())
    g.step = g.add(count, one)
    g.results.append((count, g.step))

    block = BlockOfHeads if layers else Block
    shape = [B, T, T] if layers else [B, H, T, T]
    mask = g.functional(
        "mpcomm.broadcast_in_dim {0}, dims = %s" % list(range(len(shape)))[-2:],
        [mask],
        tensor(*shape, dtype="i1"),
    )
    h = g.functional("mpcomm.gather {0}, {1}", [table[0], x], tensor(B, T, D))
    h = g.reshape(h, N, D)
    blocks = []
    per_block, rest = 81, 19
    for i in range(layers or max(1, round((ops - rest) / per_block))):
        blocks.append(block(g, i, mask))
        h = blocks[-1].forward(h)
    hn, mean, rstd = g.norm(h, norm[0][0], norm[1][0])
    logits = g.dot(hn, head[0], (1, 0), tensor(N, V))
    targets = g.functional("mpcomm.reshape {0}", [y], tensor(N, dtype="i64"))
    loss, lse = g.functional(
        "mpcomm.cross_entropy {0}, {1} mean ignore_index = -100",
        [logits, targets],
        tensor(),
        tensor(N),
    )
    d = g.functional(
        "mpcomm.cross_entropy_grad {0}, {1}, {2}, {3} mean ignore_index = -100",
        [one, logits, targets, lse],
        tensor(N, V),
    )
    update(g, head, g.dot(hn, d, (0, 0), tensor(D, V)))
    d = g.dot(d, head[0], (1, 1), tensor(N, D))
    d, dgamma, dbeta = g.norm_grad(d, h, mean, rstd, norm[0][0])
    update(g, norm[0], dgamma)
    update(g, norm[1], dbeta)
    for each in reversed(blocks):
        d = each.backward(d)
    d = g.reshape(d, B, T, D)
    d = g.functional("mpcomm.gather_grad {0}, {1}", [d, x], tensor(V, D))
    update(g, table, d)
    for parameter, gradient in g.updates:
        emit_update(g, parameter, gradient)
    return g, loss


def write(g, loss, out):
    donated = {a: i + 1 for i, (a, _) in enumerate(g.results)}
    info = {a[0]: a for a in g.arguments}

    def attributes(role, name):
        return 'mpcomm.role = #mpcomm.role<%s>, mpcomm.name = "%s"' % (role, name)

    out.write("func.func @train_step(\n    ")
    lines = []
    for value, type_, role, name, extra in g.arguments:
        if value in donated:
            extra += ", mpcomm.donated = %d : i64" % donated[value]
        lines.append("%s: %s {%s%s}" % (value, type_, attributes(role, name), extra))
    out.write(",\n    ".join(lines))
    out.write(")\n    -> (tensor<f32> {%s}" % attributes("loss", "loss"))
    for argument, _ in g.results:
        _, type_, role, name, _ = info[argument]
        out.write(",\n        %s {%s}" % (type_, attributes(role, name)))
    out.write(") {\n")
    for line in g.lines:
        out.write("  %s\n" % line)
    values = [loss] + [result for _, result in g.results]
    out.write("  return %s : " % ", ".join(values))
    out.write(", ".join(g.types[v] for v in values) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--layers", type=int, default=0, help="blocks, heads apart")
    parser.add_argument("--heads", type=int, default=2, help="of 4 columns each")
    parser.add_argument("--gpt3", action="store_true", help="GPT-3's sizes")
    parser.add_argument("--updates", choices=["end", "inline"], default="end")
    parser.add_argument("-o", "--output", help="file (default: standard output)")
    args = parser.parse_args()
    set_sizes(2, 4, args.heads, 4 * args.heads, 16)
    if args.gpt3:
        set_sizes(1, 2048, 96, 12288, 50257)
    g, loss = step(args.ops, args.updates == "inline", args.layers)
    if args.output:
        with open(args.output, "w", encoding="ascii") as out:
            write(g, loss, out)
    else:
        write(g, loss, sys.stdout)


if __name__ == "__main__":
    main()
