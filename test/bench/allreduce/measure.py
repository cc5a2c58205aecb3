# ===- measure.py - all_reduce beside OpenMPI and Gloo -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Times sums of f32 in place over the ranks of one machine: ours over shared memory
(buffers in the arena, called as a compiled program calls it), OpenMPI's blocking and
non-blocking all-reduce, and Gloo's ring and bcube over the loopback device.

Fresh processes each time, in rounds that take turns, so that a busy machine disturbs
all equally; what other programs used of it is printed. A time is the median over a run's
batches of back-to-back calls, of which the best of the rounds is shown, in
microseconds; the ratio is ours to the best of the others.

With --check the exit status is 1 where the ratio exceeds 1 at any size, and where
none of the others is installed.

A small run, to see that all of it works (its programs are built without
sanitizers, with which the library's symbols are missing):
UNSUPPORTED: sanitizer
REQUIRES: long
RUN: %python %s --ranks=2 --sizes=4096,1048576 --rounds=1 --seconds=0.02 --cxx=%cxx --source=%mpcomm_src_root --library=%shlibdir | FileCheck %s
CHECK: 2 ranks
CHECK: shm
CHECK: 4 KB {{ *[0-9.]+}}
CHECK: 1 MB {{ *[0-9.]+}}
RUN: not %python %s --check --peers= --ranks=2 --cxx=%cxx --source=%mpcomm_src_root --library=%shlibdir 2>&1 | FileCheck %s --check-prefix=ALONE
ALONE: nothing to compare with
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = {"shm", "over MPI"}


def run(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options)


def mpirun(ranks):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--oversubscribe", *root, "-np", str(ranks)]


def build(folder, a):
    """Compiles the programs; returns {name: function of ranks that gives a command}."""
    inputs = os.path.join(HERE, "Inputs")

    def compile_program(name, *flags):
        out = os.path.join(folder, name)
        run([a.cxx, "-std=c++20", "-O2", os.path.join(inputs, name + ".cpp"), "-o", out,
             *flags])
        return out

    ours = compile_program(
        "ours", f"-I{a.source}/include", f"-I{a.source}/runtime", f"-L{a.library}",
        "-lMPCommRuntime", f"-Wl,-rpath,{a.library}")
    commands = {"shm": lambda n: [ours, "shm", str(n)]}
    if "openmpi" in a.peers and shutil.which("mpirun") and shutil.which("mpicc"):
        flags = [f for what in ("compile", "link")
                 for f in run(["mpicc", "--showme:" + what]).stdout.split()]
        openmpi = compile_program("openmpi", "-DOMPI_SKIP_MPICXX", *flags)
        commands["Allreduce"] = lambda n: [*mpirun(n), openmpi, "blocking"]
        commands["Iallreduce"] = lambda n: [*mpirun(n), openmpi, "nonblocking"]
        if a.mpi:
            commands["over MPI"] = lambda n: [*mpirun(n), ours, "mpi"]
    if "gloo" not in a.peers:
        return commands
    try:
        gloo = compile_program("gloo", "-lgloo", "-lpthread")
        commands["Gloo ring"] = lambda n: [gloo, "ring", str(n)]
        commands["Gloo bcube"] = lambda n: [gloo, "bcube", str(n)]
    except subprocess.CalledProcessError:
        print("Gloo cannot be compiled here: left out", file=sys.stderr)
    return commands


def processor_seconds():
    """Seconds of all processors spent on anything but idling."""
    with open("/proc/stat") as file:
        fields = [int(f) for f in file.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def foreign_share(start, own_start):
    """Part of the machine that other programs used since `start`."""
    own = sum(os.times()[2:4]) - own_start
    busy = processor_seconds() - start[1]
    return max(0, busy - own) / ((time.time() - start[0]) * os.cpu_count())


def name_of(size):
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit * 0.9:
            return f"{size / unit:.4g} {name}"
    return f"{size} B"


def measure(commands, ranks, a):
    start, own = (time.time(), processor_seconds()), sum(os.times()[2:4])
    times = {name: {} for name in commands}
    for _ in range(a.rounds):
        for name, command in commands.items():
            out = run([*command(ranks), str(a.seconds), *map(str, a.sizes)],
                      timeout=a.timeout).stdout
            for line in out.splitlines():
                size, _, median = line.split()
                times[name].setdefault(int(size), []).append(float(median))
    print(f"\n{ranks} ranks, microseconds; other programs took "
          f"{foreign_share(start, own):.0%} of the machine")
    print(f"{'':8}" + "".join(f"{name:>12}" for name in commands) + f"{'ratio':>8}")
    worst = 0
    for size in a.sizes:
        best = {name: min(times[name][size]) for name in commands}
        others = [t for name, t in best.items() if name not in OWN]
        ratio = best["shm"] / min(others) if others else float("nan")
        worst = max(worst, ratio) if others else worst
        print(f"{name_of(size):8}" + "".join(f"{best[name]:12.1f}" for name in commands)
              + f"{ratio:8.2f}", flush=True)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser.add_argument("--ranks", type=numbers, default=[2, 4])
    parser.add_argument("--sizes", type=numbers, help="bytes",
                        default=[4096, 65536, 1 << 20, 25 << 20, 100 << 20])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1, help="about, for each size")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--peers", type=lambda text: text.split(","),
                        default=["openmpi", "gloo"])
    parser.add_argument("--mpi", action="store_true",
                        help="our own communicator over MPI as well")
    parser.add_argument("--cxx", default="clang++-22")
    parser.add_argument("--source", default=os.path.join(HERE, *[".."] * 3))
    parser.add_argument("--library", required=True, help="folder of libMPCommRuntime.so")
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = build(folder, a)
        if a.check and not set(commands) - OWN:
            sys.exit("nothing to compare with: neither OpenMPI nor Gloo can be built here")
        worst = max(measure(commands, ranks, a) for ranks in a.ranks)
    if a.check and worst > 1:
        sys.exit(f"ours is slower than the best of the others: ratio {worst:.2f}")


if __name__ == "__main__":
    main()
