# RUN: %python %s mpcomm-opt %mpcomm_src_root %t.dir 160
#
# The gates accept no program that was changed so that it computes something else: mistakes that a
# pass could make with communication are put into rank programs of several models and options, before
# and after they are scheduled. mutants-long.test puts in more.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mutants.py OPT SOURCES FOLDER COUNT [SEED]. Prints what came of COUNT mutants, and fails with the
first that the gates accept although it does not become the original's text where both are
simplified."""

import bisect
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from mutants import Program

OPT, SOURCES, FOLDER, COUNT = sys.argv[1:5]
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 1
GATES = ["--mpcomm-verify-communication", "--mpcomm-verify-shardings"]
SIMPLIFY = ["--mpcomm-simplify-collectives", "--canonicalize", "--cse"]
SPLIT = "// -----"
BATCH = 100
TWO_LEVELS = os.path.join(SOURCES, "test/Transforms/Communicate/Inputs/two-levels.json")


def opt(text, *arguments, check=True):
    done = subprocess.run([OPT, *arguments], input=text, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit("%s\nfailed:\n%s" % (" ".join(arguments), done.stderr[-4000:]))
    return done


def gpt(*arguments):
    generator = os.path.join(SOURCES, "test/bench/graph-scale/generate.py")
    return subprocess.run([sys.executable, generator, "--ops=1", *arguments], capture_output=True, text=True,
                          check=True).stdout  # fmt: skip


def read(name):
    with open(os.path.join(SOURCES, name)) as file:
        return file.read()


def programs():
    """(name, text with fingerprints)."""
    block, norm = gpt(), read("test/bench/proof/Inputs/batch-norm.mlir")
    # Form 3, by hand: one pass after the other.
    data = "--mpcomm-data-parallel=size=%d%s"
    for name, source, passes in (
        ("gpt", block, [data % (4, "")]),
        ("gpt, divided before", block, [data % (4, " average=before")]),
        ("gpt, wire", block, [data % (2, " wire=bf16")]),
        ("norms", norm, [data % (2, ""), "--mpcomm-sync-batch-norm"]),
        ("gpt, micro-batches", block, [data % (2, " micro-batches=2 average=before"), "--mpcomm-accumulate-gradients=micro-batches=2"]),
        ("gpt, ZeRO", block, ["--mpcomm-insert-casts=policy=bf16", data % (4, " average=before"),
                              "--mpcomm-assign-shardings=zero=1",
                              "--mpcomm-propagate-shardings", "--mpcomm-localize"]),
        ("gpt, buckets", block, [data % (4, ""), "--mpcomm-combine-collectives=policy=megatron"]),
    ):  # fmt: skip
        yield name, opt(source, *passes, "--mpcomm-verify-shardings=record").stdout
    # Form 4.
    for name, source, options in (
        ("gpt", block, "mesh=dp:4"),
        ("gpt, ZeRO", block, "mesh=dp:2 precision=bf16 zero=1"),
        ("gpt, ZeRO 2", block, "mesh=dp:2 zero=2 micro-batches=2"),
        ("gpt, ZeRO 3", block, "mesh=dp:2 precision=bf16 zero=3"),
        ("gpt, ZeRO, exact", block, "mesh=dp:4 precision=bf16 zero=1 numerics=exact average=before"),
        ("gpt, two levels", block, "mesh=dp:8 cluster=%s max-bucket-bytes=20000" % TWO_LEVELS),
        ("gpt, two levels, divided before", block, "mesh=dp:8 average=before cluster=%s" % TWO_LEVELS),
        ("gpt, 8 bits", block, "mesh=dp:2 wire=i8 wire-min-bytes=0"),
        ("norms", norm, "mesh=dp:2 batch-norm=sync"),
        ("gpt, pipeline", block, "mesh=pp:2,dp:2 micro-batches=4"),
        ("gpt, micro-batches, ZeRO", block, "mesh=dp:2 micro-batches=2 precision=bf16 zero=1"),
    ):
        yield "scheduled " + name, opt(source, "--mpcomm-graph=" + options).stdout


def failures(texts, *passes):
    """The numbers of texts at which the passes fail."""
    failed = set()
    for first in range(0, len(texts), BATCH):
        batch = texts[first : first + BATCH]
        starts, line = [], 1
        for text in batch:
            starts.append(line)
            line += text.count("\n") + 1
        whole = (SPLIT + "\n").join(batch)
        done = opt(whole, "--split-input-file", "-o", os.devnull, *passes, check=False)
        found = set()
        for at in re.findall(r"^<stdin>:(\d+):\d+: error:", done.stderr, flags=re.M):
            found.add(bisect.bisect_right(starts, int(at)) - 1)
        if bool(found) != bool(done.returncode):
            sys.exit("mpcomm-opt ended with status %d:\n%s" % (done.returncode, done.stderr[-4000:]))
        failed |= {first + i for i in found}
    return failed


def simplified(texts):
    made = []
    for first in range(0, len(texts), BATCH):
        whole = (SPLIT + "\n").join(texts[first : first + BATCH])
        made += opt(whole, "--split-input-file", *SIMPLIFY).stdout.split(SPLIT + "\n")
    return [text.strip() for text in made]


def without_fingerprints(text):
    return re.sub(r"mpcomm\.fingerprints = array<i64[^>]*>(, )?", "", text)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    sources = list(programs())
    if failures([text for _, text in sources], *GATES):
        sys.exit("a program that was not changed is rejected")
    share = -(-int(COUNT) // len(sources))
    total = collections.Counter()
    kinds, by_types = collections.Counter(), collections.Counter()
    wrong = []
    spare = 0
    for name, text in sources:
        program = Program(text)
        mutants = program.mutants(SEED)[: 3 * (share + spare)]
        invalid = failures([m.text for m in mutants])
        mutants = [m for i, m in enumerate(mutants) if i not in invalid][: share + spare]
        spare += share - len(mutants)
        texts = [m.text for m in mutants]
        accepted = sorted(set(range(len(texts))) - failures(texts, *GATES))
        bare = set(range(len(texts))) - failures([without_fingerprints(t) for t in texts], *GATES)
        original, *others = simplified([text] + [texts[i] for i in sorted(bare)])
        same = {i for i, other in zip(sorted(bare), others, strict=True) if other == original}
        wrong += [(name, mutants[i]) for i in accepted if i not in same]
        total.update(mutants=len(mutants), same=len(same), accepted=len(accepted), by_types=len(bare - same),
                     invalid=len(invalid), rejected_same=len(same - set(accepted)))  # fmt: skip
        kinds.update(m.kind for m in mutants)
        by_types.update(mutants[i].kind for i in bare - same)
        print("%-34s %4d mutants, %4d accepted, %3d the same, %4d others accepted without fingerprints"
              % (name, len(mutants), len(accepted), len(same), len(bare - same)))  # fmt: skip
    print("of each kind, and how many of these that are not the same are accepted without fingerprints: "
          + ", ".join("%s %d (%d)" % (kind, n, by_types[kind]) for kind, n in sorted(kinds.items())))  # fmt: skip
    print("%(mutants)d mutants: %(accepted)d accepted, %(same)d compute the same (%(rejected_same)d of them rejected); "
          "without fingerprints %(by_types)d of the others are accepted" % total)  # fmt: skip
    if wrong:
        for i, (name, mutant) in enumerate(wrong):
            with open(os.path.join(FOLDER, "accepted-%d.mlir" % i), "w") as file:
                file.write(mutant.text)
        name, mutant = wrong[0]
        sys.exit("%d are accepted that compute something else, the first of '%s': %s\n%s"
                 % (len(wrong), name, mutant.kind, mutant.text.splitlines()[mutant.line]))  # fmt: skip
    if total["mutants"] < int(COUNT):
        sys.exit("expected %s mutants" % COUNT)


main()
