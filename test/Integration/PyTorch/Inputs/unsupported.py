# A convolution network: every operator here that is not supported, in several
# modules, besides some that are.

import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.ConvTranspose2d(1, 4, 3, padding=1),
                                  nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(2, 2, dilation=2))
        self.head = nn.Linear(36, 10)

    def forward(self, x):
        return self.head(self.stem(x).flatten(1).cumsum(1))


def workload(kind="unsupported"):
    model = Net() if kind == "unsupported" else nn.Sequential(nn.Linear(64, 10))
    if kind == "dropout":
        model.append(nn.AlphaDropout(0.25))
    if kind == "functional_dropout":
        model.append(Function(lambda x: F.alpha_dropout(x, 0.5, True)))
    if kind == "pair":
        model.append(Function(lambda x: (x, x)))
    if kind == "dynamic":
        model.append(Function(lambda x: x[: int(x.sum().item()) % 2 + 1]))
    if kind == "nonzero":
        model.append(Function(lambda x: x * x[x > 0].sum()))
    if kind == "complex":
        model.append(Function(lambda x: torch.fft.fft(x).real))
    if kind == "constant":
        model.append(Function(lambda x: torch.zeros(4, 10)))
    optimizer = {
        "lbfgs": lambda p: torch.optim.LBFGS(p),
        "nanrate": lambda p: torch.optim.SGD(p, lr=float("nan")),
        "foreign": lambda p: torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1),
    }.get(kind, lambda p: torch.optim.SGD(p, lr=0.1))(model.parameters())
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
    if kind == "weighted":
        loss = lambda output, y: F.cross_entropy(output, y, weight=torch.rand(10))
    return mi.Workload(model, loss, optimizer, 4, data)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
