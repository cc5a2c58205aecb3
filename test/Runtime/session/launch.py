# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session-launch
#
# What a program that starts ranks needs of Session.h: programs that are opened and checked before
# any rank is there, functions that are not called, ranks over shared memory and TCP, one message
# of an error that all have, comparisons, plans of checkpoints, totals, traces and flight records.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys
import tempfile

CLIENT = sys.argv.pop(5)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run", "Inputs"))
from toy import *


class Launch(ToyTest):
    def case(self, name, program):
        plain = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")}
        done = subprocess.run([CLIENT, name, program], cwd=tempfile.mkdtemp(dir=WORK), capture_output=True,
                              text=True, timeout=120, env=plain)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_alone(self):
        self.case("alone", build("plain.so", BATCH=8))

    def test_plan(self):
        self.case("plan", build("plain.so", BATCH=8))

    def test_launcher(self):
        self.case("launcher", "none")

    def test_ranks_over_shared_memory(self):
        self.case("shm", build("two.so", RANKS=2, BATCH=8))

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(CLIENT), "../../../lib/libmprt_gloo.so")), "no Gloo")
    def test_ranks_over_tcp(self):
        self.case("gloo", build("two.so", RANKS=2, BATCH=8))


if __name__ == "__main__":
    main()
