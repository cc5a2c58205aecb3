# ===- writers.py - checkpoints by several ranks, beside one writer --------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""How long a checkpoint takes that all ranks write in parallel, of replicated state and of state
that ranks hold parts of, beside one that one rank writes; and beside plain writes of as many
bytes, by one process and by as many as there are ranks, each with fsync. Medians. The state is that
of a linear layer with AdamW, three tensors of --elements each in f32.

A small run, to see that all of it works:
REQUIRES: torch, compiler
An interpreter that was not built with sanitizers cannot load libraries that were.
UNSUPPORTED: sanitizer
RUN: env PYTHONPATH=%mpcomm_obj_root/python %python %s --elements=4096 --rounds=1 --ranks=2 | FileCheck %s
CHECK: | 1 rank | 0.05 |
CHECK: | 2 ranks, zero=1 | 0.05 |
"""

import argparse
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time

WIDTH = 64


def saved(elements, options, folder, rounds):
    """Seconds of each save of rank 0, after the first, to a new file each."""
    import mpcomm
    import torch
    torch.set_num_threads(1)
    net = torch.nn.Linear(WIDTH, elements // WIDTH, bias=False)
    x, y = torch.zeros(2, WIDTH), torch.zeros(2, elements // WIDTH)
    program = mpcomm.compile(net, torch.nn.functional.mse_loss,
                             torch.optim.AdamW(net.parameters()), (x, y), **options)
    times = []
    with mpcomm.Session(program) as session:
        session.step((x, y))
        for i in range(rounds + 1):
            begin = time.perf_counter()
            session.save(os.path.join(folder, f"{i}", "c"))
            times.append(time.perf_counter() - begin)
            if session.rank == 0:
                shutil.rmtree(os.path.join(folder, f"{i}"))
    return times[1:]


def write(path, start, data):
    start.wait()
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def plain(folder, total, writers):
    """Seconds in which so many processes write files of that many bytes together."""
    start = multiprocessing.Barrier(writers + 1)
    data = os.urandom(1 << 20) * (total // writers >> 20) or os.urandom(total // writers)
    paths = [os.path.join(folder, f"plain.{i}") for i in range(writers)]
    processes = [multiprocessing.Process(target=write, args=(p, start, data)) for p in paths]
    for process in processes:
        process.start()
    start.wait()
    begin = time.perf_counter()
    for process in processes:
        process.join()
    seconds = time.perf_counter() - begin
    for path in paths:
        os.remove(path)
    return seconds


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--elements", type=int, default=1 << 26, help="of a tensor of the state")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--folder", help="where to write; default: a temporary one")
    a = p.parse_args()
    import mpcomm
    total = 3 * 4 * a.elements
    n = a.ranks
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        rows = {}
        for name, ranks, options in (
                ("1 rank", 1, {"mesh": "dp:1"}), (f"{n} ranks", n, {"mesh": f"dp:{n}"}),
                (f"{n} ranks, zero=1", n, {"mesh": f"dp:{n}", "zero": 1})):
            for i in range(a.rounds + 1):
                os.makedirs(os.path.join(folder, f"{i}"), exist_ok=True)
            rows[name] = mpcomm.launch(saved, np=ranks, args=(a.elements, options, folder, a.rounds))[0]
        for writers in (1, n):
            rows[f"plain, {writers} of them"] = [plain(folder, total, writers) for _ in range(a.rounds)]
    print("| writers | MB | s | MB/s | of one rank's |\n|---|---|---|---|---|")
    for name, times in rows.items():
        seconds = statistics.median(times)
        print(f"| {name} | {total / 1e6:.2f} | {seconds:.3f} | {total / 1e6 / seconds:.0f} | "
              f"{statistics.median(rows['1 rank']) / seconds:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
