# Random models that write to their buffers (Inputs/writers.py) against PyTorch: loss,
# parameters and buffers after each of three steps, and the output in evaluation mode,
# by the evaluator; then loss of each step and all that is kept by the compiled program.
# Every number is exact. Arguments: first seed, number of seeds, mpcomm-run.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s 0 60 %t %mpcomm-run

import collections
import os
import re
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "Inputs"), os.path.join(HERE, "..", "Inputs")]
import checks
import evaluator
import programs
import torch
import writers

import mpcomm_import as mi

# What the importer may refuse of these programs, with a message that says so: operators, each
# of those that a message lists, ...
OPERATORS = [r"aten\.(as_strided|as_strided_scatter|new_empty_strided) x\d+ in .*",
             r"update in place x\d+ in .*: of a parameter in forward\(\)",
             r"\S+ x\d+ in .*: a (slice|tensor) without elements"]
# ... and what is not defined, or what PyTorch's functionalize itself does not take.
REFUSED = [r"after forward\(\) '\S+' and '\S+' share their memory; use clone\(\)",
           r"forward\(\) replaces '\S+' in one of several places that share it",
           r"forward\(\) of \S+ writes to a view of an expanded tensor, .*",
           r"forward\(\) of \S+ writes to a view of a transposed tensor, .*",
           r"tracing stopped in .*(view size is not compatible|expand_copy).*"]
DTYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "BOOL": torch.bool}


def same(what, got, expected):
    if got.shape != expected.shape or not torch.equal(got, expected):
        raise AssertionError(f"{what}: expected {expected.tolist()}, found {got.tolist()}")


def check_graph(seed, text, program, steps):
    """The imported graphs, evaluated."""
    train, evaluate = program.functions
    state = checks.initial_state(program)
    for step, (loss, expected) in enumerate(steps):
        results = evaluator.run(train, {**state, "x": writers.batch(seed, step)})
        same(f"step {step}: loss", results.pop("loss"), loss)
        state.update(results)
        for name, tensor in expected.items():
            if name in state:
                same(f"step {step}: {name}", state[name], tensor)
            else:
                same(f"step {step}: {name}, which the step does not have",
                     writers.state_of(writers.build(text))[name], tensor)
    model = writers.build(text).eval()
    model.load_state_dict({n: steps[-1][1][n] for n in writers.state_of(model)}, strict=False)
    x = writers.batch(seed, 0)
    given = {**checks.initial_state(program), **steps[-1][1], "x": x.clone()}
    output = model(x)
    results = evaluator.run(evaluate, {a.name: given[a.name] for a in evaluate.arguments})
    same("evaluate: output", results["output"], output.detach())
    same("evaluate: loss", results["loss"], writers.loss(output).detach())


def check_run(seed, program, steps, stem, runner):
    """The compiled program."""
    program.write(stem + ".mlir", weights=stem + ".w", data=stem + ".d")
    programs.run(runner, stem + ".mlir", "--np", 1, "--weights", stem + ".w", "--data",
                 stem + ".d", "--no-shuffle", "--steps", len(steps), "--quiet", "--log",
                 stem + ".log", "--save-weights", stem + ".out")
    for step, (ours, (loss, _)) in enumerate(zip(programs.read_losses(stem + ".log"), steps)):
        # A log has as many digits as f32.
        same(f"compiled, step {step}: loss", torch.tensor(ours, dtype=torch.float32),
             loss.float())
    kept = programs.read_typed(stem + ".out")[0]
    for name, (dtype, shape, values) in kept.items():
        if name in steps[-1][1]:
            same(f"compiled: {name}", torch.tensor(values, dtype=DTYPES[dtype]).reshape(shape),
                 steps[-1][1][name])
    missing = {a.name for a in program.functions[0].arguments
               if a.role in ("parameter", "buffer")} - set(kept)
    assert not missing, f"compiled: {missing} not kept"


def check(seed, text, folder, runner):
    """None, or why the importer refuses the program."""
    model = writers.build(text)
    before = {n: t.detach().clone() for n, t in writers.state_of(model).items()}
    data = {"x": torch.cat([writers.batch(seed, s) for s in range(writers.STEPS)])}
    workload = mi.Workload(model, writers.loss, torch.optim.SGD(model.parameters(), lr=0.5),
                           writers.BATCH, data, name=f"seed{seed}")
    try:
        program = mi.trace(workload)
    except mi.ImportFailure as error:
        return str(error)
    for name, tensor in writers.state_of(model).items():
        same(f"importing changed {name}", tensor.detach(), before[name])
    steps = list(writers.train(writers.build(text), seed))
    check_graph(seed, text, program, steps)
    if runner:
        check_run(seed, program, steps, os.path.join(folder, f"s{seed}"), runner)
    return None


def excuse(why):
    """"operators", "program", or None where a program should not have been refused."""
    first, *operators = why.split("\n")
    if re.fullmatch(r"\d+ unsupported operators?, \d+ uses?:", first):
        known = all(any(re.fullmatch("  " + r, o) for r in OPERATORS) for o in operators)
        return "operators" if operators and known else None
    return "program" if any(re.fullmatch(r, why) for r in REFUSED) else None


def main(first, count, folder=None, runner=None):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts, wrong = collections.Counter(), 0
    for seed in range(int(first), int(first) + int(count)):
        torch.set_default_dtype(torch.float32 if seed % 2 else torch.float64)
        text = writers.draw(seed)
        if text is None:
            counts["not drawn"] += 1
            continue
        try:
            why = check(seed, text, folder, runner)
        except (AssertionError, SystemExit) as error:
            wrong += 1
            print(f"seed {seed}: {error}\n{text}", flush=True)
            continue
        if why is None:
            counts["equal"] += 1
            continue
        counts[f"refused: {excuse(why)}"] += 1
        if excuse(why) is None:
            wrong += 1
            print(f"seed {seed}: {why}\n{text}", flush=True)
    print(dict(counts), f"wrong: {wrong}")
    assert not wrong
    if int(count) < 60:
        return
    # About one in four replaces a buffer in one of two places; one in eight needs as_strided.
    assert counts["equal"] > 4 * counts["refused: operators"], "too many lack an operator"
    assert counts["equal"] > 2 * counts["refused: program"], "too many are refused"


main(*sys.argv[1:])
