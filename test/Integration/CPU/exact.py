# REQUIRES: torch, sklearn, compiler
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %mpcomm_src_root/docs/examples %t.dir
#
# With numerics=exact the communication optimiser changes no bit: weights after
# ten steps are those of the program with one all_reduce for each gradient, each
# awaited where it is. On four ranks, where the order of a sum matters, and
# on two, where buckets are exact and so must have been made.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains an MLP and a small GPT with and without the optimiser."""

import filecmp
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import run

IMPORT, COMPILE, RUN, EXAMPLES, FOLDER = sys.argv[1:]
MODELS = {
    "mlp": ["mlp.py", "--batch", "8"],
    "gpt": ["gpt.py", "-O", "layers=2", "-O", "ctx=16", "-O", "d=32", "--batch", "2"],
}


def train(files, ranks, name, options):
    """Weights after ten steps of the program compiled with `options`, and the
    number of collectives in a step."""
    program = os.path.join(FOLDER, "%s-%d.so" % (name, ranks))
    weights = os.path.join(FOLDER, "%s-%d.safetensors" % (name, ranks))
    step, initial, data = files
    report = run(COMPILE, step, "-o", program, "--np", str(ranks), "--options", options, "--report")
    run(RUN, program, "--np", str(ranks), "--weights", initial, "--data", data,
        "--steps", "10", "--seed", "3", "--save-weights", weights, "--quiet")  # fmt: skip
    return weights, int(re.search(r"@train_step: .* (\d+) collectives", report).group(1))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for model, (source, *arguments) in MODELS.items():
        files = [os.path.join(FOLDER, model + end) for end in (".mlir", ".w", ".d")]
        run(IMPORT, os.path.join(EXAMPLES, source), *arguments, "-o", files[0],
            "--weights", files[1], "--data", files[2])  # fmt: skip
        for ranks in (2, 4):
            plain, each = train(files, ranks, model + "-plain",
                                "buckets=none overlap=false numerics=exact")  # fmt: skip
            exact, merged = train(files, ranks, model + "-exact", "numerics=exact")
            if not filecmp.cmp(plain, exact, shallow=False):
                sys.exit("%s on %d ranks: numerics=exact gives other weights" % (model, ranks))
            # a + b is b + a: buckets of two ranks are exact, those of four are not.
            if (merged < each) != (ranks == 2):
                sys.exit("%s on %d ranks: %d collectives of %d" % (model, ranks, merged, each))
            print("%s on %d ranks: the same bits, %d collectives of %d"
                  % (model, ranks, merged, each))  # fmt: skip


main()
