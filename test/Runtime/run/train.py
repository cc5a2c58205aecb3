# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Training follows its twin in Python: same samples at the same step, on 1, 2
# and 4 ranks, with and without shuffling, over several epochs and with a
# schedule of the learning rate.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import math
import pty

from toy import *


class Train(RegressionTest):
    def train(self, ranks, *options):
        self.succeeds(
            path("toy%d.so" % ranks), "--np", ranks, "--weights", self.weights, "--data", self.data,
            "--log", path("log"), "--quiet", *options,
        )  # fmt: skip
        return log_of("log")

    def test_ranks_agree_with_the_twin(self):
        losses, w, b = twin(self.samples, 16, 60, seed=5)
        self.assertLess(losses[-1], losses[0] / 50)
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                log = self.train(ranks, "--steps", 60, "--seed", 5, "--save-weights", path("out"))
                self.compare(log, losses)
                self.assertEqual([e["epoch"] for e in log], [s // 6 for s in range(60)])
                self.compare_weights("out", w, b)

    def test_the_last_batch_wraps(self):
        losses, w, b = twin(self.samples, 16, 21, seed=5, wrap=True)
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                log = self.train(ranks, "--epochs", 3, "--seed", 5, "--last-batch", "wrap", "--save-weights", path("out"))
                self.compare(log, losses)
                self.assertEqual([e["epoch"] for e in log], [s // 7 for s in range(21)])
                self.compare_weights("out", w, b)
        few = Samples(5)
        self.succeeds(path("toy1.so"), "--weights", self.weights, "--data", few.write("few"), "--last-batch", "wrap",
                      "--epochs", 2, "--quiet", "--log", path("log"))  # fmt: skip
        self.assertEqual(len(log_of("log")), 2)

    def test_seeds_differ(self):
        first = self.train(2, "--steps", 6)
        second = self.train(2, "--steps", 6, "--seed", 1)
        self.assertNotEqual([e["loss"] for e in first], [e["loss"] for e in second])

    def test_largest_seed(self):
        losses, _, _ = twin(self.samples, 16, 12, seed=2**64 - 1)
        self.compare(self.train(2, "--steps", 12, "--seed", 2**64 - 1), losses)

    def test_no_shuffle(self):
        losses, _, _ = twin(self.samples, 16, 14, shuffle=False)
        self.compare(self.train(2, "--steps", 14, "--no-shuffle"), losses)

    def test_one_epoch_is_the_default(self):
        self.assertEqual(len(self.train(2)), 6)
        self.assertEqual(len(self.train(2, "--epochs", 3)), 18)

    def test_epochs_that_overflow(self):
        before = write_tensors("kept.safetensors", weights())
        with open(before, "rb") as file:
            contents = file.read()
        for epochs in 1 << 62, (1 << 62) - 1:
            self.fails("--epochs %d of 6 steps are more steps than can be counted" % epochs, path("toy1.so"), *self.common,
                       "--epochs", str(epochs), "--checkpoint", before)  # fmt: skip
        with open(before, "rb") as file:
            self.assertEqual(file.read(), contents)

    def test_numbers_that_the_program_cannot_hold(self):
        for value, stored in ("1e-60", "0"), ("1e300", "inf"):
            for option in ("--lr", value), ("--set", "lr=" + value):
                self.fails("hyperparameter 'lr': %s is %s in the program's type f32" % (float(value).__format__("g"), stored),
                           path("toy1.so"), *self.common, *option)  # fmt: skip
        self.succeeds(path("toy1.so"), *self.common, "--lr", "0", "--steps", "1", "--quiet")

    def test_a_negative_learning_rate(self):
        self.fails("--lr: '-0.1' is not a finite number of at least 0", path("toy1.so"), *self.common, "--lr", "-0.1", code=2)
        self.fails("--set lr=-0.1: a learning rate is not negative", path("toy1.so"), *self.common, "--set", "lr=-0.1", code=2)

    def test_learning_rate(self):
        def rate(step):
            if step < 4:
                return 0.08 * (step + 1) / 4
            return 0.04 * (1 + math.cos(math.pi * (step - 4) / 16))

        losses, _, _ = twin(self.samples, 16, 20, lr=rate)
        log = self.train(
            2, "--steps", 20, "--lr", 0.08, "--lr-warmup", 4, "--lr-schedule", "cosine"
        )
        self.compare(log, losses)
        for step, entry in enumerate(log):
            self.assertAlmostEqual(entry["lr"], rate(step), delta=1e-8)
        constant = self.train(2, "--steps", 20, "--set", "lr=0.01")
        self.assertEqual({entry["lr"] for entry in constant}, {0.01})

    def test_state_in_a_buffer_of_its_own(self):
        build("loose2.so", RANKS=2, BATCH=8, LOOSE_STATE=1)
        self.succeeds(
            path("loose2.so"), "--weights", self.weights, "--data", self.data, "--steps", 31,
            "--log", path("loose"), "--quiet", "--save-weights", path("loose-out"),
        )  # fmt: skip
        log = self.train(2, "--steps", 31, "--save-weights", path("out"))
        self.assertEqual([e["loss"] for e in log_of("loose")], [e["loss"] for e in log])
        self.assertEqual(read_tensors("loose-out"), read_tensors("out"))

    def test_progress_and_table(self):
        out = self.succeeds(
            path("toy2.so"), "--weights", self.weights, "--data", self.data, "--steps", 30
        ).out
        lines = [line for line in out.splitlines() if line.startswith("step ")]
        self.assertEqual([line.split()[1] for line in lines], ["1/30", "10/30", "20/30", "30/30"])
        for line in lines:
            self.assertRegex(line, r"loss \S+  \S+ samples/s  \S+ ms/step  exposed \S+ %(  left \d\d:\d\d)?$")
        self.assertIn("global batch 16 of 103 samples (7 left out of each epoch)\n", out)
        # The first step tells nothing of the others; after the last nothing is left.
        self.assertEqual(["left" in line for line in lines], [False, True, True, False])
        for row in "loss first", "loss last", "ms per step", "exposed communication", "waiting for data", "memory":
            self.assertRegex(out, "(?m)^" + row)
        quiet = self.succeeds(
            path("toy2.so"), "--weights", self.weights, "--data", self.data, "--steps", 3, "--quiet"
        )
        self.assertEqual(quiet.out, "")

    def test_a_terminal_is_rewritten_in_place(self):
        terminal, end = pty.openpty()
        process = subprocess.Popen(
            [RUN, path("toy2.so"), "--weights", self.weights, "--data", self.data, "--steps", "30"],
            stdout=end,
        )
        os.close(end)
        text = b""
        try:
            while part := os.read(terminal, 4096):
                text += part
        except OSError:  # how a terminal ends
            pass
        os.close(terminal)
        self.assertEqual(process.wait(), 0)
        lines = [line for line in text.split(b"\n") if b"ms/step" in line]
        self.assertEqual(len(lines), 1)
        self.assertIn(b"\r\x1b[Kstep 30/30 ", lines[0])


if __name__ == "__main__":
    main()
