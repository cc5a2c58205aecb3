# ===- drawing.py - timelines as SVG -----------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Draws timelines below each other over one axis of time: a lane for each stream, the
memory curve, the end of the step and its lower bound. Everything is there without
scripts; page.js redraws labels and axis when somebody zooms.

Horizontal places inside a group of class `z` run from 0 to WIDTH for the whole axis;
zooming scales those groups.
"""

import html
import math

from .pipeline import PASSES, describe_pass
from .summary import because, duration, plain, size

LEFT, WIDTH, RIGHT = 132, 968, 100
LANE, GAP, MEMORY = 30, 16, 74
LETTER = 6.3  # width of a letter of a label
MOST_EVENTS = 12000  # of one picture; neighbours shorter than a pixel are joined
MOST_LANES = 16
MOST_THREADS = 64


def escape(text):
    """Text of a file, inside HTML; lines stay lines."""
    return "\n".join(html.escape(plain(line), quote=True) for line in text.split("\n"))


def shorten(text, length):
    return text if len(text) <= length else text[:length - 1] + "…"


def step_of_axis(span):
    """A round distance of ticks, about eight on the axis."""
    raw = span / 8
    unit = 10.0 ** math.floor(math.log10(raw))
    return unit * next(m for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)


def tick(seconds, step):
    """The label of a tick, in the unit that suits the distance of ticks."""
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if step >= unit * 0.1 or name == "µs":
            places = max(0, -math.floor(math.log10(step / unit) + 1e-9))
            return "%.*f %s" % (places, seconds / unit, name)
    return ""


class Box:
    """Something drawn on a lane: the text for its tooltip starts with its label."""

    def __init__(self, kind, begin, end, label, text):
        self.kind, self.begin, self.end = kind, begin, end
        self.label, self.text = label, text


def join(boxes, shortest):
    """Joins neighbours of one kind that are shorter than `shortest` and have less than
    that between them, as long as the joined box is not much longer."""
    result, run = [], []

    def flush():
        if len(run) == 1:
            result.append(run[0])
        elif run:
            label = "%d events" % len(run)
            result.append(Box(run[0].kind, run[0].begin, run[-1].end, label,
                              "%s, each shorter than %s\n%s … %s" % (
                                  label, duration(shortest), run[0].label,
                                  run[-1].label)))
        run.clear()

    for box in boxes:
        short = box.end - box.begin < shortest
        if run and not (short and box.kind == run[0].kind
                        and box.begin - run[-1].end < shortest
                        and box.end - run[0].begin < 4 * shortest):
            flush()
        if short:
            run.append(box)
        else:
            result.append(box)
    flush()
    return result


def is_wait(stream, event):
    return stream.computes and event.flow is not None


def describe(event, c=None):
    """A tooltip; a line break of the file's is none of ours."""
    lines = [plain(event.name), "%s, from %s to %s" % (
        duration(event.end - event.begin), duration(event.begin), duration(event.end))]
    if c:
        lines.append("%s, %s hidden, %s exposed" % (
            size(c.bytes), duration(c.hidden), duration(c.exposed)))
        if c.exposed:
            lines.append(because(c))
    if event.location:
        lines.append(plain(event.location))
    return "\n".join(lines)


def wait(begin, end, c):
    first = "waits " + duration(end - begin)
    return Box("w", begin, end, first, "%s\nfor %s of %s, from %s to %s\n%s" % (
        first, plain(c.name), size(c.bytes), duration(begin), duration(end), because(c)))


def boxes_of(t, stream):
    """What is drawn on the lane of a stream."""
    known = {c.id: c for c in t.collectives}
    boxes, waits = [], []
    for e in stream.events:
        c = known.get(e.flow)
        if e.end <= e.begin:
            continue
        if is_wait(stream, e):
            waits.append(wait(e.begin, e.end, c))
        elif stream.computes:
            boxes.append(Box("c", e.begin, e.end, plain(e.action or e.name), describe(e)))
        elif e.action:
            boxes.append(Box(PASSES[e.action[0]][0], e.begin, e.end, e.action,
                             describe_pass(e)))
        else:
            label = size(c.bytes) if c else plain(e.name)
            boxes.append(Box("m", e.begin, e.end, label, describe(e, c)))
            if c and c.rank == stream.rank and c.exposed and c.awaited < e.end:
                boxes.append(Box("x", max(e.begin, c.awaited), e.end, "",
                                 "exposed part of " + describe(e, c)))
    if stream.computes and not waits:
        # A file may not have waits: each ends with its collective.
        starts = [(max(c.awaited, c.end - c.exposed), c)
                  for c in t.collectives if c.exposed and c.rank == stream.rank]
        waits = [wait(start, start + c.exposed, c) for start, c in starts]
    return boxes, waits


class Drawing:
    def __init__(self, timelines):
        self.timelines = timelines
        self.span = max(t.last for t in timelines)
        self.parts, self.labels, self.y = [], [], 0
        count = sum(len(s.events) for t in timelines for s in t.streams)
        self.shortest = 0.0
        if count > MOST_EVENTS:
            self.shortest = self.span / WIDTH * 0.5

    def x(self, seconds):
        return seconds / self.span * WIDTH

    def number(self, value):
        return ("%.2f" % value).rstrip("0").rstrip(".")

    # -- pieces ------------------------------------------------------------ #

    def text(self, x, y, content, kind, anchor="start"):
        self.parts.append('<text x="%s" y="%s" class="%s" text-anchor="%s">%s</text>' % (
            self.number(x), self.number(y), kind, anchor, escape(content)))

    def lane(self, boxes, y, height):
        """Boxes, and labels where there is room for them."""
        rows = []
        for i, box in enumerate(boxes):
            kind = box.kind + ("2" if box.kind == "c" and i % 2 else "")
            width = self.x(box.end - box.begin)
            rows.append('<rect class="%s" x="%s" y="%s" width="%s" height="%s">'
                        "<title>%s</title></rect>" % (
                            kind, "%.4g" % self.x(box.begin)
                            if self.x(box.begin) < 1 else "%.3f" % self.x(box.begin),
                            self.number(y),
                            "%.4f" % max(width, 0.4 if box.kind in "mx" else 0.01),
                            self.number(height), escape(box.text)))
            room = int((width - 6) / LETTER)
            if box.label and room >= min(len(box.label), 4):
                label = box.label
                if box.kind == "w" and len(label) > room:
                    label = label[len("waits "):]
                self.labels.append(
                    '<text class="l%s" x="%s" y="%s">%s</text>' % (
                        box.kind, self.number(LEFT + self.x(box.begin) + 3),
                        self.number(y + height / 2 + 4),
                        escape(shorten(label, room))))
        return rows

    def busy(self, boxes, y):
        """One shape below all computation, lest boxes thinner than a pixel look like
        gaps."""
        runs = []
        for box in boxes:
            begin, end = self.x(box.begin), self.x(box.end)
            if runs and begin - runs[-1][1] < 0.1:
                runs[-1][1] = max(end, runs[-1][1])
            else:
                runs.append([begin, end])
        if not runs:
            return []
        return ['<path class="busy" d="%s"/>' % " ".join(
            "M%.2f %d H%.2f V%d H%.2f Z" % (a, y, b, y + LANE, a) for a, b in runs)]

    def markers(self, t, top, bottom):
        """The end of the step and its lower bound."""
        x = self.x(t.seconds)
        lines = ['<line class="end" x1="%s" x2="%s" y1="%d" y2="%d"/>' % (
            self.number(x), self.number(x), top, bottom)]
        self.labels.append('<text class="end-label" data-t="%.9g" x="%s" y="%d">step '
                           "%s</text>" % (t.seconds, self.number(LEFT + x + 4), top + 9,
                                          escape(duration(t.seconds))))
        if t.lower_bound:
            b = self.x(t.lower_bound)
            lines.append('<line class="bound" x1="%s" x2="%s" y1="%d" y2="%d"/>' % (
                self.number(b), self.number(b), top, bottom))
            # Left of both lines: the other side is the step's.
            left = min(t.lower_bound, t.seconds)
            self.labels.append(
                '<text class="bound-label" data-t="%.9g" x="%s" y="%d" '
                'text-anchor="end">lower bound %s</text>' % (
                    left, self.number(LEFT + self.x(left) - 4), top + 9,
                    escape(duration(t.lower_bound))))
        return lines

    def threads(self, t, computes, lanes):
        """From where a collective could start to where it runs and, of the exposed
        ones, on to where the rank goes on. `computes`: by rank, where its lane of
        computation is."""
        rows = []
        if len(t.collectives) > MOST_THREADS:
            return rows
        for c in t.collectives:
            y = next((lanes[i] for i, s in enumerate(t.streams) if i in lanes and any(
                e.flow == c.id for e in s.events) and not s.computes), None)
            compute = computes.get(c.rank)
            if y is None or compute is None:
                continue
            kind = "thread late" if c.exposed else "thread"
            ends = [(c.ready, c.start)]
            if c.exposed:
                ends.append((max(c.awaited, c.end), c.end))
            for a, b in ends:
                rows.append('<line class="%s" x1="%.3f" x2="%.3f" y1="%s" y2="%s"/>' % (
                    kind, self.x(a), self.x(b), self.number(compute + LANE),
                    self.number(y)))
        return rows

    def memory(self, t, top):
        most = max((b for _, b in t.memory), default=0)
        if not most:
            return []
        most = max(most, t.peak_bytes or 0)

        def y(count):
            return top + MEMORY - count / most * (MEMORY - 14)

        path, last = [], None
        points = t.memory
        if len(points) > 4000:  # the highest of each half pixel
            best = {}
            for time, count in points:
                best[int(self.x(time) * 2)] = max(
                    best.get(int(self.x(time) * 2), (0, 0)), (count, time))
            points = sorted((time, count) for count, time in best.values())
        for time, count in points:
            x, height = "%.2f" % self.x(time), "%.1f" % y(count)
            path.append("M%s %s" % (x, height) if last is None
                        else "H%s V%s" % (x, height))
            last = x
        path.append("H%.2f" % self.x(max(t.seconds, t.memory[-1][0])))
        outline = " ".join(path)
        first = "%.2f" % self.x(points[0][0])
        self.text(LEFT - 10, top + 18, "memory", "lane", "end")
        self.text(LEFT - 10, top + 34, "peak " + size(t.peak_bytes or most), "small",
                  "end")
        return ['<path class="area" d="%s V%d H%s Z"/>' % (
                    outline, top + MEMORY, first),
                '<path class="curve" d="%s"/>' % outline,
                '<line class="floor" x1="0" x2="%d" y1="%d" y2="%d"/>' % (
                    WIDTH, top + MEMORY, top + MEMORY)]

    # -- a timeline -------------------------------------------------------- #

    def timeline(self, t, title):
        self.text(12, self.y + 18, shorten(title, 130), "title")
        self.y += 30
        top, rows, over = self.y, [], []
        self.y += 16
        order = sorted(range(len(t.streams)), key=lambda i: (
            t.streams[i].rank, t.streams[i].name != "passes",
            not t.streams[i].computes, i))
        if len(order) > MOST_LANES:  # what every rank computes goes before the rest
            shown = sorted(order, key=lambda i: not t.streams[i].computes)[:MOST_LANES]
            order = [i for i in order if i in shown] \
                + [i for i in order if i not in shown]
        ranks = sorted({s.rank for s in t.streams})
        lanes, computes = {}, {}
        for i in order[:MOST_LANES]:
            s = t.streams[i]
            lanes[i] = self.y
            if s.computes:
                computes[s.rank] = self.y
            self.text(LEFT - 10, self.y + LANE / 2 + (0 if len(ranks) > 1 else 4),
                      shorten(s.name, 18), "lane", "end")
            if len(ranks) > 1:
                self.text(LEFT - 10, self.y + LANE / 2 + 13, "rank %d" % s.rank, "small",
                          "end")
            self.parts.append('<rect class="back" x="%d" y="%d" width="%d" height="%d"/>'
                              % (LEFT, self.y, WIDTH, LANE))
            boxes, waits = boxes_of(t, s)
            exposed = [b for b in boxes if b.kind == "x"]
            boxes = [b for b in boxes if b.kind != "x"]
            if self.shortest:
                boxes = join(boxes, self.shortest)
            rows += self.busy([b for b in boxes if b.kind == "c"], self.y)
            rows += self.lane(boxes, self.y, LANE)
            over += self.lane(exposed, self.y + LANE - 7, 7)
            over += self.lane(waits, self.y, LANE)
            self.y += LANE + GAP
        if len(order) > MOST_LANES:
            self.text(LEFT, self.y, "and %d more streams" % (len(order) - MOST_LANES),
                      "small")
            self.y += GAP
        rows = self.threads(t, computes, lanes) + rows + over
        curve = self.memory(t, self.y)
        if curve:
            rows += curve
            self.y += MEMORY + 4
        rows += self.markers(t, top, self.y)
        self.parts.append('<g clip-path="url(#plot)"><g class="z">%s</g></g>'
                          % "\n".join(rows))
        self.y += 26

    def axis(self):
        """Ticks and their labels; the script makes its own when zoomed."""
        step = step_of_axis(self.span)
        grid = []
        for i in range(int(self.span / step * 1.0001) + 1):
            x = self.number(LEFT + self.x(i * step))
            grid.append('<line class="grid" x1="%s" x2="%s" y1="34" y2="%d"/>' % (
                x, x, self.y))
            grid.append('<text class="tick" x="%s" y="%d" text-anchor="middle">%s</text>'
                        % (x, self.y + 14, escape(tick(i * step, step))))
        self.y += 22
        return '<g id="axis">%s</g>' % "\n".join(grid)

    def svg(self, titles, head=""):
        """`head` goes into the front of a picture that is a file of its own."""
        for t, title in zip(self.timelines, titles):
            self.timeline(t, title)
        bottom = self.y
        axis = self.axis()
        return (
            '<svg %sid="chart" role="img" aria-label="timeline of the step" '
            'viewBox="0 0 %d %d" data-span="%.9g" data-left="%d" data-width="%d" '
            'data-bottom="%d">%s\n<defs><clipPath id="plot"><rect x="0" y="0" '
            'width="%d" height="%d"/></clipPath></defs>\n%s\n%s\n'
            '<g id="labels">%s</g>\n</svg>' % (
                'xmlns="http://www.w3.org/2000/svg" ' if head else "",
                LEFT + WIDTH + RIGHT, self.y, self.span, LEFT, WIDTH, bottom, head,
                WIDTH + 2, self.y, axis, "\n".join(self.parts),
                "\n".join(self.labels))).replace(
                    '<g clip-path="url(#plot)">',
                    '<g clip-path="url(#plot)" transform="translate(%d 0)">' % LEFT)
