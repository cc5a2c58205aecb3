# ===- schedule.py - cells of a measurement within a budget -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A cell is one question: what answers it, about how long that takes, and how long it may
take. Cells run in the order in which they are listed, which is that of their value; those
that time something run alone, neighbours that do not run side by side.

A cell starts only if it can end in what is left of the budget. What it is expected to take is
its estimate times the ratio of what cells have taken so far to their estimates. Answers are
written after each cell. A cell that has an answer in an earlier file is not run again, one that
failed or was cut off there is run last."""

import json
import os
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor


class Late(Exception):
    """A cell took longer than it may."""


class Cell:
    def __init__(self, section, name, seconds, answer, limit=None, alone=True, needs=(), leaves=None):
        """`answer(limit)` returns what is kept; `limit` in seconds. `needs`: keys of cells that
        have to have an answer. `leaves()`: whether what it leaves on the machine, for other cells, is there."""
        self.section, self.name, self.seconds, self.answer = section, name, seconds, answer
        self.limit, self.alone, self.needs, self.leaves = limit or 3 * seconds + 20, alone, needs, leaves

    @property
    def key(self):
        return self.section + "/" + self.name if self.name else self.section


class Schedule:
    """Runs cells; `results` has, by key, {"status": "ok" | "wrong" | "failed" | "late" | "left",
    "seconds", "value" or "error"}."""

    def __init__(self, cells, path, budget=None, earlier=None, workers=6, clock=time.monotonic):
        self.cells, self.path, self.budget, self.workers, self.clock = cells, path, budget, workers, clock
        self.results = dict((earlier or {}).get("cells", {}))
        self.extra = {key: value for key, value in (earlier or {}).items() if key != "cells"}
        self.begin = clock()
        self.estimated = self.taken = 20.0  # so that one cell does not decide
        self.lock = threading.Lock()

    def left(self):
        return float("inf") if self.budget is None else self.budget - (self.clock() - self.begin)

    def expected(self, cell):
        with self.lock:
            return cell.seconds * self.taken / self.estimated

    def answered(self, key):
        return self.results.get(key, {}).get("status") in ("ok", "wrong")

    def save(self):
        with self.lock:
            with open(self.path + ".part", "w") as out:
                json.dump({**self.extra, "cells": self.results}, out, indent=1)
            os.replace(self.path + ".part", self.path)

    def keep(self, cell, status, begin, **values):
        seconds = round(self.clock() - begin, 1)
        with self.lock:
            self.results[cell.key] = {"status": status, "seconds": seconds, **values}
            if status in ("ok", "wrong"):
                self.taken, self.estimated = self.taken + seconds, self.estimated + cell.seconds
        print("%-9s %s (%.1f s, expected %.1f; %.0f s left)%s" % (
            status, cell.key, seconds, cell.seconds, self.left(), ": " + str(values["error"])[-1500:] if "error" in values else ""),
            flush=True)  # fmt: skip
        self.save()

    def run_cell(self, cell):
        begin, left, expected = self.clock(), self.left(), self.expected(cell)
        missing = [key for key in cell.needs if not self.answered(key)]
        if missing or expected > left:
            why = "needs " + ", ".join(missing) if missing else "expected to take %.0f s of %.0f s that are left" % (expected, left)
            if not self.answered(cell.key) and self.results.get(cell.key, {}).get("status") not in ("failed", "late"):
                self.keep(cell, "left", begin, error=why)
            return
        try:
            value = cell.answer(min(cell.limit, left))
            wrong = isinstance(value, dict) and value.get("wrong")
            self.keep(cell, "wrong" if wrong else "ok", begin, value=value)
        except Late as error:
            self.keep(cell, "late", begin, error=str(error))
        except Exception:
            self.keep(cell, "failed", begin, error=traceback.format_exc(limit=-4)[-3000:])

    def run(self):
        # What a cell leaves on its machine is not in an answer from another one.
        for cell in self.cells:
            if cell.leaves and self.answered(cell.key) and not cell.leaves():
                del self.results[cell.key]
        todo = [cell for cell in self.cells if not self.answered(cell.key)]
        again = lambda cell: self.results.get(cell.key, {}).get("status") in ("failed", "late")
        todo.sort(key=again)  # stable: first what has not been tried
        while todo:
            if todo[0].alone:
                self.run_cell(todo.pop(0))
                continue
            count = next((i for i, cell in enumerate(todo) if cell.alone), len(todo))
            with ThreadPoolExecutor(self.workers) as pool:
                list(pool.map(self.run_cell, todo[:count]))
            del todo[:count]
        self.save()
        return [cell.key for cell in self.cells if self.results[cell.key]["status"] != "ok"]
