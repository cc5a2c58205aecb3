# AdamW goes from PyTorch into a session and back in the middle of training, and every bit
# of parameters and moments is that of PyTorch alone.
#
# That can hold only where nothing depends on the order of sums or on what is rounded first,
# and the model and its gradients are made so:
#
# - products have an inner size of 1: a layer of one input, a batch of one sample;
# - the loss is linear in the parameters, so that gradients are g = t x, which is 1 or -1;
# - betas are 1/2. From the first PART steps, with g = 1, the moments have become 1 (2^-25 is
#   lost beside 1). Then v = v/2 + g g/2 stays 1, and m = m/2 + g/2 has less than the 24 bits
#   of f32 for some steps: all ways to compute them, and m / sqrt(v), are exact;
# - after 60 steps 1 - 2^-step is 1, in f32 and in f64. The learning rate is a power of two;
# - what is left to round is the difference from p, once.
#
# REQUIRES: torch, compiler
# RUN: %python %s

import copy

import mpcomm
import torch

PART, STEPS = 60, 8


def made():
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 24)
    return model, torch.optim.AdamW(model.parameters(), lr=2 ** -6, betas=(0.5, 0.5), eps=0.0,
                                    weight_decay=0.0)


def loss(y, t):
    return (y * t).sum()


def train(model, optimizer, batches):
    for x, t in batches:
        optimizer.zero_grad()
        loss(model(x), t).backward()
        optimizer.step()


def batches_of(random):
    def signs(*shape):
        return 1.0 - 2 * torch.randint(2, shape, generator=random)
    return [(signs(1, 1), signs(1, 24)) for _ in range(STEPS)]


def bits(model, optimizer):
    state = optimizer.state_dict()["state"]
    return [t.detach().clone() for t in model.parameters()] + \
        [s[k].clone() for s in state.values() for k in ("exp_avg", "exp_avg_sq", "step")]


random = torch.Generator().manual_seed(0)
first = [(torch.ones(1, 1), torch.ones(1, 24))] * PART
middle, last = batches_of(random), batches_of(random)

# PyTorch alone.
model, optimizer = made()
train(model, optimizer, first)
assert all((m == 1).all() for m in bits(model, optimizer)[2:] if m.dim())
train(model, optimizer, middle)
wanted_half = bits(model, optimizer)
train(model, optimizer, last)
wanted = bits(model, optimizer)

# PyTorch, a session, PyTorch.
model, optimizer = made()
train(model, optimizer, first)
before = bits(model, optimizer)
program = mpcomm.compile(model, loss, optimizer, middle[0])
with mpcomm.Session(program) as session:
    for batch in middle:
        session.step(batch)
    model.load_state_dict(session.state_dict())
    optimizer.load_state_dict(copy.deepcopy(session.optimizer_state_dict()))
found_half = bits(model, optimizer)
train(model, optimizer, last)
found = bits(model, optimizer)

names = ["weight", "bias"] + [f"{p}.{k}" for p in ("weight", "bias")
                              for k in ("exp_avg", "exp_avg_sq", "step")]
for what, a, b in (("in the middle", wanted_half, found_half), ("at the end", wanted, found)):
    apart = {n: int((x != y).sum()) for n, x, y in zip(names, a, b)}
    print(what, apart)
    assert not any(apart.values()), f"{what}, elements that differ: {apart}"
# History matters: each element has moved, and by other distances.
assert all((a != b).any() for n, a, b in zip(names, before, found) if "sq" not in n)
assert len(set((found[0] - before[0]).flatten().tolist())) > 4
