# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: gloo, torch
#
# Ranks that torchrun starts find each other through what it tells them.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class Torchrun(RegressionTest):
    def test_two_ranks(self):
        done = subprocess.run(
            # Without a redirection torchrun 1.13 fails on Python 3.11 and later.
            [sys.executable, "-m", "torch.distributed.run", "--no_python", "--nproc_per_node", "2",
             "--master_port", str(free_port()), "--redirects", "1", "--tee", "1",
             "--log_dir", path("torchrun"), RUN, path("toy2.so"), *self.common, "--steps", "5"],
            timeout=240, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(done.stdout.count(b"loss last"), 1)


if __name__ == "__main__":
    main()
