# ===- dry-run.py - measure.py without a GPU --------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
# REQUIRES: compiler, torch, ptxas, long
# Python loads the fake driver, and lacks the symbols that sanitizers give a program (__asan_…).
# UNSUPPORTED: sanitizer
# RUN: rm -rf %t && mkdir %t
# RUN: %python %S/pack.py %t/pack --bin=%mpcomm_obj_root/bin --small --cases=odd-24,order \
# RUN:   --only=gpt2-small-bf16,resnet50-bf16,one-rank,gpt-check-f32,gpt-check-dp2,gpt-check-fp8
# RUN: %python %s %t %mpcomm_obj_root/test/lib
"""Every section of measure.py, on the fake driver whose kernels do nothing (MPFAKE_EMPTY), with
small models, PyTorch on the processor, and stand-ins for compute-sanitizer and Nsight Compute.
So numbers mean nothing, losses are wrong, and all that the script does is done: a mistake in
it is found here, where time costs nothing."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER, FAKES = sys.argv[1:3]
OUT = os.path.join(FOLDER, "out")

# Kernels compute nothing: what compares numbers finds them wrong, except for ranks against one rank.
WRONG = {"check/gpt-check-f32", "check/gpt-check-fp8", "cases/odd-24", "cases/order", "alone/attention", "alone/attention-sm90a",
         "alone/kernels"}
STUBS = {
    "compute-sanitizer": """#!/bin/sh
while [ "$1" != "--error-exitcode" ]; do tool="$tool $1"; shift; done
shift 2
"$@" || exit 1
case "$tool" in
  *racecheck*) echo "RACECHECK SUMMARY: 2 hazards displayed"; exit 9 ;;
  *) echo "ERROR SUMMARY: 0 errors" ;;
esac
""",
    "ncu": """#!/bin/sh
for word; do [ "$last" = "--log-file" ] && file="$word"; last="$word"; done
echo "a figure" > "$file"
""",
}


def main():
    tools = os.path.join(FOLDER, "tools")
    os.makedirs(tools, exist_ok=True)
    for name, text in STUBS.items():
        with open(os.path.join(tools, name), "w") as out:
            out.write(text)
        os.chmod(os.path.join(tools, name), 0o755)
    fake = lambda *path: os.path.join(FAKES, *path)
    environment = dict(
        os.environ, PATH=tools + ":" + os.environ["PATH"], MEASURE_DEVICE="cpu", MEASURE_BACKEND="eager", JAX_PLATFORMS="cpu",
        MEASURE_WORK=os.path.join(FOLDER, "work"), LD_LIBRARY_PATH=fake("FakeCuda"), MPFAKE_EMPTY="1", MPFAKE_MEMORY="4G",
        MPRT_CUDA_LIBRARY=fake("FakeCuda", "libcuda.so.1"), MPRT_CUBLASLT_LIBRARY=fake("FakeCuda", "libcublasLt.so.13"),
        MPRT_CUDNN_LIBRARY=fake("FakeCuda", "libcudnn.so.9"), MPRT_NCCL_LIBRARY=fake("FakeNccl", "FakeNccl", "libnccl.so.2"))  # fmt: skip

    def measure(*options, code):
        command = [sys.executable, os.path.join(HERE, "measure.py"), os.path.join(FOLDER, "pack"), "--out", OUT, "--workers=2",
                   "--sanitized=order", *options]  # fmt: skip
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout)
        assert done.returncode == code, "status %d, expected %d" % (done.returncode, code)
        return done.stdout

    def cells():
        with open(os.path.join(OUT, "results.json")) as file:
            return json.load(file)["cells"]

    # No time: nothing starts. Then little, then the rest; what was answered is not asked again.
    listed = measure("--list", code=0).splitlines()
    measure("--budget=5", code=1)
    assert {cell["status"] for cell in cells().values()} == {"left"} and len(cells()) == len(listed)
    resume = "--resume=" + os.path.join(OUT, "results.json")
    measure("--sections=prepare,device", resume, code=0)
    first = cells()["device"]
    text = measure(resume, code=1)
    assert cells()["device"] == first
    status = {key: cell["status"] for key, cell in cells().items()}
    print(json.dumps({key: cell for key, cell in cells().items() if cell["status"] in ("failed", "late", "left")}, indent=1))
    wrong = WRONG | {key for key in status if key.startswith("sanitize/racecheck")}
    missing = {"steps/gpt2-small-bf16"} - set(status)
    # JAX may be missing.
    unexpected = {key: word for key, word in status.items()
                  if word != ("wrong" if key in wrong else "ok") and not (key.endswith("JAX") and word == "failed")}  # fmt: skip
    assert not unexpected and not missing, (unexpected, missing)
    step = cells()["steps/gpt2-small-bf16"]["value"]
    assert step["host us"] > 0 and set(step["replay us"]) == {"launch", "first", "inputs", "wait", "rest", "idle"}, step
    assert "kernels" in step["nodes"] and step["device GB"] > 0 and not step["note"], step
    for title in ("ms a step", "host time of a replayed step", "kernels beside a copy", "products and convolutions",
                  "attention of a layer", "the same in PyTorch", "losses", "sanitize:"):  # fmt: skip
        assert "\n" + title in text, title
    assert text.endswith("\n") and measure("--report", os.path.join(OUT, "results.json"), code=0).strip() in text
    for name in ("traces.tar.gz", "cluster.json", "ncu.csv"):
        assert os.path.getsize(os.path.join(OUT, name)), name
    # A cell that takes longer than it may ends with its limit, and is asked again by the next call.
    environment["MEASURE_SANITIZER"] = "false"
    measure("--only=sanitize/memcheck order", code=2)  # what is there is not written over
    os.remove(os.path.join(OUT, "results.json"))
    measure("--only=sanitize/memcheck order", code=1)
    assert cells()["sanitize/memcheck order"]["status"] == "failed"
    environment["MEASURE_SANITIZER"] = os.path.join(tools, "hangs")
    with open(environment["MEASURE_SANITIZER"], "w") as out:
        out.write("#!/bin/sh\nsleep 600\n")
    os.chmod(environment["MEASURE_SANITIZER"], 0o755)
    measure("--only=sanitize/memcheck order", "--budget=32", resume, code=1)
    assert cells()["sanitize/memcheck order"]["status"] == "late"
    del environment["MEASURE_SANITIZER"]
    measure("--only=sanitize/memcheck order", resume, code=0)
    print("a dry run went through")


main()
