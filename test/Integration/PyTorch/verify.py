# The generic form of an imported program and the form that mpcomm-opt prints it in are the
# same module, with its locations, and the compiler takes it.
#
# REQUIRES: torch, sklearn, compiler
# RUN: %python %s %mpcomm-opt
#
# mpcomm-opt is found in PATH, as here, beside the command, as in other tests, and in the
# installation that the package is in.
# RUN: rm -rf %t && mkdir -p %t/bin %t/share/mpcomm-import
# RUN: ln -s %mpcomm-opt %t/bin/mpcomm-opt
# RUN: cp -r %mpcomm_src_root/tools/mpcomm-import/mpcomm_import %t/share/mpcomm-import
# RUN: env PATH= PYTHONPATH=%t/share/mpcomm-import %python -c "import mpcomm_import.pretty as p; print(p.find())" | FileCheck %s
# CHECK: share/mpcomm-import/mpcomm_import/../../../bin/mpcomm-opt

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks

LOCATED = ["--mlir-print-debuginfo", "--mlir-print-local-scope"]


def printed(text, *options):
    return subprocess.run([sys.argv[1], *options], input=text, text=True, check=True,
                          capture_output=True).stdout


for name, options in (("mlp", {}), ("mlp", {"momentum": 0}), ("gpt", {}),
                      ("gpt", {"tied": False, "batch": 2}), ("vit", {}), ("resnet", {})):
    program = checks.mi.trace(checks.example(name, **options))
    assert program.text != program.generic and not program.warnings, program.warnings
    once = printed(program.generic, *LOCATED)
    assert once == printed(program.text, *LOCATED), name
    printed(once, "--verify-each", "--canonicalize")
