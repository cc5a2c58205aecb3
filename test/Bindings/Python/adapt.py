# A session that adapts goes on with the plan that is faster, where the losses keep their
# bits; looks and stays where it is told to; names the rank that others wait for. Programs
# whose state has become old are not switched to.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import json
import os
import sys
import time

import mpcomm
import torch
from torch import nn

STEPS, SAMPLES = 60, 8
# On this cluster a collective takes a millisecond before it sends: one is faster than many.
CLUSTER = {"schema": "mpcomm-cluster-1", "name": "patient", "source": "made up",
           "device": {"name": "any", "flops": {"f32": 1e10, "vector": 1e10},
                      "memory_bandwidth": 1e11, "memory_bytes": 10 ** 9, "launch": 0},
           "links": [{"name": "net", "ranks": 0, "latency": 1e-3, "bandwidth": 1e9}],
           "algorithms": ["ring"]}


def compiled(variants=None, **options):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.GELU())],
                        nn.Linear(16, 4))
    generator = torch.Generator().manual_seed(1)
    batches = [(torch.randn(SAMPLES, 16, generator=generator),
                torch.randint(4, (SAMPLES,), generator=generator)) for _ in range(5)]
    rule = torch.optim.AdamW(net.parameters(), lr=1e-3)
    return mpcomm.compile(net, nn.functional.cross_entropy, rule, batches[0], mesh="dp:2",
                          cluster=os.path.join(sys.argv[1], "cluster.json"), variants=variants,
                          **options), batches


def trained(numerics, watch_only=False, late=0.0):
    """Losses, events and the last look; without numerics the session does not adapt."""
    program, batches = compiled({"one": {"buckets": "one"}, "narrow": {"wire": "bf16"}},
                                buckets="none")
    losses, events = [], []
    with mpcomm.Session(program) as session:
        if numerics:
            session.adapt(every=5, numerics=numerics, watch_only=watch_only)
            assert session.network is None
        for step in range(STEPS):
            if session.rank == 1:
                time.sleep(late)
            losses.append(session.step(batches[(step + 2 * session.rank) % len(batches)]))
            events += [e for e in session.events() if e.kind in ("adapted", "switched", "network")]
        network, state = session.network, session.state_dict()
        if numerics:
            session.adapt(0)
            assert session.network is None
        return losses, state, events, network


def adapts():
    fixed = mpcomm.launch(trained, np=2, args=(None,))
    moved = mpcomm.launch(trained, np=2, args=("exact",))
    for (losses, state, _, _), (others, other, events, network) in zip(fixed, moved):
        assert losses == others and all(torch.equal(state[k], other[k]) for k in state)
        kinds = [e.kind for e in events if e.kind != "network"]
        assert kinds[:2] == ["adapted", "switched"], events
        # At the first look, or where the gain is small at the second.
        first = next(e for e in events if e.kind == "adapted")
        assert first.step in (5, 10) and "are expected of 'one'" in first.text, first
        assert network["step"] == STEPS and network["switches"] == kinds.count("adapted")
        names = [p["name"] for p in network["plans"]]
        assert names == ["", "one"], "exact is without 'narrow'"
        assert sum(p["current"] for p in network["plans"]) == 1
        assert 0 < network["communication"] and network["bandwidth"] > 0
        assert 0 < network["review"] < 60e3
        assert len(network["ranks"]) == 2 and min(r["waited"] for r in network["ranks"]) == 0
        for c in network["collectives"]:
            assert c["kind"] == "all_reduce" and c["bytes"] > 0, c
            assert c["transfer"] > 0 and c["late"] >= 0 and c["exposed"] >= 0, c
    assert [e.text for e in moved[0][2] if e.kind == "adapted"] == \
        [e.text for e in moved[1][2] if e.kind == "adapted"], "ranks gave other reasons"
    assert "narrow" in [p["name"] for p in
                        mpcomm.launch(trained, np=2, args=("bf16",))[0][3]["plans"]]


def watches():
    for rank, (_, _, events, network) in enumerate(
            mpcomm.launch(trained, np=2, args=("exact", True, 0.05))):
        assert {e.kind for e in events} == {"network"}, events
        assert network["straggler"] == 1 and network["late"] > 15, network
        assert events[0].text.startswith("rank 1 is slow: the others wait "), events[0]
        assert network["ranks"][0]["waited"] > 15 and network["ranks"][1]["waited"] == 0
        if rank == 0:
            assert sum(c["late"] for c in network["collectives"]) > 15, network["collectives"]


def refuses():
    program, _ = compiled()
    with mpcomm.Session(program) as session:
        for options, message in (({"numerics": "f32"}, "numerics 'f32', expected one of exact, bf16"),
                                 ({"gain": 1.0}, "a gain of 1, expected at least 0"),
                                 ({"every": 5 + session.rank}, "adapts by other options than rank 0")):
            try:
                session.adapt(**options)
                raise AssertionError(options)
            except mpcomm.Error as error:
                assert message in str(error), error
        session.adapt(watch_only=True)  # the session goes on


def old_state():
    """Loss scaling is state that a program without it passes by."""
    program, batches = compiled()
    other, _ = compiled(precision="f16", loss_scale="dynamic")
    with mpcomm.Session(program) as session:
        first = 0
        number = session.load(other)
        session.switch(number)  # nothing has happened since
        session.switch(first)
        session.step(batches[0])
        try:
            session.switch(number)
            raise AssertionError("old state was taken")
        except mpcomm.Error as error:
            what = "rank 0 holds 'loss_scale" if session.rank == 0 else "rank 0 holds state in"
            assert what in str(error) and "load it again" in str(error), error
        session.step(batches[1])  # the session goes on
        session.switch(session.load(other))
        session.step(batches[2])


def main():
    with open(os.path.join(sys.argv[1], "cluster.json"), "w", encoding="utf-8") as file:
        json.dump(CLUSTER, file)
    adapts()
    watches()
    mpcomm.launch(refuses, np=2)
    mpcomm.launch(old_state, np=2)


if __name__ == "__main__":
    main()
