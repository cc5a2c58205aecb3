# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# The command line: help, version, mistakes with exit status 2.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class CommandLine(ToyTest):
    def test_help(self):
        out = self.succeeds("--help").out
        for option in (
            "np comm device weights data steps epochs seed no-shuffle lr lr-warmup lr-schedule set "
            "checkpoint checkpoint-every resume save-weights evaluate eval-data log-every log trace "
            "quiet check-numerics allow-nonfinite timeout compile-options help version"
        ).split():
            self.assertRegex(out, r"(?m)^  --%s( |$)" % option)
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        self.assertEqual(self.succeeds("-h").out, out)

    def test_version(self):
        self.assertRegex(self.succeeds("--version").out, r"^mpcomm-run \d+\.\d+\.\d+, ABI \d+\n$")

    def test_mistakes(self):
        self.fails("unknown option --wieghts, did you mean --weights", "a.so", "--wieghts", "x", code=2)
        self.fails("no program given", code=2)
        self.fails("--np: '0' is not a number from 1 to 4096", "a.so", "--np", "0", code=2)
        self.fails("--steps and --epochs exclude each other", "a.so", "--steps", 1, "--epochs", 1, code=2)


if __name__ == "__main__":
    main()
