# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: gloo
#
# Over TCP the same program gives the same losses as over shared memory, whether
# the ranks are started here or by a launcher that tells them of each other as
# torchrun does; ranks that do not come, die or stop end the run in time, named.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import socket

from toy import *


class Gloo(RegressionTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build("other2.so", RANKS=2, BATCH=8, COLLECTIVE_ID=9)
        cls.here = cls.common + ["--comm", "gloo"]

    def test_losses(self):
        losses, _, _ = twin(self.samples, 16, 30)
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                self.succeeds(
                    path("toy%d.so" % ranks), *self.here, "--steps", 30, "--log", path("log"),
                    "--evaluate", "--checkpoint", path("c"), "--trace", path("t.json"),
                )  # fmt: skip
                self.compare(log_of("log"), losses)
                with open(path("t.json")) as file:
                    events = json.load(file)["traceEvents"]
                self.assertEqual({e["pid"] for e in events}, set(range(ranks)))

    def test_same_bits_as_over_shared_memory(self):
        for comm in "gloo", "shm":
            self.succeeds(path("toy4.so"), *self.common, "--comm", comm, "--steps", 20,
                          "--checkpoint", path(comm))  # fmt: skip
        self.assertEqual(read_tensors("gloo")[0], read_tensors("shm")[0])

    def launched(self, ranks, *arguments, port=None, fault=None, **changes):
        """Ranks as torchrun would start them: exit status and messages of each."""
        port = port or free_port()
        processes = []
        for rank in range(ranks):
            environment = dict(
                os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                MASTER_ADDR="localhost", MASTER_PORT=str(port), **changes,
            )  # fmt: skip
            if fault:
                environment["MPRT_FAULT"] = fault
            processes.append(subprocess.Popen(
                [RUN, *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE))  # fmt: skip
        try:
            outputs = [p.communicate(timeout=90) for p in processes]
        finally:
            for process in processes:
                process.kill()
        return [(p.returncode, o[0].decode(), o[1].decode()) for p, o in zip(processes, outputs)]

    def test_launched(self):
        losses, _, _ = twin(self.samples, 16, 10)
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                results = self.launched(ranks, path("toy%d.so" % ranks), *self.common, "--steps", 10,
                                        "--log", path("log"))  # fmt: skip
                for code, _, error in results:
                    self.assertEqual((code, error), (0, ""))
                self.assertEqual(sum("loss last" in out for _, out, _ in results), 1)
                self.compare(log_of("log"), losses)

    def test_a_port_in_use(self):
        with socket.socket() as other:
            other.bind(("0.0.0.0", 0))
            other.listen()
            port = other.getsockname()[1]
            results = self.launched(1, path("toy1.so"), *self.common, port=port)
        self.assertEqual(results[0][0], 1)
        self.assertIn("rank 0 cannot listen on port %d: Address already in use" % port, results[0][2])

    def test_ranks_that_never_come(self):
        outcome = self.fails(
            "ranks that did not come within %d s: 1" % TIMEOUT, path("toy2.so"), *self.here, "--timeout", TIMEOUT,
            fault="never-start:rank=1", lines=None,
        )  # fmt: skip
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_killed_in_a_step(self):
        for ranks, victim in (2, 0), (2, 1), (4, 2):
            with self.subTest(ranks=ranks, victim=victim):
                outcome = self.fails(
                    "rank %d was killed by signal 9 (Killed) in step 3" % victim,
                    path("toy%d.so" % ranks), *self.here, "--quiet", "--steps", 1000000,
                    "--timeout", 100, fault="kill:rank=%d,step=3" % victim, lines=None,
                )  # fmt: skip
                self.assertLess(outcome.seconds, 2 + SLACK)
                self.assertIn('"gradients" at toy.mlir:7:3', outcome.err)
                self.assertIn("rank %d died" % victim, outcome.err)

    def test_stopped_in_a_step(self):
        outcome = self.fails(
            "did not arrive: 1", path("toy2.so"), *self.here, "--quiet", "--timeout", TIMEOUT,
            "--steps", 100, fault="stop:rank=1,step=5", lines=None,
        )  # fmt: skip
        self.assertIn('"gradients" at toy.mlir:7:3', outcome.err)
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_another_program(self):
        self.fails("rank 1 runs another program file than rank 0", path("toy2.so"), *self.here,
                   fault="program:rank=1,file=" + path("other2.so"), lines=None)  # fmt: skip

    def test_half_an_environment(self):
        environment = dict(os.environ, RANK="0", WORLD_SIZE="2")
        done = subprocess.run([RUN, path("toy2.so"), *self.common], env=environment, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"MASTER_ADDR is not set", done.stderr)
        self.assertIn(b"--comm shm starts the ranks here", done.stderr)


if __name__ == "__main__":
    main()
