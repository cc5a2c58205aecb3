# ===- page.py - one self-contained page -------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The page: what the step cost, in figures, in words, as a picture and as a table. It
loads nothing; its policy lets no script run but its own. All text that comes from a
file goes through `escape`.
"""

import base64
import hashlib
import os

from . import pipeline
from .drawing import Drawing, escape
from .summary import above, duration, heading, pairs, percent, reasons, size, warnings, \
    words

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_ROWS = 2000  # of the table of collectives


def resource(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def change(value, reference):
    return "%+.1f %%" % (100 * (value / reference - 1)) if reference else ""


def card(title, timelines, figure, note=""):
    values = []
    for t in timelines:
        who = '<span class="who">%s</span> ' % escape(t.label) \
            if len(timelines) > 1 else ""
        values.append('<div class="value">%s%s</div>' % (who, escape(figure(t))))
    return '<div class="card"><div class="what">%s</div>%s<div class="note">%s</div>' \
        "</div>" % (escape(title), "".join(values), escape(note))


def cards(timelines):
    t = timelines[0]
    against = ""
    if len(timelines) == 2:
        against = "%s against %s" % (change(t.seconds, timelines[1].seconds),
                                     timelines[1].label)
    bound = ""
    if t.lower_bound:
        bound = "step is %s it" % above(t)
    return "".join([
        card("Step", timelines, lambda t: duration(t.seconds), against),
        card("Computing", timelines, lambda t: duration(t.compute),
             " / ".join(percent(t.compute, t.seconds) for t in timelines)
             + " of the step"),
        card("Waiting for communication", timelines, lambda t: duration(t.exposed),
             " / ".join(percent(t.exposed, t.seconds) for t in timelines)
             + " of the step"),
        card("Lower bound", [t for t in timelines if t.lower_bound is not None]
             or timelines[:1], lambda t: duration(t.lower_bound), bound),
        card("Peak memory of a rank",
             [t for t in timelines if t.peak_bytes is not None] or timelines[:1],
             lambda t: size(t.peak_bytes))])


def sentence(t):
    """The step in words."""
    whole = t.communication
    if not t.collectives:
        return "This step communicates nothing."
    hidden = sum(c.hidden for c in t.collectives)
    several = " of %d ranks" % t.shown if t.shown > 1 else ""
    parts = ["%s %s and %s %s; %s of that (%s) is hidden under computation." % (
        "1 collective%s moves" % several if len(t.collectives) == 1 else
        "%d collectives%s move" % (len(t.collectives), several),
        size(sum(c.bytes for c in t.collectives)),
        "takes" if len(t.collectives) == 1 else "take", duration(whole), duration(hidden),
        percent(hidden, whole))]
    if t.exposed and t.programs:
        parts.append("For %s of the %s step (%s), on average, a rank computes nothing: it "
                     "waits for another rank or for communication." % (
                         duration(t.exposed), duration(t.seconds),
                         percent(t.exposed, t.seconds)))
    elif t.exposed:
        parts.append("For %s of the %s step (%s) the rank computes nothing because it "
                     "waits for communication." % (
                         duration(t.exposed), duration(t.seconds),
                         percent(t.exposed, t.seconds)))
    else:
        parts.append("The rank never waits for communication.")
    if t.lower_bound and t.kind == "simulated":
        over = t.seconds / t.lower_bound - 1
        parts.append("No order of the same work can take less than %s; %s." % (
            duration(t.lower_bound), "this one takes as long" if abs(over) < 5e-4 else
            "this one is %s that" % above(t)))
    return " ".join(parts)


def why(t):
    """The reasons, most expensive first."""
    groups = reasons(t)
    rest = t.exposed - sum(g[1] for g in groups) if t.programs else 0
    if not groups and not rest > 0:
        return "<p>Nothing is exposed: there is nothing to explain.</p>"
    whole = max(t.exposed, sum(g[1] for g in groups))
    items = []
    for reason, seconds, group, worst in groups:
        count = len(group)
        example = "%s of %s" % (worst.name, size(worst.bytes))
        if worst.location:
            example += " at " + worst.location
        text = "most of it: " if count > 1 else ""
        text += "%s, %s" % (example, duration(worst.exposed))
        if worst.detail:
            text += " (%s)" % worst.detail
        items.append(
            '<li><span class="bar"><span style="width:%.1f%%"></span></span>'
            "<b>%s</b> (%s of what is exposed), %d %s: %s <code>%s</code>"
            '<div class="note">%s</div></li>' % (
                100 * seconds / whole, escape(duration(seconds)),
                escape(percent(seconds, whole)), count,
                "collective" if count == 1 else "collectives", escape(words(reason)),
                escape(reason or "unknown"), escape(text)))
    if rest > 1e-3 * whole:
        items.append(
            '<li><span class="bar"><span style="width:%.1f%%"></span></span>'
            "<b>%s</b> (%s of what is exposed): ranks begin after the first or end before "
            "the last</li>" % (100 * rest / whole, escape(duration(rest)),
                               escape(percent(rest, whole))))
    mean = "<p>Times are means over the ranks that are shown.</p>" if t.shown > 1 else ""
    return mean + "<ol class=\"why\">%s</ol>" % "".join(items)


def both(figure, c, twin, other):
    """A cell: the figure, and below it that of the second timeline."""
    text = escape(figure(c))
    if other:
        text += '<div class="note">%s</div>' % escape(figure(twin) if twin else "-")
    return text


def rows(t, other):
    twins = {c.key: c for c in other.collectives} if other else {}
    result = []
    for c in t.collectives[:MOST_ROWS]:
        twin = twins.get(c.key)
        reason = "-" if c.reason == "none" else escape(c.reason or "unknown")
        result.append(
            "<tr%s><td>%d</td>%s<td class=\"t\">%s</td><td class=\"t\">%s</td><td>%s</td>"
            '<td>%d</td><td>%s</td><td>%s</td><td class="late">%s</td>'
            '<td class="t">%s%s</td></tr>'
            % (' class="late"' if c.exposed else "", c.id,
               "<td>%d</td>" % c.rank if t.shown > 1 else "", escape(c.name),
               escape(c.location), escape(size(c.bytes)), c.tensors,
               both(lambda x: duration(x.seconds), c, twin, other),
               both(lambda x: duration(x.hidden), c, twin, other),
               both(lambda x: duration(x.exposed), c, twin, other), reason,
               '<div class="note">%s</div>' % escape(c.detail) if c.detail else ""))
    if len(t.collectives) > MOST_ROWS:
        result.append('<tr><td colspan="10" class="t">and %d more (mpcomm-report prints '
                      "all)</td></tr>" % (len(t.collectives) - MOST_ROWS))
    return "".join(result)


def table(t, other, apart):
    if not t.collectives:
        return ""
    head = "".join("<th%s>%s</th>" % (' class="t"' if left else "", name)
                   for name, left in (
                       ("#", 0), *([("rank", 0)] if t.shown > 1 else []),
                       ("collective", 1), ("location", 1), ("bytes", 0),
                       ("tensors", 0), ("takes", 0), ("hidden", 0), ("exposed", 0),
                       ("why exposed", 1)))
    title = "Every collective"
    if apart:
        title += ", " + heading(t)
    if other:
        title += ": %s, and below it %s" % (t.label, other.label)
    return '<details%s><summary>%s (%d)</summary><div class="scroll"><table><thead><tr>' \
        "%s</tr></thead><tbody>%s</tbody></table></div></details>" % (
            " open" if len(t.collectives) <= 40 else "", escape(title),
            len(t.collectives), head, rows(t, other))


def programs(t, several):
    """A line for each of several programs."""
    if not t.programs:
        return ""
    head = "".join("<th%s>%s</th>" % (' class="t"' if left else "", name)
                   for name, left in (("program", 1), ("first rank", 0), ("ranks", 0),
                                      ("step", 0), ("computing", 0), ("waiting", 0),
                                      ("peak memory", 0)))
    body = "".join(
        '<tr><td class="t">%s</td><td>%d</td><td>%d</td><td>%s</td><td>%s</td><td>%s'
        "</td><td>%s</td></tr>" % (
            escape(p.name), p.rank, p.ranks, escape(duration(p.seconds)),
            escape(duration(p.compute)), escape(duration(p.exposed)),
            escape(size(p.peak_bytes))) for p in t.programs)
    return '<section><h2>%s</h2><div class="scroll"><table><thead><tr>%s</tr></thead>' \
        "<tbody>%s</tbody></table></div></section>" % (
            escape("The programs" + (", " + t.label if several else "")), head, body)


LEGEND = [
    ("c", "computing"), ("m", "communicating, hidden under computation"),
    ("x", "communicating, exposed"), ("w", "waiting: the rank computes nothing"),
    ("k", "lower bound: no order of the same work ends earlier")]


def page(timelines):
    first, script = timelines[0], resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    drawing = Drawing(timelines)
    several = len(timelines) > 1
    titles = ["%s: %s" % (t.label.capitalize(), heading(t)) for t in timelines]
    chart = drawing.svg(titles)
    legend = "".join('<span class="key"><i class="%s"></i>%s</span>' % (k, text)
                     for k, text in LEGEND)
    joined = ""
    if drawing.shortest:
        joined = "<p class=\"note\">Events shorter than %s are drawn joined.</p>" \
            % escape(duration(drawing.shortest))
    text = "".join("<p>%s%s</p>" % (
        "<b>%s.</b> " % escape(t.label.capitalize()) if several else "",
        escape(sentence(t))) for t in timelines)
    explained = "".join("%s%s" % (
        "<h3>%s</h3>" % escape(t.label.capitalize()) if several else "", why(t))
        for t in timelines)
    warned = "".join("<li>%s</li>" % escape(w) for w in warnings(timelines))
    if warned:
        warned = ('<section class="warn"><h2>These steps cannot well be compared</h2>'
                  "<ul>%s</ul></section>" % warned)
    pipelines = "".join(pipeline.section(
        t, escape, "The pipeline" + (", " + t.label if several else ""))
        for t in timelines)
    return """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; script-src 'sha256-%s'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<style>%s</style>
</head>
<body>
<header><h1>One training step of %s</h1><p class="sub">%s</p></header>
%s<section class="cards">%s</section>
<section class="say">%s</section>
%s%s
<section><h2>What happens when</h2>
<p class="legend">%s</p>
<div id="tools"></div>
<div class="scroll">%s</div>%s</section>
<section><h2>What is exposed, and why</h2>%s</section>
<section>%s</section>
<footer>Made by mpcomm-report from %s. %s; sizes are what it sends \
into a collective.</footer>
<script>%s</script>
</body>
</html>
""" % (digest, escape("%s: a training step" % first.name), resource("page.css"),
       escape(first.name), escape("; ".join(heading(t) for t in timelines)), warned,
       cards(timelines), text, pipelines,
       "".join(programs(t, several) for t in timelines), legend, chart, joined, explained,
       "".join(table(*p, len(pairs(timelines)) > 1) for p in pairs(timelines)),
       escape(" and ".join(t.file for t in timelines)),
       "Times of the step are means over the ranks" if any(t.programs for t in timelines)
       else "Times are of one rank", script)
