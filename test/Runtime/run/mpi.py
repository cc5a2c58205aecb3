# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: mpi
#
# Under mpirun the same program gives the same losses as over shared memory,
# and the same mistakes and failures end the run.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *

# OpenMPI keeps some of its memory to the end of the process.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Mpi(RegressionTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build("other2.so", RANKS=2, BATCH=8, COLLECTIVE_ID=9)

    def test_losses(self):
        losses, _, _ = twin(self.samples, 16, 30)
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                outcome = run(
                    path("toy%d.so" % ranks), *self.common, "--steps", 30, "--log", path("log"),
                    "--evaluate", "--checkpoint", path("c"), "--trace", path("t.json"),
                    prefix=mpirun(ranks),
                )  # fmt: skip
                self.assertEqual(outcome.code, 0, str(outcome))
                self.compare(log_of("log"), losses)
                self.assertEqual(outcome.out.count("loss last"), 1, str(outcome))
                self.assertIn("top-1 accuracy", outcome.out)
                self.assertEqual(read_tensors("c")[1]["mpcomm.step"], "30")
                with open(path("t.json")) as file:
                    events = json.load(file)["traceEvents"]
                self.assertEqual({e["pid"] for e in events}, set(range(ranks)))

    def test_resume_over_shared_memory(self):
        program = path("toy2.so")
        first = run(program, *self.common, "--steps", 10, "--checkpoint", path("m"), prefix=mpirun(2))
        self.assertEqual(first.code, 0, str(first))
        self.succeeds(program, "--data", self.data, "--resume", path("m"), "--steps", 12, "--quiet")

    def refused(self, message, *arguments, ranks=2, **settings):
        outcome = run(*arguments, prefix=mpirun(ranks), limit=60, **settings)
        self.assertNotEqual(outcome.code, 0, str(outcome))
        self.assertIn(message, outcome.err, str(outcome))
        return outcome

    def test_mistakes_are_told_once(self):
        outcome = self.refused("compiled for 4 ranks (dp:4), started with 2", path("toy4.so"), *self.common)
        self.assertEqual(outcome.err.count("compiled for 4 ranks"), 1, str(outcome))
        self.refused("--np 3, but mpirun started 2 ranks", path("toy2.so"), *self.common, "--np", 3)
        self.refused("No such file", path("toy2.so"), "--weights", path("none"), "--data", self.data)
        self.refused("compile it with mpcomm-compile first", path("x.mlir"), *self.common)

    def test_ranks_that_differ(self):
        start = ["-np", "1", RUN, path("toy2.so"), *self.common]
        for options, message in [
            (["--lr", "0.2"], "rank 1 has --lr 0.2 where rank 0 has --lr 0.05"),
            (["--steps", "7"], "rank 1 has --steps 7 where rank 0 has --steps 6"),
        ]:
            done = subprocess.run([*(w for w in mpirun(2) if w not in ("-np", "2")), *start, ":", *start, *options], timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr.decode())

    def mixed(self, *variables):
        """What ranks with environments of their own say, one for each of `variables`."""
        ranks = []
        for variable in variables:
            ranks += [":", "-np", "1", "env", variable, RUN, path("toy2.so"), *self.common]
        begin = time.monotonic()
        done = subprocess.run([*(w for w in mpirun(2) if w not in ("-np", "2")), *ranks[1:]], timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - begin, SLACK)
        return done.stderr.decode()

    def test_a_rank_that_cannot_begin_says_why(self):
        self.assertIn("expected MPRT_PROGRESS to be auto, poll or thread, found 'maybe'",
                      self.mixed("MPRT_PROGRESS=poll", "MPRT_PROGRESS=maybe"))  # fmt: skip

    def test_ranks_that_compare_and_ranks_that_do_not(self):
        self.assertIn("MPRT_CHECK is off for rank 0 and on for rank 1; give all ranks the same",
                      self.mixed("MPRT_CHECK=0", "MPRT_CHECK=1"))  # fmt: skip

    def test_another_program(self):
        self.refused("rank 1 runs another program file than rank 0", path("toy2.so"), *self.common,
                     fault="program:rank=1,file=" + path("other2.so"))  # fmt: skip

    def test_killed_in_a_step(self):
        # It is mpirun who notices, and who ends the others.
        outcome = self.refused("rank 1", path("toy2.so"), *self.common, "--steps", 100000,
                               fault="kill:rank=1,step=3")  # fmt: skip
        self.assertRegex(outcome.err + outcome.out, r"exited on signal 9 \(Killed\)")
        self.assertLess(outcome.seconds, 2 + SLACK)

    def test_never_starts(self):
        outcome = self.refused(
            "rank 0: MPI_Init: not all ranks have come within %d s" % TIMEOUT,
            path("toy2.so"), *self.common, "--timeout", TIMEOUT, fault="never-start:rank=1",
        )  # fmt: skip
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_stops_in_a_step(self):
        for ranks, waits in (2, "for rank 1"), (4, "for some of ranks "):
            with self.subTest(ranks=ranks):
                outcome = self.refused(
                    "nothing moved for %d s; waits " % TIMEOUT + waits, path("toy%d.so" % ranks),
                    *self.common, "--timeout", TIMEOUT, "--steps", 100, fault="stop:rank=1,step=5",
                    ranks=ranks,
                )  # fmt: skip
                self.assertIn('"gradients" at toy.mlir:7:3', outcome.err)
                self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_a_backend_that_does_not_load(self):
        # Why the one beside the runtime does not load is the reason to tell.
        copy = path("broken")
        for folder in "bin", "lib":
            shutil.copytree(os.path.join(os.path.dirname(RUN), "..", folder),
                            os.path.join(copy, folder),
                            ignore=lambda _, names: [n for n in names if not n.startswith(("mpcomm-run", "libMPCommRuntime.so"))])  # fmt: skip
        with open(os.path.join(copy, "lib/libmprt_mpi.so"), "w") as file:
            file.write("not a shared object")
        done = subprocess.run(
            [os.path.join(copy, "bin/mpcomm-run"), path("toy2.so"), *self.common, "--comm", "mpi"],
            env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(copy, "lib")),
            timeout=60, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rb"broken/lib/libmprt_mpi.so: (file too short|invalid ELF header)")

    def test_mpi_that_another_launcher_did_not_start(self):
        environment = dict(os.environ, RANK="0", WORLD_SIZE="2")
        done = subprocess.run([RUN, path("toy2.so"), *self.common, "--comm", "mpi"], env=environment,
                              timeout=60, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"started by torchrun as one of 2 ranks, but MPI knows of 1", done.stderr)


if __name__ == "__main__":
    main()
