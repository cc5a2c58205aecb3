# The page of a predicted and a measured step is well formed, loads nothing, runs no
# script but its own, shows text of the files as text, and draws what the files say.
# RUN: sed 's/the backward pass ends with/<b>its<\/b> \\"last\\" gradient \&/' %S/Inputs/predicted.json > %t.predicted.json
# RUN: %mpcomm-report %t.predicted.json %S/Inputs/measured.json --html %t.html > /dev/null
# RUN: %python %s small %t.html | FileCheck %s
# CHECK: small page: {{[0-9]+}} elements, 0 complaints
#
# So is one of many thousand events with hostile names, and it stays small:
# RUN: %python %S/Inputs/sample.py --blocks=400 --per-bucket=5 --shown=2 --name="<script>alert(1)</script>&quot;" > %t.json
# RUN: %mpcomm-report %t.json --html %t.large.html --perfetto %t.trace > /dev/null
# RUN: %python %s large %t.large.html | FileCheck %s --check-prefix=LARGE
# LARGE: large page: {{[0-9]+}} elements, 0 complaints

import base64
import hashlib
import html.parser
import re
import sys

kind, path = sys.argv[1:]
VOID = {"meta", "br", "img", "link", "input", "hr"}
complaints = []


def check(condition, *what):
    if not condition:
        complaints.append(" ".join(map(str, what)))


class Page(html.parser.HTMLParser):
    """All elements as (name, attributes, text, parents)."""

    def __init__(self):
        super().__init__()
        self.open, self.elements = [], []

    def handle_starttag(self, tag, attrs):
        element = [tag, dict(attrs), "", list(self.open)]
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), "", list(self.open)])

    def handle_endtag(self, tag):
        check(self.open and self.open[-1][0] == tag, "unexpected </%s>" % tag)
        if self.open:
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.open[-1][2] += data


with open(path, encoding="utf-8") as file:
    text = file.read()
page = Page()
page.feed(text)
page.close()
check(not page.open, "not closed:", [e[0] for e in page.open])


def all_of(tag, name=None):
    return [e for e in page.elements if e[0] == tag and
            (name is None or name in e[1].get("class", "").split())]


# Loads nothing, runs nothing else.
for tag, attributes, _, _ in page.elements:
    check(tag not in ("img", "link", "iframe", "object", "base"), tag)
    for key, value in attributes.items():
        check(key not in ("src", "href", "srcset", "xlink:href"), tag, key, value)
        check(not key.startswith("on"), tag, key)
check("http://" not in text and "https://" not in text, "an address")
scripts = all_of("script")
check(len(scripts) == 1, "%d scripts" % len(scripts))
digest = base64.b64encode(hashlib.sha256(scripts[0][2].encode()).digest()).decode()
policy = [e[1]["content"] for e in all_of("meta") if "http-equiv" in e[1]]
check(len(policy) == 1 and "'sha256-%s'" % digest in policy[0]
      and "default-src 'none'" in policy[0], "policy", policy)

# What everybody needs who sees it first.
check(len(all_of("title")) and all_of("h1"), "no title")
check(len(all_of("span", "key")) == 5, "legend")
check("prefers-color-scheme: dark" in text, "no dark form")
chart = all_of("svg")[0]
span, width = float(chart[1]["data-span"]), float(chart[1]["data-width"])
_, _, view_width, view_height = map(float, chart[1]["viewbox"].split())
for tag, a, content, _ in page.elements:
    if tag == "text":
        check(0 <= float(a["x"]) <= view_width, "text outside", content)
        check(0 < float(a["y"]) <= view_height, "text outside", content)
rects = [e for e in page.elements if e[0] == "rect" and any(
    p[1].get("class") == "z" for p in e[3])]
for _, a, _, _ in rects:
    check(-0.01 <= float(a["x"]) and
          float(a["x"]) + float(a["width"]) <= width + 0.5, "box outside", a)

# Labels of a lane do not overlap: letters are at most 7 wide.
rows = {}
for tag, a, content, parents in page.elements:
    if tag == "text" and any(p[1].get("id") == "labels" for p in parents) \
            and "data-t" not in a:
        rows.setdefault(a["y"], []).append((float(a["x"]), content))
for row in rows.values():
    row.sort()
    for (x, content), (following, _) in zip(row, row[1:]):
        check(x + 5.6 * len(content) <= following, "labels overlap", content)

if kind == "small":
    titles = [e[2] for e in all_of("text", "title")]
    check(titles == ["Predicted: toy, simulated on local, 2 ranks",
                     "Measured: toy, measured, 2 ranks"], titles)
    check([e[2] for e in all_of("text", "lane")] ==
          ["compute", "dp", "memory", "compute", "dp"], "lanes")
    check(span == 0.0125, "span", span)
    # One wait in each, from 6 to 8 ms and from 7 to 10.5 ms of 12.5 ms.
    waits = [(float(e[1]["x"]), float(e[1]["width"])) for e in rects
             if e[1]["class"] == "w"]
    expected = [(begin / 12.5 * width, length / 12.5 * width)
                for begin, length in ((6, 2), (7, 3.5))]
    check(len(waits) == 2 and all(
        abs(a - b) < 0.01 for w, e in zip(waits, expected) for a, b in zip(w, e)), waits)
    check(len([e for e in rects if e[1]["class"] == "m"]) == 4, "collectives")
    check(len([e for e in rects if e[1]["class"] == "x"]) == 2, "exposed parts")
    ends = [float(e[1]["x1"]) for e in all_of("line", "end")]
    check(ends == [width * 10 / 12.5, width], "ends", ends)
    bounds = [float(e[1]["x1"]) for e in all_of("line", "bound")]
    check(bounds == [width * 8 / 12.5], "bounds", bounds)
    curve = all_of("path", "curve")
    check(len(curve) == 1 and re.match(r"M0\.00 \S+ H154\.88 V", curve[0][1]["d"]),
          "memory", [c[1]["d"] for c in curve])
    check("<b>its</b>" not in text, "text that is markup")
    check("&lt;b&gt;its&lt;/b&gt; &quot;last&quot; gradient &amp; its" in text,
          "detail")
    check("No order of the same work can take less than 8.00 ms; this one is 25.0 % "
          "above that." in text, "sentence")
    check("no computation is left that could run beside it" in text, "reason in words")
    check(len(all_of("tr")) == 3, "rows of the table")
else:
    check("One training step of <script>alert(1)</script>&quot;" in all_of("h1")[0][2],
          "name", all_of("h1")[0][2])
    check(len(text) < 2_000_000, "%d bytes" % len(text))
    check("are drawn joined" in text, "note on joined events")
for complaint in complaints[:20]:
    print(complaint)
print("%s page: %d elements, %d complaints" % (kind, len(page.elements), len(complaints)))
