# ===- transformers_models.py - architectures of transformers -------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Small configurations of transformers' models, trained by the loss that they compute
from labels, with the parameter groups of its Trainer."""

import torch
import torch.nn as nn

from families import SAMPLES, adamw, labels, load, mi, model, padding, text

VOCABULARY, LENGTH = 512, 32
TOKENS = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def trained(net, data, batch=4):
    return mi.Workload(net, None, adamw(net), batch, data)


def make(kind, configuration, **options):
    package = load("transformers")
    return getattr(package, kind)(getattr(package, configuration)(**options))


def lines(attention_mask=True, classes=None, ignored=True):
    """Padded lines of tokens, with a class for each line or a label for each token."""
    ids, mask = text(LENGTH, VOCABULARY - 3) + 3, padding(LENGTH)
    ids = torch.where(mask.bool(), ids, 0)
    data = {"input_ids": ids}
    if attention_mask:
        data["attention_mask"] = mask
    data["labels"] = labels(ids, classes) if classes else \
        torch.where(mask.bool(), ids, -100) if ignored else ids
    return data


def packed():
    """Lines without an end: the data of pre-training."""
    ids = text(LENGTH, VOCABULARY)
    return {"input_ids": ids, "labels": ids.clone()}


def masked():
    """A seventh of the tokens is to be found."""
    data = lines()
    hidden = (torch.rand(data["input_ids"].shape) < 0.15) & (data["attention_mask"] == 1)
    data["labels"] = torch.where(hidden, data["input_ids"], -100)
    data["input_ids"] = torch.where(hidden, 3, data["input_ids"])
    return data


def family(name):
    return model("transformers", name, "transformers")


# Decoders.

LLAMA = dict(TOKENS, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)


@family("gpt2")
def gpt2():
    return trained(make("GPT2LMHeadModel", "GPT2Config", n_embd=128, n_layer=2, n_head=4,
                        n_positions=64, **TOKENS), packed())


@family("gpt-neox")
def gpt_neox():
    return trained(make("GPTNeoXForCausalLM", "GPTNeoXConfig", hidden_size=128,
                        num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
                        max_position_embeddings=64, **TOKENS), packed())


@family("opt")
def opt():
    return trained(make("OPTForCausalLM", "OPTConfig", hidden_size=128, ffn_dim=512,
                        num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=128,
                        max_position_embeddings=64, **TOKENS), lines())


@family("llama")
def llama():
    return trained(make("LlamaForCausalLM", "LlamaConfig", **LLAMA), packed())


@family("llama-padded")
def llama_padded():
    return trained(make("LlamaForCausalLM", "LlamaConfig", **LLAMA), lines())


@family("mistral")
def mistral():
    return trained(make("MistralForCausalLM", "MistralConfig", sliding_window=8, **LLAMA),
                   packed())


@family("mixtral")
def mixtral():
    return trained(make("MixtralForCausalLM", "MixtralConfig", num_local_experts=4,
                        num_experts_per_tok=2, output_router_logits=True, **LLAMA), packed())


@family("qwen2")
def qwen2():
    return trained(make("Qwen2ForCausalLM", "Qwen2Config", **LLAMA), packed())


@family("gemma")
def gemma():
    return trained(make("GemmaForCausalLM", "GemmaConfig", head_dim=32, **LLAMA), packed())


@family("phi")
def phi():
    return trained(make("PhiForCausalLM", "PhiConfig", **LLAMA), packed())


@family("mamba")
def mamba():
    return trained(make("MambaForCausalLM", "MambaConfig", hidden_size=64, state_size=8,
                        num_hidden_layers=2, **TOKENS), packed())


# Encoders.

BERT = dict(TOKENS, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=512, max_position_embeddings=64)


@family("bert")
def bert():
    return trained(make("BertForMaskedLM", "BertConfig", **BERT), masked())


@family("bert-classifier")
def bert_classifier():
    return trained(make("BertForSequenceClassification", "BertConfig", num_labels=3, **BERT),
                   lines(classes=3))


@family("roberta")
def roberta():
    return trained(make("RobertaForMaskedLM", "RobertaConfig", **BERT), masked())


@family("distilbert")
def distilbert():
    return trained(make("DistilBertForMaskedLM", "DistilBertConfig", dim=128, n_layers=2,
                        n_heads=4, hidden_dim=512, max_position_embeddings=64, **TOKENS),
                   masked())


@family("albert")
def albert():
    return trained(make("AlbertForMaskedLM", "AlbertConfig", embedding_size=64, **BERT),
                   masked())


# From a sequence to another.

def pairs():
    source, target = lines(), lines()
    return {"input_ids": source["input_ids"], "attention_mask": source["attention_mask"],
            "labels": target["labels"]}


@family("t5")
def t5():
    return trained(make("T5ForConditionalGeneration", "T5Config", d_model=128, d_kv=32,
                        d_ff=256, num_layers=2, num_heads=4, vocab_size=VOCABULARY,
                        decoder_start_token_id=0), pairs())


@family("bart")
def bart():
    return trained(make("BartForConditionalGeneration", "BartConfig", d_model=128,
                        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                        decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256,
                        max_position_embeddings=64, decoder_start_token_id=2,
                        forced_eos_token_id=2, **TOKENS), pairs())


@family("whisper")
def whisper():
    net = make("WhisperForConditionalGeneration", "WhisperConfig", d_model=64,
               encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
               num_mel_bins=16, max_source_positions=32, max_target_positions=32,
               decoder_start_token_id=1, **TOKENS)
    return trained(net, {"input_features": torch.randn(SAMPLES, 16, 64),
                         "labels": lines()["labels"][:, :24]})


# Images.

VIT = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
           image_size=32, patch_size=8)


def pictures():
    x = torch.randn(SAMPLES, 3, 32, 32)
    return {"pixel_values": x, "labels": labels(x, 10)}


@family("vit")
def vit():
    return trained(make("ViTForImageClassification", "ViTConfig", num_labels=10, **VIT),
                   pictures())


@family("deit")
def deit():
    return trained(make("DeiTForImageClassification", "DeiTConfig", num_labels=10, **VIT),
                   pictures())


class Contrast(nn.Module):
    """CLIP computes its loss only where it is told to."""

    def __init__(self, clip):
        super().__init__()
        self.clip = clip

    def forward(self, **batch):
        return self.clip(return_loss=True, **batch)


@family("clip")
def clip():
    net = make("CLIPModel", "CLIPConfig", projection_dim=64,
               text_config=dict(TOKENS, hidden_size=128, intermediate_size=256,
                                num_hidden_layers=2, num_attention_heads=4,
                                max_position_embeddings=64), vision_config=VIT)
    data = lines()
    # Ends with the token that its text is read from.
    data["input_ids"].scatter_(1, data["attention_mask"].sum(1, keepdim=True) - 1, 2)
    return trained(Contrast(net), {"input_ids": data["input_ids"],
                                   "pixel_values": pictures()["pixel_values"],
                                   "attention_mask": data["attention_mask"]})
