# Random straight-line functions with random shardings of some of their arguments. Where
# mpcomm-propagate-shardings says that nothing has to be resharded, each rank can run the
# function on what it holds, and what ranks then hold of each value has to be what the pass
# says: blocks along the dimensions that are split, terms of a sum over the axes along which
# it is partial, and the same along all others. Ops are evaluated here, on whole numbers, so
# that sums are exact. A seed and a number of functions are arguments.
#
# REQUIRES: compiler, numpy
# RUN: %python %s %mpcomm-opt 0 400

import itertools
import random
import re
import subprocess
import sys

import numpy as np

OPT, SEED, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
AXES = {"a": 2, "b": 3}
SIZES = (1, 2, 3, 4, 6, 12)
rng = random.Random(SEED)


def tensor(shape):
    return "tensor<%sxf64>" % "x".join(map(str, shape)) if shape else "tensor<f64>"


class Function:
    """Text, and for each value how it is computed: (operands, a function of the shape that a rank makes and of
    these, pairs of dimensions of two operands that are one factor)."""

    def __init__(self, number):
        self.name, self.lines, self.shapes, self.ops, self.declared = "f%d" % number, [], [], [], {}
        for _ in range(rng.randint(1, 3)):
            self.add_argument([rng.choice(SIZES) for _ in range(rng.randint(1, 3))])
        self.arguments = len(self.shapes)
        for _ in range(rng.randint(1, 7)):
            rng.choice((self.unary, self.binary, self.dot, self.transpose, self.reshape, self.broadcast, self.reduce))()

    def add_argument(self, shape):
        value = len(self.shapes)
        self.shapes.append(shape)
        if rng.random() < 0.7:
            axes = rng.sample(sorted(AXES), 2)
            dims = [[] for _ in shape]
            for axis in axes[:rng.randint(1, 2)]:
                fitting = [d for d, size in enumerate(shape)
                           if size % (AXES[axis] * ranks_of(dims[d])) == 0]
                if fitting:
                    dims[rng.choice(fitting)].append(axis)
            self.declared[value] = dims

    def emit(self, shape, operands, text, compute, shared=()):
        self.lines.append("  %%%d = %s" % (len(self.shapes), text))
        self.shapes.append(list(shape))
        self.ops.append((operands, compute, shared))

    def pick(self, fits=lambda shape: True):
        fitting = [i for i, shape in enumerate(self.shapes) if fits(shape)]
        return rng.choice(fitting) if fitting else None

    def unary(self):
        x = self.pick()
        if rng.random() < 0.5:
            self.emit(self.shapes[x], [x], "arith.negf %%%d : %s" % (x, tensor(self.shapes[x])), lambda s, v: -v)
        else:
            self.emit(self.shapes[x], [x], "math.absf %%%d : %s" % (x, tensor(self.shapes[x])), lambda s, v: abs(v))

    def binary(self):
        x = self.pick()
        y = self.pick(lambda shape: shape == self.shapes[x])
        name, compute = rng.choice((("addf", np.add), ("subf", np.subtract), ("mulf", np.multiply), ("maximumf", np.maximum)))
        self.emit(self.shapes[x], [x, y], "arith.%s %%%d, %%%d : %s" % (name, x, y, tensor(self.shapes[x])),
                  lambda s, v, w: compute(v, w), [(d, d) for d in range(len(self.shapes[x]))])  # fmt: skip

    def dot(self):
        x = self.pick(lambda shape: len(shape) >= 2)
        if x is None:
            return
        i = rng.randrange(len(self.shapes[x]))
        y = self.pick(lambda shape: len(shape) >= 2 and self.shapes[x][i] in shape)
        if y is None or len(self.shapes[x]) + len(self.shapes[y]) > 6:
            return
        j = self.shapes[y].index(self.shapes[x][i])
        shape = [n for k, n in enumerate(self.shapes[x]) if k != i] + [n for k, n in enumerate(self.shapes[y]) if k != j]
        self.emit(shape, [x, y], "mpcomm.dot_general %%%d, %%%d, contracting_dims = [%d] x [%d] : (%s, %s) -> %s"
                  % (x, y, i, j, tensor(self.shapes[x]), tensor(self.shapes[y]), tensor(shape)),
                  lambda s, v, w: np.tensordot(v, w, (i, j)), [(i, j)])  # fmt: skip

    def transpose(self):
        x = self.pick(lambda shape: len(shape) >= 2)
        if x is None:
            return
        order = rng.sample(range(len(self.shapes[x])), len(self.shapes[x]))
        shape = [self.shapes[x][d] for d in order]
        self.emit(shape, [x], "mpcomm.transpose %%%d, dims = %s : (%s) -> %s"
                  % (x, order, tensor(self.shapes[x]), tensor(shape)), lambda s, v: v.transpose(order))  # fmt: skip

    def reshape(self):
        x = self.pick(lambda shape: shape)
        if x is None:
            return
        count, shape = int(np.prod(self.shapes[x])), []
        while count > 1 and len(shape) < 3:
            shape.append(rng.choice([d for d in range(1, count + 1) if count % d == 0]))
            count //= shape[-1]
        shape = shape + [count] if count > 1 or not shape else shape
        self.emit(shape, [x], "mpcomm.reshape %%%d : (%s) -> %s" % (x, tensor(self.shapes[x]), tensor(shape)),
                  lambda s, v: v.reshape(s))  # fmt: skip

    def broadcast(self):
        x = self.pick(lambda shape: len(shape) < 3)
        if x is None:
            return
        at, size = rng.randint(0, len(self.shapes[x])), rng.choice(SIZES)
        shape = self.shapes[x][:at] + [size] + self.shapes[x][at:]
        dims = [d for d in range(len(shape)) if d != at]
        self.emit(shape, [x], "mpcomm.broadcast_in_dim %%%d, dims = %s : (%s) -> %s"
                  % (x, dims, tensor(self.shapes[x]), tensor(shape)),
                  lambda s, v: np.broadcast_to(np.expand_dims(v, at), s))  # fmt: skip

    def reduce(self):
        x = self.pick(lambda shape: shape)
        if x is None:
            return
        dim, kind = rng.randrange(len(self.shapes[x])), rng.choice(("sum", "max"))
        shape = self.shapes[x][:dim] + self.shapes[x][dim + 1:]
        self.emit(shape, [x], "mpcomm.reduce %s %%%d, dims = [%d] : (%s) -> %s"
                  % (kind, x, dim, tensor(self.shapes[x]), tensor(shape)),
                  lambda s, v: v.sum(dim) if kind == "sum" else v.max(dim))  # fmt: skip

    def text(self):
        arguments = []
        for i, shape in enumerate(self.shapes[:self.arguments]):
            attributes = ["mpcomm.role = #mpcomm.role<parameter>"]
            if i in self.declared:
                attributes.append("mpcomm.sharding = #mpcomm.sharding<@mesh, [%s]>" % ", ".join(
                    "{%s}" % ", ".join('"%s"' % axis for axis in dim) for dim in self.declared[i]))  # fmt: skip
            arguments.append("%%%d: %s {%s}" % (i, tensor(shape), ", ".join(attributes)))
        text = "\n".join(re.sub(r"%(\d+)", lambda m: "%arg" + m[1] if int(m[1]) < self.arguments else "%v" + m[1], line)
                         for line in self.lines)  # fmt: skip
        return ("func.func @%s(%s) {\n%s\n  return\n}\n" % (self.name, ", ".join(arguments).replace("%", "%arg"), text))


def ranks_of(axes):
    return int(np.prod([AXES[axis] for axis in axes]))


def read(attribute, rank):
    """(axes by dimension, {axis: reduction})."""
    dims = [re.findall(r'"(\w+)"', dim) for dim in re.findall(r"\{([^{}]*)\}", attribute)]
    partial = re.search(r"partial = \[([^\]]*)\]", attribute)
    assert len(dims) == rank, attribute
    return dims, {axis: kind for kind, axis in re.findall(r'(\w+) "(\w+)"', partial[1])} if partial else {}


def block(value, dims, place):
    """What the rank at `place`, an index for each axis, holds of what is split."""
    for d, axes in enumerate(dims):
        for axis in axes:  # the first varies slowest
            value = np.split(value, AXES[axis], d)[place[axis]]
    return value


def shardings_of(function, printed):
    body = printed[printed.index("func.func @%s(" % function.name):]
    body = body[:body.index("\n  }")]
    header, *lines = body.split("\n")
    found = []
    for i in range(function.arguments):
        argument = re.search(r"%%arg%d: [^{]*\{((?:[^{}]|\{[^{}]*\})*)\}" % i, header)[1]
        sharding = re.search(r"#mpcomm.sharding<([^>]*)>", argument)
        found.append(read(sharding[1], len(function.shapes[i])) if sharding else ([[]] * len(function.shapes[i]), {}))
    results = [line for line in lines if " = " in line]
    for line, shape in zip(results, function.shapes[function.arguments:], strict=True):
        sharding = re.search(r"mpcomm.shardings = \[#mpcomm.sharding<(.*?)>\]", line)
        found.append(read(sharding[1], len(shape)) if sharding else ([[]] * len(shape), {}))
    return found


def check(function, shardings):
    numbers = np.random.default_rng(SEED)
    whole = [numbers.integers(-2, 3, shape).astype(float) for shape in function.shapes[:function.arguments]]
    for operands, compute, _ in function.ops:
        whole.append(compute(function.shapes[len(whole)], *(whole[i] for i in operands)))
    places = [dict(zip(AXES, place)) for place in itertools.product(*map(range, AXES.values()))]
    held = []
    for place in places:
        own = [block(value, shardings[i][0], place) for i, value in enumerate(whole[:function.arguments])]
        for operands, compute, shared in function.ops:
            dims = shardings[len(own)][0]
            split = {axis for i in operands for axes in shardings[i][0] for axis in axes}
            # Of what is whole an op takes the blocks that its other operand has.
            values = [own[i] for i in operands]
            for pair in shared:
                first, second = (shardings[i][0][d] for i, d in zip(operands, pair))
                for k, (mine, other) in enumerate(((first, second), (second, first))):
                    if other and not mine:
                        values[k] = block(values[k], [other if d == pair[k] else [] for d in range(values[k].ndim)], place)
            made = [[axis for axis in axes if axis in split] for axes in dims]
            shape = [n // ranks_of(axes) for n, axes in zip(function.shapes[len(own)], made)]
            later = [[axis for axis in axes if axis not in split] for axes in dims]
            own.append(block(compute(shape, *values), later, place))
        held.append(own)
    for i, (dims, partial) in enumerate(shardings):
        for place, own in zip(places, held):
            terms = [other[i] for at, other in zip(places, held)
                     if all(at[axis] == place[axis] for axis in AXES if axis not in partial)]
            value = (np.maximum.reduce if "max" in partial.values() else np.add.reduce)(terms) if partial else own[i]
            wanted = block(whole[i], dims, place)
            assert value.shape == wanted.shape and (value == wanted).all(), (function.text(), i, shardings[i], place)


functions = [Function(i) for i in range(COUNT)]
module = 'mpcomm.mesh @mesh <["a" = 2, "b" = 3]>\n' + "".join(f.text() for f in functions)
run = subprocess.run([OPT, "--mpcomm-propagate-shardings=annotate", "--remarks-filter=mpcomm-propagate.*",
                      "--remark-format=emitRemark"], input=module, text=True, capture_output=True)  # fmt: skip
if run.returncode:
    sys.exit(run.stderr[-3000:])
reshards = {int(name): int(count) for name, count in re.findall(r"Function=f(\d+) .*?reshards=(\d+)", run.stderr)}
found = {kind: 0 for kind in ("checked", "split", "partial")}
for number, function in enumerate(functions):
    if reshards.get(number) != 0:
        continue
    shardings = shardings_of(function, run.stdout)
    check(function, shardings)
    for dims, partial in shardings[function.arguments:]:
        found["split"] += any(dims)
        found["partial"] += bool(partial)
    found["checked"] += any(any(dims) or partial for dims, partial in shardings)
print(found)
if min(found.values()) < COUNT // 20:
    sys.exit("too few functions have something to check")
