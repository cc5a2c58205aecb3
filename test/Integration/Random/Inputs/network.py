# ===- network.py - networks with their backward pass ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Random networks: layers on a tape, whose gradients are emitted in reverse, as a front end
does. They have the form that pipelines cut: a forward pass, and a backward pass that reads it."""

import math

from graph import Text
from layers import Segments

SUM = Text("#mpcomm<reduction sum>")


class Network:
    def __init__(self, generator):
        self.g, self.b, self.random = generator, generator.b, generator.random
        self.tape, self.gradients, self.parameters = [], {}, []
        self.buffers = []
        self.dtype = "f32"
        # Of sums, products and choices alone, with small numbers: all bits have to be right.
        self.exact = self.random.random() < 0.5
        if self.exact:
            self.g.b.rough = False

    # Pieces.

    def op(self, name, operands, attributes, *types):
        return self.b.add(name, operands, attributes, *types)

    def parameter(self, shape):
        if self.parameters and self.random.random() < 0.1:  # tied
            for p in self.parameters:
                if p.shape == tuple(shape):
                    return p
        p = self.g.state("parameter", self.dtype, shape)
        self.parameters.append(p)
        return p

    def binary(self, name, x, y):
        return self.op("arith." + name, [x, y], {}, (x.dtype, x.shape))

    def unary(self, name, x):
        return self.op(name, [x], {}, (x.dtype, x.shape))

    def sum(self, x, dims):
        shape = [n for i, n in enumerate(x.shape) if i not in dims]
        return self.op("mpcomm.reduce", [x], {"reduction": SUM, "dims": list(dims)}, (x.dtype, shape))

    def broadcast(self, x, shape, dims):
        return self.op("mpcomm.broadcast_in_dim", [x], {"dims": list(dims)}, (x.dtype, shape))

    def reshape(self, x, shape):
        y = self.op("mpcomm.reshape", [x], {}, (x.dtype, shape))
        self.tape.append((y, lambda dy: [(x, self.op("mpcomm.reshape", [dy], {}, (x.dtype, x.shape)))]))
        return y

    def dot(self, x, y, left, right):
        free = [n for i, n in enumerate(x.shape) if i != left] + [n for i, n in enumerate(y.shape) if i != right]
        return self.op("mpcomm.dot_general", [x, y], {"lhs_contracting_dims": [left], "rhs_contracting_dims": [right]},
                       (x.dtype, free))  # fmt: skip

    # Layers on [samples, features].

    def linear(self, x):
        n, d = x.shape
        out = self.random.choice((1, 2, 3, 4, 8, 16))
        w = self.parameter((d, out))
        out = w.shape[1]
        y = self.dot(x, w, 1, 0)
        self.tape.append((y, lambda dy: [(x, self.dot(dy, w, 1, 1)), (w, self.dot(x, dy, 0, 0))]))
        return self.bias(y) if self.random.random() < 0.6 else y

    def bias(self, x):
        b = self.parameter((x.shape[-1],))
        last = len(x.shape) - 1
        y = self.binary("addf", x, self.broadcast(b, x.shape, [last]))
        self.tape.append((y, lambda dy: [(x, dy), (b, self.sum(dy, range(last)))]))
        return y

    def activation(self, x):
        kind = self.random.choice(("relu", "relu", "tanh", "tanh", "gelu", "gelu", "square", "softmax", "softmax"))
        if self.exact:
            kind = self.random.choice(("relu", "relu", "square"))
        type_ = (x.dtype, x.shape)
        if kind == "relu":
            zero = self.b.splat(x.dtype, x.shape, 0.0)
            y = self.binary("maximumf", x, zero)
            def back(dy):
                positive = self.op("arith.cmpf", [x, zero], {"predicate": 2}, ("i1", x.shape))
                return [(x, self.op("arith.select", [positive, dy, zero], {}, type_))]
        elif kind == "tanh":
            y = self.unary("math.tanh", x)
            def back(dy):
                one = self.b.splat(x.dtype, x.shape, 1.0)
                return [(x, self.binary("mulf", dy, self.binary("subf", one, self.binary("mulf", y, y))))]
        elif kind == "gelu":
            a = {"approximate": Text("#mpcomm<gelu_approximation tanh>")} if self.random.random() < 0.5 else {}
            y = self.op("mpcomm.gelu", [x], a, type_)
            back = lambda dy: [(x, self.op("mpcomm.gelu_grad", [dy, x], a, type_))]
        elif kind == "square":
            y = self.binary("mulf", x, x)
            back = lambda dy: [(x, self.binary("mulf", dy, self.binary("addf", x, x)))]
        else:
            a = {"dim": len(x.shape) - 1}
            y = self.op("mpcomm.softmax", [x], a, type_)
            back = lambda dy: [(x, self.op("mpcomm.softmax_grad", [dy, y], a, type_))]
        self.tape.append((y, back))
        return y

    def norm(self, x):
        features = (x.shape[-1],)
        gamma, beta = self.parameter(features), self.parameter(features)
        type_, lead = (x.dtype, x.shape), (x.dtype, x.shape[:-1])
        y, mean, rstd = self.op("mpcomm.layer_norm", [x, gamma, beta], {"eps": 0.5}, type_, lead, lead)
        def back(dy):
            made = self.op("mpcomm.layer_norm_grad", [dy, x, mean, rstd, gamma], {}, type_, (x.dtype, features), (x.dtype, features))
            return list(zip((x, gamma, beta), made))
        self.tape.append((y, back))
        return y

    def batch_norm(self, x):
        """With running statistics."""
        d = 1
        features = (x.shape[d],)
        gamma, beta = self.parameter(features), self.parameter(features)
        a, f, type_ = {"eps": 0.5, "feature_dim": d}, (x.dtype, features), (x.dtype, x.shape)
        y, mean, variance = self.op("mpcomm.batch_norm_training", [x, gamma, beta], a, type_, f, f)
        for statistic in (mean, variance):
            running = self.g.state("buffer", x.dtype, features)
            half = self.b.splat(x.dtype, features, 0.5)
            new = self.binary("addf", self.binary("mulf", running, half), self.binary("mulf", statistic, half))
            self.buffers.append((running, new))
        def back(dy):
            return list(zip((x, gamma, beta), self.op("mpcomm.batch_norm_grad", [dy, x, gamma, mean, variance], a, type_, f, f)))
        self.tape.append((y, back))
        return y

    def dropout(self, x):
        seeds = [a.value for a in self.b.graph.arguments if a.role == "rng"]
        seed = seeds[0] if seeds else self.b.argument("seed", "rng", "i32", (2,))
        self.b.dropouts += 1
        a, type_ = {"p": 0.5 if self.exact else self.random.choice((0.5, 0.25)), "id": self.b.dropouts}, (x.dtype, x.shape)
        y = self.op("mpcomm.dropout", [x, seed], a, type_)
        self.tape.append((y, lambda dy: [(x, self.op("mpcomm.dropout_grad", [dy, seed], a, type_))]))
        return y

    def residual(self, x):
        y = self.layer(x, same=True)
        if y.shape != x.shape:
            return y
        z = self.binary("addf", x, y)
        self.tape.append((z, lambda dz: [(x, dz), (y, dz)]))
        return z

    def permute(self, x):
        if len(x.shape) != 2 or x.shape[1] < 2:
            return x
        n, d = x.shape
        k = self.random.randrange(1, d)
        def cut(v, low, high):
            window = {"starts": [0, low], "limits": [n, high], "strides": [1, 1]}
            return self.op("mpcomm.slice", [v], window, (v.dtype, (n, high - low)))

        join = lambda u, v: self.op("mpcomm.concatenate", [u, v], {"dim": 1}, (u.dtype, (n, d)))
        y = join(cut(x, k, d), cut(x, 0, k))
        self.tape.append((y, lambda dy: [(x, join(cut(dy, d - k, d), cut(dy, 0, d - k)))]))
        return y

    def layer(self, x, same=False):
        r = self.random
        kinds = [self.linear, self.linear, self.activation, self.activation, self.permute]
        if not self.exact:
            kinds.append(self.norm)
        if r.random() < 0.3:
            kinds.append(self.dropout)
        if r.random() < 0.3 and not self.exact:
            kinds.append(self.batch_norm)
        if not same:
            kinds.append(self.residual)
        return r.choice(kinds)(x)

    # Layers on [samples, channels, height, width].

    def convolution(self, x):
        n, c, h, w = x.shape
        window = [self.random.choice((1, 2, 3)) for _ in range(2)]
        a = {"strides": [self.random.choice((1, 1, 2)) for _ in range(2)], "low": [k // 2 for k in window],
             "high": [k // 2 for k in window], "dilation": [1, 1],
             "groups": self.random.choice([k for k in (1, 1, 2) if c % k == 0])}  # fmt: skip
        out = a["groups"] * self.random.choice((1, 2, 3))
        f = self.parameter((out, c // a["groups"], *window))
        sizes = [(m + 2 * (k // 2) - k) // s + 1 for m, k, s in zip((h, w), window, a["strides"])]
        y = self.op("mpcomm.convolution", [x, f], a, (x.dtype, (n, out, *sizes)))
        self.tape.append((y, lambda dy: [
            (x, self.op("mpcomm.convolution_input_grad", [dy, f], a, (x.dtype, x.shape))),
            (f, self.op("mpcomm.convolution_filter_grad", [dy, x], a, (f.dtype, f.shape)))]))  # fmt: skip
        return y

    def pool(self, x):
        n, c, h, w = x.shape
        if min(h, w) < 2:
            return x
        a = {"window": [2, 2], "strides": [2, 2], "low": [0, 0], "high": [0, 0]}
        shape = (n, c, h // 2, w // 2)
        kind = self.random.choice(("max", "avg"))
        y = self.op("mpcomm.%s_pool" % kind, [x], a, (x.dtype, shape))
        self.tape.append((y, lambda dy: [
            (x, self.op("mpcomm.%s_pool_grad" % kind, [dy, x] if kind == "max" else [dy], a, (x.dtype, x.shape)))]))  # fmt: skip
        return y

    def attention(self, x):
        """[samples, rows, heads, size], of itself."""
        type_, (n, s, h, d) = (x.dtype, x.shape), x.shape
        bias, trained = [], []
        if self.random.random() < 0.75:
            shape = tuple(size if self.random.random() < 0.6 else 1 for size in (n, h, s, s))
            if self.random.random() < 0.5 and x.dtype == self.dtype:
                bias = trained = [self.parameter(shape)]
            else:
                bias = [self.b.constant(x.dtype, shape, self.b.data(x.dtype, shape))]
        a = lambda *counts: {"scale": 0.5, "operandSegmentSizes": Segments(*counts, 0, len(bias))}
        y, lse = self.op("mpcomm.attention", [x, x, x, *bias], a(1, 1, 1), type_,
                         (x.dtype, (n, h, s) + (2,) * len(bias)))  # fmt: skip
        def back(dy):
            more = {"with_bias_grad": True} if trained else {}
            made = self.op("mpcomm.attention_grad", [dy, x, x, x, y, lse, *bias], {**a(*[1] * 6), **more}, type_, type_,
                           type_, *((t.dtype, t.shape) for t in trained))  # fmt: skip
            return list(zip([x, x, x, *trained], made))
        self.tape.append((y, back))
        return y

    # The whole.

    def forward(self):
        r = self.random
        n = self.g.batch
        self.targets = None
        kind = r.choice(("rows", "rows", "rows", "images", "ids", "rows4"))
        if kind == "rows":
            x = self.b.argument("x", "batch", self.dtype, (n, r.choice((1, 2, 4, 8, 9))))
        elif kind == "images":
            x = self.b.argument("x", "batch", self.dtype, (n, r.choice((1, 2, 3)), r.choice((4, 5, 8)), r.choice((4, 6))))
            for _ in range(r.choice((1, 2, 3))):
                kinds = [self.convolution, self.convolution, self.pool, self.activation]
                x = r.choice(kinds if self.exact else [*kinds, self.batch_norm])(x)
            x = self.reshape(x, (n, math.prod(x.shape[1:])))
        elif kind == "ids":
            ids = self.b.argument("x", "batch", r.choice(("i32", "i64")), (n, r.choice((1, 2, 3))))
            table = self.parameter((r.choice((2, 3, 5)), r.choice((2, 4))))
            y = self.op("mpcomm.gather", [table, ids], {}, (table.dtype, (*ids.shape, table.shape[1])))
            self.tape.append((y, lambda dy: [(table, self.op("mpcomm.gather_grad", [dy, ids], {}, (table.dtype, table.shape)))]))
            x = self.reshape(y, (n, ids.shape[1] * table.shape[1]))
        else:
            x = self.b.argument("x", "batch", self.dtype, (n, r.choice((2, 3)), r.choice((1, 2)), r.choice((2, 4))))
            if not self.exact:
                x = self.attention(x)
            x = self.reshape(x, (n, math.prod(x.shape[1:])))
        for _ in range(r.choice((1, 2, 3, 4, 6, 9)) if self.exact else r.choice((1, 2, 3, 4, 6))):
            x = self.layer(x)
        if not self.parameters:
            x = self.linear(x)
        return x

    def loss(self, x):
        """The loss, and the gradient of x."""
        n, d = x.shape
        if self.random.random() < 0.5 and not self.exact:
            targets = self.b.argument("y", "batch", self.random.choice(("i32", "i64")), (n,))
            a = {"reduction": Text("#mpcomm<loss_reduction mean>"), "ignore_index": -100}
            loss, lse = self.op("mpcomm.cross_entropy", [x, targets], a, (x.dtype, ()), (x.dtype, (n,)))
            one = self.b.splat(x.dtype, (), 1.0)
            return loss, self.op("mpcomm.cross_entropy_grad", [one, x, targets, lse], a, (x.dtype, x.shape))
        y = self.b.argument("y", "batch", x.dtype, x.shape)
        e = self.binary("subf", x, y)
        squares = self.sum(self.binary("mulf", e, e), (0, 1))
        share = 2.0 ** -math.ceil(math.log2(max(n * d, 1)))  # about the mean
        loss = self.binary("mulf", squares, self.b.splat(x.dtype, (), share))
        return loss, self.binary("mulf", e, self.b.splat(x.dtype, x.shape, 2 * share))

    def backward(self, x, dx):
        self.gradients[id(x)] = dx
        for y, back in reversed(self.tape):
            dy = self.gradients.get(id(y))
            if dy is None:
                continue
            for value, gradient in back(dy):
                known = self.gradients.get(id(value))
                self.gradients[id(value)] = gradient if known is None else self.binary("addf", known, gradient)

    def make(self):
        x = self.forward()
        if len(x.shape) != 2:
            x = self.reshape(x, (self.g.batch, math.prod(x.shape[1:])))
        loss, dx = self.loss(x)
        self.backward(x, dx)
        return loss
