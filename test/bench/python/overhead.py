# What Python adds to a step: the time of session.step beside the time that the session
# itself measures of the same step, for an MLP of about 0.3 ms.
#
#     overhead.py [STEPS]
#
# The bound of 50 us holds on a machine that does nothing else, so the test only shows
# that the measurement runs and prints the figures.
#
# REQUIRES: torch, compiler, long
# RUN: env PYTHONPATH=%mpcomm_obj_root/python %python %s 200

import sys
import time

import mpcomm
import torch
import torch.nn.functional as F

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256),
                            torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
batch = {"x": torch.randn(32, 64), "y": torch.randint(10, (32,))}
program = mpcomm.compile(model, F.cross_entropy, optimizer, batch)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.999 ** step)


def median(values):
    return sorted(values)[len(values) // 2]


def measure(what, batch, each=lambda: None, **options):
    with mpcomm.Session(program, **options) as session:
        inside, outside = [], []
        for _ in range(steps):
            start = time.perf_counter()
            session.step(batch)
            outside.append(1e6 * (time.perf_counter() - start))
            inside.append(1e3 * session.last.milliseconds)
            each()
    print(f"{what:28s} step {median(inside):7.1f} us, by Python {median(outside):7.1f} us: "
          f"{median([o - i for i, o in zip(inside, outside)]):5.1f} us more")


measure("tensors, a number", batch, lr=0.01)
measure("tensors, a scheduler", batch, scheduler.step, lr=scheduler)
measure("arrays", {k: t.numpy() for k, t in batch.items()}, lr=0.01)
measure("a tuple", tuple(batch.values()), lr=lambda step: 0.01 / (1 + step))
measure("with a callback", batch, callbacks=lambda record: None, lr=0.01)
