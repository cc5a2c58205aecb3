# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A signal that asks to stop ends a run after a step, the same on all ranks, with a
# checkpoint if one is wanted: no step is lost. The exit status tells the signal.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *

LINE = re.compile(r"^stopped after step (\d+) by signal (\d+)(.*)$", re.M)


def default_signals():
    for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)


class Stopping(RegressionTest):
    def start(self, program, *options, log="log", **variables):
        """A run without an end that writes `log`, by itself in a group."""
        if os.path.exists(path(log)):
            os.remove(path(log))
        process = subprocess.Popen(
            [RUN, *map(str, [path(program), *self.common, "--steps", 10**9, "--log", path(log), *options])],
            env={**os.environ, **variables}, start_new_session=True, preexec_fn=default_signals,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(process.kill)
        return process

    def wait_for(self, log, lines, *processes):
        # The last line may be half-written: only its end counts.
        end = time.monotonic() + SLACK
        while time.monotonic() < end and all(p.poll() is None for p in processes):
            if os.path.exists(path(log)):
                with open(path(log)) as file:
                    if file.read().count("\n") >= lines:
                        return
            time.sleep(0.01)
        self.fail("it does not train: %s" % [p.communicate() for p in processes if p.poll() is not None])

    def ranks_of(self, process):
        with open("/proc/%d/task/%d/children" % ((process.pid,) * 2)) as file:
            return [int(word) for word in file.read().split()]

    def check_continues(self, program, step):
        """The checkpoint is of `step`, the last in the log; what goes on is as if nothing had been."""
        self.assertEqual(read_tensors("c")[1]["mpcomm.step"], str(step))
        self.assertEqual([e["step"] for e in log_of("log")], list(range(1, step + 1)))
        rest = [path(program), "--data", self.data, "--steps", step + 20, "--quiet"]
        self.succeeds(*rest, "--resume", path("c"), "--log", path("log"), "--checkpoint", path("c"))
        self.succeeds(*rest, "--weights", self.weights, "--log", path("whole"), "--checkpoint", path("w"))
        keep = lambda name: [(e["step"], e["loss"]) for e in log_of(name)]
        self.assertEqual(keep("log"), keep("whole"))
        with open(path("c"), "rb") as parts, open(path("w"), "rb") as whole:
            self.assertEqual(parts.read(), whole.read())

    def test_the_step_ends_and_is_kept(self):
        ways = {
            "the launcher": lambda process, number: process.send_signal(number),
            "the group": lambda process, number: os.killpg(process.pid, number),
            "one rank": lambda process, number: os.kill(self.ranks_of(process)[-1], number),
        }
        for number, way, ranks, comm in [
            (signal.SIGTERM, "the launcher", 2, "shm"),
            (signal.SIGINT, "the launcher", 1, "shm"),
            (signal.SIGHUP, "the launcher", 4, "gloo"),
            (signal.SIGINT, "the group", 2, "shm"),
            (signal.SIGTERM, "the group", 4, "shm"),
            (signal.SIGTERM, "one rank", 2, "gloo"),
        ]:  # fmt: skip
            with self.subTest(number=number, way=way, ranks=ranks, comm=comm):
                if comm == "gloo" and not os.path.exists(os.path.join(os.path.dirname(RUN), "../lib/libmprt_gloo.so")):
                    self.skipTest("no Gloo")
                program = "toy%d.so" % ranks
                process = self.start(program, "--checkpoint", path("c"), "--comm", comm)
                self.wait_for("log", 20, process)
                ways[way](process, number)
                out, err = process.communicate(timeout=SLACK)
                self.assertEqual((process.returncode, err.splitlines()),
                                 (128 + number, ["mpcomm-run: error: stopped by signal %d (%s)" % (number, signal.strsignal(number))]))
                step, told, rest = LINE.search(out).groups()
                self.assertEqual((int(told), rest), (number, "; --resume %s continues" % path("c")))
                self.assertIn("\nsteps                  %s\n" % step, out)
                self.check_continues(program, int(step))

    def test_ranks_of_another_launcher(self):
        if not os.path.exists(os.path.join(os.path.dirname(RUN), "../lib/libmprt_gloo.so")):
            self.skipTest("no Gloo")
        port = str(free_port())
        processes = [
            self.start("toy2.so", "--checkpoint", path("c"), log=name, RANK=str(rank), WORLD_SIZE="2",
                       LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            for rank, name in enumerate(["log", "other"])
        ]  # fmt: skip
        self.wait_for("log", 20, *processes)
        # Whichever rank it reaches.
        processes[1].send_signal(signal.SIGTERM)
        ends = [(*process.communicate(timeout=SLACK), process.returncode) for process in processes]
        self.assertEqual([code for _, _, code in ends], [143, 143])
        self.assertEqual([err for _, err, _ in ends], ["mpcomm-run: error: stopped by signal 15 (Terminated)\n", ""])
        self.check_continues("toy2.so", int(LINE.search(ends[0][0]).group(1)))

    def test_without_a_checkpoint(self):
        process = self.start("toy2.so", "--save-weights", path("no-weights"), "--evaluate")
        self.wait_for("log", 20, process)
        process.terminate()
        out, _ = process.communicate(timeout=SLACK)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(LINE.search(out).group(3), "; without --checkpoint its state is lost")
        # What stops early has no result.
        self.assertFalse(os.path.exists(path("no-weights")))
        self.assertNotIn("evaluation", out)

    def test_a_second_signal_does_not_wait(self):
        build("lags.so", RANKS=2, BATCH=8, LAG=60000, LAG_FILE='"%s"' % path("lag"))
        process = self.start("lags.so", "--timeout", 1000, "--checkpoint", path("never"))
        end = time.monotonic() + SLACK
        while not os.path.exists(path("lag")) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.5)
        process.terminate()
        time.sleep(1)
        self.assertIsNone(process.poll())
        process.terminate()
        _, err = process.communicate(timeout=SLACK)
        self.assertEqual((process.returncode, err), (143, "mpcomm-run: error: stopped by signal 15 (Terminated)\n"))
        self.assertFalse(os.path.exists(path("never")))


if __name__ == "__main__":
    main()
