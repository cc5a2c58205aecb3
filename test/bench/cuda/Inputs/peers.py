# ===- peers.py - PyTorch and JAX on the same training ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The peers, each at its best: PyTorch with fused attention, a fused optimizer, TF32
off where f32 is meant, channels last for convolutions, everything on the device before
the clock starts; JAX jitted with donated state."""

import statistics
import time

import torch
import torch.nn.functional as F

from clocks import BACKEND, DEVICE, largest_allocation, marks, synchronize, times_between


def fuse_attention(model):
    """The model with its attention by scaled_dot_product_attention."""

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in self.qkv(x).split(d, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))

    for module in model.modules():
        if type(module).__name__ == "Attention":
            module.forward = forward.__get__(module)
    return model


def optimizer_of(workload, fused=True):
    kind, defaults = type(workload.optimizer), dict(workload.optimizer.defaults)
    known = {"lr", "betas", "eps", "weight_decay", "momentum"} & set(defaults)
    return kind(workload.model.parameters(), fused=fused, **{key: defaults[key] for key in known})


class TorchStep:
    """A training step; precision "none", "bf16" or "f16" (autocast; losses of f16 are scaled
    by 1024); `compiled`: a mode of torch.compile."""

    def __init__(self, workload, precision, compiled="", exact=False):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.workload, self.precision = workload, precision
        self.model = workload.model.to(DEVICE).train()
        self.is_image = next(iter(workload.dataset.values())).dim() == 4
        if self.is_image:
            self.model = self.model.to(memory_format=torch.channels_last)
        elif not exact:
            fuse_attention(self.model)
        self.data = {k: v.to(DEVICE) for k, v in workload.dataset.items()}
        if self.is_image:
            self.data["x"] = self.data["x"].to(memory_format=torch.channels_last)
        self.optimizer = optimizer_of(workload)
        forward = self.forward
        if compiled and BACKEND != "inductor":
            forward, self.update = torch.compile(forward, backend=BACKEND), self.optimizer.step
        elif compiled:
            forward = torch.compile(forward, mode=compiled)
            self.update = torch.compile(self.optimizer.step, mode="max-autotune-no-cudagraphs" if "max" in compiled else "default")
        else:
            self.update = self.optimizer.step
        self.loss_of = forward

    def forward(self, x, y):
        kind = torch.float16 if self.precision == "f16" else torch.bfloat16
        with torch.autocast(DEVICE, kind, enabled=self.precision != "none"):
            output = self.model(x)
        return self.workload.loss(output.float(), y)

    def __call__(self, step):
        n = self.workload.batch
        samples = len(self.data["x"])
        at = step * n % samples
        loss = self.loss_of(self.data["x"][at : at + n], self.data["y"][at : at + n])
        if self.precision == "f16":
            (loss * 1024).backward()
            for group in self.optimizer.param_groups:
                torch._foreach_mul_([p.grad for p in group["params"] if p.grad is not None], 1 / 1024)
        else:
            loss.backward()
        self.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def time_steps(step, warm=10, rounds=20):
    """Median milliseconds of a step; the largest allocation in MB."""
    for i in range(warm):
        step(i)
    synchronize()
    largest_allocation(restart=True)
    points = marks(rounds + 1)
    points[0].record()
    for i in range(rounds):
        step(i)
        points[i + 1].record()
    times = times_between(points)
    return 1e3 * statistics.median(times), largest_allocation() / 1e6


def time_jax(step, state, x, y, rounds):
    """Median milliseconds of a jitted step, four at a time."""
    for _ in range(5):
        state, loss = step(state, x, y)
    loss.block_until_ready()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(4):
            state, loss = step(state, x, y)
        loss.block_until_ready()
        times.append((time.perf_counter() - begin) / 4 * 1e3)
    return statistics.median(times)


def time_jax_gpt(shape, batch, rounds=20):
    """Median milliseconds of a GPT-2 step in JAX: bf16 products, f32 state, AdamW,
    cuDNN's attention."""
    import jax
    import jax.numpy as jnp

    layers, d, heads, ctx, vocab = shape
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 4 * layers + 2))
    draw = lambda *s: jax.random.normal(next(keys), s, jnp.float32) * 0.02
    zeros, ones = (lambda *s: jnp.zeros(s, jnp.float32)), (lambda *s: jnp.ones(s, jnp.float32))
    block = lambda: dict(
        ln1=(ones(d), zeros(d)), ln2=(ones(d), zeros(d)), qkv=(draw(d, 3 * d), zeros(3 * d)), proj=(draw(d, d), zeros(d)),
        fc=(draw(d, 4 * d), zeros(4 * d)), out=(draw(4 * d, d), zeros(d)))  # fmt: skip
    params = dict(wte=draw(vocab, d), wpe=draw(ctx, d), blocks=[block() for _ in range(layers)], lnf=(ones(d), zeros(d)))

    def norm(x, p):
        x = x.astype(jnp.float32)
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p[0] + p[1]

    def dense(x, p):
        return x.astype(jnp.bfloat16) @ p[0].astype(jnp.bfloat16) + p[1].astype(jnp.bfloat16)

    def loss_of(params, x, y):
        h = params["wte"][x] + params["wpe"]
        for p in params["blocks"]:
            q, k, v = jnp.split(dense(norm(h, p["ln1"]), p["qkv"]).reshape(batch, ctx, 3 * heads, d // heads), 3, 2)
            a = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="xla" if DEVICE == "cpu" else "cudnn")
            h = h + dense(a.reshape(batch, ctx, d), p["proj"])
            h = h + dense(jax.nn.gelu(dense(norm(h, p["ln2"]), p["fc"])), p["out"])
        logits = norm(h, params["lnf"]).astype(jnp.bfloat16) @ params["wte"].astype(jnp.bfloat16).T
        logits = logits.astype(jnp.float32)
        picked = jnp.take_along_axis(logits, y[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - picked).mean()

    def step(state, x, y):
        params, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(params, x, y)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        size = lambda m, v: (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        params = jax.tree.map(lambda p, m, v: p * (1 - 1e-5) - 1e-3 * size(m, v), params, m, v)
        return (params, m, v, t), loss

    step = jax.jit(step, donate_argnums=0)
    zero = jax.tree.map(jnp.zeros_like, params)
    state = (params, zero, jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.float32))
    x = jax.random.randint(jax.random.PRNGKey(1), (batch, ctx + 1), 0, vocab)
    x, y = x[:, :-1], x[:, 1:]
    return time_jax(step, state, x, y, rounds)


def time_jax_resnet(stages, image, classes, batch, rounds=20):
    """Median milliseconds of a ResNet step in JAX: NHWC, bf16 convolutions, f32 state,
    SGD with momentum."""
    import jax
    import jax.numpy as jnp

    keys = iter(jax.random.split(jax.random.PRNGKey(0), 200))

    def conv_of(size, inside, outside):
        scale = (2 / (size * size * inside)) ** 0.5
        w = jax.random.normal(next(keys), (size, size, inside, outside), jnp.float32) * scale
        return dict(w=w, g=jnp.ones(outside), b=jnp.zeros(outside))

    def conv(x, p, stride=1, pad=0):
        y = jax.lax.conv_general_dilated(x, p["w"].astype(jnp.bfloat16), (stride, stride), [(pad, pad)] * 2,
                                         dimension_numbers=("NHWC", "HWIO", "NHWC")).astype(jnp.float32)  # fmt: skip
        mean = y.mean((0, 1, 2))
        var = ((y - mean) ** 2).mean((0, 1, 2))
        return (y - mean) * jax.lax.rsqrt(var + 1e-5) * p["g"] + p["b"]

    params = dict(stem=conv_of(7, 3, 64), blocks=[])
    strides, inside = [], 64
    for stage, count in enumerate(stages):
        for i in range(count):
            width, stride = 64 << stage, 2 if i == 0 and stage > 0 else 1
            block = dict(c1=conv_of(1, inside, width), c2=conv_of(3, width, width), c3=conv_of(1, width, 4 * width))
            if stride != 1 or inside != 4 * width:
                block["short"] = conv_of(1, inside, 4 * width)
            params["blocks"].append(block)
            strides.append(stride)
            inside = 4 * width
    params["head"] = (jax.random.normal(next(keys), (inside, classes)) * 0.01, jnp.zeros(classes))
    half = lambda x: x.astype(jnp.bfloat16)

    def loss_of(params, x, y):
        h = half(jax.nn.relu(conv(half(x), params["stem"], 2, 3)))
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
        for p, stride in zip(params["blocks"], strides):
            z = half(jax.nn.relu(conv(h, p["c1"])))
            z = half(jax.nn.relu(conv(z, p["c2"], stride, 1)))
            short = conv(h, p["short"], stride) if "short" in p else h.astype(jnp.float32)
            h = half(jax.nn.relu(conv(z, p["c3"]) + short))
        logits = h.astype(jnp.float32).mean((1, 2)) @ params["head"][0] + params["head"][1]
        return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[:, None], 1)[:, 0]).mean()

    def step(state, x, y):
        params, m = state
        loss, g = jax.value_and_grad(loss_of)(params, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return (jax.tree.map(lambda p, m: p - 0.05 * m, params, m), m), loss

    step = jax.jit(step, donate_argnums=0)
    state = (params, jax.tree.map(jnp.zeros_like, params))
    x = jax.random.normal(jax.random.PRNGKey(1), (batch, image, image, 3), jnp.float32)
    y = jax.random.randint(jax.random.PRNGKey(2), (batch,), 0, classes)
    return time_jax(step, state, x, y, rounds)
