# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A collective makes progress while the program computes: it has ended before the
# computation beside it has. Shown by the events of a trace, in any one of several
# steps, so that a busy machine does not matter: without progress it could happen
# in none. Between kernels the computing thread moves collectives on; during a
# long one a thread does, on request over shared memory and MPI, always over TCP.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from overlapping import *


class Overlap(OverlapTest):
    def test_between_kernels(self):
        program = self.program(400, 400)
        self.assertGreater(self.hidden_steps(program), 0)

    def test_within_a_kernel(self):
        program = self.program(1, 400)
        # Nobody moves it on: this test can fail.
        self.assertEqual(self.hidden_steps(program, progress="poll"), 0)
        self.assertGreater(self.hidden_steps(program, progress="thread"), 0)

    def test_profile(self):
        outcome = run(self.program(400, 400), "--steps", STEPS, "--quiet", "--profile", path("p.json"))
        self.assertEqual(outcome.code, 0, str(outcome))
        with open(path("p.json")) as file:
            profile = json.load(file)
        self.assertEqual((profile["schema"], profile["steps"]), ("mpcomm-profile-1", STEPS - 1))
        entries = {tuple(e["locations"]): e for e in profile["entries"]}
        self.assertEqual(entries["overlap.mlir:1",]["op"], "mpcomm.all_reduce")
        # All 400 calls of the kernel are one entry.
        self.assertGreaterEqual(entries["overlap.mlir:2",]["seconds"], 0.4)
        self.assertNotIn("op", entries["overlap.mlir:2",])


if __name__ == "__main__":
    main()
