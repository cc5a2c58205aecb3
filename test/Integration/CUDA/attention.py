# REQUIRES: compiler, numpy
# Python loads the fake driver, and lacks the symbols that sanitizers give a program (__asan_…).
# UNSUPPORTED: sanitizer
# RUN: %python %s %mpcomm-opt %cc %mpcomm_obj_root/test/lib/FakeCuda \
# RUN:   %mpcomm_src_root/test/Codegen/Kernels/CPU/Inputs %t.dir 1
# RUN: %python %s %mpcomm-opt %cc %mpcomm_obj_root/test/lib/FakeCuda \
# RUN:   %mpcomm_src_root/test/Codegen/Kernels/CPU/Inputs %t.hopper 1 sm_90a
#
# The kernels of attention and of its gradient compute on the fake device, thread by
# thread, what f64 computes, within the bounds that their roundings have.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bounds. e = 2^-24 is f32's unit roundoff, u that of the operands' type (2^-8 of bf16,
2^-11 of f16; also what its subnormals are off by: t = 2^-25 of f16), x = scale s a score, A =
|scale| |q| |k|^T the sum of its terms' magnitudes.

A score is a sum of D products that are exact: off by D e A. Its exponent, a fused product
with a rounded constant, adds 3 e |x| and as much for what is subtracted, m or lse; ex2.approx adds
2^-22. So p is off by r = (D + 1) e A + 3 e (|x| + |m|) + 2^-22 relative to itself, to
first order. In the forward pass each of T tiles scales what is there by such a power: T r
more at most, with the row's largest r. Then, with sums of Sk terms and p rounded (u, t):

  out: (u + 2 (1 + T) r + (2 Sk + T) e) P |v| + t sum |v|,  lse: (1 + T) r + Sk e + 2^-21 + 4 e |lse|

In the backward pass (lse is given) P is off by r P, dP - delta by g = (D + 1) e (|dout| |v|^T
+ sum |dout out|), dS by E = P (r |dP - delta| + g) + 2 e |dS|, and

  dv: (u + r + Sq e) P^T |dout| + t sum |dout|,  dq: |scale| (E + (u + Sk e) |dS| + t) |k|,  dk likewise

and each result is rounded (u, t). 1.05 times that leaves room for what is not of first order.

With a bias b, x = scale s + b is a fused product, off by d = (D + 1) e A + e |x|; m is off by
the row's largest d. What is b exactly is not off at all: where A is below 2^-26 |b|, both
are b rounded. Subtracting, a rounded constant and the product add 3 e |x - m|, so that r = d
+ max d + 3 e |x - m| + 2^-22 of those x within 150 of m; the exponential of others is 0 in
f32, and e^-150 of it negligible. m and l = sum exp(x - m) are given apart: m is off by max d,
log l by (1 + T) r + Sk e + 2^-21 + 4 e |log l|; in the backward pass P is off by d + the
rounding of m + 3 e |x - m| + 4 e |log l| + 2^-22.

The gradient of b is the sum of dS over the n scores that have the same b, in f32 and in any order:

  db: sum E + n e sum |dS|

`attention.py ... <seed> [<chip> [<word>]]` runs the cases whose names contain the word, with the
code of a chip; those for sm_90a are those that warpgroups compute."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
sys.path.insert(0, sys.argv[4])

import numpy as np
from emulation import Emulator, launches_of
from kernel_builder import from_bf16, to_bf16

OPT, CC, FAKES, _, FOLDER, SEED = sys.argv[1:7]
CHIP, WORD = (sys.argv[7:] + ["sm_90", ""][len(sys.argv) - 7 :])[:2]
E32, UNIT, TINY = 2.0**-24, {"bf16": 2.0**-8, "f16": 2.0**-11}, {"bf16": 2.0**-130, "f16": 2.0**-25}
FILLING = 0x3C2A  # of what lies between rows

# Name, type, batch, rows, columns, heads, size, mask, layout, scale; processors, which
# decide how many rows a block has; perhaps what else there is. A bias has a type, dimensions of
# those of batch, heads, rows and columns that are not 1, a kind and a layout. If it is trained, its
# gradient has that layout.
CASES = [
    ("one", "bf16", 1, 1, 1, 1, 16, None, "plain", None, 132),
    ("row", "f16", 2, 1, 130, 1, 48, "random", "plain", None, 132),
    ("column", "bf16", 1, 37, 1, 2, 64, "causal", "plain", None, 132),
    ("causal", "bf16", 2, 130, 130, 2, 64, "causal", "qkv", None, 1),
    ("causalF16", "f16", 1, 130, 130, 1, 64, "causal", "qkv", None, 132),
    ("blocks", "bf16", 1, 260, 200, 1, 32, "blocks", "plain", None, 1),
    ("blocks128", "f16", 1, 130, 200, 1, 128, "blocks", "plain", None, 132),
    ("wide", "bf16", 1, 130, 130, 1, 128, None, "qkv", None, 1),
    ("wideCausal", "bf16", 1, 150, 70, 1, 128, "causal", "heads", None, 1),
    ("cross", "f16", 2, 37, 130, 2, 16, "random", "heads", None, 132),
    ("cross48", "bf16", 1, 130, 37, 1, 48, None, "four", None, 1),
    ("odd", "bf16", 1, 37, 70, 2, 48, "random", "odd", None, 132),
    ("steps", "f16", 1, 20, 70, 1, 16, None, "steps", None, 132),
    ("eighty", "f16", 1, 130, 100, 1, 80, "causal", "plain", None, 1),
    ("ninetysix", "bf16", 1, 65, 64, 1, 96, "random", "eight", None, 132),
    ("even", "f16", 1, 128, 128, 1, 64, None, "plain", 0.4, 1),
    ("negative", "bf16", 1, 70, 100, 1, 32, "random", "plain", -0.3, 132),
    ("zero", "f16", 1, 70, 65, 1, 16, "causal", "plain", 0.0, 132),
    ("steep", "f16", 1, 66, 129, 1, 64, None, "plain", 2.0, 132),
    ("part64", "bf16", 1, 70, 200, 2, 64, "random", "plain", None, 132),
    ("blocks64", "bf16", 1, 260, 200, 1, 64, "blocks", "plain", None, 1),
    ("long64", "f16", 1, 130, 330, 1, 64, None, "qkv", None, 1),
    ("heads64", "bf16", 2, 100, 70, 2, 64, "causal", "heads", -0.2, 1),
    ("zero64", "f16", 1, 70, 65, 1, 64, "causal", "plain", 0.0, 132),
    ("cross128", "bf16", 2, 100, 200, 2, 128, "random", "heads", None, 1),
    ("bias128", "bf16", 1, 200, 130, 2, 128, "blocks", "plain", None, 1, {"bias": ("f32", "1hrc", "normal", "plain")}),
    ("safe", "bf16", 1, 37, 70, 1, 32, "random", "plain", None, 132, {"safe": True}),
    ("bias", "bf16", 2, 64, 64, 2, 64, None, "plain", None, 132, {"bias": ("f32", "bhrc", "normal", "plain")}),
    ("biasLarge", "bf16", 1, 128, 128, 1, 64, None, "qkv", None, 1, {"bias": ("bf16", "11rc", "normal", "plain")}),
    ("biasOdd", "f16", 2, 37, 71, 2, 48, None, "odd", None, 132, {"bias": ("f32", "b1rc", "normal", "gap")}),
    ("biasEven", "f16", 1, 70, 98, 2, 16, "random", "heads", 0.4, 132, {"bias": ("f16", "1hrc", "normal", "plain")}),
    ("biasTurned", "bf16", 2, 66, 130, 1, 32, None, "plain", -0.3, 1, {"bias": ("f32", "bhrc", "normal", "turned")}),
    ("biasTurnedOdd", "bf16", 1, 67, 64, 1, 32, None, "plain", None, 1, {"bias": ("bf16", "bhrc", "normal", "turned")}),
    ("biasColumns", "bf16", 2, 130, 70, 2, 128, "causal", "plain", None, 132, {"bias": ("f32", "b11c", "padding", "plain")}),
    ("biasRows", "f16", 2, 65, 40, 1, 80, None, "plain", None, 132, {"bias": ("f16", "bhr1", "normal", "plain")}),
    ("biasOne", "bf16", 1, 20, 30, 2, 96, None, "plain", 0.0, 132, {"bias": ("f32", "1h11", "normal", "plain")}),
    ("alibi", "bf16", 2, 100, 100, 2, 64, "causal", "qkv", None, 1, {"bias": ("f32", "1h1c", "alibi", "plain")}),
    ("biasWide", "f16", 1, 128, 130, 1, 112, "blocks", "plain", None, 1, {"bias": ("bf16", "1hrc", "normal", "plain")}),
    ("least", "bf16", 2, 70, 130, 2, 32, None, "plain", None, 132, {"bias": ("f32", "b1rc", "least", "plain")}),
    ("leastNarrow", "bf16", 1, 64, 128, 1, 64, "random", "plain", None, 132, {"bias": ("bf16", "11rc", "least", "plain")}),
    ("billion", "f16", 1, 70, 65, 1, 16, None, "plain", None, 132, {"bias": ("f32", "11rc", "billion", "plain")}),
    ("infinite", "f16", 2, 67, 130, 1, 64, None, "plain", None, 132, {"bias": ("f32", "b1rc", "infinite", "plain")}),
    ("infiniteSafe", "bf16", 1, 67, 70, 2, 64, None, "plain", None, 132,
     {"bias": ("f16", "11rc", "infinite", "plain"), "safe": True}),
    ("trained", "bf16", 3, 64, 64, 2, 64, None, "plain", None, 2, {"bias": ("f32", "1hrc", "normal", "plain"), "trained": True}),
    ("trainedAll", "f16", 2, 70, 98, 2, 32, "blocks", "heads", None, 132, {"bias": ("f16", "bhrc", "normal", "plain"), "trained": True}),
    ("trainedOdd", "bf16", 2, 37, 71, 3, 48, "random", "odd", -0.3, 132, {"bias": ("bf16", "11rc", "normal", "gap"), "trained": True}),
    ("trainedBatch", "bf16", 2, 130, 65, 2, 128, "causal", "qkv", None, 1, {"bias": ("f32", "b1rc", "normal", "turned"), "trained": True}),
    ("trainedBatches", "f16", 7, 20, 30, 2, 16, "random", "four", None, 3, {"bias": ("f32", "1hrc", "normal", "plain"), "trained": True, "safe": True}),
    ("trainedEighty", "bf16", 1, 64, 130, 1, 80, None, "plain", None, 132, {"bias": ("f32", "11rc", "normal", "gap"), "trained": True}),
    ("trainedWide", "f16", 3, 65, 128, 1, 112, None, "steps", 0.2, 1, {"bias": ("f32", "11rc", "normal", "plain"), "trained": True}),
    ("trained96", "bf16", 1, 66, 64, 3, 96, "causal", "eight", None, 132, {"bias": ("bf16", "11rc", "normal", "plain"), "trained": True}),
    ("trainedInfinite", "bf16", 4, 67, 70, 2, 64, None, "plain", None, 132,
     {"bias": ("f32", "b1rc", "infinite", "plain"), "trained": True}),
    ("trainedLeast", "f16", 2, 70, 130, 2, 64, "blocks", "plain", None, 132,
     {"bias": ("f32", "11rc", "least", "plain"), "trained": True}),
    ("trained128", "bf16", 3, 128, 192, 1, 128, None, "plain", None, 2, {"bias": ("bf16", "11rc", "normal", "plain"), "trained": True}),
]  # fmt: skip
# What kinds of bias leave out with.
LEAST = {"least": {"f32": float(np.finfo(np.float32).min), "bf16": -(2.0**128 - 2.0**120)}, "billion": {"f32": -1e9},
         "infinite": {"f32": -np.inf, "bf16": -np.inf, "f16": -np.inf}, "padding": {"f32": -np.inf}}  # fmt: skip


def strides_of(layout, positions, heads, size):
    """Of [batch, positions, heads, size], and an offset."""
    row = heads * size
    if layout == "qkv":
        return [3 * positions * row, 3 * row, size, 1], row
    if layout == "heads":
        return [positions * row, size, positions * size, 1], 0
    if layout == "steps":
        return [positions * row * 2, row * 2, size * 2, 2], 1
    pad, offset = {"plain": (0, 0), "eight": (4, 4), "four": (2, 2), "odd": (1, 3)}[layout]
    return [positions * (row + pad), row + pad, size, 1], offset


class Case:
    def __init__(self, name, dtype, batch, rows, columns, heads, size, mask, layout, scale, processors, others=None):
        others = others or {}
        self.safe, self.bias_spec, self.bias = others.get("safe", False), others.get("bias"), None
        self.trained = others.get("trained", False)
        self.name, self.dtype, self.layout, self.processors = name, dtype, layout, processors
        self.q_shape, self.k_shape = [batch, rows, heads, size], [batch, columns, heads, size]
        self.scale = size**-0.5 if scale is None else scale
        self.rng = rng = np.random.default_rng([int(SEED), *name.encode()])
        self.values = {n: self.rounded(rng.standard_normal(s)) for n, s in
                       [("q", self.q_shape), ("k", self.k_shape), ("v", self.k_shape), ("dout", self.q_shape)]}
        self.mask = None
        if mask:
            i, j = np.indices([rows, columns])
            kept = i + columns - rows >= j if columns > rows else i >= j
            if mask == "random":
                kept = rng.random([rows, columns]) < 0.5
                kept[rng.integers(rows)] = False  # a row with nothing
            if mask == "blocks":
                # All sorts of tiles, one of 64 rows with nothing.
                kept = rng.random([rows, columns]) < 0.5
                kept[:, :64], kept[:64, 64:128] = True, False
                kept[64:128] = False
                kept[128:, 128:] = True
            self.mask = kept
        if self.bias_spec:
            self.make_bias([batch, heads, rows, columns])
        self.reference()

    def make_bias(self, scores):
        dtype, dims, kind, _ = self.bias_spec
        shape = [1 if dim == "1" else size for dim, size in zip(dims, scores)]
        bias = 2 * self.rng.standard_normal(shape)
        if kind == "alibi":
            bias = -(2.0 ** -np.arange(1, 1 + shape[1])).reshape(-1, 1, 1) * np.arange(shape[3])[::-1] + np.zeros(shape)
        elif kind != "normal":
            out = self.rng.random(shape) < 0.5
            if kind == "padding":
                out[...] = np.arange(shape[3]) >= shape[3] - 7
            else:
                out[..., self.rng.integers(shape[2]), :] = True  # a row with nothing
                out[..., :64, :64] |= out[..., :1, :1]  # perhaps whole tiles
            bias = np.where(out, LEAST[kind][dtype], 0.0 if kind != "billion" else bias)
        self.bias = self.rounded(bias, dtype)

    def rounded(self, x, dtype=None):
        dtype = dtype or self.dtype
        if dtype == "f32":
            return x.astype(np.float32).astype(np.float64)
        if dtype == "f16":
            return x.astype(np.float16).astype(np.float64)
        return from_bf16(to_bf16(x.astype(np.float32))).astype(np.float64)

    def reference(self):
        q, k, v, dout = (self.values[n].transpose(0, 2, 1, 3) for n in ("q", "k", "v", "dout"))
        size, columns, rows = q.shape[3], k.shape[2], q.shape[2]
        u, t, c = UNIT[self.dtype], TINY[self.dtype], abs(self.scale)
        turn = lambda x: np.swapaxes(x, 2, 3)
        s, magnitude = self.scale * (q @ turn(k)), c * (np.abs(q) @ turn(np.abs(k)))
        kept = np.broadcast_to(np.ones([rows, columns], bool) if self.mask is None else self.mask, s.shape)
        off = (size + 1) * E32 * magnitude  # of x
        if self.bias is not None:
            kept = kept & (self.bias > -np.inf)
            bias = np.where(kept, self.bias, 0.0)
            absorbed = magnitude <= 2.0**-26 * np.abs(bias)
            s = np.where(absorbed, bias, s + bias)
            off = np.where(absorbed, 0.0, off + E32 * np.abs(s))
        # An absent row is as if of zeros in gradients.
        real = kept.any(3, keepdims=True)
        x = np.where(kept, s, -np.inf)
        most = np.where(real, x.max(3, keepdims=True), 0.0)
        weights = np.exp(x - most)
        total = weights.sum(3, keepdims=True)
        log = np.log(np.where(real, total, 1))
        lse = np.where(real, most + log, -np.inf)
        p = weights / np.where(real, total, 1)
        near = np.where(kept, np.abs(x), 0.0)
        r = off + 3 * E32 * (near + near.max(3, keepdims=True)) + 2.0**-22
        if self.bias is not None:
            matters = x > most - 150
            off = np.where(matters, off, 0.0)
            far = 3 * E32 * np.where(matters, most - x, 0.0)
            off_most = off.max(3, keepdims=True)
            r = np.where(matters, off + off_most + far + 2.0**-22, 0.0)
        worst, tiles = r.max(3, keepdims=True), columns // 32 + 1
        out = np.where(real, p @ v, 0.0 if self.safe else np.nan)
        self.out = {"out": out, "lse": lse[..., 0]}
        self.bound = {
            "out": (u + 2 * (1 + tiles) * worst + (2 * columns + tiles) * E32) * (p @ np.abs(v))
            + t * np.abs(v).sum(2, keepdims=True) + u * np.abs(out) + t,
            "lse": ((1 + tiles) * worst + columns * E32 + 2.0**-21 + 4 * E32 * np.abs(lse))[..., 0]}  # fmt: skip
        if self.bias is not None:
            parts = [np.where(real, most, -np.inf), np.where(real, log, -np.inf)]
            self.out["lse"] = np.concatenate(parts, 3)
            of_log = (1 + tiles) * worst + columns * E32 + 2.0**-21 + 4 * E32 * np.abs(log)
            self.bound["lse"] = np.concatenate([off_most, of_log], 3)
        # The gradient gets rounded results.
        self.values["out"] = self.rounded(out).transpose(0, 2, 1, 3)
        self.values["lse"] = self.out["lse"]
        out = np.where(real, self.rounded(out), 0.0)
        # That rounding of lse moves P.
        r = off + 3 * E32 * near + 4 * E32 * np.abs(np.where(real, lse, 0)) + 2.0**-22
        if self.bias is not None:
            rounding = np.abs(most - self.rounded(most, "f32"))
            r = np.where(matters, off + rounding + far + 4 * E32 * np.abs(log) + 2.0**-22, 0.0)
        delta = (dout * out).sum(3, keepdims=True)
        dp = dout @ turn(v)
        ds = p * (dp - delta)
        g = (size + 1) * E32 * (np.abs(dout) @ turn(np.abs(v)) + (np.abs(dout * out)).sum(3, keepdims=True))
        off = p * (r * np.abs(dp - delta) + g) + 2 * E32 * np.abs(ds)
        self.out.update(dq=self.scale * (ds @ k), dk=self.scale * (turn(ds) @ q), dv=turn(p) @ dout)
        self.bound["dv"] = turn(p * (u + r + rows * E32) + t) @ np.abs(dout)
        self.bound["dq"] = c * ((off + (u + columns * E32) * np.abs(ds) + t) @ np.abs(k))
        self.bound["dk"] = c * (turn(off + (u + rows * E32) * np.abs(ds) + t) @ np.abs(q))
        for name in ("dq", "dk", "dv"):
            self.bound[name] += u * np.abs(self.out[name]) + t
        if self.trained:
            same = tuple(dim for dim in range(4) if self.bias.shape[dim] == 1)
            of_bias = lambda x: x.sum(same, keepdims=True)
            self.out["db"] = of_bias(ds)
            self.bound["db"] = of_bias(off) + ds.size // self.bias.size * E32 * of_bias(np.abs(ds))

    def shape(self, name):
        batch, rows, heads, _ = self.q_shape
        if name == "lse":
            return [batch, heads, rows] + [2] * (self.bias is not None)
        if name in ("bias", "db"):
            return list(self.bias.shape)
        if name == "mask":
            return list(self.mask.shape)
        return self.k_shape if name in ("k", "v", "dk", "dv") else self.q_shape

    def operands(self, kind):
        rest = [name for name in ("mask", "bias") if getattr(self, name) is not None]
        if kind == "attention":
            return ["q", "k", "v"] + rest, ["out", "lse"]
        return ["dout", "q", "k", "v", "out", "lse"] + rest, ["dq", "dk", "dv"] + ["db"] * self.trained

    def bias_strides(self):
        """Of the bias, and an offset."""
        layout, (batch, heads, rows, columns) = self.bias_spec[3], self.bias.shape
        if layout == "turned":
            return [heads * rows * columns, rows * columns, 1, rows], 0
        row = columns + (layout == "gap")
        return [heads * rows * row, rows * row, row, 1], 3 * (layout == "gap")

    def type(self, name):
        shape = "x".join(map(str, self.shape(name)))
        if name == "lse":
            return "memref<%sxf32>" % shape
        if name == "mask":
            return "memref<%sxi1>" % shape
        if name in ("bias", "db"):
            dtype = self.bias_spec[0] if name == "bias" else "f32"
            return "memref<%sx%s, strided<%s, offset: %d>>" % (shape, dtype, *self.bias_strides())
        strides, offset = strides_of(self.layout, *self.shape(name)[1:])
        return "memref<%sx%s, strided<%s, offset: %d>>" % (shape, self.dtype, strides, offset)

    def text(self, kind):
        inputs, outputs = self.operands(kind)
        types = [", ".join(map(self.type, names)) for names in (inputs, outputs)]
        names = [", ".join("%" + n + suffix for n in names) for names, suffix in ((inputs, ""), (outputs, "_to"))]
        arguments = ["%%%s: %s" % (n, self.type(n)) for n in inputs] + ["%%%s_to: %s" % (n, self.type(n)) for n in outputs]
        return "func.func @call_%s_%s(%s) {\n  mprt.attention \"%s\" scale = %r%s ins(%s : %s) outs(%s : %s)\n  return\n}\n" % (
            self.name, kind, ", ".join(arguments), kind, float(self.scale), " safe" * self.safe, names[0], types[0], names[1], types[1])  # fmt: skip

    def place(self, name, flat):
        """The operand as a view of its memory."""
        shape = self.shape(name)
        strides, offset = strides_of(self.layout, *shape[1:])
        return np.lib.stride_tricks.as_strided(flat[offset:], shape, [2 * s for s in strides])

    def bias_memory(self, bits, empty):
        """Elements of the bias or of its gradient in its layout, `empty` between them, and an offset."""
        strides, offset = self.bias_strides()
        flat = np.full(offset + 1 + sum((n - 1) * s for n, s in zip(bits.shape, strides)), empty, bits.dtype)
        self.bias_place(flat)[...] = bits
        return flat, offset

    def bias_place(self, flat):
        strides, offset = self.bias_strides()
        return np.lib.stride_tricks.as_strided(flat[offset:], self.bias.shape, [flat.itemsize * s for s in strides])

    def memory(self, name, isOutput):
        if name == "lse":
            values = np.full(self.shape(name), np.nan) if isOutput else self.values[name]
            return np.ascontiguousarray(values, np.float32), 0
        if name == "mask":
            return np.ascontiguousarray(self.mask, np.uint8), 0
        if name == "bias":
            bits = {"f32": lambda x: x.astype(np.float32), "f16": lambda x: x.astype(np.float16).view(np.uint16),
                    "bf16": lambda x: to_bf16(x)}[self.bias_spec[0]](self.bias)  # fmt: skip
            return self.bias_memory(bits, np.nan if bits.dtype == np.float32 else 0x7FFF)
        if name == "db":
            return self.bias_memory(np.full(self.bias.shape, np.nan, np.float32), np.float32(FILLING))
        shape = self.shape(name)
        strides, offset = strides_of(self.layout, *shape[1:])
        flat = np.full(offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides)), FILLING, np.uint16)
        if not isOutput:
            values = self.values[name]
            bits = values.astype(np.float16).view(np.uint16) if self.dtype == "f16" else to_bf16(values)
            self.place(name, flat)[...] = bits
        return flat, offset

    def result(self, name, flat):
        """What a kernel has left, and whether it wrote beside it."""
        if name == "lse":
            return flat.astype(np.float64), True
        if name == "db":
            view = self.bias_place(flat)
            values = np.array(view, np.float64)
            view[...] = FILLING
            return values, bool((flat == FILLING).all())
        view = self.place(name, flat)
        bits = np.array(view, order="C")
        values = bits.view(np.float16) if self.dtype == "f16" else from_bf16(bits)
        view[...] = FILLING
        return values.astype(np.float64).transpose(0, 2, 1, 3), bool((flat == FILLING).all())


def check(case, kind, driver, module, launches):
    """Messages of what is wrong, and the largest error in units of the bound."""
    inputs, outputs = case.operands(kind)
    runs = []
    for _ in range(2):
        arrays = [case.memory(n, False) for n in inputs] + [case.memory(n, True) for n in outputs]
        driver.run(module, launches, arrays)
        runs.append([array for array, _ in arrays])
    wrong, most = [], 0.0
    for i, name in enumerate(outputs):
        if not np.array_equal(runs[0][len(inputs) + i].view(np.uint8), runs[1][len(inputs) + i].view(np.uint8)):
            wrong.append("%s: other bits the second time" % name)
        got, isAlone = case.result(name, runs[0][len(inputs) + i])
        if not isAlone:
            wrong.append("%s: written beside its rows" % name)
        expected, bound = case.out[name], 1.05 * case.bound[name]
        with np.errstate(invalid="ignore", divide="ignore"):
            same = (got == expected) | (np.isnan(got) & np.isnan(expected))
            error = np.where(same, 0.0, np.abs(got - expected) / bound)
        error = np.where(np.isnan(error), np.inf, error)
        most = max(most, error.max())
        if error.max() > 1:
            at = np.unravel_index(error.argmax(), error.shape)
            wrong.append("%s: %d of %d beyond the bound, element %s is %r, expected %r +- %.3g" % (
                name, (error > 1).sum(), error.size, list(map(int, at)), got[at], expected[at], bound[at]))  # fmt: skip
    return wrong, most


def main():
    os.environ["MPFAKE_SEED"] = SEED
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    driver = emulator.driver()
    failures = 0
    with np.errstate(invalid="ignore"):
        cases = [Case(*c) for c in CASES if WORD in c[0] and (CHIP != "sm_90a" or c[6] in (64, 128))]
    for case in cases:
        text = case.text("attention") + case.text("attention_grad")
        path = os.path.join(FOLDER, case.name)
        with open(path + ".mlir", "w") as file:
            file.write(text)
        generated = emulator.generate(text, path + ".so", processors=case.processors, chip=CHIP)
        if emulator.packs:
            continue
        module = driver.load(path + ".so")
        launches = launches_of(generated, random.Random(case.name))
        for kind in ("attention", "attention_grad"):
            wrong, most = check(case, kind, driver, module, launches["%s_%s" % (case.name, kind)])
            print("%s %s: error %.3f of the bound" % (case.name, kind, most), flush=True)
            for message in wrong:
                print("FAIL: %s %s (%s.mlir): %s" % (case.name, kind, path, message), flush=True)
            failures += bool(wrong)
    if failures:
        sys.exit("%d of %d differ" % (failures, 2 * len(cases)))
    print("%d cases agree" % len(cases))


main()
