# What the manifest says of the training graph does not depend on mesh, target, names of files or
# locations, and is another for another graph, optimizer or option; a run that resumes on another
# mesh needs no word, one with other constants does.
#
# REQUIRES: compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %mpcomm-compile %mpcomm-run %mpcomm_src_root/docs/examples/linear.mlir %t
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import json
import os
import struct
import subprocess
import sys

compiler, runner, source, folder = sys.argv[1:5]
with open(source) as file:
    good = file.read()


def path(name):
    return os.path.join(folder, name)


def program(name, text=good, *options):
    with open(path(name + ".mlir"), "w") as file:
        file.write(text)
    subprocess.run([compiler, path(name + ".mlir"), "-o", path(name), *options], check=True)
    return path(name)


def graph(*arguments):
    with open(program(*arguments), "rb") as file:
        contents = file.read()
    begin = contents.index(b'{\n  "abi": ')
    return json.loads(contents[begin : contents.index(b"\0", begin)])["graph"]


def edit(old, new, text=good):
    assert old in text, old
    return text.replace(old, new)


first = graph("first")
assert first["batch"] == 8
assert first["optimizer"] == ["sgd_update weight_decay = 0"], first
assert len(first["digest"]) == len(first["structure"]) == 16
assert first["options"]["loss-scale"] == "auto" and first["options"]["clip-norm"] == "0"

# The same graph.
for name, text, *options in [
    ("mesh", good, "--np", "2"),
    ("pipeline", good, "--options", "mesh=dp:4 buckets=one"),
    ("cpu", good, "--cpu", "x86-64-v2"),
    ("name", edit("module @linear", "module @other")),
    ("values", edit("%dw", "%gradient", edit("// Update.", "// Later.\n\n"))),
]:
    assert graph(name, text, *options) == first, name

# Others, and where that shows.
for name, changes, text, *options in [
    ("decay", {"digest", "optimizer"}, edit("weight_decay = 0.0", "weight_decay = 0.1")),
    ("constant", {"digest"}, edit("dense<1.250000e-01>", "dense<2.500000e-01>")),
    ("batch", {"digest", "batch"}, edit("<8x", "<4x")),
    ("renamed", {"digest", "structure"}, edit('"bias"', '"b"')),
    ("op", {"digest", "structure"}, edit("arith.subf %p, %y", "arith.addf %p, %y")),
    ("option", {"options"}, good, "--options", "clip-norm=1.5"),
]:
    other = graph(name, text, *options)
    assert {key for key in first if first[key] != other[key]} == changes, (name, other)
    if name == "decay":
        assert other["optimizer"] == ["sgd_update weight_decay = 0.1"], other
    if name == "option":
        assert other["options"] == {**first["options"], "clip-norm": "1.5"}, other


def write(name, tensors):
    header, data = {}, b""
    for key, shape, values in tensors:
        bytes_of = struct.pack("<%df" % len(values), *values)
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_of)]}
        data += bytes_of
    text = json.dumps(header).encode()
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path(name)


weights = write("weights", [("weight", [4, 2], [0.0] * 8), ("bias", [2], [0.0] * 2)])
data = write("data", [("x", [32, 4], [i / 128 for i in range(128)]), ("y", [32, 2], [i / 64 for i in range(64)])])


def run(name, *options):
    done = subprocess.run([runner, path(name), "--data", data, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120)  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


code, out, err = run("first", "--weights", weights, "--steps", "3", "--checkpoint", path("c"))
assert code == 0, err
for name in "first", "mesh", "pipeline", "batch":
    code, out, err = run(name, "--resume", path("c"), "--steps", "4")
    assert code == 0 and "this run has" not in out, (name, out, err)
for name, message in [
    ("decay", "this run has optimizer sgd_update weight_decay = 0.1 where the checkpoint has sgd_update weight_decay = 0;"),
    ("constant", "this run has a graph with checksum "),
    ("option", "this run has clip-norm 1.5 where the checkpoint has 0;"),
]:  # fmt: skip
    code, out, err = run(name, "--resume", path("c"), "--steps", "4")
    assert code == 1 and message in err, (name, out, err)
    code, out, err = run(name, "--resume", path("c"), "--steps", "4", "--resume-anyway")
    assert code == 0 and "warning: " in out, (name, out, err)
