# Every relative link of the documentation leads to a file that is there.
# RUN: %python %s %mpcomm_src_root | FileCheck %s
# CHECK: {{[1-9][0-9]*}} pages, {{[1-9][0-9]*}} links
# CHECK: {{^}}0 broken links

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
links = broken = 0
for page in pages:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" in target:
            continue
        links += 1
        if not (page.parent / target).exists():
            broken += 1
            print("%s: no %s" % (page.relative_to(root), target))
print("%d pages, %d links" % (len(pages), links))
print("%d broken links" % broken)
sys.exit(1 if broken or not links else 0)
