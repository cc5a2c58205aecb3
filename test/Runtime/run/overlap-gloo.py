# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: gloo
#
# Over TCP, too, a collective makes progress while the program computes: as
# overlap.py; and the timeline of a step says when.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from overlapping import *


class OverlapGloo(OverlapTest):
    def test_within_a_kernel(self):
        self.assertGreater(self.hidden_steps(self.program(1, 400), "--comm", "gloo"), 0)

    def test_timeline(self):
        program = self.program(1, 400)
        self.hidden_steps(program, "--comm", "gloo")
        with open(path("timeline.json")) as file:
            timeline = json.load(file)
        self.assertEqual((timeline["schema"], timeline["kind"]), ("mpcomm-timeline-1", "measured"))
        self.assertEqual((timeline["ranks"], timeline["name"]), (2, "overlap"))
        self.assertEqual([s["name"] for s in timeline["streams"]], ["compute", "communicator 0"])
        (collective,) = timeline["collectives"]
        self.assertEqual((collective["bytes"], collective["location"]), (4194304, "overlap.mlir:1"))
        self.assertLessEqual(collective["ready"], collective["start"])
        self.assertLess(collective["start"], collective["end"])
        self.assertGreaterEqual(collective["awaited"], 0.4)
        self.assertGreaterEqual(timeline["seconds"], 0.4)
        # Hidden while the kernel ran, exposed after it, until the rank goes on.
        # (Times are doubles of less than a second: their difference rounds.)
        self.assertLessEqual(collective["hidden"], collective["end"] - collective["start"] + 1e-12)
        self.assertLessEqual(
            collective["exposed"], timeline["seconds"] - collective["awaited"] + 1e-6)
        self.assertAlmostEqual(collective["exposed"], timeline["exposed"], delta=1e-8)
        self.assertAlmostEqual(timeline["compute"], 0.4, delta=0.05 + timeline["seconds"] - 0.4)
        flows = [[e.get("flow") for e in s["events"]] for s in timeline["streams"]]
        self.assertIn(flows, [[[None, 0], [0]], [[None], [0]]])


if __name__ == "__main__":
    main()
