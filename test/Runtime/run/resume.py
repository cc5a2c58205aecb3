# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A resumed run gives the losses of the uninterrupted one, bit for bit, and
# ends in the same file; what contradicts the checkpoint is refused.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class Resume(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(103).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        for ranks in 1, 2:
            build("toy%d.so" % ranks, RANKS=ranks, BATCH=8)
        build("loose2.so", RANKS=2, BATCH=8, LOOSE_STATE=1)

    def compare(self, program, first, last):
        common = [path(program), "--data", self.data, "--quiet"]
        schedule = ["--lr-schedule", "linear", "--lr-warmup", 3]
        self.succeeds(
            *common, "--weights", self.weights, "--steps", last, "--seed", 3, *schedule,
            "--log", path("whole"), "--checkpoint", path("whole.ckpt"),
        )  # fmt: skip
        # The same run, cut off by a death after its checkpoint.
        run(
            *common, "--weights", self.weights, "--steps", last, "--seed", 3, *schedule,
            "--log", path("parts"), "--checkpoint", path("part.ckpt"), "--checkpoint-every", first,
            fault="kill:rank=0,step=%d" % (first + 1),
        )  # fmt: skip
        _, metadata = read_tensors("part.ckpt")
        self.assertEqual(metadata["mpcomm.step"], str(first))
        self.assertEqual(metadata["mpcomm.seed"], "3")
        self.succeeds(
            *common, "--resume", path("part.ckpt"), "--steps", last, *schedule,
            "--log", path("parts"), "--checkpoint", path("part.ckpt"),
        )  # fmt: skip
        keep = lambda log: [(e["step"], e["epoch"], e["loss"], e["lr"]) for e in log]
        self.assertEqual(keep(log_of("parts")), keep(log_of("whole")))
        with open(path("whole.ckpt"), "rb") as whole, open(path("part.ckpt"), "rb") as part:
            self.assertEqual(whole.read(), part.read())

    def test_one_rank(self):
        self.compare("toy1.so", 17, 40)

    def test_two_ranks_across_an_epoch(self):
        self.compare("toy2.so", 9, 23)

    def test_state_in_a_buffer_of_its_own(self):
        self.compare("loose2.so", 7, 15)

    def test_refusals(self):
        common = [path("toy2.so"), "--data", self.data]
        self.succeeds(
            *common, "--weights", self.weights, "--steps", 5, "--checkpoint", path("c"), "--quiet"
        )
        self.fails("written with --seed 0", *common, "--resume", path("c"), "--seed", 1)
        self.fails(
            "written after step 5, beyond the last step 4",
            *common, "--resume", path("c"), "--steps", 4,
        )  # fmt: skip
        self.fails(
            "not a checkpoint: metadata 'mpcomm.step'", *common, "--resume",
            write_tensors(
                "w-all.safetensors",
                {**weights(), "w.momentum": ("F32", [5], [0.0] * 5), "step": ("F32", [], [0.0])},
            ),
        )  # fmt: skip
        self.fails("no tensor 'w.momentum'", *common, "--resume", self.weights)

    def test_another_dataset_is_told(self):
        common = [path("toy2.so"), "--weights", self.weights, "--quiet"]
        self.succeeds(*common, "--data", self.data, "--steps", 2, "--checkpoint", path("c2"))
        other = Samples(64).write("other.safetensors")
        out = self.succeeds(
            path("toy2.so"), "--data", other, "--resume", path("c2"), "--steps", 3
        ).out
        self.assertIn("warning: ", out)

    def test_hyperparameters_are_kept(self):
        # 0.03 is no power of two: it comes back to the last bit, or the losses differ.
        program, rest = path("toy2.so"), ["--data", self.data, "--quiet"]
        given = ["--lr", 0.03, "--lr-warmup", 5, "--lr-schedule", "cosine"]
        self.succeeds(program, *rest, "--weights", self.weights, "--steps", 20, *given,
                      "--log", path("all"))  # fmt: skip
        run(program, *rest, "--weights", self.weights, "--steps", 20, *given, "--log", path("some"),
            "--checkpoint", path("h"), "--checkpoint-every", 8, fault="kill:rank=0,step=10")  # fmt: skip
        self.succeeds(program, *rest, "--resume", path("h"), "--steps", 20, "--log", path("rest"))
        keep = lambda name: {e["step"]: (e["loss"], e["lr"]) for e in log_of(name)}
        rest_of, whole = keep("rest"), keep("all")
        self.assertEqual(rest_of, {step: whole[step] for step in range(9, 21)})

    def test_other_hyperparameters_are_told(self):
        common = [path("toy2.so"), "--data", self.data]
        self.succeeds(*common, "--weights", self.weights, "--steps", 4, "--checkpoint", path("o"),
                      "--set", "lr=0.03", "--lr-schedule", "linear", "--quiet")  # fmt: skip
        resume = [*common, "--resume", path("o"), "--steps"]
        self.assertNotIn("warning", self.succeeds(*resume, 4).out)
        out = self.succeeds(*resume, 6, "--log", path("other"), "--lr", 0.5, "--lr-warmup", 1).out
        self.assertIn("warning: %s: written with --lr 0.03, going on with 0.5\n" % path("o"), out)
        self.assertIn("written with --lr-warmup 0, going on with 1\n", out)
        self.assertIn("its learning rate was to fall until step 4, now until step 6\n", out)
        self.assertNotIn("--lr-schedule", out)
        self.assertAlmostEqual(log_of("other")[0]["lr"], 0.5 * (1 - 3 / 5))
        out = self.succeeds(*resume, 5, "--lr-schedule", "constant").out
        self.assertIn("written with --lr-schedule linear, going on with constant\n", out)
        tensors = {**weights(), "w.momentum": ("F32", [5], [0.0] * 5), "step": ("F32", [], [0.0])}
        for key, value in ("mpcomm.lr", "nan"), ("mpcomm.lr_schedule", "steep"), ("mpcomm.lr", "1x"):
            file = write_tensors("bad", tensors, {"mpcomm.step": "1", "mpcomm.seed": "0", key: value})
            self.fails("metadata '%s' is missing or not a number" % key, *common, "--resume", file)

    def test_nothing_left_to_do(self):
        common = [path("toy2.so"), "--data", self.data, "--quiet", "--checkpoint", path("c3")]
        self.succeeds(*common, "--weights", self.weights, "--steps", 2)
        with open(path("c3"), "rb") as file:
            before = file.read()
        self.succeeds(*common, "--resume", path("c3"), "--steps", 2)
        with open(path("c3"), "rb") as file:
            self.assertEqual(file.read(), before)


if __name__ == "__main__":
    main()
