# ===- resnet_jax.py - the small residual network of resnet.py in flax -----=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A residual network of three blocks on handwritten digits, as a loss and an optimizer
of optax.

    mpcomm-import resnet_jax.py -o step.mlir --weights w.safetensors --data d.safetensors

The images are scikit-learn's digits, enlarged to `image` pixels, in three equal colours.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mpcomm_import as mi


class Block(nn.Module):
    features: int
    stride: int

    @nn.compact
    def __call__(self, x, train):
        norm = partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        conv = partial(nn.Conv, features=self.features, use_bias=False)
        y = nn.relu(norm()(conv(kernel_size=(3, 3), strides=self.stride, padding=1)(x)))
        y = norm()(conv(kernel_size=(3, 3))(y))
        if x.shape != y.shape:
            x = norm()(conv(kernel_size=(1, 1), strides=self.stride)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    width: int
    classes: int

    @nn.compact
    def __call__(self, x, train=True):
        w = self.width
        x = nn.Conv(w, (3, 3), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for features, stride in ((w, 1), (2 * w, 2), (4 * w, 2)):
            x = Block(features, stride)(x, train)
        return nn.Dense(self.classes)(x.mean((1, 2)))


def images(size, share=0.8, seed=0):
    """Images in [-1, 1] and labels, shuffled and cut in two."""
    from sklearn.datasets import load_digits
    data = load_digits()
    x = jax.image.resize(data.images[..., None] / 8 - 1, (len(data.images), size, size, 1),
                         "bilinear")
    x = np.repeat(np.asarray(x, np.float32), 3, axis=3)
    order = np.random.default_rng(seed).permutation(len(x))
    cut = int(len(x) * share)
    return tuple({"x": x[i], "y": data.target[i].astype(np.int32)}
                 for i in (order[:cut], order[cut:]))


def workload(width=16, image=16, batch=32, lr=0.05, momentum=0.9, seed=0):
    net = ResNet(width, classes=10)
    train, test = images(image)
    variables = net.init(jax.random.key(seed), jnp.asarray(train["x"][:1]))

    def loss(params, statistics, batch):
        logits, kept = net.apply({"params": params, "batch_stats": statistics}, batch["x"],
                                 mutable=["batch_stats"])
        costs = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
        return costs.mean(), kept["batch_stats"]

    def evaluate(state, batch):
        logits = net.apply({"params": state["params"], "batch_stats": state["model_state"]},
                           batch["x"], train=False)
        costs = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
        return costs.mean(), logits

    return mi.JaxWorkload(
        loss=loss, params=variables["params"], model_state=variables["batch_stats"],
        optimizer=optax.sgd(lr, momentum), evaluate=evaluate, batch=batch, dataset=train,
        eval_dataset=test)
