# Training steps of flax and optax: 20 losses of the imported graph against JAX, in f64,
# and what the roles of the state are.
#
# REQUIRES: jax, torch2
# RUN: %python-env %s

import os
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import jax_checks as checks

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

mi = checks.mi
jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(0)
DATA = {"x": random.normal(size=(64, 6)), "y": random.integers(0, 3, 64)}


class Perceptron(nn.Module):
    drop: float = 0.0

    @nn.compact
    def __call__(self, x, train=True):
        x = nn.LayerNorm(param_dtype=x.dtype)(nn.Dense(8, param_dtype=x.dtype)(x))
        x = nn.Dropout(self.drop, deterministic=not train)(nn.gelu(x))
        return nn.Dense(3, param_dtype=x.dtype)(x)


MODEL = Perceptron()
PARAMS = MODEL.init(jax.random.key(0), DATA["x"][:1])["params"]


def loss(params, batch):
    logits = MODEL.apply({"params": params}, batch["x"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()


def roles(program):
    found = {}
    for a in program.functions[0].arguments:
        found.setdefault(a.role, []).append(a.name)
    return SimpleNamespace(**{r: found.get(r, []) for r in (
        "parameter", "optimizer_state", "buffer", "hyperparameter", "rng", "batch")})


def optimizer(make, trained=6, updates=None, marks=0, **fields):
    """`updates`: ops that have the optimizer's name; `marks`: gradients that are also read
    by what is not of one parameter."""
    workload = mi.JaxWorkload(loss=loss, params=PARAMS, optimizer=make, batch=8, dataset=DATA,
                              name="model", **fields)
    program, losses = checks.train(workload, 20)
    assert not program.warnings, program.warnings
    assert len(roles(program).parameter) == trained, roles(program)
    counts = checks.rounding_of.count(program, "update", "gradient")
    assert counts == {"update": trained if updates is None else updates, "gradient": marks}, counts
    return program


# --- optimizers ----------------------------------------------------------------------------- #

def decayed(params):
    return jax.tree_util.tree_map(lambda x: x.ndim > 1, params)


schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 20)
optimizer(optax.sgd(0.1))
optimizer(optax.sgd(schedule, momentum=0.9, nesterov=True))
optimizer(optax.adam(0.01))
optimizer(optax.adamw(schedule, weight_decay=0.1, mask=decayed))
optimizer(optax.chain(optax.clip_by_global_norm(0.3), optax.adamw(0.01)), marks=6)
optimizer(optax.chain(optax.clip(0.01), optax.add_decayed_weights(0.1), optax.rmsprop(0.01)))
optimizer(optax.lamb(0.01))
optimizer(optax.lion(0.01))
optimizer(optax.adafactor(0.01, min_dim_size_to_factor=4))
optimizer(optax.MultiSteps(optax.sgd(0.1), 3))
frozen = jax.tree_util.tree_map_with_path(
    lambda path, _: "frozen" if path[0].key == "Dense_0" else "trained", PARAMS)
found = roles(optimizer(optax.multi_transform(
    {"trained": optax.adam(0.01), "frozen": optax.set_to_zero()}, frozen), trained=4))
assert "params.Dense_0.kernel" in found.buffer, found


# --- whole steps ---------------------------------------------------------------------------- #

@jax.jit
def step(state, batch):
    value, gradients = jax.value_and_grad(loss)(state.params, batch)
    return state.apply_gradients(grads=gradients), {"loss": value, "count": state.step}


state = TrainState.create(apply_fn=MODEL.apply, params=PARAMS, tx=optax.adam(0.01))
workload = mi.JaxWorkload(
    step=lambda s, b: (lambda new, m: (new, m["loss"]))(*step(s, b)), state=state, batch=8,
    dataset=DATA, name="step", evaluate=lambda s, b: (loss(s.params, b), MODEL.apply(
        {"params": s.params}, b["x"])))
program, _ = checks.train(workload)
found = roles(program)
assert "params.Dense_0.kernel" in found.parameter and "step" in found.optimizer_state, found
assert "opt_state.0.mu.Dense_0.kernel" in found.optimizer_state and not found.buffer, found
assert program.functions[1].results[1].attributes["targets"] == "y"


# Keys from the step's number, in the state; and from an argument.
def dropping(params, key, batch):
    logits = Perceptron(0.4).apply({"params": params}, batch["x"], rngs={"dropout": key})
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()


def with_key(state, batch):
    params, momentum, key, count = state
    value, g = jax.value_and_grad(dropping)(params, jax.random.fold_in(key, count), batch)
    momentum = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, momentum, g)
    params = jax.tree_util.tree_map(lambda p, m: p - 0.1 * m, params, momentum)
    return (params, momentum, key, count + 1), value


zeros = jax.tree_util.tree_map(jnp.zeros_like, PARAMS)
program, _ = checks.train(mi.JaxWorkload(step=with_key, state=(PARAMS, zeros, jax.random.key(1), 0),
                                         batch=8, dataset=DATA, name="key"))
found = roles(program)
assert len(found.parameter) == len(found.optimizer_state) == 6, found
assert found.buffer == ["2", "3"], found  # the rotations of threefry are in the graph
program, _ = checks.train(mi.JaxWorkload(
    loss=lambda p, b, key: dropping(p, key, b), params=PARAMS, optimizer=optax.sgd(0.1), batch=8,
    dataset=DATA, rng=True, name="rng"))
assert roles(program).rng == ["rng.seed"]


# A penalty on the gradient by the input: its mark is not one of the step's.
def penalised(params, batch):
    slope = jax.grad(lambda x: loss(params, {**batch, "x": x}))(batch["x"])
    return loss(params, batch) + (slope ** 2).sum()


program, _ = checks.train(mi.JaxWorkload(loss=penalised, params=PARAMS, optimizer=optax.sgd(0.1),
                                         batch=8, dataset=DATA, name="penalty"))
assert program.functions[0].count("update") == 6


# Statistics that the forward pass makes and does not read are buffers.
program, _ = checks.train(mi.JaxWorkload(
    loss=lambda p, mean, b: (loss(p, b), 0.9 * mean + 0.1 * b["x"].mean(0)), params=PARAMS,
    model_state=np.zeros(6), optimizer=optax.sgd(0.1), batch=8, dataset=DATA, name="mean"))
assert roles(program).buffer == ["model_state"], roles(program)


# --- in f32; the example ------------------------------------------------------------------- #

jax.config.update("jax_enable_x64", False)
DATA["x"] = DATA["x"].astype(np.float32)
PARAMS = jax.tree_util.tree_map(lambda x: np.asarray(x, np.float32), PARAMS)
found = roles(optimizer(optax.inject_hyperparams(optax.sgd)(0.1)))
assert found.hyperparameter == ["opt_state.hyperparams.learning_rate"], found
gpt = mi.load_workload(os.path.join(checks.EXAMPLES, "gpt_jax.py"), {
    "layers": 1, "d": 32, "ctx": 16, "batch": 4, "clip": 1.0, "warmup": 5})
program, _ = checks.train(gpt)
assert program.functions[0].count("gather") == 2  # tokens, and the logits of labels
