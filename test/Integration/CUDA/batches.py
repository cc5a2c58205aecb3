# REQUIRES: compiler, numpy
# Python loads the fake driver, and lacks the symbols that sanitizers give a program (__asan_…).
# UNSUPPORTED: sanitizer
# RUN: %python %s %mpcomm-opt %cc %mpcomm_obj_root/test/lib/FakeCuda %t.dir 1 12
#
# Random programs leave the same bits in memory whether or not launches that do not
# depend on each other are one.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches of kernels with and without reductions, scratch and scalars, on buffers at
random places of one arena, so that they touch in all ways, with zero fills between some.
`batches.py ... <seed> <count> [<first>]` makes a longer run."""

import ctypes
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))

import numpy as np
from emulation import Emulator

OPT, CC, FAKES, FOLDER, SEED, COUNT = sys.argv[1:7]
FIRST = int(sys.argv[7]) if len(sys.argv) > 7 else 0
ARENA = 1 << 17
SIZES = [1, 40, 300, 1024, 5000]
SHAPES = [(7, 40), (33, 300), (500, 24), (900, 7)]

ID, ROW, COL = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (i)>", "affine_map<(i, j) -> (j)>"
HEAD = "func.func private @%s(%s) -> %s attributes {mpcomm.kernel} {\n"


def elementwise(name, size):
    """d = 0.5 x + y"""
    t = "tensor<%dxf32>" % size
    return HEAD % (name, "%x: " + t + ", %y: " + t + ", %d: " + t, t) + """
  %%h = arith.constant 0.5 : f32
  %%r = linalg.generic {indexing_maps = [%s], iterator_types = ["parallel"]} ins(%%x, %%y : %s, %s) outs(%%d : %s) {
  ^bb0(%%a: f32, %%b: f32, %%o: f32):
    %%s = arith.mulf %%a, %%h : f32
    %%u = arith.addf %%s, %%b : f32
    linalg.yield %%u : f32
  } -> %s
  return %%r : %s
}
""" % (", ".join(["affine_map<(i) -> (i)>"] * 3), t, t, t, t, t), ["%d" % size] * 2, ["%d" % size]  # fmt: skip


def replace(name, size):
    """d = n - 0.25 d, n = n + 1: what is read is replaced, the scalar after the rest"""
    t = "tensor<%dxf32>" % size
    return HEAD % (name, "%d: " + t + ", %n: tensor<f32>", "(%s, tensor<f32>)" % t) + """
  %%q = arith.constant 0.25 : f32
  %%one = arith.constant 1.0 : f32
  %%r = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%%n : tensor<f32>) outs(%%d : %s) {
  ^bb0(%%a: f32, %%o: f32):
    %%s = arith.mulf %%o, %%q : f32
    %%u = arith.subf %%a, %%s : f32
    linalg.yield %%u : f32
  } -> %s
  %%m = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%%n : tensor<f32>) {
  ^bb0(%%o: f32):
    %%s = arith.addf %%o, %%one : f32
    linalg.yield %%s : f32
  } -> tensor<f32>
  return %%r, %%m : %s, tensor<f32>
}
""" % (t, t, t), [], ["%d" % size, ""]  # fmt: skip


def rows(name, shape):
    """d = x - the greatest of its row"""
    t, v = "tensor<%dx%dxf32>" % shape, "tensor<%dxf32>" % shape[0]
    return HEAD % (name, "%x: " + t + ", %d: " + t, t) + """
  %%low = arith.constant 0xFF800000 : f32
  %%e = tensor.empty() : %s
  %%f = linalg.fill ins(%%low : f32) outs(%%e : %s) -> %s
  %%g = linalg.generic {indexing_maps = [%s, %s], iterator_types = ["parallel", "reduction"]} ins(%%x : %s) outs(%%f : %s) {
  ^bb0(%%a: f32, %%o: f32):
    %%s = arith.maximumf %%o, %%a : f32
    linalg.yield %%s : f32
  } -> %s
  %%r = linalg.generic {indexing_maps = [%s, %s, %s], iterator_types = ["parallel", "parallel"]} ins(%%x, %%g : %s, %s) outs(%%d : %s) {
  ^bb0(%%a: f32, %%b: f32, %%o: f32):
    %%s = arith.subf %%a, %%b : f32
    linalg.yield %%s : f32
  } -> %s
  return %%r : %s
}
""" % (v, v, v, ID, ROW, t, v, v, ID, ROW, ID, t, v, t, t, t), ["%dx%d" % shape], ["%dx%d" % shape]  # fmt: skip


def sums(name, shape):
    """d: the mean of the rows"""
    t, v = "tensor<%dx%dxf32>" % shape, "tensor<%dxf32>" % shape[1]
    return HEAD % (name, "%x: " + t + ", %d: " + v, v) + """
  %%zero = arith.constant 0.0 : f32
  %%f = linalg.fill ins(%%zero : f32) outs(%%d : %s) -> %s
  %%c = arith.constant %.9e : f32
  %%g = linalg.generic {indexing_maps = [%s, %s], iterator_types = ["reduction", "parallel"]} ins(%%x : %s) outs(%%f : %s) {
  ^bb0(%%a: f32, %%o: f32):
    %%b = arith.mulf %%a, %%c : f32
    %%s = arith.addf %%o, %%b : f32
    linalg.yield %%s : f32
  } -> %s
  return %%g : %s
}
""" % (v, v, 1 / shape[0], ID, COL, t, v, v, v), ["%dx%d" % shape], ["%d" % shape[1]]  # fmt: skip


KERNELS = {}
for make, choices in ((elementwise, SIZES), (replace, SIZES), (rows, SHAPES), (sums, SHAPES)):
    for i, choice in enumerate(choices):
        KERNELS["%s_%d" % (make.__name__, i)] = make("%s_%d" % (make.__name__, i), choice)


def count(shape):
    return int(np.prod([int(n) for n in shape.split("x") if n]))


def make_program(rng):
    """Text of a function that launches kernels on an arena."""
    lines, used = [], set()
    places = [16 * rng.randrange(ARENA // 16) for _ in range(rng.choice([6, 30, 200]))]
    few = rng.sample(sorted(KERNELS), rng.choice([2, 4, len(KERNELS)]))
    for n in range(rng.randint(20, 60)):
        name = rng.choice(few)
        used.add(name)
        _, inputs, outputs = KERNELS[name]
        operands, taken = [], []
        for shape, writes in [(s, False) for s in inputs] + [(s, True) for s in outputs]:
            size = 4 * count(shape)
            # What is written lies apart from all else that the launch has.
            for _ in range(100):
                at = min(rng.choice(places), ARENA - (size + 15) // 16 * 16)
                if not any(at < e and b < at + size and (w or writes) for b, e, w in taken):
                    break
            else:
                at = None
                break
            taken.append((at, at + size, writes))
            operands.append((at, "memref<%sf32>" % (shape + "x" if shape else "")))
        if at is None:
            continue
        for i, (place, kind) in enumerate(operands):
            lines.append("  %%p%d_%d = arith.constant %d : index" % (n, i, place))
            lines.append("  %%v%d_%d = memref.view %%arena[%%p%d_%d][] : memref<%dxi8> to %s" % (n, i, n, i, ARENA, kind))
        text = "  mprt.launch @%s" % name
        for word, begin, end in (("ins", 0, len(inputs)), ("outs", len(inputs), len(operands))):
            if begin < end:
                text += " %s(%s : %s)" % (word, ", ".join("%%v%d_%d" % (n, i) for i in range(begin, end)),
                                          ", ".join(operands[i][1] for i in range(begin, end)))  # fmt: skip
        lines.append(text)
        if rng.random() < 0.05:
            lines.append("  mprt.zero %%v%d_0 : %s" % (n, operands[0][1]))
    body = "func.func @program(%%arena: memref<%dxi8>) {\n%s\n  return\n}\n" % (ARENA, "\n".join(lines))
    return "".join(KERNELS[name][0] for name in sorted(used)) + body


def calls_of(text):
    """What the function does: launches, and zero fills, with places in the arena."""
    grids = {}
    for name, threads, blocks, scratch in re.findall(
            r"func\.func private @(\w+)\(.*?threads = (\d+), blocks = (\d+), grid_stride = \w+, scratch = (\d+)>", text):
        grids[name] = (int(threads), int(blocks), int(scratch))
    body = re.search(r"func\.func @program\(.*?\n  }\n", text, re.S).group(0)
    numbers = {n: int(v) for n, v in re.findall(r"(%\w+) = arith\.constant (\d+) : index", body)}
    views = {v: numbers[p] for v, p in re.findall(r"(%\w+) = memref\.view %\w+\[(%\w+)\]", body)}
    calls = []
    for line in body.splitlines():
        if "mprt.launch" in line:
            name = re.search(r"@(\w+)", line).group(1)
            lists = re.findall(r"(?:ins|outs)\(([^:]*) :", line)
            calls.append((name, [views[v] for part in lists for v in part.split(", ")], grids[name]))
        elif "mprt.zero" in line:
            value, shape = re.search(r"mprt\.zero (%\w+) : memref<([\dx]*)f32>", line).groups()
            calls.append((None, [views[value]], 4 * count(shape)))
    return calls


def run(driver, image, calls, arena):
    module = driver.load(image)
    base = driver.allocate(ARENA)
    scratch = driver.allocate(max([c[2][2] for c in calls if c[0]] + [1]))
    driver.call("cuMemcpyHtoD_v2", base, arena.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(ARENA))
    for name, places, grid in calls:
        if name is None:
            driver.call("cuMemsetD8Async", ctypes.c_uint64(base.value + places[0]), 0, ctypes.c_size_t(grid), None)
            continue
        threads, blocks, size = grid
        operands = [ctypes.c_uint64(base.value + p) for p in places] + ([scratch] if size else [])
        driver.launch(module, name, threads, blocks, operands)
    driver.call("cuCtxSynchronize")
    result = np.empty_like(arena)
    driver.call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), base, ctypes.c_size_t(ARENA))
    for pointer in (base, scratch):
        driver.call("cuMemFree_v2", pointer)
    return result


def main():
    os.environ["MPFAKE_SEED"] = SEED
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    driver = emulator.driver()
    failed, before, after = [], 0, 0
    for number in range(FIRST, FIRST + int(COUNT)):
        rng = random.Random("%s %d" % (SEED, number))
        path = os.path.join(FOLDER, "b%d" % number)
        text = make_program(rng)
        with open(path + ".mlir", "w") as file:
            file.write(text)
        arena = np.frombuffer(np.random.default_rng(number).standard_normal(ARENA // 4).astype(np.float32).tobytes(), np.uint8)
        bytes_ = rng.choice([64, 256, 4096])
        results, lengths = [], []
        for passes in ([], ["--mpcomm-batch-launches=processors=%d parameter-bytes=%d" % (rng.choice([1, 132]), bytes_)]):
            image = "%s.%d.so" % (path, len(passes))
            calls = calls_of(emulator.generate(text, image, *passes))
            for name, places, grid in calls:
                if name and 8 * (len(places) + (grid[2] > 0)) > bytes_ and name.endswith("_batch"):
                    failed.append(number)
            lengths.append(len(calls))
            results.append(run(driver, image, calls, arena))
        before, after = before + lengths[0], after + lengths[1]
        if not np.array_equal(*results):
            bad = np.flatnonzero(results[0] != results[1])
            print("FAIL: %s.mlir: %d bytes differ from %d on" % (path, len(bad), bad[0]))
            failed.append(number)
    print("%d programs, %d calls, %d with batches" % (int(COUNT), before, after))
    if failed or after > 0.8 * before:
        sys.exit("differ, or are no fewer: %s" % failed)


main()
