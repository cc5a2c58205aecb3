# ===- tables.py - the answers of measure.py as tables ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Tables from what cells answered; what has no answer yet is left out."""

import re

# Kernels by what they do, a pattern of their names in a program, and the share of a copy's bandwidth that is the target.
KINDS = [
    ("AdamW", "gpt2-small-bf16", "adamw_update", 0.92), ("layer norm", "gpt2-small-bf16", r"layer_norm_\d", 0.9),
    ("layer norm, gradient", "gpt2-small-bf16", "layer_norm_grad", 0.8),
    ("cross-entropy, with gradient", "gpt2-small-bf16", "cross_entropy", 0.9),
    ("pack and cast", "one-rank", "truncf", 0.92), ("unpack, cast and AdamW", "one-rank", "adamw_update", 0.92),
    ("max pool", "resnet50-bf16", r"max_pool(?!_grad)", None),
    ("max pool, gradient", "resnet50-bf16", "max_pool_grad", None),
]  # fmt: skip


def print_table(title, head, rows):
    if not rows:
        return
    print("\n" + title)
    cell = lambda c: "" if c is None else "%.3g" % c if isinstance(c, float) else str(c)
    cells = [head] + [[cell(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip())


class Answers:
    def __init__(self, results):
        self.cells = results.get("cells", {})

    def __getitem__(self, key):
        cell = self.cells.get(key, {})
        return cell.get("value") if cell.get("status") in ("ok", "wrong") else None

    def of(self, section):
        """Name and whole cell, of those that were tried."""
        for key, cell in self.cells.items():
            if key.startswith(section + "/") and cell["status"] != "left":
                yield key[len(section) + 1 :], cell


def share_of(step):
    """Of a step as a graph: products, attention, convolutions, generated kernels; the rest are gaps."""
    groups = {"products": 0.0, "attention": 0.0, "convolutions": 0.0, "kernels": 0.0}
    for kernel, call in step["calls"].items():
        group = "products" if call["category"] == "gemm" else "kernels"
        if kernel.startswith("convolution"):
            group = "convolutions"
        elif "attention" in kernel:
            group = "attention"
        groups[group] += call["seconds"] * 1e3
    return {**groups, "gaps": step["ms"] - sum(groups.values())}


def attention_of(step):
    """us a layer, forward and backward."""
    sums = {"forward": [0.0, 0.0], "backward": [0.0, 0.0]}
    for kernel, call in step["calls"].items():
        if "attention" in kernel and call["category"] in ("kernel", "gemm"):
            sum = sums["backward" if "grad" in kernel else "forward"]
            sum[0] += call["seconds"] * 1e6
            sum[1] = max(sum[1], call["calls"])
    return {key: seconds / calls if calls else None for key, (seconds, calls) in sums.items()}


def print_steps(answers):
    rows, parts = [], []
    for name, cell in answers.of("steps"):
        step = cell.get("value")
        if not step:
            rows.append([name] + 8 * [""] + [cell["status"]])
            continue
        peers = {}
        for key in ("eager", "default", "max-autotune", "JAX"):
            found = answers["peers/%s %s" % (name, key)]
            peers[key] = found["ms"] if found else None
        best = min((ms for ms in peers.values() if ms), default=None)
        rows.append([name, step["ms"], step["device GB"], *peers.values(), step["ms"] / best if best else None,
                     ", ".join("%s %.1f" % item for item in share_of(step).items()), ""])  # fmt: skip
        replay = step["replay us"]
        parts.append([name, step["host us"], *(replay.get(k) for k in ("launch", "first", "inputs", "wait", "rest", "idle")),
                      step["launches"], step["nodes"], step.get("chosen", "")])  # fmt: skip
    print_table("ms a step", ["program", "ours", "GB", "eager", "compile", "max-autotune", "JAX", "ours / best", "ms of", ""], rows)
    print_table("host time of a replayed step, us", ["program", "processor", "launch", "first", "inputs", "wait", "rest", "device idle",
                                                     "launches", "nodes", "chosen"], parts)  # fmt: skip
    for half, full in [("gpt2-small-bf16-8", "gpt2-small-f32"), ("resnet50-bf16-128", "resnet50-f32"),
                       ("gpt2-small-fp8", "gpt2-small-bf16")]:  # fmt: skip
        one, other = answers["steps/" + half], answers["steps/" + full]
        if one and other:
            print("%s against %s: %.2f times as fast, %.2f of the memory" % (
                half, full, other["ms"] / one["ms"], one["device GB"] / other["device GB"]))  # fmt: skip


def print_kernels(answers):
    device, rows = answers["device"], []
    copy = device["copy GB/s"] if device else None
    for label, name, pattern, target in KINDS:
        step = answers["steps/" + name]
        found = [(call, kernel) for kernel, call in step["calls"].items()
                 if call["category"] == "kernel" and call["bytes"] and call["median"] and re.search(pattern, kernel)
                 and not kernel.endswith(("_sums", "_scalars"))] if step else []  # fmt: skip
        if found:
            call, kernel = max(found, key=lambda pair: pair[0]["seconds"])
            rate = call["bytes"] / call["median"] / 1e9
            rows.append([label, kernel, call["bytes"] / 1e6, call["median"] * 1e6, rate, rate / copy if copy else None, target])
    print_table("kernels beside a copy", ["what", "kernel", "MB", "us", "GB/s", "share", "target"], rows)
    ops = answers["ops"]
    if ops:
        rows = [[label, *row.values()] if isinstance(row, dict) else [label, row, "", "", ""] for label, row in ops["rows"].items()]
        print_table("the same in PyTorch", ["what", "MB", "us", "GB/s", "share"], rows)
    rows = []
    for name, cell in answers.of("steps"):
        if not cell.get("value"):
            continue
        kinds = {}
        for kernel, call in cell["value"]["calls"].items():
            is_product = call["category"] == "gemm" and not kernel.startswith("convolution")
            if call["flops"] and (is_product or kernel.startswith("convolution")):
                label = "products %s" % call.get("type", "") if is_product else kernel
                sums = kinds.setdefault(label, [0.0, 0.0])
                sums[0] += call["flops"] * call["calls"]
                sums[1] += call["seconds"]
        rows += [[name, label, seconds * 1e3, flops / seconds / 1e12] for label, (flops, seconds) in kinds.items() if seconds]
    print_table("products and convolutions", ["program", "what", "ms a step", "TFLOP/s"], rows)


def print_attention(answers, variants):
    rows = []
    for name, cell in answers.of("steps"):
        if cell.get("value"):
            found = attention_of(cell["value"])
            if found["forward"]:
                base = next((b for b, ways in variants.items() if any(name == "%s-%s" % (b, way) for way in ways)), None)
                other = answers["steps/" + base] if base else None
                than = attention_of(other) if other else {}
                change = ", ".join("%s %.2f of %s" % (k, v / than[k], base) for k, v in found.items() if v and than.get(k))
                rows.append([name, found["forward"], found["backward"], change])
    torch = answers["attention"] or {}
    rows += [[key, row["forward"], row["backward"], ""] if isinstance(row, dict) else [key, row, "", ""] for key, row in torch.items()]
    print_table("attention of a layer, us", ["what", "forward", "backward", ""], rows)


def print_all(results, variants):
    answers = Answers(results)
    if answers["device"]:
        print_table("device", ["what", "figure"], [list(item) for item in answers["device"].items()])
    print_steps(answers)
    print_kernels(answers)
    print_attention(answers, variants)
    rows = []
    for name, cell in answers.of("check"):
        found = cell.get("value") or {}
        wanted = found.get("wanted") or [None]
        rows.append([name, found.get("against"), wanted[0], wanted[-1], (found.get("found") or [None])[-1], found.get("worst"),
                     found.get("bound"), cell["status"]])  # fmt: skip
    print_table("losses", ["program", "against", "first", "last", "ours", "worst", "bound", ""], rows)
    for section in ("nccl", "alone", "cases", "sanitize"):
        tried = list(answers.of(section))
        if not tried:
            continue
        bad = [[name, cell["status"], str(cell.get("value", cell.get("error")))[-160:]] for name, cell in tried if cell["status"] != "ok"]
        print("\n%s: %d of %d are ok" % (section, len(tried) - len(bad), len(tried)))
        for row in bad:
            print("  " + "  ".join(row))
