# Malformed and ill-fitting inputs: each ends within 20 seconds with an error
# that names a place, exit status 1, and no file left.
#
# REQUIRES: compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %mpcomm-compile %mpcomm_src_root/docs/examples/linear.mlir %t
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Edits of a good training step, each wrong in one way."""

import os
import subprocess
import sys

compiler, source, folder = sys.argv[1:4]
with open(source) as file:
    good = file.read()


def edit(old, new):
    """The good step with one piece of text exchanged."""
    assert old in good, old
    return good.replace(old, new, 1)


STEP = "func.func @train_step("
CASES = {
    "empty": ("", "train_step"),
    "binary": ("\x01\x02\x03\x04" * 64, "error:"),
    "truncated": (good[: len(good) // 2], "error:"),
    "unbalanced": (good + "}", "error:"),
    "unknown-dialect": (edit("arith.subf", "nosuch.subf"), "error:"),
    "unknown-op": (edit("mpcomm.dot_general", "mpcomm.dot_generals"), "error:"),
    "undefined-value": (edit("%x, %w, contracting", "%x, %nope, contracting"), "error:"),
    "redefined-value": (edit("%bs = ", "%xw = "), "redefinition"),
    "wrong-operand-type": (edit("%e = arith.subf %p, %y : tensor<8x2xf32>", "%e = arith.subf %p, %x : tensor<8x2xf32>"), "error:"),
    "wrong-result-type": (edit("-> tensor<8x2xf32>\n    %bs", "-> tensor<8x3xf32>\n    %bs"), "error:"),
    "bad-contracting-dim": (edit("contracting_dims = [1] x [0]", "contracting_dims = [7] x [0]"), "dimension 7"),
    "bad-reduce-dim": (edit("dims = [0, 1]", "dims = [0, 9]"), "dims"),
    "unknown-role": (edit("#mpcomm.role<parameter>", "#mpcomm.role<emperor>"), "error:"),
    "role-of-wrong-kind": (edit("#mpcomm.role<parameter>", '"parameter"'), "mpcomm.role"),
    "missing-role": (edit("mpcomm.role = #mpcomm.role<batch>, ", ""), "role"),
    "missing-name": (edit(', mpcomm.name = "x"', ""), "name"),
    "donated-out-of-range": (edit("mpcomm.donated = 1 : i64", "mpcomm.donated = 99 : i64"), "mpcomm.donated"),
    "donated-twice": (edit("mpcomm.donated = 2 : i64", "mpcomm.donated = 1 : i64"), "error:"),
    "donated-as-text": (edit("mpcomm.donated = 1 : i64", 'mpcomm.donated = "one"'), "mpcomm.donated"),
    "unknown-attribute": (edit("mpcomm.donated = 1 : i64", "mpcomm.lent = 1 : i64"), "mpcomm.lent"),
    "no-train-step": (edit(STEP, "func.func @step("), "train_step"),
    "two-train-steps": (edit("module @linear {", "module @linear {\n  func.func @train_step() { return }"), "redefinition"),
    "dynamic-shape": ("func.func @train_step(%x: tensor<?x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = \"x\"}) { return }", "static"),
    "not-a-tensor": ("func.func @train_step(%x: f32) { return }", "error:"),
    "negative-size": (edit("tensor<4x2xf32>", "tensor<-4x2xf32>"), "error:"),
    "huge-size": (edit("tensor<4x2xf32>", "tensor<99999999999999999999x2xf32>"), "error:"),
    "not-pure": ("func.func @train_step() { %a = memref.alloc() : memref<4xf32>\n return }", "error:"),
    "external": ("func.func private @train_step()", "train_step"),
    "deep": ("module {" * 500, "error:"),
}

failed = 0
for name, (text, expected) in CASES.items():
    path = os.path.join(folder, name + ".mlir")
    output = os.path.join(folder, name + ".so")
    with open(path, "w") as file:
        file.write(text)
    try:
        run = subprocess.run(
            [compiler, path, "-o", output], capture_output=True, text=True,
            timeout=20, stdin=subprocess.DEVNULL, errors="replace",
        )
    except subprocess.TimeoutExpired:
        print("%s: did not end" % name)
        failed += 1
        continue
    left = [f for f in os.listdir(folder) if not f.endswith(".mlir")]
    wrong = []
    if run.returncode != 1:
        wrong.append("exit status %d" % run.returncode)
    if "error:" not in run.stderr or expected not in run.stderr:
        wrong.append("no '%s' in: %s" % (expected, run.stderr[-300:]))
    if left:
        wrong.append("left %s" % left)
    if wrong:
        print("%s: %s" % (name, "; ".join(wrong)))
        failed += 1
print("%d of %d refused as they should be" % (len(CASES) - failed, len(CASES)))
sys.exit(failed != 0)
