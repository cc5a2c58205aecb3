# `launch` starts ranks that train as PyTorch does, and ends all of them when one fails.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import mpcomm
import torch
import torch.nn.functional as F
from training import adamw, compare, data, loss_of, reference, seeded

STEPS = 30
LONG = 500  # seconds that a rank would wait if nobody ended it, on however busy a machine


def trained(program, batches, log):
    """Losses and the state that a rank ends with."""
    callbacks = [mpcomm.JsonLines(log)]
    with mpcomm.Session(program, callbacks=callbacks) as session:
        assert session.backend == "shm" and session.size == 2
        assert session.rank == int(os.environ["RANK"]) == session.data_rank
        part = slice(4 * session.rank, 4 * session.rank + 4)
        losses = [session.step([t[part] for t in b]) for b in batches]
        session.evaluate([[t[part] for t in b] for b in batches[:3]])
        return losses, session.state_dict(), session.optimizer_state_dict()


def unequal(batches):
    """Ranks that start from weights of their own go on with those of rank 0."""
    model = seeded(int(os.environ["RANK"]))
    program = mpcomm.compile(model, F.cross_entropy, adamw(model.parameters()),
                             [t[:4] for t in batches[0]])
    with mpcomm.Session(program) as session:
        return session.state_dict()


def fails(kind):
    if os.environ["RANK"] == "1":
        if kind == "raises":
            raise ValueError("rank 1 has had enough")
        os.kill(os.getpid(), 9)
    time.sleep(LONG)


def fails_in_a_step(program, batches):
    with mpcomm.Session(program, timeout=LONG) as session:
        for step, batch in enumerate(batches):
            if step == 3 and session.rank == 1:
                raise ValueError("rank 1 has had enough")
            session.step([t[:4] for t in batch])


if __name__ == "__main__":
    batches = data(STEPS)
    exact, bound = reference(seeded(), loss_of, adamw, batches, terms=8)
    model = seeded()
    optimizer = adamw(model.parameters())
    program = mpcomm.compile(model, F.cross_entropy, optimizer, [t[:4] for t in batches[0]],
                             mesh="dp:2")
    log = sys.argv[1] + "/log.jsonl"
    first, second = mpcomm.launch(trained, np=2, args=(program, batches, log))
    compare("2 ranks", first[0], exact, bound)
    assert first[0] == second[0]
    for a, b in zip(first[1].items(), second[1].items()):
        assert a[0] == b[0] and torch.equal(a[1], b[1]), a[0]
    model.load_state_dict(first[1])
    optimizer.load_state_dict(first[2])
    *lines, last = [json.loads(line) for line in open(log)]
    assert last["step"] == STEPS and last["evaluation"]["samples"] == 3 * 8, last
    assert all(line["exposed_ms"] >= 0 for line in lines)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert [line["loss"] for line in lines] == first[0]
    # A program holds the rate in f32.
    assert all(abs(line["lr"] - 1e-2) <= 2 ** -24 * 1e-2 and line["ms"] > 0 for line in lines)

    states = mpcomm.launch(unequal, np=2, args=(batches,))
    for name, tensor in seeded(0).state_dict().items():
        assert all(torch.equal(s[name], tensor) for s in states), name

    assert mpcomm.launch(max, np=1, args=(1, 2)) == [2]
    for kind, word in (("raises", "ValueError: rank 1 has had enough"), ("dies", "SIGKILL")):
        start = time.monotonic()
        try:
            mpcomm.launch(fails, np=2, args=(kind,))
            sys.exit("expected an error")
        except mpcomm.Error as error:
            assert word in str(error) and error.rank == 1, error
        assert time.monotonic() - start < LONG / 2
    start = time.monotonic()
    try:
        mpcomm.launch(fails_in_a_step, np=2, args=(program, batches))
        sys.exit("expected an error")
    except mpcomm.Error as error:
        assert "rank 1 has had enough" in str(error), error
    assert time.monotonic() - start < LONG / 2
