# REQUIRES: gloo
# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session
#
# Sessions meet at an address, and by the environment of torchrun.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

CLIENT = sys.argv.pop(5)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run", "Inputs"))
from toy import *


class Meeting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.two = build("two.so", RANKS=2, BATCH=8)

    def test_address(self):
        done = subprocess.run([CLIENT, "processes", self.two, "127.0.0.1:%d" % free_port()], cwd=WORK,
                              capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_peer_that_dies(self):
        done = subprocess.run([CLIENT, "peer-fails", self.two, "127.0.0.1:%d" % free_port()], cwd=WORK,
                              capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_environment_of_torchrun(self):
        port = free_port()
        ranks = [subprocess.Popen([CLIENT, "launched", self.two], cwd=WORK, text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r),
                                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
                 for r in range(2)]  # fmt: skip
        lines = [rank.communicate(timeout=120)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0])
        loss = lines[0].split("loss ")[1]
        self.assertEqual(lines, ["rank %d of 2 over gloo on host: loss %s" % (r, loss) for r in range(2)])


if __name__ == "__main__":
    main()
