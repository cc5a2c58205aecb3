# Ranks average momentum instead of gradients. Of SGD losses are those of SGD; of AdamW, whose
# variance stays as it is, those of 1-bit Adam's second phase: both computed here in f64, also
# with micro-batches; a step of AdamW can follow. Of optimizers that a user writes, the state that is
# not linear stays likewise. With signs on the wire a classifier then learns as in f32, which it
# does not where signs stand for gradients.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %mpcomm_src_root/test/Integration/PyTorch/Inputs
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

import low_rank  # beside this file
import mpcomm
import torch
from low_rank import model
from torch import nn

FOLDER = sys.argv[1]
sys.path.append(sys.argv[2])
import user_optimizers  # noqa: E402
WARM, FROZEN, AFTER = 8, 8, 4
STEPS = WARM + FROZEN + AFTER
LR, BETAS, EPS, DECAY = 0.01, (0.9, 0.99), 1e-8, 0.1


def batches(step, rank, micro_batches):
    """A feature that the warm-up does not have: its weights have no variance then."""
    x, labels = low_rank.batches(step, rank, micro_batches)
    return (x if step >= WARM else torch.cat([0 * x[:, :1], x[:, 1:]], 1)), labels


def is_frozen(step):
    return WARM <= step < WARM + FROZEN


def adamw(net):
    return torch.optim.AdamW(net.parameters(), lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)


def reference(ranks, micro_batches, dtype, narrow=False):
    """Losses of the mean model of all ranks; with `narrow` products are of bf16."""
    net = model().to(dtype)
    parameters = list(net.parameters())
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    losses = []
    for step in range(STEPS):
        gradients, loss = [torch.zeros_like(p) for p in parameters], 0.0
        for rank in range(ranks):
            x, labels = batches(step, rank, micro_batches)
            with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                outputs = net(x.to(dtype))
            own = nn.functional.cross_entropy(outputs.to(dtype), labels)
            for total, part in zip(gradients, torch.autograd.grad(own, parameters)):
                total += part / ranks
            loss += own.item() / ranks
        losses.append(loss)
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second):
                estimate = v / (1 - BETAS[1] ** step) if step else v
                m.mul_(BETAS[0]).add_(g, alpha=1 - BETAS[0])
                if is_frozen(step):
                    v.copy_(estimate * (1 - BETAS[1] ** (step + 1)))
                else:
                    v.mul_(BETAS[1]).add_(g * g, alpha=1 - BETAS[1])
                    estimate = v / (1 - BETAS[1] ** (step + 1))
                p.mul_(1 - LR * DECAY)
                change = LR * (m / (1 - BETAS[0] ** (step + 1))) / (estimate.sqrt() + EPS)
                p.sub_(torch.where(estimate > 0, change, torch.zeros_like(change)))
                m.copy_(torch.where(estimate > 0, m, torch.zeros_like(m)))
    return losses


def sgd(net, nesterov):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01,
                           nesterov=nesterov)


def trained_by_sgd(nesterov):
    torch.set_num_threads(1)
    net = model()
    program = mpcomm.compile(net, nn.functional.cross_entropy, sgd(net, nesterov), batches(0, 0, 1),
                             mesh="dp:2", average_momentum=True)
    with mpcomm.Session(program) as session:
        return [session.step(batches(step, session.rank, 1)) for step in range(STEPS)]


def unwarmed():
    """Parameters after a step of AdamW, and after one that begins with averaged momentum."""
    torch.set_num_threads(1)
    found = []
    for options in ({}, {"average_momentum": True}):
        net = model()
        program = mpcomm.compile(net, nn.functional.cross_entropy, adamw(net), batches(0, 0, 1),
                                 mesh="dp:2", **options)
        with mpcomm.Session(program) as session:
            session.step(batches(0, session.rank, 1))
            found.append(session.state_dict())
    return found


def check_first_step():
    plain, first = mpcomm.launch(unwarmed, np=2)[0]
    for name, value in plain.items():
        # A step is LR for each element, of which f32 rounds the parameter and a few factors.
        assert (first[name] - value).abs().max() <= 2 ** -20 * (value.abs().max() + 1), name
        assert not torch.equal(value, model().state_dict()[name]), name


def check_sgd():
    for nesterov, (losses, _) in zip((False, True), low_rank.launch_each(trained_by_sgd, 2,
                                                                         [(False,), (True,)])):
        compare(("sgd", nesterov), losses, *(reference_of(lambda net, n=nesterov: sgd(net, n), dtype)
                                             for dtype in (torch.float64, torch.float32)))


def compare(case, losses, exact, rounded):
    # PyTorch's own f32 is off by S; sums in another order may be by as much, and more.
    bound = 8 * max(abs(a - b) for a, b in zip(exact, rounded))
    worst = max(abs(a - b) for a, b in zip(exact, losses))
    print(case, f"{worst:.1e} of {bound:.1e}")
    assert worst <= bound, (case, exact, losses)


def trained(mesh, options, save=None, resume=None):
    torch.set_num_threads(1)
    net = model()
    parts = options.get("micro_batches", 1)
    program = mpcomm.compile(net, nn.functional.cross_entropy, adamw(net), batches(0, 0, parts),
                             mesh=mesh, variants={"frozen": {**options, "average_momentum": True}}, **options)
    losses = []
    with mpcomm.Session(program) as session:
        if resume:
            session.resume(os.path.join(FOLDER, resume))
        for step in range(session.steps, STEPS):
            session.switch("frozen" if is_frozen(step) else "")
            losses.append(session.step(batches(step, session.data_rank, parts)))
            if save and step + 1 == WARM + FROZEN // 2:
                session.save(os.path.join(FOLDER, save))
    return losses


def check_losses():
    for ranks, layouts in ((1, [{}]), (2, [{}, {"micro_batches": 3},
                                           {"average": "before"}])):
        results = low_rank.launch_each(trained, ranks,
                                       [(f"dp:{ranks}", options) for options in layouts])
        for options, (losses, *_) in zip(layouts, results):
            parts = options.get("micro_batches", 1)
            compare((ranks, options), losses, reference(ranks, parts, torch.float64),
                    reference(ranks, parts, torch.float32))
    # Deferred reductions change no bits. Products of bf16 are off by what PyTorch's are.
    late, plain, narrow = (each[0] for each in low_rank.launch_each(
        trained, 2, [("dp:2", {"defer_bytes": -1}), ("dp:2", {}), ("dp:2", {"precision": "bf16"})]))
    assert late == plain, (late, plain)
    compare("bf16", narrow, reference(2, 1, torch.float64), reference(2, 1, torch.float32, narrow=True))
    whole, rest = low_rank.launch_each(trained, 2, [("dp:2", {}, "half"),
                                                    ("dp:2", {}, None, "half")])
    for one, other in zip(whole, rest):
        assert one[WARM + FROZEN // 2:] == other, "a resumed run has other losses"


# --- optimizers that are traced ---

def lamb(net):
    return user_optimizers.LAMB(net.parameters(), lr=LR)


def adamax(net):
    return torch.optim.Adamax(net.parameters(), lr=LR, betas=BETAS, weight_decay=DECAY)


@torch.no_grad()
def step_frozen(rule, name):
    """A step of LAMB or Adamax whose state `name` stays; where that is 0, momentum is."""
    group = rule.param_groups[0]
    (beta1, beta2), decay = group["betas"], group["weight_decay"]
    for p in group["params"]:
        state = rule.state[p]
        state["step"] += 1
        kept, m, count = state[name], state["exp_avg"], float(state["step"])
        g = p.grad + (decay * p if name == "exp_inf" else 0)
        m.mul_(beta1).add_(g, alpha=1 - beta1).mul_((kept != 0).to(m.dtype))
        if name == "exp_inf":
            p.sub_(group["lr"] / (1 - beta1 ** count) * m / kept)
            continue
        size = (1 - beta2 ** count) ** 0.5 / (1 - beta1 ** count)
        change = m / (kept.sqrt() + group["eps"]) * size + decay * p
        p.sub_(change * (group["lr"] * min(p.norm().item() / change.norm().item(), 10.0)))


def reference_of(make, dtype, state=None):
    """Losses of a rule of PyTorch, of which `state` stays in the frozen steps."""
    net = model().to(dtype)
    rule = make(net)
    losses = []
    for step in range(STEPS):
        net.zero_grad()
        losses.append(0.0)
        for rank in range(2):
            x, labels = batches(step, rank, 1)
            own = nn.functional.cross_entropy(net(x.to(dtype)), labels) / 2
            own.backward()
            losses[-1] += own.item()
        if state and is_frozen(step):
            step_frozen(rule, state)
        else:
            rule.step()
    return losses


def trained_by_traced(make):
    torch.set_num_threads(1)
    net = model()
    program = mpcomm.compile(net, nn.functional.cross_entropy, make(net), batches(0, 0, 1),
                             mesh="dp:2", variants={"frozen": {"average_momentum": True}})
    losses = []
    with mpcomm.Session(program) as session:
        for step in range(STEPS):
            session.switch("frozen" if is_frozen(step) else "")
            losses.append(session.step(batches(step, session.rank, 1)))
    return losses


def check_traced():
    makers = ((lamb, "exp_avg_sq"), (adamax, "exp_inf"))
    for (make, state), (losses, _) in zip(makers, low_rank.launch_each(
            trained_by_traced, 2, [(make,) for make, _ in makers])):
        compare(make.__name__, losses, *(reference_of(make, dtype, state)
                                         for dtype in (torch.float64, torch.float32)))


# --- learning ---

CLASSES, WIDTH, LONG = 10, 32, 800


def classifier(rule, variant, seed=0):
    """Losses; after a quarter of the steps with the plan of the variant's options."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                        nn.Linear(64, CLASSES))
    rule = torch.optim.AdamW(net.parameters(), lr=5e-3, betas=(0.9, 0.99)) if rule == "adamw" \
        else torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    centres = 0.5 * torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(5))

    def batch(step, rank):
        generator = torch.Generator().manual_seed(1000 * step + rank + 500 * seed)
        labels = torch.randint(CLASSES, (16,), generator=generator)
        return centres[labels] + torch.randn(16, WIDTH, generator=generator), labels
    program = mpcomm.compile(net, nn.functional.cross_entropy, rule, batch(0, 0), mesh="dp:2",
                             variants={"late": {"wire_min_bytes": 0, **variant}})
    losses = []
    with mpcomm.Session(program) as session:
        for step in range(LONG):
            if step == LONG // 4:
                session.switch("late")
            losses.append(session.step(batch(step, session.rank)))
    return losses


def check_learning():
    for rule in ("adamw", "sgd"):
        # What other samples make of it in f32 is the noise.
        cases = [(rule, {}, seed) for seed in range(4)]
        cases += [(rule, {"wire": "i1", "average_momentum": True}), (rule, {"wire": "i1"})]
        ends = [sum(losses[-100:]) / 100
                for losses, _ in low_rank.launch_each(classifier, 2, cases)]
        exact, (momentum, gradients) = ends[:4], ends[4:]
        bound = max(exact) + max(exact) - min(exact)
        print(f"{rule} f32 {min(exact):.4f} to {max(exact):.4f}, signs of momentum {momentum:.4f}, "
              f"of gradients {gradients:.4f}")
        assert momentum < bound < gradients, (rule, exact, momentum, gradients)


def refuse(options, message):
    net = model()
    try:
        mpcomm.compile(net, nn.functional.cross_entropy,
                       options.pop("rule", adamw)(net), batches(0, 0, 1),
                       **{"mesh": "dp:2", "average_momentum": True, **options})
        raise AssertionError(message)
    except mpcomm.CompileError as error:
        assert message in str(error), error


def main():
    check_sgd()
    check_traced()
    check_first_step()
    check_losses()
    check_learning()
    refuse({"local_steps": 2}, "average-momentum: expected local-steps=1")
    refuse({"zero": 1}, "average-momentum: expected zero=0")
    for options in ({"clip_norm": 1.0}, {"check_gradients": True}, {"precision": "f16"}):
        refuse(options, "average-momentum: expected no loss scaling, clip-norm or check-gradients")
    refuse({"mesh": "pp:2", "micro_batches": 2}, "average-momentum: expected a mesh without stages")
    refuse({"rule": lambda net: torch.optim.SGD(net.parameters(), lr=0.1)},
           "has no update with momentum, expected one")
    for rule in (lambda net: torch.optim.NAdam(net.parameters()),
                 lambda net: user_optimizers.Lion(net.parameters(), lr=LR)):
        refuse({"rule": rule}, "reads the gradient beside momentum")


if __name__ == "__main__":
    main()
