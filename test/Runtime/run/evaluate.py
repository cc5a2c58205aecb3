# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# --evaluate reports the mean loss and the accuracy that Python finds for the
# same weights, and counts the samples that it drops.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class Evaluate(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(103).write("d.safetensors")
        cls.held_out = Samples(70, seed=9)
        cls.held = cls.held_out.write("h.safetensors")
        cls.w, cls.b, cls.scale = [1.5, -1.0, 0.0, 3.0], 0.75, 2.0
        cls.weights = write_tensors(
            "w.safetensors",
            {"w": ("F32", [4], cls.w), "b": ("F32", [], [cls.b]), "scale": ("F32", [], [cls.scale])},
        )
        for ranks in 1, 2, 4:
            build("toy%d.so" % ranks, RANKS=ranks, BATCH=8)

    def expected(self, count):
        loss, correct = 0.0, 0
        for x, y, label in list(zip(self.held_out.x, self.held_out.y, self.held_out.label))[:count]:
            value = self.scale * (sum(p * q for p, q in zip(self.w, x)) + self.b)
            loss += (value - y) ** 2 / count
            correct += int(value > 0) == label
        return loss, correct

    def test_alone(self):
        for ranks, dropped in (1, 6), (2, 6), (4, 6):
            with self.subTest(ranks=ranks):
                out = self.succeeds(
                    path("toy%d.so" % ranks), "--weights", self.weights, "--steps", 0, "--evaluate",
                    "--eval-data", self.held,
                ).out  # fmt: skip
                loss, correct = self.expected(64)
                self.assertIn("64 samples (%d dropped" % dropped, out)
                self.assertIn("(%d of 64)" % correct, out)
                found = float(out.split("evaluation loss")[1].split()[0])
                # Printed to six digits; a mean of 8 squares of sums of 6 in f32
                # by each of the ranks, one of them in f64 over the batches.
                bound = (0.5e-5 + (8 + 2 * (6 + 2)) * 2.0**-24) * loss
                self.assertAlmostEqual(found, loss, delta=bound)

    def test_a_loss_that_is_not_finite(self):
        bad = write_tensors("bad.safetensors", {"w": ("F32", [4], [float("nan")] * 4), "b": ("F32", [], [self.b]),
                                                "scale": ("F32", [], [self.scale])})  # fmt: skip
        for ranks in 1, 2:
            arguments = [path("toy%d.so" % ranks), "--weights", bad, "--data", self.held, "--evaluate", "--steps", "0"]
            self.fails("evaluation, rank 0: the loss is", *arguments)
            self.succeeds(*arguments, "--allow-nonfinite")

    def test_after_training(self):
        out = self.succeeds(
            path("toy2.so"), "--weights", self.weights, "--data", self.data, "--steps", 200,
            "--evaluate", "--eval-data", self.held,
        ).out  # fmt: skip
        self.assertRegex(out, r"top-1 accuracy +\d+\.\d\d % \(\d+ of 64\)")
        self.assertLess(float(out.split("evaluation loss")[1].split()[0]), 0.01)

    def test_nothing_dropped(self):
        held = Samples(32, seed=4).write("h32.safetensors")
        out = self.succeeds(
            path("toy2.so"), "--weights", self.weights, "--steps", 0, "--evaluate",
            "--eval-data", held,
        ).out  # fmt: skip
        self.assertIn("32 samples\n", out)

    def test_training_data_is_the_default(self):
        out = self.succeeds(
            path("toy2.so"), "--weights", self.weights, "--data", self.data, "--steps", 1,
            "--evaluate",
        ).out  # fmt: skip
        self.assertIn("96 samples (7 dropped", out)

    def test_mistakes(self):
        self.fails("--eval-data FILE gives the samples",
                   path("toy2.so"), "--weights", self.weights, "--steps", 0, "--evaluate")  # fmt: skip
        self.fails("nothing to do", path("toy2.so"), "--weights", self.weights, "--steps", 0)


if __name__ == "__main__":
    main()
