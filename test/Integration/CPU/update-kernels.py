# REQUIRES: torch, compiler
# RUN: %python %s %mpcomm-import %mpcomm-opt %mpcomm_src_root/docs/examples/gpt.py %t.dir
#
# With loss scaling and clipping, each gradient of a GPT is read twice: once by a
# kernel that looks for what is not finite and sums up squares, and once by the
# one kernel of its parameter's update, which unscales, clips, updates, chooses
# between old and new, and writes in place. No other kernel makes a tensor of a
# parameter's shape after the reductions.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts launches in the IR."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import run

IMPORT, OPT, MODEL, FOLDER = sys.argv[1:]
PASSES = ["--mpcomm-graph=mesh=dp:2 loss-scale=dynamic clip-norm=1.0", "--convert-mpcomm-to-mprt",
          "--convert-mpcomm-to-linalg", "--canonicalize", "--cse", "--mpcomm-form-kernels"]  # fmt: skip


def main():
    os.makedirs(FOLDER, exist_ok=True)
    step = os.path.join(FOLDER, "step.mlir")
    run(IMPORT, MODEL, "-O", "layers=2", "-O", "ctx=16", "-O", "d=32", "--batch", "2", "-o", step)
    text = run(OPT, step, *PASSES)
    body = text[text.index("func.func @train_step") : text.index("func.func @evaluate")]
    signature, body = body.split("{\n", 1)
    roles = re.findall(r"(%\w+): (tensor<[^>]*>) {[^}]*role<(\w+)>", signature)
    parameters = {name for name, _, role in roles if role == "parameter"}
    launches = re.findall(r"mprt\.launch @kernel_(\w+?)_\d+ ins\((.*?)\) outs\((.*?)\)", body)
    reductions = [x for x in launches if x[0] == "unscale" and re.search(r": tensor<f32>, tensor<f32>$", x[2])]
    updates = [x for x in launches if x[0] == "adamw_update"]
    if len(reductions) != len(parameters) or len(updates) != len(parameters):
        sys.exit("%d parameters, %d kernels that reduce gradients, %d that update" % (
            len(parameters), len(reductions), len(updates)))  # fmt: skip
    written = [re.findall(r"%\w+", outs.split(" : ")[0])[0] for _, _, outs in updates]
    if set(written) != parameters:
        sys.exit("updates write %s, expected the parameters in place" % written)
    begin = body.index("@kernel_unscale")
    after = re.findall(r"mprt\.launch @kernel_(\w+?)_\d+ .*? outs\((.*?)\)", body[begin:])
    others = [x for x in after if x[0] != "adamw_update" and re.search(r"tensor<\d", x[1])]
    if others:
        sys.exit("besides the updates, tensors are written by %s" % others)
    print("%d parameters: one reduction and one update each" % len(parameters))


main()
