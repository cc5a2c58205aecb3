# A Session of one rank trains as PyTorch does, whatever the batches are made of, and
# evaluates as it does.
#
# REQUIRES: torch, compiler
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import mpcomm
import numpy
import torch
import torch.nn.functional as F
from torch.utils.dlpack import to_dlpack
from training import adamw, compare, data, loss_of, reference, seeded, train

STEPS = 30
batches = data(STEPS)
exact, bound = reference(seeded(), loss_of, adamw, batches, terms=8)
# The bound tells a learning rate that is off by a ten-thousandth from rounding.
wrong = train(seeded(), loss_of, lambda p: torch.optim.AdamW(p, lr=1.0001e-2, weight_decay=0.1), batches)
assert any(abs(a - b) > limit for a, b, limit in zip(wrong, exact, bound))
model = seeded()
optimizer = adamw(model.parameters())


def losses(program, convert, **options):
    with mpcomm.Session(program, **options) as session:
        assert (session.rank, session.size, session.steps) == (0, 1, 0)
        result = [session.step(convert(b)) for b in batches]
        assert session.steps == STEPS and session.last.step == STEPS
        assert all(type(value) is float for value in result)
        return result


# --- kinds of batches: all of them give the same bits ---

by_position = mpcomm.compile(model, F.cross_entropy, optimizer, batches[0])
first = losses(by_position, lambda b: b)
compare("tuples", first, exact, bound)
assert losses(by_position, list) == first
assert losses(by_position, lambda b: {"batch.0": b[0], "batch.1": b[1]}) == first


class Exporter:
    """An array of some other library."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **_):
        return to_dlpack(self.tensor)

    def __dlpack_device__(self):
        return 1, 0


by_name = mpcomm.compile(model, F.cross_entropy, optimizer, {"x": batches[0][0], "y": batches[0][1]})
for kind, make in {
        "tensors": lambda t: t, "arrays": lambda t: t.numpy(), "capsules": to_dlpack,
        "exporters": Exporter,
        "tensors with strides": lambda t: torch.stack([t, t], -1)[..., 0],
        "arrays with strides": lambda t: numpy.asfortranarray(t.numpy()),
        "other types": lambda t: t.double() if t.is_floating_point() else t.int()}.items():
    found = losses(by_name, lambda b: {"x": make(b[0]), "y": make(b[1])})
    assert found == first, kind

# --- the batch is read where it is: the address is that of the tensor ---

with mpcomm.Session(by_position) as session:
    session.step(batches[0])
    assert [a.data for a in session._train.arrays] == [t.data_ptr() for t in batches[0]]

# --- a model that computes its loss; keywords; metrics ---


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = seeded()

    def forward(self, labels, pixels):
        return {"loss": F.cross_entropy(self.inner(pixels), labels)}


own = WithLoss()
program = mpcomm.compile(own, None, adamw(own.parameters()),
                         {"pixels": batches[0][0], "labels": batches[0][1]})
assert losses(program, lambda b: {"labels": b[1], "pixels": b[0]}) == first


def with_metric(output, target):
    return {"loss": F.cross_entropy(output, target),
            "accuracy": (output.argmax(1) == target).float().mean()}


program = mpcomm.compile(model, with_metric, optimizer, batches[0])
with mpcomm.Session(program) as session:
    session.step(batches[0])
    with torch.no_grad():
        wanted = with_metric(model(batches[0][0]), batches[0][1])["accuracy"].item()
    assert session.last.metrics == {"accuracy": wanted}, session.last.metrics
    session.load_state_dict(model.state_dict())
    means = session.evaluate(batches[:4])
    with torch.no_grad():
        each = [with_metric(model(x), y) for x, y in batches[:4]]
    assert means["accuracy"] == sum(m["accuracy"].item() for m in each) / 4, means
    # The mean of 8 terms, each with the error of a product of 16 + 32 terms and a softmax.
    mean = sum(m["loss"].item() for m in each) / 4
    assert abs(means["loss"] - mean) <= 2 ** -24 * (16 + 32 + 8) * mean, (means, mean)
    one = session.evaluate(batches[0])
    assert set(one) == {"loss", "accuracy"}
    assert session.output().shape == (8, 4)

    # All samples count alike, whatever the batches: 27 in five, two of which fill no batch
    # of the program; or at once. Copies add and subtract up to 7 times what a sample has.
    x, y = (torch.cat([b[i] for b in batches[:4]])[:27] for i in (0, 1))
    with torch.no_grad():
        wanted = {k: v.item() for k, v in with_metric(model(x), y).items()}
    sizes = [8, 3, 8, 5, 3]
    for given in list(zip(x.split(sizes), y.split(sizes))), (x, y), (x.numpy(), y.numpy()):
        means = session.evaluate(given)
        # 8-sample means are of single precision, and so are accuracies of thirds.
        for name, value in wanted.items():
            within = 2 ** -24 * (16 + 32 + 8 + 2 * 7) * max(mean, 1)
            assert abs(means[name] - value) <= within, (means, wanted)

# --- micro-batches: those of a step are one batch of the loader ---

program = mpcomm.compile(model, F.cross_entropy, optimizer, batches[0], micro_batches=2)
compare("2 micro-batches", losses(program, lambda b: b), exact, bound)

# --- learning rates ---


def with_schedule(make, lr):
    """Losses of PyTorch and ours under a scheduler."""
    exact, bound = reference(seeded(), loss_of, adamw, batches, terms=8, schedule=make)
    fresh = seeded()
    rule = adamw(fresh.parameters())
    scheduler = make(rule)
    program = mpcomm.compile(fresh, F.cross_entropy, rule, batches[0])
    rate = lr(scheduler)
    with mpcomm.Session(program, lr=rate) as session:
        found = []
        for batch in batches:
            found.append(session.step(batch))
            if rate is None or rate is scheduler:
                scheduler.step()
    return found, exact, bound


import warnings  # noqa: E402

warnings.simplefilter("error")  # PyTorch warns where it misses a step of the optimizer
step_lr = lambda rule: torch.optim.lr_scheduler.StepLR(rule, 10, 0.3)  # noqa: E731
cosine = lambda rule: torch.optim.lr_scheduler.CosineAnnealingLR(rule, STEPS)  # noqa: E731
compare("a scheduler", *with_schedule(step_lr, lambda s: s))
compare("the optimizer of a scheduler", *with_schedule(step_lr, lambda s: None))
compare("cosine by PyTorch", *with_schedule(cosine, lambda s: s))
compare("cosine of ours", *with_schedule(cosine, lambda s: mpcomm.Cosine(1e-2, STEPS)))
compare("cosine as a function", *with_schedule(
    cosine, lambda s: lambda step: mpcomm.Cosine(1e-2, STEPS)(step)))
assert losses(by_position, lambda b: b, lr=1e-2) == first
assert losses(by_position, lambda b: b, lr=2e-2) != first
with mpcomm.Session(by_position, lr=mpcomm.Cosine(1e-2, STEPS, warmup=5)) as session:
    for step in range(STEPS):
        wanted = mpcomm.Cosine(1e-2, STEPS, warmup=5)(step)
        assert abs(session.lr()["lr"] - wanted) <= 2 ** -23 * wanted, (step, session.lr())
        session.step(batches[step])

# --- parameter groups with learning rates of their own ---

fresh = seeded()
rule = torch.optim.SGD([{"params": [fresh[0].weight, fresh[0].bias], "lr": 0.1},
                        {"params": fresh[2].parameters(), "lr": 0.2}], lr=0.1)
program = mpcomm.compile(fresh, F.cross_entropy, rule, batches[0])
with mpcomm.Session(program) as session:
    before = session.state_dict()
    rule.param_groups[1]["lr"] = 0.0
    session.step(batches[0])
    after = session.state_dict()
    assert not torch.equal(before["0.weight"], after["0.weight"])
    assert torch.equal(before["2.weight"], after["2.weight"])
    assert session.lr() == {"lr": 0.1, "lr.1": 0.0}, session.lr()
