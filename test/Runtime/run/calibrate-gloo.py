# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: gloo
#
# `--calibrate` over TCP: as calibrate.py.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from calibrating import *


class CalibrateGloo(CalibrateTest):
    def test_two_ranks(self):
        found, _ = self.calibrate(2, "--comm", "gloo", "--quiet", backend="gloo")
        self.assertEqual(found, {(kind, 2) for kind in KINDS})


if __name__ == "__main__":
    main()
