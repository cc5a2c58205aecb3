# What the tests of pipelines share: the toy model as two stages, or as one.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

from toy import *

DTYPES = {"x": "f32", "y": "f32", "label": "i64"}


def argument(name, role, shape, access="read", **more):
    dtype = DTYPES.get(name, "f32")
    return {"name": name, "role": role, "dtype": dtype, "shape": shape, "access": access, **more}


def result(name, role, shape, place=None, **more):
    return {"name": name, "role": role, "dtype": "f32", "shape": shape, "argument": place, **more}


def function(name, entry, arguments, results, batch, micro, coordinates=None):
    """Updated arguments are results too."""
    kept = [
        result(a["name"], a["role"], a["shape"], i)
        for i, a in enumerate(arguments)
        if a["access"] == "update"
    ]
    described = {
        "name": name,
        "entry": entry,
        "arena_bytes": 4 * (DIM + 2 + 2 * batch),
        "events": 4 * micro + 4,
        "arguments": arguments,
        "results": results + kept,
    }
    if coordinates:
        described["coordinates"] = coordinates
    return described


W = argument("w", "parameter", [DIM], "update")
W_MOMENTUM = argument("w.momentum", "optimizer_state", [DIM], "update")
B = argument("b", "parameter", [], "update")
B_MOMENTUM = argument("b.momentum", "optimizer_state", [], "update")
STEP = argument("step", "optimizer_state", [], "update")
SCALE = argument("scale", "buffer", [])
LR = argument("lr", "hyperparameter", [], default=0.05)
LOSS = result("loss", "loss", [])


def fixed(described):
    return {**described, "access": "read"}


def batches(batch):
    x = argument("x", "batch", [batch, DIM])
    y = argument("y", "batch", [batch])
    return x, y, argument("label", "batch", [batch], range=[0, 2])


def staged(dp=1, batch=16, micro=2, flags=False, ballast=0):
    """The manifest of two stages, the second with a buffer of so many floats."""
    load = [argument("ballast", "buffer", [ballast])] if ballast else []
    own = [LOSS] + ([result("nonfinite", "output", [1])] if flags else [])
    x, y, label = batches(batch)
    output = result("output", "output", [batch, 2], targets="label")
    more = {"batch": batch, "micro": micro}
    first, second = {"coordinates": [{"pp": 0}]}, {"coordinates": [{"pp": 1}]}
    return {
        "abi": int(abi_version()),
        "program": "stages",
        "mesh": {
            "name": "mesh",
            "axes": [{"name": "pp", "size": 2}, {"name": "dp", "size": dp}],
        },
        "communicators": [
            {"axes": ["pp"], "channel": 1},
            {"axes": ["pp"], "channel": 2},
            {"axes": ["pp"]},
            {"axes": ["dp"]},
        ],
        "functions": [
            function(
                "train_step", "first", [W, W_MOMENTUM, STEP, SCALE, LR, x], own, **first, **more
            ),
            function(
                "train_step", "second", [B, B_MOMENTUM, STEP, SCALE, LR, y] + load, own, **second, **more
            ),
            function("evaluate", "evaluate_first", [fixed(W), x], [LOSS], **first, **more),
            function(
                "evaluate",
                "evaluate_second",
                [fixed(B), SCALE, y, label],
                [LOSS, output],
                **second,
                **more,
            ),
        ],
    }


def single(dp=1, batch=16, micro=2):
    """The manifest of the same model as one function."""
    x, y, _ = batches(batch)
    arguments = [W, B, W_MOMENTUM, B_MOMENTUM, STEP, SCALE, LR, x, y]
    return {
        "abi": int(abi_version()),
        "program": "stages",
        "mesh": {"name": "mesh", "axes": [{"name": "dp", "size": dp}]},
        "communicators": [{"axes": ["dp"]}],
        "functions": [function("train_step", "whole", arguments, [LOSS], batch, micro)],
    }


def build_stages(name, manifest, batch=16, micro=2, **macros):
    """Compiles the stages with that manifest."""
    text = path(name + ".manifest")
    with open(text, "w") as file:
        file.write(json.dumps(json.dumps(manifest)))  # JSON's escapes are C's
    return compile_c("stage-step.c", path(name), "-ffp-contract=off", ABI=abi_version(), BATCH=batch,
                     MICRO=micro, MANIFEST_FILE='"%s"' % text, **macros)  # fmt: skip


class StageTest(TrainingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_stages("pp2.so", staged())
        build_stages("pp2-dp2.so", staged(dp=2, batch=8), batch=8)
        build_stages("dp1.so", single(), SINGLE=1)
        build_stages("dp2.so", single(dp=2, batch=8), batch=8, SINGLE=1)

    def train(self, program, *options, start=None, **settings):
        start = start or ["--weights", self.weights]
        self.succeeds(
            path(program), *start, "--data", self.data, "--log", path("log"), "--quiet",
            *options, **settings,
        )  # fmt: skip
        return [entry["loss"] for entry in log_of("log")]
