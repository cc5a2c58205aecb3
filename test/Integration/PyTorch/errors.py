# What a user can get wrong is one message that says where and what was expected;
# the exit status is 1 and no file is left.
#
# REQUIRES: torch
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t

import contextlib
import io
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
import checks

from mpcomm_import import cli
from mpcomm_import.ir.pretty import mapped

os.chdir(sys.argv[1])
MODEL = os.path.join(HERE, "Inputs", "unsupported.py")

# `kind` of Inputs/unsupported.py -> the message, a regular expression.
KINDS = {
    "text": r"tracing stopped in loss: TypeError",
    "pair": r"tracing stopped in loss: TypeError",
    "dynamic": r"unsupported\.py:\d+: tracing stopped in 1, which asks for the value of a tensor; "
               r"control flow and shapes cannot depend on data",
    "branches": r"unsupported\.py:\d+: tracing stopped in 1, which asks for the value of a tensor",
    "repeats": r"unsupported\.py:\d+: tracing stopped in 1, which asks for the value of a tensor",
    "nonzero": r"aten\.index\.Tensor x1 in 1: a mask that depends on the data",
    "unique": r"aten\._unique2 x1 in 1: a result whose shape depends on the data",
    "complex": r"aten\._fft_r2c x1 in 1\n",
    "numpy": r"what forward\(\) computes depends on values that PyTorch does not trace, of numpy\(\)",
    "average": r"forward\(\) reads what the step before left in '1\.mean'; expected state to be in "
               r"buffers",
    "registering": r"forward\(\) registers '1\.shift', expected it to be registered before",
    "factorization": r"1 unsupported operator, 1 use:\n  aten\.linalg_inv_ex x1 in 1",
    "bags": r"1 unsupported operator, 1 use:\n  aten\._embedding_bag x1 in 1: the maximum of bags of several",
    "resized": r"forward\(\) replaces '1\.shift', \(1,\) of torch\.float32, by \(\d+,\) of torch\.float32; "
               r"expected one type: if the first step alone does so, run the model on a batch before the import",
    "sparse": r"aten\._sparse_addmm x1 in 1\n  aten\._?to_sparse x1 in 1",
    "library": r"1 unsupported operator, 1 use:\n  mpcomm_test\.cube x1 in 1",
    "shapes": r"unsupported\.py:\d+: tracing stopped in 1: RuntimeError: mat1 and mat2 shapes",
    "failing": r"unsupported\.py:\d+: tracing stopped in 1: TypeError: unsupported operand",
    "lazy": r"'1\.weight' is not initialized; run the model once before the import",
    "meta": r"expected '1\.weight' on the CPU, found it on meta",
    "turns": r"parameter '1\.weight': no tensors of complex64",
    "quantized": r"the loss does not depend on any parameter",
    "scripted": r"expected a model that runs in Python, found a torch\.jit\.ScriptModule",
    "unnamed": r"expected the loss to return one under the name 'loss', found error",
    "hook": r"parameter '0\.weight' has hooks on its gradient",
    "own step": r"optimizer RMSprop: expected the step\(\) of its class, found one of its own",
    "lossless": r"tracing stopped in unsupported: TypeError: .*unexpected keyword argument 'x'",
    "constant": r"the loss does not depend on any parameter",
    "lbfgs": r"optimizer LBFGS: step\(\) needs a closure",
    "foreign": r"the optimizer has a parameter of shape \(3,\) that is not the model's",
    "ignore:-1:-1": None,
    "ignore:255:3": None,
    "ignore:-100:-100": None,
    "ignore:3:3": None,
    "ignore:-1:-100": r"dataset 'y': expected values in \[0, 10\) or -1 \(ignored\), found -100",
    "ignore:-100:-57": r"dataset 'y': expected values in \[0, 10\) or -100 \(ignored\), found -57",
    "ignore:255:10": r"dataset 'y': expected values in \[0, 10\) or 255 \(ignored\), found 10",
    "embedded": r"dataset 'x': expected values in \[0, 10\), found -100",
    "nanrate": r"optimizer SGD: expected lr to be finite and not negative in group 0, found nan",
    "labels": r"dataset 'y': expected values in \[0, 10\) or -100 \(ignored\), found 10",
    "few": r"dataset: expected at least one batch of 4 samples, found 3",
    "counts": r"dataset: numbers of samples differ: x has 8, y has 5",
    "bytes": r"dataset 'x': no tensors of uint8; convert to float32 or int64",
    "notargets": r"tracing stopped in loss: TypeError",
    "vector": r"expected the loss to be a tensor of one element, found one of shape \(4,\)",
}
# Arguments -> the message.
ARGUMENTS = [
    ([MODEL, "-O", "kind"], r"-O kind: expected NAME=VALUE"),
    ([MODEL, "-O", "size=3"], r"no option 'size'; its options are kind"),
    (["nowhere.py"], r"nowhere\.py: no such file"),
    ([checks.evaluator.__file__], r"evaluator\.py: expected a function `workload`"),
    ([MODEL, "-O", "kind=none", "-o", "no/s.mlir"], r"no/s\.mlir: no such directory"),
    ([MODEL, "-O", "kind=none", "-o", "."], r"\.: is a directory"),
    ([MODEL, "-O", "kind=none", "--eps", "1e-9"], r"SGD has no option eps"),
    ([MODEL, "-O", "kind=none", "--optimizer", "adamw", "--betas", "0.9,1.5"],
     r"optimizer AdamW: Invalid beta"),
    ([MODEL, "-O", "kind=none", "--optimizer", "adamz"],
     r"--optimizer adamz: expected one of adadelta, "),
    ([MODEL, "-O", "kind=none", "--optimizer", "rmsprop", "--optimizer-option", "alpha=x"],
     r"option alpha: expected a number, found 'x'"),
    ([MODEL, "-O", "kind=none", "--lr", "nan"],
     r"optimizer SGD: expected lr to be finite and not negative in group 0, found nan"),
    ([MODEL, "-O", "kind=none", "--lr=-1"],
     r"optimizer SGD: expected lr to be finite and not negative in group 0, found -1\.0"),
    ([MODEL, "-O", "kind=none", "--weight-decay", "inf"],
     r"optimizer SGD: expected weight_decay to be finite"),
    ([MODEL, "-O", "kind=none", "-o", "a", "--weights", "a", "--data", "a"],
     r"--weights a: that is the file of -o"),
    ([MODEL, "-O", "kind=none", "-o", "a", "--data", os.path.join("..", os.path.basename(os.getcwd()), "a")],
     r"--data \S*: that is the file of -o"),
    ([MODEL, "-O", "kind=none", "-o", MODEL], r"-o \S*: that is the file of the model file"),
    ([MODEL, "-O", "kind=none", "--betas", "0.9"], r"--betas: expected two numbers"),
    ([MODEL, "-O", "kind=none", "--batch", "0"], r"expected a batch of at least 1"),
    ([MODEL, "-O", "kind=none", "--eval-data", "e"], r"has no evaluation dataset"),
    ([os.path.join(checks.EXAMPLES, "gpt.py"), "-O", "layers=two"],
     r"option layers: expected a number, found 'two'"),
    ([os.path.join(checks.EXAMPLES, "gpt.py"), "-O", "tied=maybe"],
     r"option tied: expected true or false, found 'maybe'"),
]


def expect(arguments, message):
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        status = cli.main(arguments)
    text = error.getvalue()
    assert status == 1, (arguments, status)
    assert re.match(r"mpcomm-import: error: (.*/|)" + message, text) or \
        re.search(message, text) and "unsupported operator" in text or \
        re.search(r"error: .*" + message, text), (arguments, text)
    assert "Traceback" not in text and text.count("error:") <= 2, text
    assert os.listdir(".") == [], os.listdir(".")


def bring_up(name, text):
    """A model file that lies outside of the folder that stays empty."""
    path = os.path.join(os.path.dirname(os.getcwd()), name)
    with open(path, "w") as file:
        file.write(text)
    return path


for text, message in (
    ("import torch\ndef workload():\n    return torch.nowhere\n",
     r"model\.txt:3: AttributeError: module 'torch' has no attribute 'nowhere'"),
    ("x = [\n1 / 0]\n", r"model\.txt:2: ZeroDivisionError: division by zero"),
    ("def workload(:\n", r"model\.txt:1: SyntaxError: invalid syntax"),
    ("import torch\ndef workload():\n    torch.zeros(2) @ torch.zeros(3)\n",
     r"model\.txt:3: RuntimeError: "),
    ("import mpcomm_import_nowhere\n", r"model\.txt:1: ModuleNotFoundError: "),
):
    expect([bring_up("model.txt", text)], message)
os.unlink("../model.txt")

# Where mpcomm-opt finds fault, see diagnostics.test: an operator of the backward pass has the
# line of the operator it is the gradient of; what is no diagnostic is passed on.
LINES = {"a.b/mm": ["m.py:3"], "a/mul": ["m.py:4", "m.py:6"]}
for given, expected in (("<unknown>:0: error: loc(\"a.b/mm\"): 'x' op y", "m.py:3: a.b/mm: 'x' op y"),
                        ("<unknown>:0: error: loc(\"a.b/mm.grad\"): z", "m.py:3: a.b/mm.grad: z"),
                        ("<unknown>:0: error: loc(\"loss/mm\"): z", "loss/mm: z"),
                        ("<unknown>:0: error: loc(\"a/mul\"): z", "m.py:4 or m.py:6: a/mul: z"),
                        ("Stack dump:", "Stack dump:")):
    assert mapped(given, LINES) == expected, (given, mapped(given, LINES))

for kind, message in KINDS.items():
    if message is None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert cli.main([MODEL, "-O", "kind=" + kind]) == 0, kind
        ignore = int(kind.split(":")[1])
        low, high = min(0, ignore), max(10, ignore + 1)
        assert f"mpcomm.range = array<i64: {low}, {high}>" in out.getvalue(), kind
        continue
    expect([MODEL, "-O", "kind=" + kind, "-o", "s.mlir", "--weights", "w", "--data", "d"],
           message)
for arguments, message in ARGUMENTS:
    expect(arguments, message)
