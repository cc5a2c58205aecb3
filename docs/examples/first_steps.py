# ===- first_steps.py - the first example of the README --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
import mpcomm
import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
model = Sequential(Linear(16, 64), ReLU(), Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
samples, labels = torch.randn(32, 16), torch.randint(4, (32,))

program = mpcomm.compile(model, cross_entropy, optimizer, (samples, labels))
with mpcomm.Session(program) as session:           # under torchrun or mpirun a rank of many
    for step in range(1, 41):
        loss = session.step((samples, labels))
        if step % 20 == 0:
            print(f"step {step}: loss {loss:.3f}")
    model.load_state_dict(session.state_dict())    # PyTorch goes on with what was learned
print(f"in PyTorch: loss {cross_entropy(model(samples), labels):.3f}")
