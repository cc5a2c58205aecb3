# REQUIRES: compiler, numpy, long
# RUN: rm -rf %t.dir
# RUN: %python %s --tools %mpcomm_obj_root/bin --folder %t.dir --seconds 240 --jobs 2
#
# Random training graphs, compiled with random options and run, give what the reference
# interpreter does. A sample is in the suite (sample.test); this runs for as long as it is told.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs trials from --first on, for --seconds or --count, and goes on where results in --folder
end. Failures are minimised and kept in --findings; the summary is printed at the end. It fails, too,
where most of what there is was not compared."""

import argparse
import collections
import glob
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
from generator import KINDS, generate
from minimise import minimise
from tools import Trial, choose_setting, kind_of_message, start_compiler

# Of many graphs: shares of those that give what they should, of those that the interpreter does
# not know, and of elements that may have any value, at least and at most.
LEAST_RIGHT, MOST_UNSUPPORTED, MOST_FREE = 0.95, 0.01, 0.1


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", required=True, help="folder of mpcomm-run and the compiler")
    parser.add_argument("--folder", required=True, help="where results are")
    parser.add_argument("--findings", help="where minimised failures go (default: FOLDER/findings)")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--keep", type=int, default=6, help="failures of a kind that are minimised")
    parser.add_argument("--refusals", action="store_true", help="minimise the first of each message, too")
    parser.add_argument("--summary", action="store_true", help="print the summary of what is there")
    return parser.parse_args()


class Worker:
    def __init__(self, options, index):
        self.options, self.index = options, index
        self.kinds = options.kinds.split(",")
        self.seen = collections.Counter()
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.scratch = tempfile.mkdtemp(prefix="random-%d-" % index, dir=base)
        self.server = start_compiler(options.tools)
        self.trial = Trial(self.server, os.path.join(options.tools, "mpcomm-run"), self.scratch)

    def run(self):
        end = time.time() + self.options.seconds
        path = os.path.join(self.options.folder, "results-%d-%d.jsonl" % (self.options.first, self.index))
        done = 0
        if os.path.exists(path):
            with open(path) as file:
                done = sum(1 for _ in file)
        number = self.options.first + self.index + done * self.options.jobs
        try:
            with open(path, "a", buffering=1) as log:
                while time.time() < end and number < self.options.first + self.options.count:
                    log.write(json.dumps(self.one(number)) + "\n")
                    number += self.options.jobs
        finally:
            self.server.close()
            shutil.rmtree(self.scratch, ignore_errors=True)

    def one(self, seed):
        kind = self.kinds[seed % len(self.kinds)]
        setting = choose_setting(seed, kind)
        entry = {"seed": seed, "kind": kind, "options": setting.text(), "steps": setting.steps}
        try:
            case = generate(seed, kind)
            setting.suit(case.graph)
            entry["options"] = setting.text()
            entry["ops"] = sorted({op.name for op in case.graph.ops})
            outcome, details = self.trial(case, setting, seed)
        except Exception:  # a defect of the tests themselves
            outcome, details = "error", traceback.format_exc()
        entry["outcome"] = outcome
        if outcome == "ok":
            entry["elements"] = details
            return entry
        message = kind_of_message(outcome, details) if outcome != "error" else details.splitlines()[-1]
        entry["message"], entry["details"] = message, details[-2000:]
        bad = outcome in ("differs", "crash", "hang", "failed")
        refused = self.options.refusals and outcome == "refused"
        self.seen[outcome, message] += 1
        count = self.seen[outcome, message]
        if bad and count <= self.options.keep or refused and count == 1:
            if not self.keep(case, setting, seed, outcome, message):
                entry["outcome"] = "unstable"
        return entry

    def keep(self, case, setting, seed, outcome, message):
        def fails(smaller, simpler):
            try:
                got, details = self.trial(smaller, simpler, seed)
            except Exception:
                return False
            return got == outcome and kind_of_message(got, details) == message

        if not fails(case, setting):
            return False
        case, setting = minimise(case, setting, fails)
        outcome, details = self.trial(case, setting, seed)
        findings = self.options.findings or os.path.join(self.options.folder, "findings")
        where = os.path.join(findings, "%s-%d" % (outcome, seed))
        os.makedirs(where, exist_ok=True)
        for end, name in ((".mlir", "step.mlir"), (".w", "w.safetensors"), (".d", "d.safetensors")):
            shutil.copy(self.trial.path(end), os.path.join(where, name))
        command = ("mpcomm-run step.so --np %d --weights w.safetensors --data d.safetensors --steps %d "
                   "--no-shuffle --allow-nonfinite --log log --checkpoint c"
                   % (setting.ranks * setting.stages, setting.steps))  # fmt: skip
        with open(os.path.join(where, "README"), "w") as file:
            file.write('mpcomm-compile step.mlir -o step.so -O%d --options "%s"\n%s\n%s: %s\n%s\n' % (
                setting.level, setting.text(), command, outcome, message, details))  # fmt: skip
        return True


def summary(folder):
    entries = []
    for path in glob.glob(os.path.join(folder, "results-*.jsonl")):
        with open(path) as file:
            entries += [json.loads(line) for line in file]
    print("%d graphs" % len(entries))
    for title, key in (("kind", lambda e: e["kind"]), ("options", lambda e: strip(e["options"]))):
        table = collections.defaultdict(collections.Counter)
        for e in entries:
            table[key(e)][e["outcome"]] += 1
        print("\nby %s:" % title)
        for name, counts in sorted(table.items(), key=lambda x: -sum(x[1].values()))[:40]:
            print("  %-60s %6d  %s" % (name, sum(counts.values()), dict(counts)))
    elements = [sum(e["elements"][i] for e in entries if "elements" in e) for i in range(3)]
    print("\nelements compared: %d exactly, %d within a bound; %d may be any" % tuple(elements))
    ops = collections.Counter(name for e in entries if e["outcome"] == "ok" for name in e["ops"])
    print("\ngraphs that hold an op: " + ", ".join("%s %d" % x for x in ops.most_common()))
    messages = collections.defaultdict(list)
    for e in entries:
        if e["outcome"] != "ok":
            messages[e["outcome"], e["message"]].append(e["seed"])
    print()
    for (outcome, message), seeds in sorted(messages.items(), key=lambda x: -len(x[1])):
        print("%6d %s: %s (%s)" % (len(seeds), outcome, message, ", ".join(map(str, seeds[:4]))))
    return entries


def right_refusals():
    with open(os.path.join(HERE, "Inputs", "refusals.txt")) as file:
        return [re.compile(line.strip()) for line in file if line.strip() and not line.startswith("#")]


def too_little(entries):
    """What there is too little of, or too much, to say anything."""
    count = collections.Counter(e["outcome"] for e in entries)
    elements = [sum(e["elements"][i] for e in entries if "elements" in e) for i in range(3)]
    if len(entries) < 100:
        return
    if count["ok"] < LEAST_RIGHT * len(entries):
        yield "%d of %d graphs are right, expected %g of them" % (count["ok"], len(entries), LEAST_RIGHT)
    if count["unsupported"] > MOST_UNSUPPORTED * len(entries):
        yield "the interpreter knows %d of %d graphs not" % (count["unsupported"], len(entries))
    if elements[2] > MOST_FREE * sum(elements) or not elements[0]:
        yield "%d of %d elements may be any" % (elements[2], sum(elements))


def strip(options):
    return " ".join(w for w in options.split() if w.split("=")[0] in ("mesh", "micro-batches", "precision"))


def work(options, index):
    Worker(options, index).run()


def main():
    options = parse()
    os.makedirs(options.folder, exist_ok=True)
    if not options.summary:
        children = [multiprocessing.Process(target=work, args=(options, i)) for i in range(options.jobs)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        if any(child.exitcode for child in children):
            sys.exit("a worker failed")
    entries = summary(options.folder)
    refusals = right_refusals()
    bad = [e for e in entries if e["outcome"] not in ("ok", "unsupported")
           and not (e["outcome"] == "refused" and any(r.search(e["details"]) for r in refusals))]  # fmt: skip
    for e in bad:
        print("FAIL seed %d: %s: %s" % (e["seed"], e["outcome"], e["details"]))
    short = list(too_little(entries))
    for message in short:
        print("FAIL: " + message)
    sys.exit(1 if bad or short or not entries else 0)


if __name__ == "__main__":
    main()
