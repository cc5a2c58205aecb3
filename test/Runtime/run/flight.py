# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Stages that disagree, wait for one another, hang or die: both sides' places are told within the
# timeout, and each rank that is left writes its last collectives, also when it is only asked to.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import signal

from stages import *

# Who sends and receives what, and where.
SEND_F = 'send "F0" at stages.mlir:10:3'
RECV_F = 'recv "F0" at stages.mlir:20:3'
RECV_B = 'recv "B0" at stages.mlir:11:3'


class Flight(StageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_stages("longer.so", staged(), FORWARD_COUNT=9)
        build_stages("swapped.so", staged(), SWAPPED=1)
        cls.common = ["--weights", cls.weights, "--data", cls.data, "--quiet"]

    def setUp(self):
        shutil.rmtree(path("flight"), ignore_errors=True)

    def fails_with_record(self, program, *options, limit, **settings):
        outcome = run(
            path(program), *self.common, "--steps", 100, "--timeout", TIMEOUT,
            "--flight-record", path("flight"), *options, **settings,
        )  # fmt: skip
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertLess(outcome.seconds, limit + SLACK)
        return outcome

    def record(self, rank):
        with open(path("flight/rank-%d.json" % rank)) as file:
            record = json.load(file)
        self.assertEqual(record["schema"], "mpcomm-flight-1")
        self.assertEqual(record["rank"], rank)
        self.assertEqual(record["ranks"], 2)
        numbers = [c["number"] for c in record["collectives"]]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        for collective in record["collectives"]:
            times = [collective[key] for key in ("enqueued", "started", "done")]
            known = [t for t in times if t]
            # What has a later time has the earlier ones, in order.
            self.assertEqual(times[: len(known)], known)
            self.assertEqual(known, sorted(known))
            self.assertEqual(collective["state"], ("enqueued", "started", "done")[len(known) - 1])
        return record

    def test_messages_of_different_length(self):
        for comm in "shm", "gloo":
            with self.subTest(comm=comm):
                outcome = self.fails_with_record("longer.so", "--comm", comm, limit=2)
                self.assertIn("ranks call different collectives", outcome.err)
                for side in SEND_F, RECV_F, "9 x f32", "8 x f32":
                    self.assertIn(side, outcome.err)
                record = self.record(1)
                self.assertEqual(record["reason"], "failure")
                self.assertIn(RECV_F, record["error"])
                first = record["collectives"][0]
                self.assertEqual(
                    {k: first[k] for k in ("kind", "name", "location", "count", "dtype", "peer")},
                    {"kind": "recv", "name": "F0", "location": "stages.mlir:20:3", "count": 9,
                     "dtype": "f32", "peer": 0},
                )  # fmt: skip
                self.assertEqual((first["communicator"], first["channel"], first["axes"]), (0, 1, ["pp"]))
                self.assertEqual(first["state"], "started")

    def test_ranks_that_wait_for_one_another(self):
        for comm in "shm", "gloo":
            with self.subTest(comm=comm):
                outcome = self.fails_with_record("swapped.so", "--comm", comm, limit=TIMEOUT + 1)
                self.assertIn("timed out", outcome.err)
                self.assertIn(RECV_B, outcome.err)
                self.assertIn(RECV_F, outcome.err)
                if comm == "shm":
                    # Whoever is first names the other's place, too, and may be told by the other.
                    first = re.sub(r".*rank \d failed: ", "", outcome.err.split("\n")[0])
                    self.assertIn(RECV_B, first)
                    self.assertIn("(last called " + (RECV_F if "on rank 0" in first else RECV_B), first)
                waiting = [c for c in self.record(0)["collectives"] if c["name"] == "B0"]
                self.assertEqual([c["state"] for c in waiting][0], "started")
                waiting = [c for c in self.record(1)["collectives"] if c["name"] == "F0"]
                self.assertEqual([c["state"] for c in waiting][0], "started")

    def test_a_rank_that_stalls(self):
        outcome = self.fails_with_record(
            "pp2.so", fault="stop:rank=1,step=3", limit=TIMEOUT + 1
        )
        self.assertRegex(
            outcome.err,
            r'rank 0 \(its collective 1[1-9]\): timed out: nothing moved for 4 s; ranks that '
            r'arrived: 0; ranks that did not finish: 1 \(last called send "B0" at stages.mlir:21:3\)',
        )
        last = self.record(0)["collectives"]
        # 2 micro-batches forth and back, gradients and loss in a step.
        self.assertEqual(last[-1]["number"], 16)
        self.assertEqual({c["state"] for c in last[:12]}, {"done"})
        self.assertIn("started", {c["state"] for c in last[12:]})

    def test_asked_without_a_folder(self):
        # As by `sbatch --signal=USR1@60`: to all processes of the step, or to the launcher alone.
        for send in os.killpg, os.kill:
            for comm in "shm", "gloo":
                with self.subTest(send=send.__name__, comm=comm):
                    outcome = run_through(lambda process: send(process.pid, signal.SIGUSR1), path("pp2.so"),
                                          *self.common, "--comm", comm)  # fmt: skip
                    self.assertEqual(outcome.code, 128 + signal.SIGTERM, str(outcome))
                    self.assertEqual(outcome.err, "mpcomm-run: error: stopped by signal 15 (Terminated)\n")

    def test_a_rank_that_dies(self):
        outcome = self.fails_with_record("pp2.so", fault="kill:rank=0,step=3", limit=2)
        self.assertIn("rank 0 was killed by signal 9 (Killed) in step 3", outcome.err)
        record = self.record(1)
        self.assertIn("rank 0", record["error"])
        waiting = [c for c in record["collectives"] if c["state"] != "done"]
        self.assertEqual(waiting[0]["location"], "stages.mlir:20:3")
        self.assertFalse(os.path.exists(path("flight/rank-0.json")))

    def test_the_last_few(self):
        self.fails_with_record(
            "pp2.so", "--flight-collectives", 5, fault="stop:rank=1,step=3", limit=TIMEOUT + 1
        )
        self.assertEqual([c["number"] for c in self.record(0)["collectives"]], [12, 13, 14, 15, 16])

    def test_on_request(self):
        process = subprocess.Popen(
            [RUN, path("pp2.so"), *self.common, "--steps", "100000000", "--log", path("running"),
             "--flight-record", path("flight")]
        )  # fmt: skip

        def wait_for(names):
            end = time.monotonic() + SLACK
            while not all(map(os.path.exists, names)) and time.monotonic() < end:
                time.sleep(0.1)

        try:
            wait_for([path("running")])
            os.kill(process.pid, signal.SIGUSR1)
            wait_for([path("flight/rank-%d.json" % r) for r in (0, 1)])
            for rank in 0, 1:
                self.assertEqual(self.record(rank)["reason"], "request")
                self.assertIsNone(self.record(rank)["error"])
            self.assertIsNone(process.poll())
        finally:
            process.terminate()
            process.wait(SLACK)

    def test_nothing_of_an_earlier_run_is_left(self):
        os.makedirs(path("flight"))
        write_raw("flight/rank-0.json", b"{}", b"")
        self.train("pp2.so", "--steps", 3, "--flight-record", path("flight"))
        self.assertEqual(os.listdir(path("flight")), [])

    def test_names_of_other_files(self):
        os.makedirs(path("named"), exist_ok=True)
        for option in "--weights", "--checkpoint":
            name = write_tensors("named/rank-0.json", weights())
            with open(name, "rb") as file:
                contents = file.read()
            rest = ["--data", Samples(64).write("d.safetensors")]
            rest += [] if option == "--weights" else ["--weights", write_tensors("w.safetensors", weights())]
            self.fails("%s %s: that may be the name of a record that --flight-record writes" % (option, name),
                       build("toy.so"), *rest, option, name, "--flight-record", path("named"), code=2)  # fmt: skip
            with open(name, "rb") as file:
                self.assertEqual(file.read(), contents)

    def test_no_folder(self):
        self.fails(
            "--flight-record %s: cannot create: File exists" % path("d.safetensors"), path("pp2.so"),
            *self.common, "--steps", 1, "--flight-record", path("d.safetensors"),
        )  # fmt: skip


if __name__ == "__main__":
    main()
