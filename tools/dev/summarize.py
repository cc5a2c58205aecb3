#!/usr/bin/env python3
"""Prints `N passed, N failed, N skipped` for the results that lit wrote with
--xunit-xml-output (its JSON leaves out the GoogleTests that skip themselves).

An expected failure counts as passed, an unexpected pass as failed; what lit
could not resolve or had to stop failed too. No results at all: one failure.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys
import xml.etree.ElementTree as ElementTree


def main():
    total = failed = skipped = 0
    try:
        for suite in ElementTree.parse(sys.argv[1]).getroot():
            total += int(suite.get("tests"))
            failed += int(suite.get("failures"))
            skipped += int(suite.get("skipped"))
    except (OSError, TypeError, ValueError, ElementTree.ParseError) as error:
        print("no results of lit: %s" % error, file=sys.stderr)
        total = 0
    if not total:
        failed, skipped, total = 1, 0, 1
    print("%d passed, %d failed, %d skipped" % (total - failed - skipped, failed, skipped))


if __name__ == "__main__":
    main()
