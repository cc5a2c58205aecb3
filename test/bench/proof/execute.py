# ===- execute.py - runs programs of ranks, one step after another ----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What programs do, found by doing it: every rank apart, in random order, with
nothing looked at ahead of time. Shares no code with the compiler's proof.

Also writes programs for mprt-replay, which runs them on the real runtime."""

import random
import zlib

from programs import BUCKETS


class Mismatch(Exception):
    pass


class Rank:
    def __init__(self, problem, number):
        self.number, self.program = number, problem.functions[problem.runs[number]]
        self.next, self.streams, self.parts = 0, {}, {}
        self.left = {}  # of an op: parts that have not ended


class Execution:
    """The state of all ranks. A stream is (axes, channel); it holds parts of ops
    that were started and have not ended, the first of which can end."""

    def __init__(self, problem, seed, lenient=False):
        self.problem, self.random, self.lenient = problem, random.Random(seed), lenient
        self.ranks = [Rank(problem, r) for r in range(len(problem.runs))]
        self.groups, self.mail = {}, {}

    def group(self, rank, axes):
        key = (rank, axes)
        if key not in self.groups:
            self.groups[key] = self.problem.group(rank, axes)
        return self.groups[key]

    def advance(self, rank):
        """Starts and awaits of the rank, until one has to wait."""
        moved = False
        while rank.next < len(rank.program.steps):
            what, key = rank.program.steps[rank.next]
            op = rank.program.ops[key]
            if what == "start":
                parts = op.parts()
                rank.left[key] = len(parts)
                for part in parts:
                    rank.streams.setdefault((part.axes, part.channel), []).append((key, part))
            elif rank.left[key]:
                break
            rank.next += 1
            moved = True
        return moved

    def end(self, rank, stream):
        key, _ = rank.streams[stream].pop(0)
        rank.left[key] -= 1

    def head(self, number, stream):
        queue = self.ranks[number].streams.get(stream)
        return queue[0][1] if queue else None

    def compare(self, ops):
        """Raises where those that meet do not mean one thing."""
        group = self.problem.group_size(ops[0].axes)

        def meaning(op):
            kind = "message" if op.kind in ("send", "recv") else op.kind
            if kind == "barrier":
                return kind, op.tag, op.number
            tensors = [t[0] for t in op.tensors] if kind in BUCKETS else [sum(t[0] for t in op.tensors)]
            if kind in ("reduce_scatter", "all_to_all"):
                tensors = [t // group for t in tensors]
            root = op.peer if kind == "broadcast" else -1
            number = None if kind == "message" else op.number
            return kind, tensors, op.travels(), op.sums_in(), op.reduction, root, op.tag, number

        if any(meaning(op) != meaning(ops[0]) for op in ops):
            raise Mismatch

    def try_stream(self, rank, stream):
        """Ends what is at the head of the stream, if it can end."""
        op = self.head(rank.number, stream)
        if op is None:
            return False
        group = self.group(rank.number, stream[0])
        if op.kind not in ("send", "recv"):
            heads = [self.head(r, stream) for r in group]
            if any(h is None or h.kind in ("send", "recv") for h in heads):
                return False
            self.compare(heads)
            for r in group:
                self.end(self.ranks[r], stream)
            return True
        if not 0 <= op.peer < len(group) or group[op.peer] == rank.number:
            raise Mismatch
        peer = group[op.peer]
        if op.kind == "recv":
            box = self.mail.get((peer, rank.number, stream))
            if box:
                self.compare([box.pop(0), op])
                self.end(rank, stream)
                return True
            return False
        other = self.head(peer, stream)
        meets = (other is not None and other.kind == "recv" and 0 <= other.peer < len(group)
                 and group[other.peer] == rank.number)  # fmt: skip
        if meets and not self.mail.get((rank.number, peer, stream)):
            self.compare([op, other])
            self.end(rank, stream)
            self.end(self.ranks[peer], stream)
            return True
        if self.lenient:
            self.mail.setdefault((rank.number, peer, stream), []).append(op)
            self.end(rank, stream)
            return True
        return False

    def run(self):
        """completed, hang, mismatch (also an op without a peer), or left: a
        message that nobody takes."""
        try:
            moved = True
            while moved:
                moved = False
                for rank in self.random.sample(self.ranks, len(self.ranks)):
                    moved |= self.advance(rank)
                    for stream in self.random.sample(sorted(rank.streams), len(rank.streams)):
                        moved |= self.try_stream(rank, stream)
        except Mismatch:
            return "mismatch"
        if any(rank.next < len(rank.program.steps) or any(rank.streams.values()) for rank in self.ranks):
            return "hang"
        return "left" if any(self.mail.values()) else "completed"


def execute(problem, seed, lenient=False):
    return Execution(problem, seed, lenient).run()


KINDS = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send", "recv", "barrier"]
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 3, "i8": 4, "ui8": 5, "i16": 6, "i32": 7, "i64": 8,
         "i1": 9, "f8E4M3FN": 10, "f8E5M2": 11}  # fmt: skip
REDUCTIONS = ["sum", "prod", "min", "max", "mean"]


def replay_text(name, problem):
    """The problem for mprt-replay. What an op carries decides the value that its
    buffers have, and the number that the runtime compares."""
    names = [axis for axis, _ in problem.mesh]
    streams = sorted({(op.axes, op.channel) for p in problem.functions.values() for op in p.ops.values()})
    lines = ["program %s" % name, "mesh %s ;" % " ".join(str(size) for _, size in problem.mesh)]
    for axes, _ in streams:
        lines.append("communicator %s ;" % " ".join(str(names.index(a)) for a in sorted(axes, key=names.index)))
    for rank, function in enumerate(problem.runs):
        lines.append("rank %d" % rank)
        program, numbers = problem.functions[function], {}
        for what, key in program.steps:
            if what == "await":
                lines += ["await %d" % n for n in numbers[key]]
                continue
            numbers[key] = []
            for part in program.ops[key].parts():
                number = sum(len(n) for n in numbers.values())
                numbers[key].append(number)
                lines.append(start_text(problem, part, number, streams))
    return "\n".join(lines + ["end", ""])


def start_text(problem, op, number, streams):
    count = sum(t[0] for t in op.tensors)
    if op.kind in ("reduce_scatter", "all_to_all"):
        count //= problem.group_size(op.axes)
    carries = [op.tag, op.number if op.kind not in ("send", "recv") else None]
    if op.kind in BUCKETS:
        carries += [t[0] for t in op.tensors]
    mark = zlib.crc32(repr(carries).encode())
    # Sums over the group stay exact in 8 bits of mantissa.
    values = 7 if op.reduction else 101
    travels = op.travels() or "f32"
    return "start %d %d %d %d %d %d %d %d %d %d" % (
        number, streams.index((op.axes, op.channel)), KINDS.index(op.kind), TYPES[travels],
        TYPES[op.sums_in() or travels], REDUCTIONS.index(op.reduction or "sum"), op.peer, count,
        mark % 2**31, 1 + mark % values)  # fmt: skip
