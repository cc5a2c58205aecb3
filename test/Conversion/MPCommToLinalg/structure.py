# REQUIRES: compiler, torch
# RUN: %python %s %t %cc
"""Contractions in any layout, reductions over any dimensions, movement and
elementwise ops give PyTorch's numbers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "Inputs"))
import harness
import structure

sys.exit(harness.check(list(structure.all_cases()), ["--convert-mpcomm-to-linalg"],
                       sys.argv[1], sys.argv[2]))
