# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Data sets of several files, in every format: a program whose loss tells its batch
# gets what Python reads from the same files.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from seal import xxh64
from toy import *

BATCH, CONTEXT = 4, 6
NPY = {"f": "<f4", "q": "<i8", "i": "<i4", "B": "|u1", "d": "<f8", "h": "<i2", "H": "<u2"}


def probe(name, **arguments):
    """A program with these arguments: name -> (dtype, shape of a sample, range or None)."""
    target = path(name)
    if os.path.exists(target):
        return target
    described = [{"name": key, "role": "batch", "dtype": dtype, "shape": [BATCH, *shape], "access": "read",
                  **({"range": limits} if limits else {})} for key, (dtype, shape, limits) in arguments.items()]  # fmt: skip
    manifest = {
        "abi": int(abi_version()), "producer": "probe", "program": "probe",
        "target": {"device": "host", "cpu": "generic", "features": []},
        "mesh": {"name": "mesh", "axes": [{"name": "dp", "size": 1}]}, "communicators": [],
        "functions": [{"name": "train_step", "entry": "mpcomm_train_step", "arena_bytes": 0, "events": 0,
                       "arguments": described, "collectives": [],
                       "results": [{"name": "loss", "role": "loss", "dtype": "f64", "shape": [], "argument": None}]}],
    }  # fmt: skip
    product = lambda shape: shape[0] * product(shape[1:]) if shape else 1
    types = "".join({"f32": "f", "i32": "i", "i64": "l"}[dtype] for dtype, _, _ in arguments.values())
    return compile_c("probe-step.c", target, "-DSIZES=" + ",".join(str(product(shape)) for _, shape, _ in arguments.values()),
                     BATCH=BATCH, TYPES='"%s"' % types, MANIFEST=json.dumps(json.dumps(manifest)))  # fmt: skip


def loss_of(*columns):
    """The program's loss of a batch: a list of samples for each argument, each a list."""
    return float(sum(value * (1 + i) * (1 + 10 * s) * (1 + 100 * a)
                     for a, column in enumerate(columns) for s, sample in enumerate(column)
                     for i, value in enumerate(sample)))  # fmt: skip


def write_npy(name, kind, shape, values, descr=None, fortran=False, version=1, cut=0):
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }" % (
        descr or NPY[kind], fortran, "".join("%d, " % size for size in shape))  # fmt: skip
    header = header.encode().ljust(117) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    data = struct.pack("<%d%s" % (len(values), kind), *values)
    with open(path(name), "wb") as file:
        file.write(b"\x93NUMPY" + bytes([version, 0]) + length + header + data[: len(data) - cut])
    return path(name)


def write_tokens(name, tokens, kind="H"):
    with open(path(name), "wb") as file:
        file.write(struct.pack("<%d%s" % (len(tokens), kind), *tokens))
    return path(name)


class Formats(ToyTest):
    def losses(self, program, *options):
        self.succeeds(program, *options, "--log", path("log"), "--quiet")
        return [entry["loss"] for entry in log_of("log")]

    def batches(self, *columns, shuffle=False, seed=0):
        """Losses of an epoch over samples, a list for each argument."""
        count = len(columns[0])
        order = permutation(count, seed, 0) if shuffle else range(count)
        return [loss_of(*([column[i] for i in order[at : at + BATCH]] for column in columns))
                for at in range(0, count - BATCH + 1, BATCH)]  # fmt: skip

    #===- several files ----------------------------------------------------===#

    def xy(self):
        return probe("xy.so", x=("f32", [3], None), y=("i64", [], [0, 1000]))

    def samples(self, count, start=0):
        x = [[float(start + i), float(i % 7), float(3 * i % 5)] for i in range(count)]
        return x, [[(start + 5 * i) % 100] for i in range(count)]

    def write(self, name, x, y):
        flat = lambda rows: [value for row in rows for value in row]
        return write_tensors(name, {"x": ("F32", [len(x), 3], flat(x)), "y": ("I64", [len(y)], flat(y))})

    def test_files_follow_one_another(self):
        program, parts = self.xy(), [self.samples(count, 10 * count) for count in (9, 1, 6)]
        names = [self.write("part-%d.safetensors" % i, *part) for i, part in enumerate(parts)]
        x, y = ([row for part in parts for row in part[a]] for a in (0, 1))
        whole = self.write("whole.safetensors", x, y)
        several = [word for name in names for word in ("--data", name)]
        for order in ["--no-shuffle"], ["--seed", 3]:
            expected = self.batches(x, y, shuffle=len(order) == 2, seed=3)
            self.assertEqual(len(expected), 4)
            for options in several, ["--data", path("part-*.safetensors")], ["--data", whole]:
                with self.subTest(options=options):
                    self.assertEqual(self.losses(program, *options, *order), expected)
        # One is the other, for a run that goes on; and another order of the files is not.
        self.succeeds(program, "--data", whole, "--steps", 2, "--checkpoint", path("c"), "--quiet")
        resume = [program, "--resume", path("c"), "--steps", 3, "--quiet"]
        self.succeeds(*resume, *several)
        self.fails("data with checksum", *resume, "--data", names[1], "--data", names[0], "--data", names[2])

    def test_mistakes_of_several_files(self):
        program, x, y = self.xy(), *self.samples(8)
        good = self.write("good.safetensors", x, y)
        self.fails("no file matches", program, "--data", path("nothing-*.safetensors"), code=2)
        bad = write_tensors("bad.safetensors", {"x": ("F32", [8, 3], [0.0] * 24)})
        self.fails("bad.safetensors: no tensor 'y', expected samples of i64 []", program, "--data", good, "--data", bad)
        bad = self.write("bad.safetensors", x[:5], y)
        self.fails("bad.safetensors: tensor 'y' holds 8 samples, 'x' holds 5", program, "--data", good, "--data", bad)
        bad = self.write("bad.safetensors", x, y[:7] + [[1000]])
        self.fails("bad.safetensors: tensor 'y', sample 7, element 0: 1000 is outside [0, 1000)", program,
                   "--data", good, "--data", bad)  # fmt: skip
        self.fails("that is the file of --data", program, "--data", good, "--data", bad, "--checkpoint", bad, code=2)
        # A pattern that is the name of a file is that file.
        odd = self.write("odd[1].safetensors", x, y)
        self.assertEqual(self.losses(program, "--data", odd, "--no-shuffle"), self.batches(x, y))

    def test_checksums_of_several_files(self):
        program, x, y = self.xy(), *self.samples(8)
        files = [self.write("s%d.safetensors" % i, x, y) for i in (0, 1)]
        size = lambda text: struct.pack("<Q", len(text)) + text.encode()
        for right in True, False:
            tensors = {"x": ("F32", [8, 3], [v for row in x for v in row]), "y": ("I64", [8], [v for row in y for v in row])}
            sums = {"mpcomm.checksum." + k: "%016x" % xxh64(pack(t, v)) for k, (t, _, v) in tensors.items()}
            if not right:
                sums["mpcomm.checksum.x"] = "0" * 16
            header = b"".join(size(key) + size(sums[key]) for key in sorted(sums))
            header += size("x") + size("f32 [8, 3]") + struct.pack("<Q", 0)
            header += size("y") + size("i64 [8]") + struct.pack("<Q", 96)
            last = write_tensors("s1.safetensors", tensors, {**sums, "mpcomm.checksum": "%016x" % xxh64(header)})
            start = [program, "--data", files[0], "--data", last, "--quiet"]
            if right:
                self.succeeds(*start)
            else:
                self.fails("s1.safetensors: tensor 'x' has checksum", *start)

    #===- .npy -------------------------------------------------------------===#

    def test_npy(self):
        program, x, y = self.xy(), *self.samples(14)
        flat = lambda rows: [value for row in rows for value in row]
        write_npy("x.npy", "f", [14, 3], flat(x))
        write_npy("y.npy", "q", [14], flat(y), version=2)
        write_npy("images-0.npy", "f", [5, 3], flat(x[:5]), version=3)
        write_npy("images-1.npy", "f", [9, 3], flat(x[5:]))
        named = ["--data", path("x.npy"), "--data", path("y.npy")]
        split = ["--data", "x=" + path("images-*.npy"), "--data", "y=" + path("y.npy")]
        for options in named, split:
            self.assertEqual(self.losses(program, *options, "--no-shuffle"), self.batches(x, y))
        write_npy("short.npy", "q", [13], flat(y)[:13])
        for message, *options in [
            ("no tensor 'y', expected samples of i64 []", "--data", path("x.npy")),
            ("images-0.npy: the program has no batch argument 'images-0'; NAME=FILE says which of x, y it is for",
             *named, "--data", path("images-0.npy")),
            ("tensor 'y' holds 13 samples, 'x' holds 14", "--data", path("x.npy"), "--data", "y=" + path("short.npy")),
            ("y.npy: cannot open", "--data", "x=" + path("x.npy"), "--data", path("none/y.npy")),
        ]:  # fmt: skip
            self.fails(message, program, *options)

    def test_bad_npy(self):
        program = self.xy()
        write_npy("y.npy", "q", [4], [0] * 4)
        start = [program, "--data", path("y.npy"), "--data", "x=" + path("bad.npy")]
        x = [0.0] * 12
        for message, arguments in [
            ("tensor 'x' is f64 [4, 3], expected samples of f32 [3]", ("d", [4, 3], x)),
            ("tensor 'x' is f32 [3, 4], expected samples of f32 [3]", ("f", [3, 4], x)),
            ("tensor 'x' is f32 [], expected samples of f32 [3]", ("f", [], [0.0])),
            ("is '<u2' [4, 3], expected", ("H", [4, 3], [0] * 12)),
            ("in Fortran's order", ("f", [4, 3], x, None, True)),
            ("is '>f4' [4, 3], expected", ("f", [4, 3], x, ">f4")),
            ("version 7 of the .npy format", ("f", [4, 3], x, None, False, 7)),
            ("47 bytes after the header, but f32 [4, 3] has 48 (is it truncated?)", ("f", [4, 3], x, None, False, 1, 1)),
            ("f32 [5, 3] has 60", ("f", [5, 3], x)),
            ("more than can be counted", ("f", [2**62, 2**62], x)),
        ]:  # fmt: skip
            with self.subTest(message):
                write_npy("bad.npy", *arguments)
                self.fails(message, *start)
        with open(write_npy("good.npy", "f", [4, 3], x), "rb") as file:
            good = file.read()
        begin = good.index(b"{")
        for message, text in [
            ("it does not begin as one", b"\x93NUMPX" + good[6:]),
            ("it does not begin as one", good[:9]),
            ("the file is empty", b""),
            ("only 8 after its length", good[: begin + 8]),
            *(("the header is not as numpy.save writes it", good[:begin] + header.ljust(118) + good[begin + 118 :])
              for header in (b"", b"{}", b"{'descr': '<f4'}", b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3}",
                             b"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (4, 3), }",
                             b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 3), }",
                             b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 3), }",
                             b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), 'more': 1}",
                             b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), } x")),
        ]:  # fmt: skip
            with self.subTest(text[:80]):
                with open(path("bad.npy"), "wb") as file:
                    file.write(text)
                self.fails(message, *start)

    #===- tokens -----------------------------------------------------------===#

    def windows(self, tokens, shifts):
        count = (len(tokens) - max(shifts)) // CONTEXT
        return [[tokens[i * CONTEXT + shift : (i + 1) * CONTEXT + shift] for i in range(count)] for shift in shifts]

    def test_tokens(self):
        source = random.Random(4)
        tokens = [source.randrange(500) for _ in range(CONTEXT * 13 + 5)]
        more = [source.randrange(500) for _ in range(CONTEXT * 8)]  # its last has nothing after it
        small, wide = write_tokens("a.bin", tokens), write_tokens("a32.bin", tokens, "I")
        program = probe("tokens.so", idx=("i64", [CONTEXT], [0, 500]), targets=("i32", [CONTEXT], [0, 500]))
        expected = self.windows(tokens, (0, 1))
        self.assertEqual(len(expected[0]), 13)
        for options in ["--tokens", small], ["--tokens", wide, "--token-type", "uint32", "--context", CONTEXT]:
            self.assertEqual(self.losses(program, *options, "--no-shuffle"), self.batches(*expected))
            self.assertEqual(self.losses(program, *options, "--seed", 2), self.batches(*expected, shuffle=True, seed=2))
        # No window spans two files.
        both = [one + two for one, two in zip(expected, self.windows(more, (0, 1)))]
        self.assertEqual(len(both[0]), 20)
        options = ["--tokens", small, "--tokens", write_tokens("b.bin", more)]
        self.assertEqual(self.losses(program, *options, "--no-shuffle"), self.batches(*both))
        out = self.succeeds(program, *options).out
        self.assertIn("global batch 4 of 20 samples (11 tokens left over)\n", out)
        self.assertRegex(out, r"step 5/5 .* \S+ tokens/s")

    def test_which_arguments_get_tokens(self):
        tokens = write_tokens("t.bin", list(range(50)))
        integers = lambda name: (name, ("i64", [CONTEXT], None))
        windows = lambda *shifts: self.batches(*self.windows(list(range(50)), shifts))
        for arguments, options, shifts in [
            (["ids"], [], (0,)),
            (["y"], [], (0,)),  # the only one
            (["y", "x"], [], (1, 0)),
            (["x", "target"], [], (0, 1)),
            (["input_ids", "labels"], ["--token-arguments", "input_ids,labels+1"], (0, 1)),
            (["input_ids", "labels"], ["--token-arguments", "input_ids,labels"], (0, 0)),
            (["a", "b", "c"], ["--token-arguments", "c+1,b,a+1"], (1, 0, 1)),
        ]:
            with self.subTest(arguments=arguments, options=options):
                program = probe("-".join(arguments) + ".so", **dict(map(integers, arguments)))
                found = self.losses(program, "--tokens", tokens, "--no-shuffle", *options)
                self.assertEqual(found, windows(*shifts))
        hint = "--token-arguments NAME,NAME+1 says which arguments get the tokens, and which those that follow; there are "
        for message, name, arguments, options in [
            ("which arguments are inputs and which targets is not clear; " + hint + "input_ids (i64 [6]), labels (i64 [6])",
             "hf", dict(map(integers, ["input_ids", "labels"])), []),
            ("argument 'mask' gets none", "mask", {**dict(map(integers, ["x", "y"])), "mask": ("f32", [CONTEXT], None)}, []),
            ("argument 'labels' gets none", "hf", dict(map(integers, ["input_ids", "labels"])), ["--token-arguments", "input_ids"]),
            ("no argument is called 'z'", "hf", dict(map(integers, ["input_ids", "labels"])),
             ["--token-arguments", "input_ids,labels,z"]),
            ("--context 8: argument 'x' has samples of 6", "yx", dict(map(integers, ["x", "y"])), ["--context", 8]),
            ("samples differ in length", "two", {"x": ("i64", [6], None), "y": ("i64", [5], None)}, []),
        ]:  # fmt: skip
            with self.subTest(message):
                self.fails(message, probe(name + ".so", **arguments), "--tokens", tokens, *options)

    def test_bad_tokens(self):
        program = probe("tokens.so", idx=("i64", [CONTEXT], [0, 500]), targets=("i32", [CONTEXT], [0, 500]))
        tokens = [7] * 10000
        tokens[9000] = 500
        bad = write_tokens("bad.bin", tokens)
        message = "bad.bin: token 9000: 500 is outside [0, 500), which argument 'idx' takes; --token-type says what a token is"
        self.fails(message, program, "--tokens", bad)
        with open(bad, "ab") as file:
            file.write(b"x")
        self.fails("20001 bytes are no whole number of tokens of 2", program, "--tokens", bad)
        self.fails("3 samples, but one step of 'train_step' takes 4", program,
                   "--tokens", write_tokens("few.bin", [1] * (4 * CONTEXT)))  # fmt: skip
        # A wide token in an argument that has no room for it.
        narrow = probe("narrow.so", x=("i32", [CONTEXT], None))
        wide = write_tokens("wide.bin", [1] * 60 + [2**31] + [1] * 60, "I")
        self.fails("token 60: 2147483648 is outside [-2147483648, 2147483648)", narrow, "--tokens", wide, "--token-type", "uint32")

    #===- images -----------------------------------------------------------===#

    def test_images(self):
        source, shape = random.Random(5), (2, 3, 4)  # channels, height, width
        pixels = [[source.randrange(256) for _ in range(24)] for _ in range(8)]
        last = [[image[c * 12 + p] for p in range(12) for c in range(2)] for image in pixels]
        flat = lambda rows: [value for row in rows for value in row]
        program = probe("image.so", image=("f32", list(shape), None))
        mean, scale = [0.4, 0.6], [0.25, 0.125]

        def expected(mean, scale):
            return [[(value / 255 - mean[i // 12]) / scale[i // 12] for i, value in enumerate(image)] for image in pixels]

        first = write_npy("image.npy", "B", [8, 2, 3, 4], flat(pixels))
        turned = write_npy("turned.npy", "B", [8, 3, 4, 2], flat(last))
        tensors = write_tensors("image.safetensors", {"image": ("U8", [8, 2, 3, 4], flat(pixels))})
        for data in first, "image=" + turned, tensors:
            for options, numbers in [(["--image-mean", "0.4,0.6", "--image-std", "0.25,0.125"], (mean, scale)),
                                     (["--image-mean", "0.5"], ([0.5] * 2, [1] * 2)),
                                     (["--image-std", "0.5"], ([0] * 2, [0.5] * 2))]:  # fmt: skip
                with self.subTest(data=data, options=options):
                    found = self.losses(program, "--data", data, "--no-shuffle", *options)
                    values = expected(*numbers)
                    for got, wanted, at in zip(found, self.batches(values), (0, 4)):
                        # Each value is rounded to f32 once.
                        bound = loss_of([[abs(v) * 2.0**-24 for v in image] for image in values[at : at + 4]])
                        self.assertAlmostEqual(got, wanted, delta=bound)
        message = "tensor 'image' is u8 [8, 2, 3, 4], expected samples of f32 [2, 3, 4] after a leading dimension"
        self.fails(message + "; --image-mean and --image-std convert bytes", program, "--data", first)
        self.fails(message + "; it has no 3 channels", program, "--data", first, "--image-mean", "1,2,3")
        bad = write_npy("image.npy", "B", [8, 24], flat(pixels))
        self.fails("is u8 [8, 24], expected samples of f32 [2, 3, 4]", program, "--data", bad, "--image-mean", "0")
        # What becomes of the bytes is part of the data that a run resumes with.
        self.succeeds(program, "--data", tensors, "--image-mean", "0.5", "--steps", 1, "--checkpoint", path("c"), "--quiet")
        resume = [program, "--resume", path("c"), "--steps", 2, "--quiet", "--data", tensors]
        self.succeeds(*resume, "--image-mean", "0.5")
        self.fails("data with checksum", *resume, "--image-mean", "0.25")

    #===- large ------------------------------------------------------------===#

    def test_read_ahead(self):
        # Beyond what is gathered without a thread.
        program = probe("tokens.so", idx=("i64", [CONTEXT], [0, 500]), targets=("i32", [CONTEXT], [0, 500]))
        count = 40 << 20
        with open(path("large.bin"), "wb") as file:
            file.write(struct.pack("<500H", *range(500)) * (count // 1000))
        token = lambda i: i % 500
        samples = (count // 1000 * 500 - 1) // CONTEXT
        order, losses = permutation_of(samples, 9), []
        for step in range(40):
            indices = [order(step * BATCH + i) for i in range(BATCH)]
            losses.append(loss_of(*([[token(i * CONTEXT + t + shift) for t in range(CONTEXT)] for i in indices]
                                    for shift in (0, 1))))  # fmt: skip
        for check in "start", "use":
            found = self.losses(program, "--tokens", path("large.bin"), "--seed", 9, "--steps", 40, "--check-data", check)
            self.assertEqual(found, losses)
        # Of what is looked at when it is used, a bad value ends the run there.
        bad = order(30 * BATCH + 2) * CONTEXT + 3
        with open(path("large.bin"), "r+b") as file:
            file.seek(2 * bad)
            file.write(struct.pack("<H", 60000))
        start = [program, "--tokens", path("large.bin"), "--seed", 9, "--steps", 40, "--quiet", "--log", path("log")]
        message = "large.bin: token %d: 60000 is outside [0, 500)" % bad
        self.fails(message, *start, "--check-data", "start")
        self.fails(message, *start, "--check-data", "use")
        self.assertEqual([entry["loss"] for entry in log_of("log")], losses[:30])
        os.remove(path("large.bin"))


def permutation_of(count, seed):
    """One index of the first epoch's order at a time."""
    keys = [mix((seed * 0x9E3779B97F4A7C15 + i * 0x9E3779B97F4A7C15) & MASK) for i in range(1, 7)]
    half = ((count - 1).bit_length() + 1) // 2

    def image(index):
        while True:
            left, right = index >> half, index & ((1 << half) - 1)
            for key in keys:
                left, right = right, left ^ (mix((right + key) & MASK) & ((1 << half) - 1))
            index = left << half | right
            if index < count:
                return index

    return image


if __name__ == "__main__":
    main()
