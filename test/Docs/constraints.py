# Each numbered constraint of an op has a negative test that bears its name:
# constraint C2 of mpcomm.pad is broken by @pad_c2 or @pad_c2_something.
# RUN: %python %s %mpcomm_src_root | FileCheck %s
# CHECK: {{[1-9][0-9]+}} constraints, 0 without a test

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
constraints = untested = 0
for dialect in ["MPComm", "MPRT"]:
    folder = root / "test" / "Dialect" / dialect
    tests = "\n".join(p.read_text(encoding="utf-8") for p in folder.glob("*.mlir"))
    for page in sorted((root / "dialects" / dialect / "IR").glob("*.td")):
        text = page.read_text(encoding="utf-8")
        for op in re.split(r"^(?=def )", text, flags=re.MULTILINE):
            name = re.match(r"def %s_\w+Op\s*:[^<]*<\"(\w+)\"" % dialect, op)
            if not name:
                continue
            for number in re.findall(r"^    - C(\d+):", op, re.MULTILINE):
                constraints += 1
                if not re.search(r"@%s_c%s(_\w+)?\b" % (name[1], number), tests):
                    untested += 1
                    print("%s: C%s of %s" % (page.relative_to(root), number, name[1]))
print("%d constraints, %d without a test" % (constraints, untested))
