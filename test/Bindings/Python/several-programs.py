# Sessions with several programs, and what calls that fail leave behind, through the C ABI as
# mpcomm.library has it.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %mpcomm-compile %mpcomm_src_root/docs/examples/linear.mlir %t
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import ctypes
import os
import subprocess
import sys
import threading
import unittest

import numpy as np
from mpcomm import library
from mpcomm.errors import Error

COMPILE, GRAPH, FOLDER = sys.argv[1:4]
library.load()
POLICY = os.path.join(FOLDER, "policy.json")
with open(POLICY, "w") as policy:
    policy.write('{"schema": "mpcomm-precision-1", "policy": "bf16", "compute": "lower_precision"}')
random = np.random.default_rng(0)
X, Y, W = (random.standard_normal(shape).astype("f") for shape in ((8, 4), (8, 2), (4, 2)))
B = np.zeros(2, "f")
F32, F64 = 0, 1


def build(name, *options, change=lambda text: text):
    """The path of a program of the example, compiled once."""
    program = os.path.join(FOLDER, name + ".so")
    if not os.path.exists(program):
        with open(GRAPH) as file:
            graph = change(file.read())
        source = os.path.join(FOLDER, name + ".mlir")
        with open(source, "w") as file:
            file.write(graph)
        subprocess.run([COMPILE, source, "-o", program, *options], check=True)
    return program


class Session:
    def __init__(self, ranks=None, rank=0, **options):
        options = library.SessionOptions(timeout_seconds=300, rank=rank, **options)
        if ranks:
            options.ranks = ranks.pointer
        elif not options.comm:
            options.comm = b"self"
        self.call = library.Handle(options)

    def load(self, program):
        self.call("load", program.encode(), None)

    def array(self, name, values, dtype=F32):
        """An array, and what has to stay alive with it."""
        shape = (ctypes.c_int64 * values.ndim)(*values.shape)
        strides = (ctypes.c_int64 * values.ndim)(*(s // values.itemsize for s in values.strides))
        return library.Array(name=name.encode(), data=values.ctypes.data, dtype=dtype, ndim=values.ndim,
                             shape=shape, strides=strides), (shape, strides, values)  # fmt: skip

    def write(self, name, values, dtype=F32):
        array, _kept = self.array(name, values, dtype)
        self.call("write", ctypes.byref(array))

    def read(self, name, shape, dtype="f"):
        values = np.zeros(shape, dtype)
        self.call("read", name.encode(), values.ctypes.data, values.nbytes)
        return values

    def begin(self, program):
        self.load(program)
        self.write("weight", W)
        self.write("bias", B)

    def step(self):
        (x, _kept_x), (y, _kept_y) = self.array("x", X), self.array("y", Y)
        result = library.Result()
        result.struct_size = ctypes.sizeof(result)
        self.call("step", (library.Array * 2)(x, y), 2, None, ctypes.byref(result))
        return result.loss

    def filled(self, kind, call, *arguments):
        record = kind()
        record.struct_size = ctypes.sizeof(record)
        self.call(call, *arguments, ctypes.byref(record))
        return record

    def save(self, name, metadata=(), **options):
        texts = (library.Text * max(1, len(metadata)))(*(library.Text(key=k, value=v) for k, v in metadata))
        options = library.SaveOptions(metadata_count=len(metadata), metadata=texts, **options)
        self.call("save", os.path.join(FOLDER, name).encode(), ctypes.byref(options))

    def events(self):
        events, count = (library.EventRecord * 64)(), ctypes.c_uint32()
        self.call("events", events, 64, ctypes.byref(count), None)
        return events[: count.value]


def widen(bits):
    return (bits.astype("u4") << 16).view("f")


def on_two_ranks(body):
    """body(session, rank) on each of two; what they return or raise."""
    ranks, results = library.Ranks(2), [None, None]

    def live(rank):
        session = Session(ranks, rank)
        try:
            results[rank] = body(session, rank)
        except Error as error:
            results[rank] = error
        finally:
            session.call.close()

    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class SeveralPrograms(unittest.TestCase):
    def fails(self, text, call, *arguments, **options):
        with self.assertRaises(Error) as raised:
            call(*arguments, **options)
        self.assertIn(text, str(raised.exception))

    def test_copies_are_those_of_the_weights(self):
        """A program in bf16 has copies of its weights, which one in f32 knows nothing of."""
        plain, narrow = build("plain"), build("narrow", "--options", "precision-file=%s" % POLICY)
        session = Session()
        session.begin(plain)
        for _ in range(3):
            session.step()
        session.load(narrow)

        def copies_are_new():
            exact, copy = session.read("weight", (4, 2)), widen(session.read("weight.bf16", (4, 2), "u2"))
            self.assertTrue(np.all(np.abs(copy - exact) <= 2.0**-8 * np.abs(exact)))

        copies_are_new()
        session.call("switch", 1)
        session.step()
        session.call("switch", 0)
        before = widen(session.read("weight.bf16", (4, 2), "u2"))
        for _ in range(5):
            session.step()
        self.assertGreater(np.abs(before - session.read("weight", (4, 2))).max(), 2.0**-6)
        session.save("copies")  # with what they are copies of
        copies_are_new()
        for _ in range(5):
            session.step()
        session.call("switch", 1)
        copies_are_new()

    def test_state_comes_to_ranks_that_had_not_its_tensors(self):
        """In a pipeline a rank has some of the weights, and with data parallelism all."""
        pipeline = build("pipeline", "--options", "mesh=pp:2 micro-batches=2")
        parallel = build("parallel", "--options", "mesh=dp:2")

        def body(session, rank):
            session.load(pipeline)
            session.write("weight" if rank == 0 else "bias", W if rank == 0 else B + 1)
            session.load(parallel)
            session.call("switch", 1)
            before = session.read("weight", (4, 2)), session.read("bias", (2,))
            return session.step(), *(values.tolist() for values in before)

        first, second = on_two_ranks(body)
        self.assertEqual(first, second)
        self.assertEqual(first[1:], (W.tolist(), (B + 1).tolist()))

    def test_a_load_that_fails_leaves_the_session(self):
        cuda, plain = build("cuda", "--options", "target=cuda chip=sm_90"), build("plain")
        session = Session()
        self.fails("device cuda", session.load, cuda)
        tensor = library.Tensor()
        tensor.struct_size = ctypes.sizeof(tensor)
        self.fails("no program", session.call, "argument", b"train_step", 0, ctypes.byref(tensor))
        info = session.filled(library.SessionInfo, "describe")
        self.assertEqual((info.programs, info.device), (0, b""))
        session.begin(plain)
        expected = session.step()
        again = Session()
        again.begin(plain)
        self.assertEqual(again.step(), expected)

    def test_many_programs(self):
        """Each brings communicators of its own."""
        program = build("two", "--options", "mesh=dp:2")

        def body(session, rank):
            session.begin(program)
            losses = [session.step()]
            for number in range(1, 60):
                session.load(program)
            session.call("switch", number)
            return losses + [session.step()]

        first, second = on_two_ranks(body)
        self.assertEqual(first, second)
        self.assertLess(first[1], first[0])

    def test_a_name_of_another_role(self):
        renamed = build("renamed", change=lambda text: text.replace('"weight"', '"x"').replace(
            'role<batch>, mpcomm.name = "x"', 'role<batch>, mpcomm.name = "z"'))  # fmt: skip
        session = Session()
        session.begin(build("plain"))
        self.fails("parameter 'x' is", session.load, renamed)
        session.step()
        session.save("role")

    def test_arrays_that_overlap_their_target(self):
        session = Session()
        session.begin(build("plain"))
        tensor = session.filled(library.Tensor, "tensor", b"weight")
        view = np.ctypeslib.as_array((ctypes.c_float * 8).from_address(tensor.data)).reshape(4, 2)
        expected = view[::-1].copy()
        session.write("weight", view[::-1])
        np.testing.assert_array_equal(session.read("weight", (4, 2)), expected)

    def test_doubles_are_rounded_once(self):
        session = Session()
        session.begin(build("narrow", "--options", "precision-file=%s" % POLICY))
        for value in 1 + 2.0**-8 + 2.0**-40, -1 - 2.0**-8 - 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40:
            session.write("weight.bf16", np.full((4, 2), value), F64)
            nearest = round(abs(value) * 2**7) / 2**7 * (1 if value > 0 else -1)
            self.assertEqual(widen(session.read("weight.bf16", (4, 2), "u2"))[0, 0], nearest)

    def test_metadata_that_could_not_be_read(self):
        session = Session()
        session.begin(build("plain"))
        session.save("metadata", [(b"note", "café".encode())])
        self.fails("not UTF-8", session.save, "metadata", [(b"note", b"caf\xe9")])
        for bad in b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82":
            self.fails("not UTF-8", session.save, "metadata", [(b"note", bad)])
        self.fails("a key of the session's", session.save, "metadata", [(b"mpcomm.samples", b"lots")])
        session.call("resume", os.path.join(FOLDER, "metadata").encode(), None)

    def test_errors_of_background_checkpoints_are_told(self):
        os.makedirs(os.path.join(FOLDER, "taken", "by-another"))
        for call in "load", "resume", "read_state":
            session = Session()
            session.begin(build("plain"))
            session.save("good")
            session.save("taken", background=1)
            more = [os.path.join(FOLDER, "good").encode()] + [None] * (call == "resume")
            session.load(build("plain")) if call == "load" else session.call(call, *more)
            self.assertEqual([e.kind for e in session.events()].count(library.EVENTS.index("warning")), 1)
            self.fails("taken", session.call, "wait")
            session.call("wait")
            session.call.close()

    def test_damage_is_an_event(self):
        session = Session()
        session.begin(build("plain"))
        session.save("damaged")
        with open(os.path.join(FOLDER, "damaged"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        session.events()
        self.fails("damaged", session.call, "resume", os.path.join(FOLDER, "damaged").encode(), None)
        self.assertEqual([e.kind for e in session.events()], [library.EVENTS.index("failed")])

    def test_text_of_events_is_text(self):
        session = Session()
        session.begin(build("plain"))
        for pad in "", "x":
            self.fails("", session.save, "é/" * 200 + pad + "é" * 100)
        for event in session.events():
            event.text.decode()

    def test_options_that_contradict_each_other(self):
        ranks = library.Ranks(2)
        self.fails("rank 0 of 7", Session, ranks, size=7)
        self.fails("an address", Session, ranks, address=b"nonsense:1")
        self.fails("needs an address", Session, size=1, comm=b"gloo")
        session = Session()
        session.begin(build("plain"))
        self.fails("reserved", session.save, "reserved", reserved=(ctypes.c_uint8 * 7)(1))


unittest.main(argv=sys.argv[:1], verbosity=2)
