# ===- plain.py - the library without shortcuts ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Functions of PyTorch as the importer traces them.

Attention, dropout and others have fast forms for one device or one case, draw random
numbers one by one, or look at values. While a model is traced, functions that show what
is computed are in their place.
"""

import contextlib
import logging
import math

import torch

from . import compat, recurrent
from .ctc import ctc_loss


def dropout(input, p=0.5, training=True, inplace=False):
    """torch.nn.functional.dropout as one operator, which it is on a GPU alone."""
    if not training or p == 0:
        return input
    result = torch.native_dropout(input, p, True)[0]
    return input.copy_(result) if inplace else result


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention: two products and a softmax. Heads
    of queries that share a key are rows of one product."""
    rows = query.shape[-2]
    groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    if groups > 1:
        query = query.unflatten(-3, (key.shape[-3], groups)).flatten(-3, -2)
    scores = query @ key.transpose(-2, -1)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if groups > 1:
        scores = scores.unflatten(-2, (groups, rows)).flatten(-4, -3)
    if is_causal:
        attn_mask = torch.ones(rows, key.shape[-2], dtype=torch.bool).tril()
    if attn_mask is None:
        weights = torch.softmax(scores, -1)
    else:
        masked = torch.where(attn_mask, scores, scores.new_full((), -math.inf)) \
            if attn_mask.dtype == torch.bool else scores + attn_mask
        weights = torch.softmax(masked, -1) if is_causal else compat.safe_softmax(masked, -1)
    weights = dropout(weights, dropout_p)
    if groups > 1:
        weights = weights.unflatten(-3, (-1, groups)).flatten(-3, -2)
    result = weights @ value
    return result.unflatten(-2, (groups, rows)).flatten(-4, -3) if groups > 1 else result


def one_hot(tensor, num_classes=-1):
    """torch.nn.functional.one_hot without looking at the values."""
    if num_classes < 0:
        return torch._C._nn.one_hot(tensor, num_classes)
    classes = torch.arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


def joined_pad(pad):
    """torch.nn.functional.pad that pads circularly by joining slices, rather than by
    writing them to memory of its own."""
    def padded(input, padding, mode="constant", value=None):
        if mode != "circular":
            return pad(input, padding, mode, *([] if value is None else [value]))
        for k in range(len(padding) // 2):
            dim, (low, high) = input.dim() - 1 - k, padding[2 * k:2 * k + 2]
            size = input.shape[dim] + min(low, 0) + min(high, 0)
            if max(low, high) > size:
                raise ValueError(f"expected padding of at most {size}, found {padding}")
            input = input.narrow(dim, max(-low, 0), size)
            parts = [input]
            if low > 0:
                parts.insert(0, input.narrow(dim, size - low, low))
            if high > 0:
                parts.append(input.narrow(dim, 0, high))
            input = torch.cat(parts, dim)
        return input
    return padded


def smoothing(cross_entropy):
    """torch.nn.functional.cross_entropy whose smoothed labels do not look at which of them
    are ignored."""
    def smoothed(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                 reduction="mean", label_smoothing=0.0):
        if not label_smoothing or target.is_floating_point() or size_average is not None or \
                reduce is not None:
            return cross_entropy(input, target, weight, size_average, ignore_index, reduce,
                                 reduction, label_smoothing)
        dim = min(input.dim() - 1, 1)
        logs = torch.log_softmax(input, dim)
        loss = torch.nn.functional.nll_loss(logs, target, weight, ignore_index=ignore_index,
                                            reduction=reduction)
        if weight is not None:
            logs = logs * weight.reshape([-1] + [1] * (input.dim() - 1 - dim))
        ignored = target == ignore_index
        even = -logs.sum(dim).masked_fill(ignored, 0)
        if reduction == "mean":
            counts = ignored.logical_not().to(input.dtype) if weight is None else \
                weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0)
            even = even.sum() / counts.sum()
        elif reduction == "sum":
            even = even.sum()
        return (1 - label_smoothing) * loss + label_smoothing / input.shape[dim] * even
    return smoothed


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """torch.nn.functional.gaussian_nll_loss without looking at the values."""
    if not isinstance(var, torch.Tensor):
        var = torch.full_like(input, var)
    if var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """torch.nn.functional.rrelu, whose operator writes what it draws to another tensor."""
    slope = torch.rand_like(input) * (upper - lower) + lower if training else (lower + upper) / 2
    result = torch.where(input > 0, input, input * slope)
    return input.copy_(result) if inplace else result


def spatial_mean(x):
    """Adaptive pooling to one element, which does not look at strides."""
    return x.mean((-2, -1), keepdim=True)


REPLACED = {"dropout": dropout, "scaled_dot_product_attention": attention, "one_hot": one_hot,
            "gaussian_nll_loss": gaussian_nll_loss, "pad": joined_pad(torch.nn.functional.pad),
            "cross_entropy": smoothing(torch.nn.functional.cross_entropy), "rrelu": rrelu}


@contextlib.contextmanager
def plain_modules(model):
    """Runs `model` without shortcuts."""
    means = [m for m in model.modules() if "forward" not in vars(m) and
             type(m).forward is torch.nn.AdaptiveAvgPool2d.forward and
             m.output_size in (1, (1, 1), [1, 1])]
    encoders = [m for m in model.modules() if getattr(m, "enable_nested_tensor", False)]
    functional = torch.nn.functional
    held = {n: getattr(functional, n) for n in REPLACED if hasattr(functional, n)}
    mha = getattr(torch.backends, "mha", None)
    fast = mha.get_fastpath_enabled() if mha is not None else None
    # A failure of a trace by shapes is no news: one on values follows.
    log = logging.getLogger("torch._subclasses.fake_tensor")
    own_kernels, level = torch._C._get_mkldnn_enabled(), log.disabled
    try:
        torch._C._set_mkldnn_enabled(False)
        for name in held:
            setattr(functional, name, REPLACED[name])
        for module in means:
            module.forward = spatial_mean
        for module in encoders:
            module.enable_nested_tensor = False
        if mha is not None:
            mha.set_fastpath_enabled(False)
        log.disabled = True
        yield
    finally:
        torch._C._set_mkldnn_enabled(own_kernels)
        log.disabled = level
        if mha is not None:
            mha.set_fastpath_enabled(fast)
        for module in encoders:
            module.enable_nested_tensor = True
        for module in means:
            del module.forward
        for name, function in held.items():
            setattr(functional, name, function)


@contextlib.contextmanager
def loops():
    """Within, recurrent modules and what else goes along a sequence are loops."""
    original = torch.ctc_loss
    try:
        torch.ctc_loss = ctc_loss
        vars(torch._VF).update(recurrent.FUNCTIONS)
        yield
    finally:
        torch.ctc_loss = original
        for name in recurrent.FUNCTIONS:
            del vars(torch._VF)[name]
