# REQUIRES: compiler, torch
# RUN: %python %s %t %cc
"""Kernels formed of random graphs compute what PyTorch computes: groups are
legal whatever the order and the uses of ops."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "Conversion", "Inputs"))
import graphs
import harness

seeds = range(60)
print("seeds", seeds)
failures = 0
for cse in (["--canonicalize", "--cse"], []):
    passes = ["--convert-mpcomm-to-linalg"] + cse + ["--mpcomm-form-kernels"]
    failures += harness.check(graphs.all_cases(seeds), passes, sys.argv[1], sys.argv[2])
sys.exit(failures)
