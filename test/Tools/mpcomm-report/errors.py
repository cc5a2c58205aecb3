# Whatever is wrong with a timeline is an error that names the file and the place in it,
# with exit status 1; outputs are whole or as they were.
# RUN: %python %s %mpcomm-report %S/Inputs/predicted.json %t | FileCheck %s
# CHECK: {{[4-9][0-9]}} cases, 0 wrong

import copy
import json
import os
import shutil
import subprocess
import sys

tool, sample, folder = sys.argv[1:]
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)
with open(sample, encoding="utf-8") as file:
    good = json.load(file)
with open("good.json", "w", encoding="utf-8") as file:
    json.dump(good, file)
count = wrong = 0


def complain(name, text):
    global wrong
    wrong += 1
    print("%s: %s" % (name, text))


def check(name, expected, *arguments):
    """The tool must fail with the error, and touch nothing."""
    global count
    count += 1
    with open("old.html", "w", encoding="utf-8") as old:
        old.write("old")
    before = sorted(os.listdir("."))
    result = subprocess.run(
        [tool, *arguments, "--html", "old.html", "--perfetto", "new.trace"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
        check=False)
    error = "mpcomm-report: error: " + expected
    if result.returncode != 1 or result.stdout:
        complain(name, "status %d, output %r" % (result.returncode, result.stdout[:80]))
    if not result.stderr.startswith(error) or result.stderr.count("\n") != 1:
        complain(name, "expected %r, found %r" % (error, result.stderr[-300:]))
    with open("old.html", encoding="utf-8") as old:
        if old.read() != "old" or sorted(os.listdir(".")) != before:
            complain(name, "files changed: %s" % sorted(os.listdir(".")))


def text(name, expected, content):
    with open("bad.json", "wb") as bad:
        bad.write(content)
    check(name, expected, "bad.json")


def edit(path, value, expected):
    """Replaces (or, with `...`, removes) what is at the path."""
    changed = copy.deepcopy(good)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    text("%s = %s" % (path, value), "bad.json: " + expected,
         json.dumps(changed).encode())


text("empty", "bad.json:1:1: malformed JSON: ", b"")
text("cut", "bad.json:", json.dumps(good).encode()[:-20])
text("no object", "bad.json: expected an object, found a list", b"[]")
text("number", "bad.json: expected an object, found 3", b"3")
text("not UTF-8", "bad.json: byte 12 is no UTF-8", b'{"schema": "\xff"}')
text("deep", "bad.json: malformed JSON: nested too deeply", b"[" * 100000)
text("NaN", "bad.json: malformed JSON: NaN is no JSON", b'{"seconds": NaN}')
text("digits", "bad.json: malformed JSON: ", b'{"seconds": ' + b"9" * 5000 + b"}")
check("missing file", "none.json: no such file or directory", "none.json")
check("folder", ".: is a directory", ".")
check("three", "expected one or two timelines, found 3", *["good.json"] * 3)

edit(["schema"], ..., "schema: expected 'mpcomm-timeline-1', of mpcomm-run --timeline or "
     "mpcomm-sim --json, found nothing")
edit(["schema"], "mpcomm-timeline-2",
     "schema: expected 'mpcomm-timeline-1', of mpcomm-run --timeline or mpcomm-sim --json, "
     "found \"mpcomm-timeline-2\"")
edit(["name"], 3, "name: expected a string, found 3")
edit(["kind"], "guessed",
     "kind: expected 'simulated' or 'measured', found \"guessed\"")
for key in ("seconds", "lower_bound", "compute", "exposed"):
    edit([key], ..., key + ": expected a value, found nothing")
    edit([key], -1, key + ": expected seconds from 0 to 1e+09, found -1")
    edit([key], "1", key + ": expected seconds from 0 to 1e+09, found \"1\"")
edit(["seconds"], 0, "seconds: expected a positive number of seconds, found 0")
edit(["seconds"], 1e300, "seconds: expected seconds from 0 to 1e+09, found 1e+300")
edit(["seconds"], True, "seconds: expected seconds from 0 to 1e+09, found true")
edit(["seconds"], None, "seconds: expected seconds from 0 to 1e+09, found null")
edit(["ranks"], 0, "ranks: expected an integer from 1 to 2147483648, found 0")
edit(["ranks"], 1.5, "ranks: expected an integer from 1 to 2147483648, found 1.5")
edit(["peak_bytes"], 2 ** 63, "peak_bytes: expected an integer from 0 to "
     "9223372036854775807, found 9223372036854775808")
edit(["peak_bytes"], 10 ** 200, "peak_bytes: expected an integer from 0 to "
     "9223372036854775807, found 1000000000000000000000000")
edit(["streams"], {}, "streams: expected a list, found an object")
edit(["streams", 1], 7, "streams[1]: expected an object, found 7")
edit(["streams", 1, "rank"], -1, "streams[1].rank: expected an integer from 0 to")
edit(["streams", 1, "name"], "compute",
     "streams[1]: expected a name and rank of its own, found those of streams[0]")
edit(["streams", 0, "events", 0, "action"], "X1", "streams[0].events[0].action: expected F, "
     "B, I or W and the number of a micro-batch, found \"X1\"")
edit(["streams", 0, "events", 0, "action"], "F1",
     "streams[0].events[0].stage: expected a value, found nothing")
edit(["streams", 0, "events", 0], {**good["streams"][0]["events"][0], "action": "F1", "stage": 2},
     "streams[0].events: expected passes on stages of the pipeline, found one on stage 2")
edit(["pipeline"], [], "pipeline: expected an object, found a list")
edit(["pipeline"], {"ranks": 2, "stages": 2, "microbatches": 4, "bubble": 1.5},
     "pipeline.bubble: expected a share from 0 to 1, found 1.5")
edit(["pipeline"], {"ranks": 0}, "pipeline.ranks: expected an integer from 1 to 32768")
edit(["programs"], [{"name": "a"}], "programs[0].rank: expected a value, found nothing")
edit(["streams", 0, "events", 2, "name"], ...,
     "streams[0].events[2].name: expected a value, found nothing")
edit(["streams", 0, "events", 0, "end"], -0.5,
     "streams[0].events[0].end: expected seconds from 0 to 1e+09, found -0.5")
edit(["streams", 0, "events", 1, "end"], 0.001, "streams[0].events[1].end: expected a "
     "time not before 'begin' (0.002), found 0.001")
edit(["streams", 0, "events", 2, "flow"], 5,
     "streams[0].events: expected flows of collectives, found 5, which none has")
edit(["streams", 0, "events", 2, "flow"], "a",
     "streams[0].events[2].flow: expected an integer from -1 to")
edit(["collectives"], ..., "collectives: expected a value, found nothing")
edit(["collectives", 1, "id"], 0,
     "collectives[1].id: expected an id of its own, found that of collectives[0]")
edit(["collectives", 0, "bytes"], -1, "collectives[0].bytes: expected an integer from 0")
edit(["collectives", 0, "hidden"], ..., "collectives[0].hidden: expected a value")
edit(["collectives", 1, "end"], 0.001,
     "collectives[1].end: expected a time not before 'start' (0.006), found 0.001")
edit(["collectives", 1, "reason"], "bad luck", "collectives[1].reason: expected 'none', "
     "'dependency', 'nothing-to-hide-under', 'memory-bound', 'late-peer', "
     "'stream-order', 'below-saturating-size' or 'user-cap', found \"bad luck\"")
edit(["memory"], ..., "memory: expected a value, found nothing")
edit(["memory", 2], [1], "memory[2]: expected a pair of time and bytes, found a list")
edit(["memory", 2, 0], 0.001, "memory[2][0]: expected seconds, not before the point "
     "before it, found 0.001")
edit(["memory", 2, 1], -1, "memory[2][1]: expected an integer from 0 to")

# Outputs that cannot be written: nothing of the others stays.
for arguments, expected in [
        (["--html", "no/page.html", "--perfetto", "t.json"], "no/page.html: no such file"),
        (["--html", "page.html", "--perfetto", "no/t.json"], "no/t.json: no such file"),
        (["--html", "page.html", "--perfetto", "."], ".: is a directory"),
        (["--html", "same", "--perfetto", "same"], "same: named for two outputs")]:
    count += 1
    before = sorted(os.listdir("."))
    result = subprocess.run([tool, "good.json", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    if result.returncode != 1 or result.stdout or \
            not result.stderr.startswith("mpcomm-report: error: " + expected):
        complain(arguments, result.stderr)
    if sorted(os.listdir(".")) != before:
        complain(arguments, "files changed: %s" % sorted(os.listdir(".")))
# A link stays a link.
os.makedirs("far")
os.symlink("far/page.html", "link.html")
subprocess.run([tool, "good.json", "--html", "link.html"], stdout=subprocess.DEVNULL, timeout=60, check=True)
if not os.path.islink("link.html") or os.listdir("far") != ["page.html"]:
    complain("--html link.html", "the link is gone")
print("%d cases, %d wrong" % (count, wrong))
