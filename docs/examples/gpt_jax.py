# ===- gpt_jax.py - the byte-level GPT of gpt.py in flax and optax ---------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A GPT that learns to write licences, byte by byte, as a training step of JAX.

    mpcomm-import gpt_jax.py -o step.mlir --weights w.safetensors --data d.safetensors

The text is what any Debian machine has in /usr/share/common-licenses; option `text`
names another file or directory.
"""

import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

import mpcomm_import as mi


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x):
        b, t, d = x.shape
        normal = nn.initializers.normal(0.02)
        h = nn.LayerNorm(name="ln1")(x)
        qkv = nn.Dense(3 * d, kernel_init=normal, name="qkv")(h)
        q, k, v = (y.reshape(b, t, self.heads, d // self.heads)
                   for y in jnp.split(qkv, 3, axis=2))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d // self.heads)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
        y = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v).reshape(b, t, d)
        x = x + nn.Dense(d, kernel_init=normal, name="proj")(y)
        h = nn.Dense(4 * d, kernel_init=normal, name="fc")(nn.LayerNorm(name="ln2")(x))
        return x + nn.Dense(d, kernel_init=normal, name="out")(nn.gelu(h))


class GPT(nn.Module):
    layers: int
    d: int
    heads: int
    vocab: int = 256

    @nn.compact
    def __call__(self, ids):
        normal = nn.initializers.normal(0.02)
        words = nn.Embed(self.vocab, self.d, embedding_init=normal, name="wte")
        places = self.param("wpe", normal, (ids.shape[1], self.d))
        x = words(ids) + places
        for i in range(self.layers):
            x = Block(self.heads, name=f"block_{i}")(x)
        return words.attend(nn.LayerNorm(name="lnf")(x))


def read_text(path):
    """The bytes of a file, or of every regular file of a directory by name."""
    if os.path.isdir(path):
        names = [os.path.join(path, n) for n in sorted(os.listdir(path))]
        names = [n for n in names if os.path.isfile(n) and not os.path.islink(n)]
    else:
        names = [path]
    return np.frombuffer(b"\n".join(open(n, "rb").read() for n in names), np.uint8)


def windows(text, ctx):
    """Inputs and targets: runs of ctx bytes, and the same a byte later."""
    index = np.arange(0, len(text) - ctx, ctx)[:, None] + np.arange(ctx)
    return {"x": text[index].astype(np.int32), "y": text[index + 1].astype(np.int32)}


def loss(params, apply, batch):
    logits = apply({"params": params}, batch["x"])
    costs = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
    return costs.mean(), logits


@jax.jit
def step(state, batch):
    (cost, _), gradients = jax.value_and_grad(loss, has_aux=True)(
        state.params, state.apply_fn, batch)
    return state.apply_gradients(grads=gradients), cost


def evaluate(state, batch):
    return loss(state.params, state.apply_fn, batch)


def workload(layers=2, d=128, heads=4, ctx=128, batch=8, lr=1e-3, warmup=0, clip=0.0, seed=0,
             text="/usr/share/common-licenses"):
    model = GPT(layers, d, heads)
    params = model.init(jax.random.key(seed), jnp.zeros((1, ctx), jnp.int32))["params"]
    rate = optax.linear_schedule(0.0, lr, warmup) if warmup else lr
    optimizer = optax.adamw(rate, weight_decay=0.01)
    if clip:
        optimizer = optax.chain(optax.clip_by_global_norm(clip), optimizer)
    data = read_text(text)
    cut = len(data) * 9 // 10
    return mi.JaxWorkload(
        step=step, evaluate=evaluate, batch=batch,
        state=TrainState.create(apply_fn=model.apply, params=params, tx=optimizer),
        dataset=windows(data[:cut], ctx), eval_dataset=windows(data[cut:], ctx))
