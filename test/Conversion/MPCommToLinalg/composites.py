# REQUIRES: compiler, torch
# RUN: %python %s %t %cc
"""Composite ops, their gradients and the optimizers give PyTorch's numbers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "Inputs"))
import cases
import harness

sys.exit(harness.check(list(cases.all_cases()), ["--convert-mpcomm-to-linalg"],
                       sys.argv[1], sys.argv[2]))
