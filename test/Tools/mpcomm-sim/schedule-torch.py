# REQUIRES: torch-pipelining, compiler
# RUN: %python %s %t.dir
#
# PyTorch loads the schedules that are written here, and those that PyTorch writes are
# read here, as it makes them and as it lowers them.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No process group is needed: orders are made, validated, lowered and simulated without
running anything."""

import csv
import os
import subprocess
import sys

import torch
from torch.distributed.pipelining import schedules as pt

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "bench", "pipeline"))
sys.path.insert(1, os.path.join(ROOT, "bench", "proof"))
from schedules import network  # noqa: E402

FOLDER = sys.argv[1]


class Stage:
    """What the schedules ask of a stage before they run it."""

    def __init__(self, ranks, stages, index):
        self.group_size, self.group_rank, self.num_stages, self.stage_index = ranks, 0, stages, index
        self.device, self.submod, self.has_backward = torch.device("cpu"), torch.nn.Linear(1, 1), True
        self.is_first, self.is_last, self.group = index == 0, index == stages - 1, None


def path(name):
    return os.path.join(FOLDER, name)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s\nended with status %d:\n%s" % (" ".join(command), done.returncode, done.stderr))


def read_here(p, m, stages, file):
    """What mpcomm reads from a file, as it writes it."""
    run("mpcomm-sim", path("step%d.mlir" % stages), "--write-schedule=" + path("again.csv"), "--pipeline",
        "mpcomm-graph{mesh=pp:%d micro-batches=%d schedule-file=%s}" % (p, m, file))  # fmt: skip
    with open(path("again.csv"), newline="") as text:
        return [[str(pt._Action.from_str(cell)) for cell in row] for row in csv.reader(text)]


def flatten(order):
    """Without bubbles; overlapped actions one after the other."""
    flat = []
    for action in order:
        flat += [str(a) for a in action.sub_actions or (action,)] if action else []
    return flat


def load(p, m, stages, file):
    """As torch.distributed.pipelining loads, checks and lowers a file."""
    with open(file, newline="") as text:
        orders = {rank: [pt._Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(text))}
    placement = pt._validate_schedule(orders, p, stages, m)
    full = {rank: pt._add_unshard_reshard(order) for rank, order in orders.items()}
    full = {rank: [a for a in order if a.is_compute_op] for rank, order in full.items()}
    lowered = pt._add_send_recv(full, stage_to_rank=lambda s: placement[s], num_stages=stages)
    pt._simulate_comms_compute(lowered, lambda s: placement[s], stages)
    return orders, lowered


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for stages in range(1, 9):
        with open(path("step%d.mlir" % stages), "w") as file:
            file.write(network(stages))
    # Ours, found for placements of all kinds.
    ours = (2, 4, "0,1"), (2, 4, "0,1,1,0"), (2, 3, "1,0,0,1,0"), (3, 6, "2,0,1,1"), (4, 8, "0,1,2,3,3,2,1,0")
    for p, m, placement in ours:
        stages = placement.count(",") + 1
        run("mpcomm-sim", path("step%d.mlir" % stages), "--write-schedule=" + path("ours.csv"), "--pipeline",
            "mpcomm-graph{mesh=pp:%d micro-batches=%d schedule=auto placement=%s}" % (p, m, placement))  # fmt: skip
        orders, lowered = load(p, m, stages, path("ours.csv"))
        # What it lowers them to is the same schedule.
        with open(path("lowered.csv"), "w", newline="") as file:
            csv.writer(file).writerows(lowered[rank] for rank in range(p))
        if read_here(p, m, stages, path("lowered.csv")) != [flatten(orders[r]) for r in range(p)]:
            sys.exit("placement %s: another schedule once lowered" % placement)
    # PyTorch's.
    theirs = ((pt.ScheduleLoopedBFS, 2, 4, (0, 2)), (pt.ScheduleInterleaved1F1B, 4, 8, (0, 4)),
              (pt.ScheduleInterleavedZeroBubble, 4, 8, (0, 4)), (pt.ScheduleZBVZeroBubble, 4, 8, (0, 7)),
              (pt.ScheduleDualPipeV, 4, 8, (0, 7)))  # fmt: skip
    for kind, p, m, own in theirs:
        made = kind([Stage(p, 2 * p, s) for s in own], m, loss_fn=lambda *_: None)
        for form in "compute_only", "compute_comms":
            made._dump_csv(path("theirs.csv"), format=form)
            expected = [flatten(made.pipeline_order[rank]) for rank in range(p)]
            if read_here(p, m, 2 * p, path("theirs.csv")) != expected:
                sys.exit("%s, %s: another schedule" % (kind.__name__, form))


main()
