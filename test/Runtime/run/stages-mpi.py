# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: mpi
#
# Stages under mpirun train as over shared memory, keep the same checkpoint, and messages that are
# not what their receiver expects end the run with both sides' places.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from stages import *

# OpenMPI keeps some of its memory to the end of the process.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Mpi(StageTest):
    def launch(self, ranks, program, *options, check=False, **settings):
        prefix = mpirun(ranks) + ["env", "MPRT_CHECK=%d" % check]
        return run(
            path(program), "--data", self.data, "--quiet", *options, prefix=prefix, **settings
        )

    def test_losses_and_state(self):
        start = ["--weights", self.weights]
        for ranks, program in (2, "pp2.so"), (4, "pp2-dp2.so"):
            with self.subTest(ranks=ranks):
                shm = self.train(program, "--steps", 12, "--checkpoint", path("shm"))
                kept = read_tensors("shm")
                outcome = self.launch(
                    ranks, program, *start, "--steps", 12, "--log", path("mpi-log"),
                    "--checkpoint", path("shm"),
                )  # fmt: skip
                self.assertEqual(outcome.code, 0, str(outcome))
                # Sums over two ranks have one order.
                self.assertEqual([e["loss"] for e in log_of("mpi-log")], shm)
                # With the names of the shards.
                self.assertEqual(read_tensors("shm"), kept)

    def test_messages_of_different_length(self):
        start = ["--weights", self.weights, "--steps", 3, "--timeout", 20]
        for count in 7, 9:
            name = build_stages("wrong%d.so" % count, staged(), FORWARD_COUNT=count)
            # Without a look at what is called, only that something is wrong.
            outcome = self.launch(2, name, *start)
            self.assertNotEqual(outcome.code, 0, str(outcome))
            self.assertIn('recv "F0" at stages.mlir:20:3', outcome.err, str(outcome))
            self.assertIn("recv(%d x f32" % count, outcome.err, str(outcome))
            self.assertIn("sends more" if count < 8 else "sends 8 elements", outcome.err)
            outcome = self.launch(2, name, *start, check=True)
            self.assertNotEqual(outcome.code, 0, str(outcome))
            for side in 'recv "F0" at stages.mlir:20:3', 'send "F0" at stages.mlir:10:3':
                self.assertIn(side, outcome.err, str(outcome))

    def test_checks_change_nothing(self):
        shm = self.train("pp2.so", "--steps", 6)
        outcome = self.launch(
            2, "pp2.so", "--weights", self.weights, "--steps", 6, "--log", path("mpi-log"),
            check=True,
        )  # fmt: skip
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertEqual([e["loss"] for e in log_of("mpi-log")], shm)

    def test_a_rank_that_stalls(self):
        outcome = self.launch(
            2, "pp2.so", "--weights", self.weights, "--steps", 9, "--timeout", TIMEOUT,
            "--flight-record", path("flight"), fault="stop:rank=1,step=3", limit=TIMEOUT + 2 * SLACK,
        )  # fmt: skip
        self.assertNotEqual(outcome.code, 0, str(outcome))
        self.assertIn("timed out", outcome.err)
        with open(path("flight/rank-0.json")) as file:
            states = [c["state"] for c in json.load(file)["collectives"]]
        self.assertIn("started", states)


if __name__ == "__main__":
    main()
