# ===- recurrent.py - recurrent layers as loops ----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""LSTM, GRU and RNN by loops (scan.py).

A layer is a loop for each direction. What does not depend on the step before is outside
of it, over all steps at once: the product of the input and, in the backward pass, the
products that make the gradients of the weights and of the input (Appleyard et al.,
"Optimizing Performance of Recurrent Neural Networks on GPUs", 2016).

Names: x the part of the gates that the input makes, h the state, c the memory of an
LSTM, w and b the weight and bias of the recurrent product, i, f, g, o and r, z, n the
gates, as in PyTorch's documentation; d… is the gradient of …. The forward cells take w
transposed, once before the loop: its rows are then read as they lie in memory.
"""

import torch
import torch.nn.functional as F

from ..errors import ImportFailure
from .scan import cell, scan

# --- one step ---


@cell
def lstm(h, c, x, w):
    i, f, g, o = (x + h @ w).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    h = o * c.tanh()
    return h, c, h, i, f, g, o, c


@cell
def lstm_grad(dh, dc, dy, i, f, g, o, c, before, w):
    dh, tanh = dh + dy, c.tanh()
    dc = dc + dh * o * (1 - tanh * tanh)
    gates = torch.cat([dc * g * i * (1 - i), dc * before * f * (1 - f),
                       dc * i * (1 - g * g), dh * tanh * o * (1 - o)], 1)
    return gates @ w, dc * f, gates


@cell
def gru(h, x, w, *b):
    recurrent = h @ w
    if b:
        recurrent = recurrent + b[0]
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), recurrent.chunk(3, 1)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    h = n + z * (h - n)
    return h, h, r, z, n, hn


@cell
def gru_grad(dh, dy, r, z, n, hn, before, w):
    dh = dh + dy
    dn = dh * (1 - z) * (1 - n * n)
    dr = dn * hn * r * (1 - r)
    dz = dh * (before - n) * z * (1 - z)
    recurrent = torch.cat([dr, dz, dn * r], 1)
    return dh * z + recurrent @ w, torch.cat([dr, dz, dn], 1), recurrent


@cell
def rnn_tanh(h, x, w):
    h = (x + h @ w).tanh()
    return h, h


@cell
def rnn_tanh_grad(dh, dy, y, w):
    d = (dh + dy) * (1 - y * y)
    return d @ w, d


@cell
def rnn_relu(h, x, w):
    h = (x + h @ w).relu()
    return h, h


@cell
def rnn_relu_grad(dh, dy, y, w):
    d = torch.where(y > 0, dh + dy, 0 * dy)
    return d @ w, d


# --- all steps ---

def before(first, rows, reverse):
    """For each step the state that it starts with, out of those that steps end with."""
    if len(rows) == 1:
        return first[None]
    return torch.cat([rows[1:], first[None]] if reverse else [first[None], rows[:-1]])


def weight_grad(d, states):
    return d.flatten(0, 1).t() @ states.flatten(0, 1)


class LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, reverse, h, c):
        last, memory, y, *saved = scan("lstm", [h, c], [x], [w.t()], reverse)
        ctx.save_for_backward(w, h, c, y, *saved)
        ctx.reverse = reverse
        return y, last, memory

    @staticmethod
    def backward(ctx, dy, dh, dc):
        w, h, c, y, *gates, memory = ctx.saved_tensors
        dh, dc, d = scan("lstm_grad", [dh, dc], [
            dy, *gates, memory, before(c, memory, ctx.reverse)], [w], not ctx.reverse)
        return d, weight_grad(d, before(h, y, ctx.reverse)), None, dh, dc


class GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, reverse, h, *b):
        last, y, *saved = scan("gru", [h], [x], [w.t(), *b], reverse)
        ctx.save_for_backward(w, h, y, *saved)
        ctx.reverse, ctx.biased = reverse, bool(b)
        return y, last

    @staticmethod
    def backward(ctx, dy, dh):
        w, h, y, *gates = ctx.saved_tensors
        states = before(h, y, ctx.reverse)
        dh, d, recurrent = scan("gru_grad", [dh], [dy, *gates, states], [w], not ctx.reverse)
        db = [recurrent.sum((0, 1))] * ctx.biased
        return d, weight_grad(recurrent, states), None, dh, *db


class RNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, reverse, h, cell):
        last, y = scan(cell, [h], [x], [w.t()], reverse)
        ctx.save_for_backward(w, h, y)
        ctx.reverse, ctx.cell = reverse, cell
        return y, last

    @staticmethod
    def backward(ctx, dy, dh):
        w, h, y = ctx.saved_tensors
        dh, d = scan(ctx.cell + "_grad", [dh], [dy, y], [w], not ctx.reverse)
        return d, weight_grad(d, before(h, y, ctx.reverse)), None, dh, None


def run_layer(kind, x, states, weights, reverse):
    """(output of all steps, last states…) of one layer in one direction."""
    w_ih, w_hh, *biases = weights
    if kind == "gru":
        return GRU.apply(F.linear(x, w_ih, *biases[:1]), w_hh, reverse, *states, *biases[1:])
    x = F.linear(x, w_ih, biases[0] + biases[1] if biases else None)
    if kind == "lstm":
        return LSTM.apply(x, w_hh, reverse, *states)
    return RNN.apply(x, w_hh, reverse, *states, kind)


def layers_of(kind):
    """What is called in the place of `torch._VF.lstm` and its like."""
    def run(x, states, weights, bias, layers, dropout, training, bidirectional, *batch_first):
        if isinstance(weights, torch.Tensor) or not isinstance(bias, bool):
            packed()
        states = [states] if isinstance(states, torch.Tensor) else states
        directions, each = 1 + bidirectional, 4 if bias else 2
        if len(weights) != layers * directions * each:
            raise ImportFailure("nn.LSTM with proj_size is not supported; use a linear layer "
                                "after one without")
        x = x.transpose(0, 1) if any(batch_first) else x
        last = []
        for layer in range(layers):
            outputs = []
            for k in range(layer * directions, (layer + 1) * directions):
                y, *ends = run_layer(kind, x, [s[k] for s in states],
                                     weights[k * each:(k + 1) * each], k % directions == 1)
                outputs.append(y)
                last.append(ends)
            x = torch.cat(outputs, -1) if bidirectional else outputs[0]
            if layer < layers - 1:
                x = F.dropout(x, dropout, training)
        return (x.transpose(0, 1) if any(batch_first) else x, *map(torch.stack, zip(*last)))
    return run


def packed(*_):
    raise ImportFailure("packed sequences are not supported: their sizes depend on the data; "
                        "pad to one length and let the loss ignore what is padded")


FUNCTIONS = {**{k: layers_of(k) for k in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
             "_pack_padded_sequence": packed}
