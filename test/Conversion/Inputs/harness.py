# ===- harness.py - runs functions on tensors, compared with PyTorch --------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles a module of test functions with upstream's passes and calls them.

The passes under test make linalg on tensors; what follows is upstream's (loops,
no vectors), so that what is tested is what the passes under test wrote. Kernels
are run in tensor form: a launch is a call.

Tolerance: expectations are computed in f64. A result may differ by the rounding
of its own type, and by that of the type that sums are taken in (f32 for narrow
ones) once for each element of the longest sum and a few operations more.
"""

import ctypes
import os
import re
import shutil
import subprocess
import torch

NAMES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16",
         torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
         torch.bool: "i1"}

LOWERING = """
one-shot-bufferize{bufferize-function-boundaries=true
 function-boundary-type-conversion=identity-layout-map},
canonicalize,
convert-linalg-to-loops,expand-strided-metadata,lower-affine,
func.func(arith-expand{include-bf16=true}),
convert-math-to-libm,convert-math-to-llvm,convert-scf-to-cf,
finalize-memref-to-llvm,convert-to-llvm,
reconcile-unrealized-casts"""


def type_of(tensor):
    dims = "".join("%dx" % n for n in tensor.shape)
    return "tensor<%s%s>" % (dims, NAMES[tensor.dtype])


class Case:
    """One function. `body` uses %0, %1, … for the inputs and ends with the
    names of its results after `return`; `expected` are tensors of the types of
    the results, computed in f64 and not yet rounded."""

    def __init__(self, name, inputs, body, expected, types=None, length=1):
        # No name of libm: LLVM knows what those do.
        self.name, self.inputs, self.body = "test_" + name, inputs, body
        self.expected, self.length = expected, length
        self.types = types or [inputs[0].dtype] * len(expected)

    def text(self):
        """The function; results go into buffers that further arguments name."""
        outs = [type_of(torch.empty(e.shape, dtype=t))
                for e, t in zip(self.expected, self.types)]
        arguments = ["%%%d: %s" % (i, type_of(t)) for i, t in enumerate(self.inputs)]
        arguments += ["%%out%d: %s" % (i, t.replace("tensor", "memref"))
                      for i, t in enumerate(outs)]
        body, values = self.body.rsplit("return", 1)
        stores = ["bufferization.materialize_in_destination %s in restrict writable "
                  "%%out%d : (%s, %s) -> ()" % (v.strip(), i, t, t.replace("tensor", "memref"))
                  for i, (v, t) in enumerate(zip(values.split(","), outs))]
        return ("func.func @%s(%s) attributes {llvm.emit_c_interface} {\n%s\n%s\n"
                "return\n}\n" % (self.name, ", ".join(arguments), body,
                                 "\n".join(stores)))


def run(command, text):
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode:
        raise SystemExit("%s failed:\n%s" % (command[0], result.stderr[:4000]))
    return result.stdout


def launches_to_calls(text):
    """Kernels return their results, so a launch is a call of its kernel."""
    pattern = re.compile(
        r"mprt\.launch (@\w+) (?:ins\((.*?) : (.*?)\) )?outs\((.*?) : (.*?)\) "
        r"-> \((.*)\)")

    def call(m):
        values = ", ".join(v for v in (m[2], m[4]) if v)
        types = ", ".join(t for t in (m[3], m[5]) if t)
        return "func.call %s(%s) : (%s) -> (%s)" % (m[1], values, types, m[6])

    text = pattern.sub(call, text)
    assert "mprt.launch" not in text, "a launch that is no call"
    return text


def compile(cases, passes, out, cc="cc"):
    text = "\n".join(case.text() for case in cases)
    with open(out + ".mlir", "w", encoding="ascii") as file:
        file.write(text)
    text = run(["mpcomm-opt"] + passes, text)
    with open(out + ".passes.mlir", "w", encoding="ascii") as file:
        file.write(text)
    if "--mpcomm-form-kernels" in passes:
        text = launches_to_calls(text)
    pipeline = "builtin.module(%s)" % LOWERING.replace("\n", "")
    text = run(["mpcomm-opt", "--pass-pipeline=" + pipeline], text)
    text = run(["mlir-translate", "--mlir-to-llvmir"], text)
    run(["llc", "-O1", "-relocation-model=pic", "-filetype=obj", "-o",
         out + ".o"], text)
    # Copies of strided buffers are calls of the runner's library.
    library = os.path.join(os.path.dirname(os.path.realpath(shutil.which("llc"))),
                           "..", "lib")
    run([cc, "-shared", "-o", out + ".so", out + ".o", "-L" + library,
         "-lmlir_c_runner_utils", "-Wl,-rpath," + library, "-lm"], "")
    return ctypes.CDLL(os.path.abspath(out + ".so"))


def descriptor(tensor):
    """The memref of a contiguous tensor."""
    rank = tensor.dim()

    class Memref(ctypes.Structure):
        _fields_ = [("allocated", ctypes.c_void_p),
                    ("aligned", ctypes.c_void_p), ("offset", ctypes.c_int64)]
        if rank:
            _fields_ += [("sizes", ctypes.c_int64 * rank),
                         ("strides", ctypes.c_int64 * rank)]

    memref = Memref(tensor.data_ptr(), tensor.data_ptr(), 0)
    if rank:
        memref.sizes[:] = list(tensor.shape)
        memref.strides[:] = list(tensor.stride())
    return ctypes.byref(memref)


def call(library, case):
    inputs = [t.clone().contiguous() for t in case.inputs]
    # Poison: an output that is not written shows.
    outs = [torch.full(e.shape, 113).to(t) for e, t in
            zip(case.expected, case.types)]
    tensors = inputs + outs
    getattr(library, "_mlir_ciface_" + case.name)(*map(descriptor, tensors))
    return outs


def difference(case, outs):
    """What is wrong with the results; empty if nothing."""
    for i, (out, want, dtype) in enumerate(
            zip(outs, case.expected, case.types)):
        if not dtype.is_floating_point:
            if not torch.equal(out, want.to(dtype)):
                return "result %d is\n%s\nnot\n%s" % (i, out, want)
            continue
        inner = wide(dtype)
        finite = want[torch.isfinite(want)].abs()
        scale = finite.max().item() if finite.numel() else 0.0
        own = torch.finfo(dtype).eps if inner != dtype else 0.0
        sums = torch.finfo(inner).eps * (case.length + 16)
        subnormal = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
        tolerance = (own + sums) * scale + subnormal
        got = out.double()
        bad = (torch.isnan(got) != torch.isnan(want))
        both = ~torch.isnan(got) & ~torch.isnan(want)
        error = torch.where(both & (got != want), (got - want).abs(),
                            torch.zeros_like(want))
        error[torch.isnan(error)] = float("inf")
        if bad.any() or (error > tolerance).any():
            return ("result %d differs by %g (tolerance %g)\ngot\n%s\nexpected"
                    "\n%s" % (i, error.max().item() if error.numel() else 0,
                              tolerance, out, want))
    return ""


def wide(dtype):
    """The type in which values of `dtype` are summed."""
    return torch.float32 if torch.finfo(dtype).bits < 32 else dtype


def check(cases, passes, out, cc="cc"):
    """Runs all cases; prints one line a failure, and the number that passed."""
    library = compile(cases, passes, out, cc)
    failures = 0
    for case in cases:
        wrong = difference(case, call(library, case))
        if wrong:
            failures += 1
            print("FAILED %s: %s" % (case.name, wrong))
    print("%d of %d cases agree with PyTorch" % (len(cases) - failures,
                                                 len(cases)))
    return failures
