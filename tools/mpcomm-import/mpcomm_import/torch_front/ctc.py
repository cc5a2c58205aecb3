# ===- ctc.py - connectionist temporal classification ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The CTC loss by two loops over the frames (scan.py): the recursions for alpha and beta
of Graves et al., "Connectionist Temporal Classification" (2006), sections 4.1 and 4.2, in
logarithms.

The states of a sample are the S = 2 L + 1 labels l' of its target with blanks between and
around them. alpha[t, s] is the logarithm of the probability of all paths that are in
state s after frame t, beta[t, s] that of their continuations from frame t on; both
contain frame t. Before the first frame a path is in state 0, from which the rule of all
frames leads to the states that it may start in; after the last one it is in the last
state, so that beta starts there. So lengths are data: where a sample has no more frames
its carry stays, and what is beyond its target has no path.

PyTorch's gradient with respect to the log-probabilities is that with respect to what
they are the log_softmax of: exp(log_probs) less the posterior of each class.
"""

import math

import torch
import torch.nn.functional as F

from .scan import cell, scan


def logsumexp(*terms):
    top = terms[0]
    for term in terms[1:]:
        top = torch.maximum(top, term)
    top = torch.where(top == -math.inf, 0.0, top)
    total = sum((term - top).exp() for term in terms)
    return total.log() + top


def shifted(x, count):
    """x[s - count] for each state s, and no path from outside."""
    if abs(count) >= x.shape[1]:
        return torch.full_like(x, -math.inf)
    return F.pad(x, (count, 0) if count > 0 else (0, -count), value=-math.inf)[
        :, max(-count, 0):x.shape[1] + max(-count, 0)]


@cell
def ctc_alpha(alpha, frame, is_frame, skips):
    """`skips` is 0 where a path may come from two states before, else -inf."""
    into = logsumexp(alpha, shifted(alpha, 1), shifted(alpha, 2) + skips) + frame
    alpha = torch.where(is_frame > 0, into, alpha)
    return alpha, alpha


@cell
def ctc_beta(beta, frame, is_frame, skips):
    out = logsumexp(beta, shifted(beta, -1), shifted(beta + skips, -2)) + frame
    beta = torch.where(is_frame > 0, out, beta)
    return beta, beta


def only_where(condition, like):
    """0 where a condition holds, else -inf."""
    return torch.where(condition, 0.0, -math.inf).to(like.dtype)


class CTC(torch.autograd.Function):
    """The loss of each sample. log_probs [T, N, C], labels [N, S] with blanks, lengths
    [N]."""

    @staticmethod
    def forward(ctx, log_probs, labels, frames, length, zero_infinity):
        states = torch.arange(labels.shape[1])
        index = labels.unsqueeze(1).expand(-1, len(log_probs), -1)
        # [T, N, S], an index for each sample.
        rows = log_probs.transpose(0, 1).gather(2, index).transpose(0, 1)
        is_frame = torch.arange(len(log_probs)).unsqueeze(1) < frames
        is_frame = is_frame.to(log_probs.dtype).unsqueeze(2)
        before = F.pad(labels, (2, 0))[:, :-2]
        skips = only_where((states % 2 == 1) & (states > 1) & (labels != before), log_probs)
        last = 2 * length.unsqueeze(1)
        start = only_where(states == 0, log_probs).expand(labels.shape)
        alpha, stacked = scan("ctc_alpha", [start], [rows, is_frame], [skips])
        ends = alpha + only_where((states == last) | (states == last - 1), log_probs)
        loss = -ends.logsumexp(1)
        ctx.save_for_backward(log_probs, index, rows, is_frame, skips, last, stacked, loss)
        ctx.zero_infinity = zero_infinity
        return loss

    @staticmethod
    def backward(ctx, grad):
        log_probs, index, rows, is_frame, skips, last, alpha, loss = ctx.saved_tensors
        end = only_where(torch.arange(rows.shape[2]) == last, log_probs)
        _, beta = scan("ctc_beta", [end], [rows, is_frame], [skips], True)
        posterior = (alpha + beta - rows + loss.unsqueeze(1)).exp()
        by_class = torch.zeros_like(log_probs.transpose(0, 1)).scatter_add(
            2, index, posterior.transpose(0, 1)).transpose(0, 1)
        result = (log_probs.exp() - by_class) * grad.unsqueeze(1)
        counts = is_frame > 0
        if ctx.zero_infinity:
            counts = counts & (loss != math.inf).unsqueeze(1)
        return torch.where(counts, result, 0.0), None, None, None, None


def whole(lengths, what, most):
    """Lengths as a tensor. Those that are known are checked."""
    if isinstance(lengths, torch.Tensor):
        return lengths.to(torch.int64)
    if not all(0 <= n <= most for n in lengths):
        raise ValueError(f"expected {what} in [0, {most}], found {list(lengths)}")
    return torch.tensor(list(lengths))


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0,
             zero_infinity=False):
    """torch.ctc_loss, whose lengths it does not look at."""
    batched = log_probs.dim() == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    if not 0 <= blank < log_probs.shape[2]:
        raise ValueError(f"expected blank in [0, {log_probs.shape[2]}), found {blank}")
    frames = whole(input_lengths, "input_lengths", len(log_probs)).reshape(-1)
    length = whole(target_lengths, "target_lengths", targets.shape[-1]).reshape(-1)
    targets = targets.to(torch.int64)
    place = torch.arange(targets.shape[-1])
    if targets.dim() == 1:  # one after the other
        if not isinstance(target_lengths, torch.Tensor):
            place = torch.arange(max(1, *target_lengths))
        first = (length.cumsum(0) - length).unsqueeze(1)
        targets = targets[(first + place).clamp(max=len(targets) - 1)]
    # What is beyond a target's length may be anything.
    targets = torch.where(place < length.unsqueeze(1), targets, blank)
    labels = F.pad(torch.stack([torch.full_like(targets, blank), targets], 2).flatten(1),
                   (0, 1), value=blank)
    loss = CTC.apply(log_probs, labels, frames, length, zero_infinity)
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction == 1:
        return (loss / length.clamp(min=1).to(loss.dtype)).mean()
    if reduction == 2:
        return loss.sum()
    return loss if batched else loss.squeeze(0)
