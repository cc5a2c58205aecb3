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
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "Inputs"), os.path.join(HERE, "Inputs")]
from small_models import CASES, EPILOGUES, SOURCES, STEPS, UNITS, WIDE, distance, precision_of, write_sources
from emulation import Emulator, call
from programs import read_tensors, run

OPT, RUN, IMPORT, CC, FAKES, EXAMPLES, FOLDER = sys.argv[1:]


def train(program, name, files, ranks, environment, *options):
    out, log = (os.path.join(FOLDER, name + end) for end in (".safetensors", ".jsonl"))
    old = dict(os.environ)
    os.environ.update(environment)
    run(RUN, program, *files, "--steps", STEPS, "--np", ranks, "--seed", 7, "--log", log,
        "--save-weights", out, "--quiet", *options, limit=600)  # fmt: skip
    os.environ.clear()
    os.environ.update(old)
    with open(log) as lines:
        return [json.loads(line)["loss"] for line in lines], read_tensors(out)


def main():
    is_real = FAKES == "device"
    emulator = Emulator(OPT, CC, FAKES, FOLDER)
    low = write_sources(FOLDER)
    failed = []
    for number, case in enumerate(CASES):
        model, words, options, ranks, _ = case
        name = "%s-%d" % (model, number)
        options = options.replace("LOW", low)
        source = os.path.join(FOLDER if model in SOURCES else EXAMPLES, words[0])
        step, weights, data = (os.path.join(FOLDER, name + end) for end in (".mlir", ".w", ".d"))
        run(IMPORT, source, *words[1:], "-o", step, "--weights", weights, "--data", data)
        files = ["--weights", weights, "--data", data]
        if is_real:
            gpu = os.path.join(FOLDER, name + ".so")
            text = call([OPT, step, "--mpcomm-compile=target=cuda " + options])
            emulator.link(text, gpu)
        else:
            gpu = emulator.compile(step, name, options)
        with open(gpu, "rb") as program:
            has = b"mprt_gemm_epilogue" in program.read()
        if model.endswith("tanh") and has != ("exact" not in options):
            print("%s %s: %s products with epilogues" % (model, options, "has" if has else "no"))
            failed.append(name)
        cpu = os.path.join(FOLDER, name + ".cpu.so")
        text = call([OPT, step, "--mpcomm-compile=cluster=dgx-h100 " + options])
        emulator.link(text, cpu)
        losses, parameters = train(cpu, name + ".cpu", files, ranks, {})
        precision = precision_of(options)
        for seed in (1, 2):
            calls = os.path.join(FOLDER, "%s.%d.calls" % (name, seed))
            environment = dict(emulator.environment, MPFAKE_SEED=str(seed), MPFAKE_MEMORY="256M", MPFAKE_LOG=calls)
            if seed == 2:
                environment["MPFAKE_WIDE_BIAS"] = "1"
            if is_real:
                environment = {}
            found, state = train(gpu, name, files, ranks, environment, "--device", "cuda")
            loss, worst, bound, drift = distance(case, losses, parameters, found, state)
            ok = loss <= bound and worst <= drift
            print("%-8s %-30s %d ranks, seed %d: losses %.1e, parameters %.1e off (bounds %.1e, %.1e)%s"
                  % (model, options, ranks, seed, loss, worst, bound, drift,
                     "" if ok else "  TOO MUCH"))  # fmt: skip
            if not ok:
                failed.append(name)
            if not is_real and model in EPILOGUES:
                with open(calls) as log:
                    made = log.read()
                expected = EPILOGUES[model][precision]
                if UNITS[precision]:
                    assert WIDE not in expected
                    if ("cublasLtMatmul/epilogue/%s " % WIDE in made) != (seed == 2):
                        print("a bias gradient in f32 %s" % ("is missing" if seed == 2 else "is there"))
                        failed.append(name)
                for kind in expected:
                    if "cublasLtMatmul/epilogue/%s " % kind not in made:
                        print("no product had epilogue %s" % kind)
                        failed.append(name)
    if failed:
        sys.exit("differ: " + ", ".join(failed))


main()
