# ===- clocks.py - times on PyTorch's device --------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Times on the device that PyTorch computes on: a GPU's by its events. MEASURE_DEVICE=cpu
stands in for one where there is none, with MEASURE_BACKEND=eager for torch.compile's
compiler: so the scripts run, their figures mean nothing."""

import os
import statistics
import time

import torch

DEVICE = os.environ.get("MEASURE_DEVICE", "cuda")
BACKEND = os.environ.get("MEASURE_BACKEND", "inductor")
IS_SMALL = DEVICE == "cpu"


def sized(full, small):
    """A size of a problem, where it is only tried another one."""
    return small if IS_SMALL else full


class HostMark:
    def record(self):
        self.time = time.perf_counter()

    def elapsed_time(self, end):
        return 1e3 * (end.time - self.time)


def marks(count):
    return [HostMark() if IS_SMALL else torch.cuda.Event(enable_timing=True) for _ in range(count)]


def synchronize():
    if not IS_SMALL:
        torch.cuda.synchronize()


def times_between(points):
    """Seconds between marks that were recorded one after the other."""
    synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in zip(points, points[1:])]


def largest_allocation(restart=False):
    """Bytes, since it was restarted."""
    if IS_SMALL:
        return 0
    if restart:
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated()


def bench(call, rounds=30):
    """Median seconds of a call, on memory that no cache holds any more."""
    flush = torch.empty(sized(256 << 20, 1 << 10), dtype=torch.uint8, device=DEVICE)
    for _ in range(3):
        call()
    times = []
    for _ in range(sized(rounds, 2)):
        flush.zero_()
        points = marks(2)
        points[0].record()
        call()
        points[1].record()
        times += times_between(points)
    return statistics.median(times)


def copy_bandwidth(bytes=1 << 30):
    """GB/s, read and written, of a copy on the device."""
    bytes = sized(bytes, 1 << 16)
    a, b = (torch.empty(bytes, dtype=torch.uint8, device=DEVICE) for _ in range(2))
    return 2 * bytes / bench(lambda: b.copy_(a)) / 1e9
