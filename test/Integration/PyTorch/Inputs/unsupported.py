# Models, data and optimizers that cannot be imported, by `kind`; some that can, for
# comparison.

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Net(nn.Module):
    """Operators that have neither a translation nor a decomposition, in several modules,
    besides some that have."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            Function(lambda x: x + torch.special.bessel_j0(x.detach())))
        self.head = nn.Linear(144, 10)

    def forward(self, x):
        x = self.stem(x).flatten(1)
        return self.head(x + torch.special.bessel_j1(x.detach())) + \
            torch.special.bessel_j0(x[:, :10].detach())


class Average(nn.Module):
    """State that is not registered."""

    mean = None

    def forward(self, x):
        mean = x.detach().mean()
        self.mean = mean if self.mean is None else 0.9 * self.mean + 0.1 * mean
        return x - self.mean


class Resized(nn.Module):
    """A buffer of another shape from the first step on."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.zeros(1))

    def forward(self, x):
        if self.shift.shape != x.shape[1:]:
            self.shift = torch.ones(x.shape[1:])
        return x + self.shift


class Halves(torch.autograd.Function):
    """Written out by hand, on values that PyTorch does not see."""

    @staticmethod
    def forward(context, x):
        return torch.from_numpy(numpy.floor(x.detach().numpy() / 2))

    @staticmethod
    def backward(context, grad):
        return grad / 2


class Registering(nn.Module):
    def forward(self, x):
        self.shift = nn.Parameter(torch.zeros(10))
        return x + self.shift


if not hasattr(torch.ops.mpcomm_test, "cube"):  # this file runs once a kind
    torch.mpcomm_test = torch.library.Library("mpcomm_test", "DEF")
    torch.mpcomm_test.define("cube(Tensor x) -> Tensor")
    torch.mpcomm_test.impl("cube", lambda x: x ** 3, "CPU")


def branches(x):
    return x if x.sum() > 0 else -x


def repeats(x):
    while x.abs().max() > 1:
        x = x / 2
    return x


MODULES = {
    "pair": lambda: Function(lambda x: {"logits": x, "kind": "digits"}),
    "text": lambda: Function(lambda x: "digits"),
    "dynamic": lambda: Function(lambda x: x[: int(x.sum().item()) % 2 + 1]),
    "branches": lambda: Function(branches),
    "repeats": lambda: Function(repeats),
    "nonzero": lambda: Function(lambda x: x * x[x > 0].sum()),
    "unique": lambda: Function(lambda x: x + torch.unique(x.detach()).numel()),
    "complex": lambda: Function(lambda x: torch.fft.fft(x).real),
    "constant": lambda: Function(lambda x: torch.zeros(4, 10)),
    "numpy": lambda: Function(Halves.apply),
    "average": Average,
    "registering": Registering,
    "factorization": lambda: Function(lambda x: x @ torch.linalg.inv(x.t() @ x)),
    "bags": lambda: Function(lambda x: x + torch.nn.functional.embedding_bag(
        torch.arange(3), x, torch.tensor([0, 1]), mode="max")[:1]),
    "resized": Resized,
    "sparse": lambda: Function(lambda x: torch.sparse.mm(x.detach().to_sparse(), x.t() @ x)),
    "shapes": lambda: Function(lambda x: x @ x),
    "failing": lambda: Function(lambda x: x + None),
    "library": lambda: Function(lambda x: x + torch.ops.mpcomm_test.cube(x.detach())),
    "lazy": lambda: nn.LazyLinear(10),
    "meta": lambda: nn.Linear(10, 10, device="meta"),
    "turns": lambda: nn.Linear(10, 10, dtype=torch.complex64),
    "quantized": lambda: Function(lambda x: torch.quantize_per_tensor(
        x, 0.1, 0, torch.qint8).dequantize()),
}


def workload(kind="unsupported"):
    model = Net() if kind == "unsupported" else nn.Sequential(nn.Linear(64, 10))
    if kind in MODULES:
        model.append(MODULES[kind]())
    if kind == "scripted":
        model = torch.jit.script(model)
    optimizer = {
        "lbfgs": lambda p: torch.optim.LBFGS(p),
        "nanrate": lambda p: torch.optim.SGD(p, lr=float("nan")),
        "foreign": lambda p: torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1),
    }.get(kind, lambda p: torch.optim.SGD(p, lr=0.1))(model.parameters())
    if kind == "hook":
        model[0].weight.register_hook(lambda g: 3 * g)
    if kind == "own step":
        optimizer = torch.optim.RMSprop(model.parameters())
        optimizer.step = lambda: None
    data = {"x": torch.randn(8, 64), "y": torch.randint(0, 10, (8,))}
    if kind == "unsupported":
        data["x"] = data["x"].view(8, 1, 8, 8)
    if kind == "labels":
        data["y"][6] = 10
    if kind.startswith("ignore"):
        # ignore:I:V: index I does not count, and the data has V.
        ignore, value = map(int, kind.split(":")[1:])
        data["y"][2] = ignore
        data["y"][5] = value
    if kind == "embedded":
        # -100 says nothing to a table.
        model = nn.Sequential(nn.Embedding(10, 10), nn.Flatten(), nn.Linear(20, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data["x"] = torch.randint(0, 10, (8, 2))
        data["x"][5] = -100
    if kind == "few":
        data = {k: t[:3] for k, t in data.items()}
    if kind == "counts":
        data["y"] = data["y"][:5]
    if kind == "bytes":
        data["x"] = data["x"].to(torch.uint8)
    loss = F.cross_entropy
    if kind.startswith("ignore"):
        loss = lambda output, y: F.cross_entropy(output, y, ignore_index=ignore)
    if kind == "notargets":
        del data["y"]
    if kind == "vector":
        loss = lambda output, y: F.cross_entropy(output, y, reduction="none")
    if kind == "unnamed":
        loss = lambda output, y: {"error": F.cross_entropy(output, y)}
    if kind == "lossless":
        loss = None
    return mi.Workload(model, loss, optimizer, 4, data)

