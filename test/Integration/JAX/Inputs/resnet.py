"""The residual network of docs/examples/resnet_jax.py on images that are drawn."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4, "docs",
                                "examples"))
import resnet_jax  # noqa: E402


def images(size):
    random = np.random.default_rng(0)
    data = {"x": random.normal(size=(80, size, size, 3)).astype(np.float32),
            "y": random.integers(0, 10, 80).astype(np.int32)}
    return data, data


def workload(width=8, image=12, batch=4, lr=0.05):
    resnet_jax.images = images
    return resnet_jax.workload(width=width, image=image, batch=batch, lr=lr)
