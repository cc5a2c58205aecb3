# What the tests of mpcomm-run share: the toy program and its twin in Python.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A test starts as `test.py <mpcomm-run> <cc> <include folder> <work folder>`.
# Only the standard library is used.

import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
from unittest import mock

from seal import seal, sealed

RUN, CC, INCLUDE, WORK = sys.argv[1:5] if len(sys.argv) >= 5 else [None] * 4
INPUTS = os.path.dirname(os.path.abspath(__file__))
DIM = 4
FORMATS = {"F32": "f", "I64": "q", "F64": "d", "I32": "i", "U8": "B"}
MASK = (1 << 64) - 1
# What tests of ranks that do not come give as --timeout: the others have to come in it.
TIMEOUT = 4
# Seconds that a busy machine and sanitizers may add to anything that is timed.
SLACK = 30
# Of losses and weights: sums of at most 16 terms of size about 10 in f32, errors carried
# through 60 steps by a contraction: 16 * 10 * 2^-24 * 60 < 6e-4. Seen: below 1e-6.
TOLERANCE = 6e-4


def path(name):
    return os.path.join(WORK, name)


def pack(dtype, values):
    return struct.pack("<%d%s" % (len(values), FORMATS[dtype]), *values)


def write_raw(name, header, data, length=None):
    """A safetensors file of any header text, right or wrong."""
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(header) if length is None else length))
        file.write(header + data)
    return path(name)


def write_tensors(name, tensors, metadata=None):
    """tensors: name -> (dtype, shape, values)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for key, (dtype, shape, values) in tensors.items():
        part = pack(dtype, values)
        header[key] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    return write_raw(name, header, data)


def shards_of(metadata):
    """Names of the files that the index of a checkpoint names."""
    return [text.rsplit(" ", 1)[0] for key, text in metadata.items() if key.startswith("mpcomm.shard.")]


def read_file(name):
    """(name -> list of values, metadata) of one file"""
    with open(path(name), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    metadata = header.pop("__metadata__", {})
    values = {}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = FORMATS[entry["dtype"]]
        count = (end - begin) // struct.calcsize(kind)
        values[key] = list(struct.unpack("<%d%s" % (count, kind), data[begin:end]))
    return values, metadata


def read_tensors(name):
    """The same with the shards of a checkpoint, tensors put together of their parts"""
    values, metadata = read_file(name)
    folder, parts = os.path.dirname(os.path.realpath(path(name))), {}
    files = [(values, metadata), *(read_file(os.path.join(folder, shard)) for shard in shards_of(metadata))]
    for values, own in files:
        for key, part in values.items():
            first = int(own.get("mpcomm.part." + key, "0").split()[0])
            parts.setdefault(key, []).append((first, part))
    return {key: [value for _, part in sorted(parts[key]) for value in part] for key in parts}, metadata


class Samples:
    """Samples of y = 2a - b + c/2 + 3d + 1/4; the label says if y > 0."""

    def __init__(self, count, seed=1):
        source = random.Random(seed)
        f32 = lambda v: struct.unpack("<f", struct.pack("<f", v))[0]
        self.x = [[f32(source.uniform(-1, 1)) for _ in range(DIM)] for _ in range(count)]
        self.y = [f32(2 * a - b + c / 2 + 3 * d + 0.25) for a, b, c, d in self.x]
        self.label = [int(v > 0) for v in self.y]

    def tensors(self):
        count = len(self.y)
        return {
            "x": ("F32", [count, DIM], [v for row in self.x for v in row]),
            "y": ("F32", [count], self.y),
            "label": ("I64", [count], self.label),
        }

    def write(self, name):
        return write_tensors(name, self.tensors())


def weights():
    return {"w": ("F32", [DIM], [0.0] * DIM), "b": ("F32", [], [0.0]), "scale": ("F32", [], [1.0])}


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def permutation(count, seed, epoch):
    """The order of samples as docs/Design/Manifest.md defines it."""
    state = (seed * 0x9E3779B97F4A7C15 + epoch) & MASK
    keys = [mix((state + i * 0x9E3779B97F4A7C15) & MASK) for i in range(1, 7)]
    half = ((count - 1).bit_length() + 1) // 2

    def once(index):
        left, right = index >> half, index & ((1 << half) - 1)
        for key in keys:
            left, right = right, left ^ (mix((right + key) & MASK) & ((1 << half) - 1))
        return left << half | right

    order = []
    for index in range(count if count > 1 else 0):
        index = once(index)
        while index >= count:
            index = once(index)
        order.append(index)
    return order or [0]


def twin(samples, global_batch, steps, seed=0, shuffle=True, lr=lambda step: 0.05, wrap=False):
    """Losses of the toy program, in double precision, and its last state."""
    w, b, momentum, losses = [0.0] * DIM, 0.0, [0.0] * (DIM + 1), []
    count = len(samples.y)
    an_epoch = (count + wrap * (global_batch - 1)) // global_batch
    for step in range(steps):
        epoch, at = divmod(step, an_epoch)
        order = permutation(count, seed, epoch) if shuffle else list(range(count))
        order += order[: wrap * global_batch]
        gradient, loss = [0.0] * (DIM + 1), 0.0
        for index in order[at * global_batch : (at + 1) * global_batch]:
            row = samples.x[index] + [1.0]
            error = sum(p * q for p, q in zip(w + [b], row)) - samples.y[index]
            loss += error * error / global_batch
            for i in range(DIM + 1):
                gradient[i] += 2 * error * row[i] / global_batch
        losses.append(loss)
        rate = lr(step)
        momentum = [0.9 * m + g for m, g in zip(momentum, gradient)]
        w = [p - rate * m for p, m in zip(w, momentum)]
        b -= rate * momentum[DIM]
    return losses, w, b


def abi_version():
    with open(os.path.join(INCLUDE, "mpcomm/Runtime/mprt.h")) as header:
        return re.search(r"define MPRT_ABI_VERSION (\d+)u", header.read()).group(1)


def compile_c(source, target, *flags, **macros):
    """A shared object of a file of this folder; sealed, if it is a program."""
    flags += tuple("-D%s=%s" % item for item in macros.items())
    source = os.path.join(INPUTS, source)
    subprocess.run([CC, "-shared", "-fPIC", "-O1", "-I" + INCLUDE, source, "-o", target, *flags], check=True)
    return seal(target) if source.endswith("-step.c") else target


def build(name="toy.so", **macros):
    """Compiles the toy program, once for each name."""
    if os.path.exists(path(name)):
        return path(name)
    return compile_c("toy-step.c", path(name), **{"ABI": abi_version(), **macros})


def build_cuda(name, **macros):
    """Compiles the toy program for the fake CUDA driver."""
    image = compile_c("cuda-kernels.c", path(name + ".image"), **macros)
    return compile_c("cuda-step.c", path(name), ABI=abi_version(), IMAGE='"%s"' % image,
                     IMAGE_BYTES=os.path.getsize(image), **macros)  # fmt: skip


def free_port():
    """One that nobody listens on; below those that the system gives to whoever
    connects somewhere."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def mpirun(ranks):
    command = "mpirun --oversubscribe -np %d" % ranks
    if os.geteuid() == 0:
        command += " --allow-run-as-root"
    return command.split()


def environment(**variables):
    """With these variables for a while."""
    return mock.patch.dict(os.environ, {name: str(value) for name, value in variables.items()})


class Outcome:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    @property
    def own(self):
        """The lines of standard error that tell a failure of who says them: a rank that notices
        another's before it is stopped may say whose it was."""
        return [line for line in self.err.splitlines() if not re.search(r"rank \d+ failed: ", line)]

    def __str__(self):
        return "exit %s after %.2f s\n%s\n%s" % (self.code, self.seconds, self.out, self.err)


def run(*arguments, fault=None, prefix=(), limit=120, env={}, stdout=subprocess.PIPE, **settings):
    """Runs mpcomm-run to its end, with `env` besides what is in the environment."""
    environment = dict(os.environ, **env)
    if fault:
        environment["MPRT_FAULT"] = fault
    start = time.monotonic()
    done = subprocess.run(
        [*prefix, RUN, *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=limit,
        env=environment,
        **settings,
    )
    seconds = time.monotonic() - start
    return Outcome(done.returncode, (done.stdout or b"").decode(), done.stderr.decode(), seconds)


def run_through(action, *arguments, goes_on=True):
    """Runs mpcomm-run without an end; `action` is called with the process once it trains. It has
    trained on when it is told to stop, or has ended by itself where it does not go on."""
    log = path("through.log")
    process = subprocess.Popen(
        [RUN, *map(str, arguments), "--steps", "1000000000", "--log", log],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def wait_for_more(size):
        end = time.monotonic() + SLACK
        while process.poll() is None and time.monotonic() < end:
            if os.path.exists(log) and os.path.getsize(log) > size:
                return
            time.sleep(0.01)
        raise AssertionError("it does not train: %s" % process.communicate()[1].decode())

    start = time.monotonic()
    try:
        wait_for_more(0)
        action(process)
        if goes_on:
            # More than what was under way meanwhile.
            wait_for_more(os.path.getsize(log) + 1000)
            process.terminate()
        out, err = process.communicate(timeout=SLACK)
    finally:
        process.kill()
        process.communicate()
        os.remove(log)
    return Outcome(process.returncode, out.decode(), err.decode(), time.monotonic() - start)


def run_with_a_pause(*arguments):
    """The same, where all its processes are stopped for longer than their --timeout."""
    timeout = 2 * TIMEOUT

    def pause(process):
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(timeout + 1)
        os.killpg(process.pid, signal.SIGCONT)

    return run_through(pause, *arguments, "--timeout", timeout)


def log_of(name):
    with open(path(name)) as file:
        return [json.loads(line) for line in file]


class ToyTest(unittest.TestCase):
    def succeeds(self, *arguments, **settings):
        outcome = run(*arguments, **settings)
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertEqual(outcome.err, "", str(outcome))
        return outcome

    def fails(self, message, *arguments, code=1, lines=1, **settings):
        """Fails with `lines` lines of its own on standard error, one with `message`."""
        outcome = run(*arguments, **settings)
        self.assertEqual(outcome.code, code, str(outcome))
        self.assertIn(message, outcome.err, str(outcome))
        if lines:
            self.assertEqual(len(outcome.own), lines, str(outcome))
            self.assertTrue(outcome.err.startswith("mpcomm-run: error: "), outcome.err)
            self.assertTrue(outcome.err.endswith("\n"), outcome.err)
        return outcome


class TrainingTest(ToyTest):
    """Samples and weights to train with, and what the twin makes of them."""

    @classmethod
    def setUpClass(cls):
        cls.samples = Samples(103)
        cls.data = cls.samples.write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        cls.common = ["--weights", cls.weights, "--data", cls.data]

    def compare(self, log, losses):
        self.assertEqual([entry["step"] for entry in log], list(range(1, len(losses) + 1)))
        for entry, loss in zip(log, losses):
            self.assertAlmostEqual(entry["loss"], loss, delta=TOLERANCE)

    def compare_weights(self, name, w, b):
        saved, _ = read_tensors(name)
        self.assertEqual(sorted(saved), ["b", "scale", "w"])
        for got, expected in zip(saved["w"] + saved["b"], w + [b]):
            self.assertAlmostEqual(got, expected, delta=TOLERANCE)


class RegressionTest(TrainingTest):
    """The toy program on 1, 2 and 4 ranks, 16 samples a step."""

    build = staticmethod(build)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in 1, 2, 4:
            cls.build("toy%d.so" % ranks, RANKS=ranks, BATCH=16 // ranks)


class CudaTest(RegressionTest):
    """The same on the fake CUDA driver."""

    build = staticmethod(build_cuda)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["MPFAKE_MEMORY"] = "64M"
        build("host.so", BATCH=16)

    def train(self, program, *options):
        outcome = self.succeeds(path(program), *self.common, "--log", path("log"), *options)
        return log_of("log"), outcome


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
