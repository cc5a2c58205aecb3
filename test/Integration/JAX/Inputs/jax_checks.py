# ===- jax_checks.py - imported graphs against JAX itself -------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs functions and training steps of JAX, and what is imported of them on the
evaluator of the importer's other tests, and compares."""

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4)
sys.path.insert(0, os.path.join(ROOT, "tools", "mpcomm-import"))
sys.path.insert(0, os.path.join(ROOT, "test", "Integration", "PyTorch", "Inputs"))

import checks as rounding_of  # noqa: E402 (PyTorch's, for what rounding makes)
import evaluator  # noqa: E402
import mpcomm_import as mi  # noqa: E402
from mpcomm_import.jax_front import importer  # noqa: E402,F401 (registers translations)
from mpcomm_import.hlo.translator import Translator, numpy_type  # noqa: E402
from mpcomm_import.ir.graph import Argument, Builder, Function, Result, Type, eliminate_dead_code  # noqa: E402
from mpcomm_import.jax_front.trace import lower  # noqa: E402
from mpcomm_import.emit.views import View, materialise  # noqa: E402

EXAMPLES = os.path.join(ROOT, "docs", "examples")


# --- what the evaluator lacks: integers of any kind, and more functions -------------------- #

def without_sign(function):
    """A function of arrays of integers without a sign, on tensors."""
    def apply(*tensors):
        arrays = [x.numpy() for x in tensors]
        arrays = [x if x.dtype == bool else x.view(f"u{x.dtype.name}") for x in arrays]
        result = function(*arrays)
        return tensor(result if result.dtype == bool else result.astype(arrays[0].dtype))
    return apply


def bitwise(on_booleans, on_integers):
    return lambda a, b: (on_booleans if a.dtype == torch.bool else on_integers)(a, b)


COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def compare_integers(a, b, predicate):
    if predicate[0] == "u":
        return without_sign(COMPARE[predicate[1:]])(a, b)
    return evaluator.compare(a, b, predicate)


def reduce(x, reduction, dims):
    if x.dtype == torch.bool:
        for d in sorted(dims, reverse=True):
            x = x.any(d) if reduction == "sum" else x.all(d)
        return x
    result = evaluator.reduce(x, reduction, dims)
    return result.to(x.dtype)


def whole_division(a, b):
    return torch.div(a, b, rounding_mode="trunc")


evaluator.DTYPES.update({"i8": torch.int8, "i16": torch.int16})
evaluator.OPS.update({
    "arith.andi": bitwise(torch.logical_and, torch.bitwise_and),
    "arith.ori": bitwise(torch.logical_or, torch.bitwise_or),
    "arith.xori": bitwise(torch.logical_xor, torch.bitwise_xor),
    "arith.shli": without_sign(np.left_shift),
    "arith.shrui": without_sign(np.right_shift),
    "arith.shrsi": torch.bitwise_right_shift,
    "arith.divsi": whole_division, "arith.remsi": torch.fmod, "arith.remf": torch.fmod,
    "arith.divui": without_sign(np.floor_divide),
    "arith.remui": without_sign(np.fmod),
    "arith.maxsi": torch.maximum, "arith.minsi": torch.minimum,
    "arith.maxui": without_sign(np.maximum),
    "arith.minui": without_sign(np.minimum),
    "arith.cmpi": compare_integers,
    "math.expm1": torch.expm1, "math.log1p": torch.log1p, "math.tan": torch.tan,
    "math.floor": torch.floor, "math.ceil": torch.ceil, "math.roundeven": torch.round,
    "math.round": lambda x: torch.where(x < 0, -(-x + 0.5).floor(), (x + 0.5).floor()),
    "math.cbrt": lambda x: torch.sign(x) * x.abs() ** (1 / 3),
    "math.absi": torch.abs, "math.atan2": torch.atan2, "math.erfc": torch.erfc,
    "math.asin": torch.asin, "math.acos": torch.acos, "math.atan": torch.atan,
    "math.sinh": torch.sinh, "math.cosh": torch.cosh, "math.asinh": torch.asinh,
    "math.acosh": torch.acosh, "math.atanh": torch.atanh,
    "math.ipowi": lambda a, b: (a ** b).to(a.dtype),
    "math.ctpop": without_sign(lambda x: sum(x >> x.dtype.type(i) & x.dtype.type(1) for i in range(8 * x.itemsize))),
    "math.ctlz": without_sign(lambda x: sum(x >> x.dtype.type(i) == 0 for i in range(8 * x.itemsize))),
    "mpcomm.reduce": reduce,
    "mpcomm.gradient": lambda x: x,
})
NUMPY = {"f32": np.float32, "f64": np.float64, "i16": np.int16, "i32": np.int32,
         "i64": np.int64}
plain_execute = evaluator.execute


def execute(op, operands):
    dtype = evaluator.DTYPES.get(op.results[0].type.dtype)
    if op.name == "arith.bitcast":
        return operands[0].view(dtype)
    if op.name in ("arith.extui", "arith.uitofp") and operands[0].dtype != torch.bool:
        array = operands[0].numpy()
        return torch.from_numpy(array.view(f"u{array.dtype.name}").astype(
            NUMPY[op.results[0].type.dtype]))
    return plain_execute(op, operands)


evaluator.execute = execute


# --- functions ------------------------------------------------------------------------------ #

def tensor(x):
    """An array of JAX as a tensor, without signs."""
    x = np.asarray(x)
    if x.dtype.kind == "u":
        x = x.view(x.dtype.name[1:])
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x).reshape(x.shape).copy())


def translate(function, *inputs, extents=None):
    """(graph, constants) of a function of JAX at these arrays."""
    graph, pool = Function("f"), {}
    module, _ = lower("f", function, *inputs)
    leaves = jax.tree_util.tree_leaves(inputs)
    graph.arguments = [Argument("batch", f"x{i}", Type(x.shape, numpy_type(np.asarray(x).dtype)))
                       for i, x in enumerate(leaves)]
    translator = Translator(Builder(graph), pool, "f",
                            {graph.arguments[i].value: e for i, e in (extents or {}).items()})
    results = translator.run(module, [View.of(a.value) for a in graph.arguments])
    graph.results = [Result("output", f"y{i}", materialise(translator.builder, translator.view(x)))
                     for i, x in enumerate(results)]
    for name, value in translator.constants.items():
        graph.arguments.append(Argument("buffer", name, value.type))
        graph.arguments[-1].value = value
    eliminate_dead_code(graph)
    return graph, pool


def same(function, *inputs, extents=None, units=8):
    """Compares a function's results: integers exactly, floats up to rounding: what
    sums make (see `rounding` of PyTorch's checks), and `units` in the last place for
    elementary functions. Returns the graph."""
    expected = jax.tree_util.tree_leaves(jax.jit(function)(*inputs))
    graph, pool = translate(function, *inputs, extents=extents)
    arguments = {f"x{i}": tensor(x) for i, x in enumerate(jax.tree_util.tree_leaves(inputs))}
    arguments.update({n: tensor(x) for n, x in pool.items()})
    results = evaluator.run(graph, arguments)
    terms = sum(map(rounding_of.summed, graph.ops))
    for i, want in enumerate(expected):
        want, got = tensor(want), results[f"y{i}"]
        assert want.shape == got.shape and want.dtype == got.dtype, (i, want.dtype, got.dtype)
        if not want.dtype.is_floating_point:
            assert torch.equal(want, got), (i, want, got)
            continue
        want, got, kind = want.double(), got.double(), want.dtype
        both = torch.isfinite(want) & torch.isfinite(got)
        assert torch.equal(want[~both].nan_to_num(7.0), got[~both].nan_to_num(7.0)), (i, want, got)
        size = max(1.0, want[both].abs().max().item() if both.any() else 0.0)
        off = (want - got)[both].abs().max().item() / size if both.any() else 0.0
        bound = (units + terms) * torch.finfo(kind).eps
        assert off <= bound, f"result {i} differs by {off:.3g}, more than {bound:.3g}"
    return graph


# --- training steps ------------------------------------------------------------------------- #

def batch_of(workload, step, size=None):
    n = size or workload.batch
    first = step * n % (len(next(iter(workload.dataset.values()))) - n + 1)
    return {k: v[first:first + n] for k, v in workload.dataset.items()}


def train(workload, steps=20, units=1.0):
    """The losses of imported steps and of JAX's; AssertionError where they part by more than
    what rounding makes of a step, times the steps done, of both."""
    program = mi.trace(workload)
    state = {n: tensor(v) for n, v in program.weights.items()}
    graph = program.functions[0]
    for a in graph.arguments:
        if "default" in a.attributes:
            state[a.name] = torch.tensor(float(a.attributes["default"]))
    ours, step, theirs = [], jax.jit(workload.whole_step()), workload.initial_state()
    # Optax computes schedules and corrections of bias in f32, whatever parameters are.
    double = all(v.dtype != "f32" for op in graph.ops for v in op.results)
    unit_error = units * rounding_of.rounding(graph, double)
    for i in range(steps):
        batch, seed, key = batch_of(workload, i), np.array([i, 2**32 - 1 - i], np.uint32), []
        if workload.rng:
            state["rng.seed"], key = tensor(seed), [jax.random.wrap_key_data(seed)]
        results = evaluator.run(graph, {**state, **{n: tensor(v) for n, v in batch.items()}})
        theirs, loss = step(theirs, batch, *key)[:2]
        loss = float(loss)
        ours.append(results["loss"].item())
        bound = 2 * (i + 1) * unit_error
        off = abs(ours[-1] - loss) / max(abs(loss), 1e-12)
        assert off <= bound, f"step {i}: the loss differs by {off:.3g}, more than {bound:.3g}"
        state.update({n: v for n, v in results.items() if n != "loss"})
    if workload.evaluate is not None:
        batch = batch_of(workload, 0)
        got = evaluator.run(program.functions[1], {
            **state, **{n: tensor(v) for n, v in batch.items()}})
        loss, output = jax.jit(workload.evaluate)(theirs, batch)
        bound = 2 * (steps + 1) * unit_error
        assert abs(got["loss"].item() - float(loss)) <= bound * abs(float(loss))
        assert rounding_of.difference(tensor(output), got["output"]) <= bound
    return program, ours


