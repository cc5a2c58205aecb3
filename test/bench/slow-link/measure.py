# ===- measure.py - training over slow links, beside PyTorch ---------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Times training steps of models on ranks behind links of limited rate: ours over
Gloo, and PyTorch's DistributedDataParallel, FSDP2 or DeepSpeed over Gloo, with the same
weights, samples and optimizer, over the same links, on the same cores (rank r on
core r modulo their number), in rounds that take turns.

Shown are medians over the rounds of: the time of a step (median over a run of
rank 0's wall time, steps back to back); exposed communication, ours as the run
reports it, DDP's as its step less one of the same processes without
communication; the peak resident size of the largest rank; how much of the
machine other programs used. "by difference" is our step less that of our program
for one rank, run in all namespaces at once: DDP's way of counting.

`--ours` takes several forms of our compilation, as NAME=OPTIONS of
mpcomm-compile's pipeline, separated by semicolons. In options, {cluster} is a
cluster file that `mpcomm-run --calibrate` measures before, on the same ranks, cores
and links, and {ranks} their number. With {cluster}, what `mpcomm-sim` predicts for it
is shown beside what was measured. Configurations of PyTorch are
those of test/bench/ddp; `fp16` compares with forms that send 16 bits, `powersgd` with those that keep
what they lose (`low-rank=`, `wire=i4`) and with `local-steps=`, whose figures are for one
local step; and `fsdp` and `zero3`,
which want PyTorch 2 and DeepSpeed, with forms that have `zero=`.

Needs root, for network namespaces and rate limits (docs/Guides/SlowLinks.md).

A small run, to see that all of it works:
REQUIRES: torch, gloo, compiler, can-limit-network, long
RUN: %python %s --models=tiny --ranks=2 --rates=200mbit --rounds=1 --steps=6 --local=2 --configs=view --curves=%t.svg --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run --mpcomm-sim=%mpcomm-sim "--ours=mpcomm=cluster={cluster}" | FileCheck %s
CHECK: tiny, 2 ranks, 200mbit
CHECK: DDP view
CHECK: | mpcomm |
CHECK: mpcomm: ratios to DDP view: step {{[0-9.]+}}, exposed {{-?[0-9.]+}}
CHECK: mpcomm: predicted {{[0-9.]+}} ms ({{[-+][0-9.]+}} %), exposed {{[0-9.]+}} ms
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

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "Inputs"))
sys.path.insert(0, os.path.join(BENCH, "ddp", "Inputs"))
sys.path.insert(0, os.path.join(BENCH, "ddp"))
import ddp_rank  # noqa: E402  (no PyTorch until it runs)
import measure as ddp  # noqa: E402
import network  # noqa: E402
from workloads import MODELS  # noqa: E402

WARMUP = 2
SMOOTH = 5  # steps of a point of a curve


def rank_environment(base, rank, ranks):
    return dict(base, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0",
                MASTER_ADDR=network.Network.address(0), MASTER_PORT="29500",
                GLOO_SOCKET_IFNAME="eth0")


SHARDED = "FSDP2 ", "DeepSpeed "


def label(config):
    """Of a configuration of PyTorch."""
    words = config.split("+")
    kind = "FSDP2 " if "fsdp" in words else "DeepSpeed " if "zero" in config else "DDP "
    return kind + config


def is_peer(name):
    return name.startswith(("DDP ", *SHARDED))


class Bench:
    def __init__(self, a, links, folder):
        self.a, self.links, self.folder = a, links, folder
        self.cores = sorted(os.sched_getaffinity(0))

    def core(self, rank):
        return None if self.a.no_pin else self.cores[rank % len(self.cores)]

    def start_all(self, ranks, command, base, **settings):
        return [self.links.start(r, command(r), rank_environment(base, r, ranks), self.core(r),
                                 **settings) for r in range(ranks)]

    def ddp(self, model, ranks, steps, config):
        a, out = self.a, os.path.join(self.folder, "ddp")
        job = {"file": MODELS[model].file, "workload": self.path(model, "pt"),
               "batch": MODELS[model].batch, "steps": steps, "warmup": WARMUP, "local": a.local,
               "words": config.split("+"), "out": out}
        script = os.path.join(BENCH, "ddp", "Inputs", "ddp_rank.py")
        command = [sys.executable, script, json.dumps(job)]
        network.wait_all(self.start_all(ranks, lambda r: command, ddp.peer_environment(job["words"])),
                 a.timeout)
        results = []
        for r in range(ranks):
            with open(f"{out}.{r}") as file:
                results.append(json.load(file))
        ms = statistics.median(results[0]["ms"])
        return {"ms": ms, "exposed_ms": ms - statistics.median(results[0]["local_ms"]),
                "loss": results[0]["loss"], "peak_mb": max(r["peak_mb"] for r in results),
                "curve": results[0]["curve"]}

    def path(self, model, end):
        return os.path.join(self.folder, f"{model}.{end}")

    def program(self, model, form):
        return self.path(model, f"{form}.so")

    def prepare(self, model):
        """Weights and samples of a model, for both sides."""
        it = MODELS[model]
        ddp_rank.save(it.file, it.options, self.path(model, "pt"))
        it.translate(self.a.mpcomm_import, self.path(model, "mlir"), self.path(model, "w"),
                     self.path(model, "d"))
        self.compile(model, "alone", "", 1, "")

    def compile(self, model, form, options, ranks, cluster):
        options = options.format(ranks=ranks, cluster=cluster)
        subprocess.run([self.a.mpcomm_compile, self.path(model, "mlir"), "-o",
                        self.program(model, form), "--np", str(ranks),
                        *(["--options=" + options] if options else [])], check=True)

    def calibrate(self, ranks, rate):
        """The cluster file of these ranks and links, measured once."""
        path = os.path.join(self.folder, f"cluster.{ranks}.{rate}.json")
        if not os.path.exists(path):
            command = [self.a.mpcomm_run, "--calibrate", path, "--quiet"]
            network.wait_all(self.start_all(ranks, lambda r: command, os.environ), self.a.timeout)
        return path

    def predict(self, model, ranks, cluster):
        """Milliseconds of a step, and those of them that communication is exposed."""
        text = subprocess.run([self.a.mpcomm_sim, self.path(model, "mlir"), "--cluster=" + cluster,
                               f"--ranks={ranks}"], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        return [float(re.search(rf"^{word} +([\d.]+) us", text, re.M)[1]) / 1e3
                for word in ("step", "exposed")]

    def log(self, rank):
        return os.path.join(self.folder, f"log.{rank}")

    def ours_command(self, model, program, steps, rank):
        return [self.a.mpcomm_run, program, "--weights", self.path(model, "w"), "--data",
                self.path(model, "d"), "--steps", str(steps), "--log", self.log(rank),
                "--log-every", "1000000", "--timeout", "300"]

    def rows(self, rank):
        with open(self.log(rank)) as file:
            return [json.loads(line) for line in file]

    def ours(self, model, ranks, steps, form):
        texts = [os.path.join(self.folder, f"text.{r}") for r in range(ranks)]
        processes = []
        for r in range(ranks):
            with open(texts[r], "w") as text:
                processes.append(self.links.start(
                    r, self.ours_command(model, self.program(model, form), steps + WARMUP, r),
                    rank_environment(os.environ, r, ranks), self.core(r), stdout=text))
        network.wait_all(processes, self.a.timeout)
        rows = self.rows(0)
        with open(texts[0]) as text:
            peaks = re.findall(r"peak(?: of rank \d+)? +([\d.]+) MB", text.read())
        timed = rows[WARMUP:]
        # A step of a form with local steps is as many of others.
        local = re.search(r"local-steps=(\d+)", self.a.forms[form])
        batches = int(local[1]) if local else 1
        return {"ms": statistics.median(r["ms"] for r in timed) / batches,
                "exposed_ms": statistics.median(r["exposed_ms"] for r in timed) / batches,
                "loss": [rows[0]["loss"], rows[-1]["loss"]], "peak_mb": max(map(float, peaks)),
                "curve": [(r["ms"], r["loss"]) for r in rows]}

    def alone(self, model, ranks, steps):
        """Our program for one rank on every core at once, as many as there are ranks."""
        processes = []
        for r in range(ranks):
            command = self.ours_command(model, self.program(model, "alone"), steps + WARMUP, r)
            processes.append(self.links.start(r, command + ["--quiet", "--comm", "shm"], os.environ,
                                              self.core(r)))
        network.wait_all(processes, self.a.timeout)
        return {"ms": statistics.median(r["ms"] for r in self.rows(0)[WARMUP:])}


def compare(title, runs):
    """Prints a table; the figures of it."""
    print(f"\n{title}")
    print("| | ms a step | its rounds | exposed ms | share | by difference | peak MB | loss | "
          "others' cores |")
    print("|---|---|---|---|---|---|---|---|---|")
    alone = ddp.median(runs["alone"], "ms")
    result = {}
    for name, rs in runs.items():
        ms, others = ddp.median(rs, "ms"), max(r["others"] for r in rs)
        rounds = " ".join(f"{r['ms']:.1f}" for r in rs)
        if name == "alone":
            print(f"| mpcomm, one rank | {ms:.1f} | {rounds} | | | | | | {others:.2f} |")
            continue
        exposed = ddp.median(rs, "exposed_ms")
        difference = exposed if is_peer(name) else ms - alone
        result[name] = {"ms": ms, "exposed_ms": exposed, "difference_ms": difference,
                        "peak_mb": max(r["peak_mb"] for r in rs)}
        print(f"| {name} | {ms:.1f} | {rounds} | {exposed:.1f} | {100 * exposed / ms:.0f} % | "
              f"{difference:.1f} | {result[name]['peak_mb']:.0f} | "
              f"{rs[0]['loss'][0]:.4f} -> {rs[0]['loss'][1]:.4f} | {others:.2f} |")
    return result


def loss_of(name):
    """What a form may lose of gradients: nothing, 16 bits, or more."""
    if any(word in name for word in ("powersgd", "low-rank", "i8", "i4", "i1", "feedback",
                                    "local-steps", "top1of")):
        return "more"
    return "16 bits" if any(word in name for word in ("16", "f8")) else "nothing"


def ratios(result, forms):
    """Ours to the fastest of PyTorch that sends as many bits; where ranks hold parts, of FSDP2 and
    DeepSpeed that compute in the same type."""
    for name, ours in result.items():
        if is_peer(name):
            continue
        if re.search("zero=[1-3a]", forms[name]) and any(n.startswith(SHARDED) for n in result):
            lowers = "bf16" in forms[name]
            peers = {n: r for n, r in result.items()
                     if n.startswith(SHARDED) and lowers == ("bf16" in n)}
        else:
            peers = {n: r for n, r in result.items()
                     if n.startswith("DDP") and loss_of(n) == loss_of(name + forms[name])}
        if not peers:
            continue
        best = min(peers, key=lambda n: peers[n]["ms"])
        theirs = peers[best]

        def part(key, theirs=theirs, ours=ours):
            return ours[key] / theirs[key] if theirs[key] > 0 else float("nan")
        print(f"{name}: ratios to {best}: step {part('ms'):.3f}, exposed {part('exposed_ms'):.3f} "
              f"(by difference {part('difference_ms'):.3f}), memory {part('peak_mb'):.3f}")


def compare_prediction(form, predicted, result):
    step, exposed = predicted
    error = 100 * (step / result[form]["ms"] - 1)
    print(f"{form}: predicted {step:.1f} ms ({error:+.1f} %), exposed {exposed:.1f} ms")


def draw(results):
    """Steps as bars, their exposed part light, as SVG; `results` by title."""
    width, bar, gap, left = 760, 16, 6, 190
    rows, top = [], 8
    longest = max(r["ms"] for result in results.values() for r in result.values())
    for title, result in results.items():
        top += 18
        rows.append(f'<text x="4" y="{top}" font-weight="bold">{title}</text>')
        top += 8
        for name, r in result.items():
            scale = (width - left - 150) / longest
            full, busy = scale * r["ms"], scale * max(0, r["ms"] - r["exposed_ms"])
            colour, light = ("#777", "#ccc") if is_peer(name) else ("#1565c0", "#90caf9")
            rows.append(
                f'<text x="{left - 6}" y="{top + 12}" text-anchor="end">{name}</text>'
                f'<rect x="{left}" y="{top}" width="{full:.1f}" height="{bar}" fill="{light}"/>'
                f'<rect x="{left}" y="{top}" width="{busy:.1f}" height="{bar}" fill="{colour}"/>'
                f'<text x="{left + full + 6:.1f}" y="{top + 12}">{r["ms"]:.0f} ms, exposed '
                f'{100 * r["exposed_ms"] / r["ms"]:.0f} %</text>')
            top += bar + gap
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + 8}" '
            f'font-family="sans-serif" font-size="12"><rect width="{width}" height="{top + 8}" '
            'fill="white"/>' + "\n".join(rows) + "</svg>\n")


def draw_curves(title, runs):
    """The loss by seconds since the first step, as SVG: means of SMOOTH steps of the first round.
    Prints when each was as low as all of them get."""
    lines = {}
    for name, rounds in runs.items():
        at, losses, line = 0.0, [], []
        for ms, loss in rounds[0].get("curve", []):
            at += ms / 1e3
            losses = [*losses[1 - SMOOTH:], loss]
            line.append((at, statistics.fmean(losses)))
        if len(line) >= SMOOTH:
            lines[name] = line[SMOOTH - 1:]
    reached = max(min(loss for _, loss in line) for line in lines.values())
    print(f"\n| {title} | last loss | seconds to {reached:.4g} |\n|---|---|---|")
    for name, line in lines.items():
        when = next(at for at, loss in line if loss <= reached)
        print(f"| {name} | {line[-1][1]:.4g} | {when:.1f} |")
    width, height, left, right, top, bottom = 860, 320, 52, 250, 12, 40
    seen = [point for line in lines.values() for point in line]
    low, high = min(loss for _, loss in seen), max(loss for _, loss in seen)
    begin, end = (math.log(f(at for at, _ in seen)) for f in (min, max))

    def x(at):
        return left + (width - left - right) * (math.log(at) - begin) / (end - begin)

    def y(loss):
        return top + (height - top - bottom) * (high - loss) / (high - low or 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif" font-size="12">'
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        loss = low + share * (high - low)
        parts.append(f'<path d="M{left} {y(loss):.1f}H{width - right}" stroke="#eee"/>'
                     f'<text x="{left - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.3g}</text>')
    for tick in (factor * 10 ** power for power in range(-2, 5) for factor in (1, 2, 5)):
        if begin <= math.log(tick) <= end:
            parts.append(f'<path d="M{x(tick):.1f} {top}V{height - bottom}" stroke="#eee"/>'
                         f'<text x="{x(tick):.1f}" y="{height - 24}" text-anchor="middle">{tick:g}</text>')
    ours = ["#1565c0", "#00897b", "#6a1b9a", "#c62828", "#ef6c00"]
    theirs = ["#aaa", "#666", "#222"]
    for i, (name, line) in enumerate(lines.items()):
        colours = theirs if is_peer(name) else ours
        colour = colours[sum(is_peer(n) == is_peer(name) for n in list(lines)[:i]) % len(colours)]
        points = " ".join(f"{x(at):.1f},{y(loss):.1f}" for at, loss in line)
        dash = ' stroke-dasharray="5 3"' if is_peer(name) else ""
        at, key = top + 16 * (i + 1), width - right + 14
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
                     f'<path d="M{key} {at - 4}h20" stroke="{colour}" stroke-width="1.8"{dash}/>'
                     f'<text x="{key + 26}" y="{at}">{name}</text>')
    parts.append(f'<text x="{left}" y="{height - 6}">{title}: loss, mean of {SMOOTH} steps, by seconds, '
                 'logarithmic</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default="gpt-10m,gpt-50m", help=", ".join(MODELS))
    p.add_argument("--ranks", default="2,4")
    p.add_argument("--rates", default="1gbit,200mbit", help="as tc reads them")
    p.add_argument("--configs", default="view,view+cap4,view+fp16",
                   help="of PyTorch, see test/bench/ddp/Inputs/ddp_rank.py")
    p.add_argument("--ours", default="mpcomm=", help="NAME=OPTIONS;…")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, help="timed steps of a run")
    p.add_argument("--local", type=int, default=3, help="steps of DDP without communication")
    p.add_argument("--no-pin", action="store_true", help="let the ranks share all cores")
    p.add_argument("--timeout", type=float, default=900, help="seconds of one run")
    p.add_argument("--mpcomm-import", default="mpcomm-import")
    p.add_argument("--mpcomm-compile", default="mpcomm-compile")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    p.add_argument("--mpcomm-sim", default="mpcomm-sim")
    p.add_argument("--out", metavar="FILE", help="all numbers as JSON")
    p.add_argument("--svg", metavar="FILE", help="steps as bars")
    p.add_argument("--curves", metavar="FILE", help="losses by seconds, of the last model and link")
    a = p.parse_args()
    network.isolate()
    if a.curves and (a.steps or min(MODELS[m].steps for m in a.models.split(","))) < SMOOTH:
        p.error(f"expected --steps of at least {SMOOTH} with --curves")
    a.rank_counts = [int(r) for r in a.ranks.split(",")]
    a.forms = dict(form.split("=", 1) for form in a.ours.split(";"))
    everything, results = [], {}
    with tempfile.TemporaryDirectory() as folder:
        links = network.Network(max(a.rank_counts))
        bench = Bench(a, links, folder)
        for model in a.models.split(","):
            bench.prepare(model)
            for ranks in a.rank_counts:
                for rate in a.rates.split(","):
                    links.limit(rate)
                    needs = any("{cluster}" in options for options in a.forms.values())
                    cluster = bench.calibrate(ranks, rate) if needs else ""
                    for form, options in a.forms.items():
                        bench.compile(model, form, options, ranks, cluster)
                    steps = a.steps or MODELS[model].steps
                    jobs = [(label(c), bench.ddp, (model, ranks, steps, c))
                            for c in a.configs.split(",") if c]
                    jobs += [(form, bench.ours, (model, ranks, steps, form)) for form in a.forms]
                    jobs.append(("alone", bench.alone, (model, ranks, steps)))
                    runs = ddp.in_turns(jobs, a.rounds)
                    title = f"{model}, {ranks} ranks, {rate}"
                    result = results[title] = compare(title, runs)
                    ratios(result, a.forms)
                    for form, options in a.forms.items():
                        if options == "cluster={cluster}":
                            compare_prediction(form, bench.predict(model, ranks, cluster), result)
                    sys.stdout.flush()
                    everything.append({"title": title, "runs": runs})
                    if a.curves:
                        with open(a.curves, "w") as picture:
                            picture.write(draw_curves(title, runs))
    if a.out:
        with open(a.out, "w") as file:
            json.dump(everything, file, indent=1)
    if a.svg:
        with open(a.svg, "w") as picture:
            picture.write(draw(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
