# Steps of JAX from Python: those of flax and optax as people write them, jitted and called
# before, on one and two ranks and as a pipeline. Losses are JAX's; the state goes back into
# JAX, and from there into another session, in the middle of training.
#
# The bound is that of Inputs/training.py: how far JAX's own ways to add the gradients of a
# batch, one half of it at a time or backwards, are from each other and from f64.
#
# REQUIRES: jax, torch2, compiler
# RUN: %python-env %s

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import flax.linen as nn
import jax
import jax.numpy as jnp
import mpcomm
import numpy as np
import optax
from flax.training.train_state import TrainState

STEPS, PART, SAMPLES = 24, 12, 8


class Mlp(nn.Module):
    dtype: type = jnp.float32

    @nn.compact
    def __call__(self, x):
        x = nn.tanh(nn.Dense(32, param_dtype=self.dtype)(x))
        x = nn.tanh(nn.Dense(32, param_dtype=self.dtype)(x))
        return nn.Dense(4, param_dtype=self.dtype)(x)


def initial(dtype=jnp.float32):
    model = Mlp(dtype)
    params = Mlp().init(jax.random.key(0), jnp.zeros((1, 16)))["params"]
    params = jax.tree_util.tree_map(lambda x: x.astype(dtype), params)
    return TrainState.create(apply_fn=model.apply, params=params,
                             tx=optax.adamw(1e-2, weight_decay=0.1))


def loss_of(params, apply, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(apply({"params": params}, x), y).mean()


@jax.jit
def step(state, batch):
    loss, gradients = jax.value_and_grad(loss_of)(state.params, state.apply_fn, *batch)
    return state.apply_gradients(grads=gradients), loss


@jax.jit
def step_by_name(state, batch):
    return step(state, (batch["x"], batch["y"]))


def data():
    random = np.random.default_rng(0)
    rule = random.standard_normal((16, 4))
    xs = [random.standard_normal((SAMPLES, 16)).astype(np.float32) for _ in range(STEPS)]
    return [(x, (x @ rule).argmax(1).astype(np.int32)) for x in xs]


@functools.partial(jax.jit, static_argnames="apply")
def gradient(params, apply, x, y):
    return jax.value_and_grad(loss_of)(params, apply, x, y)


@jax.jit
def mean_update(state, gradients):
    mean = jax.tree_util.tree_map(lambda *g: sum(g) / len(gradients), *gradients)
    return state.apply_gradients(grads=mean)


def theirs(batches, state, parts=1, reverse=False):
    """Losses of JAX, and the state after them."""
    losses = []
    for x, y in batches:
        order = np.arange(SAMPLES)[::-1] if reverse else np.arange(SAMPLES)
        pieces = [(jnp.asarray(x[o], state.params["Dense_0"]["bias"].dtype), y[o])
                  for o in np.split(order, parts)]
        found = [gradient(state.params, state.apply_fn, *p) for p in pieces]
        state = mean_update(state, [g for _, g in found])
        losses.append(float(sum(l for l, _ in found) / parts))
    return losses, state


def reference(batches):
    with jax.enable_x64(True):
        exact = theirs(batches, initial(jnp.float64))[0]
    runs = [theirs(batches, initial(), **way)[0]
            for way in ({}, {"reverse": True}, {"parts": 2}, {"parts": 4})]
    band = [max(abs(r[s] - exact[s]) for r in runs) for s in range(STEPS)]
    return exact, [4 * max(band[max(s - 4, 0):s + 5]) + 2 ** -24 * SAMPLES ** 0.5 * abs(l)
                   for s, l in enumerate(exact)]


def trained(batches, mesh, ranks):
    """What a rank has: losses, and the states in the middle and at the end."""
    state = initial()
    program = mpcomm.compile(step, example_batch=[t[:SAMPLES // ranks] for t in batches[0]],
                             state=state, mesh=mesh,
                             **({"micro_batches": 2} if "pp" in mesh else {}))
    with mpcomm.Session(program) as session:
        part = slice(SAMPLES // ranks * session.data_rank, None)
        parts = [[t[part][:SAMPLES // ranks] for t in b] for b in batches]
        losses = [session.step(b) for b in parts[:PART]]
        half = session.pytree(state)
        losses += [session.step(b) for b in parts[PART:]]
        end = session.pytree(state)
    with mpcomm.Session(program) as session:
        session.load_pytree(half)
        assert [session.step(b) for b in parts[PART:]] == losses[PART:]
    leaves = jax.tree_util.tree_leaves
    return losses, [np.asarray(x) for x in leaves(half)], [np.asarray(x) for x in leaves(end)]


def refused(call, *words):
    try:
        call()
    except mpcomm.Error as error:
        assert all(word in str(error) for word in words), error
        return
    sys.exit(f"expected an error with {words}")


def main():
    from training import compare
    batches = data()
    exact, bound = reference(batches)
    state = initial()
    structure = jax.tree_util.tree_structure(state)
    step(state, batches[0])  # JAX has traced it, without knowing of gradients
    for mesh, np_, ranks in (("dp:1", 1, 1), ("dp:2", 2, 2), ("pp:2", 2, 1)):
        results = mpcomm.launch(trained, np=np_, args=(batches, mesh, ranks))
        losses, half, _ = results[0]
        compare(mesh, losses, exact, bound)
        for other in results[1:]:
            assert other[0] == losses
            for a, b in zip(other[1] + other[2], results[0][1] + results[0][2]):
                assert a.dtype == b.dtype and (a == b).all()
        rest, end = theirs(batches[PART:], jax.tree_util.tree_unflatten(structure, half))
        compare(f"{mesh}, then JAX", losses[:PART] + rest, exact, bound)
        assert int(end.opt_state[0].count) == STEPS

    # Batches by name, arrays of JAX, and what is not of the step's.
    named = [{"x": jnp.asarray(x), "y": jnp.asarray(y)} for x, y in batches]
    program = mpcomm.compile(step_by_name, example_batch=named[0], state=state)
    with mpcomm.Session(program) as session:
        compare("by name", [session.step(b) for b in named], exact, bound)
        before = session.pytree(state)
        wider = state.replace(params={**state.params, "Dense_0": {
            "kernel": jnp.zeros((16, 33)), "bias": jnp.zeros(33)}})
        refused(lambda: session.load_pytree(wider), "params.Dense_0.bias", "[32]", "[33]")
        refused(lambda: session.load_pytree(state.params), "no 'params.Dense_0.bias'")
        refused(lambda: session.pytree(state.params), "no 'params.Dense_0.bias'")
        after = session.pytree(state)
        assert jax.tree_util.tree_structure(after) == structure
        assert all((a == b).all() for a, b in zip(*map(jax.tree_util.tree_leaves,
                                                       (before, after))))
    refused(lambda: mpcomm.compile(step, optax.l2_loss, example_batch=batches[0], state=state),
            "expected a step of JAX alone")
    refused(lambda: mpcomm.compile(step, state=state), "example_batch")

    # A rate that optax holds is a hyperparameter, which the tree has, too.
    rule = optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)
    state = TrainState.create(apply_fn=state.apply_fn, params=state.params, tx=rule)
    program = mpcomm.compile(step, example_batch=batches[0], state=state)
    with mpcomm.Session(program) as session:
        name = "opt_state.hyperparams.learning_rate"
        session.set(name, 0.0)
        session.step(batches[0])
        found = session.pytree(state)
        assert float(found.opt_state.hyperparams["learning_rate"]) == 0.0
        assert (found.params["Dense_0"]["kernel"] == state.params["Dense_0"]["kernel"]).all()
        session.load_pytree(state)
        session.step(batches[0])
        found = session.pytree(state)
        assert float(found.opt_state.hyperparams["learning_rate"]) == 0.5
        assert not (found.params["Dense_0"]["kernel"] ==
                    state.params["Dense_0"]["kernel"]).all()


if __name__ == "__main__":
    main()
