# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A collective makes progress while the program computes: it has ended before the
# computation beside it has. Shown by the events of a trace, in any one of several
# steps, so that a busy machine does not matter: without progress it could happen
# in none. Between kernels the computing thread moves collectives on; during a
# long one a thread does, on request over shared memory and MPI, always over TCP.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *

os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
STEPS = 6
LIBRARIES = os.path.join(os.path.dirname(os.path.dirname(RUN)), "lib")


class Overlap(ToyTest):
    def program(self, kernels, milliseconds):
        target = path("overlap%d.so" % kernels)
        if not os.path.exists(target):
            source = os.path.join(INPUTS, "overlap-step.c")
            subprocess.run(
                [CC, "-shared", "-fPIC", "-O1", "-I" + INCLUDE, source, "-o", target, "-DRANKS=2",
                 "-DKERNELS=%d" % kernels, "-DMILLISECONDS=%d" % milliseconds],
                check=True)  # fmt: skip
        return target

    def hidden_steps(self, program, *options, prefix=(), progress=None):
        """In how many steps rank 0's all_reduce ended while its kernels ran.

        One that ends before the first kernel begins does not count: ranks that arrive
        at the same moment may finish it in the calls that start it.
        """
        if progress:
            os.environ["MPRT_PROGRESS"] = progress
        try:
            outcome = run(program, "--steps", STEPS, "--quiet", "--trace", path("t.json"),
                          "--timeline", path("timeline.json"), *options, prefix=prefix)  # fmt: skip
        finally:
            os.environ.pop("MPRT_PROGRESS", None)
        self.assertEqual(outcome.code, 0, str(outcome))
        with open(path("t.json")) as file:
            events = [e for e in json.load(file)["traceEvents"] if e["pid"] == 0 and e["ph"] == "X"]
        times = lambda category: [(e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == category]
        collectives, kernels = times("collective"), times("kernel")
        self.assertEqual((len(collectives), len(kernels) % STEPS), (STEPS, 0))
        steps = [kernels[i : i + len(kernels) // STEPS]
                 for i in range(0, len(kernels), len(kernels) // STEPS)]  # fmt: skip
        return sum(step[0][0] < end < step[-1][1] for (_, end), step in zip(collectives, steps))

    def mpirun(self):
        if not os.path.exists(os.path.join(LIBRARIES, "libmprt_mpi.so")) or not shutil.which("mpirun"):
            self.skipTest("no MPI")
        return "mpirun --oversubscribe --allow-run-as-root -np 2".split()

    def gloo(self):
        if not os.path.exists(os.path.join(LIBRARIES, "libmprt_gloo.so")):
            self.skipTest("no Gloo")

    def test_between_kernels(self):
        program = self.program(400, 400)
        self.assertGreater(self.hidden_steps(program), 0)

    def test_between_kernels_over_mpi(self):
        prefix = self.mpirun()
        self.assertGreater(self.hidden_steps(self.program(400, 400), prefix=prefix), 0)

    def test_within_a_kernel(self):
        program = self.program(1, 400)
        # Nobody moves it on: this test can fail.
        self.assertEqual(self.hidden_steps(program, progress="poll"), 0)
        self.assertGreater(self.hidden_steps(program, progress="thread"), 0)

    def test_within_a_kernel_over_mpi(self):
        prefix = self.mpirun()
        program = self.program(1, 400)
        self.assertEqual(self.hidden_steps(program, prefix=prefix, progress="poll"), 0)
        self.assertGreater(self.hidden_steps(program, prefix=prefix, progress="thread"), 0)

    def test_within_a_kernel_over_tcp(self):
        self.gloo()
        self.assertGreater(self.hidden_steps(self.program(1, 400), "--comm", "gloo"), 0)

    def test_timeline(self):
        self.gloo()
        program = self.program(1, 400)
        self.hidden_steps(program, "--comm", "gloo")
        with open(path("timeline.json")) as file:
            timeline = json.load(file)
        self.assertEqual((timeline["schema"], timeline["kind"]), ("mpcomm-timeline-1", "measured"))
        self.assertEqual((timeline["ranks"], timeline["name"]), (2, "overlap"))
        self.assertEqual([s["name"] for s in timeline["streams"]], ["compute", "communicator 0"])
        (collective,) = timeline["collectives"]
        self.assertEqual((collective["bytes"], collective["location"]), (4194304, "overlap.mlir:1"))
        self.assertLessEqual(collective["ready"], collective["start"])
        self.assertLess(collective["start"], collective["end"])
        self.assertGreaterEqual(collective["awaited"], 0.4)
        self.assertGreaterEqual(timeline["seconds"], 0.4)
        # Hidden while the kernel ran, exposed after it: together no more than all of it.
        length = collective["end"] - collective["start"]
        self.assertLessEqual(collective["hidden"] + collective["exposed"], length * 1.001 + 1e-6)
        self.assertAlmostEqual(timeline["compute"], 0.4, delta=0.05 + timeline["seconds"] - 0.4)
        flows = [e.get("flow") for s in timeline["streams"] for e in s["events"]]
        self.assertEqual(flows, [None, collective["id"]])

    def test_profile(self):
        outcome = run(self.program(400, 400), "--steps", STEPS, "--quiet", "--profile", path("p.json"))
        self.assertEqual(outcome.code, 0, str(outcome))
        with open(path("p.json")) as file:
            profile = json.load(file)
        self.assertEqual((profile["schema"], profile["steps"]), ("mpcomm-profile-1", STEPS - 1))
        entries = {tuple(e["locations"]): e for e in profile["entries"]}
        self.assertEqual(entries["overlap.mlir:1",]["op"], "mpcomm.all_reduce")
        # All 400 calls of the kernel are one entry.
        self.assertGreaterEqual(entries["overlap.mlir:2",]["seconds"], 0.4)
        self.assertNotIn("op", entries["overlap.mlir:2",])


if __name__ == "__main__":
    main()
