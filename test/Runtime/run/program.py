# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Program files that this runner, this processor or this number of ranks cannot
# run.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class Program(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(64).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        cls.rest = ["--weights", cls.weights, "--data", cls.data, "--quiet"]

    def refused(self, message, program, *options):
        return self.fails(message, program, *self.rest, *options)

    def test_other_abi(self):
        self.refused("abi.so: compiled for ABI 99 of the runtime, this one has ABI",
                     build("abi.so", ABI=99))  # fmt: skip
        # Told before the loader trips over what the other ABI calls.
        self.refused("compiled for ABI 99", build("abi2.so", ABI=99, UNDEFINED=1))

    def test_undefined_symbol(self):
        self.refused("mprt_from_the_future", build("undefined.so", UNDEFINED=1))

    def test_missing_entry(self):
        self.refused("symbol 'mpcomm_train_step' is missing", build("entry.so", NO_ENTRY=1))

    def test_processor(self):
        self.succeeds(build("unknown.so", FEATURE='"+not-a-feature"'), *self.rest)
        with open("/proc/cpuinfo") as file:
            flags = file.read().split()
        if "amx_tile" not in flags and "avx2" in flags:
            self.refused("compiled for processor 'generic'; this one lacks amx-tile",
                         build("amx.so", FEATURE='"+amx-tile"'))  # fmt: skip

    def test_manifests(self):
        def manifest(name, text):
            return build(name, MANIFEST='"%s"' % text.replace('"', '\\"'))

        self.refused("m1.so: manifest is not JSON", manifest("m1.so", "{"))
        self.refused("manifest: 'functions' is missing", manifest("m2.so", '{"abi":1}'))
        self.refused("manifest says ABI 99, the program %s" % abi_version(),
                     manifest("m3.so", '{"abi":99,"functions":[{"name":"train_step",'
                              '"entry":"mpcomm_train_step","arena_bytes":0,"events":0,'
                              '"arguments":[],"results":[]}]}'))  # fmt: skip
        self.refused("no function 'train_step'",
                     manifest("m4.so", '{"abi":%s,"functions":[{"name":"other",' % abi_version() +
                              '"entry":"mpcomm_evaluate","arena_bytes":0,"events":0,'
                              '"arguments":[],"results":[]}]}'))  # fmt: skip

    def test_not_programs(self):
        with open(path("text.so"), "w") as file:
            file.write("hello")
        self.refused("text.so: not a program file", path("text.so"))
        with open(path("empty.so"), "w"):
            pass
        self.refused("empty.so: not a program file", path("empty.so"))
        self.refused("No such file", path("none.so"))
        self.refused("not a regular file", WORK)
        with open(path("plain.c"), "w") as file:
            file.write("int x;\n")
        subprocess.run([CC, "-shared", "-fPIC", path("plain.c"), "-o", path("plain.so")], check=True)
        self.refused("without a checksum at the end", path("plain.so"))
        self.refused("symbol 'mpcomm_abi_version' is missing", seal(path("plain.so")))

    def test_a_pipe(self):
        os.mkfifo(path("fifo.so"))
        self.fails("fifo.so: not a regular file", path("fifo.so"), *self.rest, limit=20)

    def test_a_library_of_any_size(self):
        whole = self.contents()
        # A copy of the build folder would have all of its bytes.
        self.addCleanup(os.remove, path("sparse.so"))
        with open(path("sparse.so"), "wb") as file:
            file.write(whole[:4096])
            file.truncate(1 << 40)
        self.refused("sparse.so: not a whole program file: it has %d bytes" % (1 << 40), path("sparse.so"))
        # With a checksum at its end, too.
        with open(path("sparse.so"), "r+b") as file:
            file.seek(-64, os.SEEK_END)
            file.write(whole[-64:])
        self.refused("sparse.so: has %d bytes, a program file at most %d" % (1 << 40, 8 << 30), path("sparse.so"))

    def contents(self):
        with open(build("toy.so"), "rb") as file:
            return file.read()

    def refused_contents(self, message, contents):
        with open(path("bad.so"), "wb") as file:
            file.write(contents)
        self.refused("bad.so: " + message, path("bad.so"))

    def test_any_damage(self):
        whole, source = self.contents(), random.Random(8)
        print("seed 8,", len(whole), "bytes")
        for at in [0, 4, 16, 40, len(whole) - 1, *source.sample(range(len(whole)), 60)]:
            with self.subTest(byte=at):
                flipped = bytearray(whole)
                flipped[at] ^= 1 << source.randrange(8)
                self.refused_contents("not a" if at < 4 or at >= len(whole) - 8 else "damaged: ", flipped)

    def test_any_length(self):
        whole, source = self.contents(), random.Random(9)
        print("seed 9,", len(whole), "bytes")
        for length in 0, 3, 4, 63, 64, 4096, len(whole) - 1, *source.sample(range(len(whole)), 40):
            with self.subTest(length=length):
                self.refused_contents("not a", whole[:length])
        self.refused_contents("not a whole program file", whole + b"\0")
        self.refused_contents("damaged", whole[:-100] + whole[-99:])

    def test_not_opened_before_it_is_checked(self):
        # Opening it would abort: it is refused before.
        self.refused("compiled for ABI 99", build("opened1.so", ABI=99, CONSTRUCTOR=1))
        self.refused("manifest is not JSON", build("opened2.so", MANIFEST='"{"', CONSTRUCTOR=1))
        self.refused("symbol 'mpcomm_train_step' is missing",
                     build("opened3.so", NO_ENTRY=1, CONSTRUCTOR=1))  # fmt: skip
        with open(build("opened4.so", CONSTRUCTOR=1), "rb") as file:
            self.refused_contents("damaged", file.read().replace(b'"program"', b'"Program"'))
        outcome = run(build("opened4.so", CONSTRUCTOR=1), *self.rest)
        self.assertEqual(outcome.code, -6, "the constructor shows nothing")

    def test_stripped(self):
        tool = shutil.which("strip") or shutil.which("llvm-strip-22") or shutil.which("llvm-strip")
        if not tool:
            self.skipTest("there is no strip")
        shutil.copy(build("toy.so"), path("stripped.so"))
        subprocess.run([tool, path("stripped.so")], check=True)
        self.refused("without a checksum at the end; it was not made by mpcomm-compile, was cut off, "
                     "or was changed since (as by strip)", path("stripped.so"))  # fmt: skip

    def test_overwritten_while_it_runs(self):
        # In place, as by cp, with another program and with nothing.
        other = build("toy2.so", RANKS=2, BATCH=8)
        for start in ["--comm", "shm"], ["--comm", "gloo"]:
            for contents in open(other, "rb").read(), b"":
                with self.subTest(start=start, bytes=len(contents)):
                    program = shutil.copy(other, path("step.so"))

                    def overwrite(_):
                        with open(program, "wb") as file:
                            file.write(contents)

                    outcome = run_through(overwrite, program, *self.rest, *start)
                    self.assertEqual(outcome.code, 128 + signal.SIGTERM, str(outcome))
                    self.assertEqual(outcome.err, "mpcomm-run: error: stopped by signal 15 (Terminated)\n")

    def test_number_of_ranks(self):
        program = build("toy2.so", RANKS=2, BATCH=8)
        self.refused("compiled for 2 ranks (dp:2), started with 3", program, "--np", 3)
        self.succeeds(program, *self.rest, "--np", 2)

    def test_hyperparameters(self):
        program = build("toy.so")
        self.refused("no hyperparameter 'momentum'; there are: lr", program, "--set", "momentum=1")

    def test_no_weights(self):
        self.fails("the program has parameters: --weights FILE", build("toy.so"), "--data", self.data)

    def test_without_a_slash(self):
        build("toy.so")
        self.succeeds("toy.so", *self.rest, cwd=WORK)


if __name__ == "__main__":
    main()
