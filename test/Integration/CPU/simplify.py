# REQUIRES: compiler
# RUN: %python %s %mpcomm-opt %mpcomm-run %cc %mpcomm_src_root/test/Transforms/Communicate/Inputs/two-levels.json %t.dir
#
# What mpcomm-simplify-collectives and mpcomm-move-casts rewrite gives the values of the program as
# it was: each rewrite on two and four ranks, over a mesh of two axes of which one has size one on
# two ranks. Values are small multiples of a power of two, so that no sum is rounded in any order,
# and differ between ranks and from element to element. Each value is gathered from all ranks.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers rank programs with and without the rewrites, links them and runs a step of each."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from programs import call, link, read_tensors, run, write_tensors

OPT, RUN, CC, CLUSTER, FOLDER = sys.argv[1:]
BOTH = 'on @mesh axes ["o", "i"]'
INNER = 'on @mesh axes ["i"]'
OUTER = 'on @mesh axes ["o"]'
# The rewrites that have to take place, by their remarks.
NAMES = {2: {"GroupOfOne", "AxesOfOne"}, 4: {"SlicedOverSome"}}
EVERYWHERE = {"JoinedReductions", "ReducedEqualValues", "GatheredSlice", "SlicedReduction", "CastMoved"}


def tensor(*shape, of="f32"):
    return "tensor<%s>" % "x".join([*map(str, shape), of])


def cases(ranks):
    """(name, lines, dimensions of %v) for each; %a and %b have 16 elements that are the rank's own,
    %w 16 * ranks that all ranks have. What a case makes is %v."""
    t = tensor(16)
    for name, kind, combine in [("sum", "sum", "addf"), ("difference", "mean", "subf"),
                                ("maximum", "max", "maximumf")]:  # fmt: skip
        yield name, """
            %%r = mpcomm.all_reduce(%%a) %s %s : %s
            %%s = mpcomm.all_reduce(%%b) %s %s : %s
            %%v = arith.%s %%r, %%s : %s""" % (BOTH, kind, t, BOTH, kind, t, combine, t), [16]  # fmt: skip
    i = tensor(16, of="i32")
    yield "integers", """
        %%j = arith.fptosi %%a : %s to %s
        %%k = arith.fptosi %%b : %s to %s
        %%r = mpcomm.all_reduce(%%j) %s sum : %s
        %%s = mpcomm.all_reduce(%%k) %s sum : %s
        %%d = arith.subi %%r, %%s : %s
        %%v = arith.sitofp %%d : %s to %s""" % (t, i, t, i, BOTH, i, BOTH, i, i, i, t), [16]  # fmt: skip
    block = tensor(16 // ranks)
    yield "scatters", """
        %%r = mpcomm.reduce_scatter(%%a) %s sum dims = [0] : (%s) -> %s
        %%s = mpcomm.reduce_scatter(%%b) %s sum dims = [0] : (%s) -> %s
        %%v = arith.addf %%r, %%s : %s""" % (BOTH, t, block, BOTH, t, block, block), [16 // ranks]  # fmt: skip
    outer = tensor(16 * 2 // ranks)
    yield "outer", """
        %%r = mpcomm.all_reduce(%%a) %s mean wire bf16 accumulate f32 : %s
        %%v = mpcomm.reduce_scatter(%%r) %s sum dims = [0] : (%s) -> %s""" % (
            OUTER, t, OUTER, t, outer), [16 * 2 // ranks]  # fmt: skip
    whole = tensor(16 * ranks)
    for kind in "sum", "mean", "min":
        yield "equal-" + kind, """
            %%v = mpcomm.all_reduce(%%w) %s %s : %s""" % (BOTH, kind, whole), [16 * ranks]  # fmt: skip
    yield "equal-block", """
        %%v = mpcomm.reduce_scatter(%%w) %s sum dims = [0] : (%s) -> %s""" % (BOTH, whole, t), [16]  # fmt: skip
    yield "gathered", """
        %%r = mpcomm.all_slice %%w %s dim = 0 : (%s) -> %s
        %%v = mpcomm.all_gather(%%r) %s dims = [0] : (%s) -> %s""" % (
            BOTH, whole, t, BOTH, t, whole), [16 * ranks]  # fmt: skip
    rows, row = tensor(2, 8), tensor(2, 8 // ranks)
    yield "reshaped", """
        %%r = mpcomm.all_reduce(%%a) %s sum : %s
        %%s = mpcomm.reshape %%r : (%s) -> %s
        %%v = mpcomm.all_slice %%s %s dim = 1 : (%s) -> %s""" % (
            BOTH, t, t, rows, BOTH, rows, row), [2, 8 // ranks]  # fmt: skip
    half = tensor(2, 4)
    yield "over-some", """
        %%r = mpcomm.all_reduce(%%a) %s mean : %s
        %%s = mpcomm.reshape %%r : (%s) -> %s
        %%v = mpcomm.all_slice %%s %s dim = 1 : (%s) -> %s""" % (
            BOTH, t, t, rows, INNER, rows, half), [2, 4]  # fmt: skip
    # Thirds are rounded, before the message and after it.
    narrow, wide = tensor(16, of="bf16"), tensor(16 * ranks)
    yield "widened", """
        %%n = arith.truncf %%a : %s to %s
        %%e = arith.extf %%n : %s to %s
        %%c = arith.constant dense<3.0> : %s
        %%q = arith.divf %%e, %%c : %s
        %%v = mpcomm.all_gather(%%q) %s dims = [0] : (%s) -> %s""" % (
            t, narrow, narrow, t, t, t, BOTH, t, wide), [16 * ranks]  # fmt: skip
    line = tensor(8 * ranks, 2)
    yield "narrowed", """
        %%g = mpcomm.all_gather(%%a) %s dims = [0] : (%s) -> %s
        %%s = mpcomm.reshape %%g : (%s) -> %s
        %%c = arith.constant dense<3.0> : %s
        %%q = arith.divf %%s, %%c : %s
        %%n = arith.truncf %%q : %s to %s
        %%v = arith.extf %%n : %s to %s""" % (
            BOTH, t, wide, wide, line, line, line, line, tensor(8 * ranks, 2, of="bf16"),
            tensor(8 * ranks, 2, of="bf16"), line), [8 * ranks, 2]  # fmt: skip


def collectives(ranks):
    """A step that adds what each case makes on all ranks to a buffer of the case, and its name and
    shape. No two cases have operands in common."""
    arguments, results, body, values, outputs = [], [], [], [], {}
    fact = '{mpcomm.role = #mpcomm.role<%s>, mpcomm.name = "%s"'
    for n, (name, lines, shape) in enumerate(cases(ranks)):
        whole, own = tensor(16 * ranks), tensor(16)
        made, gathered = tensor(*shape), [ranks * shape[0], *shape[1:]]
        out = tensor(*gathered)
        lines = """
            %%f = arith.constant dense<%d.0> : %s
            %%g1 = arith.constant dense<%d.0> : %s
            %%p1 = arith.mulf %%p, %%f : %s
            %%q1 = arith.mulf %%p, %%g1 : %s
            %%a = mpcomm.all_slice %%p1 %s dim = 0 : (%s) -> %s
            %%b1 = mpcomm.all_slice %%q1 %s dim = 0 : (%s) -> %s
            %%b = arith.mulf %%b1, %%b1 : %s
            %%w = arith.addf %%q1, %%f : %s
        """ % (n + 1, whole, 2 * n + 3, whole, whole, whole, BOTH, whole, own, BOTH, whole, own,
               own, whole) + lines + """
            %%twice = arith.addf %%v, %%v : %s
            %%all = mpcomm.all_gather(%%twice) %s dims = [0] : (%s) -> %s
            %%new = arith.addf %%state, %%all : %s
        """ % (made, BOTH, made, out, out)  # fmt: skip
        body.append(re.sub(r"%(?!p\b)(\w+)", r"%%\g<1>_%d" % n, lines))
        arguments.append("%%state_%d: %s %s, mpcomm.donated = %d : i64}"
                         % (n, out, fact % ("buffer", name), n + 1))  # fmt: skip
        results.append("%s %s}" % (out, fact % ("buffer", name)))
        values.append(("%%new_%d" % n, out))
        outputs[name] = gathered
    axes = '"o" = %d, "i" = 2' % (ranks // 2)
    return """mpcomm.mesh @mesh <[%s]>
func.func @train_step(%s,
    %%p: %s %s},
    %%x: tensor<1xf32> %s})
    -> (tensor<f32> %s}, %s) {
  %s
  %%loss = arith.constant dense<0.0> : tensor<f32>
  return %%loss, %s : tensor<f32>, %s
}
""" % (axes, ",\n    ".join(arguments), tensor(16 * ranks), fact % ("buffer", "p"),
       fact % ("batch", "x"), fact % ("loss", "loss"), ", ".join(results), "\n".join(body),
       ", ".join(v for v, _ in values), ", ".join(t for _, t in values)), outputs  # fmt: skip


MESSAGES = """mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.rank0, @train_step.rank1]
func.func @train_step.rank0(
    %p: tensor<16xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "p", mpcomm.donated = 1 : i64},
    %x: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<16xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "p"}) {
  %n = arith.truncf %p : tensor<16xf32> to tensor<16xbf16>
  %w = arith.extf %n : tensor<16xbf16> to tensor<16xf32>
  %s = mpcomm.reshape %w : (tensor<16xf32>) -> tensor<4x4xf32>
  %f = mpcomm.async {
    mpcomm.send(%s) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<4x4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  mpcomm.send(%p) on @mesh axes ["pp"] to = 1 channel = 2 : tensor<16xf32>
  mpcomm.await %f : !mpcomm.future<>
  %one = arith.constant dense<1.0> : tensor<16xf32>
  %r = arith.addf %p, %one : tensor<16xf32>
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %r : tensor<f32>, tensor<16xf32>
}
func.func @train_step.rank1(
    %q: tensor<16xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "q", mpcomm.donated = 1 : i64},
    %x: tensor<1xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<16xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "q"}) {
  %f = mpcomm.async {
    %g = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<4x4xf32>
    mpcomm.yield %g : tensor<4x4xf32>
  } : !mpcomm.future<tensor<4x4xf32>>
  %h = mpcomm.await %f : !mpcomm.future<tensor<4x4xf32>>
  %s = mpcomm.reshape %h : (tensor<4x4xf32>) -> tensor<16xf32>
  %k = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 2 : tensor<16xf32>
  %n = arith.truncf %k : tensor<16xf32> to tensor<16xbf16>
  %w = arith.extf %n : tensor<16xbf16> to tensor<16xf32>
  %u = arith.subf %s, %w : tensor<16xf32>
  %v = arith.addf %u, %s : tensor<16xf32>
  %r = arith.addf %q, %v : tensor<16xf32>
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %r : tensor<f32>, tensor<16xf32>
}
"""


def passes(rewrites):
    simplify = "--mpcomm-simplify-collectives=cluster=" + CLUSTER
    return [simplify, "--mpcomm-move-casts", "--mpcomm-verify-communication"] * rewrites


def step(name, text, ranks, rewrites, *arguments):
    """What the program leaves, and the number of collectives in it."""
    text = call([OPT, *passes(rewrites)], text.encode())
    program = os.path.join(FOLDER, "%s-%d-%d.so" % (name, ranks, rewrites))
    link(CC, call([OPT, "--mpcomm-lower", "--mpcomm-program"], text), program)
    out = program + ".safetensors"
    run(RUN, program, "--np", ranks, "--steps", 2, "--checkpoint", out, "--quiet", *arguments)
    return read_tensors(out), len(re.findall(rb"= mpcomm\.(?:all_|reduce_)", text))


def compare(name, text, ranks, *arguments):
    before, sent = step(name, text, ranks, False, *arguments)
    after, left = step(name, text, ranks, True, *arguments)
    for key in before:
        if before[key] != after[key]:
            sys.exit("%s on %d ranks: %s is %s, expected %s"
                     % (name, ranks, key, after[key], before[key]))  # fmt: skip
    return before, sent, left


def remarks(text):
    """The names of all rewrites."""
    file = os.path.join(FOLDER, "remarks.mlir")
    with open(file, "w") as out:
        out.write(text)
    said = run(OPT, file, "--remarks-filter=mpcomm.*", "--remark-format=emitRemark", "-o", "/dev/null",
               *passes(True))  # fmt: skip
    return set(re.findall(r"\[Passed\] (\w+)", said))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for ranks in (2, 4):
        text, outputs = collectives(ranks)
        missing = (EVERYWHERE | NAMES[ranks]) - remarks(text)
        if missing:
            sys.exit("on %d ranks no %s" % (ranks, ", ".join(sorted(missing))))
        state = {"p": ([16 * ranks], [float(k * k % 23 - 11) for k in range(16 * ranks)])}
        for name, shape in outputs.items():
            count = 1
            for size in shape:
                count *= size
            state[name] = (shape, [0.0] * count)
        weights = write_tensors(os.path.join(FOLDER, "w.safetensors"), state)
        data = write_tensors(os.path.join(FOLDER, "d.safetensors"), {"x": ([16], [0.0] * 16)})
        made, sent, left = compare("collectives", text, ranks, "--weights", weights, "--data", data)
        for name in outputs:
            if not any(made[name]):
                sys.exit("%s on %d ranks: nothing but zeros" % (name, ranks))
        print("%d ranks: the same bits, %d collectives and slices of %d" % (ranks, left, sent))
    if remarks(MESSAGES) != {"CastMoved"}:
        sys.exit("no cast moves across messages: %s" % remarks(MESSAGES))
    state = {"p": ([16], [1 + k / 1000 for k in range(16)]), "q": ([16], [0.0] * 16)}
    weights = write_tensors(os.path.join(FOLDER, "w.safetensors"), state)
    made, _, _ = compare("messages", MESSAGES, 2, "--weights", weights, "--data", data)
    if not any(made["q"]):
        sys.exit("messages: nothing but zeros")
    print("messages: the same bits")


main()
