# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %t.dir
#
# Buckets of reduce_scatter, all_gather, all_to_all and all_reduce give each rank what their
# definitions say of every operand: of random shapes and dimensions, uneven in size, of two element
# types, on two and four ranks, as one op and as ops that mpcomm-combine-collectives merges. Values
# are whole numbers of at most four bits, so that no sum or mean of four is rounded, in bf16 neither,
# and found values have to be equal. Each rank has numbers of its own; what it gets is gathered.
# With the folder of the fake libraries, on the GPU that they emulate: ../CUDA/buckets.test.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers random rank programs, links them and runs a step."""

import itertools
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from emulation import Emulator
from programs import call, link, read_tensors, run, write_tensors

OPT, RUN, CC, FOLDER = sys.argv[1:5]
FAKES = sys.argv[5] if len(sys.argv) > 5 else None
SEEDS = {2: 1, 4: 1} if FAKES else {2: 3, 4: 3}


def size(shape):
    count = 1
    for n in shape:
        count *= n
    return count


def tensor(shape, of="f32"):
    return "tensor<%s>" % "x".join([*map(str, shape), of])


class Array:
    """Numbers by their place: {(i, j): v}, so that what is below says what it means."""

    def __init__(self, shape, at):
        self.shape, self.at = list(shape), at

    @staticmethod
    def of(shape, values):
        return Array(shape, dict(zip(itertools.product(*map(range, shape)), values)))

    def values(self):
        return [self.at[place] for place in itertools.product(*map(range, self.shape))]

    def block(self, dim, r, ranks):
        """Block r of `ranks` along a dimension."""
        shape = list(self.shape)
        shape[dim] //= ranks
        shift = r * shape[dim]
        return Array(shape, {place: self.at[place[:dim] + (place[dim] + shift,) + place[dim + 1 :]]
                             for place in itertools.product(*map(range, shape))})  # fmt: skip


def join(arrays, dim):
    shape = list(arrays[0].shape)
    shape[dim] *= len(arrays)
    at = {}
    for r, array in enumerate(arrays):
        shift = r * array.shape[dim]
        at.update({p[:dim] + (p[dim] + shift,) + p[dim + 1 :]: v for p, v in array.at.items()})
    return Array(shape, at)


def add(arrays, mean):
    of = len(arrays) if mean else 1
    return Array(arrays[0].shape, {p: sum(a.at[p] for a in arrays) / of for p in arrays[0].at})


def expected(kind, operand, dims, given):
    """What each rank gets of the operands that all have given."""
    ranks = range(len(given))
    if kind in ("sum", "mean"):
        return [add(given, kind == "mean")] * len(given)
    if kind in ("scatter-sum", "scatter-mean"):
        whole = add(given, kind == "scatter-mean")
        return [whole.block(dims[0], r, len(given)) for r in ranks]
    if kind == "gather":
        return [join(given, dims[0])] * len(given)
    return [join([g.block(dims[0], r, len(given)) for g in given], dims[1]) for r in ranks]


def choose(draw, ranks):
    """Buckets: (kind, wire, channel, [(shape, element type, dims)])."""
    buckets = []
    for kind in ["sum", "scatter-sum", "scatter-mean", "gather", "exchange"]:
        for wire in ["", " wire bf16 accumulate f32"] if "s" in kind and kind != "exchange" else [""]:
            operands = []
            for _ in range(draw.randint(1, 4)):
                shape = [draw.randint(1, 5) for _ in range(draw.randint(1, 3))]
                dims = [draw.randrange(len(shape)) for _ in range(2)]
                if kind not in ("sum", "gather"):
                    shape[dims[0]] *= ranks
                of = "f32" if wire else draw.choice(["f32", "f32", "bf16"])
                operands.append((shape, of, dims))
            buckets.append((kind, wire, draw.choice([0, 0, 1]), operands))
    return buckets


def result_shape(kind, shape, dims, ranks):
    shape = list(shape)
    if kind not in ("sum", "mean", "gather"):
        shape[dims[0]] //= ranks
    if kind in ("gather", "exchange"):
        shape[dims[0] if kind == "gather" else dims[1]] *= ranks
    return shape


def write(kind, wire, channel, operands, names, ranks):
    """The op, and the types of its results."""
    dims = [d for _, _, d in operands]
    given = [tensor(s, t) for s, t, _ in operands]
    made = [tensor(result_shape(kind, s, d, ranks), t) for s, t, d in operands]
    where = 'on @mesh axes ["dp"]'
    first, second = [d[0] for d in dims], [d[1] for d in dims]
    tail = " channel = %d" % channel if channel else ""
    types = "(%s) -> (%s)" % (", ".join(given), ", ".join(made))
    inputs = "(%s)" % ", ".join(names)
    if kind in ("sum", "mean"):
        return "mpcomm.all_reduce%s %s %s%s%s : %s" % (inputs, where, kind, wire, tail, ", ".join(given))
    if kind.startswith("scatter"):
        return "mpcomm.reduce_scatter%s %s %s%s dims = %s%s : %s" % (
            inputs, where, kind.split("-")[1], wire, first, tail, types)  # fmt: skip
    if kind == "gather":
        return "mpcomm.all_gather%s %s dims = %s%s : %s" % (inputs, where, first, tail, types)
    return "mpcomm.all_to_all%s %s split_dims = %s concat_dims = %s%s : %s" % (
        inputs, where, first, second, tail, types)  # fmt: skip


def program(buckets, ranks, isMerged):
    """Operands are parts of the rank's row %x; a parameter for the row, and for each result, holds
    what all ranks have. Without isMerged every operand has an op of its own."""
    count = sum(size(shape) for _, _, _, operands in buckets for shape, _, _ in operands)
    row = tensor([1, count])
    body, kept, begin = [], [("%x", [1, count])], 0
    for b, (kind, wire, channel, operands) in enumerate(buckets):
        names = []
        for i, (shape, of, _) in enumerate(operands):
            n, name = size(shape), "%%o%d_%d" % (b, i)
            body += [
                "%s_s = mpcomm.slice %%x, starts = [0, %d], limits = [1, %d], strides = [1, 1] : (%s) -> %s"
                % (name, begin, begin + n, row, tensor([1, n])),
                "%s_r = mpcomm.reshape %s_s : (%s) -> %s" % (name, name, tensor([1, n]), tensor(shape)),
            ]  # fmt: skip
            if of != "f32":
                body.append("%s_t = arith.truncf %s_r : %s to %s" % (name, name, tensor(shape), tensor(shape, of)))
            names.append(name + ("_r" if of == "f32" else "_t"))
            begin += n
        if isMerged:
            body.append("%%r%d:%d = %s" % (b, len(operands), write(kind, wire, channel, operands, names, ranks)))
        else:
            body += ["%%r%d_%d = %s" % (b, i, write(kind, wire, channel, [o], [names[i]], ranks))
                     for i, o in enumerate(operands)]  # fmt: skip
        for i, (shape, of, dims) in enumerate(operands):
            made = result_shape(kind, shape, dims, ranks)
            value = "%%r%d%s%d" % (b, "#" if isMerged else "_", i)
            flat = "%%f%d_%d" % (b, i)
            if of != "f32":
                body.append("%s_w = arith.extf %s : %s to %s" % (flat, value, tensor(made, of), tensor(made)))
                value = flat + "_w"
            body.append("%s = mpcomm.reshape %s : (%s) -> %s" % (flat, value, tensor(made), tensor([1, size(made)])))
            kept.append((flat, [1, size(made)]))
    arguments, results, returned = [], [], []
    for k, (value, shape) in enumerate(kept):
        whole = tensor([ranks, shape[1]])
        fact = '{mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p%d"' % k
        arguments.append("%%p%d: %s %s, mpcomm.donated = %d : i64}" % (k, whole, fact, k + 1))
        results.append("%s %s}" % (whole, fact))
        returned.append(("%%g%d" % k, whole))
        # On a channel of its own: what is tested is not merged with it.
        body += ['%%all%d = mpcomm.all_gather(%s) on @mesh axes ["dp"] dims = [0] channel = 2 : (%s) -> %s'
                 % (k, value, tensor(shape), whole),
                 "%%g%d = arith.addf %%all%d, %%p%d : %s" % (k, k, k, whole)]  # fmt: skip
    text = """mpcomm.mesh @mesh <["dp" = %d]>
func.func @train_step(%s,
    %%x: %s {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}, %s) {
  %s
  %%loss = mpcomm.reduce sum %%x, dims = [0, 1] : (%s) -> tensor<f32>
  return %%loss, %s : tensor<f32>, %s
}
""" % (ranks, ",\n    ".join(arguments), row, ", ".join(results), "\n  ".join(body), row,
       ", ".join(v for v, _ in returned), ", ".join(t for _, t in returned))  # fmt: skip
    return text, [shape for _, shape in kept]


def check(buckets, found, ranks, what):
    row = found["p0"]
    count = len(row) // ranks
    begin, k = 0, 1
    for kind, wire, channel, operands in buckets:
        for i, (shape, of, dims) in enumerate(operands):
            given = [Array.of(shape, row[r * count + begin : r * count + begin + size(shape)]) for r in range(ranks)]
            begin += size(shape)
            wanted = [v for array in expected(kind, i, dims, given) for v in array.values()]
            if found["p%d" % k] != wanted:
                sys.exit("%s: %s%s, operand %d of %s: %s, expected %s"
                         % (what, kind, wire, i, operands, found["p%d" % k], wanted))  # fmt: skip
            k += 1


def build(graph):
    """The program file of a rank program, and the options to run it with."""
    if not FAKES:
        file = os.path.join(FOLDER, "step.so")
        link(CC, call([OPT, "--mpcomm-lower", "--mpcomm-program"], graph), file)
        return file, []
    source = os.path.join(FOLDER, "step.mlir")
    with open(source, "wb") as out:
        out.write(graph)
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    os.environ.update(emulator.environment, MPFAKE_SEED="1", MPFAKE_MEMORY="256M")
    return emulator.compile(source, "step", graph=False), ["--device", "cuda"]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for ranks, seeds in SEEDS.items():
        for seed in range(seeds):
            draw = random.Random(100 * ranks + seed)
            buckets = choose(draw, ranks)
            for isMerged in (True, False):
                text, shapes = program(buckets, ranks, isMerged)
                merge = [] if isMerged else ["--mpcomm-combine-collectives=policy=one", "--mpcomm-make-async"]
                graph = call([OPT, *merge, "--mpcomm-verify-communication"], text.encode())
                file, device = build(graph)
                weights = write_tensors(os.path.join(FOLDER, "w.safetensors"), {
                    "p%d" % k: ([ranks, shape[1]], [0.0] * (ranks * shape[1]))
                    for k, shape in enumerate(shapes)})  # fmt: skip
                count = shapes[0][1]
                data = write_tensors(os.path.join(FOLDER, "d.safetensors"), {
                    "x": ([ranks, count], [float(draw.randint(-15, 15)) for _ in range(ranks * count)])})  # fmt: skip
                out = os.path.join(FOLDER, "out.safetensors")
                run(RUN, file, "--np", ranks, "--weights", weights, "--data", data, "--steps", 1,
                    "--save-weights", out, "--quiet", *device)  # fmt: skip
                what = "%d ranks, seed %d, %s" % (ranks, seed, "buckets" if isMerged else "merged by the pass")
                check(buckets, read_tensors(out), ranks, what)
                print(what + ": each has what it is to have")


main()
