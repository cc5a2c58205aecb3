# Convolutions, pools, interpolation, padding and norms with random arguments, against
# PyTorch in f64: results, and by a step of rate 1 the gradients of inputs and
# parameters. By the evaluator of graphs, or compiled and run. The seed and the modules
# of a case that differs are printed.
#
# REQUIRES: torch
# RUN: %python %s evaluate 10 2

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "Inputs"), os.path.join(HERE, "..", "Inputs")]
import cases
import checks
import programs
import torch

import mpcomm_import as mi


def run_compiled(run, workload, folder):
    """One step of the compiled program, as checks.check compares it."""
    checks.in_double(workload)
    program = mi.trace(workload)
    bound = 2 * checks.rounding(program.functions[0], True)
    step, weights, data, after = (os.path.join(folder, n) for n in ("s.mlir", "w", "d", "a"))
    program.write(step, weights=weights, data=data)
    programs.run(run, step, "--np", 1, "--weights", weights, "--data", data, "--steps", 1,
                 "--no-shuffle", "--quiet", "--save-weights", after, limit=500)
    checks.eager_step(workload, checks.batch_of(workload, workload.dataset, 0))
    expected = dict(workload.model.named_parameters())
    expected.update((n, b) for n, b in workload.model.named_buffers() if b.is_floating_point())
    got = programs.read_tensors(after)
    for name, value in expected.items():
        ours = torch.tensor(got[name], dtype=torch.float64).reshape(value.shape)
        d = checks.difference(value.detach(), ours)
        assert d <= bound, f"{name} differs by {d:.3g} of {bound:.3g}"


def check(way, kind, count, seed):
    model, data = cases.several(kind, count, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    workload = mi.Workload(model, cases.weighted_sum, optimizer, cases.SAMPLES, data,
                           name="model")
    try:
        if way == "evaluate":
            checks.check(workload, steps=1)
        else:
            with tempfile.TemporaryDirectory() as folder:
                run_compiled(way, workload, folder)
    except (Exception, SystemExit) as error:
        print(f"{kind}, seed {seed}:", file=sys.stderr)
        for i, module in enumerate(model.cases):
            print(f"  {i}: {module} of {model.shapes[i]}", file=sys.stderr)
        raise error


way, count, seeds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kinds = sys.argv[4:] or cases.KINDS
for kind in kinds:
    for seed in range(seeds):
        check(way, kind, count, seed)
print(f"{len(kinds) * count * seeds} combinations")
