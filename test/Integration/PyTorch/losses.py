# Losses of torch.nn.functional, and what a model may return and a loss may take, against
# PyTorch in f64.
#
# REQUIRES: torch
# RUN: %python %s

import collections
import dataclasses
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


def train(model, loss, data, **options):
    model = model.double()  # class weights and the like are of the model's type
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return checks.check(mi.Workload(model, loss, optimizer, 4, data, name="model", **options))


def simple(loss, y, width=5):
    torch.manual_seed(1)
    return train(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, width)), loss,
                 {"x": torch.randn(8, 6), "y": y})


torch.manual_seed(0)
numbers, shares = torch.randn(8, 5).double(), torch.rand(8, 5).double()
classes, signs = torch.randint(0, 5, (8,)), torch.randint(0, 2, (8, 5)).double() * 2 - 1
some = torch.where(torch.arange(8) % 3 == 0, -100, classes)
weight = torch.rand(5).double() + 0.5

# --- losses ---------------------------------------------------------------------------- #

for at, (target, loss) in enumerate([
        (numbers, F.mse_loss), (numbers, F.l1_loss), (numbers, F.smooth_l1_loss),
        (numbers, lambda o, y: F.smooth_l1_loss(o, y, beta=0.3, reduction="sum")),
        (numbers, lambda o, y: F.huber_loss(o, y, delta=0.7)),
        (numbers, lambda o, y: F.huber_loss(o, y, reduction="none").mean(1).sum()),
        (shares, F.binary_cross_entropy_with_logits),
        (shares, lambda o, y: F.binary_cross_entropy_with_logits(
            o, y, weight=weight, pos_weight=2 * weight)),
        (shares, lambda o, y: F.binary_cross_entropy(o.sigmoid(), y)),
        (shares.softmax(1), lambda o, y: F.kl_div(o.log_softmax(1), y, reduction="batchmean")),
        (shares.log_softmax(1), lambda o, y: F.kl_div(o.log_softmax(1), y, log_target=True)),
        (shares.softmax(1), F.cross_entropy),
        (shares.softmax(1), lambda o, y: F.cross_entropy(o, y, label_smoothing=0.1)),
        (signs, F.hinge_embedding_loss), (signs, F.soft_margin_loss),
        (numbers.abs(), F.poisson_nll_loss),
        (numbers, lambda o, y: F.gaussian_nll_loss(o, y, o.exp())),
        (numbers, lambda o, y: F.cosine_embedding_loss(o, y, torch.ones(4))),
        (numbers, lambda o, y: F.triplet_margin_loss(o, y, o.flip(1))),
        (signs, lambda o, y: F.margin_ranking_loss(o, o.roll(1, 1), y, margin=0.1)),
        (classes, F.cross_entropy),
        (classes, lambda o, y: F.nll_loss(o.log_softmax(1), y, weight=weight)),
        (classes, lambda o, y: F.nll_loss(o, y)),
        (classes, lambda o, y: F.cross_entropy(o, y, reduction="none").square().mean()),
        (some, F.cross_entropy),
        (some, lambda o, y: F.cross_entropy(o, y, weight=weight)),
        (some, lambda o, y: F.cross_entropy(o, y, weight=weight, reduction="sum")),
        (some, lambda o, y: F.cross_entropy(o, y, label_smoothing=0.1)),
        (some, lambda o, y: F.cross_entropy(o, y, label_smoothing=0.2, reduction="sum")),
        (some, lambda o, y: F.cross_entropy(o, y, weight=weight, label_smoothing=0.1)),
        (classes, lambda o, y: F.cross_entropy(o, y) + 0.01 * o.log_softmax(1).square().mean())]):
    try:
        simple(loss, target)
    except Exception as error:
        raise AssertionError(f"loss {at}") from error

# A smoothed label keeps the op that cross-entropy has, and adds to its gradient.
smoothed = simple(lambda o, y: F.cross_entropy(o, y, label_smoothing=0.1), classes)
assert checks.count(smoothed, "cross_entropy_grad", "log_softmax_grad") == {
    "cross_entropy_grad": 1, "log_softmax_grad": 1}


class Pixels(nn.Module):
    """Classes of each pixel."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(2, 5, 1)

    def forward(self, x):
        return self.a(x)


images = {"x": torch.randn(8, 2, 3, 4).double(), "y": torch.randint(0, 5, (8, 3, 4))}
images["y"][1, 1] = 3
for loss in (F.cross_entropy, lambda o, y: F.cross_entropy(o, y, weight=weight, ignore_index=3)):
    train(Pixels(), loss, dict(images))

# --- what the model returns, and the loss takes ------------------------------------------ #

Pair = collections.namedtuple("Pair", "mean spread")


@dataclasses.dataclass
class Outputs:
    logits: torch.Tensor
    hidden: tuple
    kind: str = "outputs"
    loss: torch.Tensor = None


class Heads(nn.Module):
    """Two outputs of one body, in the form that `wrap` gives them."""

    def __init__(self, wrap):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(6, 9), nn.Linear(9, 5), nn.Linear(9, 1)
        self.wrap = wrap

    def forward(self, x, mask=None, labels=None):
        h = torch.tanh(self.body(x))
        h = h if mask is None else h * mask[:, :1]
        output = self.wrap(self.a(h), self.b(h))
        if labels is not None:
            output.loss = F.cross_entropy(output.logits, labels)
        return output


def both(a, b, y):
    return F.cross_entropy(a, y) + b.square().mean()


def names(program):
    return [r.name for r in program.functions[1].results]


data = {"x": torch.randn(8, 6).double(), "y": classes}
for wrap, loss, expected in [
        (lambda a, b: (a, b), lambda o, y: both(*o, y), ["output.0", "output.1"]),
        (lambda a, b: [a, {"b": b, "depth": 3}], lambda o, y: both(o[0], o[1]["b"], y),
         ["output.0", "output.1.b"]),
        (Pair, lambda o, y: both(o.mean, o.spread, y), ["output.mean", "output.spread"]),
        (lambda a, b: Outputs(a, (b, None)), lambda o, y: both(o.logits, o.hidden[0], y),
         ["output.logits", "output.hidden.0"]),
        (lambda a, b: {"logits": a}, lambda o, y: F.cross_entropy(o["logits"], y), ["output"])]:
    assert names(train(Heads(wrap), loss, dict(data))) == ["loss"] + expected


# Metrics are results after the loss, and have no gradient.
def with_metrics(o, y):
    error, size = F.cross_entropy(o[0], y), o[1].square().mean()
    return {"accuracy": (o[0].argmax(1) == y).double().mean(), "loss": error + size,
            "size": size, "hits": (o[0].argmax(1) == y).sum()}


program = train(Heads(lambda a, b: (a, b)), with_metrics, dict(data))
assert names(program) == ["loss", "accuracy", "size", "hits", "output.0", "output.1"]
assert [(r.name, r.role) for r in program.functions[0].results[:4]] == [
    (n, "loss") for n in ("loss", "accuracy", "size", "hits")]

# Models that compute their own loss, from tensors by keyword.
keywords = {"x": torch.randn(8, 6).double(), "mask": torch.rand(8, 2).round().double(),
            "labels": classes}
program = train(Heads(lambda a, b: Outputs(a, ())), None, dict(keywords))
assert names(program) == ["loss", "output"]
program = train(Heads(lambda a, b: Outputs(a, ())), None,
                {"x": keywords["x"], "given": classes}, inputs={"x": "x", "labels": "given"})


class Tuple(Heads):
    def forward(self, x, labels):
        a = super().forward(x)[0]
        return F.cross_entropy(a, labels), a


program = train(Tuple(lambda a, b: (a, b)), None, {"x": keywords["x"], "labels": classes})
assert names(program) == ["loss", "output"]
train(Heads(lambda a, b: a), lambda output, labels: F.cross_entropy(output, labels),
      dict(keywords), inputs={"x": "x", "mask": "mask"}, targets={"labels": "labels"})
