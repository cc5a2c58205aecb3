# Metrics of a loss, averaged over the ranks, beside the loss in the progress line, the log,
# and the evaluation. All samples are in one step of 2 ranks, in whatever order.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %mpcomm-import %s -o %t/s.mlir --weights %t/w --data %t/d --eval-data %t/e
# RUN: %mpcomm-run %t/s.mlir --np 2 --weights %t/w --data %t/d --eval-data %t/e --steps 3 --evaluate --log %t/log > %t/out
# RUN: FileCheck %s --input-file=%t/out
# RUN: %python %s %t/log %t/out

# CHECK: step 1/3  loss {{.*}} accuracy {{.*}} size {{.*}} ms/step
# CHECK: loss last
# CHECK-NEXT: last accuracy
# CHECK-NEXT: last size
# CHECK: evaluation loss
# CHECK-NEXT: evaluation accuracy
# CHECK-NEXT: evaluation size

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3,
                                "tools", "mpcomm-import"))
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi


def loss(o, y):
    return {"accuracy": (o.argmax(1) == y).float().mean(), "loss": F.cross_entropy(o, y),
            "size": o.square().mean()}


def workload():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 5))
    data = {"x": torch.randn(16, 6), "y": torch.randint(0, 5, (16,))}
    return mi.Workload(model, loss, torch.optim.SGD(model.parameters(), lr=0.5), 8, data, data)


def main(log, out):
    w = workload()
    for line in open(log):
        expected = loss(w.model(w.dataset["x"]), w.dataset["y"])
        found = json.loads(line)
        found = {"loss": found["loss"], **found["metrics"]}
        assert list(found) == ["loss", "accuracy", "size"], found
        for name, value in expected.items():
            # Sums of at most 80 numbers, after at most three steps.
            assert abs(found[name] - value.item()) <= 80 * 3 * 2.0**-24 * max(value.item(), 1), name
        w.optimizer.zero_grad()
        expected["loss"].backward()
        w.optimizer.step()
    expected = loss(w.model(w.dataset["x"]), w.dataset["y"])
    for name, number in re.findall(r"^evaluation (\w+) +([\d.e-]+)$", open(out).read(), re.M):
        assert abs(float(number) - expected.pop(name).item()) < 1e-4, name
    assert not expected, expected


if __name__ == "__main__" and len(sys.argv) > 1:
    main(*sys.argv[1:])
