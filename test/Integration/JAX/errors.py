# What a user can get wrong, and what is not supported, is one message that says where and
# what was expected; there is no traceback, and no file is left. PyTorch is not loaded.
#
# REQUIRES: jax
# RUN: rm -rf %t && mkdir %t
# RUN: %python-env %s %t

import contextlib
import io
import os
import re
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3)
sys.path.insert(0, os.path.join(ROOT, "tools", "mpcomm-import"))
from mpcomm_import import cli

os.chdir(sys.argv[1])
TEMPLATE = '''
import jax, optax
import jax.numpy as jnp
import numpy as np
import mpcomm_import as mi

data = {"x": np.ones((8, 4), np.float32), "y": np.zeros(8, np.int32)}
params = {"w": jnp.ones((4, 3))}


def forward(x):
    return x


def loss(params, batch):
    return forward(batch["x"] @ params["w"]).sum()


def step(params, batch):
    value, g = jax.value_and_grad(loss)(params, batch)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, g), value


def workload(lr=0.1):
    fields = dict(loss=loss, params=params, optimizer=optax.sgd(lr), batch=2, dataset=data)
    fields.update(CHANGED)
    return mi.JaxWorkload(**fields)
'''


def attempt(changed="{}", *arguments, forward="x", more=""):
    text = TEMPLATE.replace("return x\n", f"return {forward}\n").replace("CHANGED", changed)
    with open("model.py", "w") as file:
        file.write(text.replace("\n\ndef workload", f"\n{more}\n\n\ndef workload"))
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        status = cli.main(["model.py", "-o", "step.mlir", *arguments])
    return status, error.getvalue()


def refused(pattern, *args, **kwargs):
    status, message = attempt(*args, **kwargs)
    assert status == 1 and message.startswith("mpcomm-import: error: "), (status, message)
    assert re.search(pattern, message), f"expected {pattern}, found {message}"
    assert "Traceback" not in message and not os.path.exists("step.mlir"), message


# Ops: the name, and the line of the model.
unsupported = r"\d unsupported operators?, \d+ uses?:(?:\n.*)*\n  {} x\d in .*\(model.py:12\).*{}"
refused(unsupported.format("stablehlo.fft", ": complex numbers"), forward="jnp.fft.fft(x).real")
refused(unsupported.format("stablehlo.custom_call", "'lapack_"), forward="jnp.linalg.inv(x[:3, :3].T @ x)")
refused(unsupported.format("stablehlo.while", "count depends on data"), forward="jax.lax.stop_gradient("
        "jax.lax.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, x)) * x")
refused(unsupported.format("stablehlo.while", "more than 4096 times"),
        forward="jax.lax.fori_loop(0, 5000, lambda i, v: v, jax.lax.stop_gradient(x)) * x")
refused(unsupported.format("chlo.digamma", ""), forward="jax.scipy.special.gammaln(x)")
refused(unsupported.format("stablehlo.sort", "of its first operand alone"),
        forward="jax.lax.sort((x, jax.lax.stop_gradient(x)), num_keys=2)[0]")

# What the user's code raises, where.
refused(r"tracing of @train_step stopped at .*model.py:12: TypeError: ", forward="x @ x")
refused(r"tracing of @train_step stopped at .*model.py:12: .*Tracer", forward="x if x.sum() > 0 else -x")

# The workload.
refused("expected either `step` or `loss`", "dict(step=step)")
refused("expected a `state` for `step`", "dict(step=step, loss=None)")
refused("expected `params` and an `optimizer` of optax", "dict(optimizer=None)")
refused("expected a batch of at least 1, found 0", "dict(batch=0)")
refused("at least one batch of 9 samples, found 8", "dict(batch=9)")
refused("no arrays of uint8; convert", "dict(dataset={'x': np.ones((8, 4), np.uint8)})")
refused("numbers of samples differ", "dict(dataset={'x': data['x'], 'y': data['y'][1:]})")
refused("evaluation dataset to have the arrays x, y, found x", "dict(eval_dataset={'x': data['x']})")
refused("next state, in the structure of the state, and the loss",
        "dict(step=lambda s, b: step(s, b)[1], state=params, loss=None)")
refused("return a loss, a float of no dimensions",
        "dict(step=lambda s, b: (s, b['y']), state=params, loss=None)")
refused("expected the shape \\(4, 3\\) after a step, found \\(3, 4\\)",
        "dict(step=lambda s, b: ({'w': s['w'].T}, step(s, b)[1]), state=params, loss=None)")
refused(r"'w': expected tensor<4x3xf32> after a step, found tensor<4x3xbf16>",
        "dict(step=lambda s, b: ({'w': s['w'].astype('bfloat16')}, step(s, b)[1]), state=params, loss=None)")
refused("expected a step that trains parameters",
        "dict(step=lambda s, b: (s, loss(s, b)), state=params, loss=None)")
refused("state 'w': no tensors of complex64", "dict(step=step, loss=None, state={'w': np.ones((4, 3), 'complex64')})")
refused("the options of optimizers are PyTorch's", "{}", "--lr", "0.1")
refused("no option 'rate'; its options are lr", "{}", "-O", "rate=3")

# Without marks: a warning, and names tell what is what.
status, message = attempt(
    "dict(step=unmarked, state={'params': params, 'opt_state': params}, loss=None)", more='''

def unmarked(state, batch):
    value, back = jax.vjp(lambda p: loss(p, batch), state["params"])
    g, = back(jnp.ones(()))
    move = jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, state["params"], g)
    return {"params": move, "opt_state": g}, value
''')
assert status == 0 and "warning: found no gradients of jax.grad or jax.value_and_grad" in message, message
assert "torch" not in sys.modules
