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
"""The same scheduled program for two targets.

Both compute the same values from the same kernels' tensor forms; sums have another
order. A sum of n terms in f32 is off by at most (n - 1) u, u = 2^-24, of the sum of
its terms' magnitudes, in either order, so that two orders differ by 2 (n - 1) u; over S
steps that each feed the next, by 2 S (n - 1) u, where losses and parameters are of the
size of their terms' sums. In bf16 and f16 a sum that falls on the other side of a
boundary is rounded by one unit in the last place, 2^-8 or 2^-11, more: losses, means of
many such, stay within one unit. Biases added and gelu taken by the product's library are
rounded once, kernels' sums twice: one unit more in what follows. The processor computes
attention as it is written out, with scores in 16 bits, too. Parameters updated in f32 by lr
times a gradient stay within lr * S units. AdamW divides gradients by their own size: of the
first three steps each changes a parameter by at most 1.01 lr, whatever the gradients are
(Cauchy-Schwarz on its means), so that S of two runs are within 2.02 S lr; that gradients
are right is shown by the models that SGD trains."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from emulation import Emulator, call
from programs import read_tensors, run

OPT, RUN, IMPORT, CC, FAKES, EXAMPLES, FOLDER = sys.argv[1:]
STEPS = 3
U = 2.0**-24
UNITS = {"none": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11}

# A network with pools of each kind, dropout and odd sizes, which no vector divides.
ODD = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
def workload():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(35, 75), nn.Dropout(0.25), nn.GELU(), nn.LayerNorm(75),
                          nn.Unflatten(1, (3, 5, 5)), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 1, 1),
                          nn.Flatten(), nn.Tanh(), nn.Linear(48, 7))
    x, y = torch.randn(64, 35), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=6,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# Attention as transformers write it, and as torch does, on rows that no tile divides; by
# SGD, whose parameters show what gradients are.
ATTEND = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.own = nn.Linear(32, 96), nn.MultiheadAttention(32, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 7)
        for weight in self.qkv.weight, self.own.in_proj_weight:
            nn.init.normal_(weight, std=0.2)  # so that rows choose
        self.register_buffer("mask", torch.ones(20, 20).tril().bool())
    def forward(self, x):
        q, k, v = (t.unflatten(2, (2, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, 2))
        s = (q @ k.transpose(2, 3) / 4).masked_fill(~self.mask, float("-inf"))
        x = x + (s.softmax(3) @ v).transpose(1, 2).flatten(2)
        x = x + self.own(x, x, x, need_weights=False)[0]
        return self.head(self.norm(x).mean(1))
def workload():
    torch.manual_seed(1)
    model = Attend()
    x, y = torch.randn(64, 20, 32), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=6,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# A block of a Llama: rotary positions, keys and values that heads share, a gated layer.
LLAMA = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin
class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, n, bias=False) for n in (64, 32, 32))
        self.proj, self.gate, self.up = (nn.Linear(n, m, bias=False) for n, m in ((64, 32), (32, 40), (32, 40)))
        self.down, self.head, self.scale = nn.Linear(40, 32, bias=False), nn.Linear(32, 7), nn.Parameter(torch.ones(32))
        for linear in self.q, self.k:
            nn.init.normal_(linear.weight, std=0.2)  # so that rows choose
        angles = torch.outer(torch.arange(20.0), 100.0 ** (-torch.arange(0, 16, 2) / 16)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.ones(20, 20).tril().bool())
    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale
    def forward(self, x):
        y = self.norm(x)
        q, k, v = (f(y).unflatten(2, (-1, 16)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        s = (q @ k.transpose(2, 3) / 4).masked_fill(~self.mask, float("-inf"))
        x = x + self.proj((s.softmax(3) @ v).transpose(1, 2).flatten(2))
        y = self.norm(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(self.norm(x).mean(1))
def workload(batch=6):
    torch.manual_seed(1)
    model = Llama()
    x, y = torch.randn(64, 20, 32), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=batch,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# The odd network without dropout and pools, with the gelu that cuBLASLt knows, though not for rows of 75.
ODD_TANH = """
import torch, torch.nn as nn, torch.nn.functional as F
import mpcomm_import as mi
def workload():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(35, 75), nn.GELU(approximate="tanh"), nn.Linear(75, 7))
    x, y = torch.randn(64, 35), torch.randint(0, 7, (64,))
    return mi.Workload(model=model, loss=F.cross_entropy, dataset={"x": x, "y": y}, batch=6,
                       optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
"""

# The epilogues (numbers of cublasLtEpilogue_t) that a model's products must have had.
EPILOGUES = {"gpt-tanh": {"none": ("4", "164", "192", "512"), "bf16": ("4", "164", "192")}}
# That of a bias gradient in f32 beside results of 16 bits, which a library may know: the second one here does.
WIDE = "512"

SOURCES = {"odd": ODD, "odd-tanh": ODD_TANH, "attend": ATTEND, "llama": LLAMA}
# Rates of models that are trained by AdamW.
ADAM = {"gpt": 1e-3, "gpt-tanh": 1e-3, "vit": 1e-3, "lstm": 2e-3, "gru": 2e-3}

# name: arguments of mpcomm-import, options, ranks, terms of the longest sum
GPT = ["gpt.py", "-O", "layers=1", "-O", "d=32", "-O", "heads=2", "-O", "ctx=16", "--batch", "2"]
GPT2 = [word.replace("layers=1", "layers=2") for word in GPT]
LSTM = ["lstm.py", "-O", "layers=2", "-O", "d=12", "-O", "hidden=20", "-O", "ctx=9", "--batch", "3"]
CASES = [
    ("gpt", GPT, "", 1, 256),
    ("gpt", GPT, "precision=bf16 clip-norm=0.5", 1, 13312),
    ("gpt", GPT, "mesh=dp:2 micro-batches=2", 2, 256),
    ("gpt-tanh", GPT + ["-O", "gelu=tanh"], "", 1, 256),
    ("gpt-tanh", GPT + ["-O", "gelu=tanh"], "precision=bf16", 1, 13312),
    ("gpt", GPT, "precision=bf16 attention=separate", 1, 13312),
    ("gpt", GPT, "precision=f16 loss-scale=static:128", 1, 13312),
    ("gpt", GPT2, "precision=bf16 mesh=pp:2,dp:1 micro-batches=2 recompute=selective", 2, 13312),
    ("vit", ["vit.py", "-O", "layers=1", "-O", "d=32", "-O", "heads=2", "--batch", "3"], "precision=bf16", 1, 256),
    ("attend", ["attend.py"], "precision=bf16 precision-file=LOW", 1, 2000),
    ("attend", ["attend.py"], "precision=f16 precision-file=LOW", 1, 2000),
    ("llama", ["llama.py"], "precision=bf16 precision-file=LOW", 1, 2400),
    ("llama", ["llama.py", "-O", "batch=1"], "precision=bf16 precision-file=LOW", 1, 2400),
    ("llama", ["llama.py"], "", 1, 120),
    ("resnet", ["resnet.py", "-O", "width=8", "-O", "image=8", "--batch", "4"], "", 1, 576),
    ("lstm", LSTM, "", 1, 256),
    ("lstm", LSTM, "precision=bf16 precision-file=LOW", 1, 5000),
    ("lstm", LSTM, "mesh=dp:2 micro-batches=2", 2, 256),
    ("gru", LSTM + ["-O", "cell=gru"], "precision=f16 precision-file=LOW loss-scale=static:128", 1, 5000),
    ("odd", ["odd.py"], "", 1, 75),
    ("odd", ["odd.py"], "precision=f16", 1, 6000),
    ("odd-tanh", ["odd-tanh.py"], "", 1, 75),
    ("odd-tanh", ["odd-tanh.py"], "precision=f16", 1, 6000),
    ("odd-tanh", ["odd-tanh.py"], "numerics=exact", 1, 75),
]


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
    for model, text in SOURCES.items():
        with open(os.path.join(FOLDER, model + ".py"), "w") as out:
            out.write(text)
    # Products in 16 bits, even if so few of them do not gain from it.
    low = os.path.join(FOLDER, "low.json")
    with open(low, "w") as out:
        json.dump({"schema": "mpcomm-precision-1", "policy": "bf16", "compute": "lower_precision"}, out)
    failed = []
    for number, (model, words, options, ranks, terms) in enumerate(CASES):
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
        precision = options.partition("precision=")[2].partition(" ")[0] or "none"
        unit = UNITS[precision]
        bound = 2 * STEPS * (terms - 1) * U
        for seed in (1, 2):
            calls = os.path.join(FOLDER, "%s.%d.calls" % (name, seed))
            environment = dict(emulator.environment, MPFAKE_SEED=str(seed), MPFAKE_MEMORY="256M", MPFAKE_LOG=calls)
            if seed == 2:
                environment["MPFAKE_WIDE_BIAS"] = "1"
            if is_real:
                environment = {}
            found, state = train(gpu, name, files, ranks, environment, "--device", "cuda")
            loss = max(abs(a - b) / abs(a) for a, b in zip(losses, found))
            size = max(abs(v) for values in parameters.values() for v in values)
            worst = max(abs(a - b) / size for key, values in parameters.items()
                        for a, b in zip(values, state[key]))  # fmt: skip
            drift = bound + (2.02 * ADAM[model] * STEPS / size if unit and model in ADAM else 0.1 * STEPS * unit)
            ok = loss <= bound + unit and worst <= drift
            print("%-8s %-30s %d ranks, seed %d: losses %.1e, parameters %.1e off (bounds %.1e, %.1e)%s"
                  % (model, options, ranks, seed, loss, worst, bound + unit, drift,
                     "" if ok else "  TOO MUCH"))  # fmt: skip
            if not ok:
                failed.append(name)
            if not is_real and model in EPILOGUES:
                with open(calls) as log:
                    made = log.read()
                expected = EPILOGUES[model][precision]
                if unit:
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
