# REQUIRES: compiler, torch
# RUN: %python %s %mpcomm-opt %mpcomm-run %mpcomm-import %cc \
# RUN:   %mpcomm_obj_root/test/lib/FakeCuda %mpcomm_src_root/docs/examples %t.dir
#
# Who computes the attention of a causal GPT on the fake GPU: what the environment says,
# or what all ranks find faster; kernels, if cuDNN is missing or fails. The report tells.
# That results are right is shown by training.py.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import os
import re
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "Inputs"), os.path.join(HERE, "Inputs")]
from small_models import GPT
from emulation import Emulator
from programs import run

OPT, RUN, IMPORT, CC, FAKES, EXAMPLES, FOLDER = sys.argv[1:]
STEPS = 6


def train(program, files, ranks, calls, expect=0, options=(), **environment):
    """What a run prints, and how often it called what."""
    log = os.path.join(FOLDER, calls)
    if os.path.exists(log):
        os.remove(log)
    variables = dict(os.environ, **emulator.environment, MPFAKE_MEMORY="256M", MPFAKE_LOG=log)
    variables.update(environment)
    command = [RUN, program, *files, "--steps", str(STEPS), "--np", str(ranks), "--seed", "7", "--device", "cuda"]
    done = subprocess.run([*command, *options], env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != expect:
        sys.exit("%s: expected %d, found %d\n%s" % (calls, expect, done.returncode, done.stdout))
    counts = {}
    with open(log) as lines:
        for line in lines:
            name, _, count = line.rpartition(" ")
            counts[name] = counts.get(name, 0) + int(count)
    return done.stdout, counts


def launches(counts):
    return sum(count for name, count in counts.items() if "kernel_attention" in name)


def check(holds, what, text):
    if not holds:
        sys.exit("%s:\n%s" % (what, text))


emulator = Emulator(OPT, CC, FAKES, FOLDER)
stem = os.path.join(FOLDER, "gpt")
files = ["--weights", stem + ".w", "--data", stem + ".d"]
run(IMPORT, os.path.join(EXAMPLES, GPT[0]), *GPT[1:], "-o", stem + ".mlir", *files)
one = emulator.compile(stem + ".mlir", "one", "precision=bf16")
two = emulator.compile(stem + ".mlir", "two", "precision=bf16 mesh=dp:2")

# By hand: one of the two from the first step on.
text, counts = train(one, files, 1, "cudnn", MPRT_ATTENTION="cudnn")
check(counts.get("cudnnBackendExecute", 0) > 0 and not launches(counts), "kernels ran", text + str(counts))
check(re.search(r"^chosen .*attention of \[2, 16, 2, 16\] by cuDNN \(cuDNN [0-9.]+ ms\); its gradient of "
                r"\[2, 16, 2, 16\] by cuDNN", text, re.M), "no report", text)  # fmt: skip
text, counts = train(one, files, 1, "kernels", MPRT_ATTENTION="kernels")
check("cudnnBackendExecute" not in counts and launches(counts), "cuDNN ran", text + str(counts))
check("chosen" not in text, "a report of no choice", text)
text, _ = train(one, files, 1, "flash", 1, MPRT_ATTENTION="flash")
check("MPRT_ATTENTION is 'flash', expected auto, cudnn or kernels" in text, "no error", text)

# By time, which is the fake device's: the library is faster than threads that are emulated.
# Two ranks vote over NCCL; those whose collectives go through the host do not: kernels.
LIBRARY = r"cuDNN \(cuDNN [0-9.]+ ms, kernels [0-9.]+ ms\)"
KERNELS = r"kernels \(cuDNN [0-9.]+ ms, kernels [0-9.]+ ms, the ranks have not voted\)"
NCCL = os.path.join(FAKES, "..", "FakeNccl", "FakeNccl", "libnccl.so.2")
for ranks, program, comm, chosen in (1, one, "shm", LIBRARY), (2, two, "shm", KERNELS), (2, two, "nccl", LIBRARY):
    text, counts = train(program, files, ranks, "auto%d%s" % (ranks, comm), 0, ["--comm", comm, "--check-replicas", "1"],
                         MPFAKE_DEVICES=str(ranks), MPRT_NCCL_LIBRARY=NCCL)  # fmt: skip
    check(launches(counts) and "cudnnBackendExecute" in counts, "nothing was compared", text + str(counts))
    check(re.search(r"^chosen .*attention of [^;]* by " + chosen, text, re.M), "another choice", text)
    check(("1 graph of" in text) == (chosen == LIBRARY), "no graph, or one", text)

# Without the library, or where it declines or fails when it is tried: kernels.
nothing = os.path.join(FOLDER, "none.so")
for mode in "auto", "cudnn":
    text, counts = train(one, files, 1, "absent", MPRT_ATTENTION=mode, MPRT_CUDNN_LIBRARY=nothing)
    check(launches(counts), "no kernels ran", text)
    check(re.search(r"^chosen .*attention .* by kernels \(.*none.so", text, re.M), "no report", text)
text, counts = train(one, files, 1, "fails", MPRT_ATTENTION="cudnn", MPFAKE_FAIL="cudnnCreate:1:4000")
check(re.search(r"by kernels \(cudnnCreate: CUDNN_STATUS_INTERNAL_ERROR\)", text), "no reason", text)
check(launches(counts), "no kernels ran", text)

# A call that fails after the choice ends the run, with its place. Each of the two first
# calls executes each of two plans four times, and then the better one.
text, _ = train(one, files, 1, "late", 1, MPRT_ATTENTION="cudnn", MPFAKE_FAIL="cudnnBackendExecute:9:5000")
check(re.search(r"mprt_attention.*blocks\.0\.attn.*attention by cuDNN: cudnnBackendExecute: "
                r"CUDNN_STATUS_EXECUTION_FAILED", text, re.S), "no place", text)  # fmt: skip

# Ranks whose environments have products computed differently do not begin.
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = str(probe.getsockname()[1])
ranks = []
for rank in "0", "1":
    variables = dict(os.environ, **emulator.environment, RANK=rank, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=port, MPFAKE_DEVICES="2", MPFAKE_MEMORY="256M", MPRT_TF32=rank)  # fmt: skip
    ranks.append(subprocess.Popen(
        [RUN, two, *files, "--steps", "1", "--seed", "7", "--device", "cuda", "--timeout", "60"], env=variables,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))  # fmt: skip
texts = [process.communicate()[0] for process in ranks]
check([process.returncode for process in ranks] == [1, 1], "began", texts)
check("rank 1 has MPRT_TF32=1 where rank 0 has no MPRT_TF32=1" in texts[0], "no reason", texts)
