# REQUIRES: torch, compiler
# RUN: rm -rf %t.dir
# RUN: %python %s %mpcomm-import %mpcomm-compile %mpcomm-run %mpcomm-checkpoint %mpcomm_src_root/docs/examples/mlp.py %t.dir
#
# A checkpoint that two ranks have written, each of parts, becomes one file that goes on as the
# checkpoint does, and weights that are those of the run, in any type; a model in several files
# is read as one. What is wrong with a file is said, and nothing is written.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "Integration", "Inputs"))
from programs import pack, read_losses, read_tensors, read_typed, run, unpack, write_tensors

IMPORT, COMPILE, RUN, CHECKPOINT, MODEL, FOLDER = sys.argv[1:]


def path(name):
    return os.path.join(FOLDER, name)


def train(*options):
    run(RUN, path("z.so"), "--np", 2, "--data", path("d"), "--no-shuffle", "--quiet", *options)


def check(what, condition):
    if not condition:
        sys.exit("not so: " + what)


def fails(words, *command, status=1):
    text = run(CHECKPOINT, *command, expected=status)
    check("one line with '%s', not:\n%s" % (words, text),
          words in text and text.startswith("mpcomm-checkpoint: error: ") and text.count("\n") == 1)  # fmt: skip
    check("nothing was written", not os.path.exists(path("none")) and not os.path.exists(path("other")))


def rewrite(source, target, changes):
    """A copy of a file without checksums, and with other metadata."""
    with open(source, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    metadata = {**header["__metadata__"], **changes}
    header["__metadata__"] = {key: value for key, value in metadata.items()
                              if value is not None and not key.startswith("mpcomm.checksum")}  # fmt: skip
    text = json.dumps(header).encode()
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


os.makedirs(FOLDER)
run(IMPORT, MODEL, "-o", path("step.mlir"), "--weights", path("w"), "--data", path("d"))
run(COMPILE, path("step.mlir"), "-o", path("z.so"), "--options", "mesh=dp:2 zero=3")
train("--weights", path("w"), "--steps", 4, "--checkpoint", path("c"), "--save-weights", path("weights"))
check("two files", any(name.startswith("c.shard-") for name in os.listdir(FOLDER)))

# What is printed: parts are whole.
shown = run(CHECKPOINT, path("c"))
check("a table:\n" + shown, "checkpoint of mlp after 4 steps, seed 0" in shown and "12 tensors, files: 2, " in shown)
rows = {line.split()[0]: line.split()[1:] for line in shown.split("\n") if "f32 [" in line}
check("shapes", rows["2.weight"] == ["f32", "[256,", "256]", "262144"])
check("roles", rows["2.weight.momentum_buffer"][-1] == "optimizer_state")

# One file goes on as two do.
run(CHECKPOINT, path("c"), "--save", path("one"))
check("no shards", not any(key.startswith(("mpcomm.shard", "mpcomm.part")) for key in read_typed(path("one"))[1]))
for name in "c", "one":
    train("--resume", path(name), "--steps", 8, "--log", path(name + ".log"), "--save-weights", path(name + ".w"))
check("equal losses", read_losses(path("c.log")) == read_losses(path("one.log")))
check("equal weights", read_tensors(path("c.w")) == read_tensors(path("one.w")))

# Weights.
said = run(CHECKPOINT, path("c"), "--verify", "--save-weights", path("mine"))
check("checksums", "12 of 12 tensors have checksums" in said)
mine, metadata = read_typed(path("mine"))
check("weights of the run", mine == read_typed(path("weights"))[0])
check("as PyTorch's", metadata["format"] == "pt")
for type, dtype, digits in ("bf16", "BF16", 8), ("f16", "F16", 11):
    run(CHECKPOINT, path("one"), "--save-weights", path(type), "--type", type)
    for name, (found, shape, values) in read_typed(path(type))[0].items():
        check(type, found == dtype and shape == mine[name][1])
        # To nearest; 2^-25 is half of f16's smallest number.
        check("rounding", all(abs(a - b) <= abs(b) * 2.0**-digits + 2.0**-25 for a, b in zip(values, mine[name][2])))

# A model in several files.
names = sorted(mine)
parts = {"m-1.safetensors": names[:2], "m-2.safetensors": names[2:]}
for file, some in parts.items():
    write_tensors(path(file), {name: mine[name] for name in some})
with open(path("m.index.json"), "w") as file:
    json.dump({"metadata": {}, "weight_map": {name: f for f, some in parts.items() for name in some}}, file)
run(CHECKPOINT, path("m.index.json"), "--save-weights", path("model"))
check("a model", read_typed(path("model"))[0] == mine)
train("--weights", path("m.index.json"), "--steps", 2, "--log", path("a.log"))
train("--weights", path("mine"), "--steps", 2, "--log", path("b.log"))
check("trains from several files", read_losses(path("a.log")) == read_losses(path("b.log")))

# What is wrong.
none = ["--save-weights", path("none"), "--save", path("other")]
fails("No such file", path("missing"), *none)
fails("no file given", status=2)
fails("is a file that is read", path("c"), "--save", path("c"))
(shard,) = [name for name in os.listdir(FOLDER) if name.startswith("c.shard-")]
fails("is a file that is read", path("c"), "--save-weights", path(shard))
fails("is a file that is read", path("m.index.json"), "--save-weights", path("m-2.safetensors"))
fails("no tensor has a checksum", path("m.index.json"), "--verify")
# Not all parts of a tensor.
with open(path("part.index.json"), "w") as file:
    json.dump({"weight_map": {"x": shard}}, file)
fails("has its part from element", path("part.index.json"), *none)
fails("write one file", path("c"), "--save", path("none"), "--save-weights", path("none"), status=2)
fails("--save-weights", path("c"), "--type", "bf16", status=2)
fails("--type", path("c"), "--save-weights", path("none"), "--type", "fp4", status=2)
with open(path("bad.index.json"), "w") as file:
    file.write('{"weight_map": {"a": "../b"}}')
fails("not the index of a model", path("bad.index.json"), *none)
os.remove(path("m-2.safetensors"))
fails("a file of this model", path("m.index.json"), *none)
rewrite(path("one"), path("old"), {"mpcomm.weights": None})
fails("earlier version", path("old"), "--save-weights", path("none"))
rewrite(path("one"), path("odd"), {"mpcomm.weights": "7"})
fails("6 tensors are not of the optimizer, expected 7", path("odd"), "--save-weights", path("none"))
write_tensors(path("large"), {"x": ([2], [1.0, 1e6])})
fails("element 1 is 1e+06, which is infinite as f16", path("large"), "--save-weights", path("none"), "--type", "f16")
write_tensors(path("nan"), {"x": ([2], [float("inf"), float("nan")])})
run(CHECKPOINT, path("nan"), "--save-weights", path("nan16"), "--type", "f16")
check("what is not finite stays so", unpack("F16", pack("F16", read_tensors(path("nan16"))["x"][:1]))[0] == float("inf"))
with open(path("one"), "r+b") as file:
    file.seek(-1, os.SEEK_END)
    last = file.read(1)
    file.seek(-1, os.SEEK_END)
    file.write(bytes([last[0] ^ 1]))
fails("checksum", path("one"), "--verify")
fails("checksum", path("one"), *none)
