# What callbacks write: lines of JSON with the keys of mpcomm-run --log, one for each step,
# also where a session goes on from a checkpoint; and points for TensorBoard, here to a
# stand-in for its library.
#
# REQUIRES: numpy
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t

import json
import math
import sys
import types

import mpcomm

log = sys.argv[1] + "/log.jsonl"


def record(step, kind="step", loss=0.5, **metrics):
    if kind != "step":
        return mpcomm.Record(kind, step, loss, metrics, 1.25, {}, samples=40)
    return mpcomm.Record(kind, step, loss, metrics, 1.25, {"lr": 0.1}, exposed_ms=0.5)


def lines():
    with open(log) as file:
        return [json.loads(line) for line in file]


writer = mpcomm.JsonLines(log)
for step in range(1, 6):
    writer(record(step, loss=math.inf if step == 4 else 0.5, accuracy=0.25))
writer(record(5, "evaluate"))
writer.close()
assert lines()[0] == {"step": 1, "loss": 0.5, "metrics": {"accuracy": 0.25}, "ms": 1.25,
                      "exposed_ms": 0.5, "lr": 0.1}, lines()[0]
assert lines()[3]["loss"] is None
assert lines()[5] == {"step": 5, "evaluation": {"samples": 40, "loss": 0.5}}

scaled = record(6)
scaled.exposed_ms, scaled.loss_scale, scaled.is_skipped = None, 1024.0, True
scaled.nonfinite = ["w"]
writer = mpcomm.JsonLines(log)
writer(scaled)
writer(record(6, "evaluate", accuracy=math.nan))
writer.close()
assert lines()[6] == {"step": 6, "loss": 0.5, "ms": 1.25, "exposed_ms": None, "lr": 0.1,
                      "loss_scale": 1024.0, "skipped": True, "nonfinite": ["w"]}
assert lines()[7] == {"step": 6, "evaluation": {"samples": 40, "loss": 0.5,
                                                "metrics": {"accuracy": None}}}

# From the checkpoint of step 3 on: the lines of steps 4 and 5 go, and half a line does.
with open(log, "a") as file:
    file.write('{"step": 6, "lo')
writer = mpcomm.JsonLines(log)
for step in (4, 5, 6):
    writer(record(step))
writer.close()
assert [line["step"] for line in lines()] == [1, 2, 3, 4, 5, 6]

# A new run starts a new file; every second step.
writer = mpcomm.JsonLines(log, every=2)
for step in range(1, 6):
    writer(record(step))
writer.close()
assert [line["step"] for line in lines()] == [2, 4]

points = []


class SummaryWriter:
    def __init__(self, folder):
        assert folder == "runs"

    def add_scalar(self, *point):
        points.append(point)

    def close(self):
        points.append("closed")


sys.modules["torch.utils.tensorboard"] = sys.modules["torch.utils"] = sys.modules["torch"] = None
try:
    mpcomm.TensorBoard("runs")
    sys.exit("expected an error")
except mpcomm.Error as error:
    assert "pip install tensorboardX" in str(error) and error.code == "unsupported"
sys.modules["tensorboardX"] = types.SimpleNamespace(SummaryWriter=SummaryWriter)
board = mpcomm.TensorBoard("runs", every=2)
for step in (1, 2):
    board(record(step, accuracy=0.25))
board(record(2, "evaluate"))
board.close()
assert points == [("train/loss", 0.5, 2), ("train/accuracy", 0.25, 2), ("lr", 0.1, 2),
                  ("step_ms", 1.25, 2), ("evaluate/loss", 0.5, 2), "closed"], points
