# Models of transformers, small, as people train them: called by keyword, with masks, with
# the loss that they compute, against PyTorch. They compute in f32 whatever their type.
#
# REQUIRES: torch2, transformers
# RUN: %python-env %s

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
import checks
import torch
import transformers

import mpcomm_import as mi

transformers.logging.set_verbosity_error()
SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def made(name, **options):
    """The model of a causal or masked language model called `name`."""
    kind = next(k for k in dir(transformers) if k.lower().startswith(name.lower()) and
                k.endswith(("ForCausalLM", "LMHeadModel", "ForMaskedLM",
                            "ForConditionalGeneration", "ForImageClassification")))
    return getattr(transformers, kind)(getattr(transformers, kind).config_class(
        **TOKENS, **options))


def check(model, data, exact=True):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = checks.check(mi.Workload(model, None, optimizer, 4, data, name="model"),
                           double=False)
    names = [r.name for r in program.functions[1].results]
    assert names[0] == "loss" and any("output" in n for n in names), names
    return program


def text(mask=True, labels=True):
    torch.manual_seed(0)
    ids = torch.randint(3, 60, (8, 10))
    data = {"input_ids": ids}
    if mask:
        data["attention_mask"] = (torch.arange(10) < torch.randint(4, 11, (8, 1))).long()
    data["labels"] = ids if not mask else torch.where(data["attention_mask"] > 0, ids, -100)
    return data


torch.manual_seed(0)
GROUPED = {"num_key_value_heads": 2}
check(made("GPT2", vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=4, attn_pdrop=0.0,
           embd_pdrop=0.0, resid_pdrop=0.0), text())
# Heads that share keys read them in place: no copy of keys or values.
program = check(made("LlamaFor", **SIZES, **GROUPED), text(mask=False))
check(made("MistralFor", **SIZES, **GROUPED, sliding_window=6), text())
check(made("BertFor", **SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), text())
check(made("T5For", vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
           dropout_rate=0.0, decoder_start_token_id=0), text())
check(made("ViTFor", hidden_size=32, intermediate_size=48, num_hidden_layers=2,
           num_attention_heads=4, image_size=16, patch_size=8, num_labels=5),
      {"pixel_values": torch.randn(8, 3, 16, 16), "labels": torch.randint(0, 5, (8,))})
