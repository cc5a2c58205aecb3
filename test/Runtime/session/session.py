# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session
#
# Each call of Session.h does what its comment says, from a program in C: alone, as two threads, as
# two processes, under a launcher's environment, and in eight threads with a world each.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys
import tempfile

CLIENT = sys.argv.pop(5)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run", "Inputs"))
from toy import *

# By which a launcher is known.
LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR")


class Session(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.plain = build("plain.so", BATCH=8)
        cls.larger = build("larger.so", BATCH=16)
        cls.two = build("two.so", RANKS=2, BATCH=8)

    def case(self, name, *programs, **variables):
        work = tempfile.mkdtemp(dir=WORK)
        plain = {key: value for key, value in os.environ.items() if key not in LAUNCHERS}
        done = subprocess.run([CLIENT, name, *programs], cwd=work, capture_output=True, text=True,
                              timeout=120, env={**plain, **variables})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_state(self):
        self.case("state", self.plain)

    def test_batch(self):
        self.case("batch", self.plain)

    def test_state_in_a_buffer_of_its_own(self):
        self.case("batch", build("loose.so", BATCH=8, LOOSE_STATE=1))
        self.case("files", build("loose.so"))

    def test_copies(self):
        self.case("copies", build("copied.so", BATCH=8, COPIED=1))

    def test_hyperparameters(self):
        self.case("hyperparameters", self.plain)

    def test_files(self):
        self.case("files", self.plain)

    def test_kept(self):
        self.case("kept", self.plain)

    def test_a_run_and_a_session_resume_each_other(self):
        work = tempfile.mkdtemp(dir=WORK)
        file, data = os.path.join(work, "c"), Samples(64).write("each.safetensors")
        until = lambda step: subprocess.run([CLIENT, "until", self.plain, str(step)], cwd=work, capture_output=True,
                                            text=True, timeout=120)  # fmt: skip
        self.assertEqual(until(4).returncode, 0)
        start = [self.plain, "--data", data, "--resume", file, "--checkpoint", file, "--no-shuffle", "--last-batch", "wrap"]
        # It does not say of which data it is.
        outcome = self.succeeds(*start, "--steps", 6)
        self.assertNotIn("warning", outcome.out)
        done = until(8)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step 8:", done.stdout)
        self.assertEqual(read_tensors(file)[1]["mpcomm.step"], "8")

    def test_files_of_two_ranks(self):
        self.case("files-of-two", self.two)
        self.case("files-of-two", build("bulk.so", RANKS=2, BATCH=8, BULK=20000), "sharded")
        self.case("files-of-two", build("parts.so", RANKS=2, BATCH=8, BULK=50000), "sharded")

    def test_events(self):
        self.case("events", self.plain)

    def test_adapt(self):
        self.case("adapt", self.plain)

    def test_switch(self):
        self.case("switch", self.plain, self.larger)

    def test_errors(self):
        self.case("errors", self.plain, self.two)

    def test_two_threads(self):
        self.case("threads", self.two)

    def test_two_processes(self):
        self.case("processes", self.two)

    def test_peer_fails(self):
        self.case("peer-fails", self.two)

    def test_eight_worlds(self):
        self.case("worlds", self.plain)

    def test_environment_without_a_launcher(self):
        self.assertIn("rank 0 of 1 over self", self.case("launched", self.plain))


if __name__ == "__main__":
    main()
