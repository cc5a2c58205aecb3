# REQUIRES: compiler
# RUN: %python %s %mpcomm-compile %mpcomm-run mpcomm-sim %mpcomm-report %t.dir
#
# The measured timeline of a pipeline has the passes that the simulated one has, on the same
# ranks in the same order; a reason for all that is exposed; and one figure for how much.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two layers on two ranks, with and without data parallelism, under several schedules."""

import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
from programs import run, write_tensors

COMPILE, RUN, SIM, REPORT, FOLDER = sys.argv[1:]
STEP = os.path.join(HERE, "..", "..", "Tools", "mpcomm-compile", "Inputs", "mesh-choice-step.mlir")
MICRO = 3


def path(name):
    return os.path.join(FOLDER, name)


def load(name):
    with open(path(name)) as file:
        return json.load(file)


def passes(timeline):
    """By rank: (action, stage) in the order of time."""
    found = {}
    for stream in timeline["streams"]:
        for event in stream["events"]:
            if "action" in event:
                found.setdefault(stream["rank"], []).append(
                    (event["begin"], event["end"], event["action"], event["stage"]))
    for rank, list_ in found.items():
        list_.sort()
        for (_, end, *_), (begin, *_) in zip(list_, list_[1:]):
            if begin < end:
                sys.exit("passes of rank %d overlap" % rank)
    return {rank: [p[2:] for p in list_] for rank, list_ in sorted(found.items())}


def check(mesh, ranks, schedule):
    options = "mesh=%s micro-batches=%d schedule=%s" % (mesh, MICRO, schedule)
    run(COMPILE, path("step.mlir"), "-o", path("step.so"), "--options", options)
    run(RUN, path("step.so"), "--np", ranks, "--weights", path("w"), "--data", path("d"), "--steps", 4,
        "--timeline", path("measured.json"), "--quiet")  # fmt: skip
    run(SIM, path("step.mlir"), "--pipeline", "mpcomm-graph{%s}" % options, "--json", path("predicted.json"))
    measured, predicted = load("measured.json"), load("predicted.json")
    if passes(measured) != passes(predicted):
        sys.exit("%s: measured %s, predicted %s" % (options, passes(measured), passes(predicted)))
    for key in "schedule", "ranks", "stages", "microbatches":
        if measured["pipeline"][key] != predicted["pipeline"][key]:
            sys.exit("%s: pipeline %s" % (options, measured["pipeline"]))
    names = [[(p["name"], p["rank"], p["ranks"]) for p in t["programs"]] for t in (measured, predicted)]
    if names[0] != names[1]:
        sys.exit("%s: programs %s" % (options, names))
    for c in measured["collectives"]:
        if not c.get("reason") or (c["exposed"] > 0) != (c["reason"] != "none"):
            sys.exit("%s: no reason in %s" % (options, c))
    # What is exposed is what its collectives expose, and how far ranks are apart.
    waits = sum(c["exposed"] for c in measured["collectives"])
    waits += sum(measured["seconds"] - p["seconds"] for p in measured["programs"])
    if abs(waits / len(measured["programs"]) - measured["exposed"]) > 1e-8:
        sys.exit("%s: exposed %g, and by its parts %g" % (options, measured["exposed"], waits))
    # They have the same collectives, so nothing is told when they are compared.
    for one in "predicted.json", "measured.json":
        run(REPORT, path(one), "--svg", path("one.svg"))
    told = run(REPORT, path("predicted.json"), path("measured.json"), "--html", path("page.html"))
    if "exposed measured" not in told:
        sys.exit("%s: not compared:\n%s" % (options, told))


shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
with open(STEP) as source, open(path("step.mlir"), "w") as file:
    file.write(source.read().replace("BATCH", "4"))
small = [((i * 37) % 101 - 50) / 5000 for i in range(256 * 256)]
write_tensors(path("w"), {n: ("F32", [256, 256], small) for n in ("a.weight", "b.weight")})
write_tensors(path("d"), {"x": ("F32", [64, 256], small[: 64 * 256])})
for mesh, ranks in ("pp:2", 2), ("pp:2,dp:2", 4):
    for schedule in ("gpipe", "1f1b", "zb-h1") if ranks == 2 else ("1f1b",):
        check(mesh, ranks, schedule)
