# With zero=1 to 3 ranks hold parts of the state. A session gives them what rank 0's model and
# optimizer have, whatever the others' have, returns whole tensors, takes them in the middle of
# training, and goes on from its checkpoint: all as if each rank held everything.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t

import os
import sys

import mpcomm
import torch
import torch.nn.functional as F
from torch import nn

FOLDER, STEPS = sys.argv[1], 4
LR, U = 0.01, 2.0**-24


def near(found, expected, before, where):
    """Weights after a step from equal state, with equal gradients. A kernel over parts may round
    a product and the sum that takes it at once where one over the whole does not: each of the at
    most 16 roundings of AdamW's step is U of the step, and adding it to the weight U of that."""
    bound = 16 * U * (expected - before).abs() + 2 * U * expected.abs()
    assert ((found - expected).abs() <= bound).all(), (where, (found - expected).abs().max())


def train(options, rank, folder):
    torch.manual_seed(5)
    x, y = torch.randn(8 * STEPS, 17), torch.randint(5, (8 * STEPS,))
    torch.manual_seed(1 + rank)
    model = nn.Sequential(nn.Linear(17, 33), nn.Tanh(), nn.Linear(33, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    # State of the optimizer that is not the program's default.
    F.cross_entropy(model(x[:8]), y[:8]).backward()
    optimizer.step()
    part = slice(4 * rank, 4 * rank + 4)
    batches = [(x[8 * i:8 * i + 8][part], y[8 * i:8 * i + 8][part]) for i in range(STEPS)]
    program = mpcomm.compile(model, F.cross_entropy, optimizer, batches[0], mesh="dp:2", **options)
    path = os.path.join(folder, "c.safetensors")
    with mpcomm.Session(program) as session:
        before, losses = session.state_dict(), [session.step(batches[0])]
        after = session.state_dict()
        losses.append(session.step(batches[1]))
        session.save(path)
        state, moments = session.state_dict(), session.optimizer_state_dict()
        losses += [session.step(b) for b in batches[2:]]
        # Back to the second step, from what was returned, and again from the checkpoint.
        session.load_state_dict(state)
        session.load_optimizer_state_dict(moments)
        again = [session.step(b) for b in batches[2:]]
    with mpcomm.Session(program) as session:
        session.resume(path)
        resumed = [session.step(b) for b in batches[2:]]
    assert again == resumed == losses[2:], (again, resumed, losses)
    return losses, before, after


def rank_of(options, folder):
    return train(options, int(os.environ["RANK"]), folder)


if __name__ == "__main__":
    for precision in "none", "bf16":
        whole = None
        for zero in range(4):
            folder = os.path.join(FOLDER, f"{precision}{zero}")
            os.mkdir(folder)
            results = mpcomm.launch(rank_of, np=2, args=({"zero": zero, "precision": precision}, folder))
            for losses, before, after in results:
                whole = whole or (losses, before, after)
                assert losses[0] == whole[0][0], (precision, zero, losses, whole[0])
                for key, value in whole[1].items():
                    assert torch.equal(before[key], value), (precision, zero, key)
                    near(after[key], whole[2][key], value, (precision, zero, key))
                    assert not torch.equal(after[key], value), (precision, zero, key)
