# ===- emulation.py - programs for a GPU on the fake driver ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Compiles a training graph for cuda with its kernels as code for the host, which
the fake CUDA driver runs thread by thread (test/lib/FakeCuda/README.md)."""

import os
import shutil
import subprocess
import sys


def find_tool(name):
    return shutil.which(name + "-22") or name


def call(command, data=None):
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit("%s\nfailed with status %d:\n%s"
                 % (" ".join(command), done.returncode, done.stderr.decode()[-4000:]))  # fmt: skip
    return done.stdout


class Emulator:
    def __init__(self, opt, cc, fakes, folder):
        """`fakes`: the folder of the fake libraries."""
        self.opt, self.cc, self.folder = opt, cc, folder
        self.environment = {
            "MPRT_CUDA_LIBRARY": os.path.join(fakes, "libcuda.so.1"),
            "MPRT_CUBLASLT_LIBRARY": os.path.join(fakes, "libcublasLt.so"),
            "MPRT_CUDNN_LIBRARY": os.path.join(fakes, "libcudnn.so"),
        }
        os.makedirs(folder, exist_ok=True)

    def link(self, text, output, optimize="-O1"):
        """LLVM dialect to a shared object."""
        ir = call([find_tool("mlir-translate"), "--mlir-to-llvmir"], text)
        call([self.cc, optimize, "-w", "-march=native", "-fPIC", "-shared", "-x", "ir", "-", "-o", output, "-lm"], ir)

    def compile(self, source, name, options=""):
        """The program file of a graph, with `options` of the pipelines."""
        path = os.path.join(self.folder, name)
        graph = call([self.opt, source, "--mpcomm-graph=target=cuda " + options,
                      "--mpcomm-lower", "--mpcomm-generate-gpu-kernels=processors=3",
                      "--convert-mprt-to-llvm=device=cuda"])  # fmt: skip
        kernels = call([self.opt, "--test-mpcomm-emulate-gpu", "--mpcomm-kernels-to-llvm"], graph)
        self.link(kernels, path + ".image.so")
        host = call([self.opt, "--test-mpcomm-embed-image=file=%s.image.so" % path], graph)
        self.link(host, path + ".so")
        return path + ".so"
