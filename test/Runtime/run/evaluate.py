# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# --evaluate reports the mean loss and the accuracy that Python finds for the
# same weights, of all samples, also of those that do not fill a batch.
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

    def errors(self, held_out):
        return [(self.scale * (sum(p * q for p, q in zip(self.w, x)) + self.b) - y) ** 2 for x, y in zip(held_out.x, held_out.y)]

    def expected(self, held_out):
        correct = 0
        for x, label in zip(held_out.x, held_out.label):
            correct += int(sum(p * q for p, q in zip(self.w, x)) + self.b > 0) == label
        return sum(self.errors(held_out)) / len(held_out.y), correct

    def test_all_samples_count(self):
        # Whole batches, a part of one, less than one, one sample, and ranks that have none.
        for count in 70, 64, 5, 1, 33:
            held_out = Samples(count, seed=9)
            held = held_out.write("h%d.safetensors" % count)
            loss, correct = self.expected(held_out)
            for ranks in 1, 2, 4:
                with self.subTest(ranks=ranks, count=count):
                    out = self.succeeds(
                        path("toy%d.so" % ranks), "--weights", self.weights, "--steps", 0, "--evaluate",
                        "--eval-data", held,
                    ).out  # fmt: skip
                    self.assertIn("%d samples\n" % count, out)
                    self.assertIn("(%d of %d)" % (correct, count), out)
                    found = float(out.split("evaluation loss")[1].split()[0])
                    # Printed to six digits; means of 8 squares of sums of 6 in f32. Of the last
                    # batch its 8 terms and up to 8 * ranks copies of the last sample, whose share
                    # is taken out again, are each wrong by so much of the largest term.
                    largest = max(self.errors(held_out))
                    bound = 0.5e-5 * loss + (8 + 2 * (6 + 2)) * 2.0**-24 * (loss + 2 * 8 * ranks / count * largest)
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
        self.assertRegex(out, r"top-1 accuracy +\d+\.\d\d % \(\d+ of 70\)")
        self.assertLess(float(out.split("evaluation loss")[1].split()[0]), 0.01)

    def test_while_it_trains(self):
        common = [path("toy2.so"), "--weights", self.weights, "--data", self.data, "--eval-data", self.held, "--steps", 10]
        plain = self.succeeds(*common, "--quiet", "--evaluate", "--log", path("plain"), "--checkpoint", path("plain.ckpt"))
        out = self.succeeds(*common, "--evaluate-every", 4, "--log", path("often"), "--checkpoint", path("often.ckpt")).out
        steps = lambda log: [(e["step"], e["loss"]) for e in log if "loss" in e]
        evaluations = lambda log: [(e["step"], e["evaluation"]) for e in log if "evaluation" in e]
        # Training does not notice.
        self.assertEqual(steps(log_of("often")), steps(log_of("plain")))
        self.assertEqual(open(path("often.ckpt"), "rb").read(), open(path("plain.ckpt"), "rb").read())
        found = evaluations(log_of("often"))
        self.assertEqual([step for step, _ in found], [4, 8, 10])
        # Who asks for no more has a log of steps alone.
        self.assertEqual(len(log_of("plain")), 10)
        self.assertEqual(out.count("evaluation of 70 samples"), 2)
        # Each is what a run that ends there finds.
        for step, evaluation in found[:2]:
            self.succeeds(path("toy2.so"), "--weights", self.weights, "--data", self.data, "--eval-data", self.held, "--steps",
                          step, "--evaluate-every", 100, "--quiet", "--log", path("ends"))  # fmt: skip
            self.assertEqual(evaluations(log_of("ends")), [(step, evaluation)])
            self.assertEqual(evaluation["samples"], 70)
        # A run that is killed and resumed has each evaluation once.
        run(*common, "--quiet", "--evaluate-every", 4, "--log", path("parts"), "--checkpoint", path("c"), "--checkpoint-every", 2,
            fault="kill:rank=0,step=9")  # fmt: skip
        self.succeeds(path("toy2.so"), "--resume", path("c"), *common[3:], "--quiet", "--evaluate-every", 4, "--log", path("parts"))
        self.assertEqual(evaluations(log_of("parts")), found)

    def test_training_data_is_the_default(self):
        out = self.succeeds(
            path("toy2.so"), "--weights", self.weights, "--data", self.data, "--steps", 1,
            "--evaluate",
        ).out  # fmt: skip
        self.assertIn("103 samples\n", out)

    def test_mistakes(self):
        self.fails("--eval-data FILE gives the samples",
                   path("toy2.so"), "--weights", self.weights, "--steps", 0, "--evaluate")  # fmt: skip
        self.fails("nothing to do", path("toy2.so"), "--weights", self.weights, "--steps", 0)


if __name__ == "__main__":
    main()
