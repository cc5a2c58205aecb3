# ===- cli.py - the command mpcomm-report ------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""mpcomm-report: shows the communication of a training step, its cost and the reasons.

Reads one or two timelines of mpcomm-sim or mpcomm-run and prints a table. If there
are two, the simulated timeline comes first.
"""

import argparse
import json
import os
import stat
import sys
import tempfile

from . import live, page, perfetto, pipeline, summary
from .drawing import Drawing, escape
from .timeline import ReportError, read

VERSION = "mpcomm-report 0.1.0"


def parser():
    p = argparse.ArgumentParser(prog="mpcomm-report", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("timelines", nargs="*", metavar="FILE",
                   help="timeline (JSON, schema mpcomm-timeline-1); one or two")
    p.add_argument("--live", metavar="FILE",
                   help="show what mpcomm-run --monitor FILE writes, as long as it does: which "
                   "rank and which link is slow, what collectives take, which plan is used")
    p.add_argument("--json", action="store_true", help="print JSON instead of the table")
    p.add_argument("--html", metavar="OUT", help="write one self-contained page")
    p.add_argument("--svg", metavar="OUT",
                   help="write only the picture: the passes of a pipeline, else the "
                   "streams of all timelines")
    p.add_argument("--perfetto", metavar="OUT",
                   help="write a trace for ui.perfetto.dev or chrome://tracing")
    p.add_argument("--version", action="version", version=VERSION)
    return p


def is_plain(path):
    """Whether a file can be put in the place of what is there now."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def write_all(outputs):
    """Writes (path, text) pairs; a file appears whole, or it stays as it was."""
    ready = []
    path = None
    try:
        for path, text in outputs:
            data = text.encode("utf-8", "backslashreplace")
            if not is_plain(path):
                with open(path, "wb") as out:
                    out.write(data)
                continue
            # A link stays: what it leads to is replaced.
            target = os.path.realpath(path)
            handle, temporary = tempfile.mkstemp(
                prefix=".mpcomm-report-", dir=os.path.dirname(target))
            ready.append((temporary, target))
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        while ready:
            path = ready[0][1]
            os.replace(*ready[0])
            ready.pop(0)
    except OSError as error:
        raise ReportError("%s: %s" % (
            path, (error.strerror or str(error)).lower())) from None
    finally:
        for temporary, _ in ready:
            os.unlink(temporary)


def svg(timelines):
    """The pipeline of the first timeline that is one, else the picture of the page."""
    css = page.resource("page.css")
    for t in timelines:
        if t.pipeline and pipeline.passes_of(t):
            if pipeline.count_passes(t) > pipeline.MOST_PASSES:
                raise ReportError("%s: expected at most %d passes to draw with --svg, found"
                                  " %d" % (t.file, pipeline.MOST_PASSES,
                                           pipeline.count_passes(t)))
            return pipeline.Diagram(t, escape).svg(pipeline.style(css)) + "\n"
    return Drawing(timelines).svg([summary.heading(t) for t in timelines],
                                  pipeline.style(css)) + "\n"


def run(arguments):
    if arguments.live:
        if arguments.timelines or arguments.json or arguments.html or arguments.svg \
                or arguments.perfetto:
            raise ReportError("expected --live alone")
        return live.follow(arguments.live, interval=1)
    if not 1 <= len(arguments.timelines) <= 2:
        raise ReportError("expected one or two timelines, found %d"
                          % len(arguments.timelines))
    named = [p for p in (arguments.html, arguments.svg, arguments.perfetto) if p]
    for path in named:
        if named.count(path) > 1:
            raise ReportError("%s: named for two outputs" % path)
    timelines = [read(path) for path in arguments.timelines]
    timelines.sort(key=lambda t: t.kind != "simulated")
    outputs = []
    if arguments.html:
        outputs.append((arguments.html, page.page(timelines)))
    if arguments.svg:
        outputs.append((arguments.svg, svg(timelines)))
    if arguments.perfetto:
        outputs.append((arguments.perfetto, json.dumps(perfetto.trace(timelines))))
    if arguments.json:
        text = json.dumps(summary.facts(timelines), indent=1) + "\n"
    else:
        text = summary.table(timelines)
    write_all(outputs)
    for warning in summary.warnings(timelines):
        complain("warning", warning)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.flush()


def complain(kind, text):
    line = "mpcomm-report: %s: %s\n" % (kind, summary.plain(text))
    sys.stderr.buffer.write(line.encode("utf-8", "backslashreplace"))
    sys.stderr.flush()


def main(argv=None):
    arguments = parser().parse_args(argv)
    try:
        run(arguments)
    except ReportError as error:
        complain("error", str(error))
        return 1
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
