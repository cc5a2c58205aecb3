# ===- commands.py - commands that benches run -----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #

import os
import re
import subprocess
import sys

KEYS = "registers", "shared_bytes", "spill_bytes", "stack_bytes"


def call(*command, stderr=subprocess.PIPE):
    """What a command prints; ends where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    if done.returncode:
        message = done.stderr or done.stdout
        sys.exit("%s\nended with status %d:\n%s" % (" ".join(command), done.returncode, message[-3000:]))
    return done.stdout


def assemble(opt, source, *passes):
    """Each kernel of a file as ptxas tells it: chip, name and what it takes, in order of KEYS."""
    text = call(opt, source, "-o", os.devnull, "--remarks-filter=mpcomm-assemble-kernels", *passes, stderr=subprocess.STDOUT)
    for line in text.splitlines():
        if "KernelResources" in line:
            entry = dict(re.findall(r"(\w+)=([\w.]+)", line))
            yield entry["chip"], entry["kernel"], [int(entry[key]) for key in KEYS]
