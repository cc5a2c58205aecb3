# REQUIRES: ptxas
# RUN: %python %s %mpcomm_obj_root/lib/libMPCommRuntime.so %mpcomm_obj_root/bin/mpcomm-run %t
#
# ptxas takes the kernels that the runtime and the runner have as PTX: a driver that does not is no
# error of theirs, so nothing else would tell.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import re
import shutil
import subprocess
import sys

*FILES, OUT = sys.argv[1:]
PATH = ":".join([os.environ.get("PATH", ""), os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin"])
EXPECTED = ["mprt_zero_vectors", "mprt_zero_words"], ["mpcomm_calibrate_nothing", "mpcomm_calibrate_polynomial"]

for path, entries in zip(FILES, EXPECTED):
    with open(path, "rb") as file:
        texts = re.findall(rb"\.version \d\.\d\n\.target sm_\d+\n[^\0]+", file.read())
    found = sorted(name for text in texts for name in re.findall(r"\.entry (\w+)", text.decode()))
    if found != entries:
        sys.exit("%s: PTX of %s, expected %s" % (path, found, entries))
    for text in texts:
        with open(OUT + ".ptx", "wb") as file:
            file.write(text)
        for chip in "sm_80", "sm_90":
            subprocess.run([shutil.which("ptxas", path=PATH), "-arch=" + chip, OUT + ".ptx", "-o", OUT + ".cubin"], check=True)
