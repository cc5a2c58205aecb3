# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run %t.dir
#
# mpcomm.update_fp8_scale against its definition, number for number: a sequence
# of greatest magnitudes with zeros, infinities, NaNs, the smallest and the
# largest, for histories of several lengths, both formats, and margins.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each step's sample has the magnitudes that its scales are updated from."""

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import f32, read_tensors, run, write_tensors

COMPILE, RUN, FOLDER = sys.argv[1:]
TOP = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}
# (length of the history, format, margin, first scale)
CASES = [(1, "f8E4M3FN", 0, 1.0), (1, "f8E5M2", 3, 5.0), (4, "f8E4M3FN", -2, 1.0),
         (4, "f8E5M2", 0, 1.0), (16, "f8E4M3FN", 64, 1.0), (3, "f8E5M2", -64, 0.25)]  # fmt: skip
TINY = 2.0**-149
SCRIPT = [0.0, 3.0, 0.1, math.inf, 7.0, 0.0, 0.0, 0.0, 0.0, 0.0, math.nan, 448.0, 1e-30, 3.4e38,
          0.0, 0.0, 0.0, 0.0, TINY, TINY, TINY, TINY, 0.3, -0.0, 57344.0, 1e-38, 1e-38, 1e-38, 1e-38]  # fmt: skip


def update(history, scale, amax, form, margin):
    """The definition in the op's description. A quotient of two f32 numbers
    rounds to the same f32 by way of f64, which has more than twice the bits."""
    history = [amax if math.isfinite(amax) else 0.0] + history[:-1]
    most = max(history)
    if most == 0 or not math.isfinite(most):
        return history, scale
    quotient = f32(f32(TOP[form] * 2.0**-margin) / most)
    return history, quotient if math.isfinite(quotient) else scale


def step_text():
    arguments, results, body, values, types = [], [], [], [], []
    role = "mpcomm.role = #mpcomm.role<loss_scale>"
    for at, (length, form, margin, first) in enumerate(CASES):
        for kind, shape, start in ("h", "tensor<%dxf32>" % length, 0.0), ("s", "tensor<f32>", first):
            name = '%s, mpcomm.name = "%s%d"' % (role, kind, at)
            arguments.append("%%%s%d: %s {%s, mpcomm.default = %r : f32, mpcomm.donated = %d : i64}" % (
                kind, at, shape, name, start, len(results) + 1))  # fmt: skip
            results.append("%s {%s}" % (shape, name))
            types.append(shape)
        body.append("""
  %%n%d, %%t%d = mpcomm.update_fp8_scale %%h%d, %%s%d, %%a, format = %s, margin = %d
    : (tensor<%dxf32>, tensor<f32>, tensor<f32>) -> (tensor<%dxf32>, tensor<f32>)""" % (
            at, at, at, at, form, margin, length, length))  # fmt: skip
        values += ["%%n%d" % at, "%%t%d" % at]
    return """func.func @train_step(%s,
    %%x: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}, %s) {
  %%a = mpcomm.reshape %%x : (tensor<1xf32>) -> tensor<f32>
  %%loss = arith.constant dense<0.0> : tensor<f32>%s
  return %%loss, %s : tensor<f32>, %s
}
""" % (",\n    ".join(arguments), ",\n        ".join(results), "".join(body), ", ".join(values), ", ".join(types))  # fmt: skip


def main():
    os.makedirs(FOLDER, exist_ok=True)
    path = lambda name: os.path.join(FOLDER, name)
    with open(path("step.mlir"), "w") as file:
        file.write(step_text())
    run(COMPILE, path("step.mlir"), "-o", path("step.so"))
    data = write_tensors(path("data"), {"x": ([len(SCRIPT)], SCRIPT)})
    state = [([0.0] * length, first) for length, _, _, first in CASES]
    kept = changed = 0
    for at, amax in enumerate(SCRIPT):
        # A step at a time, so that every scale on the way is seen.
        start = ["--resume", path("state")] if at else []
        run(RUN, path("step.so"), "--data", data, "--no-shuffle", "--steps", at + 1, *start,
            "--checkpoint", path("state"), "--quiet", "--allow-nonfinite")  # fmt: skip
        found = read_tensors(path("state"))
        for case, (length, form, margin, _) in enumerate(CASES):
            old = state[case]
            state[case] = history, scale = update(*old, f32(amax), form, margin)
            kept, changed = kept + (scale == old[1]), changed + (scale != old[1])
            if found["h%d" % case] != history or found["s%d" % case] != [scale]:
                sys.exit("step %d, amax %r, case %s: found %r and %r, expected %r and %r" % (
                    at + 1, amax, CASES[case], found["h%d" % case], found["s%d" % case], history, scale))  # fmt: skip
    if min(kept, changed) < 20:
        sys.exit("the script tests little: %d scales kept, %d changed" % (kept, changed))
    print("%d steps: %d scales kept, %d changed" % (len(SCRIPT), kept, changed))


main()
