#!/usr/bin/env python3
# ===- models.py - training graphs of GPT-2, BERT and ResNet-50 -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Prints the training step (forward, backward, update) of a published model as a
training graph: shapes alone, no weights. Asserts that it has as many parameters as the
model, and compares the floating-point operations of its products and convolutions with
what is published.

Every model passes the gates, in several types, and is scheduled; small sizes here.
GPT-2 small has 148 parameters and the loss: as many all_reduces.
RUN: %python %s gpt2-small --batch=1 --sequence=128 -o %t.gpt
RUN: mpcomm-opt %t.gpt --mpcomm-verify-training-graph --mpcomm-data-parallel=size=8 --mpcomm-verify-shardings | grep -c "mpcomm.all_reduce" | FileCheck %s --check-prefix=GPT
GPT: {{^149$}}
RUN: mpcomm-opt %t.gpt --mpcomm-graph=mesh=dp:8 -o /dev/null
RUN: %python %s bert-large --batch=1 --sequence=64 --dtype=bf16 | mpcomm-opt --mpcomm-graph=mesh=dp:8 -o /dev/null
RUN: %python %s resnet-50 --batch=1 --dtype=f16 | mpcomm-opt --mpcomm-graph=mesh=dp:8 -o /dev/null
RUN: %python %s resnet-50 --batch=1 | mpcomm-opt --mpcomm-verify-training-graph -o /dev/null

At full size, parameters and operations are the published ones:
RUN: %python %s --list | FileCheck %s --check-prefix=LIST
LIST: gpt2-small {{.*}} 124439808 {{.*}} {{(0[.]9[7-9]|1[.]0[0-3])[0-9]}}
LIST: gpt2-medium {{.*}} 354823168 {{.*}} {{(0[.]9[7-9]|1[.]0[0-3])[0-9]}}
LIST: bert-large {{.*}} 336226108 {{.*}} {{(0[.]9[7-9]|1[.]0[0-3])[0-9]}}
LIST: resnet-50 {{.*}} 25557032 {{.*}} {{(0[.]9[7-9]|1[.]0[0-3])[0-9]}}
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
sys.dont_write_bytecode = True

from graph import Graph  # noqa: E402
from resnet import resnet50  # noqa: E402
from transformer import bert, gpt2  # noqa: E402


def transformer_flops(batch, sequence, layers, width, heads, vocabulary):
    """Of a step without recomputation: Narayanan et al., "Efficient Large-Scale Language
    Model Training on GPU Clusters Using Megatron-LM", SC 2021, appendix, equation 3,
    without its fourth part that recomputes: 72 B s l h² (1 + s/6h + V/12lh)."""
    del heads
    return 72 * batch * sequence * layers * width ** 2 * (
        1 + sequence / (6 * width) + vocabulary / (12 * layers * width))


def resnet_flops(batch, size):
    """torchvision's page of weights: 4.09 G multiply-adds an image of 224²; a backward
    pass takes twice as many (the first layer has no input gradient)."""
    return 3 * 2 * 4.09e9 * batch * (size / 224) ** 2


class Model:
    """`parameters`: of gpt2 and gpt2-medium (124 M, 355 M), BertForPreTraining of
    bert-large-uncased (336 M) and resnet50 in Hugging Face and torchvision."""

    def __init__(self, parameters, optimizer, batch, **shape):
        self.parameters, self.optimizer = parameters, optimizer
        self.batch, self.shape = batch, shape


# Micro-batches that a GPU of 80 GB takes: nanoGPT's 12 x 1024 for the small GPT-2;
# NVIDIA's second phase of BERT (DeepLearningExamples).
MODELS = {
    "gpt2-small": Model(124439808, "adamw", 12, sequence=1024, layers=12, width=768,
                        heads=12),
    "gpt2-medium": Model(354823168, "adamw", 8, sequence=1024, layers=24, width=1024,
                         heads=16),
    "bert-large": Model(336226108, "adamw", 8, sequence=512, layers=24, width=1024,
                        heads=16),
    "resnet-50": Model(25557032, "sgd", 64, size=224),
}


def build(name, batch=None, sequence=None, dtype="f32"):
    """The graph, its loss, and the published operations of a step."""
    model = MODELS[name]
    shape, batch = dict(model.shape), batch or model.batch
    if sequence and "sequence" in shape:
        shape["sequence"] = sequence
    g = Graph(name.replace("-", "_"), dtype)
    if name.startswith("gpt2"):
        loss = gpt2(g, batch, **shape)
        published = transformer_flops(batch, vocabulary=50257, **shape)
    elif name.startswith("bert"):
        loss = bert(g, batch, **shape)
        published = transformer_flops(batch, vocabulary=30522, **shape)
    else:
        loss = resnet50(g, batch, **shape)
        published = resnet_flops(batch, **shape)
    g.update(model.optimizer)
    assert g.count_parameters() == model.parameters, \
        "%s has %d parameters, expected %d" % (
            name, g.count_parameters(), model.parameters)
    return g, loss, published


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", nargs="?", choices=MODELS)
    parser.add_argument("--list", action="store_true",
                        help="sizes of every model beside the published ones")
    parser.add_argument("--batch", type=int, metavar="N", help="samples of a rank")
    parser.add_argument("--sequence", type=int, metavar="N", help="tokens of a sample")
    parser.add_argument("--dtype", choices=["f32", "bf16", "f16"], default="f32",
                        help="of activations (default: f32)")
    parser.add_argument("-o", "--output", help="file (default: standard output)")
    a = parser.parse_args()
    if a.list:
        print("%-12s %6s %7s %12s %15s %10s" % (
            "model", "batch", "ops", "parameters", "Tflop of a step", "published"))
        for name in MODELS:
            g, _, published = build(name, a.batch, a.sequence, a.dtype)
            print("%-12s %6d %7d %12d %15.3f %10.3f" % (
                name, a.batch or MODELS[name].batch, len(g.lines),
                g.count_parameters(), g.flops / 1e12, g.flops / published))
    elif not a.model:
        parser.error("which model? One of " + ", ".join(MODELS))
    else:
        g, loss, _ = build(a.model, a.batch, a.sequence, a.dtype)
        if a.output:
            with open(a.output, "w", encoding="ascii") as out:
                g.write(loss, out)
        else:
            g.write(loss, sys.stdout)


if __name__ == "__main__":
    main()
