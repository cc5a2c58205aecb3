# The files of an import: safetensors that read back bit for bit, the same bytes
# every time, all of them or none.
#
# REQUIRES: torch, sklearn
# RUN: rm -rf %t && mkdir %t
# RUN: %mpcomm-import %mpcomm_src_root/docs/examples/gpt.py -O layers=1 -O ctx=32 -o %t/a.mlir --weights %t/aw --data %t/ad --eval-data %t/ae
# RUN: %mpcomm-import %mpcomm_src_root/docs/examples/gpt.py -O layers=1 -O ctx=32 -o %t/b.mlir --weights %t/bw --data %t/bd --eval-data %t/be
# RUN: cmp %t/a.mlir %t/b.mlir && cmp %t/aw %t/bw && cmp %t/ad %t/bd && cmp %t/ae %t/be
# RUN: %mpcomm-import %mpcomm_src_root/docs/examples/gpt.py -O layers=1 -O ctx=32 --seed 5 -o %t/c.mlir --weights %t/cw
# RUN: cmp %t/a.mlir %t/c.mlir && not cmp %t/aw %t/cw
# RUN: %python %s %t

import fcntl
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import checks
import numpy as np
import torch

from mpcomm_import.ir import safetensors

folder = sys.argv[1]
program = checks.mi.trace(checks.example("gpt", layers=1, ctx=32))
for path, tensors in (("aw", program.weights), ("ad", program.dataset),
                      ("ae", program.eval_dataset)):
    read, metadata = safetensors.load(os.path.join(folder, path))
    assert metadata == {} and list(read) == list(tensors)
    for name, array in read.items():
        assert np.array_equal(array, tensors[name].detach().numpy()), name
        assert array.dtype == tensors[name].detach().numpy().dtype, name
assert read["x"].shape[1:] == (32,) and set(program.weights) == {
    a.name for a in program.functions[0].arguments if a.role in ("parameter", "buffer")}

# Every type, 0-d tensors, empty ones, metadata; the layout of the format.
values = [np.arange(6).astype(t).reshape(2, 3) for t in
          ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?")]
tensors = {f"t{i}": v for i, v in enumerate(values)}
tensors.update(scalar=np.array(2.5, "f4"), empty=np.zeros((0, 3), "f4"))
path = os.path.join(folder, "all")
safetensors.save(path, {**tensors, "b": torch.tensor([1.0, -2.0], dtype=torch.bfloat16)},
                 {"key": 1})
read, metadata = safetensors.load(path)
assert metadata == {"key": "1"} and read.pop("b").view("u2").tolist() == [0x3F80, 0xC000]
for name, value in tensors.items():
    assert read[name].shape == value.shape and np.array_equal(read[name], value), name
data = open(path, "rb").read()
assert int.from_bytes(data[:8], "little") % 8 == 0

# A file cut short is an error.
for size in (0, 7, 40, len(data) - 1):
    open(path, "wb").write(data[:size])
    try:
        safetensors.load(path)
        raise SystemExit(f"{size} bytes were accepted")
    except ValueError:
        pass

# The last file cannot be written: the first is not there either.
before = sorted(os.listdir(folder))
try:
    program.write(os.path.join(folder, "no", "step.mlir"), os.path.join(folder, "w"))
    raise SystemExit("written into a folder that does not exist")
except OSError:
    pass
assert sorted(os.listdir(folder)) == before

# Two names of one file: neither is written.
try:
    program.write(os.path.join(folder, "one"), os.path.join(folder, ".", "one"))
    raise SystemExit("two files were written into one")
except ValueError as error:
    assert "two outputs go to this file" in str(error), error
assert sorted(os.listdir(folder)) == before

# What is no regular file stays what it is.
pipe = os.path.join(folder, "pipe")
os.mkfifo(pipe)
try:
    program.write(pipe, os.path.join(folder, "other"))
    raise SystemExit("a pipe was written")
except ValueError as error:
    assert "not a regular file" in str(error), error
assert sorted(os.listdir(folder)) == sorted([*before, "pipe"])

# A link stays a link; what a writer that was killed has left is removed, what another writes is not.
os.makedirs(os.path.join(folder, "far"))
link = os.path.join(folder, "link")
os.symlink("far/step.mlir", link)
abandoned = os.path.join(folder, "far", "step.mlir.mpcomm-tmp-0123456789abcdef")
written = os.path.join(folder, "far", "step.mlir.mpcomm-tmp-fedcba9876543210")
with open(abandoned, "w"), open(written, "w") as other:
    fcntl.flock(other, fcntl.LOCK_EX)
    program.write(link, os.path.join(folder, "far", "w"))
assert os.path.islink(link)
assert sorted(os.listdir(os.path.join(folder, "far"))) == ["step.mlir", os.path.basename(written), "w"]

# Another import that looks between a temporary file's creation and its lock removes it: the
# file is written under another name.
lock, removed = fcntl.flock, []


def lock_late(file, operation):
    if operation == fcntl.LOCK_EX and not removed:
        removed.append(file.name)
        fcntl.flock = lock
        safetensors.remove_abandoned(os.path.realpath(link))
        assert not os.path.exists(file.name)
    lock(file, operation)


os.unlink(os.path.realpath(link))
fcntl.flock = lock_late
program.write(link)
assert removed and open(link).read() == program.text
assert sorted(os.listdir(os.path.join(folder, "far"))) == ["step.mlir", "w"]
