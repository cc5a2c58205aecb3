# ===- measure.py - what training in 16 bits ends with -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains models in several precisions, on 2 ranks of one thread over shared memory,
and compares what they reach on held-out data with what f32 reaches.

  mlp       a perceptron on scikit-learn's digits; accuracy
  gpt       a byte-level GPT on the texts of /usr/share/common-licenses; nats a byte
  resnet18  torchvision's ResNet-18 on the digits, enlarged; accuracy
  resnet18-long  the same for 360 steps, of the --models that are asked for; mean of the
            last 20 losses of training, as what is held out is then known in all forms
  weighted  mlp with a loss that is weighted by 2^-21, as a mean over that many pixels:
            for f16 without loss scaling, which cannot train it

Each is run with several seeds, of weights and of the order of samples, the same ones
in every precision. f32's results m[1..n] have the standard deviation s, which is the
variation from run to run (to which a metric that comes in steps of q, as an accuracy does
in 1 / samples, adds q^2 / 12 to the variance: its rounding). A precision reaches f32 if

  its mean is within t(0.975) s sqrt(2 / n) of f32's, t Student's quantile with n - 1
  degrees of freedom: two means of n runs of one distribution differ by more in 5 % of
  cases; with 5 seeds that is 1.76 s

  each of its results is within t(0.995) s sqrt(1 + 1 / n) of f32's mean: the interval
  in which one more run of f32 lies in 99 % of cases; with 5 seeds 5.04 s

"paired" is the mean over seeds of the difference to f32 with the same seed, and its
standard error: the sharper test for a bias, as long as runs stay near each other.

Precisions: none (f32), bf16, f16 (dynamic loss scaling), f16-unscaled
(loss-scale=none), and any other policy of mpcomm-insert-casts by its name. Products
run in the narrow type, whatever rates the cluster has (--compute=auto asks them).

--wires has further forms, of f32 with gradients that are compressed: NAME=OPTIONS of
mpcomm-compile's pipeline, separated by semicolons. WARM@NAME=OPTIONS has the share WARM of
the steps, as in 0.2@late=wire=i1, in f32 first. Of !NAME=OPTIONS, or WARM@!NAME=OPTIONS, without error feedback,
it is shown that it reaches less.

Took a quarter of an hour on two cores that others used too; most of it is ResNet-18 in
f16, for which the processor had no products. --json keeps what is done: with the same
file again, only runs that it lacks are made. --svg draws the losses.

A small run, to see that all of it works:
REQUIRES: torch, sklearn, compiler
RUN: rm -rf %t && mkdir %t
RUN: %python %s --models=mlp,weighted --seeds=2 --steps=60 --json=%t/runs.json --svg=%t/curves.svg --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run | FileCheck %s
RUN: %python -c "import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); assert len(d.getElementsByTagName('polyline')) >= 6" %t/curves.svg
RUN: %python %s --models=mlp,weighted --seeds=2 --steps=60 --json=%t/runs.json --mpcomm-import=false | FileCheck %s

CHECK: | model | precision | result |
CHECK: | mlp, accuracy | f32 |
CHECK: | | bf16 | {{.*}} | yes |
CHECK: | | f16 | {{.*}} | yes |
CHECK: | weighted, accuracy | f32 |
CHECK: | | f16 | {{.*}} | yes |
CHECK: | | f16-unscaled | {{.*}} | NO, as it must |
CHECK: as expected: 4 of 4
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, *[".."] * 3, "docs", "examples")
sys.path.insert(0, os.path.join(HERE, "Inputs"))
import plot  # noqa: E402

# model: (file, options of it, samples of a rank, steps, learning rate, warm-up, metric)
# Held-out sets are multiples of a global batch, but for a few windows of the text.
MODELS = {
    "mlp": (os.path.join(EXAMPLES, "mlp.py"), {}, 30, 240, None, 0, "accuracy"),
    "gpt": (os.path.join(EXAMPLES, "gpt.py"), {"ctx": 64, "tied": "false"}, 4, 300, 1e-3,
            20, "nats a byte"),
    "resnet18": (os.path.join(EXAMPLES, "resnet.py"), {"model": "resnet18", "image": 32},
                 20, 72, 0.02, 10, "accuracy"),
    "resnet18-long": (os.path.join(EXAMPLES, "resnet.py"), {"model": "resnet18", "image": 32},
                      20, 360, 0.02, 10, "last losses"),
    "weighted": (os.path.join(HERE, "Inputs", "weighted.py"), {}, 30, 240, None, 0,
                 "accuracy"),
}
# model: (title of its losses, unit, what they are multiplied by)
TITLES = {
    "mlp": ("Perceptron, digits", "nats", 1),
    "gpt": ("GPT, bytes of licences", "nats a byte", 1),
    "resnet18": ("ResNet-18, digits", "nats", 1),
    "resnet18-long": ("ResNet-18, digits, 360 steps", "nats", 1),
    "weighted": ("Perceptron, loss weighted by 2⁻²¹", "2⁻²¹ nats", 2 ** 21),
}
# Student's quantiles by degrees of freedom, of 0.975 and 0.995.
QUANTILES = [(12.706, 63.657), (4.303, 9.925), (3.182, 5.841), (2.776, 4.604),
             (2.571, 4.032), (2.447, 3.707), (2.365, 3.499), (2.306, 3.355),
             (2.262, 3.250)]


def fail(message):
    sys.exit("measure.py: error: " + message)


class Wire(NamedTuple):
    """A way to send gradients, after a share of the steps in f32."""
    options: str
    warm: float = 0
    is_bad: bool = False


def wires_of(text):
    """By name."""
    wires = {}
    for form in filter(None, text.split(";")):
        name, options = form.split("=", 1)
        warm, name = name.split("@") if "@" in name else ("0", name)
        wires[name.lstrip("!")] = Wire(options, float(warm), name.startswith("!"))
    return wires


class Bench:
    """Runs what the record lacks."""

    def __init__(self, a, folder):
        self.a, self.folder, self.prefix = a, folder, a.prefix.split()
        self.wires = a.wires
        self.record = {}
        if a.json and os.path.exists(a.json):
            with open(a.json) as file:
                self.record = json.load(file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *command):
        command = [*self.prefix, *map(str, command)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        return done.returncode, done.stdout

    def must(self, *command):
        status, text = self.run(*command)
        if status:
            fail(f"{' '.join(map(str, command))}: status {status}\n{text}")

    def imported(self, model, seed):
        """The stem of graph, weights and data; the graph is that of every seed."""
        stem = self.path(f"{model}-{seed}")
        if not os.path.exists(stem + ".mlir"):
            file, options, batch = MODELS[model][:3]
            self.must(self.a.mpcomm_import, file, *[f"-O{k}={v}" for k, v in options.items()],
                      "--batch", batch, "--seed", seed, "-o", stem + ".mlir", "--weights",
                      stem + ".w", "--data", stem + ".d", "--eval-data", stem + ".e")
        return stem

    def compiled(self, model, kind, stem):
        wire = self.wires.get(kind)
        precision = "none" if wire else kind
        with open(stem + ".mlir") as file:
            graph = file.read()
        program = self.path(f"{model}-{kind}.so")
        if os.path.exists(program):
            if graph != self.graph:
                fail(f"the graph of {stem} is not that of another seed")
            return program
        self.graph = graph
        policy = self.path(precision + ".json")
        with open(policy, "w") as file:
            json.dump({"schema": "mpcomm-precision-1", "policy": precision.split("-")[0],
                       "compute": self.a.compute}, file)
        options = "precision=none" if precision == "none" else "precision-file=" + policy
        if precision.endswith("-unscaled"):
            options += " loss-scale=none"
        # Of small models all buckets are compressed, as of large ones.
        command = [self.a.mpcomm_compile, stem + ".mlir", "-o", program, "--np", 2]
        if wire:
            command += ["--options=precision=none", "--variant",
                        f"wire: precision=none wire-min-bytes=0 {wire.options}"]
        else:
            command += ["--options=" + options]
        self.must(*command)
        return program

    def train(self, model, precision, seed):
        """Losses of each step, and the results on held-out data: None where it stopped at a
        number that is not finite."""
        stem = self.imported(model, seed)
        program = self.compiled(model, precision, stem)
        _, _, _, steps, lr, warmup, _ = MODELS[model]
        steps = self.a.steps or steps
        rate = ["--lr", lr] if lr else []
        wire = self.wires.get(precision)
        plan = ["--variant", "wire", "--variant-after", int(wire.warm * steps)] if wire else []
        log = self.path("log")
        status, text = self.run(
            self.a.mpcomm_run, program, "--np", 2, "--comm", "shm", "--weights",
            stem + ".w", "--data", stem + ".d", "--eval-data", stem + ".e", "--evaluate",
            "--seed", seed, "--steps", steps, *rate, *plan, "--lr-warmup", warmup,
            "--lr-schedule", "cosine", "--log", log)
        with open(log) as file:
            rows = [json.loads(line) for line in file]
        result = {"losses": [row["loss"] for row in rows],
                  "skipped": sum(bool(row.get("skipped")) for row in rows)}
        if status:
            if not re.search(r"the loss is -?(nan|inf)", text):
                fail(f"{model}, {precision}, seed {seed}: status {status}\n{text}")
            return result
        result["loss"] = float(re.search(r"evaluation loss\s+(\S+)", text).group(1))
        right = re.search(r"top-1 accuracy .*\((\d+) of (\d+)\)", text)
        result["accuracy"] = int(right.group(1)) / int(right.group(2))
        result["samples"] = int(right.group(2))
        return result

    def result(self, model, precision, seed):
        steps = self.a.steps or MODELS[model][3]
        key = f"{model}/{precision}/{seed}/{steps}/{self.a.compute}"
        if precision in self.wires:
            key += f"/{self.wires[precision]}"
        if key not in self.record:
            self.record[key] = self.train(model, precision, seed)
            if self.a.json:
                with open(self.a.json + ".part", "w") as file:
                    json.dump(self.record, file)
                os.replace(self.a.json + ".part", self.a.json)
        return self.record[key]


def metric_of(model, run):
    """The result of a run, a larger accuracy or a smaller loss being better."""
    if MODELS[model][6] == "last losses":
        return statistics.fmean(math.inf if v is None else v for v in run["losses"][-20:])
    if MODELS[model][6] != "accuracy":
        return run.get("loss", math.inf)
    return 100 * run.get("accuracy", 0)


def bounds(model, runs):
    """What a mean and what a single result may be from f32's mean."""
    n = len(runs)
    step = 100 / runs[0]["samples"] if MODELS[model][6] == "accuracy" else 0
    s = math.sqrt(statistics.variance(metric_of(model, r) for r in runs) + step ** 2 / 12)
    mean, single = QUANTILES[n - 2]
    return s, mean * s * math.sqrt(2 / n), single * s * math.sqrt(1 + 1 / n)


def compare(model, precision, runs, base, is_bad):
    """Prints a row; whether the result is what is expected of the precision."""
    digits = 4 if MODELS[model][6] != "accuracy" else 2
    values = [metric_of(model, r) for r in runs]
    mean = statistics.fmean(values)
    s, of_mean, of_one = bounds(model, base)
    exact = [metric_of(model, r) for r in base]
    centre = statistics.fmean(exact)
    name = f"{model}, {MODELS[model][6]}" if runs is base else ""
    unit = " %" if digits == 2 else ""
    loss = TITLES[model][2] * statistics.fmean(r.get("loss", math.inf) for r in runs)
    skipped = sum(r["skipped"] for r in runs)
    row = [name, "f32" if precision == "none" else precision,
           f"{mean:.{digits}f}{unit} ± {s if runs is base else statistics.stdev(values):.{digits}f}"
           if math.isfinite(mean) else "not finite"]
    good = True
    if runs is base:
        row += ["", "", "", "", f"{loss:.4f}", ""]
    elif not math.isfinite(mean):
        row += ["", "", "", "", "", "NO"]
        good = False
    else:
        apart = abs(mean - centre)
        far = max(abs(v - centre) for v in values)
        pairs = [a - b for a, b in zip(values, exact)]
        error = statistics.stdev(pairs) / math.sqrt(len(pairs))
        good = apart <= of_mean and far <= of_one
        # What is to be worse is not so where it is better.
        sign = 1 if MODELS[model][6] == "accuracy" else -1
        good |= is_bad and sign * (mean - centre) > 0
        row += [f"{mean - centre:+.{digits}f} of {of_mean:.{digits}f}",
                f"{far:.{digits}f} of {of_one:.{digits}f}",
                f"{statistics.fmean(pairs):+.{digits}f} ± {error:.{digits}f}",
                str(skipped), f"{loss:.4f}", "yes" if good else "NO"]
    must_fail = is_bad or (model == "weighted" and precision == "f16-unscaled")
    if must_fail and not good:
        row[-1] += ", as it must"
    print("|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|", flush=True)
    return good != must_fail


def panel(model, runs):
    """What is drawn of a model: title, unit, losses."""
    title, unit, factor = TITLES[model]
    return title, unit, {k: [[v if v is None else v * factor for v in r["losses"]]
                             for r in rows] for k, rows in runs.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default="mlp,gpt,resnet18,weighted", help="of " + ", ".join(MODELS))
    p.add_argument("--precisions", default="none,bf16,f16",
                   help="the first is f32; weighted: none,f16,f16-unscaled")
    p.add_argument("--wires", type=wires_of, default={}, help="NAME=OPTIONS;…")
    p.add_argument("--seeds", type=int, default=5, help="2 to 10")
    p.add_argument("--steps", type=int, default=0, help="instead of the models' own")
    p.add_argument("--compute", default="lower_precision", help="of the policy: lower_precision, fp32, auto")
    p.add_argument("--json", help="file of results and losses; read if it is there")
    p.add_argument("--svg", help="file to draw losses into")
    p.add_argument("--prefix", default="", help="before each command: nice, taskset, flock")
    for tool in ("import", "compile", "run"):
        p.add_argument("--mpcomm-" + tool, default="mpcomm-" + tool)
    a = p.parse_args()
    precisions = a.precisions.split(",")
    if precisions[0] != "none":
        fail("--precisions: expected none first")
    if not 2 <= a.seeds <= 10:
        fail("--seeds: expected 2 to 10")
    print("| model | precision | result | mean from f32's | farthest | paired | skipped | "
          "loss | within |\n" + "|---" * 9 + "|")
    good, count, panels = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a, folder)
        for model in a.models.split(","):
            if model not in MODELS:
                fail(f"has no model '{model}', expected of {', '.join(MODELS)}")
            kinds = [*precisions, *a.wires] if model != "weighted" else \
                ["none", "f16", "f16-unscaled"]
            runs = {k: [] for k in kinds}
            for kind in kinds:
                runs[kind] = [bench.result(model, kind, seed) for seed in range(a.seeds)]
                fine = compare(model, kind, runs[kind], runs["none"],
                               kind in a.wires and a.wires[kind].is_bad)
                if kind != "none":
                    good, count = good + fine, count + 1
            panels.append(panel(model, runs))
    print(f"as expected: {good} of {count}")
    if a.svg:
        with open(a.svg, "w", encoding="utf-8") as file:
            file.write(plot.draw(panels))
    sys.exit(good != count)


if __name__ == "__main__":
    main()
