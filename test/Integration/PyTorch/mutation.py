# What forward() writes to buffers is what PyTorch has in them after each step, loss and
# output are PyTorch's, and what cannot be expressed is refused with a message
# (Inputs/mutating.py). The import leaves the model as it was.
#
# REQUIRES: torch
# RUN: %python %s

import copy
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
    assert got.dtype == expected.dtype and got.shape == expected.shape and torch.allclose(
        got.double(), expected.double(), rtol=bound, atol=bound), \
        f"{what}: expected {expected.tolist()}, found {got.tolist()}"


def attributes_of(model):
    """Of each module; lists and dictionaries as they are now."""
    return [{k: copy.copy(v) if isinstance(v, (list, dict)) else v for k, v in vars(m).items()}
            for m in model.modules()]


def check_left(name, model, before):
    """An import leaves the objects that a model had, and what they had in them."""
    after = attributes_of(model)
    assert len(after) == len(before), name
    for was, now in zip(before, after):
        assert list(was) == list(now), f"{name}: importing changed {set(was) ^ set(now)}"
        for k, v in was.items():
            same = list(map(id, v)) == list(map(id, now[k])) if isinstance(v, list) else \
                [(i, id(x)) for i, x in v.items()] == [(i, id(x)) for i, x in now[k].items()] \
                if isinstance(v, dict) else v is now[k]
            assert same, f"{name}: importing changed {k}"


def check(name, make, loss_of=lambda model: mean_square):
    torch.manual_seed(0)
    model = make()
    work = workload(model, {"x": mutating.numbers(4 * STEPS, 4)}, loss_of(model))
    before = {n: t.detach().clone() for n, t in state_of(model).items()}
    attributes = attributes_of(model)
    program = mi.trace(work)
    for n, t in state_of(model).items():
        assert torch.equal(t, before[n]), f"{name}: importing changed {n}"
    check_left(name, model, attributes)
    train, evaluate = program.functions
    taken = {a.name for a in train.arguments}
    assert {a.name for a in evaluate.arguments} <= taken, name
    for r in train.results:
        assert r.update is None or r.update in train.arguments, f"{name}: {r.name}"
    state = checks.initial_state(program)
    for step in range(STEPS):
        batch = checks.batch_of(work, work.dataset, step)
        results = evaluator.run(train, {**state, "x": batch["x"].clone()})
        loss = checks.eager_step(work, {"x": batch["x"].clone()})["loss"]
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
    model = make()
    attributes = attributes_of(model)
    try:
        mi.trace(workload(model, {"x": mutating.numbers(4 * STEPS, 4)}))
    except mi.ImportFailure as error:
        assert re.search(message, str(error)), f"{name}: {error}"
    else:
        raise AssertionError(f"{name}: expected an error")
    check_left(name, model, attributes)


for name, (make, _) in mutating.MODELS.items():
    check(name, make)
for name, (make, message) in mutating.REFUSED.items():
    check_refused(name, make, message)

# A loss may read the model, and what forward() has left in it.
check("loss of the model", mutating.MODELS["moving_average"][0],
      lambda model: lambda y: (y * model.cur).mean() + model.w.pow(2).sum())

# A loss may read what forward() has left in a plain attribute.
check("attribute for the loss", mutating.MODELS["attributes_of_one_step"][0],
      lambda model: lambda y: y.mean() + model.last.pow(2).sum())


def warnings_of(name):
    return mi.trace(workload(mutating.MODELS[name][0](), {"x": mutating.numbers(4, 4)})).warnings


# An attribute that is another one after each step might matter later; one that is not does not.
for name, attribute in (("calls_counted", "t"), ("output_in_a_list", "log")):
    warnings = warnings_of(name)
    assert len(warnings) == 1 and warnings[0].startswith(
        f"forward() changes '{attribute}' in each step"), warnings
assert warnings_of("output_in_a_dictionary") == []
assert not any("in each step" in w for w in warnings_of("attributes_of_one_step"))

# What an evaluation computes once, of parameters alone.
if torch.__version__ >= "2":
    warnings = warnings_of("caching_parameter")
    assert any("in evaluation mode forward() keeps 'kept' until eval()" in w for w in warnings), warnings

# A buffer that evaluation writes, too, is one that @evaluate leaves alone.
warnings = warnings_of("moving_average")
assert any("'cur' is written in evaluation mode" in w for w in warnings), warnings
