# ===- plot.py - losses of training as a picture -------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Draws losses as SVG, which browsers show in light and in dark mode.

    draw([(title, unit, {precision: [losses of a seed, ...]}), ...])

A panel for each model; a line for each precision: the mean over seeds of the mean
over a window of steps. After them is the band from the least to the largest of
f32's seeds."""

import math

WIDTH, HEIGHT, COLUMNS = 420, 270, 2
LEFT, RIGHT, TOP, BOTTOM, LEGEND = 58, 12, 30, 44, 34
POINTS = 60  # windows of a line
# precision: (name, what the line looks like in light, in dark, dashes, width)
LINES = {
    "none": ("f32", "#8c959f", "#9da7b1", "", 4.5),
    "bf16": ("bf16", "#0550ae", "#79b8ff", "", 1.6),
    "f16": ("f16, scaled", "#bc4c00", "#ffa657", "5 4", 1.6),
    "fp8": ("fp8", "#116329", "#56d364", "2 3", 1.8),
    "f16-unscaled": ("f16, not scaled", "#a40e26", "#ff7b72", "8 3 2 3", 1.8),
}
STYLE = """text { font: 12px sans-serif; fill: #1f2328; }
.title { font-weight: bold; font-size: 13px; }
.axis { stroke: #57606a; fill: none; }
.grid { stroke: #d0d7de; }
.band { fill: #8c959f; opacity: 0.25; }
.paper { fill: #ffffff; }
polyline { fill: none; stroke-linejoin: round; }
"""
DARK = """text { fill: #e6edf3; } .paper { fill: #0d1117; }
.axis { stroke: #8b949e; } .grid { stroke: #30363d; }
"""


def windows(losses):
    """(middle of a window, mean loss in it), of about POINTS windows; those of a run
    that stopped end where it did."""
    width = max(1, math.ceil(len(losses) / POINTS))
    found = []
    for at in range(0, len(losses), width):
        part = losses[at:at + width]
        if any(v is None or not math.isfinite(v) for v in part):
            break
        found.append((at + (len(part) + 1) / 2, sum(part) / len(part)))
    return found


def over_seeds(seeds):
    """(step, mean, least, largest) of each window that all seeds have."""
    return [(row[0][0], sum(v for _, v in row) / len(row), min(v for _, v in row),
             max(v for _, v in row)) for row in zip(*map(windows, seeds))]


def ticks(low, high):
    """1, 2, 5, 10, ... within a range; more where that gives few."""
    for digits in ((1,), (1, 2, 5), (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)):
        found = [d * 10.0 ** e for e in range(-9, 10) for d in digits
                 if low <= d * 10.0 ** e <= high]
        if len(found) >= 3:
            break
    return found


def steps_of(last):
    """Marks of the lower axis: at most 6 round numbers."""
    step = next(d * 10 ** e for e in range(9) for d in (1, 2, 5) if last / (d * 10 ** e) <= 6)
    return range(0, int(last) + 1, step)


class Panel:
    def __init__(self, title, unit, curves, x, y):
        self.title, self.unit = title, unit
        self.lines = {k: over_seeds(v) for k, v in curves.items()}
        self.x0, self.x1 = x + LEFT, x + WIDTH - RIGHT
        self.y0, self.y1 = y + TOP, y + HEIGHT - BOTTOM
        values = [v for line in self.lines.values() for row in line for v in row[1:]]
        self.low, self.high = min(values) / 1.1, max(values) * 1.1
        self.last = max(map(len, (seed for seeds in curves.values() for seed in seeds)))

    def at(self, step, loss):
        share = math.log(loss / self.low) / math.log(self.high / self.low)
        return (f"{self.x0 + step / self.last * (self.x1 - self.x0):.1f},"
                f"{self.y1 - share * (self.y1 - self.y0):.1f}")

    def draw(self):
        middle = (self.y0 + self.y1) / 2
        out = [f'<text class="title" x="{self.x0}" y="{self.y0 - 10}">{self.title}</text>',
               f'<text x="{(self.x0 + self.x1) / 2}" y="{self.y1 + 34}" '
               'text-anchor="middle">step</text>',
               f'<text transform="translate({self.x0 - 44},{middle}) rotate(-90)" '
               f'text-anchor="middle">training loss ({self.unit})</text>']
        for value in ticks(self.low, self.high):
            y = self.at(0, value).split(",")[1]
            out += [f'<path class="grid" d="M{self.x0} {y}H{self.x1}"/>',
                    f'<text x="{self.x0 - 6}" y="{float(y) + 4:.1f}" text-anchor="end">'
                    f"{value:g}</text>"]
        for step in steps_of(self.last):
            x = self.at(step, self.low).split(",")[0]
            out += [f'<path class="axis" d="M{x} {self.y1}v4"/>',
                    f'<text x="{x}" y="{self.y1 + 18}" text-anchor="middle">{step}</text>']
        out.append(f'<path class="axis" d="M{self.x0} {self.y0}V{self.y1}H{self.x1}"/>')
        base = self.lines["none"]
        band = [self.at(s, high) for s, _, _, high in base]
        band += [self.at(s, low) for s, _, low, _ in reversed(base)]
        out.append(f'<polygon class="band" points="{" ".join(band)}"/>')
        for name, line in self.lines.items():
            points = " ".join(self.at(step, mean) for step, mean, _, _ in line)
            out.append(f'<polyline class="{name}" points="{points}"/>')
        return out


def legend(names):
    """One row: a stroke and a name for each precision, and the band."""
    out, x, y = [], LEFT, LEGEND / 2 + 4
    for name in names:
        label = LINES[name][0]
        out += [f'<polyline class="{name}" points="{x},{y - 4} {x + 30},{y - 4}"/>',
                f'<text x="{x + 36}" y="{y}">{label}</text>']
        x += 58 + 7 * len(label)
    return out + [f'<rect class="band" x="{x}" y="{y - 11}" width="30" height="14"/>',
                  f'<text x="{x + 36}" y="{y}">f32, least to largest of the seeds</text>']


def draw(panels):
    known = [n for n in LINES if any(n in curves for _, _, curves in panels)]
    rows = math.ceil(len(panels) / COLUMNS)
    width, height = COLUMNS * WIDTH, LEGEND + rows * HEIGHT
    light, dark = ("".join(
        f".{n} {{ stroke: {LINES[n][shade]}; stroke-width: {LINES[n][4]}; "
        f"stroke-dasharray: {LINES[n][3] or 'none'}; }}\n" for n in known)
        for shade in (1, 2))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}">',
           f"<style>\n{STYLE}{light}@media (prefers-color-scheme: dark) {{\n{DARK}{dark}}}\n"
           "</style>", f'<rect class="paper" width="{width}" height="{height}"/>']
    out += legend(known)
    for i, (title, unit, curves) in enumerate(panels):
        out += Panel(title, unit, {k: v for k, v in curves.items() if k in LINES},
                     i % COLUMNS * WIDTH, LEGEND + i // COLUMNS * HEIGHT).draw()
    return "\n".join(out + ["</svg>", ""])
