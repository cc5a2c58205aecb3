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

    def test_two_levels(self):
        found, outcome = self.calibrate(4, "--calibrate-block", 2, links=[("inside", 2), ("across", 0)])
        expected = {(kind, 2, link) for kind in KINDS for link in ("inside", "across")}
        self.assertEqual(found, expected | {(kind, 4, "across") for kind in KINDS[:5]})
        self.assertRegex(outcome.out, r"send +2 +inside")

    def test_blocks_of_three(self):
        found, _ = self.calibrate(6, "--calibrate-block", 3, links=[("inside", 3), ("across", 0)])
        self.assertLessEqual({("all_gather", 3, "inside"), ("all_gather", 2, "across"), ("all_gather", 6, "across"),
                              ("send", 2, "inside"), ("send", 2, "across")}, found)  # fmt: skip

    def test_mistakes(self):
        for block in 3, 4, 8:
            self.fails("--calibrate-block expects a part of the 4 ranks, from 2 on, found %d" % block, "--calibrate", path("c.json"),
                       "--np", 4, "--calibrate-block", block)  # fmt: skip
        self.fails("--calibrate-block requires --calibrate", "x.so", "--calibrate-block", 2, code=2)
        self.fails("--calibrate needs --np N", "--calibrate", path("c.json"))
        self.fails("program excludes --calibrate", "x.so", "--calibrate", path("c.json"), code=2)
        self.fails("--calibrate /nowhere/c.json: cannot create a temporary file beside it", "--calibrate", "/nowhere/c.json", "--np", 1,
                   "--calibrate-seconds", "0.1", "--quiet")  # fmt: skip


if __name__ == "__main__":
    main()
