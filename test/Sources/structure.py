# RUN: %python %s %mpcomm_src_root
#
# Includes run downward, passes know few ops by name, and names are those of
# the field.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the sources; prints each place that breaks a rule."""

import collections
import os
import re
import subprocess
import sys

ROOT = sys.argv[1]

# Each may include what is before it.
LIBRARIES = ["dialects", "Scheduling", "Analysis", "Transforms", "Conversion", "Codegen", "Pipelines", "tools"]
RUNTIME = ["support", "files", "device", "comm", "session"]
# What mpcomm-run includes of the project: the C interfaces, files and what they are made of, and the names of
# backends. To calibrate, ranks call collectives that no program has.
CLIENT = re.compile(r"files/|support/|mpcomm/Runtime/|comm/Registry\.h")
BELOW = {"tools/mpcomm-run/calibrate/Calibrate.h": "session/Rank.h"}

# Casts to ops of our own dialects outside of conversions. An op that passes need
# to know tells them through an interface; this number should fall.
OWN_OPS = 169

# Private words for which the field has one.
WORDS = ["behind", "alike", "rival", "rivals", "aside", "asides", "speakers", "hello", "welcome", "indifferent"]
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

failures = []


def fail(path, line, text):
    failures.append("%s:%d: %s" % (path, line, text))


def sources(*folders):
    for folder in folders:
        for base, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith((".cpp", ".h", ".td", ".c")):
                    path = os.path.join(base, name)
                    with open(path) as file:
                        yield os.path.relpath(path, ROOT), file.read()


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def without_comments(text):
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', blank, text, flags=re.S)


def room_of(path):
    parts = path.split("/")
    if parts[0] in ("dialects", "tools"):
        return parts[0]
    if parts[:2] == ["include", "mpcomm"]:
        return "dialects" if parts[2] in ("Dialect", "Runtime") else parts[2]
    return parts[1]


def check_libraries():
    for path, text in sources("dialects", "include", "lib"):
        room = room_of(path)
        if room not in LIBRARIES:
            continue
        for m in re.finditer(r'#include "mpcomm/(\w+)/', text):
            other = "dialects" if m[1] in ("Dialect", "Runtime") else m[1]
            same_level = {room, other} <= {"Transforms", "Conversion", "Codegen"} and room != other
            if other in LIBRARIES and (same_level or LIBRARIES.index(other) > LIBRARIES.index(room)):
                fail(path, line_of(text, m.start()), "%s includes %s" % (room, other))
        if room == "Scheduling":
            for m in re.finditer(r'#include [<"](mlir|llvm)/', text):
                fail(path, line_of(text, m.start()), "a solver includes %s" % m[1])


def check_runtime():
    for path, text in sources("runtime"):
        room = path.split("/")[1]
        for m in re.finditer(r'#include "(\w+)/', text):
            if m[1] in RUNTIME and room in RUNTIME and RUNTIME.index(m[1]) > RUNTIME.index(room):
                fail(path, line_of(text, m.start()), "%s includes %s" % (room, m[1]))
        for m in re.finditer(r'#include [<"](mlir|llvm)/', text):
            fail(path, line_of(text, m.start()), "the runtime includes %s" % m[1])


def check_clients():
    for path, text in sources("tools/mpcomm-run"):
        for m in re.finditer(r'#include [<"]((?:mpcomm|%s)/[^>"]*)' % "|".join(RUNTIME), text):
            if not CLIENT.match(m[1]) and BELOW.get(path) != m[1]:
                fail(path, line_of(text, m.start()), "a client of the runtime includes %s" % m[1])


def check_own_ops():
    ops = set()
    for _, text in sources("dialects"):
        ops.update(re.findall(r"\bdef (?:MPComm|MPRT)_(\w+Op)\b", text))
    assert len(ops) > 50
    casts = re.compile(r"\b(?:isa|cast|dyn_cast|isa_and_nonnull|isa_and_present|dyn_cast_or_null|dyn_cast_if_present)<([^<>;(]*)>")
    places = []
    for path, text in sources("lib"):
        if path.startswith("lib/Conversion/"):
            continue
        for m in casts.finditer(without_comments(text)):
            if ops & set(re.findall(r"\w+", m[1])):
                places.append((path, line_of(text, m.start())))
    if len(places) != OWN_OPS:
        counts = collections.Counter(path for path, _ in places)
        for path, count in counts.most_common():
            print("%4d  %s" % (count, path))
        what = "an interface serves instead" if len(places) > OWN_OPS else "lower OWN_OPS"
        failures.append("%d casts to ops of our own, expected %d: %s" % (len(places), OWN_OPS, what))


def check_words():
    for path, text in sources("dialects", "include", "lib", "runtime", "tools"):
        code = without_comments(text)
        for m in re.finditer(r"\w+", code):
            for word in WORD.findall(m[0]):
                if word.lower() in WORDS:
                    fail(path, line_of(code, m.start()), "'%s' in '%s'" % (word, m[0]))


check_libraries()
check_runtime()
check_clients()
check_own_ops()
check_words()
print("\n".join(failures))
sys.exit(1 if failures else 0)
