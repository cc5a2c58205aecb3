# Every variable of the environment that the runtime and the runner read is
# explained in the documentation.
# RUN: %python %s %mpcomm_src_root

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
# What every program on the machine obeys needs no word.
usual = {"PATH", "HOME"}
read = {}
for folder in "runtime", "tools/mpcomm-run":
    for source in sorted((root / folder).rglob("*.cpp")):
        text = source.read_text(encoding="utf-8")
        for name in re.findall(r'getenv\(\s*"([A-Z_]+)"', text):
            read.setdefault(name, source)
pages = "".join(p.read_text(encoding="utf-8") for p in sorted((root / "docs").rglob("*.md")))
explained = set(re.findall(r"`([A-Z_]+)(?:=[^`]*)?`", pages))
unknown = sorted(set(read) - explained - usual)
for name in unknown:
    print("%s: read in %s, explained nowhere" % (name, read[name].relative_to(root)))
if len(read) < 5:
    sys.exit("found only %s: is the pattern right?" % sorted(read))
sys.exit(1 if unknown else 0)
