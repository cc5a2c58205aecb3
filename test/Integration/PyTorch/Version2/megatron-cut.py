# The columns of a Llama's first matrices are declared as split: queries, keys, values, and both
# of the feed-forward network (PyTorch keeps them transposed). mpcomm-propagate-shardings
# finds the rest of the cut of Megatron-LM (Shoeybi et al., 2019, section 3): rows of the
# second matrices, all gradients and optimizer state with their parameters, everything else
# whole, and four sums of activations over the ranks for a block, two of them before the loss.
#
# REQUIRES: torch2, compiler
# RUN: %python-env %s %mpcomm-opt

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
import checks
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench", "Inputs"))
from llama import Llama

FIRST, SECOND = ("q", "k", "v", "gate", "up"), ("proj", "down")
OF_ROWS = '#mpcomm.sharding<@mesh, [{"tp"}, {}]>'
OF_COLUMNS = '#mpcomm.sharding<@mesh, [{}, {"tp"}]>'


def traced(layers):
    torch.manual_seed(0)
    model = Llama(layers=layers, d=32, heads=4, groups=2, inner=48, context=16, vocabulary=65)
    text = torch.randint(0, 65, (8, 17))
    return checks.mi.trace(checks.mi.Workload(
        model=model, loss=lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()), batch=4,
        optimizer=torch.optim.AdamW(model.parameters()), dataset={"x": text[:, :-1], "y": text[:, 1:]}))  # fmt: skip


def propagated(layers):
    """The step with what ranks hold on each op."""
    text = traced(layers).generic
    printed = subprocess.run([sys.argv[1]], input=text, text=True, check=True, capture_output=True).stdout
    names = "|".join(FIRST)
    declared = re.sub(r'(mpcomm.name = "blocks\.\d+\.(?:%s)\.weight", mpcomm.role = #mpcomm.role<parameter>)(?=[^>]*}, %%)'
                      % names, r'\1, mpcomm.sharding = ' + OF_ROWS, printed)  # fmt: skip
    declared = re.sub(r"^module.*\{", 'module {\n  mpcomm.mesh @mesh <["tp" = 2]>', declared, count=1)
    return subprocess.run([sys.argv[1], "--mpcomm-propagate-shardings=annotate"], input=declared, text=True,
                          check=True, capture_output=True).stdout  # fmt: skip


def check_state(step):
    signature = step[:step.index(") attributes")] if ") attributes" in step else step[:step.index("{\n")]
    found = 0
    for attributes in re.findall(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", signature):
        name = re.search(r'mpcomm.name = "blocks\.\d+\.(\w+)\.weight', attributes)
        kind = name and name.group(1)
        sharding = re.search(r"mpcomm.sharding = (#mpcomm.sharding<.*?>)", attributes)
        expected = OF_ROWS if kind in FIRST else OF_COLUMNS if kind in SECOND else None
        assert (sharding and sharding.group(1)) == expected, attributes
        found += expected is not None
    return found


def count_sums(step):
    """Values that are reduced: partial ones with a reader whose results are not."""
    partial, readers = set(), {}
    for line in step.split("\n"):
        made = re.match(r"\s*%(\w+)(?::\d+)? = ", line)
        read = re.findall(r"%(\w+)", line.split(" = ", 1)[1]) if made else re.findall(r"%(\w+)", line)
        is_partial = 'partial = [sum "tp"]' in line
        if made and is_partial:
            partial.add(made.group(1))
        for value in read:
            readers.setdefault(value, []).append(is_partial)
    return sum(1 for value in partial if not all(readers.get(value, [True])))


def halves(step):
    """Before the loss, and after it."""
    at = re.search(r"= mpcomm\.cross_entropy\b", step).start()
    return step[:at], step[at:]


def step_of(text):
    begin = text.index("func.func @train_step")
    return text[begin:text.index("\n  }\n", begin)]


one, two = (step_of(propagated(layers)) for layers in (1, 2))
# Parameter and two moments, as argument and as result.
assert [check_state(step) for step in (one, two)] == [7 * 6, 2 * 7 * 6]
sums = [[count_sums(half) for half in halves(step)] for step in (one, two)]
print("sums of activations, forward and backward:", sums)
assert sums == [[2, 2], [4, 4]], sums
