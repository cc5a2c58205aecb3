# The loop that docs/Guides/FromPyTorch.md shows goes on from a checkpoint with the losses,
# bit for bit, and the learning rates of one that was not interrupted.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import mpcomm
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from training import adamw, data, seeded


# [resume]
def train(session, scheduler, loader, epochs, folder):
    if os.path.exists(folder):
        session.resume(folder)
    for _ in range(session.steps):
        scheduler.step()
    first, done = divmod(session.steps, len(loader))
    for epoch in range(first, epochs):
        loader.generator.manual_seed(epoch)  # the order of an epoch is that of its number
        for number, batch in enumerate(loader):
            if epoch == first and number < done:
                continue
            session.step(batch)
            scheduler.step()
            if session.steps % 5 == 0:
                session.save(folder)
# [end]


class Interrupted(Exception):
    pass


def run(folder, seen, last=None):
    """Adds {step: (loss, rate)} of a run to `seen`; it is interrupted after step `last`."""
    def note(record):
        seen[record.step] = record.loss, record.rates["lr"]
        if record.step == last:
            raise Interrupted

    model = seeded()
    optimizer = adamw(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 24)
    loader = DataLoader(TensorDataset(*data(1, samples=64)[0]), 8, shuffle=True,
                        drop_last=True, generator=torch.Generator())
    program = mpcomm.compile(model, F.cross_entropy, optimizer, next(iter(loader)))
    try:
        with mpcomm.Session(program, lr=scheduler, callbacks=note) as session:
            train(session, scheduler, loader, 3, folder)
    except Interrupted:
        pass


whole, parts, rest = {}, {}, {}
run(sys.argv[1] + "/whole/", whole)
run(sys.argv[1] + "/parts/", parts, last=12)  # in the middle of the second epoch
run(sys.argv[1] + "/parts/", rest)
assert list(parts) == list(range(1, 13)) and list(rest) == list(range(11, 25)), (parts, rest)
assert {**parts, **rest} == whole
