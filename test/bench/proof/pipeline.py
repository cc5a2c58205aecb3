# ===- pipeline.py - what the stages of a pipeline communicate ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Programs of the stages under a schedule, as docs/Design/PipelineSchedules.md has
it: an action's recv is posted before the action ahead of it; a send is awaited before
the next on its channel starts; each stage reduces its gradients over its replicas
behind its last backward action; the loss goes to all."""

import re

from programs import Op, Problem, Program


def one_f_one_b(stages, microbatches):
    """The textual form of 1F1B."""
    lines = ["mpcomm-pipeline-1 stages=%d chunks=1 microbatches=%d" % (stages, microbatches)]
    for rank in range(stages):
        ahead = min(stages - rank - 1, microbatches)
        actions = ["F%d" % k for k in range(ahead)]
        for k in range(microbatches - ahead):
            actions += ["F%d" % (ahead + k), "B%d" % k]
        actions += ["B%d" % k for k in range(microbatches - ahead, microbatches)]
        lines.append("%d: %s" % (rank, " ".join(actions)))
    return "\n".join(lines) + "\n"


class Schedule:
    def __init__(self, text):
        head, *lines = [line for line in text.split("\n") if line.strip()]
        fields = dict(re.findall(r"(\w+)=(\w+)", head))
        self.stages, self.chunks = int(fields["stages"]), int(fields["chunks"])
        self.zigzag = fields.get("placement") == "v"
        self.ranks = []
        for line in lines:
            actions = re.findall(r"([FBIW])(\d+)(?:\.(\d+))?", line.split(":")[1])
            self.ranks.append([(kind, int(k), int(chunk or 0)) for kind, k, chunk in actions])

    def rank_of(self, stage):
        chunk, place = divmod(stage, self.stages)
        return self.stages - 1 - place if self.zigzag and chunk % 2 else place

    def stage_of(self, rank, chunk):
        return chunk * self.stages + (self.stages - 1 - rank if self.zigzag and chunk % 2 else rank)

    def channel(self, edge, backward):
        """Of one direction and chunk of the edge's lower stage, the sender's parity
        chooses; from 1, as plain collectives have 0. For an even number of stages."""
        sender = self.rank_of(edge + 1 if backward else edge)
        return 1 + 4 * (edge // self.stages) + 2 * backward + sender % 2


def make_problem(schedule, replicas, elements, parameters):
    """All on mesh pp x dp; `elements` of each activation, and the sizes of a
    stage's parameters."""
    last = schedule.stages * schedule.chunks - 1
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
            kind, _, chunk = action
            stage, backward = schedule.stage_of(rank, chunk), kind in "BI"
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
