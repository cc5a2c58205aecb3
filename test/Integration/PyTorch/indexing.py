# Operators that read and write at indices, forward and backward, against PyTorch in
# f64.
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

N, B = 12, 4


class Body(nn.Module):
    """A function of a parameter w, which depends on the batch x, and an index."""

    def __init__(self, body, *shape):
        super().__init__()
        self.body = body
        self.w = nn.Parameter(torch.randn(*shape))
        self.v = nn.Parameter(torch.randn(*shape))

    def forward(self, index):
        return self.body(self.w * 1.5, self.v.tanh(), index)


def loss(output, y):
    return ((output - 0.25) ** 2).mean() * y.sum()


def check(name, body, shape, index, high=None):
    """`index`: a tensor of N samples, or the shape of one's indices below `high`."""
    if not isinstance(index, torch.Tensor):
        index = torch.randint(0, high, (N,) + index)
    model = Body(body, *shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = {"i": index, "y": torch.randn(N, 1)}
    try:
        return checks.check(mi.Workload(model, loss, optimizer, B, dataset, name="model"), steps=2)
    except Exception as error:
        if os.environ.get("RAISE"): raise
        failures.append("%s: %s: %s" % (name, type(error).__name__, error))


def expect(program, **counts):
    """How many ops of each kind the training step has."""
    if program is not None:
        names = [op.name for op in program.functions[0].ops]
        assert {n: names.count("mpcomm." + n) for n in counts} == counts, program.text


failures = []
torch.manual_seed(0)
long = torch.int64

# --- gather: per element, whole slices, with fewer elements than the operand ---
check("gather last", lambda w, v, i: w.gather(1, i), (B, 9), (5,), 9)
check("gather first", lambda w, v, i: w.gather(0, i), (9, 5), (5,), 9)
check("gather middle", lambda w, v, i: w.gather(1, i), (B, 6, 3), (2, 3), 6)
check("gather less", lambda w, v, i: w.gather(2, i[:, :2]), (6, 5, 7), (3, 4), 7)
p = check("gather slices", lambda w, v, i: w.gather(1, i[:, :, None].expand(-1, -1, 5)), (B, 7, 5), (3,), 7)
expect(p, gather=1, gather_grad=1, iota=0)
check("gather shared", lambda w, v, i: w.gather(1, i[:1, :, None].expand(B, -1, 5)), (B, 7, 5), (3,), 7)
check("take_along_dim", lambda w, v, i: torch.take_along_dim(w, i, 1), (B, 9), (5,), 9)
check("loss by gather", lambda w, v, i: w.log_softmax(1).gather(1, i), (B, 9), (1,), 9)

# --- scatter and its reductions ---
for kind in ("sum", "prod", "amax", "amin", "mean"):
    for include in (True, False):
        def body(w, v, i):
            if kind == "prod":  # whose gradient looks at values
                return w + w.detach().scatter_reduce(1, i, v[:, :6].detach(), kind, include_self=include)
            return w.scatter_reduce(1, i, v[:, :6], kind, include_self=include)
        check("scatter_reduce %s %s" % (kind, include), body, (B, 8), (6,), 8)
for kind in ("add", "multiply"):  # without gradients
    check("scatter " + kind, lambda w, v, i: w * w.detach().scatter(1, i, v[:, :6].detach(), reduce=kind), (B, 8), (6,), 8)
    check("scatter value " + kind, lambda w, v, i: w * w.detach().scatter(1, i, 1.5, reduce=kind), (B, 8), (6,), 8)
check("scatter_add", lambda w, v, i: w.scatter_add(1, i, v[:, :6]), (B, 8), (6,), 8)
check("scatter_add first", lambda w, v, i: w.scatter_add(0, i, v), (B, 8), (8,), 4)
check("scatter_add slices", lambda w, v, i: w.scatter_add(1, i[:, :, None].expand(-1, -1, 3), v[:, 2:]), (B, 8, 3), (6,), 8)
permutations = torch.stack([torch.randperm(8) for _ in range(N)])
check("scatter", lambda w, v, i: w.scatter(1, i[:, :5], v[:, 1:6]), (B, 8), permutations)
check("scatter value", lambda w, v, i: w.scatter(1, i[:, :5], 3.0), (B, 8), permutations)
check("scatter part", lambda w, v, i: w.scatter(1, i[:2, :5], v[2:, :5]), (B, 8), permutations)
check("scatter mask", lambda w, v, i: w * torch.zeros_like(w).scatter(1, i[:, :3], 1.0), (B, 8), permutations)
check("scatter of integers", lambda w, v, i: w * torch.zeros(B, 8, dtype=long).scatter_add(1, i, i), (B, 8), (5,), 8)

# --- slices by a list of indices ---
check("index_select", lambda w, v, i: w.index_select(1, i[:, 0]) + v.index_select(1, i[:, 0]).sum(), (3, 9), (2,), 9)
check("index_select of a transpose", lambda w, v, i: w.t().index_select(0, i[:, 0]), (3, 9), (2,), 9)
check("index_add", lambda w, v, i: w.index_add(0, i[:, 0], v[:4], alpha=2), (9, 3), (2,), 9)
for kind in ("prod", "amax", "amin", "mean"):
    for include in (True, False):
        def body(w, v, i):
            if kind == "prod":
                return w * w.detach().index_reduce(0, i[:, 0], v[:4].detach(), kind, include_self=include)
            return w.index_reduce(0, i[:, 0], v[:4], kind, include_self=include)
        check("index_reduce %s %s" % (kind, include), body, (9, 3), (2,), 9)
check("index_copy", lambda w, v, i: w.index_copy(1, i[0, :4], v[:, :4]), (B, 8), permutations)
check("index_fill", lambda w, v, i: w.index_fill(0, i[:, 0], 2.5), (9, 4), (2,), 9)
check("take", lambda w, v, i: w.take(i - 4), (B, 9), (3,), 9)
check("put", lambda w, v, i: w.put(i, v[:, :3], accumulate=True), (B, 9), (3,), 9)

# --- advanced indexing ---
check("x[i]", lambda w, v, i: w[i], (9, 4), (3,), 9)
check("x[-i]", lambda w, v, i: w[i - 9], (9, 4), (3,), 9)
check("x[i, j]", lambda w, v, i: w[i[:, 0], i[:, 1], None] * v[i[:, 2, None], i], (9, 9), (3,), 9)
check("x[:, i, j]", lambda w, v, i: w[:, i, i[:, :1]], (B, 9, 9), (3,), 9)
check("x[i, :, j]", lambda w, v, i: w[i, :, i[:, :1]], (9, 4, 9), (3,), 9)
check("x[arange, i]", lambda w, v, i: w[torch.arange(B), i[:, 0]], (B, 9), (3,), 9)
check("x[arange, i, :]", lambda w, v, i: w[torch.arange(B)[:, None], i], (B, 9, 2), (3,), 9)
p = check("x[constant]", lambda w, v, i: w[:, [0, 2, 4]] + i[:, :1], (B, 9), (3,), 9)
expect(p, gather=0, scatter=0, gather_grad=0)
check("x[constants]", lambda w, v, i: w[[3, 1, 2, 0], [0, 2, 4, 4]][:, None] + i, (B, 9), (3,), 9)
check("x[mask]", lambda w, v, i: w[torch.tensor([True, False, True, True])].sum(0) + i, (B, 3), (3,), 9)
check("x[mask, :]", lambda w, v, i: w[torch.eye(B, dtype=torch.bool)] + i, (B, B, 3), (3,), 9)
check("masked_select", lambda w, v, i: w.masked_select(torch.arange(12).reshape(4, 3) % 3 != 1)[:4, None] + i, (B, 3), (3,), 9)
check("masked_scatter", lambda w, v, i: w.masked_scatter(torch.arange(12).reshape(4, 3) % 3 != 1, v) + i, (B, 3), (3,), 9)


def write(*where):
    """x[where] = v; views that are written have no gradient in the graph."""
    def body(w, v, i):
        x = w.detach().clone()
        place = tuple(f(i) if callable(f) else f for f in where)
        x[place] = v.detach().reshape(-1)[:x[place].numel()].reshape(x[place].shape)
        return x * w
    return body


check("x[i] = v", lambda w, v, i: w.index_put((i[0, :4],), v[:4]), (8, 4), permutations)
check("x[i] = v in place", write(lambda i: i[0, :4]), (8, 4), permutations)
check("x[:, i] = v", write(slice(None), lambda i: i[0, :4]), (B, 8), permutations)
check("x[i, :, j] = v", write(lambda i: i[0, :4], slice(None), lambda i: i[1, :4]), (8, 4, 8), permutations)
check("x[constant] = v", write([1, 3]), (B, 3), (3,), 9)
check("index_put add", lambda w, v, i: w.index_put((i[:, 0], i[:, 1]), v[:4, 0], accumulate=True), (9, 9), (3,), 9)


def masked(w, v, i):
    x = w.clone()
    x[i > 4] = 0.5
    return x.masked_fill(i == 2, 1.0)


check("x[i > 4] = c", masked, (B, 3), (3,), 9)
check("one_hot", lambda w, v, i: F.one_hot(i, 9).to(w.dtype) * w, (9,), (3,), 9)
p = check("repeat_interleave", lambda w, v, i: w.repeat_interleave(3, 1) + i, (B, 3), (9,), 9)
expect(p, gather=0, scatter=0, gather_grad=0)
check("repeat_interleave by counts", lambda w, v, i: w.repeat_interleave(torch.tensor([1, 0, 3]), 1) + i, (B, 3), (4,), 9)


# --- bags of rows ---
def bags(offsets=None, **options):
    def body(w, v, i):
        if "per_sample_weights" in options:
            return F.embedding_bag(i, w, **{**options, "per_sample_weights": v[:B, :5]})
        if offsets is None:
            return F.embedding_bag(i, w, **options)
        starts = offsets if isinstance(offsets, torch.Tensor) else offsets(i)
        return F.embedding_bag(i.reshape(-1), w, starts, **options)
    return body


starts = torch.tensor([0, 3, 3, 9])
for mode in ("sum", "mean", "max"):
    check("bags, " + mode, bags(mode=mode), (9, 6), (5,), 9)
for mode in ("sum", "mean"):
    check("bags with padding, " + mode, bags(mode=mode, padding_idx=2), (9, 6), (5,), 4)
    check("bags of lengths, " + mode, bags(starts, mode=mode), (9, 6), (5,), 9)
    check("bags from the data, " + mode, bags(lambda i: i[:, 0] * 0 + starts, mode=mode), (9, 6), (5,), 9)
check("bags, last offset", bags(torch.tensor([0, 3, 3, 9, 20]), mode="sum", include_last_offset=True), (9, 6), (5,), 9)
check("frozen bags", lambda w, v, i: F.embedding_bag(i, w.detach()) * v[:B], (9, 6), (5,), 9)
check("weighted bags", bags(mode="sum", per_sample_weights=True), (9, 6), (5,), 9)


# --- tables of different sizes by columns of one tensor ---
class Columns(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 3) for n in (9, 4))

    def forward(self, ids):
        return sum(table(ids[:, i]) for i, table in enumerate(self.tables))


def columns(last):
    net = Columns()
    ids = torch.tensor([[8, 3], [0, 1], [5, 0], [2, last]]).repeat(3, 1)
    return mi.Workload(net, F.mse_loss, torch.optim.SGD(net.parameters(), lr=0.1), B,
                       {"ids": ids, "y": torch.randn(N, 3)})


program = checks.check(columns(2))
assert next(a for a in program.functions[0].arguments if a.name == "ids").attributes["range"] == (0, 9)
try:
    mi.trace(columns(4))
    failures.append("an index beyond the table of its column is taken")
except mi.ImportFailure as error:
    assert "'ids': expected values in [0, 4) in elements [:, 1:2], found 4" in str(error), error

print("\n".join(failures))
sys.exit(bool(failures))
