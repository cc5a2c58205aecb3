#!/usr/bin/env bash
# Imports a model, compiles its training step and trains it over shared memory,
# with the tools of PATH, in the current folder. Fails if the loss does not fall.
#
# Usage: try.sh model.py RANKS STEPS      (at least 60 steps)
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
model=$1
ranks=$2
steps=$3

# run command...: shown, then run.
run() {
  printf '\n$ %s\n' "$*"
  "$@" </dev/null
}

run mpcomm-import "$model" -o step.mlir \
  --weights weights.safetensors --data data.safetensors
run mpcomm-compile step.mlir -o step.so --np "$ranks" --report
run mpcomm-run step.so --np "$ranks" --comm shm --weights weights.safetensors \
  --data data.safetensors --steps "$steps" --log log.jsonl

# Ten steps at each end: single steps are noisy, a trend is not.
python3 - log.jsonl "$steps" <<'END'
import json, sys
losses = [json.loads(line)["loss"] for line in open(sys.argv[1])]
if len(losses) != int(sys.argv[2]) or None in losses:
    sys.exit("error: expected %s finite losses in the log, found %d"
             % (sys.argv[2], sum(loss is not None for loss in losses)))
first, last = sum(losses[:10]) / 10, sum(losses[-10:]) / 10
print("\nmean loss of the first ten steps %.4f, of the last ten %.4f" % (first, last))
if not last < 0.9 * first:
    sys.exit("error: the loss does not fall")
END
