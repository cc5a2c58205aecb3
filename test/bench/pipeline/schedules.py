# ===- schedules.py - bubbles and activations of compiled schedules ------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles a network of equal stages for each schedule, and holds the programs of the
ranks against the figures of the literature (docs/Design/PipelineSchedules.md).

A stage is x * a + b and a product; on the cluster that it is compiled for, products
alone take time, and messages none. So F, I and W take one second each. (The first
stage has an I as well: both a and b wait for it.)

Bubble: what share of a step the ranks do nothing. `programs` is found by running the
ranks' functions as they are in the IR, calls, sends, receives and awaits, in a clock
that is written here and shares nothing with the compiler's; `mpcomm-sim` is what that
says of the same model compiled for the mesh; `compiler` is what mpcomm-schedule-pipeline
says of the schedule. Peak: the most forward passes under way on a rank whose
backward pass has not ended, in those functions, in layers of a rank (v virtual stages).

The exit status is 1 if a bubble of programs is not the formula's, exactly, or those of
mpcomm-sim and the compiler are not up to the digits that they print, or a peak is not
the table's.
--all takes every p from 2 to 16 with every m from p to 4 p (minutes), and prints only
what is wrong.

A small run, to see that all of it works:
REQUIRES: compiler
RUN: %python %s --stages=3,5 --factors=1,1.8 --mpcomm-opt=%mpcomm-opt | FileCheck %s
CHECK: | interleaved | 5 | 9 | 0.1818 | 0.1818 | 0.1818 | 0.182 | 9 | 9 |
CHECK: | zb-v | 5 | 9 | 0.0690 | 0.0690 | 0.0690 |
CHECK: 20 of 20 programs are as the formulas have them
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "proof"))
from programs import read_collective  # noqa: E402

CHUNKS = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zb-h1": 1, "zb-v": 2}
D = 8
# A product of two DxD matrices takes a second, all else nothing.
CLUSTER = {
    "schema": "mpcomm-cluster-1", "name": "products alone",
    "device": {"name": "ideal", "flops": {"f32": 2 * D**3, "vector": 1e30},
               "memory_bandwidth": 1e30, "memory_bytes": 10**12, "launch": 0},
    "links": [{"name": "ideal", "ranks": 0, "latency": 0, "bandwidth": 1e30}],
}  # fmt: skip


def network(layers):
    """A training step of that many equal layers."""
    square, row, scalar = f"tensor<{D}x{D}xf32>", f"tensor<{D}xf32>", "tensor<f32>"
    arguments, results, body, updates = [], [], [], []

    def role(kind, name, extra=""):
        return f'{{mpcomm.role = #mpcomm.role<{kind}>, mpcomm.name = "{name}"{extra}}}'

    def dot(out, a, b, dims):
        body.append(f"%{out} = mpcomm.dot_general %{a}, %{b}, contracting_dims = [{dims[0]}] x "
                    f"[{dims[1]}] : ({square}, {square}) -> {square}")

    for i in range(layers):
        for name, kind in ("a", row), ("b", row), ("w", square):
            extra = f", mpcomm.donated = {len(arguments) + 1} : i64"
            arguments.append(f"%{name}{i}: {kind} " + role("parameter", f"layer{i}.{name}", extra))
            results.append(f"{kind} " + role("parameter", f"layer{i}.{name}"))
    arguments.append(f"%lr: {scalar} " + role("hyperparameter", "lr", ", mpcomm.default = 1.0e-03 : f32"))
    arguments.append(f"%y_1: {square} " + role("batch", "x"))
    for i in range(layers):
        for name in "a", "b":
            body.append(f"%{name}_{i} = mpcomm.broadcast_in_dim %{name}{i}, dims = [1] : "
                        f"({row}) -> ({square})")
        x = "y_1" if i == 0 else f"y{i - 1}"
        body.append(f"%s{i} = arith.mulf %{x}, %a_{i} : {square}")
        body.append(f"%h{i} = arith.addf %s{i}, %b_{i} : {square}")
        dot(f"y{i}", f"h{i}", f"w{i}", (1, 0))
    last = f"%y{layers - 1}"
    body.append(f"%q = arith.mulf {last}, {last} : {square}")
    body.append(f"%loss = mpcomm.reduce sum %q, dims = [0, 1] : ({square}) -> {scalar}")
    body.append(f"%g{layers} = arith.addf {last}, {last} : {square}")
    for i in reversed(range(layers)):
        x = "y_1" if i == 0 else f"y{i - 1}"
        dot(f"dw{i}", f"h{i}", f"g{i + 1}", (0, 0))
        dot(f"dh{i}", f"g{i + 1}", f"w{i}", (1, 1))
        body.append(f"%db{i} = mpcomm.reduce sum %dh{i}, dims = [0] : ({square}) -> {row}")
        body.append(f"%t{i} = arith.mulf %dh{i}, %{x} : {square}")
        body.append(f"%da{i} = mpcomm.reduce sum %t{i}, dims = [0] : ({square}) -> {row}")
        if i:
            body.append(f"%g{i} = arith.mulf %dh{i}, %a_{i} : {square}")
    for i in range(layers):
        for name, kind in ("a", row), ("b", row), ("w", square):
            updates.append(f"%n{name}{i} = mpcomm.sgd_update %{name}{i}, %d{name}{i}, %lr, "
                           f"weight_decay = 0.0 : ({kind}, {kind}, {scalar}) -> {kind}")
    names = ["%loss"] + [f"%n{name}{i}" for i in range(layers) for name in "abw"]
    types = [scalar] + [row, row, square] * layers
    return (f"func.func @train_step({', '.join(arguments)}) -> ({scalar} {role('loss', 'loss')}, "
            + ", ".join(results) + ") {\n  " + "\n  ".join(body + updates)
            + f"\n  return {', '.join(names)} : {', '.join(types)}\n}}\n")  # fmt: skip


# ---------------------------------------------------------------------------- #
# The figures of the literature
# ---------------------------------------------------------------------------- #


def formula(schedule, p, m):
    """Idle seconds of a rank's step, where F, I and W take one each; m >= p."""
    if schedule == "zb-h1":
        return p - 1
    if schedule == "zb-v":
        return max(p - 1, 2 * (2 * p - 1 - m))
    return 3 * (p - 1)


def table(schedule, p, m):
    """Activations of the rank that holds most, in virtual stages; m >= p."""
    if schedule == "gpipe":
        return m
    if schedule == "interleaved":  # two chunks; groups of m / floor(m / p)
        groups = m // p
        return min(2 * m, 2 * (p - 1) + -(-m // groups) + 1)
    return min(m, p) * CHUNKS[schedule]


# ---------------------------------------------------------------------------- #
# The programs
# ---------------------------------------------------------------------------- #

SECONDS = {"forward": 1, "backward": 2, "input_backward": 1, "weight_backward": 1}


def read_rank(text, name):
    """Steps of a rank: ("call", part), ("start", future, message) and ("await", future)."""
    body = re.search(r"func\.func (?:public )?@%s\(.*?\n  }\n" % re.escape(name), text, re.S)
    steps, pending, channels = [], None, {}
    for line in body.group(0).split("\n"):
        if call := re.search(r"call @[\w.]*\.stage\d+\.(\w+)\(", line):
            steps.append(("call", call.group(1)))
        elif "mpcomm.async" in line:
            pending = line.split("=")[0].strip()
        elif "mpcomm.await" in line:
            steps.append(("await", re.search(r"mpcomm\.await (%\w+)", line).group(1)))
        elif (op := read_collective(line, {})) and op.kind in ("send", "recv"):
            index = channels.setdefault((op.kind, op.peer, op.channel), 0)
            channels[op.kind, op.peer, op.channel] += 1
            steps.append(("start", pending, (op.kind, op.peer, op.channel, index)))
    return steps


def run_programs(ranks):
    """Ends of the ranks' last calls. A message is there when its send and its receive
    have started; it takes no time."""
    begun, clocks, at = {}, [Fraction(0)] * len(ranks), [0] * len(ranks)
    ends, futures, moved = list(clocks), [{} for _ in ranks], True
    while moved:
        moved = False
        for rank, steps in enumerate(ranks):
            while at[rank] < len(steps):
                step = steps[at[rank]]
                if step[0] == "call":
                    clocks[rank] += SECONDS[step[1]]
                    ends[rank] = clocks[rank]
                elif step[0] == "start":
                    kind, peer, channel, index = step[2]
                    futures[rank][step[1]] = step[2]
                    begun[rank, kind, peer, channel, index] = clocks[rank]
                else:
                    if step[1] not in futures[rank]:  # a collective of the update phase
                        at[rank] += 1
                        continue
                    kind, peer, channel, index = futures[rank][step[1]]
                    other = "recv" if kind == "send" else "send"
                    if (peer, other, rank, channel, index) not in begun:
                        break
                    clocks[rank] = max(clocks[rank], begun[rank, kind, peer, channel, index],
                                       begun[peer, other, rank, channel, index])  # fmt: skip
                at[rank] += 1
                moved = True
    if any(a < len(steps) for a, steps in zip(at, ranks)):
        sys.exit("the programs hang")
    return ends


def peak(steps):
    held = most = 0
    for step in steps:
        if step[0] == "call":
            held += {"forward": 1, "input_backward": 0}.get(step[1], -1)
            most = max(most, held)
    return most


def simulate(schedule, p, m, source, cluster, a):
    """The bubble's share, by mpcomm-sim."""
    options = f"mesh=pp:{p} micro-batches={m} schedule={schedule} cluster={cluster}"
    done = subprocess.run(
        [a.mpcomm_sim, source, f"--pipeline=mpcomm-graph{{{options}}}", f"--cluster={cluster}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    step, compute = (float(re.search(rf"^{word} +([\d.]+) us", done.stdout, re.M).group(1))
                     for word in ("step", "compute"))  # fmt: skip
    return 1 - compute / step


def check(schedule, p, m, folder, a):
    """Prints a row; whether it is as it has to be."""
    v = CHUNKS[schedule]
    source, cluster = os.path.join(folder, "step.mlir"), os.path.join(folder, "cluster.json")
    with open(source, "w") as file:
        file.write(network(p * v))
    with open(cluster, "w") as file:
        json.dump(CLUSTER, file)
    done = subprocess.run(
        [a.mpcomm_opt, source,
         f"--mpcomm-partition-pipeline=stages={p * v} micro-batches={m} cluster={cluster}",
         f"--mpcomm-schedule-pipeline=ranks={p} micro-batches={m} schedule={schedule} cluster={cluster}",
         "--mpcomm-verify-communication", "--remarks-filter=mpcomm-schedule-pipeline",
         "--remark-policy=all"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    simulated = simulate(schedule, p, m, source, cluster, a)
    says = float(re.search(r"bubble=([\d.]+)", done.stderr).group(1))
    ranks = [read_rank(done.stdout, f"train_step.rank{r}") for r in range(p)]
    end = max(run_programs(ranks))
    busy = sum(SECONDS[s[1]] for steps in ranks for s in steps if s[0] == "call")
    bubble = 1 - busy / (p * end)
    idle = formula(schedule, p, m)
    wanted = Fraction(idle, 3 * v * m + idle)
    most, expected = max(peak(steps) for steps in ranks), table(schedule, p, m)
    # The compiler prints three digits; the simulator's come from tenths of microseconds.
    good = (bubble == wanted and abs(says - wanted) <= 0.00051
            and abs(simulated - wanted) <= 1e-6 and most == expected)  # fmt: skip
    if a.all and good:
        return True
    print("| %s | %d | %d | %.4f | %.4f | %.4f | %.3f | %g | %g |%s" % (
        schedule, p, m, wanted, bubble, simulated, says, expected / v, most / v, "" if good else " NO"), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", default="2,3,4,6,8,12,16")
    parser.add_argument("--factors", default="1,1.5,2,4", help="micro-batches, in stages")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--schedules", default=",".join(CHUNKS))
    parser.add_argument("--mpcomm-opt", default="mpcomm-opt")
    parser.add_argument("--mpcomm-sim", default="mpcomm-sim")
    a = parser.parse_args()
    print("| schedule | p | m | bubble by formula | of programs | by mpcomm-sim | "
          "by the compiler | peak by table | of programs |")
    print("|---|---|---|---|---|---|---|---|---|")
    factors = [float(factor) for factor in a.factors.split(",")]
    sizes = [(p, round(factor * p)) for p in map(int, a.stages.split(",")) for factor in factors]
    if a.all:
        sizes = [(p, m) for p in range(2, 17) for m in range(p, 4 * p + 1)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for schedule in a.schedules.split(","):
            for p, m in sizes:
                rows.append(check(schedule, p, m, folder, a))
    print(f"{sum(rows)} of {len(rows)} programs are as the formulas have them")
    return sum(rows) != len(rows)


if __name__ == "__main__":
    sys.exit(main())
