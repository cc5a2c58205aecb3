# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# --tensorboard writes records whose checksums and messages are those of
# TensorBoard's format, with the numbers of the log; where the package tensorboard
# is there, it reads the same.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# A module of this file's name would be this file.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None

sys.path.insert(0, os.path.join(HERE, "Inputs"))
import glob

from toy import *


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C


def masked(data):
    crc = crc32c(data)
    return (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


def fields(message):
    """(number, value) of each field of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    found = []
    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.append((number, varint()))
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        value = message[at : at + size]
        assert len(value) == size
        at += size
        found.append((number, struct.unpack("<d" if kind == 1 else "<f", value)[0] if kind in (1, 5) else value))
    return found


def events_of(name):
    with open(name, "rb") as file:
        data = file.read()
    at, events = 0, []
    while at < len(data):
        (length, check) = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at : at + 8])
        event = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(event)
        at += 16 + length
        events.append(dict(fields(event)))
    return events


def scalars_of(name):
    """tag -> [(step, value)], and the steps of which earlier files are forgotten."""
    first, *rest = events_of(name)
    assert first[3] == b"brain.Event:2" and abs(first[1] - time.time()) < 1000
    scalars, starts = {}, []
    for event in rest:
        if 7 in event:
            assert fields(event[7]) == [(1, 1)]
            starts.append(event[2])
            continue
        for number, value in fields(event[5]):
            assert number == 1
            value = dict(fields(value))
            scalars.setdefault(value[1].decode(), []).append((event[2], value[2]))
    return scalars, starts


class TensorBoard(RegressionTest):
    def test_numbers_of_the_log(self):
        self.succeeds(path("toy2.so"), *self.common, "--steps", 12, "--lr-schedule", "linear", "--evaluate-every", 5, "--quiet",
                      "--tensorboard", path("new/run-1"), "--log", path("log"))  # fmt: skip
        (name,) = glob.glob(path("new/run-1/*"))
        self.assertRegex(os.path.basename(name), r"^events\.out\.tfevents\.\d")
        scalars, starts = scalars_of(name)
        self.assertEqual(starts, [])
        steps = [e for e in log_of("log") if "loss" in e]
        evaluations = [(e["step"], e["evaluation"]) for e in log_of("log") if "evaluation" in e]
        f32 = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]
        for tag, key in ("loss", "loss"), ("lr", "lr"), ("speed/step_ms", "ms"), ("speed/exposed_ms", "exposed_ms"), ("speed/data_ms", "data_ms"):
            # The log has nine digits, which tell a number of f32.
            self.assertEqual([step for step, _ in scalars[tag]], list(range(1, 13)))
            for (_, value), entry in zip(scalars[tag], steps):
                self.assertAlmostEqual(value, entry[key], delta=abs(entry[key]) * 2.0**-23)
        for (_, rate), (_, ms) in zip(scalars["speed/samples_per_second"], scalars["speed/step_ms"]):
            self.assertAlmostEqual(rate, 16e3 / ms, delta=rate * 2.0**-22)
        for tag, key in ("evaluation/loss", "loss"), ("evaluation/accuracy", "accuracy"):
            self.assertEqual(scalars[tag], [(step, f32(e[key])) for step, e in evaluations])
        self.assertEqual([step for step, _ in evaluations], [5, 10, 12])
        self.assertEqual(len(scalars), 8)
        if EventAccumulator:
            reader = EventAccumulator(path("new/run-1")).Reload()
            self.assertEqual(set(reader.Tags()["scalars"]), set(scalars))
            for tag, values in scalars.items():
                self.assertEqual([(e.step, e.value) for e in reader.Scalars(tag)], values)
        else:
            print("without the package tensorboard")

    def test_a_resumed_run_repeats_no_step(self):
        folder = path("resumed")
        start = [path("toy2.so"), "--data", self.data, "--quiet", "--tensorboard", folder, "--log", path("log")]
        run(*start, "--weights", self.weights, "--steps", 20, "--checkpoint", path("c"), "--checkpoint-every", 8,
            fault="kill:rank=0,step=12")  # fmt: skip
        self.succeeds(*start, "--resume", path("c"), "--steps", 20)
        first, second = sorted(glob.glob(folder + "/*"))
        # What a death leaves is whole.
        self.assertEqual([step for step, _ in scalars_of(first)[0]["loss"]], list(range(1, 12)))
        scalars, starts = scalars_of(second)
        self.assertEqual(([step for step, _ in scalars["loss"]], starts), (list(range(9, 21)), [9]))
        if EventAccumulator:
            reader = EventAccumulator(folder).Reload()
            self.assertEqual([e.step for e in reader.Scalars("loss")], list(range(1, 21)))

    def test_what_cannot_be_written(self):
        with open(path("file"), "w"):
            pass
        for folder in path("file"), path("file/folder"):
            self.fails("--tensorboard %s: cannot create files there: " % folder, path("toy2.so"), *self.common, "--tensorboard", folder)


if __name__ == "__main__":
    main()
