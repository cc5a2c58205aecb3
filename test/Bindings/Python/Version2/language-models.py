# GPT-2 and Llama of transformers, small, on 2 ranks, as people train them: called by
# keyword, with the loss that they compute, under AdamW and a schedule with a warm-up.
#
# Their norms and losses compute in f32 whatever their type, so that what the bound takes
# for exact (Inputs/training.py) is itself off by rounding, about as much as one of the
# other ways.
#
# REQUIRES: torch2, transformers, compiler
# RUN: %python-env %s 30

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
import mpcomm
import torch
import transformers
from training import compare, reference

transformers.logging.set_verbosity_error()
CONTEXT, SAMPLES = 32, 8


def gpt2():
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=4, attn_pdrop=0.0,
        embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0))


def llama():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT))


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1)


def schedule(rule):
    return transformers.get_linear_schedule_with_warmup(rule, 5, 60)


def loss(model, batch):
    return model(input_ids=batch[0], labels=batch[1]).loss


def batches(steps):
    g = torch.Generator().manual_seed(0)
    text = torch.randint(256, (64,), generator=g).repeat(1000)  # a text that repeats itself
    starts = torch.randint(len(text) - CONTEXT, (steps, SAMPLES), generator=g)
    ids = text[starts[..., None] + torch.arange(CONTEXT)]
    return [(t, t) for t in ids]


def train(make, batches):
    """What a rank does: model, optimizer and program are its own."""
    transformers.logging.set_verbosity_error()
    model = make()
    rule = optimizer(model.parameters())
    scheduler = schedule(rule)
    rank = int(os.environ["RANK"])
    parts = [{"input_ids": x[4 * rank:4 * rank + 4], "labels": y[4 * rank:4 * rank + 4]}
             for x, y in batches]
    losses = []
    with mpcomm.Session(mpcomm.compile(model, None, rule, parts[0])) as session:
        for part in parts:
            losses.append(session.step(part))
            scheduler.step()
        model.load_state_dict(session.state_dict())
    return losses


if __name__ == "__main__":
    data = batches(int(sys.argv[1]))
    for make in (gpt2, llama):
        exact, bound = reference(make(), loss, optimizer, data, SAMPLES * CONTEXT,
                                 schedule=schedule)
        first, second = mpcomm.launch(train, np=2, args=(make, data))
        assert first == second
        compare(make.__name__, first, exact, bound)
        assert first[-1] < first[0]
