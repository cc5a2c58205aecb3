# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A checkpoint that cannot be written (file size limit, missing folder, device)
# is an error; the one before stays, and nothing lies beside it.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import resource

from toy import *


class Checkpoint(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(64).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        cls.program = build("toy2.so", RANKS=2, BATCH=8)
        cls.common = [cls.program, "--data", cls.data, "--quiet"]

    def test_contents(self):
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 7, "--seed", 4,
                      "--no-shuffle", "--checkpoint", path("c"))  # fmt: skip
        tensors, metadata = read_tensors("c")
        self.assertEqual(sorted(tensors), ["b", "scale", "step", "w", "w.momentum"])
        self.assertEqual(tensors["step"], [7.0])
        expected = {"step": "7", "seed": "4", "shuffle": "0", "global_batch": "16",
                    "samples": "64", "program": "toy"}  # fmt: skip
        self.assertEqual(metadata, {"mpcomm." + key: value for key, value in expected.items()})

    def test_limit_on_file_size(self):
        folder = path("limited")
        os.makedirs(folder)
        checkpoint = os.path.join(folder, "c")
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 3, "--checkpoint", checkpoint)
        with open(checkpoint, "rb") as file:
            before = file.read()
        outcome = self.fails(
            "cannot write: File too large", *self.common, "--resume", checkpoint, "--steps", 9,
            "--checkpoint", checkpoint, "--checkpoint-every", 2,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        )  # fmt: skip
        self.assertLess(outcome.seconds, 30)
        self.assertEqual(os.listdir(folder), ["c"])
        with open(checkpoint, "rb") as file:
            self.assertEqual(file.read(), before)
        self.succeeds(*self.common, "--resume", checkpoint, "--steps", 4)

    def test_places_that_take_no_file(self):
        start = [*self.common, "--weights", self.weights, "--steps", 2]
        self.fails("cannot create a temporary file beside it: No such file",
                   *start, "--checkpoint", path("none/c"))  # fmt: skip
        self.fails("/dev/full: cannot write: not a regular file", *start, "--checkpoint", "/dev/full")
        self.fails("/dev/full: cannot write: not a regular file", *start, "--save-weights", "/dev/full")
        self.fails("not a regular file", *start, "--checkpoint", WORK)
        self.fails("/dev/full: cannot write: No space left", *start, "--log", "/dev/full", lines=None)
        self.fails("cannot open: No such file", *start, "--log", path("none/log"))

    def test_saved_weights_start_a_run(self):
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 2,
                      "--save-weights", path("saved"))  # fmt: skip
        self.succeeds(*self.common, "--weights", path("saved"), "--steps", 2)


if __name__ == "__main__":
    main()
