# State goes from PyTorch into a session and back, parameters and the optimizer's, in the
# middle of training: nothing is lost, and training goes on as if it had stayed.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t

import copy
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import mpcomm
import torch
import torch.nn.functional as F
from training import adamw, compare, data, loss_of, reference, seeded, train

STEPS, PART = 30, 10
folder = sys.argv[1]
batches = data(STEPS)


def equal(a, b, where=""):
    """Equal structures, of tensors that are equal bit for bit."""
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), (where, sorted(map(str, a)), sorted(map(str, b)))
        for key in a:
            equal(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            equal(x, y, f"{where}.{i}")
    else:
        assert a == b, (where, a, b)


def ours(model, optimizer, batches):
    """Trains by a session, and brings the state back into model and optimizer."""
    program = mpcomm.compile(model, F.cross_entropy, optimizer, batches[0])
    with mpcomm.Session(program) as session:
        losses = [session.step(b) for b in batches]
        model.load_state_dict(session.state_dict())  # strictly
        optimizer.load_state_dict(session.optimizer_state_dict())
    return losses


# --- there and back without a step: every bit is kept, and every type ---

RULES = {
    "adamw": adamw,
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-2),
}
for name, rule in RULES.items():
    model = seeded()
    optimizer = rule(model.parameters())
    program = mpcomm.compile(model, F.cross_entropy, optimizer, batches[0])
    with mpcomm.Session(program) as session:
        equal(session.state_dict(), model.state_dict(), name)
        # Most have none before the first step.
        equal(session.optimizer_state_dict(), optimizer.state_dict(), name)
    for batch in batches[:3]:
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    # Started from the optimizer as it is now, or told later.
    with mpcomm.Session(program) as session:
        equal(session.state_dict(), model.state_dict(), name)
        equal(session.optimizer_state_dict(), saved, name)
        assert session.steps == (3 if any("step" in s for s in saved["state"].values()) else 0)
    fresh = seeded(1)
    program = mpcomm.compile(fresh, F.cross_entropy, rule(fresh.parameters()), batches[0])
    with mpcomm.Session(program) as session:
        session.load_state_dict(model.state_dict())
        session.load_optimizer_state_dict(saved)
        equal(session.state_dict(), model.state_dict(), name)
        equal(session.optimizer_state_dict(), saved, name)
        # PyTorch takes it, as its own.
        again = rule(model.parameters())
        again.load_state_dict(session.optimizer_state_dict())
        equal(again.state_dict(), saved, name)
    print(name, "keeps its state")

# --- ten steps by PyTorch, ten by us, ten by PyTorch ---

for name in ("adamw", "momentum", "amsgrad"):
    rule = RULES[name]
    exact, bound = reference(seeded(), loss_of, rule, batches, terms=8)
    model = seeded()
    optimizer = rule(model.parameters())
    keep = lambda _, optimizer=optimizer: optimizer  # noqa: E731
    losses = train(model, loss_of, keep, batches[:PART])
    losses += ours(model, optimizer, batches[PART:2 * PART])
    losses += train(model, loss_of, keep, batches[2 * PART:])
    compare(f"{name}: PyTorch, mpcomm, PyTorch", losses, exact, bound)

# --- by us with a stay in PyTorch's tensors: the same bits as without one ---

model = seeded()
optimizer = adamw(model.parameters())
first = ours(model, optimizer, batches)
end = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
model = seeded()
optimizer = adamw(model.parameters())
second = ours(model, optimizer, batches[:PART]) + ours(model, optimizer, batches[PART:])
assert first == second
equal(end, (model.state_dict(), optimizer.state_dict()))

# --- a checkpoint in the background, resumed ---

model = seeded()
program = mpcomm.compile(model, F.cross_entropy, adamw(model.parameters()), batches[0])
with mpcomm.Session(program) as session:
    losses = [session.step(b) for b in batches[:PART]]
    session.save(folder + "/ckpt/", blocking=False, metadata={"epoch": "3"})
    losses += [session.step(b) for b in batches[PART:]]
    session.wait()
assert losses == first
with mpcomm.Session(program) as session:
    assert session.resume(folder + "/ckpt/") == PART and session.steps == PART
    assert session.metadata("epoch") == "3" and session.metadata("loss") is None
    assert [session.step(b) for b in batches[PART:]] == first[PART:]

# --- checkpoints of an earlier run, which have the names of some that would be kept ---

with mpcomm.Session(program) as session:
    for step, batch in enumerate(batches[:9], 1):
        session.step(batch)
        if step % 3 == 0:
            session.save(folder + "/ckpt/", keep=3)
names = ["checkpoint.safetensors" + end for end in ("", ".step-3", ".step-6")]
files = [f"{folder}/ckpt/{name}" for name in names]


def contents():
    assert {n for n in os.listdir(folder + "/ckpt") if "lock" not in n} == set(names)
    return [open(f, "rb").read() for f in files]


def refused(call, clash):
    before = contents()
    try:
        call()
    except mpcomm.Error as error:
        for words in (f"{clash}: is there already", "not of this run", "move it away"):
            assert words in str(error), error
    else:
        raise AssertionError("expected an error")
    assert contents() == before  # the newest of the earlier run, too


with mpcomm.Session(program) as session:
    refused(lambda: session.plan_saves(folder + "/ckpt/", keep=2), files[1])
    session.plan_saves(folder + "/ckpt/", keep=2, every=2, last=6)  # of these, none is kept
with mpcomm.Session(program) as session:
    for _ in range(3):
        session.step(batches[0])
    refused(lambda: session.save(folder + "/ckpt/", keep=2), files[1])
    session.step(batches[0])
    refused(lambda: session.save(folder + "/ckpt/", keep=2, blocking=False), files[2])
    session.save(folder + "/other", keep=2)
    session.resume(files[1])  # goes on with that run, on another way
    refused(lambda: session.save(folder + "/ckpt/", keep=2), files[2])
    os.remove(files.pop())
    names.pop()
    for step in (4, 5):
        session.step(batches[0])
        session.save(folder + "/ckpt/", keep=3)
    names += ["checkpoint.safetensors.step-4"]
    contents()
    session.resume(folder + "/ckpt/")
    session.save(folder + "/ckpt/", keep=3)

# --- tied weights, buffers that forward reads, and none of our own names ---


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("mask", torch.ones(6, 6).tril())

    def forward(self, ids):
        weights = self.mask / self.mask.sum(1, keepdim=True) * torch.arange(1.0, 7.0)
        return self.head(weights @ self.table(ids))


torch.manual_seed(0)
model = Tied()
optimizer = adamw(model.parameters())
ids = torch.randint(8, (2, 6))
program = mpcomm.compile(model, lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()),
                         optimizer, (ids, ids.roll(1)))
with mpcomm.Session(program) as session:
    session.step((ids, ids.roll(1)))
    found = session.state_dict()
    assert list(found) == list(model.state_dict())
    assert found["head.weight"] is found["table.weight"]
    model.load_state_dict(found)

# --- a program file, without the model it comes from ---

program.save(folder + "/step.so")
with mpcomm.Session(folder + "/step.so") as session:
    names = session.tensors
    assert names["table.weight"].role == "parameter" and names["table.weight"].dtype == "f32"
    weights = {n: t for n, t in found.items() if n in names}
    weights.update({n: torch.zeros(i.shape) for n, i in names.items() if i.role == "buffer"})
    session.load_state_dict(weights)
    assert torch.equal(session.state_dict()["table.weight"], found["table.weight"])
bound_again = mpcomm.Program(folder + "/step.so").bind(model, optimizer)
assert list(bound_again.model_names.aliases) == list(model.state_dict())
