# REQUIRES: compiler, numpy
# Python loads the fake driver, and lacks the symbols that sanitizers give a program (__asan_…).
# UNSUPPORTED: sanitizer
# RUN: %python %s %mpcomm-opt %cc %mpcomm_obj_root/test/lib/FakeCuda \
# RUN:   %mpcomm_src_root/test/Codegen/Kernels/CPU/Inputs %t.dir 1 48
#
# Random kernels compute on the fake device, thread by thread, what they compute on
# the processor, bit by bit: what is summed up are small integers, so that no sum rounds
# in any order.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each kernel is launched on buffers of its own, some of them strided, transposed or
at an odd place in memory, and compiled for the host and for a device of 3 and of 132
processors. `kernels.py ... <seed> <count> [<first>]` makes a longer run, or begins at a
kernel that failed.

Values that are summed are integers of at most LIMIT / terms, so that f32 has all
partial sums of magnitude up to LIMIT = 2^24; those that go through bf16, f16 and f8 are
cut to what these have exactly. What is computed of sums by tanh, exp and erf is the
same code on equal operands, but for products that are or are not fused with sums (chunks of
the host and of a thread differ in what else is in them): some 16 such places, each of half
a unit, of intermediate values of at most 4, that is 2^-19. Narrower types may round this to
the one or the other side, one unit off."""

import ctypes
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
sys.path.insert(0, sys.argv[4])

import numpy as np
from emulation import Emulator, launches_of
from kernel_builder import NUMPY, Kernel, to_bf16
from programs import call

OPT, CC, FAKES, _, FOLDER, SEED, COUNT = sys.argv[1:8]
FIRST = int(sys.argv[8]) if len(sys.argv) > 8 else 0
# What a block of the larger device has for rows that its registers do not hold.
SHARED = 113 << 10
LIMIT = 2.0**24
# Integers that a type has exactly, as far as tests use them.
EXACT = {"f32": LIMIT, "f64": LIMIT, "bf16": 256, "f16": 2048, "f8E4M3FN": 16, "f8E5M2": 8}
UNIT = {"bf16": 2.0**-7, "f16": 2.0**-10, "f8E4M3FN": 2.0**-3, "f8E5M2": 2.0**-2}
SMALL = [1, 1, 2, 3, 4, 5, 7, 8, 16, 24, 33, 64]
LONG = [100, 128, 255, 257, 512, 1000, 1024, 2052, 4096, 5000, 17000, 20480, 33000]
BATCH = 12


def to_f32(dtype, value, name):
    """Text that makes f32 %name of a value."""
    if dtype in ("bf16", "f16", "f8E4M3FN", "f8E5M2"):
        return "%%%s = arith.extf %s : %s to f32" % (name, value, dtype)
    if dtype == "f64":
        return "%%%s = arith.truncf %s : f64 to f32" % (name, value)
    return "%%%s = arith.%s %s : %s to f32" % (name, "uitofp" if dtype == "i1" else "sitofp", value, dtype)


def from_f32(dtype, value, name):
    if dtype == "f64":
        return "%%%s = arith.extf %s : f32 to f64" % (name, value)
    if dtype == "i1":
        return "%%zero_%s = arith.constant 0.0 : f32\n%%%s = arith.cmpf ogt, %s, %%zero_%s : f32" % (
            name, name, value, name)
    if dtype.startswith("i"):
        return "%%%s = arith.fptosi %s : f32 to %s" % (name, value, dtype)
    return "%%%s = arith.truncf %s : f32 to %s" % (name, value, dtype)


class Maker:
    """A random kernel. What it computes is kept with the dimensions of the domain that
    it has, its type, and the magnitude it can have (None: not an integer)."""

    def __init__(self, rng, name):
        self.rng, self.k = rng, Kernel(name)
        self.sizes = self.choose_sizes()
        self.inputs, self.values, self.returned = [], [], []
        self.names, self.loose = {}, set()
        self.ids = 0

    def choose_sizes(self):
        rng = self.rng
        rank = rng.randint(1, 4)
        sizes = [rng.choice(SMALL) for _ in range(rank)]
        if rng.random() < 0.5:
            sizes[-1] = rng.choice(LONG)
        if rng.random() < 0.15:
            sizes[0] = rng.choice(LONG)
        if rng.random() < 0.05:
            sizes = [rng.choice([65536, 100000, 70001])]
        if rng.random() < 0.06:
            sizes[rng.randrange(rank if len(sizes) == rank else 1)] = 0
        while np.prod(sizes) > 150000:
            big = sizes.index(max(sizes))
            other = [d for d in range(len(sizes)) if d != big and sizes[d] > 1]
            d = rng.choice(other) if other else big
            sizes[d] = max(1, sizes[d] // 2)
        return sizes

    def terms(self, dims):
        return max(1, int(np.prod([self.sizes[d] for d in dims])))

    def shape(self, dims):
        return [self.sizes[d] for d in dims]

    @staticmethod
    def map(dims):
        return ", ".join("d%d" % d for d in dims)

    def layout(self, shape, isOutput):
        """Strides and an offset, or none."""
        rng = self.rng
        if rng.random() < 0.6 or 0 in shape:
            return None
        order = list(range(len(shape)))
        if rng.random() < 0.3:
            rng.shuffle(order)
        strides, at = [0] * len(shape), 1
        pad = rng.choice([0, 0, 1, 3, 4, 8])
        for d in reversed(order):
            strides[d] = at
            at *= shape[d]
            if at > 1:
                at += pad
        if not isOutput and rng.random() < 0.1 and shape:
            strides[rng.randrange(len(shape))] = 0
        return strides, rng.choice([0, 0, 1, 2, 3, 4, 8, 16])

    def input(self, dims, dtype):
        name = "b0_in%d" % len(self.k.inputs)
        self.k.input(name, self.shape(dims), dtype, self.layout(self.shape(dims), False))
        return name

    def output(self, dims, dtype):
        name = "b0_out%d" % len(self.k.outputs)
        self.k.output(name, self.shape(dims), dtype, self.layout(self.shape(dims), True))
        return name

    def operand(self, limit):
        known = [v for v in self.values if all(d < limit for d in v[1])]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        inputs = [v for v in self.inputs if all(d < limit for d in v[1])]
        return self.rng.choice(inputs or known) if inputs or known else None

    def body(self, operands, loops, most, extra=()):
        """Lines that compute f32 %v of the operands, of integers of at most `most`;
        None where it needs no bound."""
        rng, lines, terms = self.rng, list(extra), ["%g"] if extra else []
        for i, (_, _, dtype, bound) in enumerate(operands):
            value = "{%d}" % i
            if dtype != "f32":
                lines.append(to_f32(dtype, value, "x%d" % i))
                value = "%%x%d" % i
            if most and bound is None:
                # Not an integer: its sign is.
                lines += ["%%n%d = arith.constant 0.25 : f32" % i,
                          "%%s%d = arith.cmpf ogt, %s, %%n%d : f32" % (i, value, i),
                          "%%i%d = arith.uitofp %%s%d : i1 to f32" % (i, i)]
                value = "%%i%d" % i
            terms.append(value)
        if loops and rng.random() < 0.25:
            dim = rng.randrange(loops)
            lines += ["%%n = linalg.index %d : index" % dim, "%three = arith.constant 3 : index",
                      "%m = arith.remui %n, %three : index", "%l = arith.index_cast %m : index to i64",
                      "%q = arith.sitofp %l : i64 to f32"]
            terms.append("%q")
        if loops and rng.random() < 0.2:
            a, b = rng.randrange(loops), rng.randrange(loops)
            lines += ["%%ia = linalg.index %d : index" % a, "%%ib = linalg.index %d : index" % b,
                      "%%c = arith.cmpi %s, %%ia, %%ib : index" % rng.choice(["sle", "sgt", "eq", "ult"]),
                      "%u = arith.uitofp %c : i1 to f32"]
            terms.append("%u")
        if not terms:
            lines.append("%one = arith.constant 1.0 : f32")
            terms.append("%one")
        value = terms[0]
        for i, other in enumerate(terms[1:]):
            kind = rng.choice(["addf", "subf", "mulf", "maximumf", "minimumf", "select"])
            if kind == "select":
                lines += ["%%k%d = arith.cmpf olt, %s, %s : f32" % (i, value, other),
                          "%%y%d = arith.select %%k%d, %s, %s : f32" % (i, i, value, other)]
            else:
                lines.append("%%y%d = arith.%s %s, %s : f32" % (i, kind, value, other))
            value = "%%y%d" % i
        if most:
            most = float(int(most))
            lines += ["%%lo = arith.constant %.1f : f32" % -most, "%%hi = arith.constant %.1f : f32" % most,
                      "%%w = arith.maximumf %s, %%lo : f32" % value, "%v = arith.minimumf %w, %hi : f32"]
        else:
            lines += ["%z = math.tanh " + value + " : f32",
                      "%%v = %s %%z : f32" % rng.choice(["math.exp", "math.erf", "math.absf", "arith.negf"])]
        return lines

    def gather(self, loops):
        """Lines that read a row of a table that an id chooses; the operand of ids."""
        rng = self.rng
        rows = rng.choice([1, 3, 10])
        dims = [d for d in range(loops) if rng.random() < 0.6]
        ids = "b0_ids%d" % len(self.k.inputs)
        dtype = rng.choice(["i32", "i64"])
        self.k.input(ids, self.shape(dims), dtype, self.layout(self.shape(dims), False))
        self.names[ids] = rows
        last = loops - 1 if loops else None
        shape = [rows] + ([self.sizes[last]] if loops else [])
        table = "b0_table%d" % len(self.k.inputs)
        self.k.input(table, shape, "f32", self.layout(shape, False))
        lines = ["%%e = arith.index_cast {ID} : %s to index" % dtype]
        if loops:
            lines.append("%%at = linalg.index %d : index" % last)
        lines.append("%%g = tensor.extract %%%s[%%e%s] : %s" % (
            table, ", %at" if loops else "", Kernel.tensor(shape, "f32")))
        return (ids, dims, dtype), lines

    def generic(self, kinds, operands, target, dims, lines):
        return self.k.generic(kinds, [(o[0], self.map(o[1])) for o in operands],
                              [(target, self.map(dims))], "\n".join(lines))

    def elementwise(self, count):
        rng, dims = self.rng, list(range(count))
        operands = [o for o in (self.operand(count) for _ in range(rng.randint(1, 3))) if o]
        dtype = rng.choice(["f32"] * 5 + ["bf16", "f16", "i32", "i8", "i1", "f64"])
        most = 3 if rng.random() < 0.7 or dtype[0] == "i" else None
        extra = ()
        if rng.random() < 0.15:
            ids, extra = self.gather(count)
            extra = [line.replace("{ID}", "{%d}" % len(operands)) for line in extra]
        lines = self.body(operands, count, most, extra)
        if extra:
            operands = operands + [ids]
        value = "%v"
        if dtype != "f32":
            lines.append(from_f32(dtype, "%v", "t"))
            value = "%t"
        lines.append("yield %s : %s" % (value, dtype))
        target = self.k.empty(self.shape(dims), dtype)
        name = self.generic("p" * count, operands, target, dims, lines)
        self.values.append((name, dims, dtype, most))

    def reduce(self, reduced, readable):
        rng, rank = self.rng, len(self.sizes)
        operands = [o for o in (self.operand(rank) for _ in range(rng.randint(0, 2))) if o]
        full = [v for v in self.values if len(v[1]) == rank] + self.inputs[-1:]
        operands.append(rng.choice(full))
        dims = [d for d in range(rank) if d not in reduced]
        dtype = "f32" if readable else rng.choice(["f32"] * 4 + ["bf16", "f64", "i32", "f16"])
        if self.terms(dims) > 65536 or 0 in self.shape(dims):
            dtype = {"bf16": "f32", "f16": "f32"}.get(dtype, dtype)
        op = rng.choice(["add"] * 4 + ["maximum", "minimum", "mul", "maxnum"])
        if dtype == "i32":
            op = {"maximum": "maxsi", "minimum": "minsi", "maxnum": "maxui"}.get(op, op + "i")
        else:
            op += "f"
        limit = EXACT.get(dtype, LIMIT)
        isSum = op in ("addf", "addi")
        # Sums have 0 in them where terms are too many for larger ones.
        most = max(1, min(3, (limit - 4) // self.terms(reduced))) if isSum else 3
        lines = self.body(operands, rank, most)
        if isSum and self.terms(reduced) > limit - 4:
            lines[-1:] = [lines[-1], "%nothing = arith.constant 0.0 : f32"]
            lines = [line.replace("%v =", "%vv =") for line in lines]
            lines.append("%v = arith.mulf %vv, %nothing : f32")
        if op.startswith("mul"):
            # -1, 1 or 2 in one place of many.
            lines += ["%pz = arith.constant 0.0 : f32", "%pc = arith.cmpf olt, %v, %pz : f32",
                      "%pa = arith.constant -1.0 : f32", "%pb = arith.constant 1.0 : f32",
                      "%p = arith.select %pc, %pa, %pb : f32"]
        value = "%p" if op.startswith("mul") else "%v"
        if dtype != "f32":
            lines.append(from_f32(dtype, value, "t"))
            value = "%t"
        lines += ["%%r = arith.%s %s, {o0} : %s" % (op, value, dtype), "yield %%r : %s" % dtype]
        start = {"add": "0", "max": "-3", "min": "3", "mul": "1"}[op[:3]]
        if rng.random() < 0.3:
            start = rng.choice(["1", "-2", "2"])
        start = "3" if op == "maxui" else start if dtype == "i32" else start + ".0"
        # The old value of the row, which the others of its threads read too.
        replaces = readable and rng.random() < 0.3
        if readable and not replaces:
            into = self.k.empty(self.shape(dims), dtype)
        else:
            into = self.output(dims, dtype)
        init = into
        # The host adds in narrow types only from a fill, and side by side.
        isNarrow = dtype in ("bf16", "f16")
        if isNarrow:
            self.k.layouts[into] = None
        if (readable and not replaces) or isNarrow or rng.random() < 0.6:
            init = self.k.fill(start, into)
        name = self.generic("".join("r" if d in reduced else "p" for d in range(rank)),
                            operands, init, dims, lines)
        bound = most * self.terms(reduced) + 4 if isSum else 4
        if readable:
            self.values.append((name, dims, dtype, bound))
        if replaces or not readable:
            self.returned.append((into, name))

    def store(self, value):
        rng = self.rng
        name, dims, dtype, bound = value
        target = rng.choice([dtype, "f32", "bf16", "f64", "f16", "f8E4M3FN"])
        out = self.output(dims, target)
        if bound is None:
            self.loose.add(out)
        lines = []
        x = "{0}"
        if dtype != "f32":
            lines.append(to_f32(dtype, x, "a"))
            x = "%a"
        operands = [(name, dims)]
        if rng.random() < 0.4 and target != "i1":
            lines += [to_f32(target, "{1}", "old") if target != "f32" else "",
                      "%%b = arith.subf %s, %s : f32" % (x, "{1}" if target == "f32" else "%old")]
            x = "%b"
            operands.append((out, dims))
        if target != "f32":
            if target.startswith("i"):
                lines += ["%lo = arith.constant -100.0 : f32", "%hi = arith.constant 100.0 : f32",
                          "%%cl = arith.maximumf %s, %%lo : f32" % x, "%ch = arith.minimumf %cl, %hi : f32"]
                x = "%ch"
            lines.append(from_f32(target, x, "t"))
            x = "%t"
        lines.append("yield %s : %s" % (x, target))
        lines = [line for line in lines if line]
        self.returned.append((out, self.generic("p" * len(dims), operands, out, dims, lines)))

    def make(self):
        rng, rank = self.rng, len(self.sizes)
        for _ in range(rng.randint(0, 4)):
            dims = [d for d in range(rank) if rng.random() < 0.7]
            if rng.random() < 0.15:
                rng.shuffle(dims)
            dtype = rng.choice(["f32"] * 5 + ["bf16", "f16", "i1", "i8", "f64", "i32", "f8E4M3FN", "f8E5M2"])
            self.inputs.append((self.input(dims, dtype), dims, dtype, 3))
        full = list(range(rank))
        dtype = rng.choice(["f32", "f32", "bf16"])
        self.inputs.append((self.input(full, dtype), full, dtype, 3))
        self.elementwise(rank)
        for _ in range(rng.randint(1, 5)):
            choice = rng.random()
            if choice < 0.35:
                self.elementwise(rank)
            elif choice < 0.65 and rank > 1:
                self.reduce([rank - 1], readable=True)
                if rng.random() < 0.5:
                    self.elementwise(rank - 1)
            else:
                reduced = [d for d in range(rank) if rng.random() < 0.6]
                if rng.random() < 0.2:
                    reduced = [rank - 1]
                if reduced:
                    self.reduce(reduced, readable=False)
        stored = [v for v in self.values[:-1] if rng.random() < 0.3] + self.values[-1:]
        for value in stored:
            self.store(value)
        if rng.random() < 0.15:
            dims = [d for d in range(rank) if rng.random() < 0.7]
            out = self.output(dims, "f32")
            self.returned.append((out, self.k.fill("1.5", out)))
        order = {o[0]: i for i, o in enumerate(self.k.outputs)}
        self.returned.sort(key=lambda pair: order[pair[0]])
        return Program(self.k, [name for _, name in self.returned], self.names, self.loose)


class Program:
    """A kernel, one launch of it, and the buffers that the launch gets."""

    def __init__(self, kernel, returned, ids, loose, attributes="mpcomm.kernel"):
        self.name, self.ids, self.loose = kernel.name, ids, loose
        self.arguments = [(n, s, d, kernel.layouts[n]) for n, s, d in kernel.inputs + kernel.outputs]
        self.tensor_form = kernel.module(returned, attributes)
        self.tensor_form = self.tensor_form[: self.tensor_form.index("func.func @caller")]
        self.launch = self.caller(len(kernel.inputs))

    def caller(self, inputs):
        types = []
        for _, shape, dtype, layout in self.arguments:
            text = "x".join([str(n) for n in shape] + [dtype])
            if layout:
                text += ", strided<%s, offset: %d>" % layout
            types.append("memref<%s>" % text)
        names = ["%%a%d" % i for i in range(len(types))]
        text = "func.func @call_%s(%s) {\n  mprt.launch @%s " % (
            self.name, ", ".join("%s: %s" % pair for pair in zip(names, types)), self.name)
        for word, begin, end in (("ins", 0, inputs), ("outs", inputs, len(types))):
            if begin < end:
                text += "%s(%s : %s) " % (word, ", ".join(names[begin:end]), ", ".join(types[begin:end]))
        return text + "\n  return\n}\n"

    def operands(self, random):
        """A flat array for each argument and the element that its buffer begins at."""
        made = []
        for name, shape, dtype, layout in self.arguments:
            size, offset = int(np.prod(shape)), 0
            if layout:
                strides, offset = layout
                size = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides))
            if name in self.ids:
                values = random.integers(0, self.ids[name], size)
            elif dtype == "i1":
                values = random.integers(0, 2, size)
            else:
                values = random.integers(-3, 4, size)
            made.append((encode(values, dtype), offset))
        return made


def encode(values, dtype):
    """Numbers in `dtype`; small integers where it has 8 bits."""
    if dtype in ("bf16", "f8E5M2", "f8E4M3FN"):
        if dtype == "bf16":
            return to_bf16(values.astype(np.float32))
        if dtype == "f8E5M2":
            return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)
        table = {0: 0x00, 1: 0x38, 2: 0x40, 3: 0x44}
        return np.array([table[abs(v)] | (0x80 if v < 0 else 0) for v in values.tolist()], np.uint8)
    return values.astype(NUMPY[dtype])


def decode(array, dtype):
    """What is compared."""
    if dtype == "f8E4M3FN":
        code = (array & 0x7F).astype(np.int32)
        scale = np.where(code < 8, code * 2.0**-9, np.ldexp(1 + (code & 7) / 8, (code >> 3) - 7))
        return np.where(code == 0x7F, np.nan, scale) * np.where(array & 0x80, -1, 1)
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if dtype == "f8E5M2":
        return (array.astype(np.uint16) << 8).view(np.float16)
    return array


class Scatter(Program):
    """Slices combined by indices, some of them out of range or skipped."""

    def __init__(self, rng, name):
        count = rng.choice([[1], [5], [7, 33], [2500], [4, 600], [0], []])
        self.size, trail = rng.choice([1, 2, 7, 300, 1000]), rng.choice([[], [1], [3], [8], [32], [100], [260], [1030], [3, 7]])
        # Few planes, and many that have few indices.
        batch, planes = rng.choice([([], []), ([], []), ([3], []), ([], [5]), ([2], [3]), ([300], []), ([2, 60], [])])
        if np.prod(batch + planes + [1.0]) * max(np.prod(count + trail), np.prod([self.size] + trail)) > 600000:
            count, self.size, trail = [5], 7, rng.choice([[], [3]])
        target, updates = batch + planes + [self.size] + trail, batch + planes + count + trail
        kind = rng.choice(["sum", "sum", "prod", "min", "max", "replace"])
        dtype = rng.choice(["f32", "f32", "f64", "i32", "i1", "i8"] + (["bf16", "f16"] if kind not in ("sum", "prod") else []))
        kernel, maker = Kernel(name), Maker(rng, name)
        for argument, shape, of in (("dy", updates, dtype), ("ids", batch + count, rng.choice(["i32", "i64"]))):
            kernel.input(argument, shape, of, maker.layout(shape, False))
        kernel.output("to", target, dtype, maker.layout(target, True))
        to = kernel.fill({"f": "1.0", "b": "1.0", "i": "1"}[dtype[0]], "to") if rng.random() < 0.5 else "to"
        more = rng.choice(["", "clamp", "clamp skipped = %d" % (self.size - 1), "skipped = 0"])
        returned = kernel.scatter(kind, "dy", "ids", to, len(batch + planes), len(batch), more)
        super().__init__(kernel, [returned], {}, set())

    def operands(self, random):
        made = super().operands(random)
        ids, offset = made[1]
        ids[:] = random.integers(-2, self.size + 3, ids.shape)
        return made


def many_values(rng, name):
    """A short row of more values than registers, with sums of columns."""
    kernel, columns = Kernel(name), rng.choice([32, 48, 160])
    full, lines, terms = "d0, d1", [], []
    for i in range(rng.randint(8, 10)):
        kernel.input("b0_in%d" % i, [50, columns], "bf16")
        lines.append(to_f32("bf16", "{%d}" % i, "x%d" % i))
        terms.append("%%x%d" % i)
    for i, term in enumerate(terms[1:]):
        lines.append("%%y%d = arith.addf %s, %s : f32" % (i, "%%y%d" % (i - 1) if i else terms[0], term))
    last = "%%y%d" % (len(terms) - 2)
    operands = [(n, full) for n, _, _ in kernel.inputs]
    kernel.output("b0_sum", [columns], "bf16")
    kernel.output("b0_all", [50, columns], "bf16")
    add = lines + ["%%r = arith.addf %s, {o0} : f32" % last, "yield %r : f32"]
    total = kernel.generic("pr", operands, [(kernel.fill("0.0", kernel.empty([50])), "d0")], "\n".join(add))
    narrow = lines + ["%%t = arith.truncf %s : f32 to bf16" % last, "%r = arith.addf %t, {o0} : bf16", "yield %r : bf16"]
    columns_of = kernel.generic("rp", operands, [(kernel.fill("0.0", "b0_sum"), "d1")], "\n".join(narrow))
    more = lines + ["%%z = arith.addf %s, {%d} : f32" % (last, len(terms)), "%l = arith.constant -3.0 : f32",
                    "%h = arith.constant 3.0 : f32", "%c = arith.maximumf %z, %l : f32",
                    "%d = arith.minimumf %c, %h : f32", "%t = arith.truncf %d : f32 to bf16", "yield %t : bf16"]
    everything = kernel.generic("pp", operands + [(total, "d0")], [("b0_all", full)], "\n".join(more))
    return Program(kernel, [columns_of, everything], {}, set())


def few_terms(rng, name):
    """Many sums of few rows each, for which blocks of a small device have too many groups of threads."""
    maker, dtype = Maker(rng, name), rng.choice(["bf16", "f16", "f32"])
    kernel, columns, rows = maker.k, rng.choice([1, 3, 8, 24, 33, 64, 100, 260]), rng.randint(1, 9)
    sums = min(rng.choice([50, 192, 200, 384, 768, 1536]), 400000 // (columns * rows))
    full = [sums, rows, columns]
    kernel.input("x", full, dtype, maker.layout(full, False))
    kernel.input("b", [columns], "f32")
    kernel.output("sum", [sums, columns], "f32")
    wide = [to_f32(dtype, "{0}", "x")] if dtype != "f32" else ["%z = arith.constant -0.0 : f32", "%x = arith.addf {0}, %z : f32"]
    operands = [("x", "d0, d1, d2"), ("b", "d2")]
    body = wide + ["%y = arith.addf %x, {1} : f32", "%r = arith.addf %y, {o0} : f32", "yield %r : f32"]
    start = kernel.fill("0.0", "sum") if rng.random() < 0.5 else "sum"
    returned = [kernel.generic("prp", operands, [(start, "d0, d2")], "\n".join(body))]
    if rng.random() < 0.5:
        kernel.output("all", full, "f32")
        body = wide + ["%y = arith.addf %x, {1} : f32", "%r = arith.addf %y, %y : f32", "yield %r : f32"]
        returned.append(kernel.generic("ppp", operands, [("all", "d0, d1, d2")], "\n".join(body)))
    return Program(kernel, returned, {}, set())


def copy(rng, name):
    """A copy in another order of dimensions, by which kernels transpose tiles."""
    maker = Maker(rng, name)
    sizes = [rng.choice(SMALL + [63, 64, 65, 80, 128, 192, 1000]) for _ in range(rng.randint(2, 4))]
    while np.prod(sizes) > 150000:
        sizes[sizes.index(max(sizes))] //= 2
    maker.sizes, order = sizes, list(range(len(sizes)))
    rng.shuffle(order)
    dtype = rng.choice(["f8E4M3FN", "f8E5M2", "bf16", "f16", "f32", "i8", "i32", "i1", "f64"])
    source, target = maker.input(order, dtype), maker.output(range(len(sizes)), dtype)
    made = maker.generic("p" * len(sizes), [(source, order)], target, range(len(sizes)), ["yield {0} : %s" % dtype])
    return Program(maker.k, [made], {}, set())


class Targets(Program):
    """What a loss does with a target a row, of integers: the greatest element, that of the target's
    column, and in place of the elements twice them without one at the target; nothing in rows to
    ignore. Some targets are no columns."""

    def __init__(self, rng, name):
        rows, self.columns = rng.choice([1, 3, 40, 300]), rng.choice([1, 7, 24, 64, 512, 1000, 3000, 20488])
        rows = max(1, min(rows, 400000 // self.columns))
        self.dtype, self.index = rng.choice(["bf16", "f16", "f32"]), rng.choice(["i32", "i64"])
        replaces, kernel, maker = rng.random() < 0.5, Kernel(name), Maker(rng, name)
        if not replaces:
            kernel.input("x", [rows, self.columns], self.dtype, maker.layout([rows, self.columns], False))
        kernel.input("ids", [rows], self.index)
        kernel.output("greatest", [rows], "f32")
        kernel.output("picked", [rows], "f32")
        kernel.output("all", [rows, self.columns], self.dtype, maker.layout([rows, self.columns], True))
        elements, full = "all" if replaces else "x", "d0, d1"
        start = "0xFF800000" if rng.random() < 0.5 else "-2.0"
        wide = [to_f32(self.dtype, "{0}", "x")] if self.dtype != "f32" else ["%z = arith.constant -0.0 : f32", "%x = arith.addf {0}, %z : f32"]
        hit = ["%i = linalg.index 1 : index", "%%c = arith.index_cast %%i : index to %s" % self.index,
               "%%e = arith.cmpi eq, %s : %s" % (rng.choice(["%c, {1}", "{1}, %c"]), self.index),
               "%zero = arith.constant 0.0 : f32", "%one = arith.constant 1.0 : f32"]
        best = kernel.generic("pr", [(elements, full)], [(kernel.fill(start, "greatest"), "d0")], "\n".join(
            wide + ["%%r = arith.%s {o0}, %%x : f32" % rng.choice(["maximumf", "maxnumf"]), "yield %r : f32"]))
        picked = kernel.generic("pr", [(elements, full), ("ids", "d0")], [(kernel.fill("0.0", "picked"), "d0")], "\n".join(
            wide + hit + ["%s = arith.select %e, %x, %zero : f32", "%r = arith.addf {o0}, %s : f32", "yield %r : f32"]))
        narrow = ["%%r = arith.truncf %%v : f32 to %s" % self.dtype, "yield %%r : %s" % self.dtype]
        more = rng.choice([[("0", best)], [("0", best), ("1", picked)]])
        terms, lines = [(elements, full), ("ids", "d0")], []
        for i, (_, value) in enumerate(more):
            terms.append((value, "d0"))
            lines.append("%%t%d = arith.addf %s, {%d} : f32" % (i, "%%t%d" % (i - 1) if i else "%y", i + 2))
        lines += ["%%s = arith.select %%e, %%one, %%zero : f32", "%%w = arith.subf %%t%d, %%s : f32" % (len(more) - 1),
                  "%%n = arith.constant -100 : %s" % self.index, "%%k = arith.cmpi ne, {1}, %%n : %s" % self.index,
                  "%%v = arith.select %%k, %%w, %%zero : f32"]  # fmt: skip
        lines = [line.replace("%%", "%") for line in lines]
        all_of = kernel.generic("pp", terms, [("all", full)], "\n".join(
            wide + hit + ["%y = arith.addf %x, %x : f32"] + lines + (narrow if self.dtype != "f32" else ["yield %v : f32"])))
        super().__init__(kernel, [best, picked, all_of], {}, set())

    def operands(self, random):
        made = super().operands(random)
        for (ids, _), (name, _, _, _) in zip(made, self.arguments):
            if name == "ids":
                ids[:] = random.choice([random.integers(0, self.columns, ids.shape), random.integers(-2, self.columns + 2, ids.shape)])
                ids[random.random(ids.shape) < 0.1] = -100
        return made


class Pool:
    """A pool or the gradient of one, compared with plain loops."""

    def __init__(self, rng, name):
        self.name, self.loose = name, set()
        self.kind = rng.choice(["max_pool", "avg_pool", "max_pool_grad", "avg_pool_grad"])
        self.dtype = rng.choice(["f32", "f32", "bf16", "f16"])
        self.window = [rng.randint(1, 3), rng.randint(1, 4)]
        self.strides = [rng.randint(1, 3), rng.randint(1, 4)]
        self.low = [rng.randint(0, w - 1) for w in self.window]
        self.high = [rng.randint(0, w - 1) for w in self.window]
        sizes = [rng.randint(w, 13) for w in self.window]
        made = [(n + l + h - w) // s + 1
                for n, l, h, w, s in zip(sizes, self.low, self.high, self.window, self.strides)]
        batch = [rng.choice([0, 1, 2, 3]), rng.choice([1, 5, 8])]
        self.last, self.counts = rng.random() < 0.4, rng.random() < 0.4 and self.kind.startswith("avg")
        x, y = batch + sizes, batch + made
        shapes = {"max_pool": [x, y], "avg_pool": [x, y], "max_pool_grad": [y, x, x], "avg_pool_grad": [y, x]}[self.kind]
        if self.last:
            shapes = [[s[0], s[2], s[3], s[1]] for s in shapes]
        self.arguments = [("operand%d" % i, shape, self.dtype, None) for i, shape in enumerate(shapes)]
        types = ["memref<%s>" % "x".join([str(n) for n in s] + [self.dtype]) for s in shapes]
        names = ["%%a%d" % i for i in range(len(types))]
        self.tensor_form, self.launch = "", (
            "func.func @call_%s(%s) {\n  mprt.pool \"%s\" window = %s strides = %s low = %s high = %s"
            " %s%sins(%s : %s) outs(%s : %s)\n  return\n}\n" % (
                name, ", ".join("%s: %s" % pair for pair in zip(names, types)), self.kind, self.window, self.strides,
                self.low, self.high, "channels_last " if self.last else "", "count_padding " if self.counts else "",
                ", ".join(names[:-1]), ", ".join(types[:-1]), names[-1], types[-1]))

    def operands(self, random):
        made = []
        for _, shape, _, _ in self.arguments:
            values = random.integers(-3, 4, int(np.prod(shape))).astype(np.float32)
            if self.kind.startswith("max"):
                values[random.random(values.shape) < 0.03] = np.nan
                # All of a window, where that is small.
                values[random.random(values.shape) < random.choice([0.03, 0.7])] = -np.inf
            made.append((encode(values, self.dtype), 0))
        return made

    def run(self, arrays):
        """Leaves the result in the last array."""
        images = []
        for (array, _), (_, shape, dtype, _) in zip(arrays, self.arguments):
            image = decode(array, dtype).astype(np.float32).reshape(shape)
            images.append(image.transpose(0, 3, 1, 2) if self.last else image)
        isGrad = self.kind.endswith("grad")
        x, y = (images[-1], images[0]) if isGrad else (images[0], images[-1])
        values = images[1] if self.kind == "max_pool_grad" else x
        made = np.zeros_like(images[-1])
        for p in range(y.shape[2]):
            for q in range(y.shape[3]):
                places = [(h, w) for h in range(p * self.strides[0] - self.low[0], p * self.strides[0] - self.low[0] + self.window[0])
                          for w in range(q * self.strides[1] - self.low[1], q * self.strides[1] - self.low[1] + self.window[1])
                          if 0 <= h < x.shape[2] and 0 <= w < x.shape[3]]  # fmt: skip
                count = np.float32(self.window[0] * self.window[1] if self.counts else len(places))
                inside = np.stack([values[:, :, h, w] for h, w in places])
                # argmax finds the first, and NaNs before all numbers.
                first = inside.argmax(0) if inside.size else None
                if self.kind == "max_pool":
                    made[:, :, p, q] = inside.max(0)
                elif self.kind == "avg_pool":
                    made[:, :, p, q] = inside.sum(0) / count
                for i, (h, w) in enumerate(places if isGrad and inside.size else []):
                    part = y[:, :, p, q] / count if self.kind == "avg_pool_grad" else np.where(first == i, y[:, :, p, q], np.float32(0))
                    made[:, :, h, w] += part
        if self.last:
            made = made.transpose(0, 2, 3, 1)
        arrays[-1][0][:] = encode(np.ascontiguousarray(made).ravel(), self.dtype)


def compile_host(emulator, text, path):
    if emulator.is_real:
        with open(path + ".json") as file:
            return ctypes.CDLL(path), json.load(file)
    generated = call([OPT, "--mpcomm-generate-kernels"], text.encode()).decode()
    names = dict(re.findall(r"func\.func @call_(\w+)\(.*?mprt\.launch @(\w+)", generated, re.S))
    generated = re.sub(r"  func\.func @call_.*?\n  }\n", "", generated, flags=re.S)
    generated = generated.replace("func.func private @", "func.func @")
    emulator.link(call([OPT, "--mpcomm-kernels-to-llvm"], generated.encode()), path)
    with open(path + ".json", "w") as out:
        json.dump(names, out)
    return ctypes.CDLL(path), names


def check(emulator, driver, programs):
    """How many kernels differ or do not compile."""
    text = "".join(p.tensor_form + p.launch for p in programs)
    path = os.path.join(FOLDER, "%s-%d" % (programs[0].name, len(programs)))
    with open(path + ".mlir", "w") as file:
        file.write(text)
    modules = []
    try:
        if programs[0].tensor_form:
            host, names = compile_host(emulator, text, path + ".host.so")
        for processors in (3, 132):
            image = "%s.%d.so" % (path, processors)
            generated = emulator.generate(text, image, processors=processors, shared=SHARED if processors > 3 else 0)
            if not emulator.packs:
                modules.append((processors, driver.load(image), launches_of(generated, random.Random(path))))
    except SystemExit as error:
        if len(programs) > 1:
            return sum(check(emulator, driver, [p]) for p in programs)
        print("FAIL: %s (%s.mlir)\n%s" % (programs[0].name, path, error))
        return 1
    failures = 0
    for program in programs if modules else ():
        seed = int(re.sub(r"\D", "", program.name) or 0)
        expected = program.operands(np.random.default_rng(seed))
        if program.tensor_form:
            getattr(host, names[program.name])(
                *[ctypes.c_void_p(a.ctypes.data + o * a.itemsize) for a, o in expected])
        else:
            program.run(expected)
        for processors, module, launches in modules:
            got = program.operands(np.random.default_rng(seed))
            try:
                driver.run(module, launches[program.name], got)
            except RuntimeError as error:
                # What is left of a context after an error is of no use.
                sys.exit("FAIL: %s, %d processors: %s (%s.mlir)" % (program.name, processors, error, path))
            differences = 0
            for (name, shape, dtype, _), (x, _), (y, _) in zip(program.arguments, got, expected):
                x, y = decode(x, dtype), decode(y, dtype)
                bad = ~((x == y) | ((x != x) & (y != y)))
                if name in program.loose:
                    unit = 2.0**-19 + UNIT.get(dtype, 0.0) * np.abs(y.astype(np.float64))
                    bad &= ~(np.abs(x.astype(np.float64) - y.astype(np.float64)) <= unit)
                if bad.any():
                    at, differences = int(np.argmax(bad)), differences + 1
                    print("FAIL: %s, %d processors: %s, %s of %s: %d of %d differ, element %d is %r, expected %r (%s.mlir)"
                          % (program.name, processors, name, shape, dtype, bad.sum(), bad.size, at, x[at], y[at], path))
            failures += differences > 0
    return failures


def main():
    os.environ["MPFAKE_SEED"] = SEED
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    driver = emulator.driver()
    print("seed", SEED)
    numbers = range(FIRST, FIRST + int(COUNT))
    def some(make, name, share):
        return [make(random.Random("%s %s %d" % (name, SEED, n)), "%s%d" % (name, n)) for n in numbers if n % share == 0]

    kinds = [some(lambda rng, name: Maker(rng, name).make(), "k", 1), some(copy, "c", 2), some(many_values, "m", 16), some(few_terms, "f", 4),
             some(Scatter, "s", 2), some(Pool, "p", 2), some(Targets, "t", 2)]  # fmt: skip
    failures = sum(check(emulator, driver, kind[i : i + BATCH]) for kind in kinds for i in range(0, len(kind), BATCH))
    if failures:
        sys.exit("%d kernels differ" % failures)
    print("%d kernels agree" % sum(len(kind) for kind in kinds))


main()
