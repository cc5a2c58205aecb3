# What forward() writes to buffers is what PyTorch has in them after each step, loss and
# output are PyTorch's, and what cannot be expressed is refused with a message
# (Inputs/mutating.py). The import leaves the model as it was.
#
# REQUIRES: torch
# RUN: %python %s

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import evaluator
import mutating
import torch

import mpcomm_import as mi

STEPS = 3


def mean_square(y):
    return y.reshape(-1).pow(2).mean()


def workload(model, data, loss=mean_square):
    return mi.Workload(model, loss,
                       torch.optim.SGD(model.parameters(), lr=0.5), 4, data, name="model")


def state_of(model):
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def expect_same(what, got, expected):
    bound = 2.0 ** -40  # some hundred operations in f64
    assert got.dtype == expected.dtype and torch.allclose(
        got.double(), expected.double(), rtol=bound, atol=bound), \
        f"{what}: expected {expected.tolist()}, found {got.tolist()}"


def check(name, make, loss_of=lambda model: mean_square):
    torch.manual_seed(0)
    model = make()
    work = workload(model, {"x": mutating.numbers(4 * STEPS, 4)}, loss_of(model))
    before = {n: t.detach().clone() for n, t in state_of(model).items()}
    attributes = set(vars(model))
    program = mi.trace(work)
    for n, t in state_of(model).items():
        assert torch.equal(t, before[n]), f"{name}: importing changed {n}"
    assert set(vars(model)) == attributes, name
    train, evaluate = program.functions
    taken = {a.name for a in train.arguments}
    assert {a.name for a in evaluate.arguments} <= taken, name
    for r in train.results:
        assert r.update is None or r.update in train.arguments, f"{name}: {r.name}"
    state = checks.initial_state(program)
    for step in range(STEPS):
        batch = checks.batch_of(work, work.dataset, step)
        results = evaluator.run(train, {**state, "x": batch["x"].clone()})
        loss = checks.eager_step(work, {"x": batch["x"].clone()})
        expect_same(f"{name}, step {step}: loss", results.pop("loss"), loss)
        state.update(results)
        for n, t in state_of(model).items():
            expect_same(f"{name}, step {step}: {n}", state.get(n, before[n]), t.detach())
    state.update({n: t.detach().clone() for n, t in state_of(model).items()})
    x = work.dataset["x"][:4]
    results = evaluator.run(evaluate, {**state, "x": x.clone()})
    model.eval()
    expect_same(f"{name}, evaluate: output", results["output"], model(x.clone()).detach())


def check_refused(name, make, message):
    torch.manual_seed(0)
    try:
        mi.trace(workload(make(), {"x": mutating.numbers(4 * STEPS, 4)}))
    except mi.ImportFailure as error:
        assert re.search(message, str(error)), f"{name}: {error}"
    else:
        raise AssertionError(f"{name}: expected an error")


for name, (make, _) in mutating.MODELS.items():
    check(name, make)
for name, (make, message) in mutating.REFUSED.items():
    check_refused(name, make, message)

# A loss may read the model, and what forward() has left in it.
check("loss of the model", mutating.MODELS["moving_average"][0],
      lambda model: lambda y: (y * model.cur).mean() + model.w.pow(2).sum())

# A buffer that evaluation writes, too, is one that @evaluate leaves alone.
warnings = mi.trace(workload(mutating.MODELS["moving_average"][0](),
                             {"x": mutating.numbers(4, 4)})).warnings
assert any("'cur' is written in evaluation mode" in w for w in warnings), warnings
