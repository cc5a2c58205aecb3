# ===- measure.py - a job that adjusts to the link, beside fixed plans -----=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains a model on ranks behind links whose rate changes while it runs. The program has a
plan for each rate, with another wire type; `mpcomm-run --adapt` chooses among them.

Shown are, for each rate, the median step of each plan alone on a link of that rate, and for
each phase of the run that adapts: its median step once 2 K steps have passed since the rate
changed, as a ratio to the best plan's and to the first plan's; after how many steps it was
within 5 % of the best plan for good. Then, with --steady, runs on links that stay as they
are: switches, and the step as a ratio to that of the same plan without --adapt, in turns. With
--blame, what runs say in which one link is slow, and in which one rank is. With --peers, the
steps of DistributedDataParallel, by hooks (test/bench/slow-link), on a link of each rate.

Needs root, for network namespaces and rate limits (docs/Guides/SlowLinks.md).

REQUIRES: torch, gloo, compiler, can-limit-network, long
RUN: %python %s --model=tiny --phases=200mbit,20mbit,200mbit --steps=30 --every=5 --plan-steps=6 --mpcomm-import=%mpcomm-import --mpcomm-compile=%mpcomm-compile --mpcomm-run=%mpcomm-run | FileCheck %s
CHECK: | plan | 200mbit | 20mbit |
CHECK: | 20mbit | narrow
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(BENCH, "slow-link", "Inputs"))
import network  # noqa: E402
from workloads import MODELS  # noqa: E402

WARMUP = 3
CPU_GROUPS = "/sys/fs/cgroup"
# name: options beside the cluster of the rate that it is for
PLANS = {"": "", "half": "wire=bf16", "narrow": "wire=i8"}
THIN = {"thin": "low-rank=2"}
EXACT = {"": "buckets=none overlap=false", "buckets": "", "one": "buckets=one"}


def draw(steps, changes, phases, fixed):
    """The run that adapts, with the plans alone at each rate behind it, as SVG."""
    width, height, left, top, bottom = 760, 300, 56, 16, 40
    highest = math.log(1.1 * max(max(steps), *(max(f.values()) for f in fixed.values())))
    lowest = math.log(0.9 * min(min(steps), *(min(f.values()) for f in fixed.values())))

    def x(step):
        return left + (width - left - 8) * step / len(steps)

    def y(ms):
        return top + (height - top - bottom) * (highest - math.log(ms)) / (highest - lowest)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    tick = 10 ** math.floor(lowest / math.log(10))
    while tick < math.exp(highest):
        for factor in (1, 2, 5):
            if lowest < math.log(factor * tick) < highest:
                at = y(factor * tick)
                parts.append(f'<path d="M{left} {at:.1f}H{width - 8}" stroke="#eee"/>'
                             f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">'
                             f'{factor * tick:g}</text>')
        tick *= 10
    ends = [*changes[1:], len(steps)]
    for rate, begin, end in zip(phases, changes, ends):
        middle = (x(begin) + x(end)) / 2
        parts.append(f'<path d="M{x(begin):.1f} {top}V{height - bottom}" stroke="#bbb" '
                     'stroke-dasharray="3 3"/>'
                     f'<text x="{middle:.1f}" y="{height - 22}" text-anchor="middle">{rate}</text>')
        for plan, found in fixed.items():
            at = y(found[rate])
            parts.append(f'<path d="M{x(begin) + 2:.1f} {at:.1f}H{x(end) - 2:.1f}" stroke="#999" '
                         'stroke-width="2"/>'
                         f'<text x="{x(end) - 4:.1f}" y="{at - 4:.1f}" text-anchor="end" '
                         f'fill="#777">{plan or "f32"}</text>')
    points = " ".join(f"{x(i + 0.5):.1f},{y(ms):.1f}" for i, ms in enumerate(steps))
    parts.append(f'<polyline points="{points}" fill="none" stroke="#1565c0" stroke-width="1.5"/>'
                 f'<text x="{left}" y="{height - 6}">steps; milliseconds of each, logarithmic</text>'
                 '</svg>')
    return "\n".join(parts) + "\n"


@contextlib.contextmanager
def quota(process, share):
    """Gives `process` that share of a core, by a quota of the kernel, and takes the quota away."""
    old = os.path.join(CPU_GROUPS, "cpu")
    period = 100000
    limits = {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": int(share * period)} \
        if os.path.isdir(old) else {"cpu.max": f"{int(share * period)} {period}"}
    group = tempfile.mkdtemp(prefix="mpcomm-", dir=old if os.path.isdir(old) else CPU_GROUPS)
    try:
        for name, value in {**limits, "cgroup.procs": process.pid}.items():
            with open(os.path.join(group, name), "w") as file:
                file.write(str(value))
        yield
    finally:
        process.kill()
        process.wait()
        os.rmdir(group)


class Bench:
    def __init__(self, a, links, folder):
        self.a, self.links, self.folder = a, links, folder
        self.cores = sorted(os.sched_getaffinity(0))
        self.plans = EXACT if a.exact else {**PLANS, **THIN} if a.thin else PLANS
        self.numerics = "exact" if a.exact else "low-rank" if a.thin else "i8"

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, command, **settings):
        ranks = self.a.ranks
        return [self.links.start(
            r, command, dict(os.environ, RANK=str(r), WORLD_SIZE=str(ranks), LOCAL_RANK="0",
                             MASTER_ADDR=network.Network.address(0), MASTER_PORT="29500",
                             GLOO_SOCKET_IFNAME="eth0"),
            self.cores[r % len(self.cores)], **settings) for r in range(ranks)]

    def finish(self, processes):
        network.wait_all(processes, self.a.timeout)

    def prepare(self):
        a = self.a
        MODELS[a.model].translate(a.mpcomm_import, self.path("m.mlir"), self.path("m.w"),
                                  self.path("m.d"))
        clusters = {}
        for rate in dict.fromkeys(a.phases):
            clusters[rate] = self.path(f"cluster.{rate}.json")
            self.links.limit(rate)
            self.finish(self.start([a.mpcomm_run, "--calibrate", clusters[rate], "--quiet"]))
        fastest = clusters[max(clusters, key=bits)]
        slowest = clusters[min(clusters, key=bits)]
        command = [a.mpcomm_compile, self.path("m.mlir"), "-o", self.path("m.so"), "--np",
                   str(a.ranks), f"--options={self.plans['']} cluster={fastest}"]
        for name, options in self.plans.items():
            if name:
                command += ["--variant", f"{name}: {options} cluster={slowest}"]
        subprocess.run(command, check=True)

    def command(self, steps, *more):
        return [self.a.mpcomm_run, self.path("m.so"), "--weights", self.path("m.w"), "--data",
                self.path("m.d"), "--steps", str(steps), "--log", self.path("log"), "--log-every",
                "1000000", "--timeout", "300", *more]

    def rows(self):
        try:
            with open(self.path("log")) as file:
                return [json.loads(line) for line in file.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def alone(self, rate, plan, steps, *more):
        """The median step of a plan on a link of that rate."""
        self.links.limit(rate)
        variant = ["--variant", plan] if plan else []
        self.finish(self.start(self.command(steps + WARMUP, "--quiet", *variant, *more)))
        return statistics.median(row["ms"] for row in self.rows()[WARMUP:])

    def peers(self, rates):
        """The median step of DDP by each of its hooks at each rate."""
        spec = importlib.util.spec_from_file_location(
            "slow_link", os.path.join(BENCH, "slow-link", "measure.py"))
        slow_link = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(slow_link)
        self.a.local, self.a.no_pin = 1, False
        other, it = slow_link.Bench(self.a, self.links, self.folder), MODELS[self.a.model]
        slow_link.ddp_rank.save(it.file, it.options, other.path(self.a.model, "pt"))
        for config in self.a.peers:
            print(f"| DDP {config}", end=" | ")
            for rate in rates:
                self.links.limit(rate)
                found = other.ddp(self.a.model, self.a.ranks, self.a.plan_steps, config)
                print(f"{found['ms']:.1f}", end=" | ", flush=True)
            print()

    def adapt(self):
        """Steps of each phase, and what the run said."""
        a = self.a
        if os.path.exists(self.path("log")):
            os.remove(self.path("log"))
        total = a.steps * len(a.phases)
        with open(self.path("text"), "w") as text:
            self.links.limit(a.phases[0])
            processes = self.start(self.command(
                total, "--adapt", self.numerics, "--adapt-every", str(a.every), "--monitor",
                self.path("monitor")), stdout=text)
            phase, done, deadline = 0, 0, time.time() + a.timeout
            while done < total and all(p.poll() is None for p in processes):
                if time.time() > deadline:
                    break
                done = len(self.rows())
                if done // a.steps > phase and done < total:
                    phase = done // a.steps
                    self.links.limit(a.phases[phase])
                    self.changes.append(done)
                time.sleep(0.02)
            self.finish(processes)
        with open(self.path("text")) as text:
            return [row["ms"] for row in self.rows()], text.read()

    def run(self):
        a = self.a
        self.prepare()
        rates = list(dict.fromkeys(a.phases))
        print(f"{a.model}, {a.ranks} ranks, a look at the network every {a.every} steps\n")
        print("| plan | " + " | ".join(rates) + " |")
        print("|---" * (len(rates) + 1) + "|")
        fixed = {plan: {rate: self.alone(rate, plan, a.plan_steps) for rate in rates}
                 for plan in self.plans}
        for plan, found in fixed.items():
            print(f"| {plan or 'the program'} | "
                  + " | ".join(f"{found[rate]:.1f}" for rate in rates) + " |")
        self.peers(rates)
        best = {rate: min(self.plans, key=lambda p, r=rate: fixed[p][r]) for rate in rates}
        sys.stdout.flush()
        self.changes = [0]
        steps, text = self.adapt()
        with open(self.path("monitor")) as monitor:
            looks = [json.loads(line) for line in monitor]
        print("\n| rate | plan at its end | ms a step after 2 K | best plan | ratio | ratio to the "
              "first plan | within 5 % after | link | expected of the plans |\n"
              "|---|---|---|---|---|---|---|---|---|")
        ends = [*self.changes[1:], len(steps)]
        for rate, begin, end in zip(a.phases, self.changes, ends):
            settled = statistics.median(steps[begin + 2 * a.every:end])
            target = 1.05 * fixed[best[rate]][rate]
            window = 5  # steps whose median has to be there
            late = [i for i in range(begin, end - window + 1)
                    if statistics.median(steps[i:i + window]) > target]
            after = f"{max(late) + 1 - begin} steps" if late else "0 steps"
            if late and max(late) == end - window:
                after = "not"
            last = [look for look in looks if begin < look["step"] <= end][-1]
            used = next((p["name"] for p in last["plans"] if p["current"]), "?")
            print(f"| {rate} | {used or 'the program'} | {settled:.1f} | "
                  f"{best[rate] or 'the program'} | {settled / fixed[best[rate]][rate]:.3f} | "
                  f"{settled / fixed[''][rate]:.3f} | {after} | {8e-6 * last['bandwidth']:.3g} "
                  f"Mb/s | {' '.join('%.1f' % p['milliseconds'] for p in last['plans'])} |")
        print()
        for line in re.findall(r"^.*another plan.*$", text, re.M):
            print(line)
        if a.svg:
            with open(a.svg, "w") as picture:
                picture.write(draw(steps, self.changes, a.phases, fixed))
        for rate in rates if a.steady else []:
            self.steady(rate, best[rate])

    def blame(self):
        """What a run says when one link is slow, and when one rank is: it has a third of the
        rate; it has half of its core, for another program takes the rest or by a quota."""
        a = self.a
        rate = a.phases[0]
        number, unit = re.fullmatch(r"([\d.]+)([kmg]bit)", rate).groups()
        cases = [("nobody is slow", None, None)]
        cases += [(f"the links of rank {r} have a third of the rate", r, None)
                  for r in range(a.ranks) if a.ranks > 2]
        cases += [(f"rank {r} shares its core", None, r) for r in range(min(a.ranks, 2))]
        cases += [(f"rank {r} has a quota of half of its core", None, r)
                  for r in range(min(a.ranks, 2))]
        for title, link, core in cases:
            by_quota = "quota" in title
            self.links.limit(rate)
            if link is not None:
                self.links.limit(f"{float(number) / 3:g}{unit}", only=link)
            spinner = core is not None and not by_quota and subprocess.Popen(
                ["taskset", "-c", str(self.cores[core % len(self.cores)]), sys.executable, "-c",
                 "while True: pass"])
            with open(self.path("text"), "w") as text:
                try:
                    processes = self.start(self.command(
                        3 * a.every, "--adapt-every", str(a.every), "--monitor",
                        self.path("monitor")), stdout=text)
                    with quota(processes[core], 0.5) if by_quota else contextlib.nullcontext():
                        self.finish(processes)
                finally:
                    if spinner:
                        spinner.kill()
            with open(self.path("text")) as text:
                said = [line[len("network: "):] for line in text.read().split("\n")
                        if line.startswith("network: ")]
            print(f"{title}: {'; '.join(dict.fromkeys(said)) or 'nothing is said'}")
            sys.stdout.flush()

    def steady(self, rate, plan):
        a = self.a
        ratios, switches, shares = [], 0, []
        for _ in range(a.rounds):
            before = self.alone(rate, plan, a.steady)
            with_it = self.alone(rate, plan, a.steady, "--adapt", self.numerics,
                                 "--adapt-every", str(a.every), "--monitor", self.path("monitor"))
            ratios.append(with_it / before)
            with open(self.path("monitor")) as monitor:
                looks = [json.loads(line) for line in monitor]
            switches += looks[-1]["switches"]
            # A step's time ends before the look at it.
            shares.append(statistics.mean(look["review"] for look in looks) / a.every / before)
            for look in looks:
                if look["decision"]:
                    print(f"step {look['step']}, another plan: {look['decision']}")
        print(f"steady {rate}, {plan or 'the program'}: {switches} switches in "
              f"{a.rounds * (a.steady + WARMUP)} steps, step {statistics.median(ratios):.4f} of the "
              f"plan alone ({' '.join(f'{r:.4f}' for r in ratios)}), looks "
              f"{100 * statistics.median(shares):.3f} % of it")
        sys.stdout.flush()


def bits(rate):
    number, unit = re.fullmatch(r"([\d.]+)([kmg]bit)", rate).groups()
    return float(number) * network.UNITS[unit]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="gpt-10m", choices=MODELS)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--phases", default="1gbit,200mbit,50mbit,1gbit", type=lambda t: t.split(","),
                   help="rates, as tc reads them, one after the other")
    p.add_argument("--steps", type=int, default=60, help="of a phase")
    p.add_argument("--every", type=int, default=10, help="K: steps between looks")
    p.add_argument("--plan-steps", type=int, default=10, help="of each plan at each rate")
    p.add_argument("--steady", type=int, default=0, help="steps on each link as it stays")
    p.add_argument("--rounds", type=int, default=3, help="of the steady runs")
    p.add_argument("--blame", action="store_true",
                   help="instead: what is said of a slow link and of a slow rank")
    p.add_argument("--peers", default=[], type=lambda t: t.split(","), metavar="HOOKS",
                   help="of DDP, as in view,view+fp16,view+cap100+powersgd2")
    p.add_argument("--svg", metavar="FILE", help="a picture of the run")
    p.add_argument("--exact", action="store_true",
                   help="plans that compute the same: buckets for each rate, and one for each tensor")
    p.add_argument("--thin", action="store_true", help="with a plan that sends thin matrices, too")
    p.add_argument("--timeout", type=float, default=3000)
    p.add_argument("--mpcomm-import", default="mpcomm-import")
    p.add_argument("--mpcomm-compile", default="mpcomm-compile")
    p.add_argument("--mpcomm-run", default="mpcomm-run")
    a = p.parse_args()
    if a.steps <= 2 * a.every:
        p.error(f"expected --steps of more than 2 x {a.every}, the steps of --every, found {a.steps}")
    network.isolate()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a, network.Network(a.ranks), folder)
        if a.blame:
            bench.prepare()
            bench.blame()
        else:
            bench.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
