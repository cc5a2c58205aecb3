# Pipelines from Python: half of the model is on each rank. Losses are PyTorch's; all ranks
# get the whole state, under the model's names, and it goes on in PyTorch, in another mesh
# and from a checkpoint as if nothing had happened.
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
from training import adamw, compare, data, loss_of, reference, train

STEPS, PART, SAMPLES = 24, 12, 8


def seeded(seed=0):
    torch.manual_seed(seed)
    layers = []
    for size in (16, 32, 32, 32):
        layers += [torch.nn.Linear(size, 32), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(32, 4))


def compiled(mesh, batch, seed=0, **options):
    """A program, with its model and optimizer."""
    model = seeded(seed)
    optimizer = adamw(model.parameters())
    return mpcomm.compile(model, F.cross_entropy, optimizer, batch, mesh=mesh,
                          **options), model, optimizer


def part_of(session, batch):
    count = SAMPLES // session.data_ranks
    return [t[count * session.data_rank:][:count] for t in batch]


def trained(mesh, batches, folder, **options):
    """What a rank sees."""
    rank, ranks = int(os.environ["RANK"]), 2 if "dp" in mesh else 1
    example = [t[:SAMPLES // ranks] for t in batches[0]]
    program, model, optimizer = compiled(mesh, example, **options)
    found = {}
    with mpcomm.Session(program) as session:
        assert session.data_ranks == ranks and session.rank == rank
        found["place"] = session.data_rank, sorted(
            n for n, t in session.tensors.items() if t.role == "parameter" and t.is_local)
        found["losses"] = [session.step(part_of(session, b)) for b in batches[:PART]]
        session.save(folder + "/half/", blocking=False)
        found["half"] = session.state_dict(), session.optimizer_state_dict()
        model.load_state_dict(found["half"][0])
        optimizer.load_state_dict(found["half"][1])
        found["losses"] += [session.step(part_of(session, b)) for b in batches[PART:]]
        found["mean"] = session.evaluate([part_of(session, b) for b in batches[:3]])["loss"]
        found["end"] = session.state_dict()
    with mpcomm.Session(program) as session:  # from the checkpoint
        assert session.resume(folder + "/half/") == PART
        found["resumed"] = [session.step(part_of(session, b)) for b in batches[PART:]]
    with mpcomm.Session(program) as session:  # from model and optimizer
        assert session.steps == PART
        found["again"] = [session.step(part_of(session, b)) for b in batches[PART:]]
    return found


def unequal(batch):
    """Ranks that start from weights of their own go on with those of rank 0, also the stages
    that rank 0 does not have."""
    program, _, _ = compiled("pp:2", batch, seed=int(os.environ["RANK"]), micro_batches=2)
    with mpcomm.Session(program) as session:
        return session.state_dict()


class OwnLoss(torch.nn.Module):
    """Computes its loss itself: the batch is its only input, and a stage may take none of it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = seeded()

    def forward(self, x, y):
        output = self.layers(x)
        return {"loss": F.cross_entropy(output, y), "logits": output}


def evaluated(batch):
    """The loss of a batch whose micro-batches only some ranks can count, and of one that
    fills none of the last."""
    model = OwnLoss()
    batch = {"x": batch[0], "y": batch[1]}
    program = mpcomm.compile(model, None, adamw(model.parameters()), batch, mesh="pp:2",
                             micro_batches=2)
    with mpcomm.Session(program) as session:
        losses = session.evaluate(batch)["loss"], session.evaluate([batch, batch])["loss"]
        return losses, session.evaluate({k: v[:-1] for k, v in batch.items()})["loss"]


def same(a, b):
    assert a.keys() == b.keys()
    for key in a:
        assert torch.equal(a[key], b[key]), key


def main(folder):
    batches = data(STEPS)
    exact, bound = reference(seeded(), loss_of, adamw, batches, terms=SAMPLES)
    for mesh, np, options in [("pp:2", 2, {"micro_batches": 4}),
                              ("pp:2,dp:2", 4, {"micro_batches": 2})]:
        what = f"{mesh} {options}"
        results = mpcomm.launch(trained, np=np, args=(mesh, batches, folder), kwargs=options)
        first = results[0]
        compare(what, first["losses"], exact, bound)
        for found in results:
            assert found["losses"] == first["losses"] and found["mean"] == first["mean"]
            assert found["resumed"] == found["again"] == first["losses"][PART:], what
            same(found["end"], first["end"])
        # The stages divide the parameters; ranks of a stage have the same, and other samples.
        stages = {tuple(r["place"][1]) for r in results}
        assert len(stages) == 2 and len(set().union(*stages)) == sum(map(len, stages)) == 10
        assert {r["place"][0] for r in results} == set(range(np // 2))

        # PyTorch goes on, and a program for one rank.
        model = seeded(1)
        model.load_state_dict(first["half"][0])
        rule = adamw(model.parameters())
        rule.load_state_dict(first["half"][1])
        program, other, optimizer = compiled("dp:1", batches[0], seed=1)
        other.load_state_dict(first["half"][0])
        optimizer.load_state_dict(first["half"][1])
        with mpcomm.Session(program) as session:
            assert session.steps == PART
            ours = [session.step(b) for b in batches[PART:]]
        theirs = train(model, loss_of, lambda _: rule, batches[PART:])
        for name, losses in (("PyTorch", theirs), ("one rank", ours)):
            compare(f"{what}, then {name}", first["losses"][:PART] + losses, exact, bound)

    for state in mpcomm.launch(unequal, np=2, args=(batches[0],)):
        same(state, seeded(0).state_dict())
    with torch.no_grad():
        loss = OwnLoss()(*batches[0])["loss"].item()
        part = OwnLoss()(*(t[:-1] for t in batches[0]))["loss"].item()
    for losses, less in mpcomm.launch(evaluated, np=2, args=(batches[0],)):
        for found in losses:  # a mean of as many terms, and rounded once more
            assert abs(found - loss) <= (SAMPLES + 32) * 2.0**-24 * loss, (found, loss)
        assert abs(less - part) <= (SAMPLES + 34) * 2.0**-24 * loss, (less, part)


if __name__ == "__main__":
    main(sys.argv[1])
