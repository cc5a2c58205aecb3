# ===- pipeline.py - the diagram of a pipeline -------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Ranks by time: the passes of micro-batches, coloured by what they are, and between
them the bubbles, hatched.
"""

import re

from .summary import describe_pipeline, duration, percent

LEFT, WIDTH, RIGHT = 132, 968, 100
ROW, GAP, TOP, FOOT = 26, 6, 6, 24
LETTER = 6.3  # width of a letter of a label
MOST_PASSES = 20000  # of one diagram
# What of the page's style a picture needs.
STYLE = re.compile(r"^(svg |svg\.pipeline rect|\.p[fbiw] |rect\.hatch|line\.hatch|\.back "
                   r"|\.[cmxw],? |\.grid |\.z line|\.end |\.bound |\.thread|\.area "
                   r"|\.curve |\.floor )")

PASSES = {"F": ("pf", "forward"), "B": ("pb", "backward"),
          "I": ("pi", "backward to the inputs"), "W": ("pw", "backward to the weights")}


def describe_pass(p):
    """The tooltip of a Pass, or of an event that is one."""
    return "%s: %s of micro-batch %d, stage %d\n%s, from %s to %s" % (
        p.action, PASSES[p.action[0]][1], int(p.action[1:]), p.stage,
        duration(p.end - p.begin), duration(p.begin), duration(p.end))


class Pass:
    """A pass of a micro-batch on a stage."""

    def __init__(self, event):
        self.action = event.action
        self.kind, self.microbatch = event.action[0], int(event.action[1:])
        self.stage, self.begin, self.end = event.stage, event.begin, event.end


def passes_of(t):
    """By rank, in the order of time."""
    ranks = {}
    for stream in t.streams:
        passes = [Pass(e) for e in stream.events if e.action]
        if passes:
            ranks.setdefault(stream.rank, []).extend(passes)
    for passes in ranks.values():
        passes.sort(key=lambda p: (p.begin, p.end))
    return dict(sorted(ranks.items()))


def count_passes(t):
    return sum(1 for s in t.streams for e in s.events if e.action)


def bubbles(passes, end):
    """The times up to `end` in which a rank has no pass."""
    result, last = [], 0.0
    for p in passes:
        if p.begin > last:
            result.append((last, p.begin))
        last = max(last, p.end)
    if end > last:
        result.append((last, end))
    return result


class Diagram:
    def __init__(self, t, escape, name="hatch"):
        """`name`: of the pattern of bubbles, one of its own on a page."""
        self.escape, self.ranks, self.name = escape, passes_of(t), name
        # Of passes without length 1, lest something is divided by it.
        self.end = max(p.end for passes in self.ranks.values() for p in passes) or 1.0
        self.pipeline = t.pipeline
        # Later stages of a rank are lighter.
        self.shares = {}
        for passes in self.ranks.values():
            stages = sorted({p.stage for p in passes})
            self.shares.update((s, i / len(stages)) for i, s in enumerate(stages))
        self.several = t.pipeline.stages > t.pipeline.ranks
        self.parts = []

    def x(self, seconds):
        return LEFT + seconds / self.end * WIDTH

    def rect(self, kind, begin, end, y, title, extra=""):
        self.parts.append(
            '<rect class="%s" x="%.3f" y="%d" width="%.3f" height="%d"%s><title>%s'
            "</title></rect>" % (kind, self.x(begin), y,
                                 (end - begin) / self.end * WIDTH, ROW, extra,
                                 self.escape(title)))

    def text(self, x, y, kind, content, anchor="middle"):
        self.parts.append('<text x="%.2f" y="%d" class="%s" text-anchor="%s">%s</text>'
                          % (x, y, kind, anchor, self.escape(content)))

    def draw_pass(self, p, y):
        label = "%s%d" % (p.kind, p.microbatch)
        share = self.shares[p.stage]
        self.rect(PASSES[p.kind][0], p.begin, p.end, y, describe_pass(p),
                  ' fill-opacity="%.2f"' % (1 - 0.5 * share) if share else "")
        room = (p.end - p.begin) / self.end * WIDTH / LETTER
        if self.several:
            label += ".%d" % p.stage
        for shown in (label, str(p.microbatch)):
            if room >= len(shown) + 0.5:
                self.text((self.x(p.begin) + self.x(p.end)) / 2, y + ROW // 2 + 4,
                          "lp", shown)
                break

    def svg(self, head=""):
        """`head` goes into the element's front."""
        y = TOP
        for rank, passes in self.ranks.items():
            self.text(LEFT - 10, y + ROW // 2 + 4, "lane", "rank %d" % rank, "end")
            for begin, end in bubbles(passes, self.end):
                if self.x(end) - self.x(begin) < 0.1:
                    continue  # nobody would see it
                self.rect("bubble", begin, end, y, "bubble of " + duration(end - begin),
                          ' fill="url(#%s)"' % self.name)
            for p in passes:
                self.draw_pass(p, y)
            idle = sum(b - a for a, b in bubbles(passes, self.end))
            self.text(LEFT + WIDTH + 8, y + ROW // 2 + 4, "small",
                      "idle " + percent(idle, self.end), "start")
            y += ROW + GAP
        self.text(LEFT, y + 12, "small", "0")
        self.text(LEFT + WIDTH, y + 12, "small", duration(self.end))
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" class="pipeline" role="img" '
            'aria-label="the pipeline: ranks by time" viewBox="0 0 %d %d">%s'
            '<defs><pattern id="%s" width="6" height="6" '
            'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            '<rect class="hatch" width="6" height="6"/>'
            '<line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>\n%s\n'
            "</svg>" % (LEFT + WIDTH + RIGHT, y + FOOT, head, self.name, "\n".join(self.parts)))


def section(t, escape, title):
    """The part of the page; empty of a step that is no pipeline."""
    if not t.pipeline:
        return ""
    used = {e.action[0] for s in t.streams for e in s.events if e.action}
    legend = "".join('<span class="key"><i class="%s"></i>%s %s</span>' % (
        PASSES[k][0], k, PASSES[k][1]) for k in PASSES if k in used)
    legend += '<span class="key"><i class="bubble"></i>bubble</span>'
    count = count_passes(t)
    picture = '<p class="note">%d passes are too many to draw.</p>' % count
    if not used:
        picture = ""
    elif count <= MOST_PASSES:
        picture = '<p class="legend">%s</p><div class="scroll">%s</div>' % (
            legend, Diagram(t, escape, "hatch-" + t.label).svg())
    return "<section><h2>%s</h2><p>%s.</p>%s</section>" % (
        escape(title), escape(describe_pipeline(t)), picture)


def style(css):
    """What a picture in a file of its own has of the page's style, in light colours: not
    every program that reads SVG knows variables of CSS."""
    light = dict(re.findall(r"(--\w+): (#\w+)", css.split("@media")[0]))
    rules = re.findall(r"^[^@\n{]+\{[^{}]*\}|(?<=\} )[^@\n{]+\{[^{}]*\}", css, re.M)
    text = "\n".join(rule for rule in rules if STYLE.match(rule))
    text = re.sub(r"var\((--\w+)\)", lambda m: light[m[1]], text)
    return "<style>%s</style>" % text
