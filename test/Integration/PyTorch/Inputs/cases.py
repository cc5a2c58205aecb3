# ===- cases.py - random arguments of operators on images ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Draws arguments that PyTorch accepts for convolutions, pools, interpolation,
padding and norms of 1, 2 and 3 dimensions. A case is a module and the shape of a
sample; `SEVERAL` joins cases, so that one import tries many: each adds a tensor of
its own to its input, whose gradient is that of the input."""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLES = 3


class Function(nn.Module):
    def __init__(self, text, function):
        super().__init__()
        self.text, self.function = text, function

    def forward(self, x):
        return self.function(x)

    def extra_repr(self):
        return self.text


def sizes(r, dims, low=3, high=8):
    return [r.randint(low, high - (dims == 3) * 2) for _ in range(dims)]


def each(r, dims, draw):
    """One number for all dimensions, or one for each."""
    return draw() if r.random() < 0.4 else tuple(draw() for _ in range(dims))


def convolution(r, dims):
    groups = r.choice([1, 1, 1, 2, 3])
    kind = getattr(nn, f"Conv{dims}d")
    options = dict(kernel_size=each(r, dims, lambda: r.randint(1, 3)), groups=groups,
                   stride=each(r, dims, lambda: r.randint(1, 3)), bias=r.random() < 0.5,
                   dilation=each(r, dims, lambda: r.choice([1, 1, 2])))
    options["padding"] = each(r, dims, lambda: r.randint(0, 2))
    if r.random() < 0.2:
        options["padding"], options["stride"] = r.choice(["same", "valid"]), 1
    elif r.random() < 0.15:
        options["padding_mode"] = r.choice(["reflect", "replicate", "circular"])
    c, d = r.randint(1, 3) * groups, r.randint(1, 3) * groups
    return kind(c, d, **options), [c, *sizes(r, dims)]


def transposed(r, dims):
    groups = r.choice([1, 1, 1, 2, 3])
    stride, dilation = (each(r, dims, lambda: r.randint(1, 3)) for _ in "sd")
    most = [max(s, d) - 1 for s, d in zip(full(stride, dims), full(dilation, dims))]
    module = getattr(nn, f"ConvTranspose{dims}d")
    c, d = r.randint(1, 3) * groups, r.randint(1, 3) * groups
    return module(c, d, each(r, dims, lambda: r.randint(1, 3)), stride,
                  each(r, dims, lambda: r.randint(0, 2)), tuple(r.randint(0, m) for m in most),
                  groups, r.random() < 0.5, dilation), [c, *sizes(r, dims, 2, 6)]


def full(x, dims):
    return [x] * dims if isinstance(x, int) else list(x)


def windows(r, dims):
    kernel = each(r, dims, lambda: r.randint(1, 4))
    padding = tuple(r.randint(0, k // 2) for k in full(kernel, dims))
    stride = None if r.random() < 0.3 else each(r, dims, lambda: r.randint(1, 3))
    return dict(kernel_size=kernel, stride=stride, padding=padding,
                ceil_mode=r.random() < 0.5)


def max_pool(r, dims):
    options = windows(r, dims)
    options["dilation"] = each(r, dims, lambda: r.choice([1, 1, 1, 2, 3]))
    return getattr(nn, f"MaxPool{dims}d")(**options), [2, *sizes(r, dims, 4, 9)]


def avg_pool(r, dims):
    options = windows(r, dims)
    if dims == 1:
        options["padding"] = options["padding"][0]
        for key in ("kernel_size", "stride"):
            if isinstance(options[key], tuple):
                options[key] = options[key][0]
        options["padding"] = min(options["padding"], options["kernel_size"] // 2)
    elif r.random() < 0.3:
        options["divisor_override"] = r.randint(1, 9)
    return getattr(nn, f"AvgPool{dims}d")(count_include_pad=r.random() < 0.6, **options), \
        [2, *sizes(r, dims, 4, 9)]


def unpool(r, dims):
    """Windows side by side: where they overlap, what writes last shows in the gradient."""
    kernel, shape = each(r, dims, lambda: r.randint(1, 3)), sizes(r, dims, 4, 9)
    pool = getattr(nn, f"MaxPool{dims}d")(kernel, return_indices=True)
    back = getattr(nn, f"MaxUnpool{dims}d")(kernel)
    return Function(f"unpool {kernel}", lambda x: back(*pool(x), output_size=x.shape)), [2, *shape]


def pool_indices(r, dims):
    """Which elements windows have, of pools of all kinds, as weights of other ones."""
    if r.random() < 0.3:
        out = tuple(r.randint(1, 5) for _ in range(dims))
        pool = getattr(nn, f"AdaptiveMaxPool{dims}d")(out, return_indices=True)
    else:
        options = windows(r, dims)
        options["dilation"] = each(r, dims, lambda: r.choice([1, 1, 2]))
        pool = getattr(nn, f"MaxPool{dims}d")(return_indices=True, **options)

    def function(x):
        values, indices = pool(x)
        return values * indices.to(x.dtype) / 10
    return Function(str(pool), function), [2, *sizes(r, dims, 4, 9)]


def sampling(r, dims):
    """At points inside of an image and outside; where a point is on a pixel's border, which
    of two is nearest is up to rounding."""
    dims = max(dims, 2)
    options = dict(mode=r.choice(["bilinear", "nearest"] + ["bicubic"] * (dims == 2)),
                   padding_mode=r.choice(["zeros", "border", "reflection"]),
                   align_corners=r.random() < 0.5)
    shape, points = sizes(r, dims, 2, 5), [r.randint(1, 3) for _ in range(dims)]
    count = math.prod(points) * dims

    def function(x):
        image, grid = x.split([2 * math.prod(shape), count], 1)
        return F.grid_sample(image.reshape(-1, 2, *shape),
                             1.3 * grid.reshape(-1, *points, dims).tanh(), **options)
    return Function(f"grid_sample {shape} {points} {options}", function), \
        [2 * math.prod(shape) + count]


def lp_pool(r, dims):
    dims = min(dims, 2)
    p, kernel = r.choice([2.0, 3.0]), r.randint(1, 3)
    return Function(f"lp_pool{dims}d {p} {kernel}", lambda x: getattr(F, f"lp_pool{dims}d")(
        x * x + 1, p, kernel)), [2, *sizes(r, dims)]


def adaptive(r, dims):
    kind = r.choice(["Avg", "Max"])
    out = tuple(r.randint(1, 6) for _ in range(dims))
    return getattr(nn, f"Adaptive{kind}Pool{dims}d")(out), [2, *sizes(r, dims)]


MODES = {1: ["nearest", "nearest-exact", "linear", "area"],
         2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
         3: ["nearest", "nearest-exact", "trilinear", "area"]}


def resize(r, dims):
    mode = r.choice(MODES[dims])
    options = dict(mode=mode)
    if "linear" in mode or mode == "bicubic":
        options["align_corners"] = r.random() < 0.5
    if mode in ("bilinear", "bicubic") and r.random() < 0.3:
        options["antialias"] = True
    shape = sizes(r, dims, 2, 6)
    if r.random() < 0.5:
        options["size"] = [r.randint(1, 9) for _ in shape]
    elif r.random() < 0.5:
        options["scale_factor"] = float(r.choice([2, 3]))
    else:
        options["scale_factor"] = tuple(r.choice([0.5, 0.7, 1.3, 1.5, 2.0]) for _ in shape)
        options["recompute_scale_factor"] = r.choice([None, True])
    function = lambda x: F.interpolate(x, **options)
    # Where PyTorch is wrong it is no reference: in 2.13 for antialiased images of width 1,
    # and in gradients of nearest elements along dimensions that a factor takes to as many.
    out = list(function(torch.zeros(1, 1, *shape)).shape[2:])
    if "antialias" in options and out[-1] == 1:
        del options["antialias"]
    if mode == "nearest" and any(n == m for n, m in zip(out, shape)):
        options = dict(mode=mode, size=out)
    return Function(f"interpolate {options}", lambda x: F.interpolate(x, **options)), \
        [2, *shape]


def padding(r, dims):
    mode = r.choice(["reflect", "replicate", "circular", "constant"])
    shape = sizes(r, dims)
    pad = []
    for n in reversed(shape):
        pad += [r.randint(0, min(n - 1, 3)), r.randint(0, min(n - 1, 3))]
    return Function(f"pad {pad} {mode}", lambda x: F.pad(x, pad, mode)), [2, *shape]


def order(r, dims):
    shape = [2, *sizes(r, dims)]
    at = r.sample(range(1, dims + 2), r.randint(1, dims + 1))
    kind = r.choice(["roll", "roll", "flip", "rot90"])
    if kind == "roll":
        shifts = [r.randint(-5, 5) for _ in at]
        if r.random() < 0.2:
            return Function(f"roll {shifts[0]}", lambda x: x.roll(shifts[0])), shape
        return Function(f"roll {shifts} {at}", lambda x: x.roll(shifts, at)), shape
    if kind == "flip" or len(at) < 2:
        return Function(f"flip {at}", lambda x: x.flip(at)), shape
    k = r.randint(-2, 4)
    return Function(f"rot90 {k} {at[:2]}", lambda x: x.rot90(k, at[:2])), shape


def norm(r, dims):
    shape = [r.choice([4, 6]), *sizes(r, dims, 2, 5)]
    kind = r.choice(["group", "group", "instance", "batch", "batch", "frozen", "layer", "local"])
    affine = r.random() < 0.6
    if kind == "group":
        module = nn.GroupNorm(r.choice([1, 2, shape[0]]), shape[0], affine=affine)
    elif kind == "instance":
        module = getattr(nn, f"InstanceNorm{dims}d")(shape[0], affine=affine)
    elif kind == "layer":
        module = nn.LayerNorm(shape[-1], elementwise_affine=affine)
    elif kind == "local":
        module = nn.LocalResponseNorm(r.randint(1, 4))
    else:
        module = getattr(nn, f"BatchNorm{dims}d")(
            shape[0], affine=affine, momentum=r.choice([0.1, 0.3]),
            track_running_stats=kind == "frozen" or r.random() < 0.7)
    for p in module.parameters():
        nn.init.uniform_(p, 0.5, 1.5)
    if kind == "frozen":
        nn.init.uniform_(module.running_mean, -1, 1)
        nn.init.uniform_(module.running_var, 0.5, 2)
        module = Frozen(module)
    return module, shape


class Frozen(nn.Module):
    """A batch norm that keeps its statistics while its parameters train."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        n = self.norm
        return F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, False, 0.0,
                            n.eps)


def pixels(r, dims):
    k = r.choice([2, 3])
    if r.random() < 0.5:
        return nn.PixelShuffle(k), [2 * k * k, 2, 3]
    return nn.PixelUnshuffle(k), [2, 2 * k, 3 * k]


KINDS = {f.__name__: f for f in (convolution, transposed, max_pool, avg_pool, lp_pool, unpool,
                                 pool_indices, sampling, adaptive, resize, padding, order, norm, pixels)}


def case(kind, r):
    """(module, shape of a sample) that PyTorch computes to something."""
    while True:
        module, shape = KINDS[kind](r, r.randint(1, 3))
        x = torch.randn(SAMPLES, *shape, dtype=torch.float64)
        try:
            y = module.double()(x)
        except (RuntimeError, ValueError, NotImplementedError, AssertionError):
            continue
        if 0 < y[0].numel() < 2000:
            return module, shape


class Several(nn.Module):
    """The results of cases, each on its own part of a sample and a tensor to add."""

    def __init__(self, cases):
        super().__init__()
        self.shapes = [shape for _, shape in cases]
        self.cases = nn.ModuleList(module for module, _ in cases)
        self.shifts = nn.ParameterList(nn.Parameter(torch.randn(SAMPLES, *shape))
                                       for shape in self.shapes)

    def forward(self, x):
        parts = x.split([math.prod(s) for s in self.shapes], 1)
        return torch.cat([
            module(part.reshape(-1, *shape) + shift).flatten(1) for module, part, shape, shift
            in zip(self.cases, parts, self.shapes, self.shifts)], 1)


def several(kind, count, seed):
    r = random.Random(f"{kind} {seed}")
    torch.manual_seed(seed)
    model = Several([case(kind, r) for _ in range(count)])
    x = torch.randn(2 * SAMPLES, sum(math.prod(s) for s in model.shapes))
    out = model.double()(x[:SAMPLES].double()).shape[1]
    return model, {"x": x, "y": torch.randn(2 * SAMPLES, out)}


def weighted_sum(y, weights):
    return (y * weights).sum()
