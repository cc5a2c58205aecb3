# Gradients sent as products of thin matrices: losses are those of PowerSGD as its paper has it
# (algorithms 1 and 2), computed here in f64, also where ranks have parts of the state, or stages,
# and gradients meet multiplied by a loss scale; what it loses is state that resumes bit for bit,
# and whose mean is the same on another number of ranks.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import copy
import json
import os
import struct
import sys

import mpcomm
import torch
from torch import nn

STEPS, SAMPLES = 12, 8
FOLDER = sys.argv[1]


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 32), nn.GELU(),
                         nn.Linear(32, 4))


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return (torch.randn(SAMPLES, 24, generator=generator),
            torch.randint(4, (SAMPLES,), generator=generator))


def batches(step, rank, micro_batches):
    parts = [batch(micro_batches * step + part, rank) for part in range(micro_batches)]
    return tuple(torch.cat(tensors) for tensors in zip(*parts))


def rule(net):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def each(function, cases):
    return [function(*case) for case in cases]


def launch_each(function, ranks, cases):
    """By case, what `function` returns on each rank; one start of the ranks for all of them."""
    return list(zip(*mpcomm.launch(each, np=ranks, args=(function, cases))))


# --- the paper ---

def orthonormal(columns):
    """Gram-Schmidt on the columns of a matrix."""
    done = []
    for column in columns.T:
        for other in done:
            column = column - (column @ other) * other
        done.append(column / column.norm())
    return torch.stack(done, 1)


def reference(rank, ranks, micro_batches, dtype=torch.float64):
    """Losses of the mean model of all ranks."""
    net = model().to(dtype)
    optimizer = rule(net)
    memory, columns = {}, {}
    losses = []
    for step in range(STEPS):
        gradients, loss = [], 0.0
        for worker in range(ranks):
            each = copy.deepcopy(net)
            total = 0.0
            for part in range(micro_batches):
                x, y = batch(micro_batches * step + part, worker)
                total = total + nn.functional.cross_entropy(each(x.to(dtype)), y) / micro_batches
            total.backward()
            loss += total.item() / ranks
            gradients.append([p.grad for p in each.parameters()])
        losses.append(loss)
        for index, parameter in enumerate(net.parameters()):
            whole = [g[index] for g in gradients]
            elements, shape = parameter.numel(), parameter.shape
            if parameter.ndim < 2 or 2 * rank * (shape[0] + elements // shape[0]) > elements:
                parameter.grad = sum(whole) / ranks
                continue
            left_over = memory.setdefault(index, [torch.zeros_like(g) for g in whole])
            deltas = [g + e for g, e in zip(whole, left_over)]
            if index not in columns:
                count = torch.arange(rank * shape[1], dtype=torch.float32)
                columns[index] = torch.cos(count * count * 0.61803399).to(dtype) \
                    .reshape(rank, shape[1]).T
            p = orthonormal(sum(d @ columns[index] for d in deltas) / ranks)
            q = sum(d.T @ p for d in deltas) / ranks
            columns[index] = q
            parameter.grad = p @ q.T
            memory[index] = [d - parameter.grad for d in deltas]
        optimizer.step()
    assert memory, "nothing was compressed"
    return losses


# --- ours ---

def compiled(mesh, rank, micro_batches=1, **options):
    torch.set_num_threads(1)
    net = model()
    return mpcomm.compile(net, nn.functional.cross_entropy, rule(net), batches(0, 0, micro_batches),
                          mesh=mesh, low_rank=rank, micro_batches=micro_batches, **options)


def trained(mesh, rank, micro_batches=1, save=None, resume=None, options={}):
    losses = []
    with mpcomm.Session(compiled(mesh, rank, micro_batches, **options)) as session:
        if resume:
            session.resume(os.path.join(FOLDER, resume))
        for step in range(session.steps, STEPS):
            losses.append(session.step(batches(step, session.data_rank, micro_batches)))
            if save and step + 1 == STEPS // 2:
                session.save(os.path.join(FOLDER, save))
    return losses


def passed_on(mesh, rank, source, target):
    """Resumes and saves."""
    with mpcomm.Session(compiled(mesh, rank)) as session:
        session.resume(os.path.join(FOLDER, source))
        session.save(os.path.join(FOLDER, target))


def residuals(path):
    """What a checkpoint has of them, rank by rank, from all of its files."""
    found = {}
    folder = os.path.dirname(path)
    for name in sorted(os.listdir(folder)):
        if not name.startswith(os.path.basename(path)):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        length, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        for key, entry in header.items():
            if ".residual" in key:
                begin, end = entry["data_offsets"]
                found.setdefault(key, []).append(torch.frombuffer(
                    bytearray(data[8 + length + begin:8 + length + end]), dtype=torch.float32))
    return found


def sums(path, ranks):
    """The mean over the ranks of what is left over, summed up, of each matrix."""
    whole = {}
    for key, parts in residuals(path).items():
        whole.setdefault(key.split(".residual")[0], []).extend(parts)
    return {key: torch.cat(parts).double().reshape(ranks, -1).mean(0)
            for key, parts in whole.items()}


def main():
    for ranks, rank, micro_batches, options in (
            (2, 1, 1, {}), (2, 2, 1, {}), (4, 2, 1, {}), (2, 1, 3, {}), (2, 2, 2, {"zero": 1}),
            (4, 2, 1, {"zero": 3}), (2, 1, 2, {"pp": True}), (2, 2, 2, {"pp": True, "zero": 1}),
            (2, 1, 1, {"loss_scale": "dynamic:1024"})):
        pipeline = options.pop("pp", False)
        losses = mpcomm.launch(trained, np=2 * ranks if pipeline else ranks, args=(
            f"pp:2,dp:{ranks}" if pipeline else f"dp:{ranks}", rank, micro_batches, None, None, options))
        expected = reference(rank, ranks, micro_batches)
        assert all(other == losses[0] for other in losses), "ranks have other losses"
        # The algorithm in f32 is off by S; ours, with its sums in another order, by no more than
        # four of it, and the rounding of what it returns. Without the memory it is 1e-2.
        rounded = reference(rank, ranks, micro_batches, torch.float32)
        off = max(abs(a - b) for a, b in zip(rounded, expected))
        worst = max(abs(a - b) for a, b in zip(losses[0], expected))
        bound = 4 * off + 2 ** -24 * max(expected)
        print(ranks, rank, micro_batches, pipeline, options, f"{worst:.1e} of {bound:.1e}", losses[0][-1])
        assert worst <= bound, (ranks, rank, pipeline, options, losses[0], expected)

    # Half of the way, and on.
    whole = mpcomm.launch(trained, np=2, args=("dp:2", 1, 1, "half"))
    rest = mpcomm.launch(trained, np=2, args=("dp:2", 1, 1, None, "half"))
    assert [l[STEPS // 2:] for l in whole] == rest, "a resumed run has other losses"

    # On other numbers of ranks the mean stays, up to its rounding.
    mpcomm.launch(passed_on, np=4, args=("dp:4", 1, "half", "four"))
    before, after = sums(os.path.join(FOLDER, "half"), 2), sums(os.path.join(FOLDER, "four"), 4)
    assert before.keys() == after.keys() and len(before) == 3, (before.keys(), after.keys())
    for key, mean in before.items():
        assert mean.abs().max() > 0
        assert torch.allclose(mean, after[key], rtol=2e-7, atol=1e-12), key

    for options, message in (({"zero": 2, "micro_batches": 2}, "expected zero=0 or 1"),
                             ({"average": "before"}, "expected average=after"),
                             ({"low_rank": 65}, "expected a rank from 0 to 64")):
        try:
            net = model()
            mpcomm.compile(net, nn.functional.cross_entropy, rule(net), batch(0, 0),
                           **{"mesh": "dp:2", "low_rank": 1, **options})
            raise AssertionError(options)
        except mpcomm.CompileError as error:
            assert message in str(error), error


if __name__ == "__main__":
    main()
