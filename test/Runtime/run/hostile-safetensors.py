# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Weights that lie: each file is refused with one line that says what is wrong,
# in a moment and without the memory that it asks for.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import resource

from toy import *

LIMIT = 1 << 30  # bytes; without sanitizers a third of it is seen


def entry(dtype="F32", shape=(4,), begin=0, end=16):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


class Hostile(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(64).write("d.safetensors")
        cls.program = build("toy1.so", RANKS=1, BATCH=8)

    def refused(self, message, header, data=b"\0" * 16, length=None):
        name = write_raw("bad.safetensors", header, data, length)
        outcome = self.fails(message, self.program, "--weights", name, "--data", self.data)
        self.assertIn("bad.safetensors: ", outcome.err)

    def test_a_good_file_is_taken(self):
        good = write_tensors("good.safetensors", {**weights(), "unused": ("U8", [3], [1, 2, 3])})
        self.succeeds(self.program, "--weights", good, "--data", self.data, "--quiet")

    def test_a_type_that_is_not_known(self):
        # Of a tensor that nobody needs its place in the file is all that matters.
        tensors = {**weights(), "more": ("U8", [6], [1] * 6)}
        with open(write_tensors("more.safetensors", tensors), "rb") as file:
            content = file.read()
        for name in "F8_E4M3", "C64":
            other = content.replace(b'"dtype": "U8"', b'"dtype": "%s"' % name.encode())
            header, data = json.loads(other[8:other.index(b"}}") + 2]), other[other.index(b"}}") + 2:]
            self.succeeds(self.program, "--weights", write_raw("more.safetensors", header, data), "--data", self.data, "--quiet")
        self.refused("4 bytes before tensor 'b' belong to no tensor",
                     {"w": entry("F31", end=8), "b": entry(shape=[], begin=12, end=16)})  # fmt: skip
        self.refused("ends at byte 32 of the data, but the file has 16", {"w": entry("F31", end=32)})
        self.refused("end before they begin", {"w": entry("F31", begin=16, end=0)})
        self.refused("8 trailing bytes", {"w": entry("F31", end=8)})
        for needed, expected in ("w", "f32 [4]"), ("b", "f32 []"):
            wrong = {**weights(), needed: ("U8", [4], [0] * 4)}
            with open(write_tensors("wrong.safetensors", wrong), "rb") as file:
                content = file.read().replace(b'"U8"', b'"F8"')
            with open(path("wrong.safetensors"), "wb") as file:
                file.write(content)
            self.fails("tensor '%s' is 'F8' [4], expected %s" % (needed, expected), self.program,
                       "--weights", path("wrong.safetensors"), "--data", self.data)  # fmt: skip

    def test_length(self):
        self.refused("header of 2147483648 bytes, the limit is 100000000", {}, length=2 << 30)
        self.refused("header of 18446744073709551615 bytes", {}, length=2**64 - 1)
        self.refused("header of 100000000 bytes, but the file has only 18", {}, length=10**8)
        self.refused("is it truncated?", {}, length=19)

    def test_short_files(self):
        for size in 0, 1, 7:
            with open(path("short"), "wb") as file:
                file.write(b"\0" * size)
            self.fails("%d bytes long, expected at least 8" % size,
                       self.program, "--weights", path("short"), "--data", self.data)  # fmt: skip

    def test_every_truncation(self):
        good = write_tensors("good.safetensors", weights())
        with open(good, "rb") as file:
            content = file.read()
        for size in [*range(0, 24), *range(24, len(content), 17), len(content) - 1]:
            with open(path("cut"), "wb") as file:
                file.write(content[:size])
            self.fails("cut: ", self.program, "--weights", path("cut"), "--data", self.data)

    def test_header_text(self):
        self.refused("header is not a JSON object, found an array", b"[]")
        self.refused("header is not a JSON object, found a string", b'"x"')
        self.refused("header is not JSON in UTF-8", b"")
        self.refused("header is not JSON in UTF-8", b'{"a"')
        self.refused("header is not JSON in UTF-8", b'{"\xff\xfe": 1}')
        self.refused("header is not JSON in UTF-8", b"\xef\xbb\xbf\xff{}")
        self.refused("found an array", b"[" * 1000000)
        self.refused("found an object", b'{"a":{"dtype":{}}}')
        self.refused("unknown key 'a'", b'{"a":' * 100000)

    def test_numbers(self):
        self.refused("negative number -4 in shape", {"w": entry(shape=[-4])})
        self.refused("negative number -1 in data_offsets", {"w": entry(begin=-1)})
        self.refused("number 4.0 in shape", {"w": entry(shape=[4.0])})
        self.refused("number out of range, at byte 34", b'{"w":{"dtype":"F32","shape":[1e400]}}')
        self.refused("in shape", b'{"w":{"dtype":"F32","shape":[18446744073709551616]}}')
        self.refused("overflows", {"w": entry(shape=[2**32, 2**32])})
        self.refused("overflows", {"w": entry(shape=[2**31, 2**31, 4])})
        self.refused("more than 32 dimensions", {"w": entry(shape=[1] * 33)})
        self.refused("more than 2 numbers", b'{"w":{"dtype":"F32","shape":[],"data_offsets":[0,4,8]}}')

    def test_keys(self):
        self.refused("tensor 'w' occurs twice", b'{"w":%s,"w":%s}' % ((json.dumps(entry()).encode(),) * 2))
        self.refused("key 'shape' occurs twice", b'{"w":{"shape":[],"shape":[]}}')
        self.refused("unknown key 'strides'", {"w": {**entry(), "strides": [1]}})
        self.refused("dtype is missing", {"w": {"shape": [4], "data_offsets": [0, 16]}})
        self.refused("dtype is empty", {"w": entry(dtype="")})
        self.refused("key 'dtype' occurs twice", b'{"w":{"dtype":"F31","dtype":"F31"}}')
        self.refused("metadata 'a' is not a string", {"__metadata__": {"a": 1}, "w": entry()})
        self.refused("__metadata__ is not an object", {"__metadata__": [], "w": entry()})
        # What is printed of a name is harmless and short.
        self.refused("\\x1b[31m", b'{"\\u001b[31m":1}')
        self.refused("...", {"n" * 1000000: 1})

    def test_layout(self):
        self.refused("inside another tensor that ends at 16",
                     {"w": entry(), "b": entry(shape=[], begin=12, end=16)})  # fmt: skip
        self.refused("4 bytes before tensor 'b' belong to no tensor",
                     {"w": entry(), "b": entry(shape=[], begin=20, end=24)}, b"\0" * 24)  # fmt: skip
        self.refused("8 trailing bytes belong to no tensor", {"w": entry()}, b"\0" * 24)
        self.refused("hold 12 bytes, expected 16", {"w": entry(end=12)}, b"\0" * 12)
        self.refused("end before they begin", {"w": entry(begin=16, end=0)})
        self.refused("ends at byte 32 of the data, but the file has 16",
                     {"w": entry(shape=[8], end=32)})  # fmt: skip
        self.refused("ends at byte 18446744073709551615",
                     {"w": entry(dtype="U8", shape=[0], begin=2**64 - 1, end=2**64 - 1)})  # fmt: skip

    def test_against_the_program(self):
        def wrong(message, **changed):
            tensors = {**weights(), **changed}
            name = write_tensors("wrong.safetensors", {k: v for k, v in tensors.items() if v})
            self.fails(message, self.program, "--weights", name, "--data", self.data)

        wrong("no tensor 'scale', expected buffer f32 []", scale=None)
        wrong("tensor 'w' is f32 [5], expected f32 [4]", w=("F32", [5], [0.0] * 5))
        wrong("tensor 'w' is f64 [4], expected f32 [4]", w=("F64", [4], [0.0] * 4))
        wrong("tensor 'w' is f32 [4, 1], expected f32 [4]", w=("F32", [4, 1], [0.0] * 4))
        wrong("tensor 'b' is f32 [1], expected f32 []", b=("F32", [1], [0.0]))
        wrong("tensor 'step' is i64 [], expected f32 []", step=("I64", [], [0]))

    def test_not_files(self):
        for name in "/dev/zero", WORK:
            self.fails(name + ": not a regular file", self.program, "--weights", name, "--data", self.data)
        os.mkfifo(path("pipe"))
        self.fails("not a regular file", self.program, "--weights", path("pipe"), "--data", self.data)
        self.fails("No such file", self.program, "--weights", path("none"), "--data", self.data)

    def test_memory_stays_bounded(self):
        # 90 MB of header: one name, then a million tensors that fail at the end.
        self.refused("is not a JSON object", b'"' + b"a" * 90_000_000 + b'"', b"")
        many = ",".join(
            '"%d":{"dtype":"F32","shape":[],"data_offsets":[0,4]}' % i for i in range(400_000)
        )
        self.refused("inside another tensor", ("{" + many + "}").encode(), b"\0" * 4)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        self.assertLess(peak, LIMIT)


if __name__ == "__main__":
    main()
