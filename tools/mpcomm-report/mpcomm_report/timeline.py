# ===- timeline.py - timelines, as files give them ---------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Reads the schema mpcomm-timeline-1 that mpcomm-sim and mpcomm-run write. Whatever is
not as the schema says is an error that names the file and the path inside it; what
comes out of `read` needs no further checks.

Times are seconds since the begin of the step, sizes are bytes of one rank.
"""

import json
import math
import re

SCHEMA = "mpcomm-timeline-1"
MOST_SECONDS = 1e9
MOST_BYTES = 2 ** 63 - 1
ACTION = re.compile("[FBIW][0-9]{1,8}")

# Reasons, as mpcomm::toString(SimReason) prints them, in the words of the report.
REASONS = {
    "none": "all of it is hidden under computation",
    "dependency": "the next computation needs its result",
    "nothing-to-hide-under": "no computation is left that could run beside it",
    "memory-bound": "the limit on memory made it start later or be awaited earlier",
    "late-peer": "another rank got to it late: that rank computed, or waited itself",
    "stream-order": "it had to wait for the collective before it",
    "below-saturating-size": "it is too small to use the bandwidth of its link",
    "user-cap": "a limit that the user set gave it its size or place",
}


class ReportError(Exception):
    """What to print after `error:`."""


class Event:
    def __init__(self, o):
        self.name, self.location = o.text("name"), o.text("location", "")
        self.begin, self.end = o.interval("begin", "end")
        flow = o.integer("flow", -1, low=-1)
        self.flow = None if flow == -1 else flow
        self.action, self.stage = o.text("action", ""), None
        if self.action:
            if not ACTION.fullmatch(self.action):
                o.fail("action", "F, B, I or W and the number of a micro-batch",
                       self.action)
            self.stage = o.integer("stage", high=2 ** 15)


class Stream:
    def __init__(self, o):
        self.name = o.text("name")
        self.rank = o.integer("rank", 0, high=2 ** 31)
        self.events = sorted((Event(e) for e in o.objects("events")),
                             key=lambda e: (e.begin, e.end))

    @property
    def computes(self):
        return self.name == "compute"


class Collective:
    """`hidden` and `exposed` as the simulator defines them: seconds in which the rank
    computed while the collective ran, and seconds it stood still for it."""

    def __init__(self, o, measured):
        self.id, self.rank = o.integer("id"), o.integer("rank", 0, high=2 ** 31)
        # Dialect and runtime name some of them differently.
        self.name = o.text("name").removeprefix("collective_")
        self.location = o.text("location", "")
        self.bytes, self.tensors = o.integer("bytes"), o.integer("tensors", 1)
        self.ready, self.awaited = o.time("ready"), o.time("awaited")
        self.start, self.end = o.interval("start", "end")
        self.hidden, self.exposed = o.time("hidden"), o.time("exposed")
        # A measured run may know what happened without knowing why.
        self.reason = o.choice("reason", [*REASONS, ""], "" if measured else ...)
        self.detail = o.text("detail", "")

    @property
    def seconds(self):
        return self.end - self.start


class Program:
    """What ranks do that run one program, where there are several."""

    def __init__(self, o, measured):
        self.name = o.text("name")
        self.rank = o.integer("rank", high=2 ** 31)
        self.ranks = o.integer("ranks", low=1, high=2 ** 31)
        self.seconds, self.compute = o.time("seconds"), o.time("compute")
        self.exposed = o.time("exposed")
        self.peak_bytes = o.integer("peak_bytes", None if measured else ...)


class Pipeline:
    """`bubble`: idle share of the ranks up to the last pass of a micro-batch; `formula`:
    that of the closed form for equal stages, where there is one."""

    def __init__(self, o):
        self.schedule = o.text("schedule", "")
        self.ranks = o.integer("ranks", low=1, high=2 ** 15)
        self.stages = o.integer("stages", low=1, high=2 ** 15)
        self.microbatches = o.integer("microbatches", low=1, high=2 ** 24)
        self.bubble = o.share("bubble")
        self.formula = o.share("formula") if "formula" in o.value else None


class Timeline:
    def __init__(self, o):
        if o.value.get("schema") != SCHEMA:
            raise o.error("schema", "'%s', of mpcomm-run --timeline or mpcomm-sim --json, "
                          "found %s" % (SCHEMA, describe(o.value["schema"]) if "schema"
                                        in o.value else "nothing"))
        self.file = o.file
        self.name, self.cluster = o.text("name"), o.text("cluster", "")
        self.kind = o.choice("kind", ["simulated", "measured"])
        self.ranks = o.integer("ranks", low=1, high=2 ** 31)
        self.seconds = o.time("seconds")
        if not self.seconds:
            o.fail("seconds", "a positive number of seconds", 0)
        measured = self.kind == "measured"
        self.compute, self.exposed = o.time("compute"), o.time("exposed")
        # No run can tell its own lower bound, nor need it have counted memory.
        self.lower_bound = o.time("lower_bound", None if measured else ...)
        self.peak_bytes = o.integer("peak_bytes", None if measured else ...)
        self.programs = [Program(p, measured) for p in o.objects("programs", [])]
        self.pipeline = Pipeline(o.object("pipeline")) if "pipeline" in o.value else None
        self.streams = [Stream(s) for s in o.objects("streams")]
        self.collectives = [Collective(c, measured) for c in o.objects("collectives")]
        self.memory = o.curve("memory")
        # The same collective in another timeline: the k-th of its rank.
        count = {}
        for c in self.collectives:
            c.key = c.rank, count.setdefault(c.rank, 0)
            count[c.rank] += 1
        self.check(o)

    def check(self, o):
        places = {}
        for i, c in enumerate(self.collectives):
            if places.setdefault(c.id, i) != i:
                raise o.error("collectives[%d].id" % i, "an id of its own, found that "
                              "of collectives[%d]" % places[c.id])
        seen = {}
        for i, s in enumerate(self.streams):
            if seen.setdefault((s.rank, s.name), i) != i:
                raise o.error("streams[%d]" % i, "a name and rank of its own, found "
                              "those of streams[%d]" % seen[s.rank, s.name])
            for event in s.events:
                if event.action and (not self.pipeline
                                     or event.stage >= self.pipeline.stages):
                    raise o.error("streams[%d].events" % i, "passes on stages of the "
                                  "pipeline, found one on stage %d" % event.stage)
                if event.flow is not None and event.flow not in places:
                    raise o.error("streams[%d].events" % i, "flows of collectives, "
                                  "found %d, which none has" % event.flow)

    @property
    def label(self):
        return "predicted" if self.kind == "simulated" else "measured"

    @property
    def communication(self):
        return sum(c.seconds for c in self.collectives)

    @property
    def shown(self):
        """How many ranks the streams are of: figures of the step are their means."""
        return len({s.rank for s in self.streams}) or 1

    @property
    def last(self):
        """The end of everything that is drawn."""
        ends = [self.seconds] + [s.events[-1].end for s in self.streams if s.events]
        return max(ends + [max(c.end, c.awaited) for c in self.collectives])


class Node:
    """An object of the file, with its path for errors."""

    def __init__(self, file, path, value):
        self.file, self.path, self.value = file, path, value
        if not isinstance(value, dict):
            raise self.error("", "an object, found " + describe(value))

    def error(self, key, text):
        path = self.path + ("." if self.path and key else "") + key
        return ReportError("%s: %sexpected %s" % (self.file, path and path + ": ", text))

    def fail(self, key, expected, value):
        raise self.error(key, "%s, found %s" % (expected, describe(value)))

    def get(self, key, default):
        """The value, or the default where there is one (`...`: there is none)."""
        if key not in self.value and default is ...:
            raise self.error(key, "a value, found nothing")
        return self.value.get(key, default)

    def text(self, key, default=...):
        value = self.get(key, default)
        if not isinstance(value, str):
            self.fail(key, "a string", value)
        return value

    def choice(self, key, choices, default=...):
        value = self.get(key, default)
        if value is not default and value not in list(choices):
            expected = ["'%s'" % c for c in choices if c]
            self.fail(key, " or ".join(filter(None, [", ".join(expected[:-1]),
                                                     expected[-1]])), value)
        return value

    def integer(self, key, default=..., low=0, high=MOST_BYTES):
        value = self.get(key, default)
        if value is None and default is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) \
                or not low <= value <= high:
            self.fail(key, "an integer from %d to %d" % (low, high), value)
        return value

    def time(self, key, default=...):
        value = self.get(key, default)
        if value is None and default is None:
            return None
        if not is_time(value):
            self.fail(key, "seconds from 0 to %g" % MOST_SECONDS, value)
        return float(value)

    def interval(self, begin, end):
        first, last = self.time(begin), self.time(end)
        if last < first:
            self.fail(end, "a time not before '%s' (%.9g)" % (begin, first), last)
        return first, last

    def share(self, key):
        value = self.get(key, ...)
        if not is_time(value) or value > 1:
            self.fail(key, "a share from 0 to 1", value)
        return float(value)

    def object(self, key):
        return Node(self.file, self.path + ("." if self.path else "") + key,
                    self.get(key, ...))

    def list(self, key, default=...):
        value = self.get(key, default)
        if not isinstance(value, list):
            self.fail(key, "a list", value)
        return value

    def objects(self, key, default=...):
        prefix = self.path + "." if self.path else ""
        return [Node(self.file, "%s%s[%d]" % (prefix, key, i), v)
                for i, v in enumerate(self.list(key, default))]

    def curve(self, key):
        points, before = [], 0.0
        for i, value in enumerate(self.list(key)):
            place = "%s[%d]" % (key, i)
            if not isinstance(value, list) or len(value) != 2:
                self.fail(place, "a pair of time and bytes", value)
            time, size = value
            if not is_time(time) or time < before:
                self.fail(place + "[0]", "seconds, not before the point before it", time)
            size = Node(self.file, "", {place: size}).integer(place + "[1]", size)
            points.append((float(time), size))
            before = time
        return points


def is_time(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) \
        and 0 <= value <= MOST_SECONDS and math.isfinite(value)


def describe(value):
    """A value in an error, short."""
    if value is None or isinstance(value, (bool, int, float, str)):
        try:
            text = json.dumps(value)
        except ValueError:  # more digits than Python converts
            text = "a huge number"
        return text if len(text) <= 40 else text[:36] + " ..."
    return "a list" if isinstance(value, list) else "an object"


def refuse_constant(text):
    raise ValueError("%s is no JSON" % text)


def read(path):
    """The timeline in a file."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8")
    except OSError as error:
        raise ReportError("%s: %s" % (path, error.strerror.lower())) from None
    except UnicodeDecodeError as error:
        raise ReportError("%s: byte %d is no UTF-8" % (path, error.start)) from None
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise ReportError("%s:%d:%d: malformed JSON: %s" % (
            path, error.lineno, error.colno, error.msg.lower())) from None
    except RecursionError:
        raise ReportError("%s: malformed JSON: nested too deeply" % path) from None
    except ValueError as error:
        raise ReportError("%s: malformed JSON: %s" % (path, error)) from None
    return Timeline(Node(path, "", value))
