# REQUIRES: torch, compiler
# RUN: rm -rf %t.dir
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %t.dir 24
# (With 0 in place of 24: all cases, and 100 pairs of meshes. Names of models following it: these in
# place of the perceptron; `llama` needs PyTorch 2, `resnet18` torchvision.)
#
# With zero=1 to 3 ranks hold parts of the optimizer's state, of sums of gradients and of parameters, and train as if
# each held all of it: in any precision, with micro-batches, stages, clipping, optimizers that are traced, parameters
# that are used twice and parameters that are frozen. A checkpoint of parts goes on on another mesh, with parts or
# without, and the other way round.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a perceptron with odd sizes, or other models, with state whole and in parts."""

import itertools
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import read_losses, read_typed, run, write_tensors

IMPORT, COMPILE, RUN, FOLDER = sys.argv[1:5]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
STEPS, BATCH = 6, 4
# Times that weights are moved, and how much further than that a case may be: it is rounded elsewhere in each step.
MOVES, FACTOR = 6, 4
# A bound beyond it would take any two trainings for equal.
WIDEST = 0.75

MODEL = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi

class Rows(torch.optim.Optimizer):
    # Divides by what a row of a gradient has been; of a bias, by what an element has been.

    def __init__(self, params, lr=0.05):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["sum"] = torch.zeros(p.shape[:1])
                    state["last"] = torch.zeros_like(p)
                squares = p.grad * p.grad
                while squares.dim() > 1:
                    squares = squares.mean(-1)
                state["sum"].add_(squares)
                root = (state["sum"] + 1e-3).sqrt().reshape(-1, *(1,) * (p.dim() - 1))
                state["last"].mul_(0.5).add_(p.grad / root)
                p.sub_(group["lr"] * state["last"])

def workload(optimizer="sgd"):
    torch.manual_seed(1)
    twice, frozen = nn.Linear(11, 11), nn.Linear(11, 11)
    frozen.requires_grad_(False)
    model = nn.Sequential(nn.Linear(7, 24), nn.Tanh(), nn.Linear(24, 33), nn.Tanh(), nn.Linear(33, 11), nn.Tanh(), twice, nn.Tanh(), twice,
                          nn.Tanh(), frozen, nn.Tanh(), nn.Linear(11, 5))
    x, y = torch.randn(512, 7) * 4, torch.randint(0, 5, (512,))
    make = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
            "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
            "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.001, eps=1e-3, momentum=0.5),
            "rows": Rows}[optimizer]
    trained = [p for p in model.parameters() if p.requires_grad]
    return mi.Workload(model=model, loss=F.cross_entropy, optimizer=make(trained),
                       batch=%d, dataset={"x": x, "y": y})
""" % BATCH

LLAMA = """
import sys
sys.path.insert(0, %r)
import torch, torch.nn.functional as F
import mpcomm_import as mi
from llama import Llama

def workload():
    torch.manual_seed(1)
    model = Llama(layers=2, d=32, heads=4, groups=2, inner=48, context=16, vocabulary=65)
    text = torch.randint(0, 65, (512, 17))
    return mi.Workload(model=model, loss=lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()),
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1), batch=%d,
                       dataset={"x": text[:, :-1], "y": text[:, 1:]})
""" % (os.path.join(ROOT, "test", "bench", "Inputs"), BATCH)

# Models that are imported with an optimizer by its name: a file, options, and what they train with. Normalised
# over a few images, a ResNet multiplies roundings from step to step: the less so the slower it learns, and where
# gradients that are next to nothing are not steps of full length.
MODELS = {
    "gpt": (os.path.join(ROOT, "docs", "examples", "gpt.py"), ("layers=2", "d=32", "heads=2", "ctx=16", "batch=%d" % BATCH), ()),
    "llama": (os.path.join(FOLDER, "llama-model.py"), (), ()),
    "resnet18": (os.path.join(ROOT, "docs", "examples", "resnet.py"),
                 ("model=resnet18", "image=32", "batch=%d" % BATCH), ("--lr=0.0002", "--eps=0.01")),
}
BY_NAME = {
    "sgd": ("--optimizer=sgd", "--lr=0.05", "--momentum=0.9", "--weight-decay=0.01"),
    "adamw": ("--optimizer=adamw", "--lr=0.001"),
    "rmsprop": ("--optimizer=rmsprop", "--lr=0.0005", "--eps=1e-3", "--momentum=0.5"),
}

MESHES = {"dp:1": 1, "dp:2": 2, "dp:3": 3, "dp:4": 4, "pp:2,dp:2": 4}
PRECISIONS = {"f32": "", "bf16": "precision=bf16", "f16": "precision=f16", "fp8": "precision=fp8"}
OPTIMIZERS = "sgd", "adamw", "rmsprop", "rows"


def data_ranks(mesh):
    return int(mesh.split(":")[-1])


def path(name):
    return os.path.join(FOLDER, name)


def build(name, mesh, optimizer, *options):
    run(COMPILE, path(optimizer + ".mlir"), "-o", path(name), "--options",
        " ".join(["mesh=" + mesh, *options]))  # fmt: skip


def train(name, mesh, optimizer, steps, *options, start=True, weights=None):
    """The losses of a run, and where it ends."""
    start = ["--weights", weights or path(optimizer + ".w")] if start else []
    run(RUN, path(name), "--np", MESHES[mesh], "--data", path(optimizer + ".d"), "--no-shuffle",
        "--steps", steps, "--log", path("log"), "--quiet", *start, *options)  # fmt: skip
    return read_losses(path("log"))


def distance(wanted, found):
    if len(wanted) != len(found):
        sys.exit("%d losses, expected %d" % (len(found), len(wanted)))
    return max(abs(a - b) / max(abs(a), 1e-9) for a, b in zip(wanted, found))


def moved(optimizer, seed):
    """The first weights with each moved by a unit in the last place, up or down."""
    import numpy as np

    file = path("moved.w")
    tensors, metadata = read_typed(path(optimizer + ".w"))
    source = np.random.default_rng(seed)
    for name, (dtype, shape, values) in tensors.items():
        if dtype == "F32":
            far = source.choice(np.float32([-np.inf, np.inf]), len(values))
            tensors[name] = dtype, shape, np.nextafter(np.float32(values), far).tolist()
    write_tensors(file, tensors, metadata)
    return file


def sensitivity(build_one, mesh, optimizer, wanted):
    """How far the losses of the program that `build_one` builds are from `wanted` when its first
    weights are moved by a unit in the last place: what a model does with roundings."""
    build_one()
    found = [train("one.so", mesh, optimizer, STEPS, weights=moved(optimizer, seed)) for seed in range(MOVES)]
    return max(distance(wanted, losses) for losses in found)


def compare(case, wanted, found, exact, roundings=None):
    """`roundings` gives the sensitivity of the case, asked for where its bound does not hold."""
    worst = distance(wanted, found)
    # Where a norm is summed in another order, each step's factor is off by some roundings of f32,
    # 64 of the terms on the way and of what follows. That turns a rounding to fewer bits to the
    # other side here and there: in each step the loss moves by less than if all values did so.
    unit = 64 * 2.0**-24 if "f32" in case else 2.0**-4 if "fp8" in case else 2.0**-8
    bound = 0 if exact else STEPS * unit
    if not worst <= bound and not exact and roundings:
        bound = FACTOR * roundings()
        if bound > WIDEST:
            sys.exit("%s: off by %.3g; moved by one unit in the last place the model is off by %.3g, "
                     "so that its losses say nothing" % (case, worst, bound / FACTOR))  # fmt: skip
        case += " (by its sensitivity, %.2g)" % bound
        print(case, end=" ")
    if not worst <= bound:
        sys.exit("%s: off by %.3g, bound %.3g\n%s\n%s" % (case, worst, bound, wanted, found))
    return worst


def equal(case, exact_where_equal=True, has_batch_norms=False):
    """Whether each level trains as none does; with `exact_where_equal` bit for bit where nothing is
    rounded at another place, with `has_batch_norms` as far as the model lets roundings be."""
    mesh, precision, micro, optimizer, clip, zeros = case
    common = [PRECISIONS[precision], "micro-batches=%d" % micro] + (["clip-norm=0.5"] if clip else [])
    for zero in 0, *zeros:
        build("step.so", mesh, optimizer, *common, "zero=%d" % zero)
        losses = train("step.so", mesh, optimizer, STEPS, "--save-weights", path("w%d" % zero))
        if zero == 0:
            wanted = losses
            continue
        # Where gradients are added up, they are rounded at other places of a kernel; so are weights that are
        # gathered before they are encoded in 8 bits.
        exact = exact_where_equal and not clip and micro == 1 and not (zero == 3 and precision == "fp8")
        name = "zero=%d %s" % (zero, case[:-1])
        roundings = has_batch_norms and (
            lambda wanted=wanted: sensitivity(lambda: build("one.so", mesh, optimizer, *common), mesh, optimizer, wanted))
        worst = compare(name, wanted, losses, exact=exact, roundings=roundings)
        if exact:
            one, other = (read_typed(path("w%d" % number))[0] for number in (0, zero))
            if one != other:
                names = [name for name in one if one[name] != other.get(name)]
                sys.exit("%s: other weights: %s" % (name, names))
        print("%s: off by %.2g" % (name, worst))


def beside_one_rank(zero, mesh, micro, optimizer, has_batch_norms=False):
    """One rank that takes the same samples in as many micro-batches."""
    def build_one():
        build("one.so", "dp:1", optimizer, "micro-batches=%d" % (data_ranks(mesh) * micro))

    build_one()
    wanted = train("one.so", "dp:1", optimizer, STEPS)
    build("step.so", mesh, optimizer, "micro-batches=%d" % micro, "zero=%d" % zero)
    found = train("step.so", mesh, optimizer, STEPS)
    name = "f32 zero=%d on %s beside one rank" % (zero, mesh)
    roundings = has_batch_norms and (lambda: sensitivity(build_one, "dp:1", optimizer, wanted))
    print("%s: off by %.2g" % (name, compare(name, wanted, found, exact=False, roundings=roundings)))


def resume(first, second):
    """Half of the steps on one mesh, the others on another; beside all on the second. All data
    ranks together take as many samples a step."""
    (mesh, zero), (other, other_zero) = first, second
    samples = 48
    for name, on, parts in ("a.so", mesh, zero), ("b.so", other, other_zero):
        build(name, on, "adamw", "zero=%d" % parts, "micro-batches=%d" % (samples // BATCH // data_ranks(on)))
    wanted = train("b.so", other, "adamw", STEPS)
    checkpoint = path("checkpoint")
    train("a.so", mesh, "adamw", STEPS // 2, "--checkpoint", checkpoint)
    found = train("b.so", other, "adamw", STEPS, "--resume", checkpoint, start=False)
    found = found[-(STEPS - STEPS // 2):]
    # Sums over ranks and micro-batches are in another order.
    compare("f32 %s zero=%d to %s zero=%d" % (*first, *second), wanted[STEPS // 2:], found, exact=False)
    print("resumed %s zero=%d on %s zero=%d" % (*first, *second))


def all_cases(optimizers, count):
    meshes = ["dp:2", "dp:4", "pp:2,dp:2"]
    cases = list(itertools.product(meshes, PRECISIONS, (1, 4), optimizers, (False, True)))
    # A pipeline of two ranks needs two micro-batches.
    cases = [case for case in cases if not (case[0].startswith("pp") and case[2] == 1)]
    return random.Random(7).sample(cases, count) if count else cases


def import_with(file, optimizer, *options):
    run(sys.executable, IMPORT, file, "-o", path(optimizer + ".mlir"), "--weights", path(optimizer + ".w"),
        "--data", path(optimizer + ".d"), *options)  # fmt: skip


def try_model(name, count):
    """One of MODELS, with each level."""
    file, options, more = MODELS[name]
    for optimizer, words in BY_NAME.items():
        own = [word for word in more if optimizer != "sgd" or not word.startswith("--eps")]
        import_with(file, optimizer, *words, *own, *[word for option in options for word in ("-O", option)])
    for case in all_cases(BY_NAME, count):
        print(name, end=" ")
        equal((*case, (1, 2, 3)), exact_where_equal=False, has_batch_norms=name == "resnet18")
    for zero, mesh, micro in (1, "dp:4", 1), (2, "dp:2", 2), (3, "pp:2,dp:2", 2):
        # A batch norm has the statistics of a rank's micro-batch.
        beside_one_rank(zero, mesh, micro, "adamw", has_batch_norms=name == "resnet18")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    count = int(sys.argv[5])
    with open(MODELS["llama"][0], "w") as file:
        file.write(LLAMA)
    for name in sys.argv[6:]:
        try_model(name, count)
    if sys.argv[6:]:
        return
    with open(path("model.py"), "w") as file:
        file.write(MODEL)
    for optimizer in OPTIMIZERS:
        import_with(path("model.py"), optimizer, "-O", "optimizer=" + optimizer)
    # The state of rows is split: its size over two ranks, and a multiple of them.
    opt = os.path.join(os.path.dirname(COMPILE), "mpcomm-opt")
    text = run(opt, path("rows.mlir"), "--mpcomm-data-parallel=size=2", "--mpcomm-assign-shardings=zero=1")
    if not re.search(r'mpcomm.name = "0.weight.sum"[^}]*mpcomm.sharding', text):
        sys.exit("the state of rows is whole:\n" + text[:4000])
    for i, case in enumerate(all_cases(OPTIMIZERS, count)):
        equal((*case, ((1, 2, 3) if count == 0 else (1 + i % 3,))))
    for zero, mesh, micro in (1, "dp:4", 1), (2, "dp:2", 2), (3, "dp:4", 1), (3, "dp:2", 2):
        beside_one_rank(zero, mesh, micro, "sgd")
    places = [(mesh, zero) for mesh in MESHES for zero in range(4) if mesh != "dp:1" or zero == 0]
    for first, second in random.Random(3).sample(list(itertools.permutations(places, 2)), 4 if count else 100):
        resume(first, second)


main()
