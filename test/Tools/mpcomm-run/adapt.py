# mpcomm-run begins with a plan of the program, watches the network, and writes what it sees for
# mpcomm-report; what is wrong with these options is said before anything is trained. What a plan
# leaves to the next step is in no checkpoint, and lost in none.
#
# REQUIRES: numpy, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %mpcomm-compile %mpcomm-run %mpcomm_src_root
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import json
import os
import subprocess
import sys

import numpy

FOLDER, COMPILER, RUNNER, ROOT = sys.argv[1:5]


def path(name):
    return os.path.join(FOLDER, name)


def run(*arguments, fails=None):
    start = () if "--resume" in arguments else ("--weights", path("w.safetensors"))
    steps = () if "--steps" in arguments else ("--steps", "20")
    done = subprocess.run(
        [RUNNER, path("step.so"), "--np", "2", *start, *steps, "--data", "x=" + path("x.npy"),
         "--data", "y=" + path("y.npy"), *arguments], capture_output=True, text=True)
    if fails is None:
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    else:
        assert done.returncode != 0 and fails in done.stderr, (arguments, done.stderr)
    return done.stdout


def losses(name):
    with open(path(name), encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file]


def tensors(name):
    """The bytes of the tensors of a checkpoint of one file."""
    with open(path(name), "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    return {key: data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
            for key, entry in header.items() if key != "__metadata__"}


def check_trace():
    """What both plans did, on tracks of both, and where one follows the other."""
    with open(path("trace"), encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["pid"] == 0]
    marks = [event for event in events if event["ph"] == "i"]
    changed = [mark for mark in marks if mark["name"] == "step 7, another plan: 'narrow'"]
    assert len(changed) == 1, marks
    tracks = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert len(set(tracks)) == len(tracks) and tracks[0] == "compute", tracks
    spans = [event for event in events if event["ph"] == "X"]
    assert all(event["tid"] < len(tracks) for event in spans)
    ends = [round(1000 * (e["ts"] + e["dur"])) for e in spans]  # ns
    assert ends == sorted(ends)
    # The program reduces each of two gradients and the loss alone, in f32.
    reduced = [event for event in spans if event["cat"] == "collective"]
    before = [event for event in reduced if event["ts"] < changed[0]["ts"]]
    assert len(before) >= 7 * 3 and len(reduced) > len(before), (len(before), len(reduced))
    assert {e["args"]["bytes"] for e in reduced[-3:]} != {e["args"]["bytes"] for e in before[:3]}


def main():
    subprocess.run([COMPILER, os.path.join(ROOT, "docs/examples/linear.mlir"), "-o",
                    path("step.so"), "--np=2", "--options=buckets=none", "--variant=one: buckets=one",
                    "--variant=narrow: wire=bf16", "--variant=late: defer-bytes=1000"], check=True)
    values = numpy.random.default_rng(0)
    x = values.standard_normal((64, 4)).astype("f4")
    numpy.save(path("x.npy"), x)
    numpy.save(path("y.npy"), x[:, :2].copy())
    weight = numpy.zeros((4, 2), "f4").tobytes() + numpy.zeros(2, "f4").tobytes()
    header = json.dumps({"weight": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]},
                         "bias": {"dtype": "F32", "shape": [2], "data_offsets": [32, 40]}}).encode()
    with open(path("w.safetensors"), "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + weight)

    run("--log", path("plain"))
    run("--log", path("one"), "--variant", "one", "--adapt", "exact", "--adapt-every", "5",
        "--monitor", path("monitor"))
    assert losses("plain") == losses("one"), "an exact plan has other losses"
    run("--log", path("narrow"), "--variant", "narrow")
    assert losses("plain") != losses("narrow"), "the variant was not used"
    with open(path("monitor"), encoding="utf-8") as file:
        looks = [json.loads(line) for line in file]
    assert [look["step"] for look in looks] == [5, 10, 15, 20], looks
    assert {p["name"] for p in looks[0]["plans"]} == {"", "one", "late"}, looks[0]

    # As many steps in two runs, of which the first leaves updates to the second.
    run("--variant", "late", "--steps", "9", "--checkpoint", path("c"))
    run("--variant", "late", "--resume", path("c"), "--log", path("late"), "--checkpoint",
        path("d"))
    run("--variant", "late", "--resume", path("c"), "--log", path("early"), "--adapt", "exact",
        "--adapt-every", "2")
    assert losses("plain")[9:] == losses("late") == losses("early"), "an update is lost"
    run("--checkpoint", path("e"))
    assert tensors("d") == tensors("e") and tensors("d"), "an update is not in the checkpoint"

    # After a warm-up: before it the losses are those of the program, then another's.
    run("--variant", "narrow", "--variant-after", "7", "--log", path("warm"))
    both = losses("warm")
    assert both[:8] == losses("plain")[:8] and both[8:] != losses("plain")[8:], both
    run("--steps", "7", "--checkpoint", path("w"))
    run("--variant", "narrow", "--variant-after", "7", "--resume", path("w"), "--log",
        path("resumed"))
    assert losses("resumed") == both[7:], "a resumed run has other losses"
    run("--variant", "narrow", "--variant-after", "7", "--trace", path("trace"))
    check_trace()
    run("--variant-after", "7", fails="--variant-after requires --variant")
    for other in (("--adapt", "exact"), ("--profile", path("p")), ("--timeline", path("p"))):
        run("--variant", "narrow", "--variant-after", "7", *other, fails="--variant-after excludes")
    run("--variant", "narrow", "--variant-after", "20",
        fails="--variant-after 20: the last step is 20, expected fewer steps before the plan")
    run("--variant", "nothing", fails="no variant 'nothing', expected one of 'one', 'narrow', 'late'")
    run("--adapt", "f33", fails="--adapt or --monitor: options: numerics 'f33', expected one of exact")
    run("--adapt", "exact", "--profile", path("p"), fails="--profile")
    run("--adapt-every", "3", fails="--adapt-every requires --adapt or --monitor")
    run("--plan-command", "true", fails="--adapt")
    run("--monitor", path("log"), "--log", path("log"), fails="--monitor")
    run("--monitor", os.path.join(FOLDER, "none", "x"), fails="--monitor")


if __name__ == "__main__":
    main()
