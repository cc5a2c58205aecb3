# ===- graph.py - training graphs, differentiated as autograd does ----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Builds a training graph (Form 1) as text, with names and locations as
mpcomm-import writes them.

Layers record how they are differentiated on a tape. `Graph.backward` goes through it
from its end, as PyTorch's engine takes the node that was made last: layers in reverse
order, and within a layer the gradient of the input, then of the weight, then of the
bias. A value that is used twice (residuals, tied weights) gets the sum of its gradients
once the last of them is there.

Parameters, optimizer state and the loss are f32. Between them stands one type,
`compute`: with f16 or bf16 each parameter is cast where it is used first, and its
gradient is cast back before the update, so that f32 gradients are what ranks exchange.
(Scaling of the loss, which f16 needs, is left out: it is one multiplication.)
"""

import math


class Value:
    """An SSA value: `%name` of a static tensor type."""

    def __init__(self, name, shape, dtype, needs_grad=False):
        self.name, self.shape, self.dtype = name, tuple(shape), dtype
        self.needs_grad = needs_grad

    @property
    def type(self):
        return "tensor<%s%s>" % ("".join("%dx" % d for d in self.shape), self.dtype)

    def __str__(self):
        return "%" + self.name


class Argument(Value):
    def __init__(self, name, shape, dtype, role, extra=""):
        super().__init__(name, shape, dtype, role == "parameter")
        self.role, self.extra = role, extra


class Graph:
    def __init__(self, name, compute="f32"):
        self.name, self.compute = name, compute
        self.arguments, self.lines, self.results = [], [], []
        self.taken, self.tape, self.casts = set(), [], {}
        self.scope, self.flops, self.gradients, self.phase = name, 0, {}, ""
        # Stands for minus infinity.
        self.lowest = "-6.0e+04" if compute == "f16" else "-1.0e+30"

    # -- arguments and ops ------------------------------------------------- #

    def argument(self, role, name, shape, dtype="f32", extra=""):
        self.taken.add(name)
        self.arguments.append(Argument(name, shape, dtype, role, extra))
        return self.arguments[-1]

    def parameter(self, name, *shape):
        return self.argument("parameter", name, shape)

    def batch(self, name, shape, dtype="f32", limit=None):
        extra = "" if limit is None else \
            ", mpcomm.range = array<i64: 0, %d>" % limit
        return self.argument("batch", name, shape, dtype, extra)

    def unique(self, name):
        result, count = name, 0
        while result in self.taken:
            count += 1
            result = "%s_%d" % (name, count)
        self.taken.add(result)
        return result

    def emit(self, hint, text, *types, exact=False):
        """An op with results of `types`, (shape, dtype) each. `exact`: `hint` is the
        whole name; else the scope's is put before it."""
        hints = hint if isinstance(hint, (list, tuple)) else [hint]
        prefix = "" if exact else self.phase + self.scope + "."
        names = [self.unique(prefix + h) for h in hints]
        results = [Value(n, *t) for n, t in zip(names, types)]
        place = "%s/%s%s" % (self.scope, hints[0], ".grad" if self.phase else "")
        self.lines.append("%s = %s loc(\"%s\")" % (
            ", ".join(map(str, results)), text, place))
        return results[0] if len(results) == 1 else results

    def functional(self, hint, text, operands, *types, exact=False):
        """An op printed with `(operand types) -> result types`; {} stands for
        operands."""
        results = ", ".join(Value("", *t).type for t in types)
        text = "%s : (%s) -> %s" % (
            text.format(*operands), ", ".join(o.type for o in operands),
            "(%s)" % results if len(types) > 1 else results)
        return self.emit(hint, text, *types, exact=exact)

    def same(self, hint, op, *operands):
        """An op printed with the one type of its operands and its result."""
        x = operands[-1]
        return self.emit(hint, "%s %s : %s" % (op, ", ".join(map(str, operands)), x.type),
                         (x.shape, x.dtype))

    def constant(self, value, shape=(), dtype=None):
        dtype = dtype or self.compute
        text = value if isinstance(value, str) else repr(float(value))
        v = Value("", shape, dtype)
        return self.emit("const", "arith.constant dense<%s> : %s" % (text, v.type),
                         (shape, dtype))

    def add(self, a, b):
        return self.same("add", "arith.addf", a, b)

    def sub(self, a, b):
        return self.same("sub", "arith.subf", a, b)

    def mul(self, a, b):
        return self.same("mul", "arith.mulf", a, b)

    def scaled(self, x, factor):
        return self.mul(x, self.constant(factor, x.shape, x.dtype))

    def dot(self, hint, a, b, contract, batch=((), ())):
        """mpcomm.dot_general; counts its flops."""
        free_a = [d for i, d in enumerate(a.shape) if i not in (*contract[0], *batch[0])]
        free_b = [d for i, d in enumerate(b.shape) if i not in (*contract[1], *batch[1])]
        shape = [a.shape[i] for i in batch[0]] + free_a + free_b
        self.flops += 2 * math.prod(shape) * math.prod(a.shape[i] for i in contract[0])
        lists = ""
        if batch[0]:
            lists = "batching_dims = %s x %s, " % tuple(map(list, batch))
        lists += "contracting_dims = %s x %s" % tuple(map(list, contract))
        return self.functional(hint, "mpcomm.dot_general {}, {}, " + lists, [a, b],
                               (shape, a.dtype))

    def reshape(self, x, *shape):
        return self.functional("reshape", "mpcomm.reshape {}", [x], (shape, x.dtype))

    def transpose(self, x, *dims):
        return self.functional("transpose", "mpcomm.transpose {}, dims = %s" % list(dims),
                               [x], ([x.shape[d] for d in dims], x.dtype))

    def broadcast(self, x, dims, shape):
        return self.functional("bcast", "mpcomm.broadcast_in_dim {}, dims = %s"
                               % list(dims), [x], (shape, x.dtype))

    def reduce_sum(self, x, dims):
        shape = [d for i, d in enumerate(x.shape) if i not in dims]
        return self.functional("sum", "mpcomm.reduce sum {}, dims = %s" % list(dims), [x],
                               (shape, x.dtype))

    def slice(self, x, starts, limits):
        return self.functional(
            "slice", "mpcomm.slice {}, starts = %s, limits = %s, strides = %s"
            % (list(starts), list(limits), [1] * len(starts)), [x],
            ([b - a for a, b in zip(starts, limits)], x.dtype))

    def pad(self, x, low, high, value="0.0"):
        value = self.constant(value, (), x.dtype)
        return self.functional(
            "pad", "mpcomm.pad {}, {}, low = %s, high = %s, interior = %s"
            % (list(low), list(high), [0] * len(low)), [x, value],
            ([a + d + b for a, d, b in zip(low, x.shape, high)], x.dtype))

    def convert(self, x, dtype):
        """Undifferentiated cast between f32 and a type of 16 bits."""
        if x.dtype == dtype:
            return x
        op = "arith.extf" if dtype == "f32" else "arith.truncf"
        to = Value("", x.shape, dtype).type
        return self.emit("cast", "%s %s : %s to %s" % (op, x, x.type, to),
                         (x.shape, dtype))

    # -- differentiation --------------------------------------------------- #

    def record(self, result, inputs, backward):
        """`backward(gradient of result)` yields the gradients of `inputs`, one by one,
        None for those without."""
        result.needs_grad = any(i.needs_grad for i in inputs)
        if result.needs_grad:
            self.tape.append((self.scope, result, inputs, backward))
        return result

    def cast(self, x, dtype=None):
        """Differentiated cast; that of a parameter is made once."""
        dtype = dtype or self.compute
        if x.dtype == dtype:
            return x
        if (x, dtype) not in self.casts:
            y = self.convert(x, dtype)
            self.casts[x, dtype] = self.record(
                y, [x], lambda dy: [self.convert(dy, x.dtype)])
        return self.casts[x, dtype]

    def backward(self, seeds):
        """From the gradients `seeds`, {value: gradient}; fills `gradients`."""
        self.gradients, self.phase = dict(seeds), "d."
        for scope, result, inputs, backward in reversed(self.tape):
            self.scope = scope
            if result not in self.gradients:
                continue
            for x, d in zip(inputs, backward(self.gradients.pop(result))):
                if d is None:
                    continue
                if x in self.gradients:
                    d = self.add(self.gradients[x], d)
                self.gradients[x] = d
        self.phase = ""

    # -- the optimizer ------------------------------------------------------ #

    def update(self, optimizer):
        """One update of each parameter, in the order of `parameters()`."""
        parameters = [a for a in self.arguments if a.role == "parameter"]
        suffixes = {"adamw": [".exp_avg", ".exp_avg_sq"], "sgd": [".momentum_buffer"]}
        state = {p: [self.argument("optimizer_state", p.name + s, p.shape)
                     for s in suffixes[optimizer]] for p in parameters}
        self.scope = "optimizer"
        rate = self.argument("hyperparameter", "lr", (),
                             extra=", mpcomm.default = 1.0e-03 : f32")
        if optimizer == "adamw":
            count = self.argument("optimizer_state", "step", ())
            step = self.add(count, self.constant(1.0, (), "f32"))
            self.results.append((count, step))
            text = ("mpcomm.adamw_update {}, {}, {}, {}, {}, {}, beta1 = 0.9, "
                    "beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01")
            extra = [step, rate]
        for p in parameters:
            gradient, type_ = self.gradients[p], (p.shape, "f32")
            self.scope = "optimizer/" + p.name
            if optimizer == "adamw":
                operands = [p, gradient, *state[p], *extra]
            else:
                text = ("mpcomm.sgd_update {}, {}, {}, {}, momentum = 0.9, "
                        "weight_decay = 1.0e-04")
                operands = [p, gradient, rate, *state[p]]
            old = [p, *state[p]]
            new = self.functional(["new." + a.name for a in old], text, operands,
                                  *[type_] * len(old), exact=True)
            self.results += list(zip(old, new))

    # -- text ---------------------------------------------------------------- #

    def count_parameters(self):
        return sum(math.prod(a.shape) for a in self.arguments if a.role == "parameter")

    def write(self, loss, out):
        def attributes(role, name):
            return 'mpcomm.role = #mpcomm.role<%s>, mpcomm.name = "%s"' % (role, name)

        donated = {a: i + 1 for i, (a, _) in enumerate(self.results)}
        arguments = []
        for a in self.arguments:
            extra = a.extra
            if a in donated:
                extra += ", mpcomm.donated = %d : i64" % donated[a]
            arguments.append("      %s: %s {%s%s}" % (
                a, a.type, attributes(a.role, a.name), extra))
        results = ["tensor<f32> {%s}" % attributes("loss", "loss")] + [
            "%s {%s}" % (a.type, attributes(a.role, a.name)) for a, _ in self.results]
        out.write("module @%s {\n  func.func @train_step(\n" % self.name)
        out.write(",\n".join(arguments) + ")\n   -> (" + ",\n       ".join(results))
        out.write(") {\n")
        for line in self.lines:
            out.write("    %s\n" % line)
        values = [loss] + [value for _, value in self.results]
        out.write("    return %s\n        : %s\n  }\n}\n" % (
            ", ".join(map(str, values)), ", ".join(v.type for v in values)))
