# Random kernels, generated and by plain loops: the same results. Prints the
# seed; `fuzz.py <mpcomm-opt> <clang> <seed> <count>` repeats a run or makes a
# longer one.
#
# REQUIRES: compiler, numpy
# RUN: %python %s %mpcomm-opt %cc 1 40
# RUN: %python %s %mpcomm-opt %cc 2 40 vector-bits=256
# RUN: %python %s %mpcomm-opt %cc 3 40 unroll-columns=0
# RUN: %python %s %mpcomm-opt %cc 4 40 cache-bytes=0

import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs")
sys.path.insert(0, HERE)

from kernel_builder import Kernel

SIZES = [1, 2, 3, 4, 5, 8, 16, 17, 33, 64, 70, 129]
UNARY = ["math.exp", "math.tanh", "arith.negf", "math.sqrt", "math.erf", "math.absf"]
BINARY = ["arith.addf", "arith.mulf", "arith.subf", "arith.maximumf", "arith.minnumf"]


class Maker:
    """One random kernel. Tensors of the kernel are kept with the dimensions of
    the row space that they have, in order."""

    def __init__(self, rng, name):
        self.rng = rng
        self.k = Kernel(name)
        rank = rng.randint(1, 4)
        self.sizes = [rng.choice(SIZES if rank < 3 else SIZES[:8]) for _ in range(rank)]
        self.sizes[-1] = rng.choice(SIZES)
        self.tensors, self.returned, self.read_again = [], [], set()
        self.has_reduced = False

    def shape(self, dims):
        return [self.sizes[d] for d in dims]

    @staticmethod
    def map(dims):
        return ", ".join("d%d" % d for d in dims)

    def add_input(self):
        rng = self.rng
        dims = [d for d in range(len(self.sizes)) if rng.random() < 0.75]
        if rng.random() < 0.15:
            rng.shuffle(dims)
        dtype = rng.choice(["f32"] * 6 + ["bf16", "i1"])
        layout = None
        name = self.k.input("in%d" % len(self.k.inputs), self.shape(dims), dtype, layout)
        return name, dims, dtype

    def operand(self, limit):
        """An operand over the dimensions below `limit`, and its type."""
        known = [t for t in self.tensors if all(d < limit for d in t[1])]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        inputs = [(n, d, t) for n, d, t in self.inputs if all(x < limit for x in d)]
        return self.rng.choice(inputs) if inputs else None

    def body(self, operands, last):
        """Text that computes %v of the operands, all as f32."""
        rng, lines, values = self.rng, [], []
        for i, (_, _, dtype) in enumerate(operands):
            if dtype == "bf16":
                lines.append("%%x%d = arith.extf {%d} : bf16 to f32" % (i, i))
                values.append("%%x%d" % i)
            elif dtype == "i1":
                lines.append("%%x%d = arith.uitofp {%d} : i1 to f32" % (i, i))
                values.append("%%x%d" % i)
            else:
                values.append("{%d}" % i)
        if rng.random() < 0.15:
            dim = rng.randrange(last)
            lines += ["%%n = linalg.index %d : index" % dim,
                      "%m = arith.index_cast %n : index to i64",
                      "%l = arith.sitofp %m : i64 to f32",
                      "%s = arith.constant 0.01 : f32", "%q = arith.mulf %l, %s : f32"]
            values.append("%q")
        if rng.random() < 0.2:
            a, b = rng.randrange(last), rng.randrange(last)
            lines += ["%%i = linalg.index %d : index" % a, "%%j = linalg.index %d : index" % b,
                      "%two = arith.constant 2 : index", "%k = arith.addi %j, %two : index",
                      "%%c = arith.cmpi %s, %%i, %%k : index" % rng.choice(["slt", "sle", "sgt", "sge", "eq", "ne", "ult"]),
                      "%u = arith.uitofp %c : i1 to f32"]
            values.append("%u")
        value = values[0]
        for i, other in enumerate(values[1:]):
            lines.append("%%y%d = %s %s, %s : f32" % (i, rng.choice(BINARY), value, other))
            value = "%%y%d" % i
        if rng.random() < 0.6:
            # Kept small: exp and products must not overflow.
            lines += ["%z = math.tanh " + value + " : f32",
                      "%v = " + rng.choice(["math.exp %z", "math.erf %z", "math.absf %z", "arith.negf %z"]) + " : f32"]
        else:
            lines.append("%%v = math.absf %s : f32" % value)
        return lines

    def elementwise(self, dims_count):
        operands = [self.operand(dims_count) for _ in range(self.rng.randint(1, 3))]
        operands = [o for o in operands if o]
        if not operands:
            return
        dims = list(range(dims_count))
        target = self.k.empty(self.shape(dims))
        lines = self.body(operands, dims_count) if dims_count else self.body(operands, 1)
        name = self.k.generic("p" * dims_count, [(n, self.map(d)) for n, d, _ in operands],
                              [(target, self.map(dims))], "\n".join(lines + ["yield %v : f32"]))
        self.tensors.append((name, dims, "f32"))

    def reduce(self, reduced, readable):
        rank = len(self.sizes)
        # One operand has all dimensions, so that the loops are known.
        operands = [o for o in [self.operand(rank) for _ in range(self.rng.randint(0, 2))] if o]
        full = [t for t in self.tensors if len(t[1]) == rank] + self.inputs[-1:]
        operands.append(self.rng.choice(full))
        dims = [d for d in range(rank) if d not in reduced]
        op, start = self.rng.choice([("addf", "0.0")] * 3 + [("maximumf", "0xFF800000"), ("maxnumf", "0xFF800000")])
        into = self.k.empty(self.shape(dims)) if readable else self.k.output(
            "out%d" % len(self.k.outputs), self.shape(dims))
        lines = self.body(operands, rank)
        lines += ["%%r = arith.%s %%v, {o0} : f32" % op, "yield %r : f32"]
        name = self.k.generic("".join("r" if d in reduced else "p" for d in range(rank)),
                              [(n, self.map(d)) for n, d, _ in operands],
                              [(self.k.fill(start, into), self.map(dims))], "\n".join(lines))
        if readable:
            self.tensors.append((name, dims, "f32"))
        else:
            self.returned.append((into, name))

    def make(self):
        rng, rank = self.rng, len(self.sizes)
        self.inputs = [self.add_input() for _ in range(rng.randint(1, 4))]
        self.inputs.append((self.k.input("x", self.sizes), list(range(rank)), "f32"))
        self.elementwise(rank)
        for _ in range(rng.randint(1, 5)):
            choice = rng.random()
            if choice < 0.5:
                self.elementwise(rank)
            elif choice < 0.75 and rank > 1:
                self.reduce([rank - 1], readable=True)
                if rng.random() < 0.5:
                    self.elementwise(rank - 1)
            else:
                reduced = [d for d in range(rank) if rng.random() < 0.5]
                if reduced:
                    self.reduce(reduced, readable=False)
        # Some of the tensors go out, in f32 or bf16, the last one always.
        for name, dims, _ in [t for t in self.tensors[:-1] if rng.random() < 0.3] + self.tensors[-1:]:
            dtype = rng.choice(["f32", "f32", "bf16"])
            out = self.k.output("out%d" % len(self.k.outputs), self.shape(dims), dtype)
            body = "yield {0} : f32" if dtype == "f32" else "%r = arith.truncf {0} : f32 to bf16\nyield %r : bf16"
            if rng.random() < 0.3 and dtype == "f32":
                body = "%r = arith.addf {0}, {1} : f32\nyield %r : f32"
                operands = [(name, self.map(dims)), (out, self.map(dims))]
            else:
                operands = [(name, self.map(dims))]
            result = self.k.generic("p" * len(dims), operands, [(out, self.map(dims))], body)
            self.returned.append((out, result))
        order = {o[0]: i for i, o in enumerate(self.k.outputs)}
        self.returned.sort(key=lambda pair: order[pair[0]])
        text = self.k.module([name for _, name in self.returned])
        return text[: text.index("func.func @caller")]


def main():
    opt, clang, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    options = sys.argv[5:]
    print("seed", seed)
    rng = random.Random(seed)
    text = "".join(Maker(rng, "fuzz_%d" % i).make() for i in range(count))
    path = os.path.join(tempfile.mkdtemp(prefix="fuzz-"), "kernels.mlir")
    with open(path, "w") as file:
        file.write(text)
    sys.exit(subprocess.run(
        [sys.executable, os.path.join(HERE, "differential.py"), opt, clang, path] + options, check=False
    ).returncode)


if __name__ == "__main__":
    main()
