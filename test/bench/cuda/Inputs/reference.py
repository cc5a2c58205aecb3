# ===- reference.py - what a GPU and PyTorch's ops reach --------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Rates of the GPU and times of PyTorch's ops, in the sizes of the steps that are measured."""

import torch
import torch.nn.functional as F

from clocks import DEVICE, bench, copy_bandwidth, sized


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:100]


def describe():
    """Name, versions, a copy's bandwidth and rates of large products by type."""
    torch.backends.cuda.matmul.allow_tf32 = False
    found = {"name": DEVICE if DEVICE == "cpu" else torch.cuda.get_device_name(), "torch": torch.__version__,
             "cuda": torch.version.cuda, "copy GB/s": copy_bandwidth()}  # fmt: skip
    for name, kind, size in [("bf16", torch.bfloat16, 8192), ("f16", torch.float16, 8192), ("f32", torch.float32, 4096)]:
        n = sized(size, 64)
        x, y = (torch.randn(n, n, device=DEVICE, dtype=kind) for _ in range(2))
        found["product %s TFLOP/s" % name] = 2 * n**3 / bench(lambda: x @ y, 10) / 1e12
    n = sized(8192, 64)
    try:
        x, y = (torch.randn(n, n, device=DEVICE).to(torch.float8_e4m3fn) for _ in range(2))
        one = torch.ones((), device=DEVICE)
        multiply = lambda: torch._scaled_mm(x, y.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        found["product f8 TFLOP/s"] = 2 * n**3 / bench(multiply, 10) / 1e12
    except Exception as error:
        found["product f8 TFLOP/s"] = "failed: " + first_line(error)
    return found


class Rows:
    """us, GB/s and share of a copy's bandwidth, by what was timed."""

    def __init__(self, copy):
        self.copy, self.rows = copy, {}

    def add(self, label, call, bytes):
        try:
            seconds = bench(call)
        except Exception as error:
            self.rows[label] = "failed: " + first_line(error)
            return
        rate = bytes / seconds / 1e9
        self.rows[label] = {"MB": bytes / 1e6, "us": seconds * 1e6, "GB/s": rate, "share": rate / self.copy}


def time_ops():
    """Ops of GPT-2 small on 32 x 1024 tokens and ResNet-50's max pool, in PyTorch."""
    rows = Rows(copy_bandwidth())
    tokens, d, vocab = sized(32 * 1024, 64), sized(768, 16), sized(50304, 32)
    compile = torch.compile if DEVICE != "cpu" else lambda f: f
    x = torch.randn(tokens, d, device=DEVICE, requires_grad=True)
    w, b = (torch.randn(d, device=DEVICE, requires_grad=True) for _ in range(2))
    dy = torch.randn(tokens, d, device=DEVICE, dtype=torch.bfloat16)
    norm = lambda x, w, b: F.layer_norm(x, (d,), w, b).to(torch.bfloat16)
    for label, f in [("layer norm", norm), ("layer norm, compiled", compile(norm))]:
        with torch.no_grad():
            rows.add(label, lambda: f(x, w, b), tokens * d * 6)
        y = f(x, w, b)
        rows.add(label + ", gradient", lambda: torch.autograd.grad(y, (x, w, b), dy, retain_graph=True), tokens * d * 10)
    few = tokens // 4
    logits = torch.randn(few, vocab, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    ids = torch.randint(0, vocab, (few,), device=DEVICE)
    entropy = lambda logits: F.cross_entropy(logits.float(), ids)
    for label, f in [("cross-entropy and gradient", entropy), ("the same, compiled", compile(entropy))]:
        rows.add(label, lambda: torch.autograd.grad(f(logits), logits), logits.numel() * 4)
    params = [torch.randn(s, device=DEVICE) for s in [(vocab, d), (sized(1024, 8), d)] + 12 * [(3 * d, d), (d, d), (4 * d, d), (d, 4 * d)]]
    for p in params:
        p.grad = torch.randn_like(p)
    count = sum(p.numel() for p in params)
    for label, options in [("AdamW, fused", {"fused": True}), ("AdamW, foreach", {"foreach": True})]:
        rows.add(label, torch.optim.AdamW(params, **options).step, count * 28)
    bucket = torch.empty(count, device=DEVICE, dtype=torch.bfloat16)
    parts = [part.view_as(p) for part, p in zip(bucket.split([p.numel() for p in params]), params)]
    rows.add("pack and cast, foreach copy", lambda: torch._foreach_copy_(parts, params), count * 6)
    rows.add("unpack and cast, foreach copy", lambda: torch._foreach_copy_(params, parts), count * 6)
    n, size = sized(256, 2), sized(112, 8)
    image = torch.randn(n, 64, size, size, device=DEVICE, dtype=torch.bfloat16).to(memory_format=torch.channels_last).requires_grad_()
    pooled = F.max_pool2d(image, 3, 2, 1)
    slope = torch.randn_like(pooled)
    rows.add("max pool, gradient", lambda: torch.autograd.grad(pooled, image, slope, retain_graph=True),
             2 * (image.numel() + 5 * pooled.numel()))  # fmt: skip
    return {"copy": rows.copy, "rows": rows.rows}


# Batch, rows, heads, size of a head.
ATTENTION = [(32, 1024, 12, 64), (8, 1024, 16, 64), (16, 1024, 16, 64), (8, 1024, 8, 128), (4, 4096, 16, 128)]


def time_attention(repeats=3):
    """Causal attention of a layer in bf16 and its gradient, us: the median of `repeats`
    medians, and each."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = [("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)]
    if DEVICE == "cpu":
        backends = [("math", SDPBackend.MATH)]
    found = {}
    for shape in ATTENTION:
        batch, rows, heads, size = (sized(n, min(n, 16)) for n in shape)
        q, k, v = (torch.randn(batch, rows, heads, size, device=DEVICE, dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
                   for _ in range(3))  # fmt: skip
        for label, backend in backends:
            key = "%s %s" % (label, list(shape))
            try:
                with sdpa_kernel(backend):
                    attend = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
                    y = attend()
                    dy = torch.randn_like(y)
                    backward = lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)
                    with torch.no_grad():
                        forward_times = sorted(1e6 * bench(attend) for _ in range(repeats))
                    backward_times = sorted(1e6 * bench(backward) for _ in range(repeats))
            except Exception as error:
                found[key] = "failed: " + first_line(error)
                continue
            found[key] = {"forward": forward_times[repeats // 2], "backward": backward_times[repeats // 2],
                          "all": [forward_times, backward_times]}  # fmt: skip
    return found
