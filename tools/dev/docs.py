#!/usr/bin/env python3
# ===- docs.py - keeps what the documentation shows true -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs the commands that a page names and puts their output into the page.

    docs.py [--check] [--bin DIR] page.md...

In a page, a comment and the fenced block after it belong together:

    <!-- run: mpcomm-opt $ROOT/docs/examples/linear.mlir | head -3 -->
    ```mlir
    module @linear {
    ```

The block becomes what the command prints. `<!-- do: ... -->` runs a command and
shows nothing. Commands run in bash, in one fresh folder a page, top to bottom;
ROOT is the source tree, and PATH begins with DIR. A comment may span lines.

--check changes nothing: it prints the difference and fails if there is one.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIRECTIVE = re.compile(
    r"<!-- (?P<kind>run|do): (?P<command>.*?) -->\n"
    r"(?P<block>(?P<fence>```+)(?P<language>[^\n]*)\n.*?^(?P=fence)$\n?)?",
    re.DOTALL | re.MULTILINE,
)


class CommandFailed(Exception):
    pass


def run(command, folder, environment):
    script = "set -euo pipefail\n" + command
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if result.returncode:
        raise CommandFailed(
            "'%s' exits with %d\n%s" % (command, result.returncode, result.stderr)
        )
    return result.stdout


def renew(page, environment):
    """The text of a page with the output of its commands as it is now."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:

        def replace(match):
            command = " ".join(match["command"].split("\n"))
            output = run(command, folder, environment)
            if match["kind"] == "do":
                return match[0]
            if not match["block"]:
                raise CommandFailed("'%s' has no fenced block after it" % command)
            head = match[0][: match.start("block") - match.start(0)]
            fence, language = match["fence"], match["language"]
            body = "\n".join(line.rstrip() for line in output.strip("\n").split("\n"))
            return "%s%s%s\n%s\n%s\n" % (head, fence, language, body, fence)

        return text, DIRECTIVE.sub(replace, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--bin", help="folder of the tools (default: build/dev/bin)")
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    environment = dict(os.environ, ROOT=str(ROOT))
    tools = options.bin or str(ROOT / "build" / "dev" / "bin")
    environment["PATH"] = tools + os.pathsep + environment.get("PATH", "")

    stale = 0
    for page in options.pages:
        try:
            old, new = renew(page, environment)
        except CommandFailed as error:
            sys.exit("%s: %s" % (page, error))
        if old == new:
            continue
        stale += 1
        if options.check:
            sys.stdout.writelines(
                difflib.unified_diff(
                    old.splitlines(True), new.splitlines(True), str(page), "now"
                )
            )
        else:
            page.write_text(new, encoding="utf-8")
            print("%s: renewed" % page)
    if options.check and stale:
        sys.exit("%d pages are not current; tools/dev/docs.py renews them" % stale)


if __name__ == "__main__":
    main()
