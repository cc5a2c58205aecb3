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
# RUN: env PATH= PYTHONPATH=%t/share/mpcomm-import %python -c "import mpcomm_import.ir.pretty as p; print(p.find())" | FileCheck %s
# CHECK: share/mpcomm-import/mpcomm_import/ir/../../../../bin/mpcomm-opt

import math
import os
import re
import subprocess
import sys
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
from mpcomm_import.aten.pointwise import CMPF, CMPI, compare_values
from mpcomm_import.ir.graph import Argument, Builder, Function, Result, Type
from mpcomm_import.ir.printer import print_module

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

# What no example has: each predicate, numbers that are not finite, a name that needs escapes.
f = Function("every")
converter = types.SimpleNamespace(builder=Builder(f))
f.arguments = [Argument("batch", 'a"\\\n\u00e9', Type((2,), t)) for t in ("f32", "i32")]
for argument, cases in zip(f.arguments, (CMPF, CMPI)):
    for case in cases:
        compare_values(converter, case, argument.value, argument.value)
NEGATIVE = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}
for dtype in NEGATIVE:
    converter.builder.constant(-math.inf, Type((), dtype))
f.results = [Result("output", "y", f.arguments[0].value)]
text = printed(print_module("2 names", [f]))
assert "module @_2_names" in text and text.count(r'"a\22\\\0A\C3\A9"') == 2, text
assert re.findall(r"arith.cmp[fi] (\w+)", text) == CMPF + CMPI, text
assert re.findall(r"dense<(\w+)>", text) == list(NEGATIVE.values()), text
