# Gradients sent in 8, 4 and 1 bits, or as the largest of each few, with error feedback. Of a loss that is linear in the
# parameters gradients are known, whatever the parameters are: after any number of steps,
# what was added to a parameter and what ranks have left over are all of the gradients, for
# every format, number of ranks and bucket, with ZeRO and in pipelines. A run that resumes goes on bit for bit, and a
# classifier learns as in f32, which without the feedback it does not.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

import low_rank  # beside this file
import mpcomm
import torch
from torch import nn

SAMPLES, RATE, MOMENTUM = 4, 0.01, 0.5
# Gradients of some units by 2^127 are no numbers; by what a step less by 2^40 makes of it, they are.
OVERFLOWING = {"loss_scale": f"dynamic:{2.0 ** 127!r}", "loss_scale_max": repr(2.0 ** 127),
               "loss_scale_backoff": repr(2.0 ** -40)}
FOLDER = sys.argv[1]


# --- what is left over ---

def linear_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(33, 70), nn.Linear(70, 9, bias=False))[0]


def linear_loss(output, weight):
    return (output * weight).sum() / SAMPLES


def linear_batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return (torch.randn(SAMPLES, 33, generator=generator) ** 3,
            torch.randn(SAMPLES, 70, generator=generator))


def linear(mesh, options, steps, file):
    """The parameters; the checkpoint `file` has the rest."""
    torch.set_num_threads(1)
    net = linear_model()
    rule = torch.optim.SGD(net.parameters(), lr=RATE)
    program = mpcomm.compile(net, linear_loss, rule, linear_batch(0, 0), mesh=mesh,
                             wire_min_bytes=0, **options)
    with mpcomm.Session(program) as session:
        for step in range(steps):
            session.step(linear_batch(step, session.rank))
        session.save(os.path.join(FOLDER, file))
        return session.state_dict()


def left_over(file, ranks):
    """The mean over ranks of what is left over, by the checkpoint."""
    return low_rank.sums(os.path.join(FOLDER, file), ranks)


def check_sums():
    steps = 7
    for ranks in (2, 3):
        gradients = [[], []]
        for step in range(steps):
            for rank in range(ranks):
                x, t = linear_batch(step, rank)
                x, t = x.double(), t.double()
                gradients[0].append(t.T @ x / SAMPLES / ranks)
                gradients[1].append(t.sum(0) / SAMPLES / ranks)
        whole = [sum(g) for g in gradients]
        formats = [(wire, buckets) for wire in ("i8", "f8E4M3FN", "i4", "i1", "top1of8", "top1of256")
                   for buckets in ("none", "one")]
        states = low_rank.launch_each(linear, ranks, [
            (f"dp:{ranks}", {"wire": wire, "error_feedback": True, "buckets": buckets}, steps,
             wire + buckets) for wire, buckets in formats])
        for (wire, buckets), (state, *_) in zip(formats, states):
            left = left_over(wire + buckets, ranks)
            assert sorted(left) == ["bias", "weight"], left.keys()
            start = linear_model().state_dict()
            for name, gradient in zip(("weight", "bias"), whole):
                moved = (start[name].double() - state[name].double()) / RATE
                rest = left[name].reshape(gradient.shape)
                # Each step rounds the parameter, the mean, the sum with what was left and
                # what is left: 2^-24 of each, of which the parameter is divided by the rate.
                bound = 2 ** -24 * (steps + 1) * (start[name].abs().max() / RATE
                                                  + 8 * ranks * gradient.abs().max() + 8)
                worst = (moved + rest - gradient).abs().max()
                assert worst < bound, (ranks, wire, buckets, name, worst, bound)
                # It is not nothing that was left over.
                assert rest.abs().max() > 100 * bound or wire in ("i8", "f8E4M3FN"), rest
        print(ranks, "ranks: nothing is lost")


def spoilt(wire, value):
    """Which weights are finite after a step in which a gradient of rank 1 is not; and which are
    after one in which all gradients are zero."""
    torch.set_num_threads(1)
    net = linear_model()
    rule = torch.optim.SGD(net.parameters(), lr=RATE)
    program = mpcomm.compile(net, linear_loss, rule, linear_batch(0, 0), mesh="dp:2",
                             wire_min_bytes=0, wire=wire)
    with mpcomm.Session(program) as session:
        x, t = linear_batch(0, session.rank)
        session.step((0 * x, 0 * t))
        still = all(torch.equal(v, net.state_dict()[k]) for k, v in session.state_dict().items())
        if session.rank == 1:
            t[:] = 0
            x[:] = 0
            # Products overflow, and of two samples are no number.
            t[:2, 5] = 1e30
            x[:2, 7] = torch.tensor({"nan": (1e30, -1e30), "inf": (1e30, 1e30),
                                     "-inf": (-1e30, -1e30)}[value])
        session.step((x, t))
        return still, session.state_dict()["weight"].isfinite()


def check_spoilt():
    """A number that is none is not lost."""
    cases = [(wire, value) for wire in ("i8", "i1", "top1of8", "top1of256")
             for value in ("nan", "inf", "-inf")]
    for case, ((still, finite), _) in zip(cases, low_rank.launch_each(spoilt, 2, cases)):
        assert still, case
        # It is in the block of the element, and in no row far from it.
        assert not finite[:20].all() and finite[20:].all(), (case, finite)


# --- ranks that hold parts ---

class Two(nn.Module):
    """Linear in the parameters of both layers, which two stages can have."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(33, 70)
        self.b = nn.Linear(33, 70, bias=False)

    def forward(self, x):
        return self.a(x) + self.b(2 * x)


def part_batch(step, rank, parts):
    return tuple(torch.cat(t) for t in zip(*(linear_batch(parts * step + i, rank)
                                             for i in range(parts))))


def in_parts(mesh, options, steps, file):
    torch.set_num_threads(1)
    net = Two()
    rule = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    parts = options.get("micro_batches", 1)
    program = mpcomm.compile(net, linear_loss, rule, part_batch(0, 0, parts), mesh=mesh,
                             wire_min_bytes=0, **options)
    with mpcomm.Session(program) as session:
        for step in range(steps):
            session.step(part_batch(step, session.data_rank, parts))
        session.save(os.path.join(FOLDER, file))
        buffers = session.optimizer_state_dict()["state"]
        return session.state_dict(), {name: buffers[i]["momentum_buffer"] for i, (name, _)
                                      in enumerate(net.named_parameters())}


def check_parts():
    steps = 5
    for mesh, ranks, data, layout in (
            ("dp:2", 2, 2, {"zero": 1}), ("dp:3", 3, 3, {"zero": 1, "buckets": "one"}),
            ("dp:2", 2, 2, {"zero": 1, "micro_batches": 2}), ("dp:3", 3, 3, {"zero": 2}),
            ("dp:2", 2, 2, {"zero": 3, "buckets": "one"}),
            ("dp:2", 2, 2, {"loss_scale": "static:1024"}), ("dp:3", 3, 3, OVERFLOWING),
            ("dp:2", 2, 2, {"zero": 1, "micro_batches": 2, **OVERFLOWING}),
            ("dp:2", 2, 2, {"zero": 3, **OVERFLOWING}),
            ("pp:2,dp:2", 4, 2, {"micro_batches": 2}),
            ("pp:2,dp:2", 4, 2, {"micro_batches": 2, **OVERFLOWING}),
            ("pp:2,dp:2", 4, 2, {"micro_batches": 2, "zero": 1})):
        parts = layout.get("micro_batches", 1)
        # The first step overflows, and is not taken.
        gradients = [[], []]
        for step in range("loss_scale_max" in layout, steps):
            for rank in range(data):
                x, t = (v.double() for v in part_batch(step, rank, parts))
                gradients[0].append(t.T @ x / SAMPLES / data / parts)
                gradients[1].append(t.sum(0) / SAMPLES / data / parts)
        weight, bias = (sum(g) for g in gradients)
        forms = [{"wire": wire, "error_feedback": True}
                 for wire in (("i8", "i1", "top1of32") if ranks == 2 else ("i4",))]
        forms.append({"low_rank": 2})
        results = low_rank.launch_each(in_parts, ranks, [
            (mesh, {**form, **layout}, steps, f"parts{i}") for i, form in enumerate(forms)])
        for i, (form, ((state, buffers), *_)) in enumerate(zip(forms, results)):
            left = left_over(f"parts{i}", data)
            names = ["a.weight", "b.weight"] if "low_rank" in form else \
                ["a.bias", "a.weight", "b.weight"]
            assert sorted(left) == names, (layout, form, left.keys())
            start = Two().state_dict()
            for name, gradient in (("a.weight", weight), ("a.bias", bias),
                                   ("b.weight", 2 * weight)):
                # The sum of what was sent, by the sum of momentum and the last of it.
                moved = (start[name].double() - state[name].double()) / RATE
                moved = (1 - MOMENTUM) * moved + MOMENTUM * buffers[name].double()
                # Sums over micro-batches travel.
                rest = left[name].reshape(gradient.shape) / parts if name in left else 0 * gradient
                bound = 2 ** -24 * (steps + 1) * (start[name].abs().max() / RATE
                                                  + 8 * data * parts * gradient.abs().max() + 8)
                worst = (moved + rest - gradient).abs().max()
                assert worst < bound, (mesh, layout, form, name, worst, bound)
                assert name not in left or rest.abs().max() > 100 * bound or \
                    form.get("wire") == "i8", (mesh, layout, rest)
        print(mesh, layout, "nothing is lost")

    for options in ({"wire": "i4", "zero": 2, "micro_batches": 2},
                    {"low_rank": 2, "zero": 3, "micro_batches": 2}):
        try:
            in_parts("dp:2", options, 1, "refused")
            raise AssertionError(options)
        except mpcomm.CompileError as error:
            assert "expected zero=0 or 1, or one micro-batch" in str(error), error


# --- learning ---

def classifier(options, steps, save=None, resume=None, seed=0):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                        nn.Linear(64, 4))
    rule = torch.optim.SGD(net.parameters(), lr=0.05)
    centres = 0.9 * torch.randn(4, 16, generator=torch.Generator().manual_seed(5))

    def batch(step, rank):
        generator = torch.Generator().manual_seed(1000 * step + rank + 500 * seed)
        labels = torch.randint(4, (16,), generator=generator)
        return centres[labels] + torch.randn(16, 16, generator=generator), labels
    program = mpcomm.compile(net, nn.functional.cross_entropy, rule, batch(0, 0), mesh="dp:2",
                             wire_min_bytes=0, **options)
    losses = []
    with mpcomm.Session(program) as session:
        if resume:
            session.resume(os.path.join(FOLDER, resume))
        for step in range(session.steps, steps):
            losses.append(session.step(batch(step, session.rank)))
            if save and step + 1 == steps // 2:
                session.save(os.path.join(FOLDER, save))
    return losses


def check_learning():
    steps = 300

    # What other samples make of it in f32 is the noise.
    cases = [({}, steps, None, None, seed) for seed in range(4)]
    wires = ("i1", "top1of32")
    cases += [({"wire": wire, "error_feedback": feedback}, steps)
              for wire in wires for feedback in (True, False)]
    ends = [sum(losses[-100:]) / 100 for losses, _ in low_rank.launch_each(classifier, 2, cases)]
    exact = ends[:4]
    bound = max(exact) + max(exact) - min(exact)
    for wire, with_it, without in zip(wires, ends[4::2], ends[5::2]):
        print(f"f32 {min(exact):.4f} to {max(exact):.4f}, {wire} {with_it:.4f}, without feedback "
              f"{without:.4f}")
        assert with_it < bound < without, (wire, exact, with_it, without)

    options = {"wire": "i4"}
    whole = mpcomm.launch(classifier, np=2, args=(options, 40, "half"))
    rest = mpcomm.launch(classifier, np=2, args=(options, 40, None, "half"))
    assert [l[20:] for l in whole] == rest, "a resumed run has other losses"


def check_variants():
    """Steps in f32, then signs, then f32, then signs: what was left over waits."""
    options = {"variants": {"signs": {"wire": "i1"}}}
    results = mpcomm.launch(switching, np=2, args=(options, 0))
    assert results[0] == results[1] and results[0][-1] < results[0][0], results[0]
    # A checkpoint is of the program, whichever plan wrote it; what is left over is in it.
    rest = mpcomm.launch(switching, np=2, args=(options, 5))
    assert [losses[5:] for losses in results] == rest, "a resumed run has other losses"


def switching(options, begin):
    """Losses of 12 steps, from a checkpoint after `begin`, which is in the middle of signs."""
    torch.set_num_threads(1)
    net = linear_model()
    rule = torch.optim.SGD(net.parameters(), lr=RATE)
    program = mpcomm.compile(net, linear_loss, rule, linear_batch(0, 0), mesh="dp:2",
                             wire_min_bytes=0, **options)
    losses = []
    with mpcomm.Session(program) as session:
        if begin:
            session.resume(os.path.join(FOLDER, "switching"))
        for step in range(begin, 12):
            session.switch("signs" if step // 3 % 2 else "")
            losses.append(session.step(linear_batch(0, session.rank)))
            if not begin and step == 4:
                session.save(os.path.join(FOLDER, "switching"))
    return losses


def main():
    check_sums()
    check_spoilt()
    check_parts()
    check_learning()
    check_variants()


if __name__ == "__main__":
    main()
