# ===- mutants.py - mistakes in rank programs ------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Changes in the text of a program of collectives, each a mistake that a pass could make. A
mutant may be no valid IR: whoever takes it has to look."""

import collections
import random
import re

COLLECTIVES = "all_reduce|reduce_scatter|all_gather|all_to_all|all_slice|predivide"
OP = re.compile(r"^(\s*)(%[\w#:]+(?:, %[\w#:]+)*) = mpcomm\.(" + COLLECTIVES + r")\b(.*)$")
VALUE = re.compile(r"%\w+(?:#\d+)?")
DEFINITION = re.compile(r"^\s*(%\w+(?::\d+)?(?:, %\w+(?::\d+)?)*) = ")

Mutant = collections.namedtuple("Mutant", "kind line text")


def operands_of(rest):
    """Where in the text the operands are."""
    inner = re.match(r"\(([^)]*)\)| (%[\w#]+)", rest)
    begin, end = inner.span(1) if inner.group(1) is not None else inner.span(2)
    return begin, end, [v.strip() for v in rest[begin:end].split(",") if v.strip()]


def fresh(word, value):
    """A name that the printer gives to no value."""
    return "%" + word + "_" + value[1:].replace("#", "_")


def types_of(rest):
    """(types of operands, types of results), by the text after the last colon of the op."""
    text = rest.split(" : ", 1)[1]
    found = re.match(r"^\((.*)\) -> \(?(.*?)\)?$", text)
    split = re.compile(r"tensor<[^>]*>").findall
    return (split(found.group(1)), split(found.group(2))) if found else (split(text), split(text))


class Program:
    def __init__(self, text):
        self.lines = text.splitlines()
        self.types = self.read_types()

    def read_types(self):
        """The tensor type of each value in a function that is known by its line; [function][value]."""
        types, function = {}, None
        for i, line in enumerate(self.lines):
            if "func.func" in line:
                function = i
                types[function] = {}
                for name, type in re.findall(r"(%\w+): (tensor<[^>]*>)", line):
                    types[function][name] = (type, i)
            found = DEFINITION.match(line)
            if not found or function is None or " : " not in line or "mpcomm." not in line and "arith." not in line:
                continue
            text = line.rsplit(" : ", 1)[1]
            results = re.compile(r"tensor<[^>]*>").findall(text.split(" -> ")[-1])
            names = []
            for name in found.group(1).split(", "):
                base, _, count = name.partition(":")
                names += ["%s#%d" % (base, k) for k in range(int(count))] if count else [base]
            if len(names) == len(results):
                types[function].update((n, (t, i)) for n, t in zip(names, results))
            elif len(results) == 1 and len(names) == 1:
                types[function][names[0]] = (results[0], i)
        return types

    def function_of(self, line):
        return max((f for f in self.types if f <= line), default=None)

    def depth(self, line):
        return len(self.lines[line]) - len(self.lines[line].lstrip())

    def replaced(self, line, text):
        return "\n".join(self.lines[:line] + text.split("\n") + self.lines[line + 1 :]) + "\n"

    def candidates(self, value, line):
        """Other values of the same type that are there at `line`, in the body of the function."""
        function = self.function_of(line)
        known = self.types.get(function, {})
        if value not in known:
            return []
        base = self.depth(function) + 2
        return [v for v, (t, at) in known.items()
                if v != value and t == known[value][0] and at < line and (at == function or self.depth(at) == base)]  # fmt: skip

    def mutants(self, seed):
        """All of them that the operators below make of this program, in a random order in which each
        kind has its turn."""
        pick = random.Random(seed)
        made = []
        for i, line in enumerate(self.lines):
            found = OP.match(line)
            if found:
                made += self.of_collective(i, found)
            else:
                made += self.of_use(i, line, pick)
        pick.shuffle(made)
        turn, seen = collections.Counter(), set()
        order = []
        for mutant in made:
            if mutant.text not in seen:
                seen.add(mutant.text)
                order.append((turn[mutant.kind], mutant))
                turn[mutant.kind] += 1
        return [mutant for _, mutant in sorted(order, key=lambda pair: pair[0])]

    def of_collective(self, i, found):
        indent, results, kind, rest = found.groups()
        begin, end, operands = operands_of(rest)
        ins, outs = types_of(rest)
        head = "%s%s = mpcomm.%s" % (indent, results, kind)

        def make(name, text):
            return Mutant(name, i, self.replaced(i, text))

        # What gives the operands' types back unchanged may as well not be there.
        names = self.names(results)
        if ins == outs and kind != "all_to_all":
            without = self.without(i, dict(zip(names, operands)))
            if without:
                yield Mutant("scale" if kind == "predivide" else "dropped", i, without)
        if ins == outs and len(operands) == 1 and kind != "all_to_all":
            yield Mutant("scale" if kind == "predivide" else "doubled", i, self.doubled(i, found, begin, end))
        if len(operands) == 1 and not self.is_async(i):
            yield from self.of_block(i, found, operands[0], ins[0], outs[0])
        axes = re.search(r"axes \[([^\]]*)\]", rest)
        for other in self.axes():
            if '"%s"' % other != axes.group(1):
                yield make("axis", head + rest.replace(axes.group(0), 'axes ["%s"]' % other))
            if '"%s"' % other not in axes.group(1):
                yield make("axis", head + rest.replace(axes.group(0), 'axes [%s, "%s"]' % (axes.group(1), other)))
        named = axes.group(1).split(", ")
        for one in named if len(named) > 1 else []:
            yield make("axis", head + rest.replace(axes.group(0), "axes [%s]" % ", ".join(a for a in named if a != one)))
        reduction = re.search(r"\] (sum|mean|max|min|prod)\b", rest)
        for other in ("sum", "mean", "max", "min", "prod") if reduction else ():
            if other != reduction.group(1):
                yield make("reduction", head + rest.replace(reduction.group(0), "] " + other))
        rank = ins[0].count("x")
        for attribute in re.finditer(r"dims? = \[?(\d+)", rest):
            for dim in range(rank):
                if str(dim) != attribute.group(1):
                    yield make("dimension", head + rest[: attribute.start(1)] + str(dim) + rest[attribute.end(1) :])
        for a in range(len(operands)):
            for b in range(a + 1, len(operands)):
                if ins[a] == ins[b] and operands[a] != operands[b]:
                    order = list(operands)
                    order[a], order[b] = order[b], order[a]
                    yield make("swapped", head + rest[:begin] + ", ".join(order) + rest[end:])
        for a, value in enumerate(operands):
            for other in self.candidates(value, i)[-6:]:
                order = list(operands)
                order[a] = other
                yield make("stale", head + rest[:begin] + ", ".join(order) + rest[end:])

    def of_block(self, i, found, operand, whole, part):
        """Of one that makes a block of a tensor or puts blocks together: another rank's block, no
        communication, or blocks along a dimension that the tensor could as well have."""
        indent, result, kind, rest = found.groups()

        def make(name, *lines):
            return Mutant(name, i, self.replaced(i, "\n".join(indent + line for line in lines)))

        if kind == "all_gather":
            ranks = self.ratio(part, whole)
            dim = re.search(r"dims = \[(\d+)", rest).group(1)
            yield make("dropped", "%s = mpcomm.concatenate %s, dim = %s : (%s) -> %s" % (
                result, ", ".join([operand] * ranks), dim, ", ".join([whole] * ranks), part))  # fmt: skip
        if kind == "reduce_scatter":
            where = re.search(r"on @\w+ axes \[[^\]]*\]", rest).group(0)
            dim = re.search(r"dims = \[(\d+)", rest).group(1)
            yield make("dropped", "%s = mpcomm.all_slice %s %s dim = %s : (%s) -> %s" % (
                result, operand, where, dim, whole, part))  # fmt: skip
        sizes = [[int(n) for n in re.findall(r"(\d+)x", type)] for type in (whole, part)]
        if any(len(shape) != 1 for shape in sizes) or kind not in ("all_gather", "reduce_scatter", "all_slice"):
            return
        element = re.search(r"x(\w+)>", whole).group(1)
        if kind == "all_slice":
            n = sizes[1][0]
            for block in range(self.ratio(whole, part)):
                yield make("stale", "%s = mpcomm.slice %s, starts = [%d], limits = [%d], strides = [1] : (%s) -> %s" % (
                    result, operand, block * n, (block + 1) * n, whole, part))  # fmt: skip
        if all(shape[0] % 2 == 0 for shape in sizes):
            two, one = ("tensor<2x%dx%s>" % (shape[0] // 2, element) for shape in sizes)
            rows, other = fresh("rows", result), fresh("other", result)
            changed = re.sub(r"(dims? = \[?)0", r"\g<1>1", rest.split(" : ")[0]).replace(operand, rows, 1)
            yield make("dimension",
                       "%s = mpcomm.reshape %s : (%s) -> %s" % (rows, operand, whole, two),
                       "%s = mpcomm.%s%s : (%s) -> %s" % (other, kind, changed, two, one),
                       "%s = mpcomm.reshape %s : (%s) -> %s" % (result, other, one, part))  # fmt: skip

    @staticmethod
    def names(results):
        base, _, count = results.partition(":")
        return ["%s#%d" % (base, k) for k in range(int(count))] if count else results.split(", ")

    def is_async(self, i):
        return "mpcomm.async" in self.lines[i - 1]

    def await_of(self, i):
        """The line at which the future of the collective at line i is awaited, and its results."""
        future = self.lines[i - 1].split(" = ")[0].strip()
        for k in range(i, len(self.lines)):
            found = re.match(r"\s*(%[^=]*) = mpcomm\.await " + re.escape(future) + r"\b", self.lines[k])
            if found:
                return k, self.names(found.group(1).strip())
        return None, []

    def without(self, i, given):
        """No collective at line i: who reads its results reads its operands."""
        gone, begin = [i], i
        if self.is_async(i):
            awaited, names = self.await_of(i)
            if awaited is None:
                return None
            given = dict(zip(names, given.values()))
            gone, begin = [i - 1, i, i + 1, i + 2, awaited], awaited
        end = next(k for k in range(begin, len(self.lines)) if self.lines[k].startswith("  }"))
        lines = [VALUE.sub(lambda m: given.get(m.group(0), m.group(0)), line) if begin < k <= end else line
                 for k, line in enumerate(self.lines)]  # fmt: skip
        return "\n".join(line for k, line in enumerate(lines) if k not in gone) + "\n"

    def doubled(self, i, found, begin, end):
        """A second one of its result, which the others read."""
        indent, result, kind, rest = found.groups()
        at = i
        if self.is_async(i):
            at, names = self.await_of(i)
            result, indent = names[0], re.match(r"\s*", self.lines[at]).group(0)
        again = fresh("again", result)
        new = "%s%s = mpcomm.%s%s" % (indent, again, kind, rest[:begin] + result + rest[end:])
        stop = next(k for k in range(at, len(self.lines)) if self.lines[k].startswith("  }"))
        after = [VALUE.sub(lambda m: again if m.group(0) == result else m.group(0), line)
                 for line in self.lines[at + 1 : stop]]  # fmt: skip
        return "\n".join(self.lines[: at + 1] + [new] + after + self.lines[stop:]) + "\n"

    def of_use(self, i, line, pick):
        """Updates and results that take other values, of those that are communicated or are state."""
        if not re.search(r"mpcomm\.(adamw_update|sgd_update|clip_by_global_norm|unscale|await|send)\b|return ", line):
            return
        body = line.split(" = ", 1)
        text, start = (body[1], len(body[0]) + 3) if len(body) == 2 else (line, 0)
        uses = [(m.group(0), m.start() + start, m.end() + start) for m in VALUE.finditer(text.split(" : ")[0])]
        for value, begin, end in uses:
            others = self.candidates(value, i)
            for other in pick.sample(others, min(2, len(others))):
                yield Mutant("stale", i, self.replaced(i, line[:begin] + other + line[end:]))
        known = self.types.get(self.function_of(i), {})
        for (a, ab, ae), (b, bb, be) in zip(uses, uses[1:]):
            if a != b and a in known and b in known and known[a][0] == known[b][0]:
                yield Mutant("swapped", i, self.replaced(i, line[:ab] + b + line[ae:bb] + a + line[be:]))

    def axes(self):
        for line in self.lines:
            if "mpcomm.mesh" in line:
                return re.findall(r'"([\w.]+)" = ', line)
        return []

    @staticmethod
    def ratio(a, b):
        def count(type):
            n = 1
            for size in re.findall(r"(\d+)x", type):
                n *= int(size)
            return n

        return max(count(a) // max(count(b), 1), 1)
