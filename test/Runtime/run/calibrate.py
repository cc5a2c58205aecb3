# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# `--calibrate` writes a whole cluster file: positive rates of the device, a line
# for each collective on all ranks and on pairs, factors between 0 and 1. How good
# the figures are depends on what else the machine does, and is not tested.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from calibrating import *


class Calibrate(CalibrateTest):
    def test_one_rank(self):
        found, _ = self.calibrate(1)
        self.assertEqual(found, set())

    def test_two_ranks(self):
        found, outcome = self.calibrate(2)
        self.assertEqual(found, {(kind, 2) for kind in KINDS})
        self.assertIn("all_reduce", outcome.out)

    def test_pairs_of_four(self):
        found, _ = self.calibrate(4)
        expected = {(kind, ranks) for kind in KINDS for ranks in (2, 4)}
        self.assertEqual(found, expected - {("send", 4), ("recv", 4)})

    def test_three_ranks(self):
        found, _ = self.calibrate(3)
        self.assertEqual(found, {(kind, 3) for kind in KINDS[:5]} | {("send", 2), ("recv", 2)})

    def test_mistakes(self):
        self.fails("--calibrate needs --np N", "--calibrate", path("c.json"))
        self.fails("--calibrate runs no program, found 'x.so'", "x.so", "--calibrate", path("c.json"), code=2)
        self.fails("--calibrate /nowhere/c.json: cannot create a temporary file beside it", "--calibrate", "/nowhere/c.json", "--np", 1,
                   "--calibrate-seconds", "0.1", "--quiet")  # fmt: skip


if __name__ == "__main__":
    main()
