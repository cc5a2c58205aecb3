# ===- lstm.py - a byte-level LSTM on the licences of this machine ----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A recurrent network that learns to write licences, byte by byte.

    mpcomm-import lstm.py -o step.mlir --weights w.safetensors --data d.safetensors

The sequences may be of any length: the program has one loop over their steps. Option
`cell` is lstm, gru or rnn.
"""

import torch
import torch.nn as nn

import mpcomm_import as mi
from gpt import loss, read_text, windows

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class LanguageModel(nn.Module):
    def __init__(self, cell, layers, d, hidden, dropout):
        super().__init__()
        self.embedding = nn.Embedding(256, d)
        self.layers = CELLS[cell](d, hidden, layers, batch_first=True, dropout=dropout)
        self.head = nn.Linear(hidden, 256)

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids))[0])


def workload(cell="lstm", layers=1, d=64, hidden=128, ctx=512, batch=8, lr=2e-3, dropout=0.0,
             text="/usr/share/common-licenses"):
    model = LanguageModel(cell, layers, d, hidden, dropout)
    data = read_text(text)
    cut = len(data) * 9 // 10
    return mi.Workload(model=model, loss=loss, batch=batch,
                       optimizer=torch.optim.AdamW(model.parameters(), lr=lr),
                       dataset=windows(data[:cut], ctx),
                       eval_dataset=windows(data[cut:], ctx))
