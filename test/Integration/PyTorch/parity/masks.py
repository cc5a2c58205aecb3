# Masks that are added to scores, by a training in bf16: a padding mask as transformers
# write it, 0 or the least number of f32 for keys of each sample, through
# F.scaled_dot_product_attention where there is one; ALiBi, of heads and keys; positions that are parameters, and
# those of T5, which a table has by distance: the sums of gradients that these need are computed by the fused op too.
# Fused, and as separate ops, against PyTorch.
#
# How near losses have to be is in bf16.py; here the ways of PyTorch are one process, one with each
# batch reversed and one with gradients averaged over two slices.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %mpcomm-import %mpcomm-compile %mpcomm-run %mpcomm-opt
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "Inputs"), os.path.join(HERE, "..", "..", "CUDA", "Inputs")]
from peer import Way, distance, reference, run_example
from programs import run
from small_models import SOURCES

STEPS, SIZE = 20, 6
WAYS = [Way(autocast=True), Way(reverse=True, autocast=True), Way(slices=2, autocast=True)]


def main(folder, importer, compiler, runner, opt):
    model = os.path.join(folder, "masks.py")
    with open(model, "w") as file:
        file.write(SOURCES["masks"])
    exact, band = reference(model, {}, SIZE, STEPS, Way(double=True), WAYS)
    bound = [4 * s + 2**-9 * abs(l) for s, l in zip(band, exact)]
    stem = model[:-3]
    # By this Python, whichever PyTorch it has.
    run(sys.executable, importer, model, "--batch", SIZE, "-o", stem + ".mlir", "--weights", stem + ".w", "--data",
        stem + ".d")  # fmt: skip
    with open(stem + ".json", "w") as file:
        json.dump({"schema": "mpcomm-precision-1", "policy": "bf16", "compute": "lower_precision"}, file)
    failed = False
    for form, count, trained in (("fused", 4, 2), ("separate", 0, 0)):
        options = f"precision-file={stem}.json attention={form}"
        graph = subprocess.run([opt, stem + ".mlir", f"--mpcomm-graph={options}"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout  # fmt: skip
        step = graph[graph.index("@train_step"):].split("func.func")[0]
        for op in "attention", "attention_grad":
            made = [line for line in step.splitlines() if f"mpcomm.{op} " in line and " bias " in line]
            assert len(made) == count, f"{form}: {len(made)} ops {op} with a bias, expected {count}"
        made = [line for line in made if " bias_grad " in line]
        assert len(made) == trained, f"{form}: {len(made)} gradients of biases, expected {trained}"
        subprocess.run([compiler, stem + ".mlir", "-o", stem + ".so", f"--options={options}"], check=True)
        losses = run_example(runner, stem + ".so", 1, STEPS, stem)
        assert len(losses) == STEPS, len(losses)
        d = distance(losses, exact)
        worst = max(range(STEPS), key=lambda s: d[s] / bound[s])
        print(f"{form}: at most {max(d):.3g} from f64; nearest to the bound in step {worst + 1}: "
              f"{d[worst]:.3g} of {bound[worst]:.3g}")
        failed |= not d[worst] <= bound[worst]
    print(f"loss {exact[0]:.6f} -> {exact[-1]:.6f}")
    sys.exit("losses are further apart than rounding explains" if failed else 0)


main(*sys.argv[1:])
