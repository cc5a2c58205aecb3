# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: gloo
#
# Ranks that were started with something else than the others do not train: the first difference
# is named with both values, and all ranks end at once. What concerns one rank alone may differ.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class Agreement(RegressionTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build("other2.so", RANKS=2, BATCH=8, COLLECTIVE_ID=9)
        cls.tensors = cls.samples.tensors()

    def launched(self, *ranks):
        """Ranks with arguments of their own, as somebody would start them by hand."""
        port, processes = free_port(), []
        begin = time.monotonic()
        for rank, arguments in enumerate(ranks):
            variables = dict(RANK=str(rank), WORLD_SIZE=str(len(ranks)), MASTER_ADDR="127.0.0.1",
                             MASTER_PORT=str(port))  # fmt: skip
            processes.append(subprocess.Popen(
                [RUN, *map(str, arguments)], env=dict(os.environ, **variables),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE))  # fmt: skip
        try:
            outputs = [p.communicate(timeout=90) for p in processes]
        finally:
            for process in processes:
                process.kill()
        seconds = time.monotonic() - begin
        return [Outcome(p.returncode, o.decode(), e.decode(), seconds)
                for p, (o, e) in zip(processes, outputs)]  # fmt: skip

    def refused(self, message, *ranks):
        outcomes = self.launched(*ranks)
        for outcome in outcomes:
            self.assertEqual(outcome.code, 1, str(outcome))
            self.assertNotIn("loss", outcome.out)
            self.assertLess(outcome.seconds, SLACK)
        first, *others = outcomes
        self.assertIn(message, first.err)
        self.assertEqual(len(first.own), 1, str(first))
        for other in others:
            self.assertEqual(other.own, [], str(other))
        return first

    def pair(self, first, second):
        """Arguments of two ranks that differ in what is given."""
        common = [path("toy2.so"), *self.common, "--timeout", 60]
        return [*common, *first], [*common, *second]

    def test_options(self):
        kept = ["--checkpoint", path("o.ckpt")]
        cases = [
            (["--lr", 0.1], ["--lr", 0.2], "rank 1 has --lr 0.2 where rank 0 has --lr 0.1;"),
            ([], ["--lr", 0.2], "rank 1 has --lr 0.2 where rank 0 has --lr 0.05;"),
            (["--lr-warmup", 3], [], "rank 1 has --lr-warmup 0 where rank 0 has --lr-warmup 3;"),
            (["--lr-schedule", "cosine"], ["--lr-schedule", "linear"],
             "rank 1 has --lr-schedule linear where rank 0 has --lr-schedule cosine;"),
            (["--seed", 1], ["--seed", 2], "rank 1 has --seed 2 where rank 0 has --seed 1;"),
            ([], ["--no-shuffle"], "rank 1 has --no-shuffle where rank 0 has no --no-shuffle;"),
            (["--steps", 3], ["--steps", 4], "rank 1 has --steps 4 where rank 0 has --steps 3;"),
            (["--epochs", 2], [], "rank 1 has --steps 6 where rank 0 has --steps 12;"),
            ([*kept, "--checkpoint-every", 2], [*kept, "--checkpoint-every", 3],
             "rank 1 has --checkpoint-every 3 where rank 0 has --checkpoint-every 2;"),
            (kept, [], "rank 1 has no --checkpoint where rank 0 has --checkpoint;"),
            ([], ["--save-weights", path("o.w")], "rank 1 has --save-weights where rank 0 has no --save-weights;"),
            ([], ["--check-replicas", 2], "rank 1 has --check-replicas 2 where rank 0 has no --check-replicas;"),
            (["--allow-nonfinite"], [], "rank 1 has no --allow-nonfinite where rank 0 has --allow-nonfinite;"),
            ([], ["--evaluate"], "rank 1 has --evaluate where rank 0 has no --evaluate;"),
            (["--steps", 0, "--evaluate"], ["--evaluate"], "rank 1 has --steps 6 where rank 0 has --steps 0;"),
        ]  # fmt: skip
        for first, second, message in cases:
            with self.subTest(first=first, second=second):
                self.refused(message, *self.pair(first, second))
        self.assertFalse(os.path.exists(path("o.ckpt")))

    def test_calibration(self):
        common = ["--comm", "gloo", "--timeout", 60, "--calibrate", path("cluster.json")]
        quick = [*common, "--calibrate-seconds", 1]
        self.refused("rank 1 has --calibrate-seconds 2 where rank 0 has --calibrate-seconds 1",
                     quick, [*common, "--calibrate-seconds", 2])  # fmt: skip
        self.refused("--np 3, but torchrun started 2 ranks", [*quick, "--np", 3], quick)
        self.assertFalse(os.path.exists(path("cluster.json")))

    def test_further_differences_are_named(self):
        error = self.refused("rank 1 has --steps 4 where rank 0 has --steps 3",
                             *self.pair(["--steps", 3], ["--steps", 4, "--seed", 2, "--lr", 1])).err  # fmt: skip
        self.assertIn("; also different: --seed, --lr; start all ranks with the same options and files\n", error)

    def test_resume(self):
        self.succeeds(path("toy2.so"), *self.common, "--steps", 2, "--quiet", "--checkpoint", path("r2"))
        self.succeeds(path("toy2.so"), *self.common, "--steps", 3, "--quiet", "--checkpoint", path("r3"))
        data = [path("toy2.so"), "--data", self.data, "--steps", 5]
        self.refused("rank 1 has --resume of step 2 where rank 0 has no --resume",
                     [*data, "--weights", self.weights], [*data, "--resume", path("r2")])  # fmt: skip
        self.refused("rank 1 has --resume of step 3 where rank 0 has --resume of step 2",
                     [*data, "--resume", path("r2")], [*data, "--resume", path("r3")])  # fmt: skip

    def test_data(self):
        same = write_tensors("same", self.tensors)
        kind, shape, values = self.tensors["y"]
        other = write_tensors("other", {**self.tensors, "y": (kind, shape, values[:-1] + [0.5])})
        fewer = Samples(102).write("fewer")
        start = [path("toy2.so"), "--weights", self.weights, "--steps", 3, "--data"]
        self.refused("rank 1 has tensor 'y' of --data with checksum ", [*start, self.data], [*start, other])
        self.refused("rank 1 has samples of --data 102 where rank 0 has samples of --data 103",
                     [*start, self.data], [*start, fewer])  # fmt: skip
        held = [*start, self.data, "--evaluate", "--eval-data"]
        self.refused("rank 1 has tensor 'y' of --eval-data with checksum ", [*held, self.data], [*held, other])
        for outcome in self.launched([*start, self.data], [*start, same]):
            self.assertEqual((outcome.code, outcome.err), (0, ""))

    def test_weights(self):
        other = write_tensors("other-w", {**weights(), "w": ("F32", [DIM], [0.0, 0.0, 1e-30, 0.0])})
        start = [path("toy2.so"), "--data", self.data, "--steps", 3, "--weights"]
        self.refused("ranks start from different state: tensor 'w' is not the same on ranks 0 and 1, "
                     "which both hold it: checksum ", [*start, self.weights], [*start, other])  # fmt: skip

    def test_programs(self):
        self.refused("rank 1 runs another program file than rank 0, with checksum ",
                     [path("toy2.so"), *self.common], [path("other2.so"), *self.common])  # fmt: skip

    def test_one_of_four(self):
        common = [path("toy4.so"), *self.common, "--steps", 4]
        odd = [*common, "--seed", 1]
        for rank in 1, 2, 3:
            with self.subTest(rank=rank):
                ranks = [odd if r == rank else common for r in range(4)]
                self.refused("rank %d has --seed 1 where rank 0 has --seed 0" % rank, *ranks)

    def test_what_may_differ(self):
        first, second = self.pair(
            ["--steps", 10, "--log", path("log"), "--checkpoint", path("here"), "--lr", 0.05],
            ["--steps", 10, "--quiet", "--log-every", 3, "--timeout", 50, "--flight-record", path("flight"),
             "--checkpoint", path("there"), "--set", "lr=0.05", "--check-numerics",
             "--flight-collectives", 5, "--trace", path("unused")],
        )  # fmt: skip
        for outcome in self.launched(first, second):
            self.assertEqual((outcome.code, outcome.err), (0, ""), str(outcome))
        self.compare(log_of("log"), twin(self.samples, 16, 10)[0])
        self.assertTrue(os.path.exists(path("here")))
        self.assertFalse(os.path.exists(path("there")))

    def test_rank_0_decides_on_traces(self):
        first, second = self.pair(["--steps", 5, "--trace", path("t.json"), "--timeline", path("tl")], ["--steps", 5])
        for outcome in self.launched(first, second):
            self.assertEqual((outcome.code, outcome.err), (0, ""), str(outcome))
        with open(path("t.json")) as file:
            self.assertEqual({e["pid"] for e in json.load(file)["traceEvents"]}, {0, 1})
        self.assertTrue(os.path.exists(path("tl")))


if __name__ == "__main__":
    main()
