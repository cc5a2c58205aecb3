# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# The command line: help, version, mistakes with exit status 2.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class CommandLine(ToyTest):
    def test_help(self):
        out = self.succeeds("--help").out
        for option in (
            "np comm device weights data steps epochs seed no-shuffle lr lr-warmup lr-schedule set "
            "checkpoint checkpoint-every resume save-weights evaluate eval-data log-every log trace "
            "quiet check-numerics allow-nonfinite timeout compile-options help version"
        ).split():
            self.assertRegex(out, r"(?m)^  (-h,)?--%s( |$)" % option)
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        self.assertEqual(self.succeeds("-h").out, out)

    def test_version(self):
        self.assertRegex(self.succeeds("--version").out, r"^mpcomm-run \d+\.\d+\.\d+, ABI \d+\n$")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            for option in "--help", "--version":
                done = subprocess.run([RUN, option], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr, b"mpcomm-run: error: standard output: cannot write: "
                                              b"No space left on device\n")  # fmt: skip
            # The training itself goes on, and keeps what it was asked to.
            program = build("toy2.so", RANKS=2, BATCH=8)
            train = [RUN, program, "--data", Samples(64).write("d.safetensors"), "--steps", "3",
                     "--weights", write_tensors("w.safetensors", weights()),
                     "--checkpoint", path("c")]  # fmt: skip
            done = subprocess.run(train, stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"standard output: cannot write: No space left", done.stderr)
            self.assertEqual(read_tensors("c")[1]["mpcomm.step"], "3")
            self.assertEqual(subprocess.run([*train, "--quiet"], stdout=full).returncode, 0)

    def test_output_that_nobody_reads(self):
        data, values = Samples(64).write("d.safetensors"), write_tensors("w.safetensors", weights())
        read, write = os.pipe()
        os.close(read)
        outcome = run(build("toy2.so", RANKS=2), "--data", data, "--weights", values, "--steps", "3", "--log-every", "1",
                      "--checkpoint", path("kept"), stdout=write)  # fmt: skip
        os.close(write)
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertIn("standard output: cannot write", outcome.err)
        self.assertEqual(read_tensors("kept")[1]["mpcomm.step"], "3")

    def test_closed_output(self):
        # No file that is opened later gets what was meant for the terminal.
        build("toy2.so", RANKS=2, BATCH=8)
        Samples(64).write("d.safetensors")
        write_tensors("w.safetensors", weights())
        done = subprocess.run(
            ["/bin/sh", "-c", 'exec "$@" >&-', "sh", RUN, path("toy2.so"), "--steps", "2", "--data",
             path("d.safetensors"), "--weights", path("w.safetensors"), "--log", path("log")],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output: cannot write: Bad file descriptor", done.stderr)
        self.assertEqual([entry["step"] for entry in log_of("log")], [1, 2])

    def test_mistakes(self):
        self.fails("unknown option --wieghts, did you mean --weights", "a.so", "--wieghts", "x", code=2)
        self.fails("no program given", code=2)
        self.fails("--np: '0' is not a number from 1 to 4096", "a.so", "--np", "0", code=2)
        self.fails("--np 2000: shared memory joins at most 1024 ranks", "a.so", "--np", 2000)
        self.fails("--np 2000: shared memory joins at most 1024 ranks", "a.mlir", "--np", 2000)
        self.fails("--steps excludes --epochs", "a.so", "--steps", 1, "--epochs", 1, code=2)


if __name__ == "__main__":
    main()
