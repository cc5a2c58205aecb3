# ===- summary.py - figures of a timeline, as text and JSON ------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What a timeline says in figures: the table and the JSON form."""

from .timeline import REASONS

UNITS = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")]


def size(count):
    """Bytes with three digits."""
    if count is None:
        return "-"
    for unit, name in UNITS:
        if count >= unit * 0.9995:
            return "%s %s" % (digits(count / unit), name)
    return "%d B" % count


def duration(seconds):
    """A time with three or four digits."""
    if not seconds:
        return "-" if seconds is None else "0"
    for unit, name in ((1, "s"), (1e-3, "ms")):
        if seconds >= unit * 0.9995:
            return "%s %s" % (digits(seconds / unit), name)
    return "%s µs" % digits(seconds / 1e-6)


def digits(value):
    if value >= 1000:
        return "%.0f" % value
    return "%.*f" % (0 if value >= 99.95 and value == int(value) else
                     1 if value >= 9.995 else 2, value)


def percent(part, whole):
    return "%.1f %%" % (100 * part / whole) if whole else "-"


def plain(text):
    """Without what a terminal would obey."""
    return "".join(c if c.isprintable() else
                   c.encode("unicode_escape").decode("ascii") for c in text)


def heading(t):
    where = " on " + t.cluster if t.cluster else ""
    return "%s, %s%s, %d %s" % (t.name, t.kind, where, t.ranks,
                                "rank" if t.ranks == 1 else "ranks")


def overview(t):
    """Pairs (what, figure) of a step."""
    bound = duration(t.lower_bound)
    if t.lower_bound:
        bound += " (step %s)" % above(t)
    return [("step", duration(t.seconds)), ("compute", duration(t.compute)),
            ("exposed", "%s (%s)" % (duration(t.exposed),
                                     percent(t.exposed, t.seconds))),
            ("lower bound", bound), ("peak memory", size(t.peak_bytes))]


def columns(rows, left):
    """Lines of a table; columns in `left` are flush left."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(
        cell.ljust(width) if i in left else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def above(t):
    """How far the step is from its lower bound."""
    over = t.seconds / t.lower_bound - 1
    return "%.1f %% %s" % (100 * abs(over), "above" if over > -5e-4 else "below")


def describe_pipeline(t):
    """The pipeline in words."""
    p = t.pipeline
    text = "%d stages on %d %s, %d %s" % (
        p.stages, p.ranks, "rank" if p.ranks == 1 else "ranks", p.microbatches,
        "micro-batch" if p.microbatches == 1 else "micro-batches")
    if p.schedule:
        text += ", schedule " + plain(p.schedule)
    text += ": bubble %s" % percent(p.bubble, 1)
    if p.formula is not None:
        text += ", %s by the formula for stages that all take as long" % percent(
            p.formula, 1)
    return text


def programs(t):
    """Lines of several programs."""
    if not t.programs:
        return []
    rows = [["program", "rank", "ranks", "step µs", "compute µs", "exposed µs",
             "peak memory"]]
    rows += [[plain(p.name), str(p.rank), str(p.ranks), micro(p.seconds),
              micro(p.compute), micro(p.exposed), size(p.peak_bytes)]
             for p in t.programs]
    return [""] + columns(rows, {0})


def micro(seconds):
    return "%.1f" % (seconds * 1e6)


def table(timelines):
    """All of the report as text. Collectives of the second timeline are beside those
    of the first that come as early on their rank."""
    lines = []
    for t in timelines:
        lines.append(plain(heading(t)))
        lines.append("  " + "   ".join("%s %s" % p for p in overview(t)))
        if t.pipeline:
            lines.append("  " + describe_pipeline(t))
        lines += programs(t)
    if len(timelines) == 2:
        a, b = timelines
        lines.append("%s against %s: step %+.1f %%, exposed %s against %s" % (
            a.label if a.kind != b.kind else "first",
            b.label if a.kind != b.kind else "second",
            100 * (a.seconds / b.seconds - 1), duration(a.exposed), duration(b.exposed)))
    tables = pairs(timelines)
    for t, other in tables:
        if not t.collectives:
            lines += ["", "no collectives"]
            continue
        if len(tables) > 1:
            lines += ["", plain(heading(t))]
        twins = {c.key: c for c in other.collectives} if other else {}
        # Which rank it is of, where there are several.
        rank = (lambda text: [text]) if t.shown > 1 else (lambda text: [])
        rows = [["#", *rank("rank"), "collective", "location", "bytes", "tensors",
                 "predicted µs" if t.kind == "simulated" else "measured µs"]]
        if other:
            rows[0].append("measured µs" if other.kind == "measured" else "second µs")
        rows[0] += ["hidden µs", "exposed µs"]
        if other:
            rows[0].append("exposed " + other.label)
        rows[0].append("reason")
        for c in t.collectives:
            place = plain(c.location)
            if len(place) > 40:
                place = "…" + place[-39:]
            row = [str(c.id), *rank(str(c.rank)), plain(c.name), place, size(c.bytes),
                   str(c.tensors), micro(c.seconds)]
            twin = twins.get(c.key)
            if other:
                row.append(micro(twin.seconds) if twin else "-")
            row += [micro(c.hidden), micro(c.exposed)]
            if other:
                row.append(micro(twin.exposed) if twin else "-")
            rows.append(row + [because(c)])
        text = len(rank(""))
        lines += [""] + columns(rows, {1 + text, 2 + text, len(rows[0]) - 1})
    return "\n".join(lines) + "\n"


def calls(t):
    """By rank the names of its collectives, in order."""
    result = {}
    for c in t.collectives:
        result.setdefault(c.rank, []).append(c.name)
    return result


def warnings(timelines):
    """Why a comparison of two steps says little. A run does not name the cluster that a
    prediction is for, so the two may differ there."""
    if len(timelines) != 2:
        return []
    a, b = timelines
    found = []

    def compare(what, first, second):
        if first != second:
            found.append("%s %s in %s and %s in %s" % (
                what, first, plain(a.file), second, plain(b.file)))

    compare("the ranks are", a.ranks, b.ranks)
    if a.kind == b.kind and a.cluster and b.cluster:
        compare("the cluster is", plain(a.cluster), plain(b.cluster))
    for what, name in (("ranks", "ranks"), ("stages", "stages"),
                       ("microbatches", "micro-batches")):
        compare("the pipeline's %s are" % name,
                *(getattr(t.pipeline, what) if t.pipeline else 0 for t in timelines))
    if calls(a) != calls(b):
        found.append("the collectives of %s are not those of %s: they are listed apart"
                     % (plain(a.file), plain(b.file)))
    return found


def pairs(timelines):
    """What tables list: the collectives of a timeline, beside those of another if they
    are the same."""
    if len(timelines) == 2 and calls(timelines[0]) == calls(timelines[1]):
        return [tuple(timelines)]
    return [(t, None) for t in timelines if t.collectives] or [(timelines[0], None)]


def because(c):
    return (c.reason or "unknown") + (": " + plain(c.detail) if c.detail else "")


def reasons(t):
    """[(reason, seconds exposed, collectives, the one with the most)], most first. Of
    several ranks the means, as of the step."""
    groups = {}
    for c in t.collectives:
        if c.exposed > 0:
            groups.setdefault(c.reason, []).append(c)
    return sorted(((reason, sum(c.exposed for c in group) / t.shown, group,
                    max(group, key=lambda c: c.exposed))
                   for reason, group in groups.items()), key=lambda g: -g[1])


def words(reason):
    return REASONS.get(reason, "the file does not say why")


def facts(timelines):
    """The JSON form of the report, schema mpcomm-report-1."""
    steps = []
    for t in timelines:
        steps.append({
            "file": t.file, "name": t.name, "kind": t.kind, "cluster": t.cluster,
            "ranks": t.ranks, "seconds": t.seconds, "compute": t.compute,
            "exposed": t.exposed, "exposed_share": round(t.exposed / t.seconds, 9),
            "lower_bound": t.lower_bound,
            "over_lower_bound":
                round(t.seconds / t.lower_bound - 1, 9) if t.lower_bound else None,
            "peak_bytes": t.peak_bytes, "communication": t.communication,
            "pipeline": vars(t.pipeline) if t.pipeline else None,
            "programs": [vars(p) for p in t.programs],
            "reasons": [{"reason": reason or None, "exposed": seconds,
                         "collectives": [c.id for c in group]}
                        for reason, seconds, group, _ in reasons(t)],
            "collectives": [{
                "id": c.id, "rank": c.rank, "name": c.name, "location": c.location,
                "bytes": c.bytes, "tensors": c.tensors, "seconds": c.seconds, "hidden": c.hidden,
                "exposed": c.exposed, "reason": c.reason or None, "detail": c.detail,
            } for c in t.collectives]})
    result = {"schema": "mpcomm-report-1", "steps": steps,
              "warnings": warnings(timelines)}
    if len(timelines) == 2:
        a, b = timelines
        result["first_over_second"] = round(a.seconds / b.seconds, 9)
    return result
