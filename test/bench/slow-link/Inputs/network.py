# ===- network.py - ranks behind slow links, on one machine ----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""One network namespace a rank, joined by a bridge; each rank's link is limited in
both directions by a token bucket. docs/Guides/SlowLinks.md does the same by hand.

A script calls `isolate()` first: it starts itself again in namespaces of its own
(network, mounts, processes), which vanish with it, whatever happens.
"""

import os
import re
import subprocess
import sys
import time

MARK = "MPCOMM_SLOW_LINK"
LATENCY = "50ms"
LEAST_BURST, BURST_SECONDS = 80 << 10, 0.64e-3
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def burst(rate):
    """Bytes that may go at once: little against what is measured, but a segment that
    the network stack hands over whole (64 KB and headers), as to a network card. A
    smaller burst has the kernel cut it into packets, each with a timer and a wake-up."""
    number, unit = re.fullmatch(r"([\d.]+)([kmg]bit)", rate).groups()
    return str(int(max(LEAST_BURST, float(number) * UNITS[unit] / 8 * BURST_SECONDS)))


def isolate():
    """Returns in the isolated process; says what is missing where it cannot."""
    if os.environ.get(MARK):
        return
    if os.geteuid() != 0:
        sys.exit("slow-link: network namespaces and rate limits need root")
    probe = ("mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip netns add a && "
             "ip link add br0 type bridge && ip link add v type veth peer name w netns a && "
             "tc qdisc add dev v root tbf rate 1gbit burst 128kb latency 50ms")
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    try:
        done = subprocess.run([*command, "sh", "-c", probe], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=30, text=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"slow-link: cannot make namespaces (util-linux, iproute2): {error}")
    if done.returncode:
        sys.exit("slow-link: this kernel or container gives no network namespaces, bridges or "
                 f"token buckets: {done.stdout.strip()}")
    environment = dict(os.environ, **{MARK: "1"})
    os.execvpe("unshare", [*command, sys.executable, *sys.argv], environment)


def run(command):
    subprocess.run(command.split(), check=True)


def wait_all(processes, timeout):
    """Until all have ended; what has failed, or takes longer, is an error."""
    end = time.time() + timeout
    try:
        for process in processes:
            if process.wait(timeout=max(1, end - time.time())):
                raise RuntimeError(f"a rank ended with {process.returncode}")
    finally:
        for process in processes:
            process.kill()


class Network:
    """`ranks` namespaces with addresses 10.77.0.1, 10.77.0.2, …"""

    def __init__(self, ranks):
        self.ranks = ranks
        os.makedirs("/run/netns", exist_ok=True)
        run("mount -t tmpfs none /run/netns")
        run("ip link set lo up")
        run("ip link add br0 type bridge")
        run("ip link set br0 up")
        for r in range(ranks):
            run(f"ip netns add r{r}")
            run(f"ip link add v{r} type veth peer name eth0 netns r{r}")
            run(f"ip link set v{r} master br0 up")
            run(f"ip -n r{r} addr add {self.address(r)}/24 dev eth0")
            run(f"ip -n r{r} link set lo up")
            run(f"ip -n r{r} link set eth0 up")

    @staticmethod
    def address(rank):
        return f"10.77.0.{rank + 1}"

    def limit(self, rate, only=None):
        """`rate` as tc reads it, for each rank, or one, and direction; "" for none."""
        for r in range(self.ranks) if only is None else [only]:
            for device, inside in (("eth0", ["-n", f"r{r}"]), (f"v{r}", [])):
                subprocess.run(["tc", *inside, "qdisc", "del", "dev", device, "root"],
                               stderr=subprocess.DEVNULL, check=False)
                if rate:
                    subprocess.run(["tc", *inside, "qdisc", "add", "dev", device, "root", "tbf",
                                    "rate", rate, "burst", burst(rate), "latency", LATENCY], check=True)

    def start(self, rank, command, environment, core=None, **settings):
        """A process in the namespace of `rank`, on one core if `core` is given."""
        prefix = ["ip", "netns", "exec", f"r{rank}"]
        if core is not None:
            prefix += ["taskset", "-c", str(core)]
        return subprocess.Popen(prefix + command, env=environment, **settings)
