# ===- measure-schedule.py - cells within a budget, tested ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t
"""Inputs/schedule.py and Inputs/processes.py: order, budget, cells that fail or take too long,
cells side by side, and what a second call runs."""

import json
import os
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
FOLDER = sys.argv.pop(1)
from processes import Worker, execute  # noqa: E402
from schedule import Cell, Late, Schedule  # noqa: E402


class Clock:
    """Goes on where a cell says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class ScheduleTest(unittest.TestCase):
    def setUp(self):
        self.clock, self.ran = Clock(), []
        self.path = os.path.join(FOLDER, self.id().split(".")[-1] + ".json")

    def cell(self, name, seconds, takes=None, fails=None, **more):
        def answer(limit):
            self.ran.append(name)
            self.clock.now += min(limit, seconds if takes is None else takes)
            if fails:
                raise fails
            return {"limit": limit}

        return Cell("s", name, seconds, answer, **more)

    def schedule(self, cells, **more):
        schedule = Schedule(cells, self.path, clock=self.clock, **more)
        schedule.run()
        with open(self.path) as file:
            self.assertEqual(json.load(file)["cells"], schedule.results)
        return {key[2:]: cell["status"] for key, cell in schedule.results.items()}, schedule

    def test_budget(self):
        cells = [self.cell(name, seconds) for name, seconds in [("a", 10), ("b", 50), ("c", 30), ("d", 5)]]
        status, schedule = self.schedule(cells, budget=47)
        self.assertEqual(self.ran, ["a", "c", "d"])  # b does not fit, what follows does
        self.assertEqual(status, {"a": "ok", "b": "left", "c": "ok", "d": "ok"})
        self.assertLessEqual(self.clock.now, 47)
        self.assertEqual(schedule.results["s/c"]["value"]["limit"], 37)  # never beyond the budget

    def test_estimates_follow_what_is_seen(self):
        # All take three times as long: of the last two, which look as if they fit, one does.
        cells = [self.cell(name, 20, takes=60) for name in "abcd"]
        status, _ = self.schedule(cells, budget=200)
        self.assertEqual(status, {"a": "ok", "b": "ok", "c": "ok", "d": "left"})

    def test_failures_and_resume(self):
        cells = [self.cell("a", 1), self.cell("b", 1, fails=RuntimeError("lost")), self.cell("c", 1, fails=Late("slow")), self.cell("d", 1)]
        status, schedule = self.schedule(cells, budget=3.5)
        self.assertEqual(status, {"a": "ok", "b": "failed", "c": "late", "d": "left"})
        self.assertIn("lost", schedule.results["s/b"]["error"])
        # The rest first, then again what went wrong; what has an answer is kept.
        with open(self.path) as file:
            earlier = json.load(file)
        self.ran.clear()
        cells = [self.cell("a", 1), self.cell("b", 1), self.cell("c", 1), self.cell("d", 1)]
        status, _ = self.schedule(cells, earlier=earlier)
        self.assertEqual(self.ran, ["d", "b", "c"])
        self.assertEqual(set(status.values()), {"ok"})
        # A failure is not forgotten where there is no time to try again.
        status, _ = self.schedule(cells, budget=0, earlier=earlier)
        self.assertEqual(status, {"a": "ok", "b": "failed", "c": "late", "d": "left"})

    def test_needs(self):
        cells = [self.cell("a", 1, fails=RuntimeError("lost")), self.cell("b", 1, needs=["s/a"])]
        status, schedule = self.schedule(cells)
        self.assertEqual(status["b"], "left")
        self.assertIn("needs s/a", schedule.results["s/b"]["error"])

    def test_side_by_side(self):
        meeting = threading.Barrier(3, timeout=30)
        cells = [Cell("s", name, 1, lambda limit: meeting.wait() >= 0, alone=False) for name in "abc"] + [self.cell("d", 1)]
        status, _ = self.schedule(cells, workers=3)
        self.assertEqual(set(status.values()), {"ok"})
        # Many that write at the same time.
        cells = [Cell("s", str(i), 1, lambda limit: {"some": 100 * "text"}, alone=False) for i in range(200)]
        status, _ = self.schedule(cells, workers=8)
        self.assertEqual((set(status.values()), len(status)), ({"ok"}, 200))

    def test_processes(self):
        python = [sys.executable, "-c"]
        self.assertEqual(execute(python + ["print(1)"], 60, os.environ), (0, "1\n"))
        self.assertEqual(execute(python + ["raise SystemExit(3)"], 60, os.environ, fails=True)[0], 3)
        with self.assertRaisesRegex(RuntimeError, "status 3"):
            execute(python + ["raise SystemExit(3)"], 60, os.environ)
        # With what it has started.
        sleeper = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
        begin = time.monotonic()
        with self.assertRaisesRegex(Late, "longer than 1 s"):
            execute(python + [sleeper], 1, os.environ)
        # What has left the session is not waited for.
        with self.assertRaisesRegex(Late, "longer than 1 s"):
            execute(["setsid", *python, "import time; time.sleep(30)"], 1, os.environ)
        daemon = "import subprocess, sys, time; subprocess.Popen(['setsid', 'sleep', '40']); time.sleep(600)"
        with self.assertRaisesRegex(Late, "longer than 1 s"):
            execute(python + [daemon], 1, os.environ)
        self.assertLess(time.monotonic() - begin, 35)

    def test_worker(self):
        text = """
import json, sys, time
for number, line in enumerate(sys.stdin):
    job = json.loads(line)
    print("noise", flush=True)
    if job["job"] == "hang": time.sleep(600)
    if job["job"] == "end": sys.exit(1)
    print("RESULT " + json.dumps({"error": "no"} if job["job"] == "fail" else {"value": number}), flush=True)
"""
        worker = Worker([sys.executable, "-c", text], os.environ)
        ask = lambda job, limit=60: worker.ask({"job": job}, limit)
        self.assertEqual([ask("a"), ask("a")], [0, 1])
        with self.assertRaisesRegex(RuntimeError, "no"):
            ask("fail")
        self.assertEqual(ask("a"), 0)  # another process
        with self.assertRaisesRegex(RuntimeError, "ended: noise"):
            ask("end")
        with self.assertRaisesRegex(Late, "hang took longer"):
            ask("hang", 1)
        self.assertEqual(ask("a"), 0)
        worker.end()


unittest.main()
