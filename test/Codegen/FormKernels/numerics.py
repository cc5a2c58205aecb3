# REQUIRES: compiler, torch
# RUN: %python %s %t %cc
"""Kernels compute what the ops they are formed of compute."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "Conversion", "Inputs"))
import cases
import harness
import structure

table = list(cases.all_cases()) + list(structure.all_cases())
sys.exit(harness.check(table, ["--convert-mpcomm-to-linalg", "--canonicalize", "--cse",
                               "--mpcomm-form-kernels"], sys.argv[1], sys.argv[2]))
