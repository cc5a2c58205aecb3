# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Datasets that do not fit the program, values outside their range, numbers
# that are not finite in data and in the loss.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from seal import xxh64
from toy import *

NAN, INF = float("nan"), float("inf")


class Data(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.program = build("toy2.so", RANKS=2, BATCH=8)
        cls.weights = write_tensors("w.safetensors", weights())

    def attempt(self, tensors):
        name = write_tensors("data.safetensors", tensors)
        return [self.program, "--weights", self.weights, "--data", name, "--quiet"]

    def refused(self, message, **changed):
        tensors = {**Samples(64).tensors(), **changed}
        tensors = {key: value for key, value in tensors.items() if value}
        self.fails(message, *self.attempt(tensors))

    def changed(self, key, index, value, count=64):
        dtype, shape, values = Samples(count).tensors()[key]
        values = list(values)
        values[index] = value
        return {key: (dtype, shape, values)}

    def test_shapes_and_types(self):
        self.refused("no tensor 'y', expected samples of f32 []", y=None)
        self.refused("tensor 'y' is f64 [64], expected samples of f32 [] after a leading dimension",
                     y=("F64", [64], [0.0] * 64))  # fmt: skip
        self.refused("tensor 'x' is f32 [64, 5], expected samples of f32 [4]",
                     x=("F32", [64, 5], [0.0] * 320))  # fmt: skip
        self.refused("tensor 'y' is f32 [], expected samples", y=("F32", [], [0.0]))
        self.refused("tensor 'y' holds 63 samples, 'x' holds 64", y=("F32", [63], [0.0] * 63))
        self.fails("15 samples, but one step of 'train_step' takes 16 (2 ranks of 8)",
                   *self.attempt(Samples(15).tensors()))  # fmt: skip
        self.fails("0 samples, but", *self.attempt(Samples(0).tensors()))
        self.fails("--data FILE gives the samples", self.program, "--weights", self.weights)

    def test_checksums(self):
        # As checkpoints have them, those of data are compared.
        tensors = Samples(64).tensors()
        sums = {name: "%016x" % xxh64(pack(dtype, values)) for name, (dtype, _, values) in tensors.items()}
        def described(name):
            dtype, shape, _ = tensors[name]
            return "%s %s" % (dtype.lower(), list(shape))
        for damaged in None, "x", "label":
            with self.subTest(damaged=damaged):
                metadata = {"mpcomm.checksum." + name: digest for name, digest in sums.items()}
                if damaged:
                    metadata["mpcomm.checksum." + damaged] = "0" * 16
                sized = lambda text: struct.pack("<Q", len(text)) + text.encode()
                header = b"".join(sized(key) + sized(metadata[key]) for key in sorted(metadata))
                begins, at = {}, 0
                for name, (dtype, _, values) in tensors.items():
                    begins[name], at = at, at + len(pack(dtype, values))
                for name in sorted(tensors):
                    header += sized(name) + sized(described(name)) + struct.pack("<Q", begins[name])
                metadata["mpcomm.checksum"] = "%016x" % xxh64(header)
                data = write_tensors("summed.safetensors", tensors, metadata)
                start = [self.program, "--weights", self.weights, "--data", data, "--quiet"]
                if damaged:
                    self.fails("summed.safetensors: tensor '%s' has checksum %s, expected 0000000000000000"
                               % (damaged, sums[damaged]), *start)  # fmt: skip
                else:
                    self.succeeds(*start, "--evaluate")

    def test_range(self):
        self.refused("tensor 'label', sample 37, element 0: 2 is outside [0, 2)",
                     **self.changed("label", 37, 2))  # fmt: skip
        self.refused("sample 0, element 0: -1 is outside", **self.changed("label", 0, -1))
        self.refused("sample 63, element 0: 9223372036854775807 is outside",
                     **self.changed("label", 63, 2**63 - 1))  # fmt: skip
        # Beyond the first of the blocks in which the file is read.
        count = 1_500_000
        tensors = {
            "x": ("F32", [count, 4], [0.0] * 4 * count),
            "y": ("F32", [count], [0.0] * count),
            "label": ("I64", [count], [0] * (count - 2) + [7, 7]),
        }
        self.fails("sample 1499998, element 0: 7 is outside", *self.attempt(tensors))

    def test_non_finite_data(self):
        self.refused("tensor 'x', sample 9, element 2: nan is not finite; --allow-nonfinite accepts it",
                     **self.changed("x", 38, NAN))  # fmt: skip
        self.refused("tensor 'y', sample 63, element 0: -inf is not finite",
                     **self.changed("y", 63, -INF))  # fmt: skip
        tensors = {**Samples(64).tensors(), **self.changed("y", 0, NAN)}
        self.succeeds(*self.attempt(tensors), "--allow-nonfinite", "--log", path("log"))
        self.assertIsNone(log_of("log")[-1]["loss"])

    def test_non_finite_loss(self):
        arguments = [*self.attempt(Samples(64).tensors()), "--lr", 1e30, "--steps", 20]
        outcome = self.fails("the loss is ", *arguments)
        self.assertRegex(outcome.err, r"step \d+, rank 0: the loss is (inf|-?nan)")
        self.succeeds(*arguments, "--allow-nonfinite", "--log", path("log"))
        self.assertEqual(len(log_of("log")), 20)
        outcome = run(*arguments, "--check-numerics")
        self.assertEqual(outcome.code, 1)
        self.assertRegex(outcome.err, r"step \d+, rank \d: tensor '(w|b|w.momentum)', element \d: ")

    def test_changed_while_it_trains(self):
        tensors = Samples(64).tensors()
        start = self.attempt(tensors)
        data = path("data.safetensors")
        before = open(data, "rb").read()

        def write_in_place(contents):
            with open(data, "r+b") as file:
                file.write(contents)

        def rename(_):
            os.rename(write_tensors("next.safetensors", {**tensors, **self.changed("y", 3, 7.0)}), data)

        # Touched, or replaced as a whole: the samples are what they were.
        for same in lambda _: os.utime(data), lambda _: write_in_place(before), rename:
            outcome = run_through(same, *start)
            self.assertEqual(outcome.code, 128 + signal.SIGTERM, str(outcome))
        for end in ["--checkpoint", path("kept"), "--checkpoint-every", 50], []:
            write_tensors("data.safetensors", tensors)
            changed = write_tensors("next.safetensors", {**tensors, **self.changed("y", 3, 7.0)})
            outcome = run_through(lambda _: write_in_place(open(changed, "rb").read()), *start, *end, goes_on=False)
            self.assertEqual(outcome.code, 1, str(outcome))
            self.assertRegex(outcome.err, r"^mpcomm-run: error: .*data.safetensors: its contents were changed while .*\n$")

    def test_evaluation_data_is_checked(self):
        bad = write_tensors("bad.safetensors", {**Samples(64).tensors(), **self.changed("x", 0, INF)})
        good = self.attempt(Samples(64).tensors())
        self.fails("bad.safetensors: tensor 'x', sample 0, element 0: inf is not finite",
                   *good, "--evaluate", "--eval-data", bad)  # fmt: skip


if __name__ == "__main__":
    main()
