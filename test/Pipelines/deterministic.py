# REQUIRES: torch
# RUN: %python %s %mpcomm-import %mpcomm-opt %mpcomm_src_root/docs/examples/gpt.py %t.dir
#
# What is compiled depends on its input alone, and on no address: programs of ranks that compile for
# themselves are one program.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import shutil
import subprocess
import sys

IMPORT, OPT, MODEL, FOLDER = sys.argv[1:5]
RUNS = 5  # of two orders, one is seen alone in 1 of 16 tests

shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
graph = os.path.join(FOLDER, "gpt.mlir")
subprocess.run([IMPORT, MODEL, "-O", "layers=1", "-o", graph], check=True, stdout=subprocess.DEVNULL)
for options in "mesh=dp:2 target=cpu", "mesh=dp:2 target=cpu precision=bf16", "mesh=dp:2 target=cuda precision=bf16":
    texts = {subprocess.run([OPT, graph, "--mpcomm-compile=" + options], check=True, capture_output=True).stdout
             for _ in range(RUNS)}  # fmt: skip
    if len(texts) != 1:
        sys.exit("%s: %d programs from %d runs" % (options, len(texts), RUNS))
