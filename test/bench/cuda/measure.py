#!/usr/bin/env python3
# ===- measure.py - training on a GPU, beside PyTorch and JAX --------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, ptxas, cuda-device
# RUN: %python %S/pack.py %t.pack --bin=%mpcomm_obj_root/bin \
# RUN:   --only=gpt-check-f32,gpt-check-bf16,gpt-check-dp2,resnet-check-f32,one-rank --small
# RUN: %python %s %t.pack --sections=device,alone,cases,check,nccl --out=%t.out | FileCheck %s
# CHECK-NOT: TOO FAR
"""Runs what pack.py has packed, on a machine with a GPU and PyTorch; needs no compiler.

  measure.py FOLDER [--sections=device,alone,cases,check,steps,kernels,nccl,sanitize,profile,calibrate] [--out=FOLDER]
             [--only=NAME,...] [--peers=eager,compile,JAX]

  device     copy bandwidth and product rates, by PyTorch: what the rest is held against
  alone      kernels launched alone against their definitions
  cases      small models against what they are on a processor, several at a time
  check      losses against PyTorch on this GPU; ranks that share it against one rank
  steps      step times, memory, host time, shares of a step, beside the peers'
  kernels    bandwidth of generated kernels in a real step as a share of a copy's,
             beside the same op in PyTorch
  nccl       a program whose one rank packs, reduces through NCCL and unpacks; a time-out
  sanitize   memcheck, racecheck and synccheck of compute-sanitizer on small models
  profile    Nsight Compute on kernels of GPT-2 small
  calibrate  the cluster file of this GPU

Each section is alone: one that fails says so, and the others run. Figures are
written to OUT/results.json as well, and timelines of steps to OUT/trace-NAME.json.gz."""

import argparse
import gc
import glob
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
TESTS = os.path.join(ROOT, "test", "Integration")
sys.path[:0] = [os.path.join(ROOT, "tools", "mpcomm-import"), os.path.join(HERE, "Inputs"), os.path.join(TESTS, "Inputs"),
                os.path.join(TESTS, "CUDA", "Inputs")]  # fmt: skip
U = 2.0**-24


def find_libraries():
    """Where Python's packages have NVIDIA's libraries, unless the loader finds them."""
    found = {}
    for variable, name in [("CUBLASLT", "libcublasLt.so.*"), ("CUDNN", "libcudnn.so.*"), ("NCCL", "libnccl.so.*")]:
        if "MPRT_%s_LIBRARY" % variable in os.environ:
            continue
        for folder in sys.path:
            paths = sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", name)))
            if paths:
                found["MPRT_%s_LIBRARY" % variable] = paths[-1]
                break
    return found


# Where processes that torch.compile starts find the modules of models.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [os.path.join(HERE, "Inputs"), os.path.join(ROOT, "docs", "examples"), os.environ.get("PYTHONPATH", "")])


class Runner:
    def __init__(self, folder, out):
        self.folder, self.out = folder, out
        self.work = os.path.join(out, "work") if os.environ.get("KEEP_WORK") else "/tmp/mpcomm-measure"
        os.makedirs(self.work, exist_ok=True)
        with open(os.path.join(folder, "programs.json")) as file:
            self.programs = json.load(file)
        self.environment = dict(os.environ, LD_LIBRARY_PATH=folder + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
        self.environment.update(find_libraries())
        self.files = {}

    def has(self, name):
        return name in self.programs and os.path.exists(os.path.join(self.folder, name + ".so"))

    def workload(self, name, steps=4, batch=None):
        import workloads

        model, samples, _ = self.programs[name]
        return workloads.workload(model, batch or samples, steps)

    def inputs(self, name, batch, steps):
        """Files of weights and data, of `steps` batches of `batch` samples."""
        model = self.programs[name][0]
        key = model, batch, steps
        if key not in self.files:
            from mpcomm_import.ir.safetensors import load as load_tensors
            from mpcomm_import.ir.safetensors import save
            from mpcomm_import.torch_front.workload import StateNames

            load = self.workload(name, steps, batch)
            names = StateNames(load.model, load.optimizer)
            paths = [os.path.join(self.work, "%s-%d-%d.%s" % (*key, end)) for end in "wd"]
            made = os.path.join(self.folder, name + ".constants")
            constants = load_tensors(made)[0] if os.path.exists(made) else {}
            save(paths[0], {**{n: t.detach() for n, t in names.parameters + names.buffers}, **constants})
            save(paths[1], dict(load.dataset))
            self.files[key] = paths
        return self.files[key]

    def run(self, name, steps, *options, ranks=1, batches=4, environment={}, limit=240, fails=False):
        """The log's lines, and what the run printed."""
        batch = self.programs[name][1] * ranks
        weights, data = self.inputs(name, batch, batches)
        log = os.path.join(self.work, "log.jsonl")
        if os.path.exists(log):
            os.remove(log)
        command = [os.path.join(self.folder, "mpcomm-run"), os.path.join(self.folder, name + ".so"), "--device", "cuda",
                   "--np", ranks, "--weights", weights, "--data", data, "--steps", steps, "--no-shuffle", "--log", log,
                   *options]  # fmt: skip
        done = subprocess.run(list(map(str, command)), env=dict(self.environment, **environment), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=limit)  # fmt: skip
        if fails:
            return done.returncode, done.stdout
        if done.returncode:
            raise RuntimeError("%s: status %d\n%s" % (name, done.returncode, done.stdout[-2000:]))
        with open(log) as lines:
            return [json.loads(line) for line in lines], done.stdout


def printed(text, label):
    found = re.search(r"^%s +(.*)$" % re.escape(label), text, re.M)
    return found.group(1) if found else ""


def in_gigabytes(text, label):
    found = re.search(r"%s ([\d.]+) ([kMG]?)B" % label, text)
    return float(found.group(1)) * {"": 1e-9, "k": 1e-6, "M": 1e-3, "G": 1}[found.group(2)] if found else float("nan")


def print_table(title, head, rows):
    print("\n" + title)
    cells = [head] + [["%.3g" % c if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip())
    sys.stdout.flush()


# --- what the GPU can do ------------------------------------------------------


def copy_bandwidth(bytes=1 << 30):
    """GB/s, read and written, of a copy on the device."""
    import torch

    a, b = (torch.empty(bytes, dtype=torch.uint8, device="cuda") for _ in range(2))
    return 2 * bytes / bench(lambda: b.copy_(a)) / 1e9


def bench(call, rounds=30):
    """Median seconds of a call, by events, on memory that no cache holds any more."""
    import torch

    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def device(a, runner, results):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    rows = [["copy on the device, GB/s", copy_bandwidth()]]
    for name, kind, n in [("bf16", torch.bfloat16, 8192), ("f32", torch.float32, 4096)]:
        x, y = (torch.randn(n, n, device="cuda", dtype=kind) for _ in range(2))
        rows.append(["product %d^3 %s, TFLOP/s" % (n, name), 2 * n**3 / bench(lambda: x @ y, 10) / 1e12])
    results["name"] = torch.cuda.get_device_name()
    results["torch"] = torch.__version__
    print_table("device: %s, PyTorch %s" % (results["name"], results["torch"]), ["what", "figure"], rows)
    results["device"] = dict(rows)


# --- the same as on a processor --------------------------------------------------


def run_case(runner, case, *before, steps=None):
    """Losses and state of a small model, or what it says in place of them."""
    from programs import read_tensors

    path = os.path.join(runner.folder, "cases", case["name"])
    log, out = (os.path.join(runner.work, case["name"] + end) for end in (".log", ".state"))
    command = [*before, os.path.join(runner.folder, "mpcomm-run"), path + ".so", "--device", "cuda", "--np", case["ranks"],
               "--weights", path + ".w", "--data", path + ".d", "--steps", steps or case["steps"], "--seed", 7, "--log", log,
               "--save-weights", out, "--quiet"]  # fmt: skip
    try:
        done = subprocess.run(list(map(str, command)), env=runner.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, "took longer than 120 s"
    if done.returncode or before:
        return None, "status %d: %s" % (done.returncode, done.stdout[-3000:])
    with open(log) as lines:
        return [json.loads(line)["loss"] for line in lines], read_tensors(out)


def alone(a, runner, results):
    from pack import ALONE, KERNELS

    for name, words in ALONE.items():
        command = [sys.executable, os.path.join(TESTS, "CUDA", name + ".py"), "-", "-", "device", KERNELS,
                   os.path.join(runner.folder, name), *words]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        print("\n%s: status %d\n%s" % (name, done.returncode, done.stdout[-2500:]), flush=True)
        results["alone " + name] = done.stdout.splitlines()
        if done.returncode:
            raise RuntimeError(name)


def cases(a, runner, results):
    """Bounds: small_models.py. Several at a time: nothing is timed."""
    from concurrent.futures import ThreadPoolExecutor

    from small_models import CASES, OPERATOR_BOUND, distance, largest_distance
    from programs import read_tensors

    path = os.path.join(runner.folder, "cases")
    with open(os.path.join(path, "cases.json")) as file:
        known = json.load(file)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda case: run_case(runner, case), known))
    rows, wrong = [], 0
    for case, (losses, state) in zip(known, made):
        label = case["name"]
        if losses is None:
            rows.append([label, "", "", "", "FAILED"])
            print("%s: %s" % (label, state[-700:]))
        else:
            expected = case["losses"], read_tensors(os.path.join(path, label + ".state"))
            if "case" in case:
                label += " " + CASES[case["case"]][2]
                loss, worst, bound, drift = distance(CASES[case["case"]], *expected, losses, state)
                isFine = loss <= bound and worst <= drift
                rows.append([label, loss, worst, "%.1e, %.1e" % (bound, drift), "ok" if isFine else "TOO FAR"])
            else:
                worst, where = largest_distance(*expected, losses, state)
                isFine = worst <= OPERATOR_BOUND
                rows.append([label, where, worst, "%.1e" % OPERATOR_BOUND, "ok" if isFine else "TOO FAR"])
        wrong += rows[-1][-1] != "ok"
    print_table("small models, %d of %d as on a processor" % (len(rows) - wrong, len(rows)),
                ["model", "losses", "worst", "bounds", ""], rows)  # fmt: skip
    results["cases"] = rows


def sanitize(a, runner, results):
    """Tools of compute-sanitizer, each on the small models that cover most kernels."""
    from concurrent.futures import ThreadPoolExecutor

    with open(os.path.join(runner.folder, "cases", "cases.json")) as file:
        known = [case for case in json.load(file) if case["ranks"] == 1]
    models = [c for c in known if "case" not in c or re.match("gpt-1$|attend|llama|resnet|lstm|odd-[0-9]|vit", c["name"])]
    jobs = [(tool, case) for tool in ("memcheck", "racecheck", "synccheck") for case in models]

    def go(job):
        tool, case = job
        return run_case(runner, case, "compute-sanitizer", "--tool", tool, "--target-processes", "all",
                        "--error-exitcode", 9, steps=1)[1]  # fmt: skip

    rows = []
    with ThreadPoolExecutor(10) as pool:
        for (tool, case), text in zip(jobs, pool.map(go, jobs)):
            found = re.findall(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", text)
            count = sum(int(x or y) for x, y in found)
            isClean = bool(found) and count == 0 and text.startswith("status 0")
            rows.append([tool, case["name"], count if found else "no summary", "ok" if isClean else "NOT CLEAN"])
            if not isClean:
                print("%s %s: %s" % (tool, case["name"], text[:1500]))
    bad = [row for row in rows if row[-1] != "ok"]
    print_table("compute-sanitizer: %d of %d clean" % (len(rows) - len(bad), len(rows)), ["tool", "model", "errors", ""], bad)
    results["sanitize"] = rows


# --- the same losses ------------------------------------------------------------


def torch_losses(runner, name, steps, precision, batch):
    import peers

    load = runner.workload(name, steps, batch)
    step = peers.TorchStep(load, precision, exact=True)
    return [float(step(i).detach()) for i in range(steps)]


def check(a, runner, results):
    """Sums of n terms in f32 differ by at most 2 (n - 1) u of their size in two orders,
    over S steps that feed one another by S times that; a bf16 unit is 2^-8."""
    rows, steps = [], 8
    for name, precision, terms, peer in [
        ("gpt-check-f32", "none", 1024, None), ("gpt-check-bf16", "bf16", 1024, None),
        ("resnet-check-f32", "none", 8192, None), ("resnet-check-bf16", "bf16", 8192, None),
        ("gpt-check-f16", "f16", 1024, None), ("llama-check-f32", "none", 1024, None),
        ("llama-check-bf16", "bf16", 1024, None),
        ("gpt-check-dp2", "none", 1024, "gpt-check-f32"), ("gpt-check-dp4", "none", 1024, "gpt-check-f32"),
        ("gpt-check-zero", "none", 1024, "gpt-check-f32"), ("resnet-check-dp2", "none", 8192, "resnet-check-f32"),
    ]:  # fmt: skip
        if not runner.has(name):
            continue
        batch = runner.programs[peer or name][1]
        ranks = batch // runner.programs[name][1]
        log, _ = runner.run(name, steps, "--comm", "shm", ranks=ranks, batches=steps)
        found = [line["loss"] for line in log]
        if peer:
            wanted = [line["loss"] for line in runner.run(peer, steps, batches=steps)[0]]
        else:
            wanted = torch_losses(runner, name, steps, precision, batch)
        worst = max(abs(f - w) / abs(w) for f, w in zip(found, wanted))
        bound = 2 * steps * (terms - 1) * U + {"none": 0, "bf16": 2.0**-8, "f16": 2.0**-11}[precision]
        rows.append([name, peer or "PyTorch", wanted[0], wanted[-1], found[-1], worst, bound, "ok" if worst <= bound else "TOO FAR"])
    print_table("losses, %d steps" % steps, ["program", "against", "first", "last", "ours", "worst", "bound", ""], rows)
    results["check"] = rows


# --- steps ------------------------------------------------------------------------

GRAPH_STEPS, WARM = 40, 12


def time_ours(runner, name):
    log, text = runner.run(name, GRAPH_STEPS, batches=2)
    times = [line["ms"] for line in log[WARM:]]
    return {
        "ms": statistics.median(times), "host": printed(text, "host time per step"),
        "launches": printed(text, "launches per step"), "memory": printed(text, "memory a rank"),
        "device": in_gigabytes(printed(text, "memory a rank"), "on the device in all"),
    }  # fmt: skip


def read_trace(runner, name, options=(), steps=10):
    """(category, name) -> seconds and calls a step; bytes, flops and seconds of the call
    that takes most. Times are medians over the steps: the first one loads and tunes."""
    path = os.path.join(runner.work, "trace.json")
    runner.run(name, steps, "--trace", path, *options, batches=2)
    with open(path) as file:
        text = file.read()
    with gzip.open(os.path.join(runner.out, "trace-%s.json.gz" % name), "wt") as kept:
        kept.write(text)
    events = json.loads(text)
    events = events["traceEvents"] if isinstance(events, dict) else events
    places = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in ("kernel", "gemm", "copy", "zero"):
            numbers = event.get("args", {})
            is_named = event["cat"] == "kernel" or event["name"].startswith("convolution")
            kernel = event["name"] if is_named else event["cat"]
            key = event["cat"], kernel, numbers.get("location"), numbers.get("bytes", 0), numbers.get("flops", 0)
            places.setdefault(key, []).append(event["dur"] * 1e-6)
    calls = {}
    for (category, kernel, _, bytes, flops), times in places.items():
        call = calls.setdefault((category, kernel), {"seconds": 0.0, "calls": 0.0, "median": 0.0})
        median = statistics.median(times)
        call["seconds"] += median * len(times) / steps
        call["calls"] += len(times) / steps
        if median >= call["median"]:
            call.update(median=median, bytes=bytes, flops=flops)
    return calls


def shares(runner, name, ms):
    """Of a step that takes `ms` as a graph: products, attention, convolutions, generated
    kernels; the rest are gaps."""
    groups = {"products": 0.0, "attention": 0.0, "convolutions": 0.0, "kernels": 0.0}
    for (category, kernel), call in read_trace(runner, name).items():
        group = "products" if category == "gemm" else "kernels"
        if kernel.startswith("convolution"):
            group = "convolutions"
        elif "attention" in kernel:
            group = "attention"
        groups[group] += call["seconds"] * 1e3
    groups["gaps"] = ms - sum(groups.values())
    return {group: value / ms for group, value in groups.items()}


def forget():
    import torch

    gc.collect()
    torch.cuda.empty_cache()
    if hasattr(torch, "_dynamo"):
        torch._dynamo.reset()


def time_peers(a, runner, name):
    import peers
    import workloads

    model, batch, options = runner.programs[name]
    precision = "bf16" if "bf16" in options else "none"
    found = {}
    for label, compiled in [("eager", ""), ("compile", a.compile_mode)]:
        if label not in a.peers:
            continue
        try:
            ms, memory = peers.time_steps(peers.TorchStep(runner.workload(name), precision, compiled))
            found[label], found[label + " MB"] = ms, memory
        except Exception as error:
            found[label] = "failed: %s" % str(error).splitlines()[0][:60]
        forget()
    if "JAX" in a.peers and precision == "bf16" and model in {**workloads.GPT, **workloads.RESNET}:
        try:
            # In a process of its own: JAX keeps the memory that it takes.
            shape = workloads.GPT.get(model)
            text = ("peers.time_jax_gpt(%r, %d)" % (shape, batch) if shape else
                    "peers.time_jax_resnet(*%r, %d)" % (workloads.RESNET[model], batch))  # fmt: skip
            done = subprocess.run([sys.executable, "-c", "import sys; sys.path[:0] = %r\nimport peers\nprint(%s)" % (sys.path, text)],
                                  env=dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false"),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)  # fmt: skip
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            found["JAX"] = float(done.stdout.split()[-1])
        except Exception as error:
            found["JAX"] = "failed: %s" % str(error).splitlines()[0][:60]
    return found


def steps(a, runner, results):
    rows, table = [], results.setdefault("steps", {})
    names = [n for n in runner.programs if "check" not in n and n != "one-rank" and runner.has(n)]
    failed = []
    for name in a.only or names:
        begin = time.monotonic()
        try:
            ours = time_ours(runner, name)
        except Exception as error:
            failed.append(name)
            print("%s: %s" % (name, str(error)[-1500:]), flush=True)
            continue
        peers = time_peers(a, runner, name)
        numbers = {k: v for k, v in peers.items() if isinstance(v, float) and not k.endswith("MB")}
        best = min(numbers.values(), default=float("nan"))
        table[name] = dict(ours, peers=peers, ratio=ours["ms"] / best, shares=shares(runner, name, ours["ms"]))
        rows.append([name, ours["ms"], ours["device"]] + [peers.get(k, "") for k in ("eager", "compile", "JAX")] + [ours["ms"] / best])
        print("%s: %s; %s; %s" % (name, ours["host"], ours["launches"], ours["memory"]))
        print("   shares: " + ", ".join("%s %.1f %%" % (k, 100 * v) for k, v in table[name]["shares"].items()), flush=True)
        print("   (%.0f s)" % (time.monotonic() - begin), flush=True)
        save(a, results)
    print_table("ms a step (memory GB of ours)", ["program", "ours", "GB", "eager", "compile", "JAX", "ours / best"], rows)
    for half, full in [("gpt2-small-bf16-8", "gpt2-small-f32"), ("resnet50-bf16-128", "resnet50-f32")]:
        if half in table and full in table:
            print("%s against %s: %.2f times as fast, %.2f of the memory" % (
                half, full, table[full]["ms"] / table[half]["ms"], table[half]["device"] / table[full]["device"]))  # fmt: skip
    if failed:
        raise RuntimeError("no step of " + ", ".join(failed))


# --- kernels ----------------------------------------------------------------------

KINDS = [("AdamW", "adamw_update", 0.9), ("layer norm", r"layer_norm_\d", 0.85), ("layer norm gradient", "layer_norm_grad", 0.75),
         ("softmax and cross-entropy", "cross_entropy", 0.85), ("pack and cast", "truncf", 0.9)]  # fmt: skip


def kernels(a, runner, results):
    copy = copy_bandwidth()
    rows, kept = [], {}
    for name in ["gpt2-small-bf16", "one-rank"]:
        if not runner.has(name):
            continue
        options = ["--comm", "nccl"] if name == "one-rank" else []
        trace = read_trace(runner, name, options)
        for (category, kernel), call in sorted(trace.items(), key=lambda p: -p[1]["seconds"]):
            if category != "kernel" or not call["bytes"]:
                continue
            share = call["bytes"] / call["median"] / 1e9 / copy
            kept["%s %s" % (name, kernel)] = dict(call, share=share)
        for label, pattern, target in KINDS:
            if (label == "pack and cast") != (name == "one-rank"):
                continue
            found = [(call, kernel) for (category, kernel), call in trace.items()
                     if category == "kernel" and re.search(pattern, kernel) and not kernel.endswith(("_sums", "_scalars"))]  # fmt: skip
            found = [(c, k) for c, k in found if c["bytes"] > 8 << 20]
            if found:
                call, kernel = max(found, key=lambda p: p[0]["seconds"])
                rows.append([label, kernel, call["bytes"] / 1e6, call["median"] * 1e6, call["bytes"] / call["median"] / 1e9,
                             call["bytes"] / call["median"] / 1e9 / copy, target])  # fmt: skip
    print_table("kernels beside a copy of %.0f GB/s" % copy, ["what", "kernel", "MB", "us", "GB/s", "share", "target"], rows)
    results["kernels"] = {"copy": copy, "rows": rows, "all": kept}
    if a.peers != ["none"]:
        results["kernels"]["torch"] = torch_kernels(copy)


def torch_kernels(copy):
    """The same ops in PyTorch, at GPT-2 small's sizes of 32 x 1024 tokens."""
    import torch
    import torch.nn.functional as F

    rows = []

    def add(label, call, bytes):
        try:
            seconds = bench(call)
            rows.append([label, bytes / 1e6, seconds * 1e6, bytes / seconds / 1e9, bytes / seconds / 1e9 / copy])
        except Exception as error:
            rows.append([label, str(error).splitlines()[0][:60], "", "", ""])

    tokens, d, vocab = 32 * 1024, 768, 50304
    x = torch.randn(tokens, d, device="cuda", requires_grad=True)
    w, b = (torch.randn(d, device="cuda", requires_grad=True) for _ in range(2))
    dy = torch.randn(tokens, d, device="cuda", dtype=torch.bfloat16)
    norm = lambda x, w, b: F.layer_norm(x, (d,), w, b).to(torch.bfloat16)
    for label, f in [("layer norm", norm), ("layer norm, compiled", torch.compile(norm))]:
        with torch.no_grad():
            add(label, lambda: f(x, w, b), tokens * d * 6)
        y = f(x, w, b)
        add(label + ", gradient", lambda: torch.autograd.grad(y, (x, w, b), dy, retain_graph=True), tokens * d * 10)
    logits = torch.randn(8 * 1024, vocab, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    ids = torch.randint(0, vocab, (8 * 1024,), device="cuda")

    def entropy(logits):
        loss = F.cross_entropy(logits.float(), ids)
        return torch.autograd.grad(loss, logits)

    for label, f in [("cross-entropy and gradient", entropy), ("the same, compiled", torch.compile(lambda l: F.cross_entropy(l.float(), ids)))]:
        call = (lambda: f(logits)) if f is entropy else (lambda: torch.autograd.grad(f(logits), logits))
        add(label, call, logits.numel() * 4)
    params = [torch.randn(s, device="cuda") for s in [(vocab, d), (1024, d)] + 12 * [(3 * d, d), (d, d), (4 * d, d), (d, 4 * d)]]
    for p in params:
        p.grad = torch.randn_like(p)
    count = sum(p.numel() for p in params)
    for label, options in [("AdamW, fused", {"fused": True}), ("AdamW, foreach", {"foreach": True})]:
        optimizer = torch.optim.AdamW(params, **options)
        add(label, optimizer.step, count * 28)
    bucket = torch.empty(count, device="cuda", dtype=torch.bfloat16)
    parts = [part.view_as(p) for part, p in zip(bucket.split([p.numel() for p in params]), params)]
    add("pack and cast, foreach copy", lambda: torch._foreach_copy_(parts, params), count * 6)
    add("unpack and cast, foreach copy", lambda: torch._foreach_copy_(params, parts), count * 6)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(32, 1024, 12, 64, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(3))
    for label, backend in [("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)]:
        with sdpa_kernel(backend):
            attend = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
            try:
                y = attend()
            except Exception as error:
                rows.append(["attention, " + label, str(error).splitlines()[0][:60], "", "", ""])
                continue
            with torch.no_grad():
                add("attention, " + label, attend, 4 * q.numel() * 2)
            dy = torch.randn_like(y)
            add("attention's gradient, " + label, lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), 8 * q.numel() * 2)
    print_table("the same in PyTorch", ["what", "MB", "us", "GB/s", "share"], rows)
    return rows


# --- NCCL, and the machine ---------------------------------------------------------


def nccl(a, runner, results):
    if runner.has("one-rank"):
        log, text = runner.run("one-rank", 20, "--comm", "nccl")
        print("\nnccl, one rank: %.2f ms a step, loss %.4f to %.4f; %s" % (
            statistics.median(line["ms"] for line in log[8:]), log[0]["loss"], log[-1]["loss"], printed(text, "host time per step")))  # fmt: skip
        results["nccl"] = log[-1]
    if runner.has("gpt-check-dp2"):
        code, text = runner.run("gpt-check-dp2", 4, "--comm", "nccl", "--timeout", 20, ranks=2, fails=True)
        print("nccl, two ranks on one GPU: status %d: %s" % (code, text.strip()[:300]))
        begin = time.monotonic()
        code, text = runner.run("one-rank", 100000, "--comm", "nccl", "--timeout", 20, environment={"MPRT_FAULT": "kill:rank=0,step=5"}, fails=True)
        print("nccl, a rank killed: status %d after %.1f s: %s" % (code, time.monotonic() - begin, text.strip()[-300:]))


PROFILED = "kernel_(attention|attention_grad_columns|attention_grad_rows|cross_entropy_1|layer_norm_grad_1|layer_norm_1)"


def profile(a, runner, results):
    """What limits kernels of GPT-2 small, by Nsight Compute; the second call of each."""
    weights, data = runner.inputs("gpt2-small-bf16", runner.programs["gpt2-small-bf16"][1], 4)
    out = os.path.join(a.out, "ncu.csv")
    sections = ["SpeedOfLight", "WarpStateStats", "Occupancy", "LaunchStats", "SchedulerStats", "InstructionStats", "MemoryWorkloadAnalysis"]
    command = ["ncu", "--clock-control", "none", "--target-processes", "all", "--kernel-id", "::regex:^%s$:2" % PROFILED,
               "--csv", "--page", "details", "--log-file", out]  # fmt: skip
    for section in sections:
        command += ["--section", section]
    command += [os.path.join(runner.folder, "mpcomm-run"), os.path.join(runner.folder, "gpt2-small-bf16.so"), "--device", "cuda",
                "--weights", weights, "--data", data, "--steps", "2", "--no-shuffle", "--quiet"]  # fmt: skip
    done = subprocess.run(command, env=runner.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    print("\nprofile: status %d: %s" % (done.returncode, done.stdout[-800:]))


def calibrate(a, runner, results):
    path = os.path.join(a.out, "cluster.json")
    done = subprocess.run([os.path.join(runner.folder, "mpcomm-run"), "--calibrate", path, "--np", "1", "--device", "cuda"],
                          env=runner.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)  # fmt: skip
    print("\ncalibrate: status %d\n%s" % (done.returncode, done.stdout[-2500:]))


SECTIONS = {f.__name__: f for f in (device, alone, cases, check, steps, kernels, nccl, sanitize, profile, calibrate)}


def save(a, results):
    with open(os.path.join(a.out, "results.json"), "w") as out:
        json.dump(results, out, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--only", default="", help="programs of section steps")
    parser.add_argument("--out", default=".")
    parser.add_argument("--peers", default="eager,compile,JAX", type=lambda text: text.split(","), help="or none")
    parser.add_argument("--compile-mode", default="max-autotune", help="of torch.compile")
    a = parser.parse_args()
    a.only = a.only.split(",") if a.only else []
    a.folder = os.path.abspath(a.folder)
    os.makedirs(a.out, exist_ok=True)
    runner, results, failed = Runner(a.folder, os.path.abspath(a.out)), {}, []
    for name in a.sections.split(","):
        begin = time.monotonic()
        try:
            SECTIONS[name](a, runner, results)
        except Exception:
            failed.append(name)
            print("\nsection %s failed:\n%s" % (name, traceback.format_exc()[-2500:]))
        print("(%s: %.0f s)" % (name, time.monotonic() - begin), flush=True)
        save(a, results)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


main()
