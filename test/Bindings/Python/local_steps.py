# Ranks that take several steps alone before they meet: parameters and losses are those of local
# SGD and DiLoCo as their papers have them, computed here in f64 with torch.optim's optimizers,
# inner and outer; what an inner optimizer keeps is a rank's own and resumes bit for bit.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import copy
import os
import sys

import mpcomm
import torch
from low_rank import batch, batches  # beside this file
from torch import nn

MEETINGS = 6
FOLDER = sys.argv[1]
# Adagrad has state before the first step, which is not zero.
RULES = {"adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=0.1),
         "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
         "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)}


def model(norm=False):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), *([nn.BatchNorm1d(40)] if norm else []), nn.GELU(),
                         nn.Linear(40, 4))


# --- the papers ---

def reference(case, ranks, dtype, narrow=False):
    """Losses of each meeting, and the parameters after the last; products in bf16 where that is
    `narrow`."""
    shared = model(case.get("norm")).to(dtype)
    outer = torch.optim.SGD(shared.parameters(), lr=case.get("outer_lr", 1.0),
                            momentum=case.get("outer_momentum", 0.0),
                            nesterov=case.get("outer_momentum", 0.0) > 0)
    steps, parts = case["local_steps"], case.get("micro_batches", 1)
    workers = [copy.deepcopy(shared) for _ in range(ranks)]
    inner = [RULES[case["rule"]](worker.parameters()) for worker in workers]
    losses = []
    for meeting in range(MEETINGS):
        total = 0.0
        for rank, (worker, optimizer) in enumerate(zip(workers, inner)):
            worker.load_state_dict(shared.state_dict())
            for step in range(steps):
                optimizer.zero_grad()
                for part in range(parts):
                    x, y = batch((meeting * steps + step) * parts + part, rank)
                    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                        output = worker(x.to(dtype))
                    loss = nn.functional.cross_entropy(output.to(dtype), y) / parts
                    loss.backward()
                    total += loss.item() / (ranks * steps)
                if "clip_norm" in case:
                    nn.utils.clip_grad_norm_(worker.parameters(), case["clip_norm"])
                optimizer.step()
        losses.append(total)
        for parameter, *own in zip(shared.parameters(), *(w.parameters() for w in workers)):
            parameter.grad = sum(parameter.data - o.data for o in own) / ranks
        outer.step()
        for buffer, *own in zip(shared.buffers(), *(w.buffers() for w in workers)):
            buffer.copy_(own[0] if buffer.dtype == torch.int64 else sum(own) / ranks)
    kept = [optimizer.state_dict()["state"] for optimizer in inner]
    return losses, {k: v.double() for k, v in shared.state_dict().items()}, {
        (i, k): sum(torch.as_tensor(s[i][k]).double() for s in kept) / ranks
        for i, state in kept[0].items() for k in state}


# --- ours ---

def compiled(mesh, case):
    torch.set_num_threads(1)
    net = model(case.get("norm"))
    options = {k: v for k, v in case.items() if k not in ("rule", "norm")}
    count = case["local_steps"] * case.get("micro_batches", 1)
    return mpcomm.compile(net, nn.functional.cross_entropy, RULES[case["rule"]](net.parameters()),
                          batches(0, 0, count), mesh=mesh, **options)


def trained(mesh, case, save=None, resume=None):
    losses = []
    count = case["local_steps"] * case.get("micro_batches", 1)
    with mpcomm.Session(compiled(mesh, case)) as session:
        if resume:
            session.resume(os.path.join(FOLDER, resume), anyway=resume == "plain")
        for meeting in range(session.steps, MEETINGS):
            losses.append(session.step(batches(meeting, session.rank, count)))
            if save and meeting + 1 == MEETINGS // 2:
                session.save(os.path.join(FOLDER, save))
        return (losses, {k: v.double() for k, v in session.state_dict().items()},
                kept_by(session))


def kept_by(session):
    """What the inner optimizers keep, as PyTorch has it: the mean over the ranks."""
    return {(i, k): torch.as_tensor(v).double()
            for i, state in session.optimizer_state_dict()["state"].items()
            for k, v in state.items()}


def passed_on(mesh, case, path, load=None):
    with mpcomm.Session(compiled(mesh, case)) as session:
        session.resume(os.path.join(FOLDER, path), anyway=case["local_steps"] == 1)
        if load:
            session.load_optimizer_state_dict(load)
        return kept_by(session), session.optimizer_state_dict()


CASES = (
    (2, {"local_steps": 4, "rule": "sgd"}),
    (2, {"local_steps": 5, "rule": "adamw", "outer_lr": 0.7, "outer_momentum": 0.9}),
    (4, {"local_steps": 3, "rule": "adamw", "outer_lr": 0.7, "outer_momentum": 0.9}),
    (2, {"local_steps": 2, "rule": "sgd", "micro_batches": 3}),
    (2, {"local_steps": 3, "rule": "sgd", "clip_norm": 0.1, "norm": True}),
    (1, {"local_steps": 3, "rule": "adamw", "outer_lr": 0.7, "outer_momentum": 0.9}),
    (2, {"local_steps": 2, "rule": "adagrad"}),
)


def distance(a, b):
    """Of losses, of parameters, and of what inner optimizers keep."""
    assert a[2].keys() == b[2].keys(), (a[2].keys(), b[2].keys())
    return (max(abs(x - y) for x, y in zip(a[0], b[0])),
            *(max((one[k] - other[k]).abs().max().item() for k in one)
              for one, other in zip(a[1:], b[1:])))


def main():
    for ranks, case in CASES:
        results = mpcomm.launch(trained, np=ranks, args=(f"dp:{ranks}", case))
        assert all(r[0] == results[0][0] for r in results), "ranks have other losses"
        for key, value in results[0][1].items():
            assert all(torch.equal(value, r[1][key]) for r in results), key
        expected = reference(case, ranks, torch.float64)
        # The algorithm in f32 is off by S; ours, with its sums in another order, by no more than
        # eight of it, and the rounding of a result.
        rounded = distance(reference(case, ranks, torch.float32), expected)
        found = distance(results[0], expected)
        largest = [max(expected[0]), *(max(v.abs().max().item() for v in part.values())
                                       for part in expected[1:])]
        bounds = [8 * r + 2 ** -24 * most for r, most in zip(rounded, largest)]
        print(ranks, case, " ".join(f"{f:.1e} of {b:.1e}" for f, b in zip(found, bounds)))
        assert all(f <= b for f, b in zip(found, bounds)), (ranks, case, results[0][0], expected[0])

    # Half of the way, and on.
    case = CASES[1][1]
    whole = mpcomm.launch(trained, np=2, args=("dp:2", case, "half"))
    rest = mpcomm.launch(trained, np=2, args=("dp:2", case, None, "half"))
    for one, other in zip(whole, rest):
        assert one[0][MEETINGS // 2:] == other[0], "a resumed run has other losses"
        assert all(torch.equal(v, other[1][k]) for k, v in one[1].items())
    # Other meshes go on from it, with the mean of what ranks kept; PyTorch's way is there and
    # back; and so does a plan without local steps.
    own, state = mpcomm.launch(passed_on, np=2, args=("dp:2", case, "half"))[0]
    plain = {"rule": case["rule"], "local_steps": 1}
    for mesh, ranks, options, load in (("dp:1", 1, case, None), ("dp:4", 4, case, None),
                                       ("dp:2", 2, case, state), ("dp:2", 2, plain, None)):
        results = mpcomm.launch(passed_on, np=ranks, args=(mesh, options, "half", load))
        for kept, _ in results:
            assert kept.keys() == own.keys() and own
            # The mean, rounded, of values that were.
            assert all(torch.allclose(kept[k], own[k], rtol=3e-7, atol=1e-12) for k in own), mesh
    mpcomm.launch(trained, np=2, args=("dp:2", plain, "plain"))
    results = mpcomm.launch(trained, np=2, args=("dp:2", case, None, "plain"))
    assert all(torch.isfinite(torch.tensor(r[0])).all() for r in results), results

    # Copies of parameters in 16 bits are those of the outer optimizer's: ranks compute alike, and
    # are no farther off than eight times what PyTorch's products in bf16 are.
    for ranks in (1, 2):
        narrow = {**case, "precision": "bf16"}
        results = mpcomm.launch(trained, np=ranks, args=(f"dp:{ranks}", narrow))
        expected = reference(case, ranks, torch.float64)
        rounded = reference(case, ranks, torch.float32, narrow=True)
        bound = 8 * max(abs(a - b) for a, b in zip(rounded[0], expected[0]))
        for result in results:
            assert result[0] == results[0][0]
            assert all(torch.equal(v, result[1][k]) for k, v in results[0][1].items())
            worst = max(abs(a - b) for a, b in zip(result[0], expected[0]))
            print("bf16", ranks, f"{worst:.1e} of {bound:.1e}")
            assert worst < bound, (ranks, worst, bound, result[0], expected[0])

    for options, message in (({"zero": 1}, "expected zero=0"),
                             ({"precision": "f16"}, "expected no loss scaling"),
                             ({"check_gradients": True}, "expected no check-gradients"),
                             ({"mesh": "auto:2"}, "cannot choose a mesh for local-steps"),
                             ({"mesh": "pp:2"}, "expected a mesh without stages"),
                             ({"outer_momentum": 1.0}, "outer-momentum: expected at least 0"),
                             ({"local_steps": 0}, "samples that 0 local steps divide"),
                             ({"local_steps": 3}, "samples that 3 local steps divide"),
                             ({"local_steps": 1, "outer_lr": 0.5}, "local-steps of 2 or more")):
        try:
            net = model()
            mpcomm.compile(net, nn.functional.cross_entropy, RULES["sgd"](net.parameters()),
                           batches(0, 0, 2), **{"mesh": "dp:2", "local_steps": 2, **options})
            raise AssertionError(options)
        except mpcomm.CompileError as error:
            assert message in str(error), error


if __name__ == "__main__":
    main()
