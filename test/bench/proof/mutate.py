# ===- mutate.py - one op of right programs goes wrong -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Each operator changes one op of one function, for all ranks that run it or for
one of them, which then has a function of its own. What comes out is still IR that
passes its verifiers: what is wrong with it is that ranks are at odds, if they are."""

import copy

from programs import BUCKETS, MESSAGES

OPERATORS = ["drop", "swap", "reorder", "await", "retype", "resize", "peer", "channel", "tag"]

OTHER_TYPE = {"f32": "bf16", "bf16": "f32", "f16": "f32", "f64": "f32", "i8": "i16", "i16": "i8",
              "i32": "i64", "i64": "i32", "f8E4M3FN": "bf16", "f8E5M2": "bf16"}  # fmt: skip


def pick_function(problem, random):
    """A copy of the problem and of a function that communicates, for all ranks
    that run it or (half of the time) for one."""
    functions = dict(problem.functions)
    name = random.choice(sorted(f for f in set(problem.runs) if functions[f].ops))
    runs, alone = list(problem.runs), random.random() < 0.5
    target = copy.copy(functions[name])
    target.ops = {k: copy.copy(op) for k, op in target.ops.items()}
    target.steps = list(target.steps)
    if alone:
        rank = random.choice([r for r, f in enumerate(runs) if f == name])
        name += ".alone"
        runs[rank] = name
    functions[name] = target
    mutant = copy.copy(problem)
    mutant.functions, mutant.runs = functions, runs
    return mutant, target, "rank" if alone else "class"


def retype(op, form, random):
    changes = []
    if op.tensors and op.element() in OTHER_TYPE:
        changes.append("element")
    if op.reduction:
        changes.append("reduction")
        if op.element().startswith(("f", "bf")):
            changes.append("accumulate")
            if form == 4:
                changes.append("wire")
    if not changes:
        return False
    change = random.choice(changes)
    if change == "element":
        other = OTHER_TYPE[op.element()]
        if op.wire or op.accumulate:
            op.wire, op.accumulate = "", "f32" if op.reduction else ""
        op.tensors = [(count, other if element == op.element() else element) for count, element in op.tensors]
    elif change == "reduction":
        op.reduction = "max" if op.reduction != "max" else "min"
    elif change == "accumulate":
        op.accumulate = "f64" if op.accumulate != "f64" else "f32"
    else:
        op.wire = "" if op.wire else ("f16" if op.element() == "bf16" else "bf16")
        op.accumulate = op.accumulate or "f32"
    return True


def repeer(problem, op, random):
    size = problem.group_size(op.axes)
    if op.kind == "broadcast":
        op.peer = random.choice([r for r in range(size) if r != op.peer])
        return True
    if op.kind in ("send", "recv"):
        others = [r for r in range(size) if r != op.peer]
        if random.random() < 0.3 or not others:
            op.kind = {"send": "recv", "recv": "send"}[op.kind]
        else:
            op.peer = random.choice(others)
        return True
    if op.kind == "all_reduce" and len(op.tensors) == 1:
        op.kind, op.reduction, op.wire, op.accumulate = "broadcast", "", "", ""
        op.peer = random.randrange(size)
        return True
    return False


def rechannel(problem, op, random):
    if op.kind in MESSAGES or (op.kind in BUCKETS and random.random() < 0.5):
        channels = {o.channel for p in problem.functions.values() for o in p.ops.values() if o.axes == op.axes}
        op.channel = random.choice(sorted((channels | {0, max(channels) + 1}) - {op.channel}))
        return True
    # Another communicator may be one of other axes.
    names = tuple(sorted(axis for axis, _ in problem.mesh))
    choices = {names} | {(n,) for n in names}
    if op.kind in ("reduce_scatter", "all_gather", "all_to_all"):
        size = problem.group_size(op.axes)
        choices = {c for c in choices if problem.group_size(c) == size}
    if op.kind == "broadcast":
        choices = {c for c in choices if problem.group_size(c) > op.peer}
    choices -= {op.axes}
    if not choices:
        return False
    op.axes = random.choice(sorted(choices))
    return True


def move(program, key, what, random):
    """Moves the start to a place before its await, or the await to one after its
    start, to earlier and to later ones."""
    steps = program.steps
    start, wait = steps.index(("start", key)), len(steps)
    if ("await", key) in steps:
        wait = steps.index(("await", key))
    elif what == "await":
        return False
    at = start if what == "start" else wait
    low, high = (0, wait - 1) if what == "start" else (start + 1, len(steps) - 1)
    ranges = [r for r in ((low, at - 1), (at + 1, high)) if r[0] <= r[1]]
    if not ranges:
        return False
    steps.insert(random.randint(*random.choice(ranges)), steps.pop(at))
    return True


def change(problem, program, operator, random):
    key = random.choice(sorted(program.ops))
    op = program.ops[key]
    if operator == "drop":
        program.steps = [s for s in program.steps if s[1] != key]
        return True
    if operator == "swap":
        other = random.choice(sorted(program.ops))
        program.ops[key], program.ops[other] = program.ops[other], op
        return other != key
    if operator in ("reorder", "await"):
        return move(program, key, "start" if operator == "reorder" else "await", random)
    if operator == "retype":
        return retype(op, problem.form, random)
    if operator == "resize":
        if not op.tensors:
            return False
        more = problem.group_size(op.axes) * random.choice([1, 1, 2])
        op.tensors = [(op.tensors[0][0] + more, op.tensors[0][1])] + op.tensors[1:]
        return True
    if operator == "peer":
        return repeer(problem, op, random)
    if operator == "channel":
        return rechannel(problem, op, random)
    if problem.form == 5 and op.kind not in ("send", "recv") and random.random() < 0.5:
        op.number = (op.number or 0) + 1
    else:
        op.tag = "another"
    return True


def mutate(problem, operator, random):
    """A mutant and its scope, or nothing where the op that was picked has nothing
    to change."""
    mutant, program, scope = pick_function(problem, random)
    return (mutant, scope) if change(mutant, program, operator, random) else None
