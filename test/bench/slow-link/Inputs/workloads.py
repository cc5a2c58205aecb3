# ===- workloads.py - what is trained over slow links ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The models of the benchmarks of links, by name: examples of the documentation."""

import os
import subprocess
from typing import Dict, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, *[".."] * 4, "docs", "examples")


class Model(NamedTuple):
    example: str
    options: Dict[str, object]
    batch: int = 8  # samples of a rank
    steps: int = 8  # timed at 1 Gb/s

    @property
    def file(self):
        return os.path.join(EXAMPLES, self.example)

    def translate(self, importer, graph, weights, data):
        """By mpcomm-import."""
        subprocess.run([importer, self.file, *[f"-O{k}={v}" for k, v in self.options.items()],
                        "--batch", str(self.batch), "-o", graph, "--weights", weights, "--data",
                        data], check=True)


MODELS = {
    "tiny": Model("gpt.py", {"layers": 2, "d": 128, "heads": 4}, steps=10),
    "gpt-10m": Model("gpt.py", {"layers": 6, "d": 384, "heads": 6}),
    "gpt-50m": Model("gpt.py", {"layers": 16, "d": 512, "heads": 8}, steps=4),
    "vit-10m": Model("vit.py", {"layers": 6, "d": 384, "heads": 6}, batch=32),
    "resnet18": Model("resnet.py", {"model": "resnet18", "image": 64}),
}
