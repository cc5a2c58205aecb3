# ===- fake_driver.py - the fake CUDA driver from Python -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Calls the driver of test/lib/FakeCuda, on the null stream of one device."""

import ctypes


class Driver:
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

    def launch(self, module, name, threads, blocks, operands):
        """`operands`: c_uint64, addresses on the device."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        pointers = (ctypes.c_void_p * len(operands))(*[ctypes.addressof(p) for p in operands])
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
