# REQUIRES: compiler, torch
# RUN: %python %s %mpcomm-opt %mpcomm-run %mpcomm-import %cc \
# RUN:   %mpcomm_obj_root/test/lib/FakeCuda %mpcomm_src_root/docs/examples %t.dir
#
# With "device" in place of the folder of the fake libraries, on a GPU: device.test.
#
# Models trained with the kernels of a GPU, which the fake driver runs thread by
# thread and stream by stream in a random order, have the losses and parameters that
# they have on the processor.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import os
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "Inputs"), os.path.join(HERE, "Inputs")]
from small_models import (CASES, EPILOGUES, SOURCES, STEPS, UNITS, WIDE, distance, has_f8_products, has_library_attention,
                          on_processor, precision_of, write_sources)  # fmt: skip
from emulation import Emulator, call
from programs import read_losses, read_tensors, run

OPT, RUN, IMPORT, CC, FAKES, EXAMPLES, FOLDER = sys.argv[1:]


def train(program, name, files, ranks, environment, *options):
    out, log = (os.path.join(FOLDER, name + end) for end in (".safetensors", ".jsonl"))
    run(RUN, program, *files, "--steps", STEPS, "--np", ranks, "--seed", 7, "--log", log,
        "--save-weights", out, "--quiet", *options, limit=600, environment=environment)  # fmt: skip
    return read_losses(log), read_tensors(out)


def bring_in(model, words, stem):
    """Imports a model: its step, and the files of weights and data."""
    source = os.path.join(FOLDER if model in SOURCES else EXAMPLES, words[0])
    files = ["--weights", stem + ".w", "--data", stem + ".d"]
    run(IMPORT, source, *words[1:], "-o", stem + ".mlir", *files)
    return stem + ".mlir", files


def compare(number, case, step, files, low, emulator):
    """A case trained on both targets: what is to be printed, and whether they agree."""
    model, _, options, ranks, _ = case
    name = "%s-%d" % (model, number)
    options = options.replace("LOW", low)
    lines, ok = [], True
    if emulator.is_real:
        gpu = os.path.join(FOLDER, name + ".so")
        emulator.link(call([OPT, step, "--mpcomm-compile=target=cuda " + options]), gpu)
    else:
        gpu = emulator.compile(step, name, options)
    with open(gpu, "rb") as program:
        has = b"mprt_gemm_epilogue" in program.read()
    if model.endswith("tanh") and has != ("exact" not in options):
        lines.append("%s %s: %s products with epilogues" % (model, options, "has" if has else "no"))
        ok = False
    cpu = os.path.join(FOLDER, name + ".cpu.so")
    emulator.link(call([OPT, step, "--mpcomm-compile=cluster=dgx-h100 " + on_processor(options)]), cpu)
    losses, parameters = train(cpu, name + ".cpu", files, ranks, {})
    precision = precision_of(options)
    for seed in (1, 2):
        calls = os.path.join(FOLDER, "%s.%d.calls" % (name, seed))
        environment = dict(emulator.environment, MPFAKE_SEED=str(seed), MPFAKE_MEMORY="256M", MPFAKE_LOG=calls)
        environment["MPRT_ATTENTION"] = "cudnn" if seed == 1 else "kernels"
        if seed == 2:
            environment["MPFAKE_WIDE_BIAS"] = "1"
        if emulator.is_real:
            environment = {}
        found, state = train(gpu, name, files, ranks, environment, "--device", "cuda")
        loss, worst, bound, drift = distance(case, losses, parameters, found, state)
        near = loss <= bound and worst <= drift
        lines.append("%-8s %-30s %d ranks, seed %d: losses %.1e, parameters %.1e off (bounds %.1e, %.1e)%s"
                     % (model, options, ranks, seed, loss, worst, bound, drift,
                        "" if near else "  TOO MUCH"))  # fmt: skip
        ok = ok and near
        if emulator.is_real:
            continue
        with open(calls) as log:
            made = log.read()
        if ("cudnnBackendExecute " in made) != (seed == 1 and has_library_attention(case)):
            lines.append("attention was not computed by what was to compute it")
            ok = False
        if ("cublasLtMatmul/f8 " in made) != has_f8_products(case):
            lines.append("%s product read 8 bits" % ("a" if "f8 " in made else "no"))
            ok = False
        if ("cublasLtMatmul/scaled " in made) != has_f8_products(case):
            lines.append("%s product was scaled" % ("a" if "scaled " in made else "no"))
            ok = False
        if model in EPILOGUES:
            expected = EPILOGUES[model][precision]
            if UNITS[precision]:
                assert WIDE not in expected
                if ("cublasLtMatmul/epilogue/%s " % WIDE in made) != (seed == 2):
                    lines.append("a bias gradient in f32 %s" % ("is missing" if seed == 2 else "is there"))
                    ok = False
            for kind in expected:
                if "cublasLtMatmul/epilogue/%s " % kind not in made:
                    lines.append("no product had epilogue %s" % kind)
                    ok = False
    return name, lines, ok


def main():
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    low = write_sources(FOLDER)
    failed = []
    # Compilers wait for one core each; a GPU is used by one run at a time.
    with ThreadPoolExecutor(1 if emulator.is_real else 2) as pool:
        models = {(model, *words): words for model, words, *_ in CASES}
        stems = {key: os.path.join(FOLDER, "%s-of-%d" % (key[0], i)) for i, key in enumerate(models)}
        imported = {key: pool.submit(bring_in, key[0], words, stems[key]) for key, words in models.items()}
        jobs = []
        for number, case in enumerate(CASES):
            step, files = imported[(case[0], *case[1])].result()
            jobs.append(pool.submit(compare, number, case, step, files, low, emulator))
        for job in jobs:
            name, lines, ok = job.result()
            print("\n".join(lines))
            if not ok:
                failed.append(name)
    if failed:
        sys.exit("differ: " + ", ".join(failed))


main()
