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
                    "samples": "64", "program": "toy", "lr": "0.05", "lr_schedule": "constant",
                    "lr_warmup": "0", "lr_total": "7"}  # fmt: skip
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
        deadline = time.monotonic() + SLACK
        while not os.path.exists(checkpoint):
            self.assertLess(time.monotonic(), deadline, "no checkpoint was written")
            time.sleep(0.01)
        # The limit comes now: from the start it would hit the shared memory.
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            for rank in file.read().split():
                resource.prlimit(int(rank), resource.RLIMIT_FSIZE, (100, 100))
        error = process.communicate(timeout=SLACK)[1].decode()
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("c: cannot write: File too large; the file of that name is as it was", error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertEqual(os.listdir(folder), ["c"])
        step = int(read_tensors("limited/c")[1]["mpcomm.step"])
        self.succeeds(*self.common, "--resume", checkpoint, "--steps", step + 2)

    def test_places_that_take_no_file(self):
        # Told before the first step: nobody waits for so many to learn it.
        start = [*self.common, "--weights", self.weights, "--steps", 10**9]
        self.fails("cannot create a temporary file beside it: No such file",
                   *start, "--checkpoint", path("none/c"))  # fmt: skip
        self.fails("/dev/full: cannot write: not a regular file", *start, "--checkpoint", "/dev/full")
        self.fails("/dev/full: cannot write: not a regular file", *start, "--save-weights", "/dev/full")
        self.fails("not a regular file", *start, "--checkpoint", WORK)
        start[-1] = 2
        self.fails("/dev/full: cannot write: No space left", *start, "--log", "/dev/full", lines=None)
        self.fails("cannot open: No such file", *start, "--log", path("none/log"))

    def test_files_that_are_one(self):
        data = shutil.copy(self.data, path("precious"))
        with open(data, "rb") as file:
            before = file.read()
        os.symlink("precious", path("alias"))
        os.link(data, path("hard"))
        start = [self.common[0], "--data", data, "--weights", self.weights, "--quiet", "--steps", 2]
        for option in "--log", "--checkpoint", "--save-weights", "--trace":
            for name in "precious", "alias", "hard", "none/../precious":
                with self.subTest(option=option, name=name):
                    self.fails("%s %s: that is the file of --data" % (option, path(name)),
                               *start, option, path(name), code=2)  # fmt: skip
        self.fails("that is the file of the program", *start, "--log", self.common[0], code=2)
        self.fails("that is the file of --weights", *start, "--save-weights", self.weights, code=2)
        self.fails("--save-weights ./z: that is the file of --checkpoint", *start,
                   "--checkpoint", "z", "--save-weights", "./z", code=2, cwd=WORK)  # fmt: skip
        self.fails("that is the file of --checkpoint", *start,
                   "--checkpoint", path("z"), "--log", path("z"), code=2)  # fmt: skip
        with open(data, "rb") as file:
            self.assertEqual(file.read(), before)
        # Two may well go to one device; a checkpoint may replace what it goes on from.
        self.succeeds(*start, "--log", "/dev/null", "--checkpoint", path("again"))
        self.succeeds(self.common[0], "--data", data, "--quiet", "--steps", 3,
                      "--resume", path("again"), "--checkpoint", path("again"))  # fmt: skip

    def test_nothing_trained_is_nothing_kept(self):
        start = [*self.common, "--weights", self.weights, "--steps", 0, "--evaluate"]
        for option in "--checkpoint", "--save-weights":
            self.fails("keep what was trained, and --steps 0 trains nothing", *start,
                       option, path("nothing"), code=2)  # fmt: skip

    def test_saved_weights_start_a_run(self):
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 2,
                      "--save-weights", path("saved"))  # fmt: skip
        self.succeeds(*self.common, "--weights", path("saved"), "--steps", 2)


if __name__ == "__main__":
    main()
