# ===- scoreboard.py - the zoo's models beside PyTorch --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Imports each model of the zoo, trains it on 1 and 2 ranks, and compares losses, time and
memory with PyTorch's.

    python scoreboard.py --folder F --columns losses  # imports and losses
    python scoreboard.py --folder F resnet18 timm     # some models or families, all columns
    python scoreboard.py --folder F --report --page docs/Scoreboard.md

Measurements are lines of F/results.jsonl, and made once; --retry repeats those that
failed, --again all of them. Each is a process of its own under limits of time and
memory; peers are run by this Python, which decides the version of PyTorch.

How near losses have to be is measured: PyTorch computes them in f64, and in f32 in four
ways that differ in the order of their sums alone (samples of a batch in both orders,
convolutions by oneDNN and not). S[s] is the largest distance of these four from f64
within 4 steps of step s. Required is, for every step,

    |ours[s] - f64[s]| <= 4 S[s] + u sqrt(n) |f64[s]|,  u = 2^-24

with n the numbers that the loss is a mean of; parity.py derives it. In f32 a ReLU of nearly
nothing may be on its other side, in ours and in none of the four. Of a model that is beyond the
bound, ours is compared in f64, too, where S is nothing; in f32 it has to be within a hundredth of
the loss, or 4 times what PyTorch, eight times, makes of parameters moved by a unit in the last place. Networks with batch
norms and few samples to a rank amplify rounding up to hundredfold a step: there S grows
quickly, and the first steps are what is compared. On 2 ranks a batch norm takes its
statistics over the samples of a rank, so f64 and the four ways take batches in two slices.
Models that draw random numbers in each step are only run: their losses have to be finite.

REQUIRES: torch, torchvision, compiler
# UNSUPPORTED: sanitizer
RUN: rm -rf %t
RUN: %python %s --folder=%t --bin=%mpcomm_obj_root/bin --columns=losses --steps=3 resnet18 mlp-mixer | FileCheck %s
CHECK: | resnet18 |
CHECK: 2 of 2 imported and equal
RUN: echo "<!-- rows: test/bench/models/scoreboard.py --report -->" > %t/page.md
RUN: echo "| squeezenet1_1 | yes | 6 | 0.3 |  | 1e-7 / 2e-7 | 1e-7 **no** |  | 2 / 8 (PyTorch) |  |  |" >> %t/page.md
RUN: %python -c "import sys; sys.path.insert(0, '%S'); from scoreboard import milliseconds as ms; print(ms(0.1234), ms(999.4), ms(1041.6))" | FileCheck %s --check-prefix=MS
MS: 0.123 999 1042
RUN: %python %s --folder=%t --report --page=%t/page.md resnet18 squeezenet1_1 | FileCheck %s --check-prefix=PAGE
PAGE: | resnet18 | yes |
PAGE: | squeezenet1_1 | yes | 6 | 0.3 |  | 1e-7 / 2e-7 | 1e-7 **no** |  | 2 / 8 (PyTorch) |  |  |
PAGE: 2 of 2 imported; of 2 compared, 1 are equal.
PAGE: over 1 models: 0.25; largest 0.25.
"""

import argparse
import dataclasses
import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, *[os.pardir] * 3))
ZOO = os.path.join(HERE, "zoo", "zoo.py")
sys.path[:0] = [os.path.join(HERE, "zoo"), os.path.join(ROOT, "test", "bench", "Inputs"),
                os.path.join(ROOT, "test", "Integration", "PyTorch", "Inputs")]
import at_best  # noqa: E402

IN_DOUBLE = "-f64"  # in names of files
MARK = "<!-- rows: test/bench/models/scoreboard.py --report -->\n"


class Failure(Exception):
    pass


# Measurements, each in a process of its own.

def run(command, a, environment=()):
    """(seconds, bytes of memory) of a command; Failure with its first error."""
    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (a.memory << 30, a.memory << 30))
        os.setpgid(0, 0)
    start = time.time()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([str(word) for word in command], stdout=out,
                                 stderr=subprocess.STDOUT, preexec_fn=limits,
                                 env={**os.environ, **dict(environment)})
        while True:
            done, status, usage = os.wait4(child.pid, os.WNOHANG)
            if done:
                child.returncode = os.waitstatus_to_exitcode(status)
                break
            if time.time() - start > a.timeout:
                os.killpg(child.pid, 9)
                os.wait4(child.pid, 0)
                child.returncode = -9
                raise Failure(f"took longer than {a.timeout:.0f} s")
            time.sleep(0.01)
        out.seek(0)
        text = out.read()
    if child.returncode:
        raise Failure(first_error(text) or f"ended with status {child.returncode}")
    return time.time() - start, 1024 * usage.ru_maxrss


def first_error(text):
    """The first line that tells of an error, with the second if that one ends in a colon;
    of a traceback the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return "traceback: " + next((line for line in reversed(lines)
                                     if not line.startswith(" ")), lines[-1])
    for i, line in enumerate(lines):
        if "error:" in line or "Error:" in line:
            return line.split("error:", 1)[-1].strip() + (
                " " + "; ".join(part.strip() for part in lines[i + 1:i + 6]) if line.endswith(":") else "")
    return lines[-1] if lines else ""


class Bench:
    """Makes what the record lacks."""

    def __init__(self, a):
        self.a, self.path = a, os.path.join(a.folder, "results.jsonl")
        self.record = {}
        if os.path.exists(self.path):
            with open(self.path) as file:
                for line in file:
                    entry = json.loads(line)
                    self.record[entry["model"], entry["stage"]] = entry
        self.remade = set()

    def stem(self, model):
        return os.path.join(self.a.folder, model)

    def get(self, model, stage, make):
        """What `make()` returns, a dictionary, now or before; None where it failed."""
        key = model, stage
        entry = self.record.get(key)
        if entry is None or key not in self.remade and (
                self.a.again or self.a.retry and "error" in entry):
            self.remade.add(key)
            try:
                entry = make()
            except Failure as failure:
                entry = {"error": str(failure)}
            entry = {"model": model, "stage": stage, **entry}
            self.record[key] = entry
            with open(self.path, "a") as file:
                file.write(json.dumps(entry) + "\n")
        return None if "error" in entry else entry

    def imports(self, entry, dropout, double=False):
        """Writes the files of a model."""
        stem = self.stem(entry.name) + IN_DOUBLE * double
        seconds, peak = run(
            [sys.executable, "-W", "ignore", os.path.join(self.a.bin, "mpcomm-import"), ZOO,
             "-O", "model=" + entry.name, "-O", f"dropout={dropout}", "-O", f"double={double}",
             "-o", stem + ".mlir", "--weights", stem + ".w", "--data", stem + ".d"], self.a)
        with open(stem + ".mlir") as file:
            text = file.read()
        return {"seconds": seconds, "peak": peak, "random": "role<rng>" in text,
                "ops": text.count(" = ")}

    def imported(self, entry):
        """Imports the model as it is, and then without what it drops by chance."""
        first = self.get(entry.name, "import", lambda: self.imports(entry, True))
        if first is None and self.record[entry.name, "import"]["error"].count("dropout") == 0:
            return False
        if first is None or first["random"] and not entry.random:
            return self.get(entry.name, "import without dropout",
                            lambda: self.imports(entry, False)) is not None
        return True

    def compiled(self, entry, ranks):
        stem = self.stem(entry.name)

        def make():
            if not os.path.exists(stem + ".mlir"):
                self.imports(entry, entry.random)
            seconds, peak = run([os.path.join(self.a.bin, "mpcomm-compile"), stem + ".mlir",
                                 "-o", f"{stem}-{ranks}.so", "--np", ranks], self.a)
            return {"seconds": seconds, "peak": peak}
        return self.get(entry.name, f"compile {ranks}", make)

    def trained(self, entry, ranks):
        stem = self.stem(entry.name)

        def make():
            if not os.path.exists(f"{stem}-{ranks}.so"):
                self.a.again = True
                self.compiled(entry, ranks)
            return self.steps(f"{stem}-{ranks}.so", stem, ranks)
        return self.get(entry.name, f"run {ranks}", make)

    def steps(self, program, stem, ranks):
        _, peak = run([os.path.join(self.a.bin, "mpcomm-run"), program, "--np", ranks, "--weights",
                       stem + ".w", "--data", stem + ".d", "--steps", self.a.steps, "--no-shuffle",
                       "--quiet", "--allow-nonfinite", "--log", stem + ".log"], self.a)
        with open(stem + ".log") as log:
            rows = [json.loads(line) for line in log]
        return {"losses": [float("nan") if r["loss"] is None else r["loss"] for r in rows],
                "ms": statistics.median(r["ms"] for r in rows), "peak": peak}

    def in_double(self, entry, ranks):
        """Ours in f64."""
        stem = self.stem(entry.name) + IN_DOUBLE

        def make():
            self.imports(entry, False, True)
            return self.steps(stem + ".mlir", stem, ranks)
        return self.get(entry.name, f"run in f64 {ranks}", make)

    def asked(self, entry, stage, job):
        """What this script does in a process of its own."""
        def make():
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "out")
                run([sys.executable, "-W", "ignore", os.path.abspath(__file__), "--job",
                     json.dumps(job), "--out", out], self.a,
                    at_best.environment(PYTHONWARNINGS="ignore"))
                with open(out) as file:
                    return json.load(file)
        return self.get(entry.name, stage, make)

    def reference(self, entry, ranks):
        return self.asked(entry, f"f64 {ranks}",
                          ["reference", entry.name, ranks, self.a.steps, entry.ordered])

    def moved(self, entry, ranks):
        return self.asked(entry, f"moved {ranks}", ["moved", entry.name, ranks, self.a.steps])

    def peer(self, entry, ranks, compiled):
        import torch
        name = f"PyTorch {torch.__version__.split('+')[0]}" + (" compiled" if compiled else "")
        return self.asked(entry, f"{name} {ranks}",
                          ["peer", entry.name, ranks, self.a.steps, compiled])


def job(words, out):
    """A measurement of PyTorch; writes it."""
    import peer
    from peer import Way
    kind, model, ranks, steps, *more = words
    options = {"model": model, "dropout": "false"}
    batch = peer.checks.example(ZOO, **options).batch * ranks

    def losses(**options_of_way):
        way = Way(slices=ranks, shuffle=False, **options_of_way)
        return peer.train(ZOO, options, batch, steps, way)

    if kind == "reference":
        exact = losses(double=True)
        apart = [0.0] * steps
        ways = [{}, {"native": True}]
        if not more[0]:
            ways += [{**way, "reverse": True} for way in ways]
        for way in ways:
            apart = [max(a, abs(x - y)) for a, x, y in zip(apart, losses(**way), exact)]
        result = {"losses": exact, "band": widest(apart), "terms": terms(ZOO, options) * batch}
    elif kind == "moved":
        result = {"each": [losses(moved=seed) for seed in range(1, 9)]}
    else:
        way = Way(ranks=ranks, shuffle=False, compiled=more[0])
        measured = peer.measure(ZOO, options, batch, steps + 5, way)
        result = {"ms": statistics.median(measured["ms"][5:]), "peak": measured["peak"]}
    with open(out, "w") as file:
        json.dump(result, file)


def terms(path, options):
    """Numbers that a sample adds to the loss: its labels, or without any what is compared
    with what it gives, which is as large."""
    import checks
    from mpcomm_import.torch_front.workload import names_of
    made = checks.example(path, **options)
    inputs = names_of(made.inputs)
    names = names_of(made.targets) or [n for n in inputs if "label" in n] or inputs
    return max(made.dataset[n][0].numel() for n in names)


# What the measurements say.

def distances(ours, reference):
    return [abs(x - y) for x, y in zip(ours["losses"], reference["losses"])]


def widest(apart):
    """The largest within 4 steps of each."""
    return [max(apart[max(s - 4, 0):s + 5]) for s in range(len(apart))]


def verdict(ours, reference, double=None, moved=None):
    """(largest distance, PyTorch's, whether each is within its bound, or those of `double` are and
    those in f32 no further than PyTorch's from parameters that are `moved`)"""
    if ours is None or reference is None:
        return None
    apart = distances(ours, reference)
    rounding = [2.0 ** -24 * math.sqrt(reference["terms"]) * abs(l) for l in reference["losses"]]
    good = len(apart) > 0 and all(x <= 4 * s + r for x, s, r in zip(apart, reference["band"], rounding))
    if not good and double is not None:
        far = [0.0] * len(apart)
        for losses in moved["each"] if moved else ():
            far = [max(f, x) for f, x in zip(far, distances({"losses": losses}, reference))]
        near = all(x <= max(0.01 * abs(l), 4 * f)
                   for x, l, f in zip(apart, reference["losses"], widest(far)))
        exact = distances(double, reference)
        good = near and len(exact) == len(apart) > 0 and all(x <= r for x, r in zip(exact, rounding))
    return max(apart, default=math.nan), max(reference["band"][:len(apart)], default=math.nan), good


def shown(value, form="{:.2g}", factor=1.0):
    return "" if value is None else form.format(value * factor)


@dataclasses.dataclass
class Row:
    """A model's line of the table."""

    bench: Bench
    entry: object

    def known(self, stage, key=None):
        found = self.bench.record.get((self.entry.name, stage))
        return None if found is None or "error" in found else found[key] if key else found

    @property
    def error(self):
        for (model, stage), found in self.bench.record.items():
            if model == self.entry.name and "error" in found:
                return f"{stage}: {found['error']}"
        return ""

    @property
    def verdicts(self):
        return [verdict(*(self.known(f"{stage} {r}") for stage in ("run", "f64", "run in f64", "moved")))
                for r in self.bench.a.ranks]

    @property
    def is_imported(self):
        return self.known("import") is not None

    @property
    def is_equal(self):
        runs = [self.known(f"run {r}") for r in self.bench.a.ranks]
        if self.entry.random:
            return all(run and all(map(math.isfinite, run["losses"])) for run in runs)
        return all(v is not None and v[2] for v in self.verdicts)

    def fastest(self, ranks):
        """(milliseconds, name) of the fastest PyTorch."""
        times = [(found["ms"], stage[:-2]) for (model, stage), found in self.bench.record.items()
                 if model == self.entry.name and stage.startswith("PyTorch") and
                 stage.endswith(f" {ranks}") and "ms" in found]
        return min(times, default=(None, ""))

    def cells(self):
        imports = self.known("import") or self.known("import without dropout")
        yield self.entry.name
        yield "yes" if self.is_imported else "**no**"
        yield shown(imports and imports["seconds"], "{:.1f}")
        yield shown(imports and imports["peak"], "{:.2f}", 1e-9)
        yield shown(self.known("compile 1", "seconds"), "{:.1f}")
        for v, ranks in zip(self.verdicts, self.bench.a.ranks):
            in_double = v and v[2] and self.known(f"run in f64 {ranks}")
            yield "" if v is None else f"{v[0]:.1e} / {v[1]:.1e}" + (
                ", equal in f64" if in_double else "" if v[2] else " **no**")
        for ranks in self.bench.a.ranks:
            theirs, name = self.fastest(ranks)
            mine = self.known(f"run {ranks}", "ms")
            yield "" if theirs is None or mine is None else \
                f"{milliseconds(mine)} / {milliseconds(theirs)} ({name})"
        yield shown(self.known("run 1", "peak"), "{:.2f}", 1e-9)
        yield self.error[:160].replace("|", "/") if not (self.is_imported and self.is_equal) else ""


def milliseconds(ms):
    return f"{ms:.3g}" if ms < 999.5 else f"{ms:.0f}"


def read_rows(path):
    """The cells of the rows of a page, by model."""
    rows = {}
    with open(path) as file:
        for line in file.read().partition(MARK)[2].splitlines():
            if line.startswith("| ") and not line.startswith("| model "):
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                rows[cells[0]] = cells
    return rows


def table(bench, entries, old):
    """`old`: rows of the page that is renewed; they have the cells of what was not measured."""
    ranks = bench.a.ranks
    heads = ["model", "imported", "s", "GB", "compile, s"] + \
        [f"loss from f64, {r} ranks" if r > 1 else "loss from f64: ours / PyTorch" for r in ranks] + \
        [f"ms a step, {r} ranks" if r > 1 else "ms a step: ours / PyTorch" for r in ranks] + ["GB of a step", "why not"]
    lines, family = [], None
    rows, compared, equal, ratios = [], 0, 0, []
    for entry in entries:
        if entry.family != family:
            family = entry.family
            lines += ["", f"**{family}**", "", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        measured = any(model == entry.name for model, _ in bench.record)
        row, before = Row(bench, entry), old.get(entry.name, [""] * len(heads))
        cells = list(row.cells()) if measured or entry.name not in old else before
        if len(before) == len(cells) and not row.error:
            cells = [new or kept for new, kept in zip(cells, before)]
        lines.append("| " + " | ".join(cells) + " |")
        rows.append(cells)
        losses = cells[5:5 + len(ranks)]
        if all(losses) or entry.random and cells[-2]:
            compared += 1
            equal += (row.is_equal if entry.random and measured else not any("**no**" in cell for cell in losses))
        times = re.match(r"([\d.]+) / ([\d.]+)", cells[4 + 2 * len(ranks)]) if ranks else None
        if times:
            ratios.append(max(float(times[1]), 0.05) / float(times[2]))  # of a page: 0.0 is less than 0.05
    lines += ["", f"{sum(cells[1] == 'yes' for cells in rows)} of {len(rows)} imported" + (
        f"; of {compared} compared, {equal} are equal." if compared else ".")]
    if ratios:
        lines += ["", f"On {ranks[-1]} ranks, geometric mean of ours / PyTorch over {len(ratios)} models: "
                  f"{statistics.geometric_mean(ratios):.2f}; largest {max(ratios):.2f}."]
    return "\n".join(lines[1:])


def measure(bench, entry, a):
    if not bench.imported(entry):
        return
    for ranks in a.ranks:
        if bench.compiled(entry, ranks) and bench.trained(entry, ranks) and \
                "losses" in a.columns and not entry.random:
            found = bench.trained(entry, ranks), bench.reference(entry, ranks)
            if all(found) and not verdict(*found)[2]:
                double = bench.in_double(entry, ranks)
                if double and not verdict(*found, double)[2]:
                    bench.moved(entry, ranks)
        for way in ("eager", "compiled"):
            if way in a.columns:
                bench.peer(entry, ranks, way == "compiled")
    if not a.keep:
        files = (".mlir", ".w", ".d", ".log")
        for end in (*files, *[IN_DOUBLE + end for end in files], *[f"-{r}.so" for r in a.ranks]):
            if os.path.exists(bench.stem(entry.name) + end):
                os.remove(bench.stem(entry.name) + end)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", help="models or families; default: all")
    p.add_argument("--folder", help="of results")
    p.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    p.add_argument("--columns", type=lambda text: text.split(","), default=["losses", "eager", "compiled"],
                   help="of PyTorch: losses in f64, times of eager, compiled (default: all)")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--ranks", type=lambda text: [int(r) for r in text.split(",") if r], default=[1, 2])
    p.add_argument("--timeout", type=float, default=600, help="seconds of a measurement")
    p.add_argument("--memory", type=int, default=24, help="GiB of addresses of a measurement")
    p.add_argument("--retry", action="store_true", help="repeat what failed")
    p.add_argument("--again", action="store_true", help="repeat everything")
    p.add_argument("--keep", action="store_true", help="keep graphs and programs")
    p.add_argument("--report", action="store_true", help="measure nothing")
    p.add_argument("--page", help="a page in Markdown whose table is renewed; what was not measured stays")
    p.add_argument("--job", help=argparse.SUPPRESS)
    p.add_argument("--out", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.job:
        return job(json.loads(a.job), a.out)
    import zoo
    os.makedirs(a.folder, exist_ok=True)
    bench = Bench(a)
    entries = [e for e in zoo.families.chosen(a.names) if not zoo.missing(e)]
    for entry in entries if not a.report else ():
        measure(bench, entry, a)
        print("| " + " | ".join(Row(bench, entry).cells()) + " |", flush=True)
    text = table(bench, entries, read_rows(a.page) if a.page else {})
    if a.report:
        print(text)
    if a.page:
        with open(a.page) as file:
            start = file.read().split(MARK)[0]
        with open(a.page, "w") as file:
            file.write(start + MARK + text + "\n")
    rows = [Row(bench, entry) for entry in entries]
    print(f"{sum(r.is_imported and r.is_equal for r in rows)} of {len(rows)} imported and equal")
    sys.exit(not a.report and not all(r.is_imported and r.is_equal for r in rows))


if __name__ == "__main__":
    main()
