# ===- programs.py - what ranks communicate, read from IR and written as IR -=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Programs of ranks as lists of starts and awaits. Reads what mpcomm-opt prints
in Forms 3, 4 and 5, with a reader of its own; writes the same without the
computation: operands are constants, and nobody uses results."""

import copy
import itertools
import re

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
MESSAGES = ("send", "recv")
# These may have several tensors, and a channel.
BUCKETS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


class Op:
    """A collective or message. Tensors are those that this rank gives, or of a
    recv takes; each is (elements, element type)."""

    def __init__(self, kind, axes, tensors, reduction="", wire="", accumulate="", peer=-1,
                 channel=0, tag="", number=None):  # fmt: skip
        self.kind, self.axes, self.tensors = kind, tuple(sorted(axes)), list(tensors)
        self.reduction, self.wire, self.accumulate = reduction, wire, accumulate
        self.peer, self.channel, self.tag = peer, channel, tag
        self.number = number  # of Form 5: mprt_collective.id

    def parts(self):
        """As the runtime sees it: a bucket of several types is several."""
        if self.kind not in BUCKETS:
            return [self]
        made = []
        for element in dict.fromkeys(e for _, e in self.tensors):
            part = copy.copy(self)
            part.tensors = [t for t in self.tensors if t[1] == element]
            made.append(part)
        return made

    def element(self):
        return self.tensors[0][1] if self.tensors else ""

    def travels(self):
        return self.wire or self.element()

    def sums_in(self):
        if self.kind not in ("all_reduce", "reduce_scatter"):
            return ""
        narrow = self.travels() in ("bf16", "f16") or self.travels().startswith("f8")
        return self.accumulate or ("f32" if narrow else self.travels())


class Program:
    """Of one function: ops by name, and steps ("start" or "await", name)."""

    def __init__(self):
        self.ops, self.steps = {}, []

    def start(self, op):
        name = len(self.ops)
        while name in self.ops:
            name += 1
        self.ops[name] = op
        self.steps.append(("start", name))
        return name

    def wait(self, name):
        self.steps.append(("await", name))

    def run(self, op):
        self.wait(self.start(op))


class Problem:
    """mesh: (axis, size) pairs; functions by name; runs: the function of each
    rank, row-major; form: 4 or 5."""

    def __init__(self, mesh, functions, runs, form=4):
        self.mesh, self.functions, self.runs, self.form = mesh, functions, runs, form

    def ranks(self):
        return list(itertools.product(*[range(size) for _, size in self.mesh]))

    def group(self, rank, axes):
        """The ranks that differ from `rank` in these axes alone, in order."""
        fixed = [i for i, (axis, _) in enumerate(self.mesh) if axis not in axes]
        at = self.ranks()[rank]
        return [r for r, other in enumerate(self.ranks()) if all(other[i] == at[i] for i in fixed)]

    def group_size(self, axes):
        size = 1
        for axis, n in self.mesh:
            size *= n if axis in axes else 1
        return size


# ---------------------------------------------------------------------------- #
# Reading
# ---------------------------------------------------------------------------- #

TENSOR = re.compile(r"(?:tensor|memref)<((?:\d+x)*)([a-z]\w*)[^>]*>")


def tensors_of(text):
    made = []
    for dims, element in TENSOR.findall(text):
        count = 1
        for dim in dims.split("x")[:-1]:
            count *= int(dim)
        made.append((count, element))
    return made


def read_collective(line, group_size):
    """The op of a line of Forms 3 and 4, or nothing."""
    match = re.search(r"mpcomm\.(all_reduce|reduce_scatter|all_gather|all_to_all|"
                      r"collective_broadcast|send|recv|barrier)\b(.*)", line)  # fmt: skip
    if not match:
        return None
    kind, rest = match.groups()
    kind = kind.replace("collective_", "")

    def find(pattern, default=""):
        found = re.search(pattern, rest)
        return found.group(1) if found else default

    axes = re.findall(r'"(\w[\w.]*)"', find(r"axes \[([^\]]*)\]"))
    types = rest.rsplit(" : ", 1)[1] if " : " in rest else ""
    tensors = tensors_of(types.split("->")[0])
    return Op(kind, axes, tensors, find(r"\] (sum|prod|min|max|mean)\b"), find(r"wire (\w+)"),
              find(r"accumulate (\w+)"), int(find(r"(?:to|from|root) = (\d+)", "-1")),
              int(find(r"channel = (\d+)", "0")), find(r'mpcomm\.tag = "([^"]*)"'))  # fmt: skip


def read_forms_3_4(text, mesh, name):
    """The program of the function @name; it must be a flat list."""
    program, futures, sizes = Program(), {}, dict(mesh)
    body = re.search(r"func\.func (?:public )?@%s\(.*?\n  }\n" % re.escape(name), text, re.S)
    pending = None
    for line in body.group(0).split("\n"):
        if "mpcomm.async" in line:
            pending = line.split("=")[0].strip()
        elif "mpcomm.await" in line:
            program.wait(futures[re.search(r"mpcomm\.await (%\w+)", line).group(1)])
        elif op := read_collective(line, sizes):
            number = program.start(op)
            if pending:
                futures[pending] = number
                pending = None
            else:
                program.wait(number)
    return program


def read_form_5(text, name):
    communicators = re.search(r"mprt\.communicators = (\[\[.*?\]\])", text).group(1)
    axes = [re.findall(r'"([^"]+)"', c) for c in re.findall(r"\[([^\[\]]*)\]", communicators)]
    channels = re.search(r"mprt\.channels = array<i64: ([\d, ]*)>", text)
    channels = [int(c) for c in channels.group(1).split(",")] if channels else [0] * len(axes)
    program, events = Program(), {}
    body = re.search(r"func\.func (?:public )?@%s\(.*?\n  }\n" % re.escape(name), text, re.S)
    pattern = re.compile(r'mprt\.start "(\w+)" "(\w*)" id = (\d+) communicator = (\d+) event = (\d+) '
                         r"peer = (-?\d+) accumulate (\w+) ins\((.*?)\) outs\((.*?)\)(?: \{(.*?)\})?"
                         r"(?: ->|$)")  # fmt: skip
    for line in body.group(0).split("\n"):
        if match := pattern.search(line):
            kind, reduction, number, c, event, peer, accumulate, ins, outs, attributes = match.groups()
            tensors = tensors_of(ins) or tensors_of(outs)
            tag = re.search(r'mpcomm\.tag = "([^"]*)"', attributes or "")
            op = Op(kind, axes[int(c)], tensors, reduction, "", accumulate if reduction else "",
                    int(peer), channels[int(c)], tag.group(1) if tag else "", int(number))  # fmt: skip
            events[event] = program.start(op)
        elif match := re.search(r"mprt\.await event = (\d+)", line):
            program.wait(events[match.group(1)])
    return program


def read(text, name="train_step"):
    """A problem of the functions of the mpcomm.program of that name, or else of the
    function, which all ranks run."""
    mesh = [(axis, int(size)) for axis, size in
            re.findall(r'"([^"]+)" = (\d+)', re.search(r"mpcomm\.mesh @\w+ <\[(.*?)\]>", text).group(1))]  # fmt: skip
    program = re.search(r"mpcomm\.program @%s on @\w+ axes \[(.*?)\] runs \[(.*?)\]" % name, text)
    runs = []
    for at in itertools.product(*[range(size) for _, size in mesh]):
        runs.append(name)
        if program:
            index, at = 0, dict(zip(dict(mesh), at))
            for axis in re.findall(r'"([^"]+)"', program.group(1)):
                index = index * dict(mesh)[axis] + at[axis]
            runs[-1] = re.findall(r"@([\w.]+)", program.group(2))[index]
    form = 5 if "mprt.start" in text else 4
    functions = {f: read_form_5(text, f) if form == 5 else read_forms_3_4(text, mesh, f) for f in dict.fromkeys(runs)}
    return Problem(mesh, functions, runs, form)


# ---------------------------------------------------------------------------- #
# Writing
# ---------------------------------------------------------------------------- #


def write(problem, name="step"):
    """A module of the problem's form."""
    lines, communicators = [], []
    functions = [f for f in problem.functions if f in problem.runs]
    for function in functions:
        lines.append("  func.func @%s() {" % function)
        body, constants = [], {}
        program = problem.functions[function]
        for i, (what, key) in enumerate(program.steps):
            op = program.ops[key]
            if problem.form == 5:
                body += write_form_5(problem, op, what, key, constants, communicators)
            elif what == "start":
                # Synchronous where it is awaited at once.
                waits = program.steps[i + 1 : i + 2] == [("await", key)]
                body += write_form_4(problem, op, key, waits, constants)
            elif program.steps[i - 1] != ("start", key):
                body.append("%%v%s = mpcomm.await %%f%s : !mpcomm.future<%s>"
                            % (key, key, ", ".join(results_of(problem, op))))  # fmt: skip
                if not results_of(problem, op):
                    body[-1] = body[-1].split("= ", 1)[1]
                elif len(results_of(problem, op)) > 1:
                    body[-1] = body[-1].replace(" =", ":%d =" % len(results_of(problem, op)), 1)
        for type_, value in constants.items():
            zero = "0.0" if re.search(r"x(f|bf)\w+>$", type_) else "0"
            lines.append("    %s = arith.constant dense<%s> : %s" % (value, zero, type_))
        lines += ["    " + line for line in body] + ["    return", "  }"]
    attributes = ""
    if problem.form == 5:
        attributes = " attributes {mprt.communicators = [%s], mprt.channels = array<i64: %s>, mprt.mesh = @mesh}" % (
            ", ".join("[%s]" % ", ".join('"%s"' % a for a in axes) for axes, _ in communicators),
            ", ".join(str(c) for _, c in communicators))  # fmt: skip
        attributes = attributes.replace("array<i64: >", "array<i64>")
    axes = ", ".join('"%s"' % axis for axis, _ in problem.mesh)
    head = ["module%s {" % attributes,
            "  mpcomm.mesh @mesh <[%s]>" % ", ".join('"%s" = %d' % axis for axis in problem.mesh),
            "  mpcomm.program @%s on @mesh axes [%s] runs [%s]"
            % (name, axes, ", ".join("@" + f for f in problem.runs))]  # fmt: skip
    return "\n".join(head + lines + ["}", ""])


def operand(type_, constants):
    return constants.setdefault(type_, "%%c%d" % len(constants))


def tensor_type(tensor):
    return "tensor<%dx%s>" % tensor


def result_tensors(problem, op):
    group = problem.group_size(op.axes)
    if op.kind == "reduce_scatter":
        return [(count // group, element) for count, element in op.tensors]
    if op.kind == "all_gather":
        return [(count * group, element) for count, element in op.tensors]
    return [] if op.kind in ("send", "barrier") else op.tensors


def results_of(problem, op):
    return [tensor_type(t) for t in result_tensors(problem, op)]


def write_form_4(problem, op, key, waits, constants):
    given = [] if op.kind == "recv" else op.tensors
    where = "on @mesh axes [%s]" % ", ".join('"%s"' % a for a in op.axes)
    where += " " + op.reduction if op.reduction else ""
    where += " wire " + op.wire if op.wire else ""
    where += " accumulate " + op.accumulate if op.accumulate else ""
    dims = [0] * len(op.tensors)
    where += {"reduce_scatter": " dims = %s" % dims, "all_gather": " dims = %s" % dims,
              "all_to_all": " split_dims = %s concat_dims = %s" % (dims, dims), "broadcast": " root = %d" % op.peer,
              "send": " to = %d" % op.peer, "recv": " from = %d" % op.peer}.get(op.kind, "")  # fmt: skip
    if op.kind in MESSAGES + BUCKETS and op.channel:
        where += " channel = %d" % op.channel
    where += ' {mpcomm.tag = "%s"}' % op.tag if op.tag else ""
    results, types = results_of(problem, op), ", ".join(tensor_type(t) for t in op.tensors)
    if op.kind in ("reduce_scatter", "all_gather", "all_to_all"):
        types = "(%s) -> (%s)" % (types, ", ".join(results))
    name = {"broadcast": "collective_broadcast"}.get(op.kind, op.kind)
    operands = "(%s)" % ", ".join(operand(tensor_type(t), constants) for t in given) if given else ""
    text = "mpcomm.%s%s %s" % (name, operands, where) + (" : " + types if types else "")
    bind = "%%r%s%s = " % (key, ":%d" % len(results) if len(results) > 1 else "") if results else ""
    if waits:
        return [bind + text]
    yields = ", ".join("%%r%s%s" % (key, "#%d" % i if len(results) > 1 else "") for i in range(len(results)))
    return ["%%f%s = mpcomm.async {" % key, "  " + bind + text,
            "  mpcomm.yield" + (" %s : %s" % (yields, ", ".join(results)) if results else ""),
            "} : !mpcomm.future<%s>" % ", ".join(results)]  # fmt: skip


def write_form_5(problem, op, what, key, constants, communicators):
    if op.kind in BUCKETS[1:]:  # laid out as one
        op = copy.copy(op)
        op.tensors = [(sum(count for count, _ in op.tensors), op.element())]
    place = (op.axes, op.channel)
    if place not in communicators:
        communicators.append(place)
    in_place = op.kind in ("all_reduce", "broadcast", "recv")
    group = problem.group_size(op.axes)
    outs = op.tensors if in_place else result_tensors(problem, op)
    ins = [] if in_place or op.kind == "barrier" else op.tensors

    def shaped(tensor):
        if op.kind == "all_to_all":  # counted by block
            return "tensor<%dx%dx%s>" % (group, tensor[0] // group, tensor[1])
        return tensor_type(tensor)

    def operands(tensors):
        if not tensors:
            return ""
        types = [shaped(t) for t in tensors]
        return "%s : %s" % (", ".join(operand(t, constants) for t in types), ", ".join(types))

    lists = "ins(%s) outs(%s)" % (operands(ins), operands(outs))
    results = " -> (%s)" % ", ".join(shaped(t) for t in outs) if outs else ""
    bind = "%%%s%s%s = " % (what[0], key, ":%d" % len(outs) if len(outs) > 1 else "") if outs else ""
    if what == "await":
        return ["%smprt.await event = %d %s%s" % (bind, key, lists, results)]
    tag = ' {mpcomm.tag = "%s"}' % op.tag if op.tag else ""
    return ['%smprt.start "%s" "%s" id = %d communicator = %d event = %d peer = %d accumulate %s %s%s%s'
            % (bind, op.kind, op.reduction, op.number or 0, communicators.index(place), key, op.peer,
               op.accumulate or op.element() or "f32", lists, tag, results)]  # fmt: skip
