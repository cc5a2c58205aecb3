# ===- codecs.py - encoding and decoding beside a copy ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, numpy
# RUN: %python %s --elements=100000 --steps=4 --mpcomm-opt=%mpcomm-opt --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run | FileCheck %s
# CHECK: | i8 | kernel_{{.*}} | {{[0-9]+}} | {{[0-9]+}} |
# CHECK: | top1of32 | kernel_{{.*}} | {{[0-9]+}} | {{[0-9]+}} |
"""How fast gradients are encoded and decoded for the wire, with error feedback, on two
ranks that do it at the same time, beside memcpys of a gradient on two cores at the same time,
one after the other through as much memory as a rank of the program has: what a cache keeps
from one to the next is as little.

A row is a kernel. Bytes are those that the compiler says it moves (`mprt.moved_bytes`: each operand
once). Times are medians over the steps of rank 0. The kernel of the update is left out.
"""

import argparse
import ctypes
import itertools
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import tempfile
import time

import numpy as np

GRAPH = """func.func @train_step(
    %w: tensor<NxF> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.0 : f32},
    %x: tensor<1xNxF> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<NxF> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %g = mpcomm.reshape %x : (tensor<1xNxF>) -> tensor<NxF>
  %l = mpcomm.reduce sum %g, dims = [0] : (tensor<NxF>) -> tensor<f32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<NxF>, tensor<NxF>, tensor<f32>) -> tensor<NxF>
  return %w1, %l : tensor<NxF>, tensor<f32>
}
"""
WIRES = "i8,f8E4M3FN,i4,i1,top1of8,top1of32"
RANKS = 2


def write(path, **arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape,
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())


def copy(half, held, core, start, pipe):
    """Bytes that a memcpy of `half` reads and writes, per second, of `held` that there are."""
    os.sched_setaffinity(0, {core})
    memory = np.ones((max(1, round(held / half / 2)), 2, half), np.uint8)
    times = []
    start.wait()
    end = time.perf_counter() + 1
    for source, target in itertools.cycle(memory):
        begin = time.perf_counter()
        ctypes.memmove(target.ctypes.data, source.ctypes.data, half)
        times.append(time.perf_counter() - begin)
        if begin > end:
            break
    pipe.send(2 * half / statistics.median(times))


def copies(half, held):
    cores = sorted(os.sched_getaffinity(0))
    start = multiprocessing.Barrier(RANKS)
    ends = []
    for rank in range(RANKS):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        multiprocessing.Process(target=copy, args=(half, held, cores[rank % len(cores)], start,
                                                   theirs)).start()
        ends.append(ours)
    return min(end.recv() for end in ends)


def measure(a, wire, folder):
    """What a rank has of memory; by kernel, the bytes that it moves, and microseconds."""
    graph, options = os.path.join(folder, "g.mlir"), f"wire={wire} error-feedback=true wire-min-bytes=0"
    lowered = subprocess.run([a.mpcomm_opt, graph, f"--mpcomm-compile=mesh=dp:{RANKS} {options}"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
    moved = {name: int(count) for name, count in
             re.findall(r"@(kernel_\w+)\(.*mprt\.moved_bytes = (\d+)", lowered)}
    program, trace = os.path.join(folder, "step.so"), os.path.join(folder, "trace.json")
    report = subprocess.run([a.mpcomm_compile, graph, "-o", program, "--np", str(RANKS),
                             "--options=" + options, "--report"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    held = int(re.search(r"^ +all +(\d+) B", report, re.M)[1])
    subprocess.run([a.mpcomm_run, program, "--np", str(RANKS), "--data",
                    os.path.join(folder, "d"), "--weights", os.path.join(folder, "w"), "--steps",
                    str(a.steps), "--quiet", "--trace", trace], check=True)
    with open(trace) as file:
        events = json.load(file)
    times = {}
    for event in events["traceEvents"] if isinstance(events, dict) else events:
        if event.get("ph") == "X" and event.get("pid") == 0 and event["name"] in moved:
            times.setdefault(event["name"], []).append(event["dur"])
    return held, {name: (moved[name], statistics.median(each)) for name, each in times.items()
                  if "update" not in name}


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--elements", type=int, default=1 << 22)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--wires", default=WIRES)
    p.add_argument("--mpcomm-opt", default="mpcomm-opt")
    p.add_argument("--mpcomm-compile", default="mpcomm-compile")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    a = p.parse_args()
    n = a.elements
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "g.mlir"), "w") as file:
            file.write(GRAPH.replace("NxF", f"{n}xf32"))
        random = np.random.default_rng(0)
        write(os.path.join(folder, "d"), x=random.standard_normal((RANKS, n)).astype("f4"))
        write(os.path.join(folder, "w"), w=np.zeros(n, "f4"))
        print(f"{n} elements on each of {RANKS} cores\n")
        print("| wire | kernel | us | bytes | GB/s | of memcpy |\n|---|---|---|---|---|---|")
        for wire in a.wires.split(","):
            held, found = measure(a, wire, folder)
            rate = copies(4 * n, held)
            for name, (moved, us) in found.items():
                print(f"| {wire} | {name} | {us:.0f} | {moved} | {moved / us / 1e3:.2f} | "
                      f"{1e6 * moved / us / rate:.2f} |", flush=True)
            total, us = (sum(column) for column in zip(*found.values()))
            print(f"| {wire} | all | {us:.0f} | {total} | {total / us / 1e3:.2f} | "
                  f"{1e6 * total / us / rate:.2f} |", flush=True)
            print(f"| {wire} | memcpy | | | {rate / 1e9:.2f} | |")


if __name__ == "__main__":
    main()
