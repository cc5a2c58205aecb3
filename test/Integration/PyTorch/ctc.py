# The CTC loss against PyTorch's in f64, and its gradients: reductions, blanks, lengths that
# are known, made by the model or in the batch, targets side by side, samples without a path.
#
# REQUIRES: torch
# RUN: %python %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch
import torch.nn as nn
import torch.nn.functional as F

import mpcomm_import as mi

FRAMES, CLASSES, LONGEST = 9, 5, 3


class Letters(nn.Module):
    """Logarithms of probabilities, [T, N, C]; or scores, which are none."""

    def __init__(self, normal=True):
        super().__init__()
        self.layer, self.normal = nn.Linear(6, CLASSES), normal

    def forward(self, x):
        y = self.layer(x).transpose(0, 1)
        return y.log_softmax(-1) if self.normal else -y.abs()


def train(loss, data, normal=True):
    torch.manual_seed(1)
    model = Letters(normal)
    data = {"x": torch.randn(8, FRAMES, 6), **data}
    program = checks.check(mi.Workload(
        model, loss, torch.optim.SGD(model.parameters(), lr=2.0 ** -6), 4, data, name="model",
        targets={k: k for k in data if k != "x"}))
    loops = [f.count("scan") for f in program.functions]
    assert loops == [2, 1], loops
    return program


torch.manual_seed(0)
# Labels that follow themselves; what is beyond a target is not read.
targets = torch.randint(1, CLASSES, (8, LONGEST))
targets[::2, 1] = targets[::2, 0]
lengths = torch.tensor([3, 1, 2, 3, 0, 3, 2, 1])
beyond = torch.arange(LONGEST) >= lengths[:, None]
targets[beyond] = -100
frames = torch.tensor([9, 4, 7, 9, 2, 8, 9, 5])
batch = {"y": targets, "frames": frames, "lengths": lengths}

for reduction in ("mean", "sum", "none"):
    def loss(o, y, frames, lengths, reduction=reduction):
        return (F.ctc_loss(o, y, frames, lengths, reduction=reduction) ** 2).sum()
    train(loss, batch)
train(lambda o, y, frames, lengths: nn.CTCLoss()(o, y, frames, lengths), batch)
train(lambda o, **batch: nn.CTCLoss(blank=CLASSES - 1)(
    o, batch["y"] - 1, batch["frames"], batch["lengths"]), batch)

# Scores are taken for logarithms as they are; weights of the samples reach the gradient.
train(lambda o, y, frames, lengths: (F.ctc_loss(o, y, frames, lengths, reduction="none") *
                                     torch.arange(1.0, 5.0)).sum(), batch, normal=False)

# Samples too short for their targets: four labels that follow themselves take seven frames.
short = torch.tensor([3, 9, 6, 7, 9, 2, 1, 7])
four = torch.ones(8, 4, dtype=torch.long)
for reduction in ("mean", "sum", "none"):
    def loss(o, frames, lengths, reduction=reduction):
        return F.ctc_loss(o, four[:4], frames, lengths, reduction=reduction,
                          zero_infinity=True).sum()
    train(loss, {"frames": short, "lengths": torch.full((8,), 4)})

# Lengths that are known: numbers, and tensors that the loss makes.
full = torch.randint(1, CLASSES, (8, LONGEST))
train(lambda o, y: F.ctc_loss(o, y, [9, 8, 7, 6], (3, 2, 1, 0)), {"y": full})
train(lambda o, y, lengths: F.ctc_loss(o, y, torch.full((4,), len(o)), lengths),
      {"y": full, "lengths": lengths})
# Targets one after the other.
train(lambda o, y: F.ctc_loss(o, y.flatten()[:6], [9, 8, 7, 6], [3, 2, 0, 1]), {"y": full})
train(lambda o, y, lengths: F.ctc_loss(
    o, y.flatten(), torch.tensor([9, 9, 8, 9]), lengths),
      {"y": full, "lengths": torch.full((8,), LONGEST)})
# One sample without a batch.
train(lambda o, y: sum(F.ctc_loss(o[:, i], y[i], torch.tensor([9]), torch.tensor([3]))
                       for i in range(1)), {"y": full})

# What PyTorch refuses.
for arguments, message in [(([99] * 4, [3] * 4), r"expected input_lengths in [0, 9], found [99,"),
                           (([9] * 4, [3, 3, 3, 4]), "expected target_lengths in [0, 3]"),
                           (([9] * 4, [3] * 4, 5), "expected blank in [0, 5), found 5")]:
    try:
        train(lambda o, y: F.ctc_loss(o, y, *arguments), {"y": full})
    except mi.ImportFailure as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)

# A program has one size for any number of frames.
sizes = []
for FRAMES in (9, 30):
    program = train(lambda o, y: F.ctc_loss(o, y, [FRAMES] * 4, [3] * 4), {"y": full})
    sizes.append([op.name for f in program.functions for g in (f, *f.bodies) for op in g.ops])
assert sizes[0] == sizes[1]
