# The imported graphs of the example models train as PyTorch does: losses,
# parameters, optimizer state and the evaluation function, in f64 and, for the
# losses, in f32, to what rounding makes of sums of that length.
#
# REQUIRES: torch, sklearn
# RUN: %python %s mlp
# RUN: %python %s gpt
# RUN: %python %s vit
# RUN: %python %s lstm

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import torch

name = sys.argv[1]
options = {"ctx": 24, "layers": 2} if name == "lstm" else {}
program = checks.check(checks.example(name, batch=4, **options), steps=4)
checks.check(checks.example(name, batch=4, **options), steps=4, double=False)

# As lean as a person would write them: per attention three slices split into
# heads, one merge, and the same backward; three reshapes around the loss. Of the LSTM,
# the order of batch and steps, and the weights that its loops read.
limits = {"mlp": (0, 0), "gpt": (2 * 8 + 3, 2 * 4), "vit": (4 * 8 + 9, 4 * 4 + 1),
          "lstm": (4, 6)}
if hasattr(torch, "compile"):  # 2.x puts the three projections of attention one after the other
    limits["vit"] = (4 * 12 + 9, 4 * 6 + 1)
counts = checks.count(program, "reshape", "transpose")
assert tuple(counts.values()) == limits[name], counts
