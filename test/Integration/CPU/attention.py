# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# Attention and its gradient, written as ops: what the formulas of mpcomm.attention give
# in f64, in three types, with a mask, a bias, neither, and both (safe, and a row with nothing), of a
# depth that kernels of GPUs take and of one that they do not. Here on the processor; on the
# fake GPU in ../CUDA/attention-ops.test.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands are at most 1. Let S be the largest scaled score, with its bias or without, P the
largest gradient of a probability, G its largest difference from its row's mean, C the largest sum of a column's
probabilities, all of the exact values; u the unit roundoff of the operands' type,
w = n 2^-24 for sums of up to n terms. A scaled score is off by at most
e = u S + scale D w, each of its probabilities by the factor 1 + 2 e, and by 1 + u where it
is rounded. Hence, to first order:
  out                            2 e + 2 u + w
  lse                            e + w (S + log of the columns)
  gradients of probabilities     g = u P + D w; less their row's mean 2 g + 2 e P
  gradients of scores            d = scale (2 e G + 2 g + 2 e P + u G), relative to p
A sum over a row has weights p that add up to 1, one over a column to at most C; each is
rounded once. The gradient of the bias, which is the same for all heads, is a sum over heads of gradients
that are neither scaled nor rounded, with weights of at most A. A fifth is added for higher orders."""

import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from emulation import Emulator
from programs import read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:4]
# For the fake GPU: in place of mpcomm-compile mpcomm-opt, and then the C compiler and the
# folder of the fake libraries.
EMULATION = sys.argv[4:]
B, SQ, SK, H, SCALE = 2, 5, 7, 3, 0.375
# Stands for the -inf of lse, in rows with nothing: a run ends with what is not finite.
NOTHING = -77.0
UNITS = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}
RESULTS, INPUTS, D = {}, {}, 0


def set_depth(depth):
    """6 is for no kernel of a GPU, 16 for those of 16 bits."""
    global D
    D, rows, columns = depth, (B, SQ, H, depth), (B, SK, H, depth)
    RESULTS.update(out=rows, lse=(B, H, SQ), dq=rows, dk=columns, dv=columns)
    INPUTS.update(q=rows, k=columns, v=columns, g=rows, m=(SQ, SK), a=(B, 1, SQ, SK))


def tensor(shape, element):
    return "tensor<%sx%s>" % ("x".join(map(str, shape)), element)


def make_step(element, masked, biased, safe):
    """The step: buffers of f32 come in, and what the ops give goes out."""
    RESULTS["lse"] = (B, H, SQ, 2) if biased else (B, H, SQ)
    RESULTS.pop("da", None)
    if biased:
        RESULTS["da"] = INPUTS["a"]
    lines, arguments = [], ['%b: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "b"}']
    for name, shape in INPUTS.items():
        arguments.append('%%%s: %s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "%s"}'
                         % (name, tensor(shape, "f32"), name))  # fmt: skip
    for index, (name, shape) in enumerate(RESULTS.items()):
        arguments.append('%%%s.old: %s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "%s", mpcomm.donated = %d : i64}'
                         % (name, tensor(shape, "f32"), name, index + 1))  # fmt: skip
    for name in "qkvg":
        narrow, wide = tensor(INPUTS[name], element), tensor(INPUTS[name], "f32")
        lines.append("%%%s.n = arith.truncf %%%s : %s to %s" % (name, name, wide, narrow))
    q, k = tensor(INPUTS["q"], element), tensor(INPUTS["k"], element)
    lse, mask = tensor(RESULTS["lse"], "f32"), tensor(INPUTS["m"], "i1")
    lines.append("%%zero = arith.constant dense<0.0> : %s" % tensor(INPUTS["m"], "f32"))
    lines.append("%%m.n = arith.cmpf one, %%m, %%zero : %s" % tensor(INPUTS["m"], "f32"))
    word, last = (" mask %m.n", ", " + mask) if masked else ("", "")
    safely = " safe" * safe
    grads, of_bias = "%dq.n, %dk.n, %dv.n", ""
    if biased:
        word, last = word + " bias %a", last + ", " + tensor(INPUTS["a"], "f32")
        grads, of_bias = grads + ", %da", ", " + tensor(INPUTS["a"], "f32")
    lines.append("%%out.n, %%lse = mpcomm.attention %%q.n, %%k.n, %%v.n%s scale = %r%s : (%s, %s, %s%s) -> (%s, %s)"
                 % (word, SCALE, safely, q, k, k, last, q, lse))  # fmt: skip
    lines.append("%s = mpcomm.attention_grad %%g.n, %%q.n, %%k.n, %%v.n, %%out.n, %%lse%s scale = %r%s%s "
                 ": (%s, %s, %s, %s, %s, %s%s) -> (%s, %s, %s%s)"
                 % (grads, word, SCALE, safely, " bias_grad" * biased, q, q, k, k, q, lse, last, q, k, k, of_bias))  # fmt: skip
    for name in ("out", "dq", "dk", "dv"):
        narrow, wide = tensor(RESULTS[name], element), tensor(RESULTS[name], "f32")
        lines.append("%%%s = arith.extf %%%s.n : %s to %s" % (name, name, narrow, wide))
    text = "\n  ".join(lines)
    if element == "f32":  # nothing to cast
        text = "\n  ".join(line for line in lines if "truncf" not in line and "extf" not in line)
        for name in list("qkvg") + ["out", "dq", "dk", "dv"]:
            text = text.replace("%%%s.n" % name, "%%%s" % name)
    types = [tensor(shape, "f32") for shape in RESULTS.values()]
    text += """
  %%inf = arith.constant dense<0xFF800000> : %s
  %%nothing = arith.constant dense<%r> : %s
  %%is.nothing = arith.cmpf oeq, %%lse, %%inf : %s
  %%lse.finite = arith.select %%is.nothing, %%nothing, %%lse : %s, %s""" % (
        lse, NOTHING, lse, lse, tensor(RESULTS["lse"], "i1"), lse)  # fmt: skip
    returned = ["%lse.finite" if name == "lse" else "%" + name for name in RESULTS]
    results = ['%s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "%s"}' % pair for pair in zip(types, RESULTS)]
    return """func.func @train_step(%s)
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}, %s) {
  %%l = mpcomm.reduce sum %%b, dims = [0] : (tensor<1xf32>) -> tensor<f32>
  %s
  return %%l, %s : tensor<f32>, %s
}
""" % (", ".join(arguments), ", ".join(results), text, ", ".join(returned), ", ".join(types))


def at(values, shape, *index):
    position = 0
    for size, i in zip(shape, index):
        position = position * size + i
    return values[position]


def compute(inputs, masked, biased):
    """The formulas of the ops, and the sizes that bounds need."""
    largest = {"S": 0.0, "P": 0.0, "G": 0.0}
    columns, places = [0.0] * (B * H * SK), [0.0] * (B * SQ * SK)
    results = {name: [0.0] * math.prod(shape) for name, shape in RESULTS.items()}

    def row(name, b, i, h):
        return [at(inputs[name], INPUTS[name], b, i, h, d) for d in range(D)]

    def add(name, value, *index):
        shape, position = RESULTS[name], 0
        for size, i in zip(shape, index):
            position = position * size + i
        results[name][position] += value

    def dot(x, y):
        return math.fsum(a * b for a, b in zip(x, y))

    for b in range(B):
        for h in range(H):
            for i in range(SQ):
                kept = [j for j in range(SK) if not masked or at(inputs["m"], INPUTS["m"], i, j)]
                if not kept:  # zeros, and nothing in gradients
                    for index in [(0,), (1,)] if biased else [()]:
                        add("lse", NOTHING, b, h, i, *index)
                    continue
                scores = {j: SCALE * dot(row("q", b, i, h), row("k", b, j, h)) for j in kept}
                largest["S"] = max([largest["S"]] + [abs(x) for x in scores.values()])
                if biased:
                    scores = {j: s + at(inputs["a"], INPUTS["a"], b, 0, i, j) for j, s in scores.items()}
                lse = math.log(math.fsum(math.exp(s) for s in scores.values()))
                if biased:
                    add("lse", max(scores.values()), b, h, i, 0)
                    add("lse", lse - max(scores.values()), b, h, i, 1)
                else:
                    add("lse", lse, b, h, i)
                p = {j: math.exp(s - lse) for j, s in scores.items()}
                dp = {j: dot(row("g", b, i, h), row("v", b, j, h)) for j in kept}
                mean = math.fsum(p[j] * dp[j] for j in kept)
                sizes = {"S": scores.values(), "P": dp.values(), "G": [x - mean for x in dp.values()]}
                for name, values in sizes.items():
                    largest[name] = max([largest[name]] + [abs(x) for x in values])
                for j in kept:
                    columns[(b * H + h) * SK + j] += p[j]
                    places[(b * SQ + i) * SK + j] += p[j]
                    if biased:
                        add("da", p[j] * (dp[j] - mean), b, 0, i, j)
                    ds = SCALE * p[j] * (dp[j] - mean)
                    for d in range(D):
                        add("out", p[j] * row("v", b, j, h)[d], b, i, h, d)
                        add("dq", ds * row("k", b, j, h)[d], b, i, h, d)
                        add("dk", ds * row("q", b, i, h)[d], b, j, h, d)
                        add("dv", p[j] * row("g", b, i, h)[d], b, j, h, d)
    largest["C"], largest["A"] = max(columns), max(places)
    return results, largest


def get_bounds(u, S, P, G, C, A):
    w = 2.0**-24 * max(SQ, SK, D)
    e = u * S + SCALE * D * w
    g = u * P + D * w
    d = SCALE * (2 * e * G + 2 * g + 2 * e * P + u * G) + (u + w) * SCALE * G
    bounds = {
        "out": 2 * e + 2 * u + w,
        "lse": e + w * (S + math.log(SK)),
        "dq": d,
        "dk": max(1, C) * d,
        "dv": max(1, C) * (2 * e + 2 * u + w),
        "da": A * (2 * e * G + 2 * g + 2 * e * P + w * G),
    }
    return {name: 1.2 * bound for name, bound in bounds.items()}


def path(name):
    return os.path.join(FOLDER, name)


def compile_step():
    """The program, and how to run it."""
    if not EMULATION:
        run(COMPILE, path("step.mlir"), "-o", path("step.so"), "--np", 1)
        return path("step.so"), []
    emulator = Emulator(COMPILE, *EMULATION, FOLDER)
    os.environ.update(emulator.environment)
    return emulator.compile(path("step.mlir"), "step"), ["--device", "cuda"]


def main(depth):
    set_depth(depth)
    os.makedirs(FOLDER, exist_ok=True)
    source = random.Random(1)
    # Few bits, so that every type holds them as they are.
    inputs = {name: [source.randrange(-16, 17) / 16 for _ in range(math.prod(shape))]
              for name, shape in INPUTS.items() if name != "m"}  # fmt: skip
    # Each row keeps a column.
    inputs["m"] = [float(j == i or source.random() < 0.5) for i in range(SQ) for j in range(SK)]
    state = {name: (list(shape), inputs[name]) for name, shape in INPUTS.items()}
    last_row = inputs["m"][-SK:]
    write_tensors(path("d"), {"b": ([1], [0.0])})
    for element, u in UNITS.items():
        for masked, biased, safe in ((False,) * 3, (True, False, False), (False, True, False), (True,) * 3):
            with open(path("step.mlir"), "w") as file:
                file.write(make_step(element, masked, biased, safe))
            # Of the last row nothing is kept then.
            state["m"][1][-SK:] = [0.0] * SK if safe else last_row
            state.update({name: (list(shape), [0.0] * math.prod(shape)) for name, shape in RESULTS.items()})
            write_tensors(path("w"), state)
            program, options = compile_step()
            run(RUN, program, "--np", 1, "--weights", path("w"), "--data", path("d"), "--steps", 1,
                "--quiet", "--save-weights", path("out"), *options)  # fmt: skip
            results, largest = compute(inputs, masked, biased)
            found, bounds = read_tensors(path("out")), get_bounds(u, **largest)
            for name, expected in results.items():
                worst = max(abs(a - b) if a == a else math.inf for a, b in zip(found[name], expected))
                print("depth %d, %s%s%s, %s: %.1e off (bound %.1e, largest %.1e)"
                      % (D, element, " masked" * masked, " biased, safe" * biased if safe else " biased" * biased, name, worst, bounds[name], max(map(abs, expected))))  # fmt: skip
                if not worst <= bounds[name]:
                    sys.exit("too much")


for depth in (6, 16):
    main(depth)
