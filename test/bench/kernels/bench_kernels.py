# ===- bench_kernels.py - memory rates of generated kernels --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, numpy, torch, long
# RUN: %python %s mpcomm-opt %cc --seconds 0.02 --compare | FileCheck %s
# CHECK: column_sum 8192x512
# CHECK: transpose 1024x128
"""Bytes that typical kernels read and write, per second, on one thread, beside
a memcpy that moves as many bytes and beside PyTorch where it is there.

  bench_kernels.py <mpcomm-opt> <clang> [--seconds 0.2] [--filter softmax]

Medians of repeated runs on the same buffers: small ones stay in the caches, as
they do between the kernels of a step. PyTorch writes into tensors that are there,
too (out=), but for cross-entropy, which has no such form and allocates.

--compare first compares the results with PyTorch's, on the same inputs. Both sum at
most n numbers in f32, n being the largest dimension, so that each is within
n 2^-24 of the exact result, relative to its largest element, where the sum of the
magnitudes is of that size or, for sums of either sign, at most n / 2 times that."""

import argparse
import ctypes
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(
    0, os.path.join(HERE, "..", "..", "Conversion", "GenerateKernels", "Inputs")
)

import numpy as np

import kernel_library as library
from kernel_builder import Tools, from_bf16, to_bf16

try:
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
except ImportError:
    torch = None


def aligned(array):
    """A copy that starts at a multiple of 64 bytes, as buffers of the arena."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def median(run, seconds):
    run()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cases(random):
    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    def tensor(*arrays):
        return [torch.from_numpy(a.copy()) for a in arrays]

    for rows, columns in ((1024, 512), (8192, 512)):
        x, b = normal(rows, columns), normal(columns)
        yield "bias_gelu %dx%d" % (rows, columns), library.bias_gelu(rows, columns), [x, b, x * 0], (
            lambda t: lambda: [torch._C._nn.gelu(torch.add(t[0], t[1], out=t[2]), out=t[2])])
    for rows, columns in ((1024, 128), (1024, 768), (8192, 128)):
        x, g, b = normal(rows, columns), normal(columns), normal(columns)
        yield "layer_norm %dx%d" % (rows, columns), library.layer_norm(rows, columns), [
            x, g, b, x * 0, normal(rows), normal(rows)], (
            lambda t: lambda: torch.ops.aten.native_layer_norm.out(
                t[0], [t[1].shape[0]], t[1], t[2], 1e-5,
                out0=t[3], out1=t[4].view(-1, 1), out2=t[5].view(-1, 1)))
        mean, rstd = x.mean(1), 1 / x.std(1)
        yield "layer_norm_grad %dx%d" % (rows, columns), library.layer_norm_grad(rows, columns), [
            x, normal(rows, columns), mean, rstd, g, x * 0, b * 0, b * 0], (
            lambda t: lambda: torch.ops.aten.native_layer_norm_backward.out(
                t[0], t[1], [t[4].shape[0]], t[2].view(-1, 1), t[3].view(-1, 1), t[4], t[4],
                [True, True, True], out0=t[5], out1=t[6], out2=t[7]))
    for b, h, n in ((8, 4, 128), (4, 4, 512)):
        mask = np.triu(np.ones((n, n), np.uint8), 1)
        y = normal(b, h, n, n)
        yield "masked_softmax %dx%dx%d" % (b * h, n, n), library.masked_softmax(b, h, n, n), [mask, y], (
            lambda t: lambda m=t[0].bool(): [torch.softmax(
                torch.mul(t[1], 0.125, out=t[1]).masked_fill_(m, -np.inf), -1, out=t[1])])
    for rows, columns in ((1024, 128), (1024, 512), (8192, 512)):
        x = normal(rows, columns)
        yield "column_sum %dx%d" % (rows, columns), library.column_sum(rows, columns), [x, normal(columns)], (
            lambda t: lambda: [torch.sum(t[0], 0, out=t[1])])
    for n in (65536, 1 << 22):
        s = [np.array(v, np.float32) for v in (1e-3, 0.1, 0.01)]
        yield "adamw %d" % n, library.adamw(n), [normal(n), *s, normal(n), normal(n), np.abs(normal(n))], None
    rows, columns = 1024, 256
    yield "cross_entropy %dx%d" % (rows, columns), library.cross_entropy(rows, columns), [
        normal(rows, columns), random.integers(0, columns, rows), np.zeros((), np.float32), normal(rows)], (
        lambda t: lambda: [F.cross_entropy(t[0], t[1])])
    for rows, columns in ((512, 512), (1024, 128)):
        yield "transpose %dx%d" % (rows, columns), library.transpose(rows, columns), [
            normal(columns, rows), normal(rows, columns)], (
            lambda t: lambda: [t[1].copy_(t[0].t())])


def compare(name, function, arrays, inputs, peer):
    """Fails where the kernel and PyTorch part."""
    buffers = [aligned(a) for a in arrays]
    theirs = peer([torch.from_numpy(a.copy()) for a in arrays])()
    function(*[ctypes.c_void_p(a.ctypes.data) for a in buffers])
    terms = max(size for a in arrays for size in a.shape)
    # A sum of n numbers of either sign is about sqrt(n), that of their magnitudes n.
    factor = terms / 2 if name.startswith("column_sum") or "grad" in name else 1
    for index, (ours, want) in enumerate(zip(buffers[inputs:], theirs)):
        want = want.numpy().reshape(ours.shape)
        apart = np.abs(ours.astype(np.float64) - want).max()
        bound = 2 * terms * 2.0**-24 * factor * np.abs(want).max()
        if name.startswith("transpose"):
            bound = 0
        if not apart <= bound:
            sys.exit("%s: result %d is %.3g from PyTorch's, at most %.3g expected" % (
                name, index, apart, bound))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("opt")
    parser.add_argument("clang")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--filter", default="")
    parser.add_argument("--compare", action="store_true", help="results with PyTorch's")
    parser.add_argument("--options", default="", help="of mpcomm-generate-kernels")
    arguments = parser.parse_args()
    tools = Tools(opt=arguments.opt, clang=arguments.clang)
    print("%-28s %9s %9s %9s %9s %9s" % ("kernel", "KiB", "us", "GB/s", "memcpy", "torch us"))
    for name, (kernel, returned), arrays, peer in cases(np.random.default_rng(3)):
        if arguments.filter not in name:
            continue
        run = tools.compile(kernel, returned, options=arguments.options)
        if arguments.compare and torch is not None and peer is not None:
            compare(name, run.function, arrays, len(kernel.inputs), peer)
        buffers = [aligned(a) for a in arrays]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in buffers]
        # A destination that the kernel reads counts twice.
        read = sum(a.nbytes for a in buffers[: len(kernel.inputs)])
        written = sum(a.nbytes for a in buffers[len(kernel.inputs) :])
        if name.startswith(("adamw", "masked")):
            read += written
        ours = median(lambda: run.function(*pointers), arguments.seconds)
        half = (read + written) // 2
        source, target = aligned(np.zeros(half, np.uint8)), aligned(np.ones(half, np.uint8))
        copy = median(
            lambda: ctypes.memmove(target.ctypes.data, source.ctypes.data, half), arguments.seconds)
        theirs = "-"
        if torch is not None and peer is not None:
            t = [torch.from_numpy(a.copy()) for a in buffers]
            theirs = "%9.1f" % (1e6 * median(peer(t), arguments.seconds))
        moved = read + written
        print("%-28s %9.0f %9.1f %9.1f %9.1f %9s" % (
            name, moved / 1024, 1e6 * ours, moved / ours / 1e9, moved / copy / 1e9, theirs), flush=True)


if __name__ == "__main__":
    main()
