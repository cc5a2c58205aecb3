# ===- transformer.py - GPT-2 and BERT --------------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""GPT-2 (Radford et al. 2019) as nanoGPT builds it, with the output layer tied to the
token table; BERT (Devlin et al. 2019) as Hugging Face's BertForPreTraining: masked
language model on every position (tied as well) and next-sentence prediction. No
dropout: it would add an elementwise op to each of its places, and no communication."""

from layers import (add, add_rows, attention, cross_entropy, embedding, gelu,
                    layer_norm, linear, scope, tanh)


def norm_parameters(g, name, width):
    return g.parameter(name + ".weight", width), g.parameter(name + ".bias", width)


def linear_parameters(g, name, out, width):
    return g.parameter(name + ".weight", out, width), g.parameter(name + ".bias", out)


class Layers:
    """Parameters of one block, in the order of PyTorch's modules."""

    def __init__(self, g, prefix, kinds):
        self.g, self.prefix, self.p = g, prefix, {}
        for name, shape in kinds:
            full = prefix + "." + name
            self.p[name] = norm_parameters(g, full, *shape) if len(shape) == 1 \
                else linear_parameters(g, full, *shape)

    def linear(self, x, name):
        with scope(self.g, self.prefix + "." + name):
            return linear(self.g, x, *self.p[name])

    def norm(self, x, name, eps="1.0e-05"):
        with scope(self.g, self.prefix + "." + name):
            return layer_norm(self.g, x, *self.p[name], eps)


def first_rows(g, table, count):
    """The rows of the positions that a shorter sequence has."""
    rows = g.cast(table)
    if count == rows.shape[0]:
        return rows
    return g.record(g.slice(rows, (0, 0), (count, rows.shape[1])), [rows], lambda d: [
        g.pad(d, (0, 0), (rows.shape[0] - count, 0))])


def gpt2(g, batch, sequence, layers, width, heads, vocabulary=50257, positions=1024):
    assert sequence <= positions
    wte = g.parameter("wte.weight", vocabulary, width)
    wpe = g.parameter("wpe.weight", positions, width)
    blocks = [Layers(g, "h.%d" % i, [
        ("ln_1", [width]), ("attn.c_attn", [3 * width, width]),
        ("attn.c_proj", [width, width]), ("ln_2", [width]),
        ("mlp.c_fc", [4 * width, width]), ("mlp.c_proj", [width, 4 * width])])
        for i in range(layers)]
    final = norm_parameters(g, "ln_f", width)
    mask = g.argument("buffer", "mask", (sequence, sequence), "i1")
    x = g.batch("x", (batch, sequence), "i64", vocabulary)
    y = g.batch("y", (batch, sequence), "i64", vocabulary)

    with scope(g, "wte"):
        h = embedding(g, wte, x)
    with scope(g, "wpe"):
        rows = first_rows(g, wpe, sequence)
        h = add_rows(g, h, rows)
    for block in blocks:
        qkv = block.linear(block.norm(h, "ln_1"), "attn.c_attn")
        with scope(g, block.prefix + ".attn"):
            mixed = attention(g, qkv, heads, ("causal", mask))
        mixed = block.linear(mixed, "attn.c_proj")
        with scope(g, block.prefix):
            h = add(g, h, mixed)
        f = block.linear(block.norm(h, "ln_2"), "mlp.c_fc")
        with scope(g, block.prefix + ".mlp"):
            f = gelu(g, f, tanh=True)
        f = block.linear(f, "mlp.c_proj")
        with scope(g, block.prefix):
            h = add(g, h, f)
    with scope(g, "ln_f"):
        h = layer_norm(g, h, *final)
    with scope(g, "lm_head"):
        logits = linear(g, h, wte)
    with scope(g, "loss"):
        loss = cross_entropy(g, logits, y)
        seed = g.constant(1.0, (), "f32")
    g.backward({loss: seed})
    return loss


def bert(g, batch, sequence, layers, width, heads, vocabulary=30522, positions=512):
    assert sequence <= positions
    prefix = "bert.embeddings."
    word = g.parameter(prefix + "word_embeddings.weight", vocabulary, width)
    position = g.parameter(prefix + "position_embeddings.weight", positions, width)
    kind = g.parameter(prefix + "token_type_embeddings.weight", 2, width)
    first = norm_parameters(g, prefix + "LayerNorm", width)
    blocks = [Layers(g, "bert.encoder.layer.%d" % i, [
        # Query, key and value are three matrices in Hugging Face's code and one
        # product in fast ones; the parameters are as many.
        ("attention.self.qkv", [3 * width, width]),
        ("attention.output.dense", [width, width]),
        ("attention.output.LayerNorm", [width]),
        ("intermediate.dense", [4 * width, width]),
        ("output.dense", [width, 4 * width]), ("output.LayerNorm", [width])])
        for i in range(layers)]
    head = Layers(g, "bert", [("pooler.dense", [width, width])])
    decoder_bias = g.parameter("cls.predictions.bias", vocabulary)
    cls = Layers(g, "cls", [("predictions.transform.dense", [width, width]),
                            ("predictions.transform.LayerNorm", [width]),
                            ("seq_relationship", [2, width])])
    x = g.batch("input_ids", (batch, sequence), "i64", vocabulary)
    segments = g.batch("token_type_ids", (batch, sequence), "i64", 2)
    # Zero where a token may be seen and a large negative number where not.
    seen = g.batch("attention_mask", (batch, sequence))
    y = g.batch("labels", (batch, sequence), "i64", vocabulary)
    following = g.batch("next_sentence_label", (batch,), "i64", 2)

    with scope(g, prefix + "word_embeddings"):
        h = embedding(g, word, x)
    with scope(g, prefix + "token_type_embeddings"):
        h = add(g, h, embedding(g, kind, segments))
    with scope(g, prefix + "position_embeddings"):
        rows = first_rows(g, position, sequence)
        h = add_rows(g, h, rows)
    with scope(g, prefix + "LayerNorm"):
        h = layer_norm(g, h, *first, "1.0e-12")
        mask = g.convert(seen, g.compute)
    for block in blocks:
        qkv = block.linear(h, "attention.self.qkv")
        with scope(g, block.prefix + ".attention.self"):
            mixed = attention(g, qkv, heads, ("additive", mask))
        mixed = block.linear(mixed, "attention.output.dense")
        with scope(g, block.prefix + ".attention.output"):
            h = add(g, mixed, h)
        h = block.norm(h, "attention.output.LayerNorm", "1.0e-12")
        f = block.linear(h, "intermediate.dense")
        with scope(g, block.prefix + ".intermediate"):
            f = gelu(g, f, tanh=False)
        f = block.linear(f, "output.dense")
        with scope(g, block.prefix + ".output"):
            h = add(g, f, h)
        h = block.norm(h, "output.LayerNorm", "1.0e-12")
    with scope(g, "bert.pooler"):
        front = g.slice(h, (0, 0, 0), (batch, 1, width))
        g.record(front, [h], lambda d: [
            g.pad(d, (0, 0, 0), (0, sequence - 1, 0))])
        row = g.record(g.reshape(front, batch, width), [front],
                       lambda d: [g.reshape(d, batch, 1, width)])
    pooled = head.linear(row, "pooler.dense")
    with scope(g, "bert.pooler"):
        pooled = tanh(g, pooled)
    t = cls.linear(h, "predictions.transform.dense")
    with scope(g, "cls.predictions.transform"):
        t = gelu(g, t, tanh=False)
    t = cls.norm(t, "predictions.transform.LayerNorm", "1.0e-12")
    with scope(g, "cls.predictions.decoder"):
        logits = linear(g, t, word, decoder_bias)
    relation = cls.linear(pooled, "seq_relationship")
    with scope(g, "loss"):
        masked_loss = cross_entropy(g, logits, y)
        following_loss = cross_entropy(g, relation, following)
        loss = g.add(masked_loss, following_loss)
        seed = g.constant(1.0, (), "f32")
    g.backward({masked_loss: seed, following_loss: seed})
    return loss
