# RUN: %python %s %mpcomm-opt
#
# Chains of tens of thousands of ops around a reversal, a transpose and reshapes are a matter of seconds, and of no stack.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import subprocess
import sys

OPT, COUNT = sys.argv[1], 50000


def chain(first, links, last):
    """A function of `first`, of each of `links` so many times, and of `last`: each makes %N of %M."""
    lines = [first]
    for i in range(COUNT):
        lines.append(links[i % len(links)].format(to=i + 1, of=i))
    return "func.func @f(%%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n%s\n%s\nreturn %%r : tensor<4x8xf32>\n}\n" % (
        "\n".join(lines), last.format(of=COUNT))  # fmt: skip


exp = "%{to} = math.exp %{of} : tensor<4x8xf32>"
flat = "%{to} = mpcomm.reshape %{of} : (tensor<4x8xf32>) -> tensor<32xf32>"
back = "%{to} = mpcomm.reshape %{of} : (tensor<32xf32>) -> tensor<4x8xf32>"
start = "%0 = math.sin %x : tensor<4x8xf32>"
reverse = "%r = mpcomm.reverse %{of}, dims = [1] : (tensor<4x8xf32>) -> tensor<4x8xf32>"
turned = "%0 = mpcomm.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>"
turn = "%r = mpcomm.transpose %{of}, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>"
product = """%w = arith.constant dense<1.0> : tensor<8x8xf32>
%p = mpcomm.dot_general %{of}, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
%r = arith.mulf %p, %{of} : tensor<4x8xf32>"""
for name, graph in {
    "reversed": chain(start, [exp], reverse),
    "reshaped": chain(start, [flat, back], reverse),
    "turned": chain(turned, [exp.replace("4x8", "8x4")], turn),
    "read again": chain(start, [exp], product),
    "reshaped and read again": chain(start, [flat, back], product),
}.items():
    for options in "--mpcomm-sink-movement", "--mpcomm-hoist-reverse", "--mpcomm-recompute-elementwise":
        done = subprocess.run([OPT, "-", options, "-o", "/dev/null"], input=graph, text=True, timeout=300,
                              stderr=subprocess.PIPE)  # fmt: skip
        if done.returncode:
            sys.exit("%s %s: %s: %s" % (name, options, done.returncode, done.stderr[-300:]))
