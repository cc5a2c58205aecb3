# ===- tasks.py - further tasks, beside the list of architectures ---------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What else people train: PyTorch's own transformer, speech by CTC, a variational autoencoder,
metric learning, segmentation, super-resolution, ranking, radiance fields, forecasts."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from families import SAMPLES, adamw, classifier, images, labels, mi, model, padding, text, tokens_loss


class Positions(nn.Module):
    """Sines and cosines, as in PyTorch's tutorials."""

    def __init__(self, d, length=64, dropout=0.1):
        super().__init__()
        place, rate = torch.arange(length)[:, None], torch.arange(0, d, 2) * (-math.log(1e4) / d)
        table = torch.zeros(1, length, d)
        table[0, :, 0::2], table[0, :, 1::2] = (place * rate.exp()).sin(), (place * rate.exp()).cos()
        self.register_buffer("table", table)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(x + self.table[:, :x.shape[1]])


class Translator(nn.Module):
    """nn.Transformer with the masks of its two languages."""

    def __init__(self, vocabulary=128, d=64):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, d, 0), nn.Embedding(vocabulary, d, 0)
        self.positions = Positions(d)
        self.transformer = nn.Transformer(d, 4, 2, 2, 4 * d, batch_first=True)
        self.head = nn.Linear(d, vocabulary)

    def forward(self, source, target):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = source == 0
        x = self.transformer(
            self.positions(self.source(source)), self.positions(self.target(target)),
            tgt_mask=causal.to(self.head.weight.dtype), src_key_padding_mask=hidden,
            tgt_key_padding_mask=target == 0, memory_key_padding_mask=hidden)
        return self.head(x)


@model("tasks")
def translator():
    source = text(20, 127) + 1
    source, target = source * padding(20), (text(17, 127) + 1) * padding(17)
    net = Translator()
    return mi.Workload(
        net, lambda logits, y: F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=0),
        torch.optim.Adam(net.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-9), 4,
        {"source": source, "target": target[:, :-1], "y": target[:, 1:]},
        inputs=["source", "target"])


class Encoder(nn.Module):
    """nn.TransformerEncoder with a mask of what is padding."""

    def __init__(self, vocabulary=128, d=64, classes=3):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocabulary, d), Positions(d)
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, activation="gelu", batch_first=True,
                                           norm_first=False)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(d, classes)

    def forward(self, ids):
        x = self.encoder(self.positions(self.embed(ids)), src_key_padding_mask=ids == 0)
        shown = (ids != 0).to(x.dtype)[..., None]
        return self.head((x * shown).sum(1) / shown.sum(1))


@model("tasks")
def transformer_encoder():
    ids, net = (text(20, 127) + 1) * padding(20), Encoder()
    return mi.Workload(net, F.cross_entropy, adamw(net), 4, {"x": ids, "y": labels(ids, 3)})


class Speech(nn.Module):
    """DeepSpeech: convolutions over time, a recurrent network in both directions."""

    def __init__(self, mels=16, hidden=48, letters=20):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(mels, 32, 5, 2, 2), nn.BatchNorm1d(32), nn.Hardtanh(0, 20))
        self.rnn = nn.GRU(32, hidden, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, letters)

    def forward(self, x):
        x, _ = self.rnn(self.conv(x).transpose(1, 2))
        return self.head(x).log_softmax(-1)


def ctc(output, y, lengths):
    frames = torch.full((len(y),), output.shape[1], dtype=torch.long)
    return F.ctc_loss(output.transpose(0, 1), y, frames, lengths, zero_infinity=True)


@model("tasks")
def speech_ctc():
    net = Speech()
    data = {"x": torch.randn(SAMPLES, 16, 64), "y": torch.randint(1, 20, (SAMPLES, 8)),
            "lengths": torch.randint(4, 9, (SAMPLES,))}
    return mi.Workload(net, ctc, adamw(net), 4, data)


class VAE(nn.Module):
    def __init__(self, pixels=256, hidden=64, z=8):
        super().__init__()
        self.encode, self.decode = nn.Linear(pixels, hidden), nn.Linear(z, hidden)
        self.mean, self.log_variance = nn.Linear(hidden, z), nn.Linear(hidden, z)
        self.out = nn.Linear(hidden, pixels)

    def forward(self, x):
        h = F.relu(self.encode(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.out(F.relu(self.decode(z)))), mean, log_variance


def elbo(output, x):
    image, mean, log_variance = output
    near = F.binary_cross_entropy(image, x, reduction="sum")
    return (near - 0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()) / len(x)


@model("tasks", random=True)
def vae():
    net, x = VAE(), torch.rand(SAMPLES, 256)
    return mi.Workload(net, elbo, torch.optim.Adam(net.parameters(), lr=1e-3), 8, {"x": x, "y": x})


class Siamese(nn.Module):
    """SimCLR: two views of each image, near one another and far from the others."""

    def __init__(self, d=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.InstanceNorm2d(32), nn.PReLU(32), nn.Conv2d(32, d, 3, 2, 1),
            nn.ELU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(d, d))

    def forward(self, a, b):
        return F.normalize(self.net(torch.cat([a, b])), dim=1)


def contrast(z, temperature=0.5):
    n = len(z)
    near = (z @ z.t() / temperature).masked_fill(torch.eye(n, dtype=torch.bool), float("-inf"))
    return F.cross_entropy(near, torch.arange(n).roll(n // 2))


@model("tasks")
def simclr():
    a = torch.randn(SAMPLES, 3, 32, 32)
    data = {"a": a, "b": a + 0.3 * torch.randn_like(a)}
    net = Siamese()
    return mi.Workload(net, contrast, adamw(net), 8, data, inputs=["a", "b"])


@model("tasks")
def triplet():
    net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.Softplus(), nn.Linear(64, 16))

    class Three(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, anchor, near, far):
            return self.net(anchor), self.net(near), self.net(far)

    x = torch.randn(64, 20)
    data = {"anchor": x, "near": x + 0.1 * torch.randn_like(x), "far": torch.randn_like(x)}
    loss = nn.TripletMarginLoss(margin=1.0)
    three = Three()
    return mi.Workload(three, lambda out: loss(*out), torch.optim.Adagrad(three.parameters(), lr=0.01),
                       16, data, inputs=list(data))


class UNet(nn.Module):
    """The original one: transposed convolutions, crops by padding, a logit for each pixel."""

    def __init__(self, c=16):
        super().__init__()
        def twice(before, after):
            return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(True),
                                 nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(True))
        self.down = nn.ModuleList([twice(3, c), twice(c, 2 * c), twice(2 * c, 4 * c)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)])
        self.join = nn.ModuleList([twice(4 * c, 2 * c), twice(2 * c, c)])
        self.head, self.pool = nn.Conv2d(c, 1, 1), nn.MaxPool2d(2)

    def forward(self, x):
        kept = []
        for i, part in enumerate(self.down):
            x = part(self.pool(x) if i else x)
            kept.append(x)
        for up, join, other in zip(self.up, self.join, kept[-2::-1]):
            x = up(x)
            rows, columns = (other.shape[d] - x.shape[d] for d in (2, 3))
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = join(torch.cat([other, x], 1))
        return self.head(x)


@model("tasks")
def unet():
    net, x = UNet(), torch.randn(16, 3, 30, 34)
    y = (F.avg_pool2d(x, 5, 1, 2).mean(1, keepdim=True) > 0).float()
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))
    return mi.Workload(net, loss, torch.optim.RMSprop(net.parameters(), lr=1e-4, momentum=0.9), 4, {"x": x, "y": y})


@model("tasks")
def super_resolution():
    """Sub-pixel convolutions beside bicubic enlargement, by Charbonnier's loss."""
    class ESPCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 16, 3, padding=1),
                                      nn.Tanh(), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3))

        def forward(self, x):
            return self.body(x) + F.interpolate(x, scale_factor=3, mode="bicubic", align_corners=False)

    net, y = ESPCN(), torch.rand(SAMPLES, 1, 36, 36)
    return mi.Workload(net, lambda a, b: torch.sqrt((a - b).pow(2) + 1e-6).mean(), adamw(net), 4,
                       {"x": F.avg_pool2d(y, 3), "y": y})


class Field(nn.Module):
    """A radiance field: frequencies of positions, and colours summed along rays."""

    def __init__(self, hidden=64, points=12):
        super().__init__()
        self.register_buffer("rates", 2.0 ** torch.arange(6))
        self.register_buffer("depth", torch.linspace(0, 1, points))
        self.first, self.second = nn.Linear(39, hidden), nn.Linear(hidden + 39, hidden)
        self.density, self.colour = nn.Linear(hidden, 1), nn.Linear(hidden, 3)

    def forward(self, origin, direction):
        p = origin[:, None] + direction[:, None] * self.depth[:, None]
        angles = (p[..., None] * self.rates).flatten(-2)
        code = torch.cat([p, angles.sin(), angles.cos()], -1)
        h = F.relu(self.second(torch.cat([F.relu(self.first(code)), code], -1)))
        alpha = 1 - torch.exp(-F.softplus(self.density(h))[..., 0] / len(self.depth))
        ahead = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return ((alpha * ahead)[..., None] * torch.sigmoid(self.colour(h))).sum(1)


@model("tasks")
def nerf():
    net = Field()
    data = {"origin": torch.randn(64, 3), "direction": F.normalize(torch.randn(64, 3), dim=1),
            "y": torch.rand(64, 3)}
    return mi.Workload(net, F.mse_loss, torch.optim.Adam(net.parameters(), lr=5e-4), 16, data,
                       inputs=["origin", "direction"])


class PointNet(nn.Module):
    """Features of points, the largest over all of them; a transform of the cloud first."""

    def __init__(self, classes=5):
        super().__init__()
        def points(*sizes):
            return nn.Sequential(*[part for a, b in zip(sizes, sizes[1:]) for part in (
                nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())])
        self.turn, self.matrix = points(3, 32, 64), nn.Linear(64, 9)
        self.features = points(3, 32, 128)
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, classes))
        nn.init.zeros_(self.matrix.weight)
        self.matrix.bias.data = torch.eye(3).flatten()

    def forward(self, x):
        matrix = self.matrix(torch.max(self.turn(x), 2)[0]).view(-1, 3, 3)
        x = torch.bmm(x.transpose(2, 1), matrix).transpose(2, 1)
        return F.log_softmax(self.head(torch.max(self.features(x), 2)[0]), dim=1), matrix


def regular(output, y):
    logits, matrix = output
    eye = torch.eye(3, dtype=matrix.dtype)
    apart = torch.norm(torch.bmm(matrix, matrix.transpose(2, 1)) - eye, dim=(1, 2))
    return F.nll_loss(logits, y) + 0.001 * apart.mean()


@model("tasks")
def pointnet():
    net, x = PointNet(), torch.randn(SAMPLES, 3, 48)
    return mi.Workload(net, regular, torch.optim.Adam(net.parameters(), lr=1e-3), 4, {"x": x, "y": labels(x, 5)})


class Factors(nn.Module):
    """Matrix factorisation with biases; ranks one item above another (BPR)."""

    def __init__(self, users=50, items=80, d=16):
        super().__init__()
        self.user, self.item = nn.Embedding(users, d), nn.Embedding(items, d)
        self.bias = nn.Embedding(items, 1)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)

    def score(self, user, item):
        return (self.user(user) * self.item(item)).sum(-1) + self.bias(item).squeeze(-1)

    def forward(self, user, liked, other):
        return self.score(user, liked) - self.score(user, other)


@model("tasks")
def factorisation():
    net = Factors()
    data = {"user": torch.randint(50, (128,)), "liked": torch.randint(80, (128,)),
            "other": torch.randint(80, (128,))}
    return mi.Workload(net, lambda margin: -F.logsigmoid(margin).mean(),
                       torch.optim.SGD(net.parameters(), lr=0.5), 32, data, inputs=list(data))


class Forecast(nn.Module):
    """Attention of a decoder's steps to an LSTM cell's states, quantiles as output."""

    def __init__(self, features=4, hidden=32, steps=6):
        super().__init__()
        self.steps, self.hidden = steps, hidden
        self.encoder, self.cell = nn.LSTM(features, hidden, batch_first=True), nn.LSTMCell(1, hidden)
        self.attend, self.out = nn.Linear(hidden, hidden), nn.Linear(2 * hidden, 3)

    def forward(self, x):
        states, (h, c) = self.encoder(x)
        h, c, last, out = h[0], c[0], x[:, -1, :1], []
        for _ in range(self.steps):
            h, c = self.cell(last, (h, c))
            weights = (states @ self.attend(h).unsqueeze(-1)).softmax(1)
            out.append(self.out(torch.cat([h, (weights * states).sum(1)], 1)))
            last = out[-1][:, 1:2]
        return torch.stack(out, 1)


def pinball(output, y):
    apart = y[..., None] - output
    share = torch.tensor([0.1, 0.5, 0.9], dtype=apart.dtype)
    return torch.maximum(share * apart, (share - 1) * apart).mean()


@model("tasks")
def forecast():
    net, line = Forecast(), torch.randn(SAMPLES, 30, 4).cumsum(1) / 5
    return mi.Workload(net, pinball, torch.optim.Adamax(net.parameters(), lr=2e-3), 4,
                       {"x": line[:, :24], "y": line[:, 24:, 0]})


@model("tasks")
def deep_supervision():
    """A perceptron whose hidden layers are told the class, too: a dictionary of outputs."""
    class Supervised(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(n, 48) for n in (64, 48, 48))
            self.heads = nn.ModuleList(nn.Linear(48, 10) for _ in range(3))

        def forward(self, x):
            out = {}
            for i, (layer, head) in enumerate(zip(self.layers, self.heads)):
                x = F.gelu(layer(x))
                out[f"head{i}"] = head(x)
            return out

    net, x = Supervised(), torch.randn(64, 64)
    weight = torch.linspace(0.5, 1.5, 10)
    return classifier(net, {"x": x, "y": labels(x, 10)}, batch=16,
                      optimizer=torch.optim.NAdam(net.parameters(), lr=2e-3),
                      loss=lambda out, y: sum(
                          F.cross_entropy(logits, y, weight=weight.to(logits.dtype)) for logits in out.values()))


@model("tasks")
def distillation():
    """A small network learns from a larger, fixed one, by KL divergence."""
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher = nn.Sequential(nn.Flatten(), nn.Linear(768, 128), nn.ReLU(), nn.Linear(128, 10))
            self.student = nn.Sequential(nn.Flatten(), nn.Linear(768, 32), nn.Hardswish(), nn.Linear(32, 10))

        def forward(self, x):
            with torch.no_grad():
                soft = self.teacher(x)
            return self.student(x), soft

    def loss(output, y, temperature=2.0):
        logits, soft = output
        near = F.kl_div(F.log_softmax(logits / temperature, 1), F.softmax(soft / temperature, 1),
                        reduction="batchmean")
        return 0.5 * temperature ** 2 * near + 0.5 * F.cross_entropy(logits, y)

    net = Pair()
    return classifier(net, images(16), batch=8, loss=loss,
                      optimizer=torch.optim.RAdam(net.student.parameters(), lr=1e-3))
