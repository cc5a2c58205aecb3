# ===- emulation.py - programs for a GPU on the fake driver --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles a training graph for cuda with its kernels as code for the host, which
the fake CUDA driver runs thread by thread (test/lib/FakeCuda/README.md), or launches such
kernels alone.

With "pack" in place of the folder of the fake libraries, kernels that are launched alone are
left in the folder as code for the chip; with "device", those are run, on a GPU, where no compiler
is needed."""

import ctypes
import os
import re
import shutil
import subprocess
import sys

from programs import call, link

# The last phase of the compiler as it lists its passes: those that make kernels, those
# that make them PTX, and the one that assembles it.
TO_CUDA = re.compile(r"""^builtin\.module\(
((?:  .*\n)+?.*),
  gpu\.module\(
(?:    .*\n)+  \),
  mpcomm-assemble-kernels\b.*
\)$""", re.M)  # fmt: skip


MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # of CUfunction_attribute


class Emulator:
    def __init__(self, opt, cc, fakes, folder):
        """`fakes`: the folder of the fake libraries, "pack" or "device"."""
        self.opt, self.cc, self.folder = opt, cc, folder
        self.packs, self.is_real = fakes == "pack", fakes == "device"
        self.environment = {} if self.is_real else {
            "MPRT_CUDA_LIBRARY": os.path.join(fakes, "libcuda.so.1"),
            "MPRT_CUBLASLT_LIBRARY": os.path.join(fakes, "libcublasLt.so"),
            "MPRT_CUDNN_LIBRARY": os.path.join(fakes, "libcudnn.so"),
        }
        os.makedirs(folder, exist_ok=True)

    def link(self, text, output):
        link(self.cc, text, output)

    def image(self, generated, output):
        """What the fake driver loads, of a program whose kernels are those of a GPU."""
        self.link(call([self.opt, "--test-mpcomm-emulate-gpu", "--mpcomm-kernels-to-llvm"], generated), output)

    def generate(self, text, output, *passes, processors=3, chip="sm_90", shared=0):
        """The image of launches alone, with the code of a chip; returns what it is made from."""
        if self.is_real:
            with open(output + ".mlir") as file:
                return file.read()
        options = "processors=%d warpgroups=%d launch-shared=%d" % (processors, chip == "sm_90a", shared)
        generated = call([self.opt, "--mpcomm-generate-gpu-kernels=" + options, *passes], text.encode())
        if self.packs:
            call([self.opt, "--mpcomm-gpu-kernels-to-nvvm", "-o", os.devnull,
                  "--mpcomm-assemble-kernels=chip=%s ptxas=none ptx-directory=%s" % (chip, self.folder)], generated)  # fmt: skip
            path = ":".join([os.environ.get("PATH", ""), os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin"])
            call([shutil.which("ptxas", path=path) or "ptxas", "-arch=" + chip, os.path.join(self.folder, chip + ".ptx"), "-o", output])
            with open(output + ".mlir", "wb") as file:
                file.write(generated)
        else:
            self.image(generated, output)
        return generated.decode()

    def driver(self):
        """What runs images; nothing where they are packed."""
        return None if self.packs else Driver("libcuda.so.1" if self.is_real else self.environment["MPRT_CUDA_LIBRARY"])

    def passes(self, options, graph=True):
        """The passes of target cuda up to where kernels become PTX, for a GPU of 3 processors;
        not `graph`: from a scheduled rank program."""
        options = "target=cuda " + options
        done = subprocess.run([self.opt, os.devnull, "--mpcomm-to-cuda=" + options, "--dump-pass-pipeline"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
        kept = TO_CUDA.search(done.stderr)
        if done.returncode or not kept:
            sys.exit("expected mpcomm-to-cuda to end with passes of gpu.module and mpcomm-assemble-kernels:\n" + done.stderr)
        passes = re.sub(r"\bprocessors=\d+", "processors=3", kept[1])
        first = "mpcomm-graph{%s}," % options if graph else ""
        return "builtin.module(%smpcomm-lower{%s},%s)" % (first, options, passes)

    def compile(self, source, name, options="", graph=True):
        """The program file of a graph, or of a rank program, with `options` of the pipelines."""
        path = os.path.join(self.folder, name)
        graph = call([self.opt, source, "--pass-pipeline=" + self.passes(options, graph)])
        self.image(graph, path + ".image.so")
        host = call([self.opt, "--test-mpcomm-embed-image=file=%s.image.so" % path], graph)
        self.link(host, path + ".so")
        return path + ".so"


class Driver:
    """The CUDA driver, or the fake one, on the null stream of one device."""

    def __init__(self, path):
        self.cuda = ctypes.CDLL(path)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError("%s: error %d" % (name, status))

    def load(self, path):
        module = ctypes.c_void_p()
        with open(path, "rb") as file:
            self.image = file.read()
        self.call("cuModuleLoadData", ctypes.byref(module), self.image)
        return module

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
        return pointer

    def launch(self, module, name, threads, blocks, operands, shared=0):
        """`operands`: c_uint64, addresses on the device."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        pointers = (ctypes.c_void_p * len(operands))(*[ctypes.addressof(p) for p in operands])
        if shared:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared, None, pointers, None)

    def run(self, module, launches, arrays):
        """Launches of (name, threads, blocks, bytes of scratch, bytes of shared memory) on copies of arrays."""
        buffers = [self.allocate(a.nbytes) for a, _ in arrays]
        for pointer, (array, _) in zip(buffers, arrays):
            if array.nbytes:
                self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p),
                          ctypes.c_size_t(array.nbytes))
        places = [ctypes.c_uint64(p.value + o * a.itemsize) for p, (a, o) in zip(buffers, arrays)]
        # Scratch is shared by the launches of a kernel.
        scratch = self.allocate(max([l[3] for l in launches] + [1]))
        for name, threads, blocks, size, shared in launches:
            self.launch(module, name, threads, blocks, places + ([scratch] if size else []), shared)
        self.call("cuCtxSynchronize")
        for pointer, (array, _) in zip(buffers, arrays):
            if array.nbytes:
                self.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), pointer,
                          ctypes.c_size_t(array.nbytes))
        for pointer in buffers + [scratch]:
            self.call("cuMemFree_v2", pointer)


def launches_of(text, rng):
    """By caller: launches in order. A grid that may have any size gets one."""
    grids = {}
    for name, threads, blocks, grid_stride, scratch, _, shared in re.findall(
            r"func\.func private @(\w+)\(.*?threads = (\d+), blocks = (\d+), grid_stride = (\w+), scratch = (\d+)>"
            r"(.*?mprt\.shared_bytes = (\d+))?", text):
        blocks = int(blocks)
        if grid_stride == "true" and rng.random() < 0.5:
            blocks = rng.randint(1, min(blocks, 50))
        grids[name] = (name, int(threads), blocks, int(scratch), int(shared or 0))
    return {caller: [grids[name] for name in re.findall(r"mprt\.launch @(\w+)", body)]
            for caller, body in re.findall(r"func\.func @call_(\w+)\(.*?\{\n(.*?)\n  }\n", text, re.S)}
