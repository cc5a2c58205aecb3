# ===- model_file.py - the file that a user hands to the importer -----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Runs a model file, whose `workload(...)` returns a Workload or a JaxWorkload; its
keyword arguments are the options that it understands.

Nothing here imports PyTorch or JAX: the file decides.
"""

import ast
import contextlib
import importlib.machinery
import importlib.util
import inspect
import os
import random
import sys
import traceback

import numpy

from .errors import ImportFailure


class TrainingSetup:
    """What `workload()` returns. A front end derives from it: `check`, and

    translate()         the Program
    replace_optimizer(kind, options)
                        options of the command line that replace the file's
    """

    name = ""


def load_workload(path, options, seed=0):
    """Runs the model file and its `workload` with the options it knows.

    `options` is {name: text or value}; text is read as the type of the
    parameter's default. Random numbers start from `seed`."""
    if not os.path.isfile(path):
        raise ImportFailure(f"{path}: no such file")
    stem = os.path.splitext(os.path.basename(path))[0]
    # Whatever the name ends in.
    loader = importlib.machinery.SourceFileLoader(stem, path)
    spec = importlib.util.spec_from_file_location(stem, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(stem, module)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    with errors_of(path):
        import_framework(path)
        seed_all(seed)
        spec.loader.exec_module(module)
    function = getattr(module, "workload", None)
    if not callable(function):
        raise ImportFailure(f"{path}: expected a function `workload` that returns an "
                            "mpcomm_import.Workload or JaxWorkload")
    seed_all(seed)
    chosen = read_options(path, function, options)
    with errors_of(path):
        result = function(**chosen)
    if not isinstance(result, TrainingSetup):
        raise ImportFailure(f"{path}: expected `workload` to return an mpcomm_import."
                            f"Workload or JaxWorkload, found {type(result).__name__}")
    result.name = result.name or stem
    return result


@contextlib.contextmanager
def errors_of(path):
    """Says of an error in the user's file where in it that is."""
    try:
        yield
    except ImportFailure:
        raise
    except Exception as error:
        here = os.path.abspath(path)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if os.path.abspath(frame.filename) == here]
        message = str(error)
        if isinstance(error, SyntaxError):
            lines, message = [error.lineno], error.msg
            path = error.filename or path
        where = f"{path}:{lines[-1]}" if lines else path
        raise ImportFailure(f"{where}: {type(error).__name__}: {message}") from error


def import_framework(path):
    """Imports PyTorch if the file does, for its random numbers to start from the
    seed in the file's first line, and what marks gradients of JAX if it uses that."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else \
            [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        roots = {n.split(".")[0] for n in names}
        if "torch" in roots:
            importlib.import_module("torch")
        if roots & {"jax", "flax", "optax"}:
            importlib.import_module(".jax_front.trace", __package__)


def seed_all(seed):
    random.seed(seed)
    numpy.random.seed(seed % 2 ** 32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def read_options(path, function, options):
    parameters = inspect.signature(function).parameters
    result = {}
    for name, value in options.items():
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise ImportFailure(f"{path}: no option '{name}'; its options are {known}")
        default = parameters[name].default
        if isinstance(value, str) and isinstance(default, (bool, int, float)):
            value = read_value(name, value, type(default))
        result[name] = value
    return result


def read_value(name, text, kind):
    if kind is bool:
        if text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off"):
            return False
        raise ImportFailure(f"option {name}: expected true or false, found '{text}'")
    try:
        return kind(text)
    except ValueError:
        raise ImportFailure(f"option {name}: expected a number, found '{text}'") from None
