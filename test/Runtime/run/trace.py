# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# The trace is one JSON object in Chrome's format: a process for each rank, a
# named track for each stream, and on them the kernels and the collective of
# each step, in order and without overlap on one track. A run that fails leaves
# what its first rank saw.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *

STEPS = 5


class Trace(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(64).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        cls.common = ["--weights", cls.weights, "--data", cls.data, "--quiet"]

    def trace(self, ranks, steps):
        program = build("toy%d.so" % ranks, RANKS=ranks, BATCH=4)
        self.succeeds(program, *self.common, "--steps", steps, "--trace", path("trace.json"))
        with open(path("trace.json")) as file:
            return json.load(file)["traceEvents"]

    def test_tracks_and_events(self):
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                events = self.trace(ranks, STEPS)
                names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
                self.assertEqual(names, {r: "rank %d" % r for r in range(ranks)})
                tracks = {
                    (e["pid"], e["tid"]): e["args"]["name"]
                    for e in events
                    if e["name"] == "thread_name"
                }
                for rank in range(ranks):
                    self.assertEqual(tracks[rank, 0], "compute")
                    self.assertEqual(tracks[rank, 1], "communicator 0 (dp)")
                spans = [e for e in events if e["ph"] == "X"]
                for rank in range(ranks):
                    on = lambda name, tid: [
                        e for e in spans if (e["pid"], e["tid"], e["name"]) == (rank, tid, name)
                    ]
                    for name, tid in ("backward", 0), ("update", 0), ("gradients", 1):
                        self.assertEqual(len(on(name, tid)), STEPS, (rank, name))
                    for tid in 0, 1:
                        self.check_track([e for e in spans if (e["pid"], e["tid"]) == (rank, tid)])
                    # The collective of a step lies between its two kernels.
                    for before, during, after in zip(
                        on("backward", 0), on("gradients", 1), on("update", 0)
                    ):
                        self.assertLessEqual(before["ts"] + before["dur"], during["ts"] + 0.01)
                        self.assertLessEqual(during["ts"] + during["dur"], after["ts"] + 0.01)
                self.assertGreaterEqual(min(e["ts"] for e in spans), 0)

    def check_track(self, spans):
        end = 0
        for event in sorted(spans, key=lambda e: e["ts"]):
            # Written in whole nanoseconds, read as binary fractions.
            self.assertGreaterEqual(event["ts"], end - 0.002)
            end = event["ts"] + event["dur"]

    def test_location_and_bytes(self):
        events = self.trace(2, 1)
        (collective,) = [e for e in events if e.get("cat") == "collective" and e["pid"] == 1]
        self.assertEqual(collective["name"], "gradients")
        self.assertEqual(collective["args"]["location"], "toy.mlir:7:3")
        self.assertEqual(collective["args"]["bytes"], 24)
        flops = {e["name"]: e["args"]["flops"] for e in events if e.get("cat") == "kernel"}
        self.assertEqual(flops, {"backward": 256, "update": 32})

    def test_a_long_run(self):
        # More than fits one round of gathering, and maybe more than is kept.
        events = self.trace(2, 3000)
        self.assertGreater(len(events), 1000)

    def test_a_place_that_takes_no_file(self):
        # Told before the first step: nobody waits for so many to learn it.
        for place, message in (
            (path("none/trace.json"), "cannot create a temporary file beside it: No such file"),
            (WORK, "not a regular file"),
        ):  # fmt: skip
            self.fails(message, build("toy2.so", RANKS=2, BATCH=4), *self.common,
                       "--steps", 10**9, "--trace", place)  # fmt: skip

    def test_a_run_that_fails(self):
        # What led there is there to see, of the rank that writes; and all of it
        # takes the place of what was there before.
        with open(path("failed.json"), "w") as file:
            file.write("the trace of an earlier run\n" * 10000)
        self.fails("rank 1 was killed", build("toy2.so", RANKS=2, BATCH=4), *self.common,
                   "--steps", 9, "--trace", path("failed.json"), lines=None,
                   fault="kill:rank=1,step=4")  # fmt: skip
        with open(path("failed.json")) as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({e["pid"] for e in events}, {0})
        self.assertEqual(len([e for e in events if e["name"] == "backward"]), 4)
        self.assertEqual(len([e for e in events if e["name"] == "update"]), 3)
        self.assertEqual([n for n in os.listdir(WORK) if ".tmp" in n], [])


if __name__ == "__main__":
    main()
