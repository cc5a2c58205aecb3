# Optimizers that are traced make the steps that PyTorch makes, 50 of them, for a model
# with two parameter groups; state is named as in PyTorch's state_dict. What cannot be
# traced is refused with a reason. Here a sample in f64; all of torch.optim, for three
# models, also in f32, in traced-optimizers-long.test.
#
# REQUIRES: torch
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn as nn
import torch.nn.functional as F
import user_optimizers as users

import mpcomm_import as mi

STEPS = 50
RATE = 2.0 ** -7  # what f32 and f64 have alike
# [(class, options of the optimizer, options of its second group)]
SAMPLE = [("SGD", dict(momentum=0.9, dampening=0.5), dict(maximize=True)),
          ("RMSprop", dict(centered=True, momentum=0.5, eps=1e-3), dict(alpha=0.9)),
          ("NAdam", dict(eps=1e-3), dict(weight_decay=0.1)),
          (users.LAMB, {}, dict(weight_decay=0.0)),
          (users.Orthogonal, {}, dict(momentum=0.5))]
ALL = [("SGD", dict(momentum=0.9, nesterov=True, maximize=True), dict(weight_decay=0.1)),
       ("Adam", dict(weight_decay=0.1, eps=1e-3), dict(amsgrad=True)),
       ("AdamW", dict(amsgrad=True, eps=1e-3), dict(maximize=True)),
       ("RAdam", dict(eps=1e-3), dict(betas=(0.5, 0.9))),
       ("Adamax", dict(eps=1e-3), dict(weight_decay=0.1)),
       ("Adadelta", dict(eps=1e-3), dict(rho=0.5)),
       ("Adagrad", dict(lr_decay=0.1, initial_accumulator_value=0.5, eps=1e-3),
        dict(weight_decay=0.1)),
       # With eps 1e-3 and momentum 0.9 PyTorch's own losses of the attention, its parameters
       # moved by 1e-16, are apart by 1e-9 after 50 steps; with these by 3e-15.
       ("RMSprop", dict(eps=1e-2), dict(momentum=0.5)),
       ("Rprop", {}, dict(step_sizes=(1e-5, 0.1))),
       ("ASGD", dict(t0=20), dict(weight_decay=0.1)),
       ("Adafactor", dict(eps=(1e-3, 1e-3)), dict(weight_decay=0.1)),
       (users.Lion, {}, dict(weight_decay=0.0))]


class Attention(nn.Module):
    """A transformer's block. Its keys have no bias: what is nothing but rounding would
    have a sign."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24, bias=False)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        h = self.embed(x)
        q, k, v = self.qkv(self.norm(h)).split(8, -1)
        h = h + torch.softmax(q @ k.transpose(1, 2) / 8 ** 0.5, -1) @ v
        return self.out(torch.tanh(h).mean(1))


def models():
    yield "mlp", nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), (6,)
    yield "convolutions", nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(16, 3)), (2, 4, 4)
    yield "attention", Attention(), (4, 5)


def workload(net, shape, kind, options, second):
    """The first half of the parameters in one group, the others in another one."""
    make = getattr(torch.optim, kind) if isinstance(kind, str) else kind
    parameters = list(net.parameters())
    half = len(parameters) // 2
    optimizer = make([{"params": parameters[:half]}, {"params": parameters[half:], **second}],
                     lr=RATE, **options)
    return mi.Workload(net, F.cross_entropy, optimizer, 4, {
        "x": torch.randn(12, *shape), "y": torch.randint(0, 3, (12,))}, name="net")


def run(cases, names, precisions):
    for kind, options, second in cases:
        if isinstance(kind, str) and not hasattr(torch.optim, kind):
            continue
        for double in precisions:
            torch.manual_seed(1)
            for name, net, shape in models():
                if name not in names:
                    continue
                program = checks.check(workload(net, shape, kind, options, second), STEPS, double)
                train = program.functions[0]
                assert train.count("update") == len(list(net.parameters())), kind
                print(name, kind, "f64" if double else "f32")


def state_of(kind, **options):
    net = nn.Sequential(nn.Linear(3, 2, bias=False))
    make = getattr(torch.optim, kind) if isinstance(kind, str) else kind
    program = mi.trace(mi.Workload(
        net, F.mse_loss, make(net.parameters(), lr=RATE, **options), 2,
        {"x": torch.randn(4, 3), "y": torch.randn(4, 2)}, name="net"))
    return {a.name: a.attributes.get("default") for a in program.functions[0].arguments
            if a.role == "optimizer_state"}, program


def check_state():
    """Names and initial values."""
    state, _ = state_of("NAdam")
    assert state == {"0.weight.mu_product": 1.0, "0.weight.exp_avg": None,
                     "0.weight.exp_avg_sq": None, "step": None}, state
    state, program = state_of("Adagrad", initial_accumulator_value=0.25)
    assert state == {"0.weight.sum": None, "step": None}, state
    assert program.weights["0.weight.sum"].eq(0.25).all(), program.weights
    state, _ = state_of(users.LAMB)
    assert state == {"0.weight.exp_avg": None, "0.weight.exp_avg_sq": None, "step": None}, state
    state, _ = state_of("SGD", momentum=0.9, dampening=0.1)
    assert state == {"0.weight.momentum_buffer": None, "step": None}, state

    # In the middle of a training.
    net = nn.Sequential(nn.Linear(6, 3))
    w = mi.Workload(net, F.cross_entropy, torch.optim.RMSprop(net.parameters(), lr=RATE), 4, {
        "x": torch.randn(12, 6), "y": torch.randint(0, 3, (12,))}, name="net")
    batch = {k: t[:4] for k, t in w.dataset.items()}
    for _ in range(3):
        checks.eager_step(w, batch)
    program = mi.trace(w)
    results = checks.evaluator.run(program.functions[0], {
        **{n: t.detach().clone() for n, t in checks.initial_state(program).items()}, **batch,
        "lr": torch.tensor(RATE)})
    checks.eager_step(w, batch)
    for name, p in net.named_parameters():
        assert checks.difference(p.detach(), results[name]) < 1e-5, name


def refuse(kind, message, **options):
    try:
        state_of(kind, **options)
    except mi.ImportFailure as error:
        assert message in str(error), error
        return
    raise AssertionError(f"{kind} is not refused")


def check_refused():
    refuse("LBFGS", "optimizer LBFGS: step() needs a closure")
    refuse("SparseAdam", "optimizer SparseAdam: step() stopped on a parameter of shape (2, 3): "
                         "RuntimeError: SparseAdam does not support dense gradients")
    refuse(users.Closure, "optimizer Closure: step() needs a closure")
    refuse(users.Clipped, "optimizer Clipped: the update of one parameter depends on other")
    refuse(users.Counting, "optimizer Counting: step() changes its attribute 'calls'")
    refuse(users.Tallying, "optimizer Tallying: step() changes its attribute 'counts'")
    refuse(users.Listing, "optimizer Listing: its state 'history' is a list")
    refuse(users.Plainly, "optimizer Plainly: float() of a tensor; use item()")
    refuse(users.Noisy, "optimizer Noisy: step() draws random numbers")


if sys.argv[1:]:
    run(SAMPLE + ALL, sys.argv[1:], (True, False))
else:
    check_state()
    check_refused()
    run(SAMPLE, ["mlp"], (True,))
