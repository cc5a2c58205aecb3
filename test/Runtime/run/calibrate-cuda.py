# RUN: env MPRT_CUDA_LIBRARY=%mpcomm_obj_root/test/lib/FakeCuda/libcuda.so.1 \
# RUN:   MPRT_CUBLASLT_LIBRARY=%mpcomm_obj_root/test/lib/FakeCuda/libcublasLt.so.13 \
# RUN:   MPRT_CUDNN_LIBRARY=%mpcomm_obj_root/test/lib/FakeCuda/libcudnn.so.9 \
# RUN:   MPRT_NCCL_LIBRARY=%mpcomm_obj_root/test/lib/FakeNccl/FakeNccl/libnccl.so.2 \
# RUN:   %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# `--calibrate --device cuda` on the fake CUDA driver: the file is whole, and what
# is measured is the device's. The figures are those of an emulator.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from calibrating import *

os.environ["MPFAKE_MEMORY"] = "64M"


class CalibrateCuda(CalibrateTest):
    MORE_RATES = {"f8"}

    @classmethod
    def setUpClass(cls):
        os.environ["MPFAKE_PTX"] = compile_c("calibrate-kernels.c", path("kernels.image"))

    def counts(self):
        """Calls of the fake driver, of all ranks together."""
        counts = {}
        with open(path("counts")) as file:
            for line in file:
                name, count = line.split()
                counts[name] = counts.get(name, 0) + int(count)
        os.remove(path("counts"))
        return counts

    def calibrate(self, ranks, *options, **settings):
        os.environ["MPFAKE_LOG"] = path("counts")
        found = super().calibrate(ranks, "--device", "cuda", *options, **settings)
        with open(path("c.json")) as file:
            device = json.load(file)["device"]
        self.assertRegex(device["name"], r"Fake.*sm_90")
        self.assertEqual(device["memory_bytes"], 64 << 20)
        self.efficiency = device.get("efficiency", {})
        for share in self.efficiency.values():
            self.assertTrue(0 < share <= 1, share)
        return found

    def test_one_rank(self):
        found, _ = self.calibrate(1)
        self.assertEqual(found, set())
        counts = self.counts()
        # Of each of four shapes with windows, forward and both gradients: four calls at a time, once and then five times
        # at least. The two without may be products.
        self.assertEqual(set(self.efficiency), {"product", "convolution"})
        for call in "Forward", "BackwardData", "BackwardFilter":
            self.assertGreaterEqual(counts["cudnnConvolution" + call], 4 * 4 * 6)
        # Launches are measured as steps are run.
        self.assertGreater(counts["cuGraphLaunch"], 5)
        self.assertGreater(counts["cublasLtMatmul"], 100)
        self.assertGreater(counts["cublasLtMatmul/f8"], 5)
        # The polynomial is tried with ever more blocks; most often with those that its rate is counted by.
        prefix = "mpcomm_calibrate_polynomial:"
        blocks = {int(name[len(prefix):]): count for name, count in counts.items() if name.startswith(prefix)}
        self.assertEqual(sorted(blocks), [8 << i for i in range(len(blocks))])
        self.assertGreater(len(blocks), 1)
        self.assertEqual(max(blocks, key=blocks.get), max(blocks))
        # One of the four types is tried at 64 at least, and each layout is.
        self.assertGreaterEqual(counts["cublasLtMatmulAlgoGetHeuristic"], 12)

    def test_without_cudnn(self):
        with environment(MPRT_CUDNN_LIBRARY="/nowhere/libcudnn.so"):
            self.calibrate(1)
        self.assertEqual(set(self.efficiency), {"product"})

    def test_two_ranks(self):
        found, _ = self.calibrate(2)
        self.assertEqual(found, {(kind, 2) for kind in KINDS})
        # Their collectives go through the host: no graphs, two devices.
        counts = self.counts()
        self.assertNotIn("cuGraphLaunch", counts)
        self.assertEqual(counts["cuDevicePrimaryCtxRetain"], 2)

    def test_nccl(self):
        with environment(MPFAKE_DEVICES=2):
            found, outcome = self.calibrate(2, "--comm", "nccl", backend="nccl")
        self.assertEqual(found, {(kind, 2) for kind in KINDS})
        self.assertIn("rate of compute under communication", outcome.out)
        self.assertGreater(self.counts()["cuGraphLaunch"], 5)
        self.fails("--calibrate needs --device cuda", "--calibrate", path("c.json"), "--np", 2, "--comm", "nccl", code=2)

    def fails_with(self, text, lines=1, **variables):
        with environment(**variables):
            self.fails(text, "--calibrate", path("c.json"), "--device", "cuda", "--np", 1, "--calibrate-seconds", 1,
                       lines=lines)  # fmt: skip

    def test_failures(self):
        self.fails_with("arena of 8388608 bytes: no 0.0084 GB of device memory", MPFAKE_FAIL="cuMemAlloc:1")
        self.fails_with("cublasLtMatmul: CUBLAS_STATUS_INTERNAL_ERROR", MPFAKE_FAIL="cublasLtMatmul:2:14", MPRT_CUDA_TUNE="0")
        self.fails_with("cuLaunchKernel: CUDA_ERROR_UNKNOWN", MPFAKE_FAIL="cuLaunchKernel:2")
        self.fails_with("cuMemcpyDtoDAsync: CUDA_ERROR_UNKNOWN", MPFAKE_FAIL="cuMemcpyDtoDAsync:1")
        self.fails_with("PTX for sm_80 on a device of sm_90: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX", lines=0,  # the fake driver explains it, too
                        MPFAKE_PTX=path("c.json"))  # fmt: skip
        self.fails_with("--device cuda: no CUDA driver", MPRT_CUDA_LIBRARY="/nowhere/libcuda.so")
        self.fails_with("cuBLASLt", MPRT_CUBLASLT_LIBRARY="/nowhere/libcublasLt.so")


if __name__ == "__main__":
    main()
