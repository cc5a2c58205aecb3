# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Ranks that die, hang, never start or run another program, and launchers that
# are interrupted or killed: each ends within its time, with a message and a
# status, and leaves no process behind (and with it goes the memory that ranks
# share, which has no name). Times are those of
# docs/Testing/Faults.md, with room for a busy machine.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import signal

from toy import *

def processes_of(program):
    """Processes that were started with `program` on their command line."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            with open("/proc/%s/stat" % name) as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except (OSError, ValueError):
            continue
        if name.isdigit() and program in words and RUN in words and state != "Z":
            found.append(int(name))
    return found


def dispositions(ignored):
    """To be called before exec: these are ignored, and no other."""
    for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD:
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


class Faults(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(64).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        for ranks in 1, 2, 4:
            build("toy%d.so" % ranks, RANKS=ranks, BATCH=4)
        build("other2.so", RANKS=2, BATCH=4, COLLECTIVE_ID=9)
        cls.common = ["--weights", cls.weights, "--data", cls.data, "--quiet"]

    def tearDown(self):
        orphans = self.orphans_after(2)
        for process in orphans:
            os.kill(process, signal.SIGKILL)
        self.assertEqual(orphans, [])

    def orphans_after(self, seconds):
        """Ranks and launchers that are still there once `seconds` have passed."""
        deadline = time.monotonic() + seconds
        while True:
            found = [p for n in (1, 2, 4) for p in processes_of(path("toy%d.so" % n))]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def test_killed_in_a_step(self):
        for ranks, victim in (2, 0), (2, 1), (4, 2):
            with self.subTest(ranks=ranks, victim=victim):
                outcome = self.fails(
                    "rank %d was killed by signal 9 (Killed) in step 3" % victim,
                    path("toy%d.so" % ranks), *self.common, "--steps", 1000000, "--timeout", 100,
                    fault="kill:rank=%d,step=3" % victim, lines=None,
                )  # fmt: skip
                self.assertLess(outcome.seconds, 2 + SLACK)
                # The others say what they were waiting for.
                self.assertIn("gradients", outcome.err)
                self.assertIn("toy.mlir:7:3", outcome.err)

    def test_a_single_rank_killed(self):
        self.fails(
            "rank 0 was killed by signal 9 (Killed) in step 1",
            path("toy1.so"), *self.common, fault="kill:rank=0,step=1",
        )  # fmt: skip

    def test_never_starts(self):
        outcome = self.fails(
            "did not arrive: 1", path("toy2.so"), *self.common, "--timeout", TIMEOUT,
            fault="never-start:rank=1", lines=None,
        )  # fmt: skip
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_the_only_rank_never_starts(self):
        outcome = self.fails(
            "rank 0 (process", path("toy1.so"), *self.common, "--timeout", TIMEOUT,
            fault="never-start:rank=0",
        )  # fmt: skip
        self.assertIn("did not start within", outcome.err)
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_hangs_in_a_step(self):
        outcome = self.fails(
            "did not arrive: 1", path("toy2.so"), *self.common, "--timeout", TIMEOUT, "--steps", 100,
            fault="stop:rank=1,step=5", lines=None,
        )  # fmt: skip
        self.assertIn('"gradients" at toy.mlir:7:3', outcome.err)
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_stopped_together_and_continued(self):
        # One rank waits for the other nearly always.
        build("lags.so", RANKS=2, BATCH=8, LAG=100, LAG_FILE='"%s"' % path("lag"))
        outcome = run_with_a_pause(path("lags.so"), *self.common)
        self.assertIn("stopped by signal 15", outcome.err, str(outcome))
        self.assertNotIn("timed out", outcome.err, str(outcome))

    def test_another_program(self):
        outcome = self.fails(
            "rank 1 runs another program file than rank 0", path("toy2.so"), *self.common,
            fault="program:rank=1,file=" + path("other2.so"),
        )  # fmt: skip
        self.assertLess(outcome.seconds, 2 + SLACK)

    def test_another_program_that_does_not_load(self):
        outcome = self.fails(
            "rank 1: /nowhere: cannot open", path("toy2.so"), *self.common,
            fault="program:rank=1,file=/nowhere", lines=None,
        )  # fmt: skip
        self.assertLess(outcome.seconds, 2 + SLACK)

    def begin(self, *options, ignored=()):
        """Starts a run that would not end, and waits until it trains."""
        log = path("log")
        if os.path.exists(log):
            os.unlink(log)
        process = subprocess.Popen(
            [RUN, path("toy2.so"), *self.common, "--steps", "1000000000", "--log", log, *options],
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: dispositions(ignored),
        )
        deadline = time.monotonic() + SLACK
        while not (os.path.exists(log) and os.path.getsize(log)):
            self.assertLess(time.monotonic(), deadline, "the run did not start")
            time.sleep(0.02)
        return process

    def test_signals_to_the_launcher(self):
        for number, group in (
            (signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGHUP, False),
            (signal.SIGINT, True),
        ):  # fmt: skip
            with self.subTest(signal=number, group=group):
                process = self.begin()
                start = time.monotonic()
                (os.killpg if group else os.kill)(process.pid, number)
                error = process.communicate(timeout=2 + SLACK)[1].decode()
                self.assertLess(time.monotonic() - start, 2 + SLACK)
                self.assertEqual(process.returncode, 128 + number, error)
                self.assertIn("stopped by signal %d" % number, error)

    def test_a_signal_that_is_ignored_stays_ignored(self):
        # As nohup leaves SIGHUP, and a script SIGINT in its background.
        process = self.begin(ignored=(signal.SIGHUP, signal.SIGINT))
        for number in signal.SIGHUP, signal.SIGINT:
            os.kill(process.pid, number)
        time.sleep(1)
        self.assertIsNone(process.poll())
        process.terminate()
        error = process.communicate(timeout=2 + SLACK)[1].decode()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, error)

    def test_children_that_the_parent_ignores(self):
        # Whoever starts this may have left SIGCHLD ignored.
        ignore = lambda: dispositions((signal.SIGCHLD,))
        # A sanitizer that looks for leaks waits for a child of its own, in vain.
        os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        self.succeeds(path("toy2.so"), *self.common, "--steps", 5, limit=2 + SLACK, preexec_fn=ignore)
        self.fails("rank 1 was killed by signal 9", path("toy2.so"), *self.common, limit=2 + SLACK,
                   lines=None, preexec_fn=ignore, fault="kill:rank=1,step=3")  # fmt: skip

    def test_the_launcher_killed(self):
        process = self.begin()
        self.assertEqual(len(processes_of(path("toy2.so"))), 3)
        process.kill()
        process.wait()
        process.stderr.close()
        self.assertEqual(self.orphans_after(2 + SLACK), [], "ranks outlive the launcher")

    def test_killed_while_a_checkpoint_is_written(self):
        # Whatever the moment: no temporary file, and the last checkpoint loads.
        folder = path("ckpt")
        os.makedirs(folder, exist_ok=True)
        checkpoint = os.path.join(folder, "c")
        for delay in 0.0, 0.013, 0.029:
            process = self.begin("--checkpoint", checkpoint, "--checkpoint-every", "1")
            time.sleep(delay)
            process.terminate()
            process.communicate()
            self.assertIn(os.listdir(folder), ([], ["c"]))
        if os.path.exists(checkpoint):
            step = int(read_tensors("ckpt/c")[1]["mpcomm.step"])
            self.succeeds(
                path("toy2.so"), "--data", self.data, "--quiet", "--resume", checkpoint,
                "--steps", step + 2,
            )  # fmt: skip

    def test_hook_is_checked(self):
        self.fails("MPRT_FAULT: kind 'explode'", path("toy1.so"), *self.common,
                   fault="explode:rank=0", code=2)  # fmt: skip
        self.fails("MPRT_FAULT: 'rank=x'", path("toy1.so"), *self.common,
                   fault="kill:rank=x", code=2)  # fmt: skip


if __name__ == "__main__":
    main()
