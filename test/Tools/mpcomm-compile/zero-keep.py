# With zero=auto parameters are gathered once for both passes as far as memory goes: of four
# layers of 262,144 bytes, the first has nothing before it to pass a gradient to, and the
# last is kept in any case; the two between are kept both, or the later one, or none.
#
# RUN: mkdir -p %t
# RUN: %python %s %mpcomm-compile %t

import os
import re
import subprocess
import sys

COMPILE, FOLDER = sys.argv[1:]
LAYERS, WEIGHT, SAMPLES = 4, "tensor<256x256xf32>", "tensor<4x256xf32>"
CLUSTER = """
{"schema": "mpcomm-cluster-1", "name": "made-up", "source": "made up",
 "device": {"name": "d", "flops": {"f32": 1e11, "vector": 1e10},
            "memory_bandwidth": 1e10, "memory_bytes": 1000000000, "launch": 1e-5},
 "links": [{"name": "net", "ranks": 0, "latency": 1e-5, "bandwidth": 25e6, "contends": true}],
 "algorithms": ["ring"]}
"""
SENT = 256 * 256 * 4 // 2  # what a rank sends of a layer, gathered or scattered, to the other one


def step():
    names = range(LAYERS)
    arguments = ['%%w%d: %s {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "%d", mpcomm.donated = %d : i64}'
                 % (i, WEIGHT, i, i + 1) for i in names]  # fmt: skip
    results = ['%s {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "%d"}' % (WEIGHT, i) for i in names]
    lines = []

    def dot(result, a, b, dims, types):
        lines.append("%%%s = mpcomm.dot_general %%%s, %%%s, contracting_dims = [%d] x [%d] : (%s, %s) -> %s"
                     % (result, a, b, *dims, *types))  # fmt: skip

    for i in names:
        dot("h%d" % i, "y%d" % (i - 1) if i else "x", "w%d" % i, (1, 0), (SAMPLES, WEIGHT, SAMPLES))
        lines.append("%%y%d = arith.mulf %%h%d, %%h%d : %s" % (i, i, i, SAMPLES))
    lines.append("%%loss = mpcomm.reduce sum %%y%d, dims = [0, 1] : (%s) -> tensor<f32>" % (LAYERS - 1, SAMPLES))
    lines.append("%%d%d = arith.addf %%h%d, %%h%d : %s" % (LAYERS - 1, LAYERS - 1, LAYERS - 1, SAMPLES))
    for i in reversed(names):
        dot("g%d" % i, "y%d" % (i - 1) if i else "x", "d%d" % i, (0, 0), (SAMPLES, SAMPLES, WEIGHT))
        if i:
            dot("b%d" % i, "d%d" % i, "w%d" % i, (1, 1), (SAMPLES, WEIGHT, SAMPLES))
            lines.append("%%e%d = arith.addf %%h%d, %%h%d : %s" % (i, i - 1, i - 1, SAMPLES))
            lines.append("%%d%d = arith.mulf %%b%d, %%e%d : %s" % (i - 1, i, i, SAMPLES))
    for i in names:
        lines.append("%%n%d = mpcomm.sgd_update %%w%d, %%g%d, %%lr, weight_decay = 0.0 : (%s, %s, tensor<f32>) -> %s"
                     % (i, i, i, WEIGHT, WEIGHT, WEIGHT))  # fmt: skip
    return """func.func @train_step(%s,
    %%lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %%x: %s {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}, %s) {
  %s
  return %%loss, %s : tensor<f32>, %s
}
""" % (",\n    ".join(arguments), SAMPLES, ", ".join(results), "\n  ".join(lines),
       ", ".join("%%n%d" % i for i in names), ", ".join([WEIGHT] * LAYERS))  # fmt: skip


def path(name):
    return os.path.join(FOLDER, name)


def rows(memory):
    """Of the report's table: what is kept and sent, in units of SENT, by its level; and what is chosen."""
    options = "mesh=dp:2 zero=auto cluster=%s memory-bytes=%d" % (path("cluster.json"), memory)
    run = subprocess.run([COMPILE, path("step.mlir"), "-o", path("step.so"), "--report", "--options", options],
                         text=True, capture_output=True)  # fmt: skip
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    found = re.findall(r"^\*? +0 +dp:2 +(\d) +(-|all|[\d.]+ MB) +1 +1 +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+) +([\d.]+)", run.stdout, re.M)
    return ([(zero, kept, round(1e6 * float(sent) / SENT, 2), float(peak)) for zero, kept, sent, peak in found],
            re.search(r"^mesh=dp:2 (.*) is chosen", run.stdout, re.M).group(1))  # fmt: skip


for name, text in (("step.mlir", step()), ("cluster.json", CLUSTER)):
    with open(path(name), "w", encoding="utf-8") as file:
        file.write(text)
# All are scattered once. Two are gathered once and two twice; all once; one twice.
ample, chosen = rows(10**9)
assert [row[:3] for row in ample] == [("0", "-", 8), ("1", "-", 8), ("3", "-", 10), ("3", "all", 8)], ample
assert chosen == "zero=3 zero-keep=-1", chosen
needed = round(1e6 * ample[2][3])
some, _ = rows(needed + 270000)
assert some[-1][:3] == ("3", "0.3 MB", 9) and some[-1][3] * 1e6 <= needed + 270000, some
# What keeps none is no other choice.
none, chosen = rows(needed + 30000)
assert [row[:2] for row in none] == [("0", "-"), ("1", "-"), ("3", "-")], none
assert chosen == "zero=3", chosen
