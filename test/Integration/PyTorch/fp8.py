# Precision fp8 trains as f32 does: the digits' perceptron and a small GPT, 2 ranks,
# both recipes. A run's result is its mean loss over the last steps; runs differ in
# the order of samples. Over five orders, the mean result in fp8 is no further from
# that in f32 than results in f32 are from each other. That 8 bits were read shows
# in the first losses: they differ from f32's by more than bf16's do.
#
# REQUIRES: torch, sklearn, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %mpcomm_src_root/docs/examples %t
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares losses of compiled programs with those of the same in f32."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import read_losses, read_typed, run

IMPORT, COMPILE, RUN, EXAMPLES, FOLDER = sys.argv[1:]
RANKS, SEEDS = 2, range(5)
# model: (arguments of the importer, steps, steps of the result)
MODELS = {
    "mlp": (["--batch", 16], 120, 20),
    "gpt": (["-O", "layers=2", "-O", "ctx=32", "-O", "d=32", "--batch", 4], 80, 20),
}
POLICIES = {
    "f32": {"policy": "none"},
    "bf16": {"policy": "bf16"},
    "delayed": {"policy": "fp8"},
    "current": {"policy": "fp8", "fp8": {"scaling": "current"}},
}


def train(stem, program, steps, seed):
    log, state = stem + ".log", stem + ".ckpt"
    run(RUN, program, "--np", RANKS, "--weights", stem + ".w", "--data", stem + ".d", "--steps", steps,
        "--seed", seed, "--quiet", "--log", log, "--checkpoint", state)  # fmt: skip
    losses = read_losses(log)
    os.remove(log)
    return losses, read_typed(state)[0]


def check_state(name, state, steps):
    """Histories of a step's own length, in which every step has left something."""
    histories = {key: entry for key, entry in state.items() if key.endswith(".amax_history")}
    if bool(histories) != (name == "delayed"):
        sys.exit("%s: %d histories" % (name, len(histories)))
    for key, (_, shape, values) in histories.items():
        (scale,) = state[key.replace("amax_history", "scale")][2]
        # A quotient of f32 numbers, rounded once.
        top = 57344 if "gradient" in key else 448
        if shape != [16] or min(values) <= 0 or abs(scale * max(values) / top - 1) > 2.0**-24:
            sys.exit("after %d steps '%s' is %s, with scale %r" % (steps, key, values, scale))
    return len(histories)


def main():
    failed = []
    for model, (arguments, steps, last) in MODELS.items():
        stem = os.path.join(FOLDER, model)
        run(IMPORT, os.path.join(EXAMPLES, model + ".py"), *arguments, "-o", stem + ".mlir",
            "--weights", stem + ".w", "--data", stem + ".d")  # fmt: skip
        results, first = {}, {}
        for name, policy in POLICIES.items():
            program = "%s-%s.so" % (stem, name)
            with open(stem + ".json", "w") as file:
                json.dump({"schema": "mpcomm-precision-1", **policy}, file)
            run(COMPILE, stem + ".mlir", "-o", program, "--np", RANKS, "--options",
                "precision-file=%s.json" % stem)  # fmt: skip
            results[name] = []
            for seed in SEEDS:
                losses, state = train(stem, program, steps, seed)
                results[name].append(sum(losses[-last:]) / last)
                first.setdefault(name, losses[:8])
            histories = check_state(name, state, steps)
            print("%s, %s: %s, %d histories" % (
                model, name, " ".join("%.4f" % r for r in results[name]), histories))  # fmt: skip
        mean = {name: sum(values) / len(values) for name, values in results.items()}
        span = max(results["f32"]) - min(results["f32"])
        for name in "delayed", "current":
            gap = abs(mean[name] - mean["f32"])
            print("%s, %s: mean %.4f, f32's %.4f, span %.4f" % (model, name, mean[name], mean["f32"], span))
            if not gap <= span:
                failed.append("%s, %s: %g from f32's mean, span %g" % (model, name, gap, span))
            apart = lambda kind: max(abs(a - b) for a, b in zip(first[kind], first["f32"]))
            if not apart(name) > apart("bf16"):
                failed.append("%s, %s: nothing is rounded to 8 bits" % (model, name))
    sys.exit("\n".join(failed) or 0)


main()
