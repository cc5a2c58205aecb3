# A model that draws random numbers in all ways, imported, has the loss and gradients that
# PyTorch gives it with the numbers that a second implementation of the generator draws.
# Its modules have no random numbers in evaluation; where the model draws there too, so
# does @evaluate.
#
# REQUIRES: torch
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import evaluator
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi

SEED = torch.tensor([12345, -7], dtype=torch.int32)


class Drawn:
    """What PyTorch's functions give with the numbers of the dialect's ops."""

    def __init__(self):
        self.id = 0

    def words(self, shape):
        self.id += 1
        return evaluator.words(SEED, self.id - 1, shape)

    def rand(self, shape, dtype=torch.float64):
        a, b, _, _ = self.words(shape)
        return evaluator.uniform(a, b, dtype).reshape(shape)

    def randn(self, shape):
        a, b, c, d = self.words(shape)
        u, v = evaluator.uniform(a, b, torch.float64), evaluator.uniform(c, d, torch.float64)
        return (torch.sqrt(-2 * torch.log(1 - u)) * torch.cos(2 * torch.pi * v)).reshape(shape)

    def randint(self, low, high, shape):
        return torch.floor(self.rand(shape, torch.float32) * (high - low)).long() + low

    def generated(self, shape):
        return self.randint(0, 3, shape) + self.randint(-1, 2, shape) + self.randn(shape) * self.rand(shape)

    def bernoulli(self, p, shape):
        p = torch.as_tensor(p, dtype=torch.float64)
        return (self.rand(shape) < p).double()

    def uniform(self, low, high, shape):
        return self.rand(shape) * (high - low) + low

    def normal(self, mean, std, shape):
        return self.randn(shape) * std + mean

    def normal_of(self, mean, std, shape):
        return self.randn(shape) * std + mean

    def randint_like(self, x, *bounds):
        return self.randint(*([0] * (2 - len(bounds))), *bounds, x.shape)

    def bernoulli_of(self, p):
        return self.bernoulli(p, p.shape)

    def rrelu(self, x, low, high):
        slope = self.uniform(low, high, x.shape)
        return torch.where(x > 0, x, x * slope)

    def multinomial(self, p, count):
        return torch.topk(p / self.exponential(1.0, p.shape), count, -1)[1]

    def exponential(self, rate, shape):
        return -torch.log(1 - self.rand(shape)) / rate

    def randperm(self, n):
        return torch.sort(self.rand((n,)))[1]

    def feature_dropout(self, x, p):
        return x * self.bernoulli(1 - p, x.shape[:2] + (1,) * (x.dim() - 2)) / (1 - p)

    def dropout(self, x, p):
        self.id += 1
        return evaluator.dropout(x, SEED, p, self.id - 1)


class PyTorch:
    """The functions themselves."""

    def __init__(self):
        f64 = dict(dtype=torch.float64)
        empty = lambda shape: torch.empty(shape, **f64)
        self.rand = lambda shape: torch.rand(shape, **f64)
        self.randn = lambda shape: torch.randn_like(empty(shape))
        self.randint = lambda low, high, shape: torch.randint(low, high, shape)
        # 1.13 does not trace generators.
        own = dict(generator=torch.Generator()) if torch.__version__ >= "2" else {}
        self.generated = lambda shape: torch.randint(3, shape, **own) + torch.randint(
            -1, 2, shape, **own) + torch.randn(shape, **own, **f64) * torch.rand(shape, **own, **f64)
        self.bernoulli = lambda p, shape: torch.bernoulli(p) if torch.is_tensor(p) else empty(shape).bernoulli_(p)
        self.uniform = lambda low, high, shape: empty(shape).uniform_(low, high)
        self.normal = lambda mean, std, shape: empty(shape).normal_(mean, std)
        self.normal_of = lambda mean, std, shape: torch.normal(mean, std) if torch.is_tensor(mean) or \
            torch.is_tensor(std) else torch.normal(mean, std, shape, **f64)
        self.randint_like = lambda x, *bounds: torch.randint_like(x, *bounds).long()
        self.bernoulli_of = lambda p: empty(p.shape).bernoulli_(p)
        self.rrelu = lambda x, low, high: F.rrelu(x, low, high, True)
        self.multinomial = torch.multinomial
        self.exponential = lambda rate, shape: empty(shape).exponential_(rate)
        self.randperm = torch.randperm
        self.dropout = lambda x, p: F.dropout(x, p, True)
        self.feature_dropout = F.dropout2d


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)
        self.source = PyTorch()

    def forward(self, x):
        s, h = self.source, torch.tanh(self.a(x))
        keep = s.bernoulli(0.75, (4, 1))  # stochastic depth
        h = h + h * keep / 0.75
        h = h * s.rand((8,)) + s.randn((4, 8)) * 0.1
        h = h * s.randint(1, 4, (4, 8))
        h = s.dropout(h, 0.25)
        h = s.feature_dropout(h.reshape(4, 2, 2, 2), 0.5).reshape(4, 8)
        h = h + s.uniform(-1.0, 2.0, (4, 1)) * s.normal(1.0, 0.5, (8,)) + s.exponential(2.0, (8,)) * h
        h = h * s.bernoulli(torch.sigmoid(h.detach()), (4, 8)) + s.randperm(8) * h
        d = h.detach()
        h = h + s.normal_of(d, 0.5, d.shape) + s.normal_of(d, d.abs() + 0.1, d.shape) + \
            s.normal_of(-1.0, d.abs(), d.shape) + s.normal_of(0.5, 2.0, d.shape)
        h = h * s.randint_like(d, 3) + s.randint_like(d, -2, 3) + h * s.bernoulli_of(torch.sigmoid(d))
        h = s.rrelu(h, 0.1, 0.4) + s.multinomial(torch.softmax(d, 1), 3).sum(1, True)
        return self.b(h * s.generated((8,)))


torch.manual_seed(0)
model = Net().double()
data = {"x": torch.randn(8, 6).double(), "y": torch.randint(0, 3, (8,))}
workload = mi.Workload(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), 4, data,
                       name="model")
program = mi.trace(workload)
train, evaluate = program.functions
seeds = [[a.name for a in f.arguments if a.role == "rng"] for f in program.functions]
assert seeds == [["rng.seed"], ["rng.seed"]], seeds
ids = [op.attributes["id"] for op in train.ops if op.name in ("mpcomm.rng", "mpcomm.dropout")]
assert len(set(ids)) == len(ids) == 24, ids  # the gradient draws nothing anew

batch = checks.batch_of(workload, data, 0)
state = {**checks.initial_state(program), "rng.seed": SEED}
results = evaluator.run(train, {**state, **batch})
before = {n: p.detach().clone() for n, p in model.named_parameters()}
model.source = Drawn()
loss = checks.eager_step(workload, batch)["loss"]
bound = 4 * checks.rounding(train, True)
for name, want in {"loss": loss, **dict(model.named_parameters())}.items():
    d = checks.difference(want.detach(), results[name])
    assert d <= bound, f"{name} differs by {d:.3g} of {bound:.3g}"
    assert name == "loss" or not torch.equal(results[name], before[name])

# Modules.
class Modules(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.layers = nn.Sequential(nn.Dropout1d(0.3), nn.Dropout(0.2), nn.AlphaDropout(0.1))
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        h = self.layers(self.a(x))
        return self.attention(h, h, h)[0].mean(1)


model = Modules()
program = mi.trace(mi.Workload(
    model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), 4,
    {"x": torch.randn(8, 5, 8), "y": torch.randint(0, 8, (8,))}, name="model"))
train, evaluate = program.functions
assert train.count("rng") == 2 and train.count("dropout") == 2, [op.name for op in train.ops]
assert not [a for a in evaluate.arguments if a.role == "rng"]
