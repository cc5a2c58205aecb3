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
# A kernel over parts may round a product and its sum at once where one over the whole does not,
# a unit in the last place of an update. AdamW divides by the size of a gradient, so a unit there
# is at most 2^-20 of the step of LR; in 4 steps, and with what that changes in later gradients,
# no more than 2^-14 of LR. A weight that is not updated is off by LR, and by four times that.
# With copies in bf16 a weight on the other side of a rounding changes its products by 2^-8, and a
# step by some part of LR: there the mean over a tensor counts, of which few elements do so.
LR = 0.01
WEIGHT = {"none": 2.0**-14 * LR, "bf16": 2.0**-3 * LR}
LOSS = {"none": 2.0**-18, "bf16": 2.0**-8}


def near(found, expected, bound, where, of=torch.max):
    far = of((torch.as_tensor(found) - torch.as_tensor(expected)).abs())
    assert far <= bound, (where, far)


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
        losses = [session.step(b) for b in batches[:2]]
        session.save(path)
        state, moments = session.state_dict(), session.optimizer_state_dict()
        losses += [session.step(b) for b in batches[2:]]
        last = session.state_dict()
        # Back to the second step, from what was returned, and again from the checkpoint.
        session.load_state_dict(state)
        session.load_optimizer_state_dict(moments)
        again = [session.step(b) for b in batches[2:]]
    with mpcomm.Session(program) as session:
        session.resume(path)
        resumed = [session.step(b) for b in batches[2:]]
    assert again == resumed == losses[2:], (again, resumed, losses)
    return losses, last


def rank_of(options, folder):
    return train(options, int(os.environ["RANK"]), folder)


if __name__ == "__main__":
    for precision in "none", "bf16":
        whole = None
        for zero in range(4):
            folder = os.path.join(FOLDER, f"{precision}{zero}")
            os.mkdir(folder)
            results = mpcomm.launch(rank_of, np=2, args=({"zero": zero, "precision": precision}, folder))
            for losses, state in results:
                whole = whole or (losses, state)
                near(losses, whole[0], LOSS[precision], (precision, zero))
                for key, value in whole[1].items():
                    near(state[key], value, WEIGHT[precision], (precision, zero, key),
                         torch.max if precision == "none" else torch.mean)
                assert state["0.weight"].shape == (33, 17)
