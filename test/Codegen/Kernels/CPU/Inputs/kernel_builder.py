# ===- kernel_builder.py - kernels in tensor form, and their code --------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Writes kernels as mpcomm-form-kernels makes them, compiles them with
mpcomm-opt and clang, and calls them on numpy arrays."""

import ctypes
import os
import re
import subprocess
import tempfile

import numpy as np

NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": np.uint16,
    "i1": np.uint8,
    "i8": np.int8,
    "f8E4M3FN": np.uint8,
    "f8E5M2": np.uint8,
    "i32": np.int32,
    "i64": np.int64,
}


def to_bf16(array):
    """Nearest bf16 (ties to even) of f32, as its bits."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return np.asarray(bits.astype(np.uint32) << 16, np.uint32).view(np.float32)


class Kernel:
    """A kernel function under construction: inputs and destinations by name,
    then generics; `result` says what goes to which destination."""

    def __init__(self, name):
        self.name = name
        self.inputs, self.outputs, self.lines, self.results = [], [], [], {}
        self.layouts = {}
        self.counter = 0

    def input(self, name, shape, dtype="f32", layout=None):
        self.inputs.append((name, list(shape), dtype))
        self.layouts[name] = layout
        return name

    def output(self, name, shape, dtype="f32", layout=None):
        self.outputs.append((name, list(shape), dtype))
        self.layouts[name] = layout
        return name

    @staticmethod
    def tensor(shape, dtype):
        return "tensor<%s>" % "x".join([str(n) for n in shape] + [dtype])

    def type_of(self, name):
        for known, shape, dtype in self.inputs + self.outputs:
            if known == name:
                return shape, dtype
        return self.results[name]

    def fresh(self, shape, dtype):
        self.counter += 1
        name = "t%d" % self.counter
        self.results[name] = (list(shape), dtype)
        return name

    def empty(self, shape, dtype="f32"):
        name = self.fresh(shape, dtype)
        self.lines.append("%%%s = tensor.empty() : %s" % (name, self.tensor(shape, dtype)))
        return name

    def fill(self, value, target):
        shape, dtype = self.type_of(target)
        name = self.fresh(shape, dtype)
        self.lines.append("%%c_%s = arith.constant %s : %s" % (name, value, dtype))
        self.lines.append(
            "%%%s = linalg.fill ins(%%c_%s : %s) outs(%%%s : %s) -> %s"
            % ((name, name, dtype, target) + (self.tensor(shape, dtype),) * 2)
        )
        return name

    def generic(self, loops, ins, outs, body):
        """`loops`: e.g. "pr". `ins`, `outs`: pairs of a name and a map such as
        "d0, d1". `body`: text with {0}.. for operands, {o0}.. for outputs, and
        a last line `yield ...`. Returns the results' names."""
        dims = ", ".join("d%d" % i for i in range(len(loops)))
        maps = ", ".join(
            "affine_map<(%s) -> (%s)>" % (dims, indices) for _, indices in ins + outs
        )
        iterators = ", ".join(
            '"parallel"' if kind == "p" else '"reduction"' for kind in loops
        )
        types = [self.type_of(name) for name, _ in ins + outs]
        results = [self.fresh(*self.type_of(name)) for name, _ in outs]
        prefix = "b%d_" % self.counter
        names = {str(i): "%%%sa%d" % (prefix, i) for i in range(len(ins))}
        names.update({"o%d" % i: "%%%so%d" % (prefix, i) for i in range(len(outs))})
        arguments = [names[str(i)] for i in range(len(ins))]
        arguments += [names["o%d" % i] for i in range(len(outs))]

        def list_of(group):
            return "%s : %s" % (
                ", ".join("%" + name for name, _ in group),
                ", ".join(self.tensor(*self.type_of(name)) for name, _ in group),
            )

        body = re.sub(r"\{(o?\d+)\}", lambda m: names[m.group(1)], body)
        body = re.sub(r"%(?!b\d+_)(\w+)", r"%" + prefix + r"\1", body)
        body = body.replace("yield", "linalg.yield")
        self.lines.append(
            "%s = linalg.generic {indexing_maps = [%s], iterator_types = [%s]}%s outs(%s) {\n"
            "  ^bb0(%s):\n%s\n  } -> %s"
            % (
                ", ".join("%" + name for name in results),
                maps,
                iterators,
                " ins(%s)" % list_of(ins) if ins else "",
                list_of(outs),
                ", ".join(
                    "%s: %s" % (a, t[1]) for a, t in zip(arguments, types)
                ),
                "\n".join("    " + line.strip() for line in body.strip().splitlines()),
                "(%s)" % ", ".join(self.tensor(*self.type_of(n)) for n, _ in outs)
                if len(outs) > 1
                else self.tensor(*self.type_of(outs[0][0])),
            )
        )
        return results if len(results) > 1 else results[0]

    def scatter(self, kind, updates, indices, target, dim=0, batch_dims=0, more=""):
        """An mprt.scatter; `more`: "clamp skipped = 3"."""
        (u, of), (i, index), (shape, _) = map(self.type_of, (updates, indices, target))
        name = self.fresh(shape, of)
        self.lines.append(
            '%%%s = mprt.scatter "%s" dim = %d batch_dims = %d %s ins(%%%s, %%%s : %s, %s) outs(%%%s : %s)'
            % (name, kind, dim, batch_dims, more, updates, indices, self.tensor(u, of),
               self.tensor(i, index), target, self.tensor(shape, of)))
        return name

    def module(self, returned, attributes="mpcomm.kernel"):
        """The module: the kernel and one launch of it."""
        every = self.inputs + self.outputs
        types = [self.tensor(shape, dtype) for _, shape, dtype in self.outputs]
        text = "func.func private @%s(%s) -> (%s) attributes {%s} {\n" % (
            self.name,
            ", ".join("%%%s: %s" % (n, self.tensor(s, d)) for n, s, d in every),
            ", ".join(types),
            attributes,
        )
        text += "".join("  %s\n" % line for line in self.lines)
        text += "  return %s : %s\n}\n" % (
            ", ".join("%" + name for name in returned),
            ", ".join(types),
        )

        def memref(name, shape, dtype):
            layout = self.layouts[name]
            return "memref<%s%s>" % (
                "x".join([str(n) for n in shape] + [dtype]),
                ", strided<%s, offset: ?>" % list(layout) if layout else "",
            )

        buffers = [memref(*argument) for argument in every]
        text += "func.func @caller(%s) {\n" % ", ".join(
            "%%a%d: %s" % pair for pair in enumerate(buffers)
        )
        count = len(self.inputs)
        text += "  mprt.launch @%s %souts(%s : %s)\n  return\n}\n" % (
            self.name,
            "ins(%s : %s) "
            % (
                ", ".join("%%a%d" % i for i in range(count)),
                ", ".join(buffers[:count]),
            )
            if count
            else "",
            ", ".join("%%a%d" % i for i in range(count, len(every))),
            ", ".join(buffers[count:]),
        )
        return text


class Tools:
    """mpcomm-opt and LLVM's tools, by name or path."""

    def __init__(self, opt="mpcomm-opt", translate="mlir-translate", clang="clang"):
        self.opt, self.translate, self.clang = opt, translate, clang
        self.folder = tempfile.mkdtemp(prefix="kernels-")
        self.count = 0

    def run(self, command, text):
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, check=False
        )
        if done.returncode != 0:
            path = os.path.join(self.folder, "failed.mlir")
            with open(path, "w") as file:
                file.write(text)
            raise RuntimeError(
                "%s < %s failed:\n%s" % (" ".join(command), path, done.stderr.decode()[:4000])
            )
        return done.stdout.decode()

    def generate(self, text, options=""):
        return self.run(
            [self.opt, "--pass-pipeline=builtin.module(mpcomm-generate-kernels{%s})" % options],
            text,
        )

    def compile(self, kernel, returned, options="", attributes="mpcomm.kernel", fused=False):
        """A function that takes numpy arrays, one an operand, in order. `fused`: which products and
        sums are rounded at once is decided as in a program."""
        text = self.generate(kernel.module(returned, attributes), options)
        if fused:
            text = self.run([self.opt, "--mpcomm-fuse-multiply-adds"], text)
        text = re.sub(r"  func.func @caller\(.*?\n  }\n", "", text, flags=re.S)
        text = text.replace("func.func private @" + kernel.name, "func.func @" + kernel.name)
        lowered = self.run([self.opt, "--mpcomm-kernels-to-llvm"], text)
        ir = self.run([self.translate, "--mlir-to-llvmir"], lowered)
        self.count += 1
        path = os.path.join(self.folder, "%s-%d" % (kernel.name, self.count))
        with open(path + ".ll", "w") as file:
            file.write(ir)
        subprocess.run(
            [self.clang, "-O2", "-march=native", "-Wno-override-module", "-shared",
             "-fPIC", path + ".ll", "-o", path + ".so", "-lm"],
            check=True,
        )
        function = getattr(ctypes.CDLL(path + ".so"), kernel.name)
        function.restype = None

        def call(*arrays):
            function(*[ctypes.c_void_p(array.ctypes.data) for array in arrays])

        call.path = path
        call.function = function
        return call
