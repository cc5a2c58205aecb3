# ===- pipeline.py - what the stages of a pipeline communicate -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Programs of the stages under a schedule, as docs/Design/PipelineSchedules.md has
it: an action's recv is posted before the action ahead of it; a send is awaited before
the next on its channel starts; each stage reduces its gradients over its replicas
after its last backward action; the loss goes to all."""

import re

from programs import Op, Problem, Program


def one_f_one_b(stages, microbatches):
    """1F1B as PyTorch's CSV."""
    lines = []
    for rank in range(stages):
        ahead = min(stages - rank - 1, microbatches)
        actions = ["F%d" % k for k in range(ahead)]
        for k in range(microbatches - ahead):
            actions += ["F%d" % (ahead + k), "B%d" % k]
        actions += ["B%d" % k for k in range(microbatches - ahead, microbatches)]
        lines.append(",".join("%d%s" % (rank, action) for action in actions))
    return "\n".join(lines) + "\n"


class Schedule:
    def __init__(self, text):
        """`ranks`: of each action its kind, micro-batch and virtual stage."""
        rows = [re.findall(r"(\d+)([FBIW])(\d+)", line) for line in text.split("\n") if line.strip()]
        self.ranks = [[(kind, int(k), int(stage)) for stage, kind, k in row] for row in rows]
        self.stages = len(rows)
        places = {stage: rank for rank, row in enumerate(self.ranks) for _, _, stage in row}
        self.placement = [places[stage] for stage in range(len(places))]
        # Each edge and direction takes the first channel that neither rank has.
        self.channels, taken = {}, [set() for _ in rows]
        for backward in False, True:
            for edge in range(len(places) - 1):
                ends = {self.placement[edge], self.placement[edge + 1]}
                if len(ends) == 1:
                    continue
                used = set().union(*(taken[rank] for rank in ends))
                channel = min(set(range(len(used) + 1)) - used)
                self.channels[edge, backward] = channel
                for rank in ends:
                    taken[rank].add(channel)

    def rank_of(self, stage):
        return self.placement[stage]

    def channel(self, edge, backward):
        """From 1, as plain collectives have 0."""
        return 1 + self.channels[edge, backward]


def make_problem(schedule, replicas, elements, parameters):
    """All on mesh pp x dp; `elements` of each activation, and the sizes of a
    stage's parameters."""
    last = len(schedule.placement) - 1
    functions = {}
    for rank, actions in enumerate(schedule.ranks):
        program = functions["stage%d" % rank] = Program()
        posted, sent = {}, {}

        def message(kind, edge, backward, k, peer):
            return Op(kind, ["pp"], [(elements, "bf16")], peer=peer,
                      channel=schedule.channel(edge, backward),
                      tag="%s%d.e%d" % ("B" if backward else "F", k, edge))  # fmt: skip

        def edge_of(action, receives):
            """The edge over which what the action needs comes, or what it makes
            goes; nothing where it stays on the rank."""
            kind, _, stage = action
            backward = kind in "BI"
            if kind == "W":
                return None
            other = stage - 1 if backward != receives else stage + 1
            if not 0 <= other <= last or schedule.rank_of(other) == rank:
                return None
            return min(stage, other), backward, schedule.rank_of(other)

        def post(i):
            edge = edge_of(actions[i], True) if i < len(actions) else None
            if edge:
                posted[i] = program.start(message("recv", edge[0], edge[1], actions[i][1], edge[2]))

        post(0)
        for i, action in enumerate(actions):
            post(i + 1)
            if i in posted:
                program.wait(posted[i])
            if edge := edge_of(action, False):
                channel = schedule.channel(edge[0], edge[1])
                if channel in sent:
                    program.wait(sent[channel])
                sent[channel] = program.start(message("send", edge[0], edge[1], action[1], edge[2]))
        if replicas > 1:
            buckets = [program.start(Op("all_reduce", ["dp"], [(size, "f32") for size in bucket], "mean",
                                        tag="grads%d" % b)) for b, bucket in enumerate(parameters)]  # fmt: skip
            for bucket in buckets:
                program.wait(bucket)
        for started in sent.values():
            program.wait(started)
        program.run(Op("broadcast", ["pp"], [(1, "f32")], peer=schedule.rank_of(last), tag="loss"))
    mesh = [("pp", schedule.stages), ("dp", replicas)]
    runs = ["stage%d" % (r // replicas) for r in range(schedule.stages * replicas)]
    return Problem(mesh, functions, runs)


def make_ring(size, rounds, elements):
    """Each rank gives to the next one and takes from the one before, the last one
    to the first; channels by the parity of the sender, for an even size."""
    functions = {}
    for rank in range(size):
        program = functions["rank%d" % rank] = Program()
        for turn in range(rounds):
            started = [
                program.start(Op(kind, ["pp"], [(elements, "f32")], peer=(rank + step) % size,
                                 channel=1 + sender % 2, tag="turn%d.from%d" % (turn, sender)))
                for kind, step, sender in (("recv", -1, (rank - 1) % size), ("send", 1, rank))
            ]  # fmt: skip
            for key in started:
                program.wait(key)
    return Problem([("pp", size)], functions, ["rank%d" % r for r in range(size)])
