# ===- updates.py - update ops from an optimizer that is written out ------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Gathers what makes a parameter and its states anew into one mpcomm.update each.

After the marks of gradients a step is the optimizer, written out for all parameters at
once. What depends on one gradient alone is the update of that parameter; numbers that
depend on several (a norm over all) or on none (a count, a rate) are inputs of updates.
Where tensors depend on several gradients, the optimizer stays as it is written; its
gradients are known by their marks.
"""

from ..ir.graph import Op, Value


def sources(function, marks):
    """{Value: the marks that it depends on}; a number that depends on several is like one
    that depends on none."""
    own = {op.results[0]: frozenset([op]) for op in marks}
    for op in function.ops:
        if op in marks:
            continue
        found = frozenset().union(*(own.get(v, ()) for v in op.operands))
        for r in op.results:
            own[r] = frozenset() if len(found) > 1 and r.shape == () else found
    return own


class Update:
    """The update of one parameter, from the gradient that `mark` has."""

    def __init__(self, mark, leaf, states):
        self.mark, self.leaf, self.states = mark, leaf, states
        self.results = [leaf.new] + [s.new for s in states]
        self.ops = []  # of the region, in order

    def collect(self, function, own):
        """Finds the ops of the region: those that depend on the gradient, and tensors that
        only they need."""
        needed = set(self.results)
        for op in reversed(function.ops):
            if op is not self.mark and any(r in needed for r in op.results) and \
                    self.belongs(op, own):
                self.ops.append(op)
                needed.update(op.operands)
        self.ops.reverse()

    def belongs(self, op, own):
        found = own[op.results[0]]
        if found:
            return found == {self.mark}
        # Made of constants and numbers, or of the parameter and its states.
        state = {self.leaf.value, *(s.value for s in self.states)}
        return op.name == "arith.constant" or (
            any(r.shape for r in op.results) and not op.regions and
            all(v in state or not v.shape or own.get(v) == frozenset() and v.op is not None and
                self.belongs(v.op, own) for v in op.operands))

    def emit(self, location):
        """The op, whose results take the places of the new values."""
        made = {r for op in self.ops for r in op.results}
        inputs = [self.leaf.value, self.mark.operands[0]] + [s.value for s in self.states]
        inside = {v: Value(v.type) for v in inputs}
        inside[self.mark.results[0]] = inside[self.mark.operands[0]]
        wanted = [v for op in self.ops for v in op.operands] + self.results
        for v in wanted:
            if v not in made and v not in inside:
                inputs.append(v)
                inside[v] = Value(v.type)
        arguments = [(inside[v], "") for v in inputs]
        body = []
        for op in self.ops:
            body.append(Op(op.name, [inside[v] for v in op.operands], op.attributes,
                           [r.type for r in op.results], op.location))
            inside.update(zip(op.results, body[-1].results))
        body.append(Op("mpcomm.yield", [inside[v] for v in self.results], {}, [], location))
        return Op("mpcomm.update", inputs, {"optimizer": "optax"},
                  [v.type for v in self.results], location, (arguments, body))


def form_updates(function, marks, leaves):
    """Appends updates to the function, and makes their results the leaves' new values."""
    own = sources(function, marks)
    changed = [leaf for leaf in leaves if leaf.new is not None]
    if any(len(own.get(leaf.new, ())) > 1 for leaf in changed):
        return
    groups = {}
    for leaf in changed:
        for mark in own.get(leaf.new, ()):
            groups.setdefault(mark, []).append(leaf)
    for mark, group in groups.items():
        parameters = [leaf for leaf in group if leaf.argument.role == "parameter"]
        if len(parameters) != 1 or parameters[0].value.type != mark.results[0].type:
            continue
        leaf, = parameters
        update = Update(mark, leaf, [s for s in group if s is not leaf])
        if len(set(update.results)) != len(update.results):
            continue
        update.collect(function, own)
        op = update.emit(f"{leaf.name}/update")
        function.ops.append(op)
        for s, value in zip([leaf, *update.states], op.results):
            s.new = value
