# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Given a .mlir, the runner calls the compiler that lies beside it with the
# number of ranks and the further options, and leaves no temporary file and no
# compiler, also when it is stopped. A script takes the place of the compiler here.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import signal

from toy import *

SCRIPT = """#!/bin/sh
printf '%%s\n' "$@" > %(work)s/called
while [ "$1" != -o ]; do shift; done
[ -e %(work)s/broken ] && { echo 'bad.mlir:3:1: error: unknown op' >&2; exit 1; }
[ -e %(work)s/slow ] && { sleep 600 & echo $$ $! > %(work)s/running; touch "$2".tmp "$TMPDIR"/left; wait; }
cp %(program)s "$2"
"""


class Compile(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.rest = ["--data", Samples(64).write("d.safetensors"), "--quiet"]
        cls.rest += ["--weights", write_tensors("w.safetensors", weights())]
        program = build("toy2.so", RANKS=2, BATCH=8)
        os.makedirs(path("bin"))
        os.makedirs(path("tmp"))
        # The compiler is looked for beside the executable itself.
        cls.runner = shutil.copy(RUN, path("bin/mpcomm-run"))
        cls.script = SCRIPT % {"work": WORK, "program": program}

    def install(self):
        with open(path("bin/mpcomm-compile"), "w") as file:
            file.write(self.script)
        os.chmod(path("bin/mpcomm-compile"), 0o755)

    def start(self, *arguments, ignored=()):
        def before():
            for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        environment = dict(os.environ, TMPDIR=path("tmp"))
        if signal.SIGCHLD in ignored:  # the sanitizer waits for a child of its own in vain
            environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        environment["LD_LIBRARY_PATH"] = os.path.join(os.path.dirname(RUN), "..", "lib")
        return subprocess.Popen(
            [self.runner, path("step.mlir"), *arguments, *self.rest],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, preexec_fn=before,
        )  # fmt: skip

    def end(self, process):
        try:
            error = process.communicate(timeout=SLACK)[1].decode()
        finally:
            process.kill()
        self.assertEqual(os.listdir(path("tmp")), [])
        return process.returncode, error

    def attempt(self, *arguments, **settings):
        return self.end(self.start(*arguments, **settings))

    def test_compiles_first(self):
        self.install()
        code, error = self.attempt("--np", "2", "--compile-options", "--precision bf16  -v")
        self.assertEqual((code, error), (0, ""))
        with open(path("called")) as file:
            words = file.read().splitlines()
        self.assertEqual(words[0], path("step.mlir"))
        self.assertEqual(words[1], "-o")
        self.assertEqual(words[3:], ["--np", "2", "--precision", "bf16", "-v"])

    def test_for_the_device_that_it_shall_run_on(self):
        self.install()
        # What comes is still a program for the host.
        code, error = self.attempt("--np", "2", "--device", "cuda", "--compile-options", "--options=precision=bf16")
        self.assertEqual(code, 1)
        self.assertIn("compiled for device 'host'", error)
        with open(path("called")) as file:
            words = file.read().splitlines()
        self.assertEqual(words[3:], ["--np", "2", "--options=target=cuda", "--options=precision=bf16"])

    def test_words_in_quotes_are_one(self):
        self.install()
        for text in ("--options='mesh=dp:2 wire=f16' -v", "--options=\"mesh=dp:2 wire=f16\"  -v",
                     " '--options=mesh=dp:2 wire=f16' -'v'"):
            self.assertEqual(self.attempt("--np", "2", "--compile-options", text), (0, ""))
            with open(path("called")) as file:
                words = file.read().splitlines()
            self.assertEqual(words[3:], ["--np", "2", "--options=mesh=dp:2 wire=f16", "-v"])
        code, error = self.attempt("--np", "2", "--compile-options", "--options='mesh=dp:2")
        self.assertEqual(code, 1)
        self.assertIn("--compile-options: no second ' after \"'mesh=dp:2\"", error)

    def test_its_error_is_ours(self):
        self.install()
        open(path("broken"), "w").close()
        code, error = self.attempt("--np", "2")
        os.unlink(path("broken"))
        self.assertEqual(code, 1)
        self.assertIn("bad.mlir:3:1: error: unknown op", error)
        self.assertIn("step.mlir: mpcomm-compile failed with exit status 1", error)

    def test_children_that_the_parent_ignores(self):
        self.install()
        self.assertEqual(self.attempt("--np", "2", ignored=(signal.SIGCHLD,)), (0, ""))

    def test_stopped_while_it_compiles(self):
        self.install()
        open(path("slow"), "w").close()
        try:
            for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
                with self.subTest(signal=number):
                    process = self.start("--np", "2")
                    deadline = time.monotonic() + SLACK
                    while not (os.path.exists(path("running")) and os.listdir(path("tmp"))):
                        self.assertLess(time.monotonic(), deadline, "the compiler did not start")
                        time.sleep(0.02)
                    time.sleep(0.2)
                    process.send_signal(number)
                    code, error = self.end(process)
                    self.assertEqual(code, 128 + number, error)
                    self.assertIn("step.mlir: stopped by signal %d" % number, error)
                    with open(path("running")) as file:
                        running = file.read().split()
                    os.unlink(path("running"))
                    self.assertEqual([p for p in running if self.lives(p)], [])
        finally:
            os.unlink(path("slow"))

    def lives(self, process):
        """Unlike a process that has ended, and that nobody has waited for yet."""
        deadline = time.monotonic() + SLACK
        while time.monotonic() < deadline:
            try:
                with open("/proc/%s/stat" % process) as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return False
            except OSError:
                return False
            time.sleep(0.05)
        os.kill(int(process), signal.SIGKILL)
        return True

    def test_no_compiler(self):
        if os.path.exists(path("bin/mpcomm-compile")):
            os.unlink(path("bin/mpcomm-compile"))
        with environment(PATH="/nowhere"):
            code, error = self.attempt("--np", "2")
        self.assertEqual(code, 1)
        self.assertIn("cannot start mpcomm-compile: No such file", error)


if __name__ == "__main__":
    main()
