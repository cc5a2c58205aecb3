# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %mpcomm_obj_root/test/lib/FakeCuda %t.dir
#
# Order, running totals and random numbers by the kernels of a GPU, which the fake driver
# runs thread by thread, are bit for bit those of the processor: rows ordered by counting,
# by blocks and by merging, along the last dimension and another one, of several types.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One step whose results are buffers. Normal numbers may differ where products are
fused with sums: by some 2^-24 of their size."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from emulation import Emulator, call
from programs import read_tensors, run, write_tensors

OPT, RUN, CC, FAKES, FOLDER = sys.argv[1:]
INPUTS = {"x": (3, 70), "y": (2, 5, 6), "z": (2, 1100)}


def tensor(shape, dtype="f32"):
    return "tensor<%s%s>" % ("".join("%dx" % n for n in shape), dtype)


class Graph:
    def __init__(self):
        self.body, self.results = [], []

    def add(self, shape, dtype, text):
        """An op of one result, or two of which the first is wanted, in f32."""
        name = "%%r%d" % len(self.results)
        self.body.append("  " + text.replace("%r", name))
        if dtype != "f32":
            cast = "sitofp" if dtype.startswith("i") else "truncf" if dtype == "f64" else "extf"
            self.body.append("  %sf = arith.%s %s : %s to %s" % (
                name, cast, name, tensor(shape, dtype), tensor(shape)))
            name += "f"
        self.results.append((name, shape))

    def text(self):
        arguments = ["%%%s: %s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = \"%s\"}" % (n, tensor(s), n)
                     for n, s in INPUTS.items()]
        arguments.append('%b: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "b"}')
        arguments.append('%seed: tensor<2xi32> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"}')
        types, values = ['tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}'], ["%l"]
        for i, (value, shape) in enumerate(self.results):
            arguments.append("%%o%d: %s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = \"o%d\", mpcomm.donated = %d : i64}"
                             % (i, tensor(shape), i, i + 1))  # fmt: skip
            types.append("%s {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = \"o%d\"}" % (tensor(shape), i))
            values.append(value)
        kinds = ", ".join(["tensor<f32>"] + [tensor(s) for _, s in self.results])
        return ("func.func @train_step(%s) -> (%s) {\n  %%l = mpcomm.reduce sum %%b, dims = [0] : (tensor<1xf32>) -> tensor<f32>\n"
                "%s\n  return %s : %s\n}\n") % (", ".join(arguments), ", ".join(types), "\n".join(self.body),
                                              ", ".join(values), kinds)  # fmt: skip


def make():
    g, counts = Graph(), {}

    def converted(name, dtype):
        shape = INPUTS[name]
        if dtype == "f32":
            return "%" + name
        value = "%%%s_%s" % (name, dtype)
        if value not in counts:
            counts[value] = True
            op = "fptosi" if dtype.startswith("i") else "extf" if dtype == "f64" else "truncf"
            g.body.append("  %s = arith.%s %%%s : %s to %s" % (value, op, name, tensor(shape), tensor(shape, dtype)))
        return value

    for name, dim, k, dtype, more in [("x", 1, 3, "f32", "largest"), ("x", 1, 70, "bf16", ""), ("x", 0, 2, "i32", ""),
                                      ("y", 1, 5, "f64", "largest"), ("y", 2, 1, "i8", ""), ("z", 1, 2, "f32", "largest"),
                                      ("z", 1, 900, "f32", ""), ("z", 1, 1, "f32", ""), ("z", 1, 30, "i64", "largest")]:  # fmt: skip
        shape = list(INPUTS[name])
        shape[dim] = k
        for want in 0, 1:
            t, i = tensor(shape, dtype), tensor(shape, "i64")
            results = "%r, %r_i" if want == 0 else "%r_v, %r"
            g.add(shape, "i64" if want else dtype, "%s = mpcomm.top_k %s, dim = %d, k = %d %s : (%s) -> (%s, %s)" % (
                results, converted(name, dtype), dim, k, more, tensor(INPUTS[name], dtype), t, i))
    for name, dim, kind, dtype in [("x", 1, "sum", "f32"), ("x", 0, "prod", "f32"), ("y", 1, "sum", "bf16"),
                                   ("z", 1, "sum", "f32"), ("z", 1, "max", "i32"), ("y", 2, "min", "f64"),
                                   ("x", 1, "sum", "i8")]:  # fmt: skip
        for reverse in "", "reverse":
            t = tensor(INPUTS[name], dtype)
            g.add(INPUTS[name], dtype, "%%r = mpcomm.cumulative %s %s, dim = %d %s : (%s) -> %s" % (
                kind, converted(name, dtype), dim, reverse, t, t))
    exact = len(g.results)
    for id, dtype in enumerate(("f32", "bf16", "f64")):
        for kind in "uniform", "normal":
            shape = (7, 33)
            g.add(shape, dtype, "%%r = mpcomm.rng %s %%seed, id = %d : (tensor<2xi32>) -> %s" % (kind, id, tensor(shape, dtype)))
    return g, exact


def main():
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    path = lambda name: os.path.join(FOLDER, name)
    graph, exact = make()
    with open(path("step.mlir"), "w") as out:
        out.write(graph.text())
    source = random.Random(5)
    count = lambda shape: int(__import__("math").prod(shape))
    # Sixteenths, many of them equal, so that sums are exact or rounded in the same order.
    state = {n: (list(s), [source.randrange(-40, 40) / 16 for _ in range(count(s))]) for n, s in INPUTS.items()}
    state.update({"o%d" % i: (list(s), [0.0] * count(s)) for i, (_, s) in enumerate(graph.results)})
    weights, data = write_tensors(path("w"), state), write_tensors(path("d"), {"b": ([1], [0.0])})
    cpu = path("cpu.so")
    emulator.link(call([OPT, path("step.mlir"), "--mpcomm-compile=cluster=dgx-h100"]), cpu)
    gpu = emulator.compile(path("step.mlir"), "gpu")
    found = []
    for program, options, environment in (cpu, [], {}), (gpu, ["--device", "cuda"], emulator.environment):
        run(RUN, program, "--weights", weights, "--data", data, "--steps", 1, "--seed", 3, "--save-weights", path("out"),
            "--quiet", *options, environment=environment)  # fmt: skip
        found.append(read_tensors(path("out")))
    for i, (value, shape) in enumerate(graph.results):
        a, b = (list(f["o%d" % i]) for f in found)
        normal = i >= exact and (i - exact) % 2 == 1
        bound = 2.0**-7 if normal and (i - exact) // 2 == 1 else 2.0**-20 if normal else 0
        worst = max(abs(u - v) for u, v in zip(a, b))
        if len(a) != len(b) or not worst <= bound or not any(a):
            sys.exit("result %d differs by %g:\n%s" % (i, worst, [l for l in graph.body if value.rstrip("f") + " " in l or value.rstrip("f") + "," in l]))
    print("%d results are equal" % len(graph.results))


main()
