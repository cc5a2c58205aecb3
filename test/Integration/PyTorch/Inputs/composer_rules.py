# ===- composer_rules.py - the operators of random compositions -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""RULES of composer.py. Functions with a pole or a kink at 0 are given values away from
it: near one, rounding makes any difference.

A rule takes the composer `c`, the name `a` of a value and the value `v`."""

import math

from composer import BATCH, RULES


def rule(function):
    RULES.append(function)
    return function


def forms(*texts, weight=1):
    """Rules that are one expression of {a}, {n} (a number), {d} (a dimension), {o}
    (another value) and {m} (a mask)."""
    for text in texts:
        for _ in range(weight):
            @rule
            def form(c, a, v, text=text):
                words = {"a": a}
                if "{n" in text:
                    words.update(n=c.number(), n1=c.number(0.2, 1.5))
                if "{d}" in text:
                    words["d"] = c.dim(v)
                if "{o}" in text:
                    words["o"] = c.other(v)
                if "{m}" in text:
                    words["m"] = f"({c.other(v)} > {c.number(-0.5, 0.5)})"
                if "{k}" in text:
                    words["k"] = c.r.choice(("True", "False"))
                return text.format(**words)


# Of one element. Not hardsigmoid, whose gradient PyTorch multiplies by a sixth of f32.
forms("F.relu({a})", "F.gelu({a})", "F.gelu({a}, approximate='tanh')", "F.silu({a})",
      "torch.tanh({a})", "torch.sigmoid({a})", "torch.exp({a}.clamp(max=3))",
      "torch.log({a}.abs() + 0.5)", "torch.sqrt({a}.abs() + 0.1)", "torch.rsqrt({a}.abs() + 0.5)",
      "torch.sin({a})", "torch.cos({a})", "torch.erf({a})", "{a}.abs()", "-{a}", "{a}.square()",
      "{a} ** 3", "({a}.abs() + 0.5) ** {n}", "F.softplus({a}, beta={n1})", "F.elu({a}, {n1})",
      "F.leaky_relu({a}, 0.1)", "F.hardtanh({a}, -0.7, 1.1)", "F.hardswish({a})",
      "F.logsigmoid({a})", "F.mish({a})", "F.selu({a})", "F.celu({a}, {n1})",
      "torch.log1p({a}.abs())", "torch.expm1({a}.clamp(max=2))", "1 / ({a}.abs() + 0.5)",
      "{a}.clamp(-0.8, 0.9)", "torch.sign({a}) * {a}", "torch.atan({a})", "F.softshrink({a}, 0.3)",
      "F.hardshrink({a}, 0.3)", "F.tanhshrink({a})", "F.threshold({a}, 0.2, -0.4)",
      "torch.floor({a}) + {a}", "torch.round({a}) * {a}", "torch.frac({a})", "F.relu6({a} * 3)",
      "torch.exp2({a}.clamp(max=3))", "torch.log2({a}.abs() + 0.5)", "torch.sinh({a}.clamp(-2, 2))",
      "torch.erfc({a})", "torch.nan_to_num({a})", "torch.trunc({a}) * {a}", "torch.asinh({a})",
      "F.rrelu({a}, 0.2, 0.2)", "torch.logit(torch.sigmoid({a}), 1e-3)", "F.softsign({a})")
# Of two, with broadcasting; masks.
forms("{a} + {o}", "{a} - {n} * {o}", "{a} * {o}", "{a} / ({o}.abs() + 0.5)",
      "torch.maximum({a}, {o})", "torch.minimum({a}, {o})", "torch.atan2({a}, {o}.abs() + 0.5)",
      "torch.where({m}, {a}, {o})", "torch.lerp({a}, {o}, {n1})", "torch.addcmul({a}, {o}, {o}, value={n})",
      "torch.addcdiv({a}, {o}, {o}.abs() + 0.5, value={n})", "{a}.masked_fill({m}, {n})",
      "torch.hypot({a}, {o}.abs() + 0.1)", "{a} * {m}", "torch.logaddexp({a}, {o})",
      "torch.where({m} & ({a} < {n1}), {a}, {n})", "torch.where({m} | ({a} < {n1}), {a}, {o})",
      "torch.where(~{m}, {a} * 2, {a})", "({a} >= {n}).to({a}.dtype) + {a}", "torch.fmod({a}, 2.5)",
      "torch.remainder({a}, 2.5)", "{a} + (ids.sum(1) % 3).to({a}.dtype).mean()", "torch.fmax({a}, {o})",
      "torch.clamp({a}, min={o}.abs() * -1 - 0.1, max={o}.abs() + 0.1)", "torch.rsub({a}, {o}, alpha={n})",
      "torch.copysign({a}, {o})", "torch.xlogy({a}, {o}.abs() + 0.5)", "torch.lerp({a}, {o}, torch.sigmoid({a}))",
      "{a} * ((ids.sum() << 2) >> 1).to({a}.dtype) * 0.01", "torch.round({a}, decimals=1) * {a}",
      "F.rrelu({a}, 0.3, 0.3, training=True)")
# Reductions.
forms("{a}.sum({d}, keepdim={k})", "{a}.mean({d}, keepdim={k})", "{a}.amax({d}, keepdim={k})",
      "{a}.amin({d})", "{a}.logsumexp({d})", "{a}.max({d}, keepdim={k})[0]", "{a}.min({d})[0]",
      "torch.linalg.vector_norm({a} + 0.1, dim={d})", "{a}.sum()", "{a}.mean()", "{a}.max()",
      "torch.linalg.vector_norm({a}, ord=1, dim={d})", "{a} - {a}.mean({d}, keepdim=True)",
      "{a} / {a}.abs().amax({d}, keepdim=True)", "(({a} > 0).any({d})).to({a}.dtype) * {a}.sum({d})",
      "({a} > {n}).all({d}).to({a}.dtype) + {a}.mean({d})", "({a} > {n}).sum({d}) + {a}.sum({d})",
      "{a}.nansum({d})")
forms("torch.cumsum({a}, {d})", "torch.softmax({a}, {d})", "torch.log_softmax({a}, {d})",
      "F.normalize({a} + 0.2, dim={d})", "torch.cumprod({a}, {d})", "F.softmin({a}, {d})", "F.glu({a}, {d})",
      "torch.logcumsumexp({a}, {d})", "torch.cummax({a}, {d})[0]", "F.layer_norm({a}, {a}.shape[-1:])")
# Views and movement.
forms("{a}.flatten()", "{a}.unsqueeze({d})", "{a}.squeeze()", "{a}.unsqueeze(-1)", "{a}.flip({d})",
      "torch.roll({a}, 1, {d})", "torch.roll({a}, -2, {d})", "{a}.contiguous()", "{a}.clone()",
      "{a}.unsqueeze(0).expand(2, *{a}.shape)", "torch.cat([{a}, {a} * 2], {d})",
      "torch.stack([{a}, {n} - {a}], {d})", "{a}.repeat_interleave(2, {d})", "{a}.detach() * {a}",
      "torch.cat([{o} + {a}, {a}], {d})", "{a}.view(-1)", "{a}.mT @ {a}")


@rule
def variance(c, a, v):
    d = c.dim(v, 2)
    return c.r.choice(("{a}.var({d})", "{a}.std({d}, keepdim=True)", "{a}.var({d}, unbiased=False)",
                       "torch.var_mean({a}, {d})[0]")).format(a=a, d=d)


@rule
def product(c, a, v):
    return f"({a}.abs() + 0.3).prod({c.dim(v)})"


@rule
def permuted(c, a, v):
    order = list(range(v.dim()))
    c.r.shuffle(order)
    return f"{a}.permute({order})" if v.dim() > 1 else None


@rule
def transposed(c, a, v):
    return f"{a}.transpose({c.dim(v)}, {c.dim(v)})"


@rule
def reshaped(c, a, v):
    sizes, left = [], v.numel()
    while left > 1 and len(sizes) < 3:
        n = c.r.choice([n for n in range(1, left + 1) if left % n == 0])
        sizes.append(n)
        left //= n
    return f"{a}.reshape({sizes + [left]})"


@rule
def sliced(c, a, v):
    d = c.dim(v, 2) % v.dim()
    n = v.shape[d]
    start = c.r.randrange(n)
    stop = c.r.randint(start + 1, n)
    step = c.r.choice((1, 1, 2, 3))
    return f"{a}[{':, ' * d}{start}:{stop}:{step}]"


@rule
def selected(c, a, v):
    d = c.dim(v)
    return f"{a}.select({d}, {c.r.randrange(v.shape[d])})"


@rule
def divided(c, a, v):
    d = c.dim(v, 2)
    i = c.r.randrange(2)
    return c.r.choice((f"{a}.chunk(2, {d})[{i}]", f"torch.split({a}, 1, {d})[{i}]",
                       f"{a}.unbind({d})[{i}]", f"{a}.tensor_split(2, {d})[{i}]"))


@rule
def padded(c, a, v):
    pads = [c.r.choice((0, 1, 2)) for _ in range(2 * c.r.randint(1, min(v.dim(), 3)))]
    return f"F.pad({a}, {pads}, value={c.number()})"


@rule
def cropped(c, a, v):
    d = c.dim(v, 3)
    return f"F.pad({a}.movedim({d}, -1), [-1, {c.r.choice((-1, 1))}])"


@rule
def bordered(c, a, v):
    """Reflection, replication and circular padding take one batch and channel dimension."""
    if v.dim() not in (3, 4) or min(v.shape[2:]) < 3:
        return None
    pads = [c.r.choice((0, 1, 2)) for _ in range(2 * (v.dim() - 2))]
    return f"F.pad({a}, {pads}, mode='{c.r.choice(('reflect', 'replicate', 'circular'))}')"


@rule
def triangle(c, a, v):
    return f"torch.{c.r.choice(('tril', 'triu'))}({a}, {c.r.choice((-1, 0, 1))})" if v.dim() > 1 else None


@rule
def diagonal(c, a, v):
    return f"torch.diagonal({a}, {c.r.choice((-1, 0, 1))}, -2, -1)" if v.dim() > 1 else None


@rule
def strided(c, a, v):
    n = v.shape[-1]
    return c.r.choice((f"{a}.contiguous().as_strided(({v.numel()},), (1,))",
                       f"{a}.contiguous().as_strided(({max(n - 1, 1)}, 2), (1, 1))",
                       f"{a}.contiguous().as_strided((2, {(v.numel() + 1) // 2}), (0, 2))"))


@rule
def unfolded(c, a, v):
    d = c.dim(v, 3)
    return f"{a}.unfold({d}, {c.r.choice((2, 3))}, {c.r.choice((1, 2))})"


@rule
def repeated(c, a, v):
    return f"{a}.repeat({[c.r.choice((1, 1, 2)) for _ in range(v.dim() + c.r.choice((0, 1)))]})"


@rule
def joined(c, a, v):
    fits = [n for n, o in c.values.items() if o.is_floating_point() and o.shape == v.shape]
    return f"torch.{c.r.choice(('cat', 'stack'))}([{a}, {c.r.choice(fits)}], {c.dim(v)})"


# Indices.

@rule
def picked(c, a, v):
    d = c.dim(v)
    index = c.index(v.shape[d])
    return c.r.choice((f"torch.index_select({a}, {d}, {index})",
                       f"{a}.movedim({d}, 0)[{index}]", f"{a}.movedim({d}, 0)[{index} - {v.shape[d]}]"))


@rule
def picked_twice(c, a, v):
    if v.dim() < 2:
        return None
    return f"{a}[{c.index(v.shape[0], 3)}, {c.index(v.shape[1], c.r.choice((1, 3)))}]"


@rule
def picked_between(c, a, v):
    if v.dim() < 3:
        return None
    return f"{a}[:, {c.index(v.shape[1], 2, 1)}, {c.index(v.shape[2], 1, 3)}]"


@rule
def gathered(c, a, v):
    d = c.dim(v)
    shape = list(v.shape)
    shape[d] = c.r.randint(1, 4)
    index = c.index(v.shape[d], *shape) if math.prod(shape) <= 64 else None
    if index is None or index.startswith("("):
        return None
    return c.r.choice((f"torch.gather({a}, {d}, {index})", f"torch.take_along_dim({a}, {index}, {d})"))


@rule
def by_order(c, a, v):
    d = c.dim(v)
    return c.r.choice((
        f"torch.sort({a}, {d})[0]", f"torch.sort({a}, {d}, descending=True)[0]",
        f"torch.gather({a}, {d}, torch.argsort({a}, {d}))", f"{a}.topk({c.r.randint(1, v.shape[d])}, {d})[0]",
        f"torch.gather({a} * 2, {d}, {a}.argmax({d}, keepdim=True))", f"{a}.median({d})[0]",
        f"torch.mode(torch.round({a}), {d})[0] + {a}.mean({d})", 
        f"{a}.kthvalue({c.r.randint(1, v.shape[d])}, {d})[0]", f"{a} * F.one_hot({a}.movedim({d}, -1).argmax(-1), {v.shape[d]}).movedim(-1, {d})"))


@rule
def most_frequent(c, a, v):
    """PyTorch sorts more than 16 elements in no defined order."""
    d = c.dim(v)
    if v.shape[d] > 16:
        return None
    return f"torch.gather({a}, {d}, torch.mode(torch.floor({a}), {d}, True)[1])"


@rule
def scattered(c, a, v):
    rows = c.r.randint(1, 5)
    index = "torch.tensor(%s)" % [c.r.randrange(rows) for _ in range(v.shape[0])]
    wide = f"{index}.view(-1{', 1' * (v.dim() - 1)}).expand_as({a})"
    zeros = f"{a}.new_zeros({[rows] + list(v.shape[1:])})"
    return c.r.choice((
        f"{zeros}.index_add(0, {index}, {a})", f"{zeros}.scatter_add(0, {wide}, {a})",
        f"{zeros}.index_put(({index},), {a}, accumulate=True)",
        f"{zeros}.scatter_reduce(0, {wide}, {a}, 'amax', include_self=False)",
        f"{zeros}.index_reduce(0, {index}, {a}, '{c.r.choice(('amax', 'amin', 'mean'))}', include_self={c.r.random() < 0.5})",
        f"({zeros} + 2).scatter(0, {wide}, {a}.detach(), reduce='{c.r.choice(('add', 'multiply'))}') * {a}.mean()",
        f"{zeros}.scatter_reduce(0, {wide}, {a}, 'sum')", f"({zeros} + 1).scatter_reduce(0, {wide}, {a}, 'mean')"))


@rule
def written(c, a, v):
    """To rows that differ: the order of writes to one is not defined."""
    rows = list(range(v.shape[0] + 1))
    c.r.shuffle(rows)
    index = f"torch.tensor({rows[:v.shape[0]]})"
    wide = f"{index}.view(-1{', 1' * (v.dim() - 1)}).expand_as({a})"
    table = c.parameter([v.shape[0] + 1, *v.shape[1:]])
    return c.r.choice((f"{table}.index_copy(0, {index}, {a})", f"{table}.scatter(0, {wide}, {a})",
                       f"{table}.index_put(({index},), {a})", f"torch.select_scatter({table}, {a}[0], 0, 1)",
                       f"{table}.index_fill(0, {index}[:1], 0.5) * {a}[:1]",
                       f"torch.slice_scatter({table}, {a}, 0, 1)"))


@rule
def embedded(c, a, v):
    if v.dim() != 2:
        return None
    return c.r.choice((f"F.embedding(ids % {v.shape[0]}, {a})",
                       f"F.embedding_bag(ids % {v.shape[0]}, {a}, mode='{c.r.choice(('sum', 'mean', 'max'))}')",
                       f"F.embedding(ids % {v.shape[0]}, {a}, padding_idx=0)"))


# Products.

@rule
def linear(c, a, v):
    n, m = v.shape[-1], c.r.randint(1, 6)
    bias = ", " + c.parameter([m]) if c.r.random() < 0.5 else ""
    return f"F.linear({a}, {c.parameter([m, n], n ** -0.5)}{bias})"


@rule
def products(c, a, v):
    if v.dim() < 2:
        return f"torch.outer({a}, {a})" if v.dim() == 1 else None
    n = v.shape[-1]
    return c.r.choice((f"{a} @ {c.parameter([n, 3], n ** -0.5)}", f"{a} @ {a}.transpose(-1, -2)",
                       f"torch.einsum('...ij,...ik->...jk', {a}, {a})", f"{a} @ {c.parameter([n])}",
                       f"torch.einsum('...ij,kj->k...i', {a}, {c.parameter([2, n])})"))


@rule
def batched(c, a, v):
    if v.dim() != 3:
        return None
    b, m, n = v.shape
    other = c.parameter([b, n, 2], n ** -0.5)
    return c.r.choice((f"torch.bmm({a}, {other})", f"torch.baddbmm({c.parameter([m, 2])}, {a}, {other}, beta=0.5, alpha=2)",
                       f"torch.bmm({a}.transpose(1, 2), {a})"))


@rule
def attended(c, a, v):
    if v.dim() < 3:
        return None
    n, d = v.shape[-2:]
    mask = c.r.choice(("", ", is_causal=True", f", attn_mask={c.parameter([n, n])}"))
    return f"F.scaled_dot_product_attention({a}, {a} * 0.5, {a} + 1{mask})"


@rule
def distances(c, a, v):
    if v.dim() < 2:
        return None
    p = c.r.choice(("1.0", "2.0", "2.0", "3.0", "math.inf"))
    return c.r.choice((f"torch.cdist({a}, {c.parameter([3, v.shape[-1]])}, p={p})",
                       f"torch.cdist({a}, {a} * 0.5 + 1, compute_mode='donot_use_mm_for_euclid_dist')",
                       f"torch.pdist({a}.flatten(0, -2) + {c.parameter([math.prod(v.shape[:-1]), 1])}, {p})"))


# Norms.

@rule
def layer_norm(c, a, v):
    if v.numel() < 2 or v.shape[-1] < 2:
        return None
    shape = list(v.shape[-c.r.randint(1, v.dim()):])
    affine = f", {c.parameter(shape)}, {c.parameter(shape)}" if c.r.random() < 0.6 else ""
    return f"F.layer_norm({a}, {shape}{affine})"


@rule
def channel_norms(c, a, v):
    if v.dim() < 2 or v.dim() > 5:
        return None
    n = v.shape[1]
    if c.r.random() < 0.5:
        groups = c.r.choice([g for g in range(1, n + 1) if n % g == 0])
        return f"F.group_norm({a}, {groups}, {c.parameter([n])}, {c.parameter([n])})"
    if v.dim() > 2 and c.r.random() < 0.5:
        return f"F.instance_norm({a})" if math.prod(v.shape[2:]) > 2 else None
    if v.numel() // n < 3:
        return None
    return f"F.batch_norm({a}, None, None, {c.parameter([n])}, {c.parameter([n])}, training=True)"


# Windows: of values with a sample, a channel and one to three further dimensions.

@rule
def convolved(c, a, v):
    rank = v.dim() - 2
    if rank not in (1, 2, 3):
        return None
    groups = c.r.choice([g for g in range(1, v.shape[1] + 1) if v.shape[1] % g == 0])
    outside = groups * c.r.randint(1, 3)
    window = [c.r.choice((1, 2, 3)) for _ in range(rank)]
    options = (f"stride={[c.r.choice((1, 1, 2)) for _ in range(rank)]}, padding={[c.r.choice((0, 1)) for _ in range(rank)]}"
               f", dilation={[c.r.choice((1, 1, 2)) for _ in range(rank)]}, groups={groups}")
    if c.r.random() < 0.35:
        weight = c.parameter([v.shape[1], outside // groups, *window], 0.5)
        return f"F.conv_transpose{rank}d({a}, {weight}, {options})"
    weight = c.parameter([outside, v.shape[1] // groups, *window], 0.5)
    bias = ", " + c.parameter([outside]) if c.r.random() < 0.5 else ""
    return f"F.conv{rank}d({a}, {weight}{bias}, {options})"


@rule
def pooled(c, a, v):
    rank = v.dim() - 2
    if rank not in (1, 2, 3):
        return None
    window = [c.r.choice((1, 2, 3)) for _ in range(rank)]
    stride = [c.r.choice((1, 2)) for _ in range(rank)]
    padding = [c.r.choice((0, w // 2)) for w in window]
    out = [c.r.randint(1, 4) for _ in range(rank)]
    return c.r.choice((
        f"F.max_pool{rank}d({a}, {window}, {stride}, {padding}, ceil_mode={c.r.random() < 0.3})",
        f"F.avg_pool{rank}d({a}, {window}, {stride}, {padding}, count_include_pad={c.r.random() < 0.5})",
        f"F.max_pool{rank}d({a}, 2, 1, dilation=2)", f"F.adaptive_avg_pool{rank}d({a}, {out})",
        f"F.adaptive_max_pool{rank}d({a}, {out})", f"F.lp_pool{min(rank, 2)}d({a}.abs() + 0.1, 2, 2)"))


@rule
def resized(c, a, v):
    rank = v.dim() - 2
    if rank not in (1, 2, 3):
        return None
    modes = ["nearest", "nearest-exact", ("linear", "bilinear", "trilinear")[rank - 1]] + ["bicubic"] * (rank == 2)
    mode = c.r.choice(modes)
    corners = "" if mode.startswith("near") else f", align_corners={c.r.random() < 0.5}"
    size = [c.r.randint(1, 7) for _ in range(rank)]
    return f"F.interpolate({a}, size={size}, mode='{mode}'{corners})"


@rule
def unpooled(c, a, v):
    """Windows side by side: where they overlap, the order of equal writes shows in the gradient."""
    rank = v.dim() - 2
    if rank not in (1, 2, 3):
        return None
    return c.r.choice((f"F.max_unpool{rank}d(*F.max_pool{rank}d({a}, 2, return_indices=True), 2)",
                       f"F.max_pool{rank}d({a}, 3, 2, 1, return_indices=True)[1].to({a}.dtype).mean() * 0.1 + {a}"))


@rule
def sampled(c, a, v):
    rank = v.dim() - 2
    if rank not in (2, 3):
        return None
    grid = f"torch.tanh({c.parameter([v.shape[0], *[c.r.randint(1, 4) for _ in range(rank)], rank])})"
    mode = c.r.choice(("bilinear", "bilinear", "nearest", "bicubic")[:3 + (rank == 2)])
    return (f"F.grid_sample({a}, {grid} * {c.r.choice((0.9, 1.6))}, mode='{mode}', padding_mode="
            f"'{c.r.choice(('zeros', 'border', 'reflection'))}', align_corners={c.r.random() < 0.5})")


@rule
def shuffled(c, a, v):
    if v.dim() != 4:
        return None
    return c.r.choice((f"F.pixel_shuffle({a}, 2)", f"F.pixel_unshuffle({a}, 2)", f"F.channel_shuffle({a}, 2)",
                       f"F.unfold({a}, 2)"))


# Losses, over what the value has.

@rule
def aligned(c, a, v):
    """Frames of 4 samples, of which some have no path."""
    if v.dim() != 3 or v.shape[0] != BATCH or v.shape[2] < 2:
        return None
    _, frames, classes = v.shape
    targets = f"ids[:, :2] % {classes - 1} + 1"
    frames = [frames, max(frames - 1, 1), frames, frames]
    lengths = c.r.choice((f"{frames}, [1, 2, 1, 2]", f"torch.tensor({frames}), ids[:, 0] % 3"))
    return (f"F.ctc_loss(F.log_softmax({a}.transpose(0, 1), 2), {targets}, {lengths}, "
            f"reduction='{c.r.choice(('mean', 'sum', 'none'))}', zero_infinity=True)")


@rule
def classified(c, a, v):
    if v.dim() < 2 or v.shape[0] != BATCH:
        return None
    n = v.shape[-1]
    reduction = c.r.choice(("mean", "sum"))
    flat = f"{a}.flatten(1)" if v.dim() > 2 else a
    classes = math.prod(v.shape[1:])
    target = f"ids[:, 0] % {classes}"
    return c.r.choice((
        f"F.cross_entropy({flat}, {target}, reduction='{reduction}')",
        f"F.cross_entropy({flat}, {target}, label_smoothing=0.1)",
        f"F.cross_entropy({flat}, {target}, ignore_index=1, reduction='sum')",
        f"F.cross_entropy({flat}, {target}, weight={c.parameter([classes])}.abs().detach() + 0.2)",
        f"F.cross_entropy({flat}, torch.softmax({flat} * 0.5, 1).detach())",
        f"F.nll_loss(F.log_softmax({flat}, 1), {target})", f"F.multi_margin_loss({flat}, {target})"))


@rule
def compared(c, a, v):
    o = c.other(v)
    wide = f"{o}.expand_as({a})"
    return c.r.choice((
        f"F.mse_loss({a}, {wide})", f"F.l1_loss({a}, {wide})", f"F.smooth_l1_loss({a}, {wide}, beta=0.7)",
        f"F.huber_loss({a}, {wide}, delta=0.6)", f"F.binary_cross_entropy_with_logits({a}, torch.sigmoid({wide}).detach())",
        f"F.binary_cross_entropy(torch.sigmoid({a}), torch.sigmoid({wide}).detach())",
        f"F.kl_div(F.log_softmax({a}, -1), torch.softmax({wide}, -1), reduction='batchmean')",
        f"F.kl_div(F.log_softmax({a}, -1), F.log_softmax({wide}, -1), log_target=True, reduction='sum')",
        f"F.poisson_nll_loss({a}.clamp(max=2), {wide}.abs().detach())", f"F.soft_margin_loss({a}, torch.sign({wide}).detach())",
        f"F.gaussian_nll_loss({a}, {wide}, {a}.square() + 0.3)", f"F.hinge_embedding_loss({a}, torch.sign({wide}).detach())",
        f"F.cosine_similarity({a} + 0.3, {wide} - 0.3, dim={c.dim(v)})",
        f"F.pairwise_distance({a}, {wide})"))
