#!/usr/bin/env python3
"""Prints `N passed, N failed, N skipped` for the results that lit wrote with -o.

An expected failure counts as passed, an unexpected pass as failed; what lit
could not resolve or had to stop failed too. No results at all: one failure.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import json
import sys

PASSED = {"PASS", "FLAKYPASS", "XFAIL"}
SKIPPED = {"UNSUPPORTED", "SKIPPED", "EXCLUDED"}


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as results:
            codes = [test["code"] for test in json.load(results)["tests"]]
    except (OSError, ValueError, KeyError) as error:
        print("no results of lit: %s" % error, file=sys.stderr)
        codes = []
    passed = sum(code in PASSED for code in codes)
    skipped = sum(code in SKIPPED for code in codes)
    failed = len(codes) - passed - skipped
    if not codes:
        failed = 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))


if __name__ == "__main__":
    main()
