# ===- cli.py - the command mpcomm-import ----------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""mpcomm-import: writes the training graph, weights and data of a model of PyTorch or
JAX.

The model file defines `workload(...)`, which returns an mpcomm_import.Workload or
JaxWorkload; its keyword arguments are options that -O sets.
"""

import argparse
import collections
import os
import sys
import traceback

from .errors import ImportFailure
from .model_file import load_workload, read_value

VERSION = "mpcomm-import 0.1.0"


def parser():
    p = argparse.ArgumentParser(prog="mpcomm-import", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="Python file that defines workload()")
    p.add_argument("-o", metavar="FILE", dest="output",
                   help="training graph to write (default: standard output)")
    p.add_argument("--weights", metavar="FILE", help="initial weights (safetensors)")
    p.add_argument("--data", metavar="FILE", help="training data (safetensors)")
    p.add_argument("--eval-data", metavar="FILE", help="held-out data (safetensors)")
    p.add_argument("--batch", type=int, metavar="N", help="samples per rank and step")
    p.add_argument("--seed", type=int, default=0, metavar="S",
                   help="seed of all random number generators (default: 0)")
    p.add_argument("-O", "--option", action="append", default=[], metavar="NAME=VALUE",
                   help="an option of the model file's workload()")
    g = p.add_argument_group("optimizer of PyTorch", "replace what the model file chose")
    g.add_argument("--optimizer", metavar="NAME",
                   help="a class of torch.optim, in any case: sgd, adamw, rmsprop, …")
    g.add_argument("--lr", type=float)
    g.add_argument("--momentum", type=float)
    g.add_argument("--nesterov", action="store_true", default=None)
    g.add_argument("--weight-decay", type=float)
    g.add_argument("--betas", metavar="B1,B2")
    g.add_argument("--eps", type=float)
    g.add_argument("--optimizer-option", action="append", default=[], metavar="NAME=VALUE",
                   help="any other option of the optimizer, a number, true or false")
    p.add_argument("--list-ops", action="store_true",
                   help="print the operators of the graph and their counts")
    p.add_argument("--version", action="version", version=VERSION)
    return p


def read_pairs(option, texts):
    options = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise ImportFailure(f"{option} {text}: expected NAME=VALUE")
        options[name] = value
    return options


def read_literal(name, text):
    """A number, a truth value or a tuple of numbers, as an option of an optimizer."""
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    if "," in text:
        return tuple(read_value(name, t, float) for t in text.split(","))
    try:
        return int(text)
    except ValueError:
        return read_value(name, text, float)


def change_optimizer(workload, arguments):
    """Options given on the command line replace those of every group."""
    given = {k: getattr(arguments, k) for k in
             ("lr", "momentum", "nesterov", "weight_decay", "eps")
             if getattr(arguments, k) is not None}
    if arguments.betas is not None:
        parts = arguments.betas.split(",")
        if len(parts) != 2:
            raise ImportFailure(f"--betas: expected two numbers, found "
                                f"'{arguments.betas}'")
        given["betas"] = tuple(read_value("betas", b, float) for b in parts)
    given.update({k.replace("-", "_"): read_literal(k, v) for k, v in read_pairs(
        "--optimizer-option", arguments.optimizer_option).items()})
    if arguments.optimizer or given:
        workload.replace_optimizer(arguments.optimizer, given)


def list_operators(program):
    for function in program.functions:
        counts = collections.Counter(op.name for op in function.ops)
        print(f"@{function.name}: {len(function.ops)} ops")
        for name, count in sorted(counts.items(), key=lambda p: (-p[1], p[0])):
            print(f"  {count:6d} {name}")


def run(arguments):
    for path in (arguments.output, arguments.weights, arguments.data,
                 arguments.eval_data):
        folder = os.path.dirname(path or "")
        if folder and not os.path.isdir(folder):
            raise ImportFailure(f"{path}: no such directory")
        if path and os.path.isdir(path):
            raise ImportFailure(f"{path}: is a directory")
    named = {os.path.realpath(arguments.model): "the model file"}
    for option, path in (("-o", arguments.output), ("--weights", arguments.weights),
                         ("--data", arguments.data), ("--eval-data", arguments.eval_data)):
        if path:
            other = named.setdefault(os.path.realpath(path), option)
            if other != option:
                raise ImportFailure(f"{option} {path}: that is the file of {other}")
    options = read_pairs("-O", arguments.option)
    workload = load_workload(arguments.model, options, arguments.seed)
    if arguments.batch is not None:
        workload.batch = arguments.batch
    change_optimizer(workload, arguments)
    if arguments.eval_data and workload.eval_dataset is None:
        raise ImportFailure(f"--eval-data: {arguments.model} has no evaluation dataset")
    program = workload.translate()
    text = "" if arguments.list_ops and not arguments.output else program.text
    for warning in program.warnings:
        print(f"mpcomm-import: warning: {warning}", file=sys.stderr)
    program.write(arguments.output, arguments.weights, arguments.data,
                  arguments.eval_data)
    if arguments.list_ops:
        list_operators(program)
    elif not arguments.output:
        sys.stdout.write(text)
    sys.stdout.flush()


def main(argv=None):
    arguments = parser().parse_args(argv)
    try:
        run(arguments)
    except ImportFailure as error:
        print(f"mpcomm-import: error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"mpcomm-import: error: {error.filename or ''}: {error.strerror}",
              file=sys.stderr)
        return 1
    except Exception as error:  # one that only a defect explains
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = (str(error).strip().splitlines() or [""])[0]
        print("mpcomm-import: error: a defect of the importer: "
              f"{os.path.basename(frame.filename)}:{frame.lineno}: {type(error).__name__}: {text}",
              file=sys.stderr)
        return 1
    return 0
