# ===- structure.py - contractions, reductions, movement, elementwise ops === #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The other table: ops that have no name in torch.nn."""

import random

import torch
import torch.nn.functional as F

from harness import Case, NAMES, type_of
from cases import FLOATS, like, rand, types


def contractions():
    rng = random.Random(0)
    for i in range(60):
        yield random_contraction(rng, "dot_%d" % i, FLOATS[i % 4] if i >= 40 else torch.float32)
    # Outer product; sum of nothing; result of nothing; scalars.
    yield dot("dot_outer", torch.float32, (3,), (4,), [], [])
    yield dot("dot_empty_sum", torch.float32, (3, 0), (0, 4), [], [(1, 0)])
    yield dot("dot_empty", torch.float32, (0, 3), (3, 4), [], [(1, 0)])
    yield dot("dot_inner", torch.float32, (5,), (5,), [], [(0, 0)])
    yield dot("dot_batched_inner", torch.float32, (5, 3), (3, 5), [(0, 1)], [(1, 0)])
    yield dot("dot_batch_last", torch.float32, (3, 4, 5), (4, 2, 5), [(2, 2)], [(1, 0)])


def random_contraction(rng, name, dtype):
    """Operands whose dimensions are in any order, around them transposes."""
    kinds = [rng.choice("bmnk") for _ in range(rng.randint(2, 6))] + ["k", "m"]
    sizes = [rng.choice([1, 2, 3, 4]) for _ in kinds]
    sides = []
    for own in ("bmk", "bnk"):
        loops = [i for i, k in enumerate(kinds) if k in own]
        rng.shuffle(loops)
        sides.append(loops)
    shapes = [[sizes[i] for i in loops] for loops in sides]
    batch = [(sides[0].index(i), sides[1].index(i)) for i, k in enumerate(kinds) if k == "b"]
    inner = [(sides[0].index(i), sides[1].index(i)) for i, k in enumerate(kinds) if k == "k"]
    rng.shuffle(batch)
    orders = [rng.sample(range(len(s)), len(s)) if rng.random() < 0.5 else None
              for s in shapes]
    result_rank = len(batch) + sum(len(s) for s in shapes) - 2 * (len(batch) + len(inner))
    result_rank += 0
    out_rank = len(batch) + (len(shapes[0]) - len(batch) - len(inner)) + \
        (len(shapes[1]) - len(batch) - len(inner))
    after = rng.sample(range(out_rank), out_rank) if rng.random() < 0.5 else None
    return dot(name, dtype, shapes[0], shapes[1], batch, inner, orders, after,
               scale=rng.random() < 0.3)


def dot(name, dtype, lhs_shape, rhs_shape, batch, inner, orders=(None, None),
        after=None, scale=False):
    """`orders`: the operands are transposes of what comes in; `after`: the
    result is transposed (and doubled before, if `scale`)."""
    lines, values, inputs = [], [], []
    for k, (shape, order) in enumerate(zip((lhs_shape, rhs_shape), orders)):
        value = rand(*shape, dtype=dtype)
        values.append(value)
        if order is None:
            inputs.append(value)
            continue
        # value = transpose(input, order)
        stored = [0] * len(order)
        for i, d in enumerate(order):
            stored[d] = i
        source = value.permute(stored).contiguous()
        inputs.append(source)
        lines.append("%%t%d = mpcomm.transpose %%%d, dims = %s : (%s) -> %s" % (
            k, k, list(order), type_of(source), type_of(value)))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names = [[None] * len(lhs_shape), [None] * len(rhs_shape)]
    out = []
    for l, r in batch:
        names[0][l] = names[1][r] = next(letters)
        out.append(names[0][l])
    for l, r in inner:
        names[0][l] = names[1][r] = next(letters)
    for side in names:
        for i, n in enumerate(side):
            if n is None:
                side[i] = next(letters)
                out.append(side[i])
    want = torch.einsum("%s,%s->%s" % ("".join(names[0]), "".join(names[1]), "".join(out)),
                        *(v.double() for v in values))
    operands = ["%%t%d" % k if o is not None else "%%%d" % k for k, o in enumerate(orders)]
    batching = "batching_dims = %s x %s, " % ([l for l, _ in batch], [r for _, r in batch]) \
        if batch else ""
    product = like(want.shape, dtype)
    lines.append("%%r = mpcomm.dot_general %s, %s, %scontracting_dims = %s x %s : (%s) -> %s" % (
        operands[0], operands[1], batching, [l for l, _ in inner], [r for _, r in inner],
        types(*values), type_of(product)))
    last = "%r"
    if scale:
        lines.append("%%s = arith.addf %%r, %%r : %s" % type_of(product))
        last, want = "%s", want.to(dtype).double() * 2
    if after is not None and want.dim():
        want = want.permute(after).contiguous()
        lines.append("%%u = mpcomm.transpose %s, dims = %s : (%s) -> %s" % (
            last, list(after), type_of(product), type_of(like(want.shape, dtype))))
        last = "%u"
    length = 1
    for l, _ in inner:
        length *= lhs_shape[l]
    # Sums of products of both signs cancel: relative to the terms.
    return Case(name, inputs, "\n".join(lines) + "\nreturn " + last, [want],
                length=length * 16)


def reductions():
    torch.manual_seed(1)
    for dtype in FLOATS + [torch.int64, torch.int32]:
        for shape, dims in [((3, 5), [1]), ((3, 5), [0]), ((3, 5), [0, 1]), ((2, 3, 4), [1]),
                            ((2, 3, 4), [0, 2]), ((2, 3, 4), [0, 1]), ((2, 3, 4), [1, 2]),
                            ((7,), [0]), ((0, 3), [0]), ((0, 3), [1]), ((2, 1), [1])]:
            x = rand(*shape, dtype=dtype) if dtype.is_floating_point else \
                torch.randint(-9, 9, shape).to(dtype)
            for kind in ["sum", "prod", "min", "max"]:
                yield reduction(kind, x, dims)
    x = torch.tensor([[1.0, float("nan"), 3.0], [4.0, 5.0, 6.0]])
    for kind in ["min", "max", "sum"]:
        yield reduction(kind, x, [1], "_nan")
    x = torch.tensor([[True, False], [False, False], [True, True]])
    for kind, want in [("max", x.any(1)), ("min", x.all(1))]:
        yield Case("reduce_%s_i1" % kind, [x],
                   "%%r = mpcomm.reduce %s %%0, dims = [1] : (tensor<3x2xi1>) -> tensor<3xi1>\n"
                   "return %%r" % kind, [want])


def reduction(kind, x, dims, suffix=""):
    want = x.double() if x.dtype.is_floating_point else x.clone()
    for d in reversed(dims):
        if kind == "sum":
            want = want.sum(d)
        elif kind == "prod":
            want = want.prod(d)
        elif want.shape[d] == 0:
            info = torch.finfo if x.dtype.is_floating_point else torch.iinfo
            limit = float("inf") if x.dtype.is_floating_point else info(x.dtype).max
            if kind == "max":
                limit = -limit if x.dtype.is_floating_point else info(x.dtype).min
            shape = list(want.shape)
            del shape[d]
            want = torch.full(shape, limit, dtype=want.dtype)
        else:
            want = want.amin(d) if kind == "min" else want.amax(d)
    tag = "%s_%s_%s_%s%s" % (kind, NAMES[x.dtype], "x".join(map(str, x.shape)),
                             "_".join(map(str, dims)), suffix)
    out = like(want.shape, x.dtype)
    return Case("reduce_" + tag, [x],
                "%%r = mpcomm.reduce %s %%0, dims = %s : (%s) -> %s\nreturn %%r" % (
                    kind, dims, type_of(x), type_of(out)), [want], length=x.numel() * 8)


def movement():
    torch.manual_seed(2)
    for dtype in [torch.float32, torch.bfloat16, torch.int64, torch.bool]:
        yield from movement_of(dtype)
    yield Case("iota_i64", [], "%r = mpcomm.iota dim = 1 : tensor<2x3xi64>\nreturn %r",
               [torch.arange(3).expand(2, 3)], [torch.int64])
    yield Case("iota_bf16", [], "%r = mpcomm.iota dim = 0 : tensor<4xbf16>\nreturn %r",
               [torch.arange(4).double()], [torch.bfloat16])


def movement_of(dtype):
    def make(*shape):
        if dtype == torch.bool:
            return torch.rand(shape) > 0.5
        return rand(*shape, dtype=dtype) if dtype.is_floating_point else \
            torch.randint(-99, 99, shape)

    def case(name, inputs, body, want):
        expected = want.double() if dtype.is_floating_point else want
        return Case("%s_%s" % (name, NAMES[dtype]), inputs, body, [expected.contiguous()],
                    [dtype])

    x = make(2, 3, 4)
    t = type_of(x)
    want = x.permute(2, 0, 1)
    yield case("transpose", [x], "%%r = mpcomm.transpose %%0, dims = [2, 0, 1] : (%s) -> %s\n"
               "return %%r" % (t, type_of(want)), want)
    for i, shape in enumerate([(24,), (6, 4), (2, 12), (4, 6), (2, 3, 2, 2), (1, 24, 1),
                               (3, 8), (2, 1, 3, 4, 1)]):
        want = x.reshape(shape)
        yield case("reshape_%d" % i, [x], "%%r = mpcomm.reshape %%0 : (%s) -> %s\nreturn %%r" % (
            t, type_of(want)), want)
    one = make(1, 1)
    yield case("reshape_to_0d", [one], "%%r = mpcomm.reshape %%0 : (%s) -> %s\nreturn %%r" % (
        type_of(one), type_of(one.reshape(()))), one.reshape(()))
    zero = make()
    yield case("reshape_of_0d", [zero], "%%r = mpcomm.reshape %%0 : (%s) -> %s\nreturn %%r" % (
        type_of(zero), type_of(one)), zero.reshape(1, 1))
    none = make(0, 3)
    yield case("reshape_of_none", [none], "%%r = mpcomm.reshape %%0 : (%s) -> %s\nreturn %%r" % (
        type_of(none), type_of(make(2, 0, 5))), none.reshape(2, 0, 5))
    for i, (shape, dims, result) in enumerate([
            ((4,), [2], (2, 3, 4)), ((2, 1), [0, 1], (2, 5)), ((), [], (3, 2)),
            ((3, 4), [1, 2], (2, 3, 4)), ((1, 4), [0, 2], (2, 3, 4)), ((3,), [0], (3, 0))]):
        v = make(*shape)
        full = [1] * len(result)
        for d, n in zip(dims, shape):
            full[d] = n
        want = v.reshape(full).expand(result)
        yield case("broadcast_%d" % i, [v],
                   "%%r = mpcomm.broadcast_in_dim %%0, dims = %s : (%s) -> %s\nreturn %%r" % (
                       dims, type_of(v), type_of(like(result, dtype))), want)
    y = make(7, 6)
    want = y[1:6:2, 2:3]
    yield case("slice", [y], "%%r = mpcomm.slice %%0, starts = [1, 2], limits = [6, 3], "
               "strides = [2, 1] : (%s) -> %s\nreturn %%r" % (type_of(y), type_of(want)), want)
    a, b = make(2, 3), make(2, 1)
    want = torch.cat([a, b, a], 1)
    yield case("concatenate", [a, b], "%%r = mpcomm.concatenate %%0, %%1, %%0, dim = 1 : "
               "(%s) -> %s\nreturn %%r" % (types(a, b, a), type_of(want)), want)
    # Reshapes that go after the concatenation: heads of 3 and of 2.
    p, q = make(2, 5, 3, 2), make(2, 5, 2, 2)
    flat = [p.reshape(2, 5, 6), q.reshape(2, 5, 4)]
    want = torch.cat(flat, 2)
    yield case("concatenate_reshaped", [p, q],
               "%%a = mpcomm.reshape %%0 : (%s) -> %s\n%%b = mpcomm.reshape %%1 : (%s) -> %s\n"
               "%%r = mpcomm.concatenate %%a, %%b, dim = 2 : (%s) -> %s\nreturn %%r" % (
                   type_of(p), type_of(flat[0]), type_of(q), type_of(flat[1]),
                   types(*flat), type_of(want)), want)
    v = make()
    want = v.expand(2 + 5 + 2 * 2, 2).clone()
    source = make(3, 2)
    want[2:9:3] = source
    yield case("pad", [source, v], "%%r = mpcomm.pad %%0, %%1, low = [2, 0], high = [2, 0], "
               "interior = [2, 0] : (%s) -> %s\nreturn %%r" % (
                   types(source, v), type_of(want)), want)


def elementwise():
    torch.manual_seed(3)
    for dtype in FLOATS:
        x, y = rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype)
        t = type_of(x)
        name = NAMES[dtype]
        xd, yd = x.double(), y.double()
        c = t.replace(name, "i1")
        yield Case("select_" + name, [x, y],
                   "%%c = arith.cmpf ogt, %%0, %%1 : %s\n"
                   "%%z = arith.constant dense<0.0> : %s\n"
                   "%%r = arith.select %%c, %%0, %%z : %s, %s\nreturn %%r, %%c" % (t, t, c, t),
                   [torch.where(x > y, xd, torch.zeros_like(xd)), x > y], [dtype, torch.bool])
        yield Case("exp_" + name, [x], "%%r = math.exp %%0 : %s\nreturn %%r" % t, [xd.exp()])
        yield Case("tanh_" + name, [x],
                   "%%a = math.absf %%0 : %s\n%%r = math.tanh %%a : %s\nreturn %%r" % (t, t),
                   [xd.abs().tanh()])
        z = rand(dtype=dtype)
        yield Case("rank0_" + name, [z], "%%r = arith.mulf %%0, %%0 : %s\nreturn %%r" % type_of(z),
                   [z.double() ** 2])
    x = torch.randint(-5, 5, (6,)).to(torch.int32)
    yield Case("sitofp", [x], "%r = arith.sitofp %0 : tensor<6xi32> to tensor<6xf32>\nreturn %r",
               [x.double()], [torch.float32])
    x = rand(5)
    yield Case("truncf", [x], "%r = arith.truncf %0 : tensor<5xf32> to tensor<5xbf16>\nreturn %r",
               [x.double()], [torch.bfloat16])


def all_cases():
    for family in [contractions, reductions, movement, elementwise]:
        torch.manual_seed(4)
        yield from family()
