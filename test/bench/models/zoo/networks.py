# ===- networks.py - networks that people write themselves ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Recurrent language models, recommenders, a diffusion U-Net, networks of volumes, sound and
graphs, a mixture of experts, an MLP-Mixer and DCGAN, as tutorials and papers write them."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from families import SAMPLES, adamw, classifier, images, labels, mi, model, text, tokens_loss


class RecurrentLM(nn.Module):
    """As PyTorch's word language model: embedding, recurrent layers, a decoder."""

    def __init__(self, kind, vocabulary=256, features=96, layers=2):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(vocabulary, features)
        self.rnn = getattr(nn, kind)(features, features, layers, dropout=0.2, batch_first=True)
        self.decoder = nn.Linear(features, vocabulary)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, ids):
        x, _ = self.rnn(self.drop(self.encoder(ids)))
        return self.decoder(self.drop(x))


def recurrent(kind):
    ids = text(33, 256)
    net = RecurrentLM(kind)
    return mi.Workload(net, tokens_loss, torch.optim.Adam(net.parameters(), lr=2e-3), 4,
                       {"x": ids[:, :-1], "y": ids[:, 1:]})


@model("recurrent")
def lstm_lm():
    return recurrent("LSTM")


@model("recurrent")
def gru_lm():
    return recurrent("GRU")


class DLRM(nn.Module):
    """Facebook's recommender: bags of categories, dot products of all pairs of features."""

    def __init__(self, sizes=(100, 50, 20), dense=13, d=16):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, d, mode="sum") for n in sizes)
        self.bottom = nn.Sequential(nn.Linear(dense, 64), nn.ReLU(), nn.Linear(64, d), nn.ReLU())
        pairs = (len(sizes) + 1) * len(sizes) // 2
        self.top = nn.Sequential(nn.Linear(d + pairs, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, categories):
        x = self.bottom(dense)
        features = [x] + [bag(categories[:, i]) for i, bag in enumerate(self.bags)]
        z = torch.stack(features, 1)
        products = torch.bmm(z, z.transpose(1, 2))
        rows, columns = torch.tril_indices(len(features), len(features), -1)
        return self.top(torch.cat([x, products[:, rows, columns]], 1)).squeeze(1)


@model("recommender")
def dlrm():
    net, dense = DLRM(), torch.randn(64, 13)
    categories = torch.stack([torch.randint(n, (64, 4)) for n in (100, 50, 20)], 1)
    data = {"dense": dense, "categories": categories, "click": (dense.sum(1) > 0).float()}
    return mi.Workload(net, F.binary_cross_entropy_with_logits,
                       torch.optim.SGD(net.parameters(), lr=0.1), 16, data,
                       inputs=["dense", "categories"])


class ResidualUnit(nn.Module):
    def __init__(self, before, after, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, after), nn.Conv2d(after, after, 3, padding=1)
        self.time, self.drop = nn.Linear(time, after), nn.Dropout(0.1)
        self.short = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.short(x) + self.conv2(self.drop(F.silu(self.norm2(y))))


class PixelAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, c, h * w).unbind(1)
        weights = torch.softmax(torch.einsum("bci,bcj->bij", q, k) / math.sqrt(c), -1)
        return x + self.out(torch.einsum("bij,bcj->bci", weights, v).view(b, c, h, w))


class DiffusionUNet(nn.Module):
    """DDPM's: it tells the noise in an image from the image and the time step."""

    def __init__(self, c=32):
        super().__init__()
        self.c, time = c, 4 * c
        self.time = nn.Sequential(nn.Linear(c, time), nn.SiLU(), nn.Linear(time, time))
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.down1, self.shrink = ResidualUnit(c, c, time), nn.Conv2d(c, c, 3, 2, 1)
        self.down2 = ResidualUnit(c, 2 * c, time)
        self.middle, self.attention = ResidualUnit(2 * c, 2 * c, time), PixelAttention(2 * c)
        self.up2 = ResidualUnit(4 * c, 2 * c, time)
        self.twice = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"),
                                   nn.Conv2d(2 * c, c, 3, padding=1))
        self.up1 = ResidualUnit(2 * c, c, time)
        self.head = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def position(self, t):
        rates = torch.exp(-math.log(10000) * torch.arange(self.c // 2) / (self.c // 2))
        angles = t[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], 1)

    def forward(self, x, t):
        t = self.time(self.position(t).to(x.dtype))
        x1 = self.down1(self.stem(x), t)
        x2 = self.down2(self.shrink(x1), t)
        y = self.attention(self.middle(x2, t))
        y = self.twice(self.up2(torch.cat([y, x2], 1), t))
        return self.head(self.up1(torch.cat([y, x1], 1), t))


class Diffusion(nn.Module):
    """The training step: noise of a random strength is added, and to be told."""

    def __init__(self, net, steps=100):
        super().__init__()
        self.net, self.steps = net, steps
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0)
        self.register_buffer("alpha", kept.sqrt())
        self.register_buffer("sigma", (1 - kept).sqrt())

    def forward(self, x, t=None, noise=None):
        if t is None:
            t = torch.randint(0, self.steps, (len(x),))
            noise = torch.randn_like(x)
        alpha, sigma = self.alpha[t][:, None, None, None], self.sigma[t][:, None, None, None]
        mixed = alpha * x + sigma * noise
        return F.mse_loss(self.net(mixed, t), noise)


@model("diffusion")
def ddpm():
    net, x = Diffusion(DiffusionUNet()), torch.randn(SAMPLES, 3, 16, 16)
    data = {"x": x, "t": torch.randint(0, 100, (SAMPLES,)), "noise": torch.randn_like(x)}
    return mi.Workload(net, None, adamw(net, 2e-4), 4, data)


@model("diffusion", random=True)
def ddpm_sampling():
    net = Diffusion(DiffusionUNet())
    return mi.Workload(net, None, adamw(net, 2e-4), 4,
                       {"x": torch.randn(SAMPLES, 3, 16, 16)})


@model("volumes")
def conv3d():
    def part(before, after):
        return nn.Sequential(nn.Conv3d(before, after, 3, padding=1, bias=False),
                             nn.BatchNorm3d(after), nn.ReLU(inplace=True), nn.MaxPool3d(2))
    net = nn.Sequential(part(1, 16), part(16, 32), part(32, 64), nn.AdaptiveAvgPool3d(1),
                        nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, 4))
    x = torch.randn(SAMPLES, 1, 16, 16, 16)
    return classifier(net, {"x": x, "y": labels(x, 4)})


class VolumeUNet(nn.Module):
    """A 3-d U-Net of one level: instance norms, transposed convolution, Dice loss."""

    def __init__(self, c=8, classes=3):
        super().__init__()
        def part(before, after):
            return nn.Sequential(nn.Conv3d(before, after, 3, padding=1),
                                 nn.InstanceNorm3d(after, affine=True), nn.LeakyReLU(0.01))
        self.down, self.deep = part(1, c), part(c, 2 * c)
        self.up = nn.ConvTranspose3d(2 * c, c, 2, stride=2)
        self.out, self.head = part(2 * c, c), nn.Conv3d(c, classes, 1)

    def forward(self, x):
        y = self.down(x)
        z = self.up(self.deep(F.max_pool3d(y, 2)))
        return self.head(self.out(torch.cat([y, z], 1)))


def dice(logits, y):
    share = logits.softmax(1)
    truth = F.one_hot(y, logits.shape[1]).movedim(-1, 1).to(share.dtype)
    axes = tuple(range(2, logits.dim()))
    both = 2 * (share * truth).sum(axes) + 1
    return F.cross_entropy(logits, y) + 1 - (both / (share.sum(axes) + truth.sum(axes) + 1)).mean()


@model("volumes")
def unet3d():
    net, x = VolumeUNet(), torch.randn(16, 1, 16, 16, 16)
    y = (F.avg_pool3d(x, 3, 1, 1)[:, 0] * 4).long().clamp(0, 2)
    return mi.Workload(net, dice, adamw(net), 2, {"x": x, "y": y})


class M5(nn.Module):
    """Very deep convolutional networks for raw waveforms, as in PyTorch's tutorial."""

    def __init__(self, c=32, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(1, c, kernel_size=80, stride=4), nn.BatchNorm1d(c)
        self.conv2, self.bn2 = nn.Conv1d(c, c, kernel_size=3), nn.BatchNorm1d(c)
        self.conv3, self.bn3 = nn.Conv1d(c, 2 * c, kernel_size=3), nn.BatchNorm1d(2 * c)
        self.pool, self.fc1 = nn.MaxPool1d(4), nn.Linear(2 * c, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.bn2(self.conv2(x))))
        x = self.pool(F.relu(self.bn3(self.conv3(x))))
        x = F.avg_pool1d(x, x.shape[-1]).permute(0, 2, 1)
        return F.log_softmax(self.fc1(x), dim=2)


@model("sound")
def m5():
    net, x = M5(), torch.randn(SAMPLES, 1, 2000)
    return mi.Workload(net, lambda out, y: F.nll_loss(out.squeeze(1), y),
                       torch.optim.RMSprop(net.parameters(), lr=1e-3), 4,
                       {"x": x, "y": labels(x, 10)})


class WaveNet(nn.Module):
    """Gated causal convolutions, each with twice the dilation of the one before."""

    def __init__(self, c=32, layers=5, levels=64):
        super().__init__()
        self.embed = nn.Embedding(levels, c)
        self.gates = nn.ModuleList(nn.Conv1d(c, 2 * c, 2, dilation=2 ** i) for i in range(layers))
        self.mix = nn.ModuleList(nn.Conv1d(c, 2 * c, 1) for _ in range(layers))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(c, c, 1), nn.ReLU(), nn.Conv1d(c, levels, 1))

    def forward(self, ids):
        x, total = self.embed(ids).transpose(1, 2), 0
        for gate, mix in zip(self.gates, self.mix):
            a, b = gate(F.pad(x, (gate.dilation[0], 0))).chunk(2, 1)
            more, skip = mix(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + more, total + skip
        return self.head(total)


@model("sound")
def wavenet():
    net, ids = WaveNet(), text(129, 64)
    return mi.Workload(net, F.cross_entropy, torch.optim.Adam(net.parameters(), lr=1e-3), 4,
                       {"x": ids[:, :-1], "y": ids[:, 1:]})


class GraphLayer(nn.Module):
    """GraphSAGE: each node takes the mean of its neighbours' features."""

    def __init__(self, before, after):
        super().__init__()
        self.own, self.others = nn.Linear(before, after), nn.Linear(before, after, bias=False)

    def forward(self, x, source, target):
        total = torch.zeros_like(x).index_add_(0, target, x[source])
        ones = torch.ones(len(target), 1, dtype=x.dtype)
        count = torch.zeros(len(x), 1, dtype=x.dtype).index_add_(0, target, ones)
        return self.own(x) + self.others(total / count.clamp(min=1))


class GraphNetwork(nn.Module):
    """Classifies graphs; those of a batch are one graph that is not connected."""

    def __init__(self, features=16, hidden=64, classes=4):
        super().__init__()
        self.layers = nn.ModuleList([GraphLayer(features, hidden), GraphLayer(hidden, hidden)])
        self.head = nn.Linear(hidden, classes)

    def forward(self, x, edges):
        graphs, nodes, _ = x.shape
        first = (torch.arange(graphs) * nodes)[:, None]
        source, target = (edges[:, 0] + first).flatten(), (edges[:, 1] + first).flatten()
        x = x.flatten(0, 1)
        for layer in self.layers:
            x = F.relu(layer(x, source, target))
        graph_of = torch.arange(graphs).repeat_interleave(nodes)
        index = graph_of[:, None].expand_as(x)
        total = torch.zeros(graphs, x.shape[1], dtype=x.dtype).scatter_add(0, index, x)
        return self.head(total / nodes)


def graphs():
    x = torch.randn(SAMPLES, 12, 16)
    return {"x": x, "edges": torch.randint(12, (SAMPLES, 2, 40)), "y": labels(x, 4)}


@model("graphs")
def graphsage():
    net = GraphNetwork()
    return mi.Workload(net, F.cross_entropy, torch.optim.Adam(net.parameters(), lr=0.01), 8,
                       graphs(), inputs=["x", "edges"])


class GraphAttention(nn.Module):
    """GAT's layer: a softmax over the edges into each node."""

    def __init__(self, features=16, hidden=32, heads=4, classes=4):
        super().__init__()
        self.heads, self.project = heads, nn.Linear(features, heads * hidden, bias=False)
        self.a, self.b = (nn.Parameter(torch.randn(heads, hidden) * 0.1) for _ in range(2))
        self.head = nn.Linear(heads * hidden, classes)

    def forward(self, x, edges):
        graphs, nodes, _ = x.shape
        first = (torch.arange(graphs) * nodes)[:, None]
        source, target = (edges[:, 0] + first).flatten(), (edges[:, 1] + first).flatten()
        h = self.project(x.flatten(0, 1)).view(graphs * nodes, self.heads, -1)
        score = F.leaky_relu((h * self.a).sum(-1)[source] + (h * self.b).sum(-1)[target], 0.2)
        index = target[:, None].expand_as(score)
        most = torch.full((len(h), self.heads), float("-inf"), dtype=h.dtype).scatter_reduce(
            0, index, score.detach(), "amax", include_self=True)
        weight = torch.exp(score - most[target])
        total = torch.zeros_like(h[..., 0]).scatter_add(0, index, weight)
        weight = weight / total[target]
        messages = h[source] * weight[..., None]
        h = torch.zeros_like(h).index_add(0, target, messages)
        return self.head(F.elu(h.flatten(1)).view(graphs, nodes, -1).mean(1))


@model("graphs")
def gat():
    net = GraphAttention()
    return mi.Workload(net, F.cross_entropy, torch.optim.Adam(net.parameters(), lr=0.01), 8,
                       graphs(), inputs=["x", "edges"])


class Experts(nn.Module):
    """A Switch layer with two experts for a token, a capacity, and the loss that
    balances experts."""

    def __init__(self, d=64, experts=4, chosen=2):
        super().__init__()
        self.experts, self.chosen = experts, chosen
        self.gate = nn.Linear(d, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, d, 2 * d) / math.sqrt(d))
        self.w2 = nn.Parameter(torch.randn(experts, 2 * d, d) / math.sqrt(2 * d))

    def forward(self, x):
        shape, x = x.shape, x.flatten(0, 1)
        capacity = self.chosen * len(x) // self.experts * 5 // 4
        share = self.gate(x).softmax(-1)
        weight, index = share.topk(self.chosen, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        token = torch.arange(len(x)).repeat_interleave(self.chosen)
        expert = index.flatten()
        mask = F.one_hot(expert, self.experts)
        place = (mask.cumsum(0) * mask).sum(-1) - 1
        fits = place < capacity
        slot = torch.where(fits, expert * capacity + place, self.experts * capacity)
        buffer = x.new_zeros(self.experts * capacity + 1, x.shape[-1])
        buffer = buffer.scatter(0, slot[:, None].expand(-1, x.shape[-1]), x[token])
        h = buffer[:-1].view(self.experts, capacity, -1)
        h = torch.bmm(F.gelu(torch.bmm(h, self.w1)), self.w2).flatten(0, 1)
        h = torch.cat([h, h.new_zeros(1, h.shape[-1])])
        y = torch.zeros_like(x).index_add(0, token, h[slot] * weight.flatten()[:, None])
        used = mask.view(len(x), self.chosen, -1).sum(1).to(x.dtype).mean(0)
        return y.view(shape), self.experts * (used * share.mean(0)).sum()


class MixtureLM(nn.Module):
    def __init__(self, vocabulary=256, d=64, layers=2, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * layers))
        self.attention = nn.ModuleList(nn.MultiheadAttention(d, heads, batch_first=True)
                                       for _ in range(layers))
        self.experts = nn.ModuleList(Experts(d) for _ in range(layers))
        self.head = nn.Linear(d, vocabulary)

    def forward(self, ids):
        x, balance = self.embed(ids), 0.0
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]).to(x.dtype)
        for i, (attention, experts) in enumerate(zip(self.attention, self.experts)):
            y = self.norms[2 * i](x)
            x = x + attention(y, y, y, attn_mask=mask, need_weights=False)[0]
            y, more = experts(self.norms[2 * i + 1](x))
            x, balance = x + y, balance + more
        return self.head(x), balance


@model("experts", ordered=True)  # the first tokens take the places of an expert
def mixture_of_experts():
    net, ids = MixtureLM(), text(25, 256)
    return mi.Workload(net, lambda output, y: tokens_loss(output[0], y) + 0.01 * output[1],
                       adamw(net), 4, {"x": ids[:, :-1], "y": ids[:, 1:]})


class MixerLayer(nn.Module):
    def __init__(self, tokens, d):
        super().__init__()
        def mlp(n, hidden):
            return nn.Sequential(nn.Linear(n, hidden), nn.GELU(), nn.Dropout(0.1),
                                 nn.Linear(hidden, n))
        self.norm1, self.tokens = nn.LayerNorm(d), mlp(tokens, d // 2)
        self.norm2, self.features = nn.LayerNorm(d), mlp(d, 4 * d)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.features(self.norm2(x))


@model("mixer")
def mlp_mixer():
    d = 128
    net = nn.Sequential(nn.Conv2d(3, d, 8, 8), nn.Flatten(2), Transpose(),
                        *[MixerLayer(64, d) for _ in range(4)], nn.LayerNorm(d), Mean(),
                        nn.Linear(d, 10))
    return classifier(net, images(64), optimizer=adamw(net),
                      loss=nn.CrossEntropyLoss(label_smoothing=0.1))


class Transpose(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class Generator(nn.Sequential):
    def __init__(self, z=32, c=16):
        super().__init__(
            nn.ConvTranspose2d(z, 4 * c, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * c), nn.ReLU(True),
            nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * c), nn.ReLU(True),
            nn.ConvTranspose2d(2 * c, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(True),
            nn.ConvTranspose2d(c, 3, 4, 2, 1, bias=False), nn.Tanh())


class Discriminator(nn.Sequential):
    def __init__(self, c=16):
        super().__init__(
            nn.Conv2d(3, c, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(c, 2 * c, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * c), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(2 * c, 4 * c, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * c), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(4 * c, 1, 4, 1, 0, bias=False), nn.Sigmoid())


def initialise(module):
    """DCGAN's weights."""
    if "Conv" in type(module).__name__:
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif "BatchNorm" in type(module).__name__:
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()
        self.apply(initialise)


class DiscriminatorStep(GAN):
    def forward(self, real, z):
        fake = self.generator(z).detach()
        return self.discriminator(real).view(-1), self.discriminator(fake).view(-1)


class GeneratorStep(GAN):
    def forward(self, z):
        return self.discriminator(self.generator(z)).view(-1)


def adam(part):
    return torch.optim.Adam(part.parameters(), lr=2e-4, betas=(0.5, 0.999))


def tell_apart(output):
    real, fake = output
    return F.binary_cross_entropy(real, torch.ones_like(real)) + \
        F.binary_cross_entropy(fake, torch.zeros_like(fake))


@model("dcgan")
def dcgan_discriminator():
    net = DiscriminatorStep()
    data = {"real": torch.rand(SAMPLES, 3, 32, 32) * 2 - 1, "z": torch.randn(SAMPLES, 32, 1, 1)}
    return mi.Workload(net, tell_apart, adam(net.discriminator), 8, data, inputs=["real", "z"])


@model("dcgan")
def dcgan_generator():
    net = GeneratorStep()
    return mi.Workload(net, lambda out: F.binary_cross_entropy(out, torch.ones_like(out)),
                       adam(net.generator), 8, {"z": torch.randn(SAMPLES, 32, 1, 1)})
