# ===- live.py - the network of a job, while it runs -------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What `mpcomm-run --monitor FILE` writes, as a table: the last look at the network and
how it came there."""

import json
import os
import sys
import time

from .summary import plain
from .timeline import ReportError

#: Looks that the history shows.
HISTORY = 60
BARS = "▁▂▃▄▅▆▇█"


def parse(text, path):
    """The looks in a file; a last line that is still being written is left out."""
    looks = []
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            look = json.loads(line)
            look["step"], look["ranks"], look["milliseconds"]
        except (ValueError, TypeError, KeyError):
            raise ReportError("%s:%d: expected a line of mpcomm-run --monitor"
                              % (path, number)) from None
        looks.append(look)
    return looks


def bars(values):
    """A character for each value, as high as it is beside the highest."""
    top = max(values, default=0)
    return "".join(BARS[min(int(8 * v / top), 7)] if top > 0 else BARS[0] for v in values)


def megabits(bandwidth):
    return "not known" if bandwidth is None else "%.3g Mb/s" % (8e-6 * bandwidth)


def row(cells, widths):
    return "  " + "  ".join("%*s" % (-w if w < 0 else w, c) for c, w in zip(cells, widths))


def table(looks, wide=True):
    """Text of the last look, and of the way there."""
    last = looks[-1]
    lines = ["step %d: %.1f ms, computing %.1f ms, waiting %.1f ms; transfers take %.1f ms"
             % (last["step"], last["milliseconds"], last["compute"], last["exposed"],
                last["communication"]),
             "link: " + megabits(last["bandwidth"])]
    if last.get("slow_links_of") is not None:
        lines.append("the links of rank %d are slow" % last["slow_links_of"])
    elif last["slow_link"]:
        lines.append("the link from rank %d to rank %d is slow" % tuple(last["slow_link"]))
    if last["straggler"] is not None:
        lines.append("rank %d is slow: the others wait %.1f ms for it"
                     % (last["straggler"], last["late"]))
    recent = looks[-HISTORY:]
    lines += ["", "ms a step  %s  %.1f to %.1f" % (
        bars([look["milliseconds"] for look in recent]),
        min(look["milliseconds"] for look in recent),
        max(look["milliseconds"] for look in recent))]
    known = [look["bandwidth"] for look in recent if look["bandwidth"]]
    if known:
        lines.append("link       %s  %s to %s" % (bars(known), megabits(min(known)),
                                                  megabits(max(known))))
    lines += ["", row(("rank", "ms a step", "computing", "waiting", "for later ranks"),
                      (4, 9, 9, 9, 15))]
    for rank in last["ranks"]:
        lines.append(row((rank["rank"], "%.1f" % rank["milliseconds"], "%.1f" % rank["compute"],
                          "%.1f" % rank["exposed"], "%.1f" % rank["waited"]), (4, 9, 9, 9, 15)))
    if wide and last["collectives"]:
        widths = (-14, -24, 10, 11, 9, 9)
        lines += ["", row(("collective", "name", "bytes", "transfer ms", "late ms",
                           "exposed"), widths)]
        for c in last["collectives"]:
            lines.append(row((c["kind"], plain(c["name"])[:24], c["bytes"],
                              "%.2f" % c["transfer"], "%.2f" % c["late"],
                              "%.2f" % c["exposed"]), widths))
    if last["plans"]:
        lines += ["", row(("plan", "expected ms"), (-24, 11))]
        for plan in last["plans"]:
            name = plain(plan["name"]) or "(the program)"
            lines.append(row((name[:24] , "%.1f" % plan["milliseconds"]), (-24, 11))
                         + ("  in use" if plan["current"] else ""))
    changes = [look for look in looks if look["decision"]]
    if changes:
        lines += [""] + ["step %d: %s" % (look["step"], plain(look["decision"]))
                         for look in changes[-5:]]
    return "\n".join(lines) + "\n"


def follow(path, interval):
    """Prints the table again whenever the file has grown, on a terminal until it is
    interrupted; elsewhere once."""
    shown = None
    while True:
        try:
            with open(path, encoding="utf-8", errors="replace") as source:
                looks = parse(source.read(), path)
        except OSError as error:
            raise ReportError("%s: %s" % (path, (error.strerror or str(error)).lower())) from None
        is_terminal = sys.stdout.isatty()
        if len(looks) != shown:
            shown = len(looks)
            text = table(looks, wide=not is_terminal or os.get_terminal_size().columns >= 90) \
                if looks else "%s: no look at the network yet\n" % path
            if is_terminal:
                sys.stdout.write("\033[H\033[2J")
            sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
            sys.stdout.flush()
        if not is_terminal:
            return
        try:
            time.sleep(interval)
        except KeyboardInterrupt:
            return
