"""Prints a timeline as mpcomm-sim and mpcomm-run write them: a transformer's step on
one compute stream and one communication stream, ten ops a block in the forward pass and
twenty in the backward pass, one bucket a few blocks.

sample.py [--blocks=12] [--per-bucket=2] [--kind=simulated|measured] [--scale=1.0]
          [--rate=B/s] [--ranks=64] [--name=...] [--shown=1]
"""

import argparse
import json

p = argparse.ArgumentParser()
p.add_argument("--blocks", type=int, default=12)
p.add_argument("--per-bucket", type=int, default=2)
p.add_argument("--kind", default="simulated")
p.add_argument("--scale", type=float, default=1.0, help="of compute")
p.add_argument("--rate", type=float, default=7e9)
p.add_argument("--ranks", type=int, default=64)
p.add_argument("--shown", type=int, default=1, help="ranks with streams of their own")
p.add_argument("--name", default="gpt2-small")
a = p.parse_args()

FORWARD = ["layer_norm", "qkv", "scores", "softmax", "mix", "proj", "layer_norm", "fc",
           "gelu", "out"]
OP, BLOCK = 150e-6 * a.scale, 28_351_488  # seconds; bytes of a block's gradients
now, live, wire_free = 0.0, 1_990_000_000, 0.0
compute, comm, collectives, memory = [], [], [], [[0.0, live]]


def run(name, place, seconds, allocates=0):
    global now, live
    compute.append({"name": name, "location": place, "begin": now,
                    "end": now + seconds})
    now += seconds
    live += allocates
    memory.append([now, live])


for block in range(a.blocks):
    for i, name in enumerate(FORWARD):
        run(name, "step.mlir:%d" % (200 + block * 10 + i), OP * (0.5 + i % 3),
            26_000_000)
gathered = 0
for block in reversed(range(a.blocks)):
    for i, name in enumerate(FORWARD[::-1] * 2):
        run(name + "_grad", "step.mlir:%d" % (500 + (a.blocks - block) * 20 + i),
            OP * (0.5 + i % 3), -13_000_000)
    gathered += BLOCK
    if (a.blocks - block) % a.per_bucket == 0 or block == 0:
        k = len(collectives)
        compute.append({"name": "start all_reduce", "location": "", "begin": now,
                        "end": now, "flow": k})
        start = max(now, wire_free)
        wire_free = start + 40e-6 + gathered / a.rate
        collectives.append({
            "id": k, "name": "all_reduce", "location": "step.mlir:%d" % (900 + k),
            "bytes": gathered, "tensors": 12 * gathered // BLOCK, "ready": now,
            "start": start, "end": wire_free, "awaited": 0, "hidden": 0, "exposed": 0,
            "reason": "none", "detail": ""})
        comm.append({"name": "all_reduce", "location": "step.mlir:%d" % (900 + k),
                     "begin": start, "end": wire_free, "flow": k})
        gathered = 0
busy = [(e["begin"], e["end"]) for e in compute]
for c in collectives:
    c["awaited"] = now
    wait = max(0.0, c["end"] - now)
    c["exposed"] = wait
    if wait:
        compute.append({"name": "await all_reduce", "location": "", "begin": now,
                        "end": c["end"], "flow": c["id"]})
        memory.append([c["end"], live])
        last = c is collectives[-1]
        c["reason"] = "nothing-to-hide-under" if last else "stream-order"
        c["detail"] = "its last gradient is the last op of the backward pass" if last \
            else "waited %.1f µs for the all_reduce before it" % (
                (c["start"] - c["ready"]) * 1e6)
        now = c["end"]
    else:
        compute.append({"name": "await all_reduce", "location": "", "begin": now,
                        "end": now, "flow": c["id"]})
    busy_before = len(compute)
    run("adamw_update", "step.mlir:%d" % (950 + c["id"]), OP * 1.5)
    busy.append((compute[-1]["begin"], compute[-1]["end"]))
for c in collectives:
    c["hidden"] = sum(max(0.0, min(e, c["end"]) - max(b, c["start"])) for b, e in busy)

work = sum(e["end"] - e["begin"] for e in compute if "flow" not in e)
exposed = sum(c["exposed"] for c in collectives)
streams = []
for rank in range(a.shown):
    streams += [{"name": "compute", "rank": rank, "events": compute},
                {"name": "dp", "rank": rank, "events": comm}]
print(json.dumps({
    "schema": "mpcomm-timeline-1", "name": a.name, "kind": a.kind,
    "cluster": "ethernet-100g" if a.kind == "simulated" else "", "ranks": a.ranks,
    "seconds": now, "lower_bound": max(work, 0.97 * now), "compute": work, "exposed": exposed,
    "peak_bytes": max(m[1] for m in memory), "streams": streams,
    "collectives": collectives, "memory": memory}))
