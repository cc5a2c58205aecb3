# REQUIRES: compiler
# RUN: %python %s %t.dir
#
# A schedule in a file makes the programs that the same schedule makes by name, and
# any placement makes programs that are proved, simulated and drawn.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published schedules, written down from their papers as files of
torch.distributed.pipelining: plain, with bubbles, with steps that overlap, and lowered.
Then random placements, in orders of a list scheduler."""

import json
import os
import random
import re
import subprocess
import sys
import xml.dom.minidom

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "bench", "pipeline"))
sys.path.insert(1, os.path.join(ROOT, "bench", "proof"))
from schedules import CLUSTER, network  # noqa: E402

FOLDER = sys.argv[1]


def path(name):
    return os.path.join(FOLDER, name)


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != status:
        sys.exit("%s\nended with status %d, expected %d:\n%s"
                 % (" ".join(command), done.returncode, status, done.stderr))  # fmt: skip
    return done.stdout if status == 0 else done.stderr


def check(condition, what):
    if not condition:
        sys.exit(what)


# Orders of a rank: kind, micro-batch, stage.


def gpipe(p, m, rank):
    """All forward, then all backward passes."""
    return [(kind, k, rank) for kind in "FB" for k in range(m)]


def one_f_one_b(p, m, rank):
    """p - 1 - rank forward passes, then one of each in turn."""
    order, ahead = [], p - 1 - rank
    for k in range(m + ahead):
        order += [("F", k, rank)] * (k < m) + [("B", k - ahead, rank)] * (k >= ahead)
    return order


def interleaved(p, m, rank):
    """Megatron's, two stages a rank, m a multiple of p: groups of p micro-batches go
    through one stage of the rank, then through the other."""
    groups = [range(g, g + p) for g in range(0, m, p)]
    forward = [("F", k, rank + c * p) for group in groups for c in (0, 1) for k in group]
    backward = [("B", k, rank + c * p) for group in groups for c in (1, 0) for k in group]
    order, ahead = [], 2 * (p - 1 - rank) + p
    for k in range(len(forward) + ahead):
        order += forward[k : k + 1] + (backward[k - ahead : k - ahead + 1] if k >= ahead else [])
    return order


def zb_h1(p, m, rank):
    """1F1B, with weight gradients `rank` micro-batches later."""
    order = []
    for kind, k, stage in one_f_one_b(p, m, rank):
        if kind == "F":
            order.append((kind, k, stage))
            continue
        order += [("I", k, stage)] + [("W", k - rank, stage)] * (k >= rank)
    return order + [("W", k, rank) for k in range(max(m - rank, 0), m)]


def zb_v(p, m, rank):
    """The V schedule without bubbles, of 2 p - 1 micro-batches or more."""
    stages, done = (rank, 2 * p - 1 - rank), {}
    order = []

    def add(kinds, c, times=1):
        for _ in range(times):
            for kind in kinds:
                k = done.setdefault((kind, c), 0)
                done[kind, c] += 1
                order.append((kind, k, stages[c]))

    add("F", 0, 2 * (p - rank) - 1)
    for _ in range(rank):
        add("F", 1)
        add("F", 0)
    add("FIW", 1, p - rank)
    while done["F", 1] < m:
        if done["F", 0] < m:
            add("F", 0)
        add("IW", 0)
        add("FIW", 1)
    for _ in range(rank):
        add("I", 0)
        add("I", 1)
    add("IW", 0, p - rank)
    for c in 1, 0:
        add("W", c, m - done["W", c])
    return order


def write(orders):
    """As the compiler does."""
    return "".join(",".join("%d%s%d" % (s, kind, k) for kind, k, s in order) + "\n" for order in orders)


def with_bubbles(text):
    """As Python's csv module writes rows with None."""
    cells = re.sub(",", lambda _: "," * random.choice((1, 1, 2, 4)), text)
    return cells.replace("\n", ",,\r\n")


def overlapped(text):
    """Forward and backward passes that are adjacent, as in DualPipe."""
    return re.sub(r"(\d+F\d+),(\d+[BI]\d+)(?=[,\n])", r"(\1;\2)OVERLAP_F_B", text)


def lowered(text):
    """With sends after, receives before and sharding around what they are for."""
    rows = [line.split(",") for line in text.split("\n") if line]
    actions = [[re.fullmatch(r"(\d+)(\w)(\d+)", cell).groups() for cell in row] for row in rows]
    placement = {int(s): rank for rank, row in enumerate(actions) for s, _, _ in row}

    def leaves(s, by):
        return s + by in placement and placement[s + by] != placement[s]

    made = []
    for row in actions:
        out = ["%dUNSHARD" % s for s in sorted({int(s) for s, _, _ in row})]
        for stage, kind, k in row:
            s = int(stage)
            if kind != "W":
                way, to = ("F", 1) if kind == "F" else ("B", -1)
                before = ["%dRECV_%s%s" % (s, way, k)] * leaves(s, -to)
                after = ["%dSEND_%s%s" % (s, way, k)] * leaves(s, to)
                out += before + [stage + kind + k] + after
            else:
                out.append(stage + kind + k)
        out += ["%d%s" % (s, what) for s in sorted({int(s) for s, _, _ in row})
                for what in ("REDUCE_GRAD", "RESHARD")]  # fmt: skip
        made.append(",".join(out))
    return "\n".join(made) + "\n"


def compile_for(p, m, stages, schedule):
    return run("mpcomm-opt", path("step%d.mlir" % stages),
               "--mpcomm-partition-pipeline=stages=%d micro-batches=%d" % (stages, m),
               "--mpcomm-schedule-pipeline=ranks=%d micro-batches=%d %s" % (p, m, schedule),
               "--mpcomm-verify-communication")  # fmt: skip


def compare_published():
    kinds = (("gpipe", gpipe, 1), ("1f1b", one_f_one_b, 1), ("interleaved", interleaved, 2),
             ("zb-h1", zb_h1, 1), ("zb-v", zb_v, 2))  # fmt: skip
    for name, make, chunks in kinds:
        for p, m in (2, 4), (4, 8):
            what = "%s, %d ranks, %d micro-batches" % (name, p, m)
            expected = compile_for(p, m, chunks * p, "schedule=" + name)
            text = write([make(p, m, rank) for rank in range(p)])
            forms = {"plain": text, "bubbles": with_bubbles(text),
                     "overlapped": overlapped(text), "lowered": lowered(text)}  # fmt: skip
            check("OVERLAP" in forms["overlapped"] or name == "gpipe", what)
            for form, written in forms.items():
                with open(path("schedule.csv"), "w", newline="") as file:
                    file.write(written)
                made = compile_for(p, m, chunks * p, "schedule-file=" + path("schedule.csv"))
                made = made.replace('mpcomm.schedule = "file"', 'mpcomm.schedule = "%s"' % name)
                check(made == expected, "%s: %s makes another program" % (what, form))


def list_schedule(p, m, placement):
    """Ranks in turn take what they can, backward passes first."""
    last = len(placement) - 1
    done, orders = set(), [[] for _ in range(p)]
    split = random.random() < 0.5

    def ready(rank):
        for k in range(m):
            for s in (s for s in range(last + 1) if placement[s] == rank):
                back = "I" if split else "B"
                if ("F", k, s) in done and (back, k, s) not in done and (s == last or (back, k, s + 1) in done):
                    return back, k, s
        for k in range(m):
            for s in (s for s in range(last + 1) if placement[s] == rank):
                if ("F", k, s) not in done and (s == 0 or ("F", k, s - 1) in done):
                    return "F", k, s
        for k in range(m):
            for s in (s for s in range(last + 1) if placement[s] == rank):
                if split and ("I", k, s) in done and ("W", k, s) not in done:
                    return "W", k, s
        return None

    while len(done) < (3 if split else 2) * m * (last + 1):
        for rank, action in [(rank, ready(rank)) for rank in range(p)]:
            if action:
                done.add(action)
                orders[rank].append(action)
    return orders


def compare_placements():
    for turn in range(12):
        p = random.choice((1, 2, 3, 4))
        placement = list(range(p)) + [random.randrange(p) for _ in range(random.randrange(6 - p + 1))]
        random.shuffle(placement)
        m = random.randrange(p, 2 * p + 1)
        what = "placement %s, %d micro-batches" % (placement, m)
        text = write(list_schedule(p, m, placement))
        with open(path("schedule.csv"), "w") as file:
            file.write(text)
        options = "mesh=pp:%d micro-batches=%d cluster=%s " % (p, m, path("cluster.json"))
        step = path("step%d.mlir" % len(placement))
        simulate = ("mpcomm-sim", step, "--cluster=" + path("cluster.json"), "--json", path("step.json"),
                    "--write-schedule=" + path("again.csv"), "--pipeline")  # fmt: skip
        run(*simulate, "mpcomm-graph{%sschedule-file=%s}" % (options, path("schedule.csv")))
        with open(path("again.csv")) as file:
            check(file.read() == text, what + ": the program has another schedule than the file")
        run("mpcomm-report", path("step.json"), "--svg", path("step.svg"))
        xml.dom.minidom.parse(path("step.svg"))
        # What is found for the placement is no slower, and reads back as the same.
        with open(path("step.json")) as file:
            given = json.load(file)["seconds"]
        places = ",".join(map(str, placement))
        run(*simulate, "mpcomm-graph{%sschedule=auto placement=%s}" % (options, places))
        with open(path("step.json")) as file:
            check(json.load(file)["seconds"] <= given * (1 + 1e-9), what + ": auto is slower than a list")
        with open(path("again.csv")) as file:
            found = file.read()
        owner = {int(s): r for r, row in enumerate(found.split("\n")) for s in re.findall(r"(\d+)F", row)}
        check([owner[s] for s in range(len(owner))] == placement, what + ": auto places stages otherwise")
        run(*simulate, "mpcomm-graph{%sschedule-file=%s placement=%s}" % (options, path("again.csv"), places))
        with open(path("again.csv")) as file:
            check(file.read() == found, what + ": a found schedule is another one when read")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    random.seed(5)
    with open(path("cluster.json"), "w") as file:
        json.dump(CLUSTER, file)
    for stages in range(1, 9):
        with open(path("step%d.mlir" % stages), "w") as file:
            file.write(network(stages))
    compare_published()
    compare_placements()


main()
