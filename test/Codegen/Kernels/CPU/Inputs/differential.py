# ===- differential.py - two ways from kernels to code -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles each kernel of a module (as mpcomm-form-kernels prints it) twice, by
mpcomm-generate-kernels and by upstream's bufferization and loops, and compares
what the two compute from the same random operands.

  differential.py <mpcomm-opt> <clang> <module.mlir> [options of the pass]
"""

import ctypes
import os
import re
import subprocess
import sys

import numpy as np

from kernel_builder import NUMPY, Tools, from_bf16, to_bf16

PLAIN = (
    "builtin.module(inline,canonicalize,"
    "one-shot-bufferize{allow-return-allocs-from-loops=1},"
    "convert-bufferization-to-memref,"
    "func.func(convert-linalg-to-loops),expand-strided-metadata,lower-affine,"
    "convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,"
    "convert-arith-to-llvm,convert-index-to-llvm,finalize-memref-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},convert-cf-to-llvm,"
    "reconcile-unrealized-casts)"
)


def parse(text):
    """The kernels: name, types of arguments, number of results, text."""
    pattern = re.compile(
        r"^ *func\.func private @(\w+)\((.*?)\)(?: -> (.*?))? attributes \{([^\n]*mpcomm\.kernel[^\n]*)\} \{\n.*?^( {2}|)\}\n",
        re.S | re.M,
    )
    for match in pattern.finditer(text):
        arguments = re.findall(r"tensor<([^>]*)>", match.group(2))
        results = re.findall(r"tensor<[^>]*>", match.group(3))
        types = []
        for argument in arguments:
            *shape, dtype = argument.split("x")
            types.append(([int(n) for n in shape], dtype))
        yield match.group(1), types, len(results), match.group(0)


def buffer(shape, dtype):
    return "memref<%s>" % "x".join([str(n) for n in shape] + [dtype])


def launches(kernels):
    """A function that launches each kernel on buffers of its own."""
    text = ""
    for name, types, results, _ in kernels:
        count = len(types) - results
        parameters = ["%%a%d: %s" % (i, buffer(*t)) for i, t in enumerate(types)]

        def group(begin, end):
            return "(%s : %s)" % (
                ", ".join("%%a%d" % i for i in range(begin, end)),
                ", ".join(buffer(*t) for t in types[begin:end]),
            )

        text += "func.func @call_%s(%s) {\n  mprt.launch @%s %souts%s\n  return\n}\n" % (
            name, ", ".join(parameters), name,
            "ins%s " % group(0, count) if count else "", group(count, len(types)))
    return text


def plain(kernels):
    """A function per kernel on buffers, which calls it on tensors."""
    text = ""
    for name, types, results, body in kernels:
        count = len(types) - results
        tensors = ["tensor" + buffer(*t)[6:] for t in types]
        text += body
        text += "func.func @plain_%s(%s) {\n" % (
            name, ", ".join("%%a%d: %s" % (i, buffer(*t)) for i, t in enumerate(types)))
        for i, t in enumerate(types):
            text += "  %%t%d = bufferization.to_tensor %%a%d restrict writable : %s to %s\n" % (
                i, i, buffer(*t), tensors[i])
        text += "  %%r:%d = call @%s(%s) : (%s) -> (%s)\n" % (
            results, name, ", ".join("%%t%d" % i for i in range(len(types))),
            ", ".join(tensors), ", ".join(tensors[count:]))
        for i in range(results):
            text += ("  bufferization.materialize_in_destination %%r#%d in restrict writable %%a%d : (%s, %s) -> ()\n"
                     % (i, count + i, tensors[count + i], buffer(*types[count + i])))
        text += "  return\n}\n"
    return text


def library(tools, lowered, name):
    ir = tools.run([tools.translate, "--mlir-to-llvmir"], lowered)
    path = os.path.join(tools.folder, name)
    with open(path + ".ll", "w") as file:
        file.write(ir)
    # Debian's libgcc has no function that rounds to bf16, LLVM's library has one.
    builtins = tools.run([tools.clang, "--rtlib=compiler-rt", "--print-libgcc-file-name"], "").strip()
    subprocess.run(
        [tools.clang, "-O2", "-march=native", "-Wno-override-module", "-shared", "-fPIC",
         path + ".ll", "-o", path + ".so", builtins, "-lm"], check=True)
    return ctypes.CDLL(path + ".so")


def operand(random, shape, dtype):
    if dtype == "i1":
        return random.integers(0, 2, shape).astype(np.uint8)
    if dtype in ("i8", "i32", "i64"):
        return random.integers(0, 8, shape).astype(NUMPY[dtype])
    values = 0.2 + np.abs(random.standard_normal(shape)).astype(np.float32)
    return to_bf16(values).reshape(shape) if dtype == "bf16" else values.astype(NUMPY[dtype])


def main():
    opt, clang, path = sys.argv[1:4]
    options = sys.argv[4] if len(sys.argv) > 4 else ""
    tools = Tools(opt=opt, clang=clang)
    with open(path) as file:
        text = file.read()
    # Upstream has no way for scatters: Integration/Random tries them.
    kernels = [k for k in parse(text) if "mprt.scatter" not in k[3]]
    aliases = "".join(re.findall(r"^#.*\n", text, re.M))
    if not kernels:
        sys.exit("no kernel in " + path)
    generated = tools.generate(aliases + "".join(k[3] for k in kernels) + launches(kernels), options)
    generated = re.sub(r"  func\.func @call_.*?\n  }\n", "", generated, flags=re.S)
    generated = generated.replace("func.func private @", "func.func @")
    ours = library(tools, tools.run([opt, "--mpcomm-kernels-to-llvm"], generated), "ours")
    theirs = library(
        tools, tools.run([opt, "--pass-pipeline=" + PLAIN], aliases + plain(kernels)), "theirs")
    random = np.random.default_rng(5)
    failed = 0
    for name, types, results, _ in kernels:
        a = [np.array(operand(random, *t), NUMPY[t[1]]) for t in types]
        b = [array.copy() for array in a]
        for lib, function, arrays in ((ours, name, a), (theirs, "plain_" + name, b)):
            getattr(lib, function)(*[ctypes.c_void_p(x.ctypes.data) for x in arrays])
        worst = 0.0
        for (shape, dtype), x, y in zip(types, a, b):
            if dtype == "bf16":
                x, y = from_bf16(x), from_bf16(y)
            x, y = x.astype(np.float64), y.astype(np.float64)
            scale = np.abs(y).max(initial=1e-6)
            error = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y) / scale)
            worst = max(worst, np.nan_to_num(error, nan=np.inf).max(initial=0.0))
        limit = 2e-2 if any(t[1] in ("bf16", "f16") for t in types) else 1e-4
        failed += worst > limit
        print("%s %-60s %.1e" % ("FAIL" if worst > limit else "ok  ", name, worst))
    if failed:
        sys.exit("%d of %d kernels differ" % (failed, len(kernels)))
    print("%d kernels agree" % len(kernels))


if __name__ == "__main__":
    main()
