# An LSTM language model over 512 steps: the losses of the first 20 training steps, ours on
# 1 and 2 ranks, with micro-batches and in bf16, and those of PyTorch for the same weights
# and the same global batches. parity.py and bf16.py have how near they have to be and why.
#
# The program has one loop for each direction of each layer: its ops, its runtime calls and
# the time to compile it do not depend on the number of steps.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %mpcomm-import %mpcomm-opt %mpcomm-compile %mpcomm-run

import json
import math
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from peer import Way, distance, import_example, run_example, train

FOLDER, IMPORT, OPT, COMPILE, RUN = sys.argv[1:]
STEPS, SIZE, CTX = 20, 8, 512
OPTIONS = {"ctx": CTX, "hidden": 48, "d": 32, "lr": 0.01}
# name: (ranks, micro-batches, options)
RUNS = {"f32": (1, 1, ""), "2 ranks": (2, 1, ""), "2 micro-batches": (1, 2, "micro-batches=2"),
        "bf16": (2, 1, "precision-file=" + os.path.join(FOLDER, "low.json"))}


def ours(name):
    ranks, count, options = RUNS[name]
    with open(os.path.join(FOLDER, "low.json"), "w") as file:
        json.dump({"schema": "mpcomm-precision-1", "policy": "bf16",
                   "compute": "lower_precision"}, file)
    stem = os.path.join(FOLDER, name.replace(" ", "-"))
    import_example(IMPORT, "lstm", OPTIONS, SIZE // ranks // count, stem)
    start = time.monotonic()
    subprocess.run([COMPILE, stem + ".mlir", "-o", stem + ".so", "--np", str(ranks),
                    f"--options={options}"], check=True)
    print(f"{name}: compiled in {time.monotonic() - start:.1f} s")
    return run_example(RUN, stem + ".so", ranks, STEPS, stem)


def size(ctx):
    """Ops of the imported graph, and calls of the runtime in the program."""
    stem = os.path.join(FOLDER, f"size{ctx}")
    import_example(IMPORT, "lstm", {**OPTIONS, "ctx": ctx}, SIZE, stem)
    with open(stem + ".mlir") as file:
        ops = re.findall(r" = (\w+\.\w+)", file.read())
    done = subprocess.run([OPT, stem + ".mlir", "--mpcomm-graph=mesh=dp:1", "--mpcomm-lower",
                           "--mpcomm-program"], check=True, capture_output=True, text=True)
    return len(ops), len(re.findall(r"llvm\.call @mprt_", done.stdout))


def band(exact, cast):
    """How far from `exact` PyTorch is, in one of two orders of summation, in the steps around
    each."""
    ways = [Way(autocast=cast), Way(reverse=True, slices=2, autocast=cast)]
    d = [distance(train("lstm", OPTIONS, SIZE, STEPS, way), exact) for way in ways]
    print(f"PyTorch{', autocast' * cast}: at most {max(map(max, d)):.3g} from f64")
    return [max(max(x[max(s - 4, 0):s + 5]) for x in d) for s in range(STEPS)]


def main():
    assert size(64) == size(512), (size(64), size(512))
    print("ops and calls: %d, %d" % size(512))
    exact = train("lstm", OPTIONS, SIZE, STEPS, Way(double=True))
    assert exact[-1] < exact[0], "the loss does not fall"
    bands = {cast: band(exact, cast) for cast in (False, True)}
    failed = False
    for name in RUNS:
        unit = 2.0**-9 if name == "bf16" else 2.0**-24 * math.sqrt(SIZE * CTX)
        bound = [4 * s + unit * abs(l) for s, l in zip(bands[name == "bf16"], exact)]
        losses = ours(name)
        assert len(losses) == STEPS, len(losses)
        d = distance(losses, exact)
        worst = max(range(STEPS), key=lambda s: d[s] / bound[s])
        print(f"{name}: at most {max(d):.3g} from f64; nearest to the bound in step {worst + 1}: "
              f"{d[worst]:.3g} of {bound[worst]:.3g}")
        failed |= d[worst] > bound[worst]
    sys.exit("losses are further apart than rounding explains" if failed else 0)


main()
