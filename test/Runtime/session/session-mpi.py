# REQUIRES: mpi
# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session
#
# Sessions of processes that mpirun starts meet by MPI, and train as over shared memory.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

CLIENT = sys.argv.pop(5)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run", "Inputs"))
from toy import *

# OpenMPI keeps some of its memory to the end of the process.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Meeting(unittest.TestCase):
    def test_environment_of_mpirun(self):
        for ranks in 2, 4:
            with self.subTest(ranks=ranks):
                program = build("mpi%d.so" % ranks, RANKS=ranks, BATCH=8)
                done = subprocess.run([*mpirun(ranks), CLIENT, "launched", program], cwd=WORK, capture_output=True,
                                      text=True, timeout=120)  # fmt: skip
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = sorted(done.stdout.splitlines(keepends=True))
                loss = lines[0].split("loss ")[1]
                self.assertEqual(lines, ["rank %d of %d over mpi on host: loss %s" % (r, ranks, loss)
                                         for r in range(ranks)])  # fmt: skip


if __name__ == "__main__":
    main()
