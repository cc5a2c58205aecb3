#!/usr/bin/env python3
# ===- measure.py - training on a GPU, beside PyTorch and JAX --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, ptxas, cuda-device
# RUN: rm -rf %t.out
# RUN: %python %S/pack.py %t.pack --bin=%mpcomm_obj_root/bin \
# RUN:   --only=gpt-check-f32,gpt-check-bf16,gpt-check-dp2,resnet-check-f32,one-rank --small
# RUN: %python %s %t.pack --sections=device,alone,cases,check,nccl --out=%t.out | FileCheck %s
# CHECK-NOT: wrong
# CHECK: {{[0-9]+}} of {{[0-9]+}} cells are ok
"""Runs what pack.py has packed, on a machine with a GPU and PyTorch; needs no compiler.

  measure.py FOLDER [--out=FOLDER] [--budget=SECONDS] [--resume=results.json]
             [--sections=NAME,...] [--only=REGEX] [--list]
  measure.py --report=results.json

Answers are cells (Inputs/schedule.py), by section:

  prepare    weights and data of the models that are measured, from a seed
  device     copy bandwidth and product rates, by PyTorch: what the rest is held against
  steps      step time, memory, host time and its parts, nodes of the graph, and each kernel
             and product of a step
  attention  PyTorch's attention by cuDNN and by flash attention; ops: other ops of a step
  peers      step times of PyTorch (eager, torch.compile in two modes) and of JAX
  warm       torch.compile beforehand, several models side by side
  check      losses against PyTorch on this GPU; ranks that share it against one rank
  nccl       a rank that packs, reduces through NCCL and unpacks; ranks that NCCL refuses; one
             that is killed
  alone      kernels launched alone against their definitions
  cases      small models against what they are on a processor
  sanitize   memcheck, racecheck and synccheck of compute-sanitizer on small models
  calibrate  the cluster file of this GPU
  profile    Nsight Compute on kernels of GPT-2 small

OUT gets results.json after each cell, traces.tar.gz, and what calibrate and profile write."""

import argparse
import functools
import json
import os
import re
import signal
import statistics
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
TESTS = os.path.join(ROOT, "test", "Integration")
sys.path[:0] = [HERE, os.path.join(HERE, "Inputs"), os.path.join(TESTS, "Inputs"), os.path.join(TESTS, "CUDA", "Inputs")]
import tables  # noqa: E402
from gpu_programs import ALONE, JAX, KERNELS, MEASURED, TUNED, VARIANTS  # noqa: E402
from processes import Runner, Worker, execute  # noqa: E402
from schedule import Cell, Schedule  # noqa: E402

GRAPH_STEPS, WARM, TRACED_STEPS, CHECKED_STEPS = 40, 12, 10, 8
U = 2.0**-24
UNITS = {"none": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11, "fp8": 2.0**-4}


# --- the same as on a processor ---------------------------------------------------


def run_case(runner, case, limit, *before, steps=None):
    """Losses and state of a small model; with a tool before it, what the tool prints."""
    from programs import read_tensors

    path = os.path.join(runner.folder, "cases", case["name"])
    log, out = (os.path.join(runner.work, case["name"] + end) for end in (".log", ".state"))
    command = [*before, runner.tool, path + ".so", "--device", "cuda", "--np", case["ranks"], "--weights", path + ".w",
               "--data", path + ".d", "--steps", steps or case["steps"], "--seed", 7, "--quiet"]  # fmt: skip
    if before:
        return execute(command, limit, runner.environment, fails=True)
    execute([*command, "--log", log, "--save-weights", out], limit, runner.environment)
    with open(log) as lines:
        return [json.loads(line)["loss"] for line in lines], read_tensors(out)


def compare_case(runner, case, limit):
    """Bounds: small_models.py."""
    from programs import read_tensors
    from small_models import CASES, OPERATOR_BOUND, distance, largest_distance

    losses, state = run_case(runner, case, limit)
    expected = case["losses"], read_tensors(os.path.join(runner.folder, "cases", case["name"] + ".state"))
    if "case" in case:
        loss, worst, bound, drift = distance(CASES[case["case"]], *expected, losses, state)
        found = {"losses": loss, "worst": worst, "bounds": [bound, drift], "options": CASES[case["case"]][2]}
        return {**found, "wrong": not (loss <= bound and worst <= drift)}
    worst, where = largest_distance(*expected, losses, state)
    return {"worst": worst, "where": where, "bounds": [OPERATOR_BOUND], "wrong": not worst <= OPERATOR_BOUND}


def sanitize(runner, tool, case, limit):
    code, text = run_case(runner, case, limit, runner.sanitizer, "--tool", tool, "--target-processes", "all",
                          "--error-exitcode", 9, steps=1)  # fmt: skip
    found = re.findall(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", text)
    if not found or code not in (0, 9):
        raise RuntimeError("status %d: %s" % (code, text[-1500:]))
    count = sum(int(x or y) for x, y in found)
    return {"errors": count, "wrong": count > 0 or code != 0, **({"text": text[:1500]} if count else {})}


def alone(runner, name, words, limit):
    script, *words = words
    command = [sys.executable, os.path.join(TESTS, "CUDA", script + ".py"), "-", "-", "device", KERNELS,
               os.path.join(runner.folder, name), *words]  # fmt: skip
    code, text = execute(command, limit, os.environ, fails=True)
    return {"lines": text.splitlines()[-60:], "wrong": code != 0}


# --- the same losses ----------------------------------------------------------------

# Program, precision, terms of the longest sum; PyTorch's precision, or the program of one rank.
CHECKS = [
    ("resnet-check-f32", "none", 8192, "none"), ("resnet-check-bf16", "bf16", 8192, "bf16"),
    ("resnet-check-dp2", "none", 8192, "resnet-check-f32"),
    ("gpt-check-fp8", "fp8", 1024, "bf16"), ("llama-check-fp8", "fp8", 1024, "bf16"),
    ("gpt-check-f32", "none", 1024, "none"), ("gpt-check-bf16", "bf16", 1024, "bf16"), ("gpt-check-f16", "f16", 1024, "f16"),
    ("llama-check-f32", "none", 1024, "none"), ("llama-check-bf16", "bf16", 1024, "bf16"),
    ("gpt-check-dp2", "none", 1024, "gpt-check-f32"), ("gpt-check-dp4", "none", 1024, "gpt-check-f32"),
    ("gpt-check-zero", "none", 1024, "gpt-check-f32"),
]  # fmt: skip


def check(runner, name, precision, terms, peer, limit):
    """Sums of n terms in f32 differ by at most 2 (n - 1) u of their size in two orders,
    over S steps that feed one another by S times that; and by a unit of the precision."""
    begin = time.monotonic()
    left = lambda: max(1, limit - (time.monotonic() - begin))
    one = peer if peer in runner.programs else name
    model, batch, _ = runner.programs[one]
    ranks = batch // runner.programs[name][1]

    def losses(which, *options, **more):
        log, _ = runner.run(which, CHECKED_STEPS, *options, batches=CHECKED_STEPS, limit=left(), **more)
        return [line["loss"] for line in log]

    found = losses(name, "--comm", "shm", ranks=ranks)
    if one == peer:
        wanted = losses(peer)
    else:
        wanted = runner.peer({"job": "losses", "model": model, "batch": batch, "precision": peer, "steps": CHECKED_STEPS}, left())
    worst = max(abs(f - w) / abs(w) if w else abs(f) for f, w in zip(found, wanted))
    bound = 2 * CHECKED_STEPS * (terms - 1) * U + UNITS[precision]
    return {"against": "PyTorch, " + peer if one == name else peer, "wanted": wanted, "found": found, "worst": worst,
            "bound": bound, "wrong": not worst <= bound}  # fmt: skip


# --- steps ------------------------------------------------------------------------


def number_before(text, unit):
    found = re.search(r"([\d.]+) %s" % unit, text)
    return float(found.group(1)) if found else None


def parse_report(text):
    """What mpcomm-run prints of a step's cost."""
    line = lambda label: (re.search(r"^ *%s +(.*)$" % re.escape(label), text, re.M) or ["", ""])[1]
    replay, nodes, memory = line("of a replay"), line("of its nodes"), line("memory a rank")
    size = re.search(r"on the device in all ([\d.]+) ([kMG]?)B", memory)
    parts = dict(re.findall(r"(launch|first|inputs|wait|rest|idle) ([\d.]+) us", replay))
    return {
        "host us": number_before(line("host time per step"), "us as a graph"),
        "host us call by call": number_before(line("host time per step"), "us call by call"),
        "replay us": {key: float(value) for key, value in parts.items()},
        "launches": line("launches per step"), "nodes": nodes, "memory": memory,
        "device GB": float(size[1]) * {"": 1e-9, "k": 1e-6, "M": 1e-3, "G": 1}[size[2]] if size else None,
        "note": line("note:"), "chosen": line("chosen"),
    }  # fmt: skip


def read_trace(path):
    """Each kernel, product and copy of a step: calls a step, seconds in all, and of the call that
    takes most seconds, bytes, flops and type. Times are medians over the steps: the first
    one loads and tunes."""
    with open(path) as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    places = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in ("kernel", "gemm", "copy", "zero", "collective"):
            numbers = event.get("args", {})
            is_named = event["cat"] in ("kernel", "collective") or event["name"].startswith("convolution")
            # Products by what they compute: their shapes are not in a trace.
            kernel = event["name"] if is_named else "%s %s %d" % (event["cat"], numbers.get("type", ""), numbers.get("flops", 0))
            key = kernel, event["cat"], numbers.get("location"), numbers.get("bytes", 0), numbers.get("flops", 0), numbers.get("type")
            places.setdefault(key, []).append(event["dur"] * 1e-6)
    calls = {}
    for (kernel, category, _, bytes, flops, kind), times in places.items():
        call = calls.setdefault(kernel, {"category": category, "seconds": 0.0, "calls": 0.0, "median": 0.0, "bytes": bytes, "flops": flops})
        median = statistics.median(times)
        call["seconds"] += median * len(times) / TRACED_STEPS
        call["calls"] += len(times) / TRACED_STEPS
        if median >= call["median"]:
            call.update(median=median, bytes=bytes, flops=flops, **({"type": kind} if kind else {}))
    return calls


def step(runner, name, limit):
    begin = time.monotonic()
    options = ["--comm", "nccl"] if name == "one-rank" else []
    log, text = runner.run(name, GRAPH_STEPS, *options, batches=2, limit=limit,
                           environment={"MPRT_GRAPH_DOT": os.path.join(runner.work, "graph-" + name)})  # fmt: skip
    times = [line["ms"] for line in log[WARM:]]
    found = {"ms": statistics.median(times), "ms of 10 and 90 %": [sorted(times)[len(times) // 10], sorted(times)[-len(times) // 10]],
             "losses": [log[0]["loss"], log[-1]["loss"]], **parse_report(text)}  # fmt: skip
    trace = os.path.join(runner.work, "trace-%s.json" % name)
    runner.run(name, TRACED_STEPS, "--trace", trace, *options, batches=2, limit=max(1, limit - (time.monotonic() - begin)))
    return {**found, "calls": read_trace(trace)}


def peer_steps(runner, worker, name, compiled, limit):
    model, batch, options = runner.programs[name]
    precision = "bf16" if "bf16" in options or "fp8" in options else "none"
    return worker.ask({"job": "steps", "model": model, "batch": batch, "precision": precision, "compiled": compiled}, limit)


# --- NCCL, and the machine ----------------------------------------------------------


def nccl_refuses(runner, limit):
    code, text = runner.run("gpt-check-dp2", 4, "--comm", "nccl", "--timeout", 20, ranks=2, fails=True, limit=limit)
    return {"status": code, "text": text[-600:], "wrong": code == 0 or "rank" not in text}


def nccl_killed(runner, limit):
    """The launcher names the rank, within the time that a run takes to start and 10 s."""
    begin = time.monotonic()
    runner.run("one-rank", 6, "--comm", "nccl", batches=2, limit=limit)
    start = time.monotonic() - begin
    begin = time.monotonic()
    code, text = runner.run("one-rank", 100000, "--comm", "nccl", "--timeout", 20, batches=2, fails=True, limit=max(1, limit - start),
                            environment={"MPRT_FAULT": "kill:rank=0,step=5"})  # fmt: skip
    took = time.monotonic() - begin
    return {"status": code, "seconds": took, "start": start, "text": text[-600:],
            "wrong": code == 0 or took > start + 10 or not re.search(r"rank 0\b", text)}  # fmt: skip


PROFILED = "kernel_(attention|attention_grad_columns|attention_grad_rows|cross_entropy_1|layer_norm_grad_1|layer_norm_1)"


def profile(runner, out, limit):
    """What limits kernels of GPT-2 small, by Nsight Compute; the second call of each."""
    begin = time.monotonic()
    weights, data = runner.inputs("gpt2-small-bf16", 2, limit=limit)
    limit = max(1, limit - (time.monotonic() - begin))
    path = os.path.join(out, "ncu.csv")
    command = ["ncu", "--clock-control", "none", "--target-processes", "all", "--kernel-id", "::regex:^%s$:2" % PROFILED,
               "--csv", "--page", "details", "--log-file", path]  # fmt: skip
    for part in ["SpeedOfLight", "WarpStateStats", "Occupancy", "LaunchStats", "SchedulerStats", "InstructionStats", "MemoryWorkloadAnalysis"]:
        command += ["--section", part]
    command += [runner.tool, os.path.join(runner.folder, "gpt2-small-bf16.so"), "--device", "cuda", "--weights", weights,
                "--data", data, "--steps", 2, "--no-shuffle", "--quiet"]  # fmt: skip
    execute(command, limit, runner.environment)
    return {"file": path, "lines": sum(1 for _ in open(path))}


def calibrate(runner, out, limit):
    path = os.path.join(out, "cluster.json")
    _, text = execute([runner.tool, "--calibrate", path, "--np", 1, "--device", "cuda"], limit, runner.environment)
    with open(path) as file:
        return {"cluster": json.load(file), "text": text[-2500:]}


# --- cells ------------------------------------------------------------------------


def list_cells(a, runner, worker):
    """In the order of their value. Seconds are those of an H200 beside 16 cores."""
    cells = []
    add = lambda section, name, seconds, answer, **more: cells.append(Cell(section, name, seconds, answer, **more))
    bind = functools.partial
    measured = [name for name in MEASURED if runner.has(name)]
    both = [name for name in measured if MEASURED[name]]
    for name in measured:
        add("prepare", name, 20, bind(runner.prepare, name, 2), alone=False, leaves=bind(runner.has_inputs, name, 2))
    add("device", "", 20, bind(worker.ask, {"job": "device"}))
    for name in both:
        add("steps", name, 18, bind(step, runner, name), limit=150)
    add("attention", "", 20, bind(worker.ask, {"job": "attention"}))
    for name in both:
        add("peers", name + " eager", 12, bind(peer_steps, runner, worker, name, ""))
    add("ops", "", 40, bind(worker.ask, {"job": "ops"}))

    # Side by side: nothing here is timed.
    tuned = [name for name in both if name in TUNED]
    compiled = [(name, "default") for name in both] + [(name, "max-autotune") for name in tuned]
    for name, mode in compiled:
        model, batch, _ = runner.programs[name]
        job = {"job": "warm", "model": model, "batch": batch, "precision": "bf16", "compiled": mode}
        add("warm", "%s %s" % (name, mode), 100, bind(runner.peer, job), alone=False, limit=200, leaves=runner.has_compiled)
    for row in CHECKS:
        if runner.has(row[0]) and (row[3] in UNITS or runner.has(row[3])):
            add("check", row[0], 25, bind(check, runner, *row), alone=False)
    if runner.has("one-rank"):
        add("nccl", "killed", 40, bind(nccl_killed, runner), alone=False)
    if runner.has("gpt-check-dp2"):
        add("nccl", "refused", 20, bind(nccl_refuses, runner), alone=False)
    known = []
    if os.path.exists(os.path.join(runner.folder, "cases", "cases.json")):
        with open(os.path.join(runner.folder, "cases", "cases.json")) as file:
            known = json.load(file)
    for name, words in ALONE.items():
        if os.path.exists(os.path.join(runner.folder, name)):
            add("alone", name, 40, bind(alone, runner, name, words), alone=False)
    for case in known:
        add("cases", case["name"], 8, bind(compare_case, runner, case), alone=False)
    for case in known:
        if case["ranks"] == 1 and ("case" not in case or re.match("gpt-(1|9|10)$|attend|llama|resnet|lstm|odd-[0-9]|vit", case["name"])):
            if re.match(a.sanitized, case["name"]):
                for tool in ("memcheck", "racecheck", "synccheck"):
                    add("sanitize", "%s %s" % (tool, case["name"]), 30, bind(sanitize, runner, tool, case), alone=False)

    add("calibrate", "", 40, bind(calibrate, runner, a.out))
    for name in both:
        add("peers", name + " default", 30, bind(peer_steps, runner, worker, name, "default"))
    for name in measured:
        if name not in both:
            add("steps", name, 18, bind(step, runner, name), limit=150)
    for name in both:
        if runner.programs[name][0].startswith(JAX):
            job = {"job": "jax", "model": runner.programs[name][0], "batch": runner.programs[name][1]}
            add("peers", name + " JAX", 45, bind(runner.peer, job))
    for name in tuned:
        add("peers", name + " max-autotune", 40, bind(peer_steps, runner, worker, name, "max-autotune"),
            needs=["warm/%s max-autotune" % name])  # fmt: skip
    if runner.has("gpt2-small-bf16"):
        add("profile", "", 60, bind(profile, runner, a.out))
    sections = a.sections.split(",") if a.sections else []
    return [c for c in cells if (not sections or c.section in sections) and re.search(a.only, c.key)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--out", default=".")
    parser.add_argument("--budget", type=float, metavar="SECONDS")
    parser.add_argument("--resume", metavar="results.json")
    parser.add_argument("--sections", default="")
    parser.add_argument("--only", default="", metavar="REGEX", help="of section/name")
    parser.add_argument("--sanitized", default="gpt-(1|9|10)$|attend|resnet|windows-2d$|vit", metavar="REGEX", help="cases that sanitize takes")
    parser.add_argument("--list", action="store_true", help="cells and what they are expected to take")
    parser.add_argument("--report", metavar="results.json", help="only prints tables")
    parser.add_argument("--workers", type=int, default=12, help="of what runs side by side")
    a = parser.parse_args()
    if a.report:
        with open(a.report) as file:
            tables.print_all(json.load(file), VARIANTS)
        return
    if not a.folder:
        parser.error("no folder")
    a.out = os.path.abspath(a.out)
    os.makedirs(a.out, exist_ok=True)
    earlier, path = {}, os.path.join(a.out, "results.json")
    if not a.resume and not a.list and os.path.exists(path):
        parser.error("%s is there; --resume=%s goes on with it" % (path, path))
    # A call that is ended by a signal ends what it has started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if a.resume:
        with open(a.resume) as file:
            earlier = json.load(file)
    runner = Runner(os.path.abspath(a.folder), a.out)
    worker = Worker(runner.peer_command(), runner.peer_environment())
    cells = list_cells(a, runner, worker)
    for name, reason in runner.left_out.items():
        print("%s is not in the pack: %s" % (name, reason), file=sys.stderr)
    if a.list:
        for cell in cells:
            print("%4d s  %s%s" % (cell.seconds, cell.key, "" if cell.alone else "  (side by side)"))
        return
    schedule = Schedule(cells, path, a.budget, earlier, a.workers)
    schedule.extra["date"] = time.strftime("%Y-%m-%d")
    try:
        schedule.run()
    finally:
        worker.end()
        with tarfile.open(os.path.join(a.out, "traces.tar.gz"), "w:gz") as archive:
            for name in sorted(os.listdir(runner.work)):
                if name.startswith(("trace-", "graph-")):
                    archive.add(os.path.join(runner.work, name), name)
    tables.print_all({**schedule.extra, "cells": schedule.results}, VARIANTS)
    status = [schedule.results[cell.key]["status"] for cell in cells]
    print("\n%d of %d cells are ok%s" % (status.count("ok"), len(cells), "".join(
        "; %d %s" % (status.count(word), word) for word in ("wrong", "failed", "late", "left") if word in status)))  # fmt: skip
    if status.count("ok") < len(cells):
        sys.exit(1)


if __name__ == "__main__":
    main()
