# REQUIRES: ptxas
# RUN: %python %s %mpcomm_src_root %t.cubin
#
# The kernels that --calibrate brings along assemble for three chips, without
# spills, and the polynomial has the arithmetic that it is counted with.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import re
import shutil
import subprocess
import sys

root, cubin = sys.argv[1:]
folder = os.path.join(root, "tools", "mpcomm-run", "calibrate")
with open(os.path.join(folder, "CalibrateKernels.cpp")) as file:
    ptx = re.search(r'R"\((.*?)\)"', file.read(), re.DOTALL).group(1)
with open(os.path.join(folder, "Calibrate.h")) as file:
    flops = eval(re.search(r"calibrationPolynomialFlops = ([0-9 *]+);", file.read()).group(1))

loops = int(re.search(r"mov\.u32\s+%r1, (\d+);", ptx).group(1))
assert 2 * loops * ptx.count("fma.rn.f32") == flops, (loops, flops)

toolkit = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "ptxas")
ptxas = shutil.which("ptxas") or toolkit
for chip in "sm_80", "sm_90", "sm_100":
    command = [ptxas, "-v", "-arch=" + chip, "-o", cubin, "-"]
    outcome = subprocess.run(command, input=ptx, stderr=subprocess.PIPE, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr.count("0 bytes spill stores, 0 bytes spill loads") == 2, outcome.stderr
