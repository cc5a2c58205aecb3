# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Given a .mlir, the runner calls the compiler that lies beside it with the
# number of ranks and the further options, and leaves no temporary file. A
# script stands in for the compiler here.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *

SCRIPT = """#!/bin/sh
echo "$@" > %(work)s/called
while [ "$1" != -o ]; do shift; done
[ -e %(work)s/broken ] && { echo 'bad.mlir:3:1: error: unknown op' >&2; exit 1; }
cp %(program)s "$2"
"""


class Compile(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.rest = ["--data", Samples(64).write("d.safetensors"), "--quiet"]
        cls.rest += ["--weights", write_tensors("w.safetensors", weights())]
        program = build("toy2.so", RANKS=2, BATCH=8)
        os.makedirs(path("bin"))
        os.makedirs(path("tmp"))
        # The compiler is looked for beside the executable itself.
        cls.runner = shutil.copy(RUN, path("bin/mpcomm-run"))
        cls.script = SCRIPT % {"work": WORK, "program": program}

    def install(self):
        with open(path("bin/mpcomm-compile"), "w") as file:
            file.write(self.script)
        os.chmod(path("bin/mpcomm-compile"), 0o755)

    def attempt(self, *arguments):
        environment = dict(os.environ, TMPDIR=path("tmp"))
        environment["LD_LIBRARY_PATH"] = os.path.join(os.path.dirname(RUN), "..", "lib")
        done = subprocess.run(
            [self.runner, path("step.mlir"), *arguments, *self.rest],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, timeout=60,
        )  # fmt: skip
        self.assertEqual(os.listdir(path("tmp")), [])
        return done.returncode, done.stderr.decode()

    def test_compiles_first(self):
        self.install()
        code, error = self.attempt("--np", "2", "--compile-options", "--precision bf16  -v")
        self.assertEqual((code, error), (0, ""))
        with open(path("called")) as file:
            words = file.read().split()
        self.assertEqual(words[0], path("step.mlir"))
        self.assertEqual(words[1], "-o")
        self.assertEqual(words[3:], ["--np", "2", "--precision", "bf16", "-v"])

    def test_its_error_is_ours(self):
        self.install()
        open(path("broken"), "w").close()
        code, error = self.attempt("--np", "2")
        os.unlink(path("broken"))
        self.assertEqual(code, 1)
        self.assertIn("bad.mlir:3:1: error: unknown op", error)
        self.assertIn("step.mlir: mpcomm-compile failed with exit status 1", error)

    def test_no_compiler(self):
        if os.path.exists(path("bin/mpcomm-compile")):
            os.unlink(path("bin/mpcomm-compile"))
        search, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
        try:
            code, error = self.attempt("--np", "2")
        finally:
            os.environ["PATH"] = search
        self.assertEqual(code, 1)
        self.assertIn("cannot start mpcomm-compile: No such file", error)


if __name__ == "__main__":
    main()
