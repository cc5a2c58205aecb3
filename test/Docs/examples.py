# Every example of the dialects' documentation parses and verifies.
# RUN: %python %s %mpcomm_src_root | FileCheck %s
# CHECK-NOT: {{^}}error
# CHECK: {{^}}{{[1-9][0-9]+}} examples, 0 broken
#
# An example is a piece of a function: values that it uses and does not define
# become arguments, with the types that the ops that use them give.

import pathlib
import re
import subprocess
import sys

TYPE = r"!?[a-z][\w.]*(?:<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)?"
VALUE = r"%[A-Za-z_]\w*"
PREAMBLE = """
mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func private @gelu(tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> attributes {mpcomm.kernel}
func.func private @body(%x: tensor<4xf32>, %sum: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> (tensor<4xf32>, tensor<f32>) {
  %y = arith.constant dense<0.0> : tensor<f32>
  return %sum, %y : tensor<4xf32>, tensor<f32>
}
func.func private @planned(%x: memref<4xf32>, %sum: memref<4xf32>, %y: memref<f32>, %arena: memref<1024xi8>) attributes {
  mprt.arena_bytes = 1024 : i64, mprt.results = [{type = tensor<4xf32>, argument = 1 : i64}, {type = tensor<f32>, argument = -1 : i64}]} {
  return
}
"""


def statements(text):
    """Ops of an example, each on one line."""
    found = []
    for line in text.split("\n"):
        line = re.sub(r"//.*", "", line).rstrip()
        if not line.strip():
            continue
        starts = re.match(r"\s*(%[\w:, %]+ = |[a-z]\w*\.\w|[a-z]\w*\b|}|\^\w)", line)
        continues = found and (line.startswith("    ") or not starts)
        if continues and not re.match(r"\s*(%[\w:, %]+ = |return|})", line):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


def operand_types(line):
    """The pairs (value, type) that an op's own syntax states."""
    line = line.split("=", 1)[1] if re.match(r"%[\w:, %]+ = ", line) else line
    pairs = []
    groups = re.findall(r"\(((?:%s(?:, )?)+) : ([^()]*)\)" % VALUE, line)
    for values, types in groups:  # ins(%a, %b : T, U)
        pairs += zip(re.findall(VALUE, values), re.findall(TYPE, types))
    if groups:
        return pairs
    head, colon, types = line.partition(" : ")
    if not colon:
        return []
    values = re.findall(VALUE, head)
    if types.startswith("("):
        listed = re.findall(TYPE, types[1 : types.index(")")])
    else:
        listed = re.findall(TYPE, types)
    if " await " not in line and not line.startswith("mpcomm.await"):
        if len(listed) == 1:
            listed = listed * len(values)
    if "arith.select" in line or "arith.cmpf" in line:
        return [] if len(listed) != len(values) else list(zip(values, listed))
    return list(zip(values, listed))


def wrap(text):
    """A module with the example in a function; None where it is one itself."""
    if re.match(r"\s*(module|func\.func)", text):
        return text + PREAMBLE.replace("@mesh", "@other")
    lines = statements(text)
    meshes = [line for line in lines if line.startswith("mpcomm.mesh")]
    lines = [line for line in lines if not line.startswith("mpcomm.mesh")]
    defined = set()
    arguments = {}
    for line in lines:
        for value, kind in operand_types(line):
            if value not in defined:
                arguments.setdefault(value, kind)
        result = re.match(r"(%[\w:, %]+) = ", line)
        if line.startswith("^"):  # arguments of a region
            defined |= set(re.findall(VALUE, line))
        elif result:
            defined |= set(re.findall(VALUE, result[1]))
    lines = [line for line in lines if not line.startswith("return")]
    preamble = PREAMBLE
    if meshes:
        preamble = preamble.split("\n", 2)[2] + meshes[0] + "\n"
    signature = ", ".join("%s: %s" % pair for pair in arguments.items())
    body = "\n".join(lines)
    if any(line.startswith("mpcomm.yield") for line in lines[:1]):
        return None  # is part of the example of its parent
    return "%sfunc.func @example(%s) {\n%s\nreturn\n}\n" % (preamble, signature, body)


def main():
    root = pathlib.Path(sys.argv[1])
    pages = sorted((root / "dialects").rglob("*.td"))
    examples = broken = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"```mlir\n(.*?)```", text, re.DOTALL):
            indent = re.match(r" *", block[1])[0]
            example = re.sub("^" + indent, "", block[1], flags=re.MULTILINE)
            module = wrap(example)
            if module is None:
                continue
            examples += 1
            result = subprocess.run(
                ["mpcomm-opt", "-", "-o", "/dev/null"],
                input=module,
                capture_output=True,
                text=True,
            )
            if result.returncode:
                broken += 1
                line = text.count("\n", 0, block.start()) + 1
                print("error: %s:%d\n%s%s" % (page, line, result.stderr, module))
    print("%d examples, %d broken" % (examples, broken))
    return 1 if broken else 0


sys.exit(main())
