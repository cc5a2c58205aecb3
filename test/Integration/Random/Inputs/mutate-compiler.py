# How many of the mistakes in mistakes.txt random graphs find: puts each into the sources, builds
# the compile server, and runs trials until one fails. Takes hours; not a test.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run by hand: mutate-compiler.py SOURCES BUILD FOLDER. SOURCES is a work tree that is changed, each
file restored, and BUILD its configured build, which is rebuilt from what is restored at the end.
Writes FOLDER/mutations.jsonl, and goes on where it ends; with --suite also says whether other tests
find the mistake."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ["mpcomm-compile-server", "mpcomm-run"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources")
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--graphs", type=int, default=4000, help="trials after which a mistake is missed")
    parser.add_argument("--chunk", type=int, default=200, help="trials between looks at results")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--suite", metavar="REGEX", action="append",
                        help="run the other tests whose names match, too; given again, others where those pass")  # fmt: skip
    parser.add_argument("--first", type=int, default=0, help="the first mistake of a new FOLDER, from 0")
    parser.add_argument("--last", type=int, default=10**9, help="the last mistake of this run")
    parser.add_argument("--check", action="store_true", help="only see that each text is there once")
    return parser.parse_args()


def read_mistakes():
    with open(os.path.join(HERE, "mistakes.txt")) as file:
        blocks = file.read().split("\n\n")
    for block in blocks:
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            path, old, new = lines
            assert old.startswith("- ") and new.startswith("+ "), block
            yield path, old[2:], new[2:]


def read(path):
    with open(path) as file:
        return file.read()


def is_there_once(path, text):
    return os.path.exists(path) and read(path).count(text) == 1


def build(options, targets):
    return subprocess.run(["ninja", "-C", options.build, "-j%d" % options.jobs, *targets], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)  # fmt: skip


def trials(options, name):
    """The number of trials that it took to see a failure; none after all of them."""
    results = os.path.join(options.folder, name)
    shutil.rmtree(results, ignore_errors=True)
    for first in range(0, options.graphs, options.chunk):
        done = subprocess.run([sys.executable, os.path.join(HERE, "..", "campaign.py"), "--tools", os.path.join(options.build, "bin"),
                               "--folder", results, "--first", str(first), "--count", str(options.chunk), "--seconds", "100000",
                               "--jobs", str(options.jobs), "--keep", "0"], stdout=subprocess.DEVNULL)  # fmt: skip
        if done.returncode:
            return first + options.chunk
    return None


def suite(options):
    """Whether a test that is not of random graphs finds it: its name."""
    if build(options, ["all"]).returncode:
        raise RuntimeError("the tools build, but not the rest")
    for names in options.suite:
        done = subprocess.run(["lit-22", "-q", "-j%d" % options.jobs, "--max-failures=1", "--filter", names,
                               "--filter-out", "Integration/Random", os.path.join(options.build, "test")],
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
        failed = re.search(r"mpcomm\S* :: (\S+)", done.stdout)
        if done.returncode and failed:
            return failed[1]
    return None


def attempt(options, number, mistake):
    path, old, new = mistake
    file = os.path.join(options.sources, path)
    text = read(file)
    entry = {"number": number, "file": path, "old": old, "new": new}
    try:
        with open(file, "w") as out:
            out.write(text.replace(old, new))
        start = time.time()
        built = build(options, TARGETS)
        if built.returncode:
            entry["outcome"] = "does not build"
            entry["details"] = built.stdout[-2000:]
            return entry
        entry["graphs"] = trials(options, "mutation-%d" % number)
        entry["outcome"] = "found" if entry["graphs"] else "missed"
        if options.suite:
            entry["suite"] = suite(options)
        entry["seconds"] = round(time.time() - start)
        return entry
    finally:
        with open(file, "w") as out:
            out.write(text)


def main():
    options = parse()
    mistakes = list(read_mistakes())
    wrong = [m for m in mistakes if not is_there_once(os.path.join(options.sources, m[0]), m[1])]
    for path, old, _ in wrong:
        print("%s: expected once: %s" % (path, old))
    if options.check or wrong:
        print("%d mistakes" % len(mistakes))
        sys.exit(1 if wrong else 0)
    os.makedirs(options.folder, exist_ok=True)
    # Nothing is found by what fails anyway.
    if build(options, TARGETS).returncode or trials(options, "as-it-is"):
        sys.exit("the sources as they are do not build, or fail")
    log = os.path.join(options.folder, "mutations.jsonl")
    entries = [json.loads(line) for line in read(log).splitlines()] if os.path.exists(log) else []
    with open(log, "a", buffering=1) as out:
        first = entries[-1]["number"] + 1 if entries else options.first
        for number in range(first, min(len(mistakes), options.last + 1)):
            entries.append(attempt(options, number, mistakes[number]))
            out.write(json.dumps(entries[-1]) + "\n")
            print("%(number)d %(outcome)s %(file)s: %(old)s" % entries[-1], flush=True)
    build(options, ["all"])
    built = [e for e in entries if e["outcome"] != "does not build"]
    print("%d mistakes: random graphs find %d" % (len(built), sum(e["outcome"] == "found" for e in built)))
    if any("suite" in e for e in built):
        print("the other tests find %d" % sum(bool(e.get("suite")) for e in built))


main()
