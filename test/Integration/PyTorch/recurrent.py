# Recurrent layers against PyTorch in f64, forward and backward: LSTM, GRU and RNN by
# layers, directions, layouts of the batch, biases and first states; a language model.
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


class Recurrent(nn.Module):
    """Reads all outputs and the last states; the first states are zeros, or learned."""

    def __init__(self, kind, batch_first=False, learned=False, **options):
        super().__init__()
        self.layer = kind(5, 6, batch_first=batch_first, **options)
        directions = 1 + self.layer.bidirectional
        self.head = nn.Linear(6 * directions, 4)
        self.batch_first, self.is_lstm = batch_first, kind is nn.LSTM
        size = (self.layer.num_layers * directions, 1, 6)
        self.first = nn.ParameterList(
            nn.Parameter(0.5 * torch.randn(size)) for _ in range(learned * (1 + self.is_lstm)))

    def forward(self, x):
        batch = len(x)
        states = [s.expand(-1, batch, -1).contiguous() for s in self.first]
        x = x if self.batch_first else x.transpose(0, 1)
        first = tuple(states) if self.is_lstm else states[0] if states else None
        y, last = self.layer(x, first or None if self.is_lstm else first)
        last = last if self.is_lstm else [last]
        y = y if self.batch_first else y.transpose(0, 1)
        return self.head(y).mean(1) + sum(s.mean((0, 2))[:, None] for s in last)


def check(kind, steps=7, **options):
    torch.manual_seed(sum(map(ord, str(options))))
    model = Recurrent(kind, **options)
    x, y = torch.randn(8, steps, 5), torch.randint(4, (8,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = checks.check(mi.Workload(model, F.cross_entropy, optimizer, 4,
                                       {"x": x, "y": y}, name="model"))
    loops = model.layer.num_layers * (1 + model.layer.bidirectional)
    assert program.functions[0].count("scan") == 2 * loops
    assert program.functions[1].count("scan") == loops
    return program


for kind in (nn.LSTM, nn.GRU, nn.RNN):
    check(kind)
    check(kind, bias=False, batch_first=True)
    check(kind, num_layers=2, bidirectional=True, learned=True)
    check(kind, steps=1, bidirectional=True)
check(nn.RNN, nonlinearity="relu", num_layers=2, batch_first=True, learned=True)

# What only the backward pass reads is not computed in evaluation.
evaluate = check(nn.LSTM).functions[1]
body, = evaluate.bodies
assert len(body.results) == 3, len(body.results)

# The program does not depend on the number of steps but for sizes.
programs = [check(nn.LSTM, steps=steps) for steps in (3, 9)]
ops = [[op.name for f in p.functions for g in (f, *f.bodies) for op in g.ops] for p in programs]
assert ops[0] == ops[1]

# Loops of one size have one body.
text = check(nn.GRU, num_layers=3).generic
assert text.count('sym_name = "gru') == 3  # forward, backward, evaluation


class Unbatched(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.GRU(5, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0])


model = Unbatched()
checks.check(mi.Workload(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), 4,
                         {"x": torch.randn(8, 5), "y": torch.randint(4, (8,))}, name="model"))


# --- what has no loop ---


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [7] * len(x), batch_first=True)
        return self.head(self.layer(packed)[1][0][0])


class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(5, 6, batch_first=True, proj_size=3), nn.Linear(3, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


for model, message in ((Packed(), "packed sequences are not supported"),
                       (Projected(), "proj_size is not supported")):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = {"x": torch.randn(8, 7, 5), "y": torch.randint(4, (8,))}
    try:
        mi.trace(mi.Workload(model, F.cross_entropy, optimizer, 4, data, name="model"))
    except mi.ImportFailure as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"imported: {message}")
