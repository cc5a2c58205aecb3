# ===- pack-variants.py - which programs pack.py leaves out -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# RUN: %python %s %t
"""A variant for a chip that the tools do not know is left out, and the pack names it with the
reason. Any other failure ends pack.py with the compiler's message, also that of a program
that is no variant. The compiler here is a script that fails as it is told."""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = sys.argv[1]
BASE, VARIANT = "gpt2-small-bf16", "gpt2-small-bf16-sm90a"
STUBS = {
    "mpcomm-import": "import sys\nopen(sys.argv[sys.argv.index('-o') + 1], 'w').close()\n",
    "mpcomm-compile": """#!/bin/sh
case "$*" in *"$FAILS"*) echo "$MESSAGE" >&2; exit 1 ;; esac
while [ "$1" != "-o" ]; do shift; done
echo program > "$2"
""",
}
PTXAS = "'/usr/bin/ptxas' failed for sm_90a: ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'"
LLVM = "this LLVM does not know the chip 'sm_90a'"
OTHER = "step.mlir:7:3: error: 'mprt.launch' op expected something else"


def pack(fails, message):
    out = os.path.join(FOLDER, "pack")
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, os.path.join(HERE, "pack.py"), out, "--bin=" + FOLDER, "--small", "--cases=none",
               "--only=%s,%s" % (BASE, VARIANT)]  # fmt: skip
    environment = dict(os.environ, FAILS=fails, MESSAGE=message)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    packed = None
    if done.returncode == 0:
        with open(os.path.join(out, "programs.json")) as file:
            packed = json.load(file)
    return packed, done.stdout + done.stderr


def expect(holds, text):
    if not holds:
        sys.exit(text)


os.makedirs(FOLDER, exist_ok=True)
for name, text in STUBS.items():
    with open(os.path.join(FOLDER, name), "w") as out:
        out.write(text)
    os.chmod(os.path.join(FOLDER, name), 0o755)
shutil.copy(os.path.realpath(shutil.which("true")), os.path.join(FOLDER, "mpcomm-run"))

packed, text = pack("nothing of this", "")
expect(packed and list(packed["programs"]) == [BASE, VARIANT] and not packed["left out"], text)
for message in PTXAS, LLVM:
    packed, text = pack("sm_90a", message)
    expect(packed and list(packed["programs"]) == [BASE], text)
    expect(list(packed["left out"]) == [VARIANT] and packed["left out"][VARIANT] in message, text)
    expect("%s is left out: " % VARIANT in text, text)
for fails, message in ("sm_90a", OTHER), ("chip=sm_90 ", OTHER), ("chip=sm_90 ", PTXAS):
    packed, text = pack(fails, message)
    expect(packed is None and message in text, text)
