# A loss whose gradients f16 cannot hold: without loss scaling nothing but the last
# bias learns, with it the model trains; a scale that is too large ends the run where
# it is fixed, and is found to be so where it is dynamic.
#
# The loss is a mean that is weighted by 2^-21, over 30 samples: no element of the
# logits' gradient is larger than 2^-21 / 30 < 2^-25, and f16 rounds them all to zero,
# which is what products of the backward pass then read. No weight may change.
#
# REQUIRES: torch, sklearn, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %mpcomm-import %mpcomm-compile %mpcomm-run
"""Products in f16 too (compute=lower_precision), whatever this machine is good at."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "Inputs"))
from programs import read_tensors, run

FOLDER, IMPORT, COMPILE, RUN = sys.argv[1:]
MODEL = os.path.join(HERE, *[".."] * 3, "bench", "accuracy", "Inputs", "weighted.py")


def path(name):
    return os.path.join(FOLDER, name)


def train(name, options, steps=40, expected=0):
    """(log, weights, what was printed)"""
    run(COMPILE, path("step.mlir"), "-o", path(name + ".so"), "--np", 2, "--options=" + options)
    text = run(RUN, path(name + ".so"), "--weights", path("w"), "--data", path("d"), "--steps", steps,
               "--log", path(name), "--save-weights", path(name + ".w"), expected=expected)  # fmt: skip
    with open(path(name)) as file:
        log = [json.loads(line) for line in file]
    return log, None if expected else read_tensors(path(name + ".w")), text


def expect(what, condition, *values):
    if not condition:
        sys.exit("%s: %s" % (what, ", ".join(map(str, values))))


def losses(log):
    return [entry["loss"] for entry in log]


def falls(log):
    """To less than half from the first step to the mean of the last five."""
    return sum(losses(log)[-5:]) / 5 < losses(log)[0] / 2


def main():
    run(IMPORT, MODEL, "-o", path("step.mlir"), "--weights", path("w"), "--data", path("d"))
    first = read_tensors(path("w"))
    weights = [name for name in first if name.endswith("weight")]
    expect("weights", len(weights) == 3, *weights)
    with open(path("f16.json"), "w") as file:
        json.dump({"schema": "mpcomm-precision-1", "policy": "f16", "compute": "lower_precision"}, file)
    f16 = "precision-file=" + path("f16.json")

    log, _, _ = train("f32", "precision=none")
    expect("f32 trains", falls(log), *losses(log))

    log, last, _ = train("unscaled", f16 + " loss-scale=none")
    expect("unscaled: weights that changed", all(first[n] == last[n] for n in weights))
    expect("unscaled: the loss stays", min(losses(log)) > 0.9 * log[0]["loss"], *losses(log))

    log, last, _ = train("dynamic", f16)
    expect("dynamic trains", falls(log), *losses(log))
    expect("dynamic: weights that did not change", all(first[n] != last[n] for n in weights))
    expect("dynamic: nothing overflows", not any(entry["skipped"] for entry in log))

    # The same scale, given: the same bits.
    static, same, _ = train("static", f16 + " loss-scale=static:65536")
    expect("static: the same losses", losses(static) == losses(log))
    expect("static: the same weights", all(same[n] == last[n] for n in first))

    # 2^60 2^-21 p / 30 is infinite in f16 for all p from 2^-18.
    log, _, text = train("overflow", f16 + " loss-scale=static:1152921504606846976", expected=1)
    expect("overflow: steps", len(log) <= 2, len(log))
    expect("overflow: what is said", "error: step 2, rank 0: the loss is nan" in text, text)

    log, last, text = train("backoff", f16 + " loss-scale=dynamic:1152921504606846976", steps=80)
    skipped = [entry["skipped"] for entry in log]
    # The largest element of the logits' gradient, 0.9 2^-21 scale / 30, is below 65504
    # from a scale of 2^41 on. Sums over samples and classes need a few bits less, some
    # of them only later.
    expect("backoff: skips first", all(skipped[:19]), *skipped)
    expect("backoff: skipped", 19 <= sum(skipped) <= 24, sum(skipped))
    # A step that was skipped did nothing; those between train.
    expect("backoff trains", falls(log[19:]), *losses(log))
    expect("backoff: counted", "steps skipped          %d\n" % sum(skipped) in text, text)


main()
