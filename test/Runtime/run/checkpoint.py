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
        process = subprocess.Popen(
            [RUN, *self.common, "--weights", self.weights, "--steps", "1000000000",
             "--checkpoint", checkpoint, "--checkpoint-every", "1"],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while not os.path.exists(checkpoint):
            self.assertLess(time.monotonic(), deadline, "no checkpoint was written")
            time.sleep(0.01)
        # The limit comes now: from the start it would hit the shared memory.
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            for rank in file.read().split():
                resource.prlimit(int(rank), resource.RLIMIT_FSIZE, (100, 100))
        error = process.communicate(timeout=30)[1].decode()
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("c: cannot write: File too large; the file of that name is as it was", error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertEqual(os.listdir(folder), ["c"])
        step = int(read_tensors("limited/c")[1]["mpcomm.step"])
        self.succeeds(*self.common, "--resume", checkpoint, "--steps", step + 2)

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
