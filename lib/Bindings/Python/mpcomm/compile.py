# ===- compile.py - from a model to a program -----------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""`compile`: imports a training step of PyTorch or JAX, and compiles it for N ranks."""

import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import cache, tools
from .batches import names_of_batch
from .errors import CompileError
from .program import Program

#: Which tensors of a batch a function takes: names, or positions in a tuple; in order, or
#: by keyword.
Selection = Union[Sequence[Union[str, int]], Mapping[str, Union[str, int]], None]


def compile(model: Any, loss: Optional[Callable] = None, optimizer: Any = None,
            example_batch: Any = None, *, mesh: Optional[str] = None,
            precision: Optional[str] = None, inputs: Selection = None,
            targets: Selection = None, state: Any = None, name: str = "",
            cpu: Optional[str] = None, output: Optional[str] = None,
            variants: Optional[Mapping[str, Mapping[str, Any]]] = None,
            **options: Any) -> Program:
    """Compiles a training step into a program for the ranks of `mesh`.

    model          a torch.nn.Module; or a step of JAX, with its `state`; or a workload of
                   mpcomm_import; or the path of a training graph (`.mlir`) or of a
                   program (`.so`)
    loss           loss(output, *targets): a tensor of one element, or a dictionary with
                   such a "loss" and metrics. None: the model computes its loss itself and
                   returns it alone, first, or under that name
    optimizer      a torch.optim.Optimizer of the model's parameters
    example_batch  a batch as one rank takes it: a dictionary, tuple or list of tensors,
                   whose first dimension counts samples. It decides shapes and types; its
                   values are read only where a model looks at them
    mesh           "dp:4" for four ranks with different samples, "pp:2,dp:2" for pipelines
                   of two stages, which need micro_batches=2 or more; default: data-parallel
                   ranks, as many as the launcher started, else 1
    precision      "bf16", "f16", "fp8", or "none" (the default)
    inputs         what the model takes of a batch; default: the first tensor, or without
                   a loss all of them, by name
    targets        the same for the loss; default: the other tensors
    state          of JAX: a flax TrainState, or any pytree of arrays. The model is then
                   step(state, batch), which returns the next state and the loss
    cpu            the processor to generate code for; default: this one
    output         where to put the program file; default: a folder that is removed when
                   the Program is
    variants       other plans of the step that a session can switch to, by name, each with
                   options of its own: {"narrow": {"wire": "bf16"}}. With other
                   micro_batches or local_steps the model is traced for each
    options        other options of mpcomm-compile's pipeline, with underscores:
                   micro_batches=4, clip_norm=1.0, wire="bf16", cluster="dgx-h100", …;
                   with micro_batches and local_steps the batch has the samples of all

    Example:

        program = mpcomm.compile(model, F.cross_entropy, optimizer, next(iter(loader)))

    Raises CompileError, which names the line of the model where one is to blame."""
    options = {k.replace("_", "-"): v for k, v in options.items()}
    options.update(mesh=mesh or default_mesh(), precision=precision)
    if isinstance(model, (str, os.PathLike)):
        if loss is not None or optimizer is not None or example_batch is not None:
            raise CompileError("expected a file alone, without loss, optimizer and example_batch")
        path = os.fspath(model)
        if not os.path.isfile(path):
            raise CompileError(f"{path}: no such file")
        if not path.endswith(".mlir"):
            if mesh or precision or len(options) > 2 or cpu or output or variants:
                raise CompileError(f"{path} is compiled; expected no options with it")
            if not Program.is_program(path):
                raise CompileError(f"{path}: expected a training graph, FILE.mlir, or a program "
                                   "of mpcomm-compile, found neither")
            return Program(path)
        with temporary_folder() as folder:
            return Program(run_compiler([path], {}, options, cpu,
                                        output or os.path.join(folder, "step.so"), path,
                                        variants), folder=folder)
    if hasattr(model, "translate"):
        workload, kind = model, "mapping"
    elif state is not None:
        if loss is not None or optimizer is not None or inputs is not None or targets is not None:
            raise CompileError("expected a step of JAX alone with `state`: it has its loss and "
                               "its optimizer")
        workload, kind = workload_of_jax(model, state, example_batch, options)
        workload.name = name or getattr(model, "__name__", "step")
    else:
        workload, kind = workload_of(model, loss, optimizer, example_batch, inputs, targets,
                                     options)
        workload.name = name or type(workload.model).__name__
    imported = translate(workload)
    with temporary_folder() as folder:
        graphs = []
        # Of a mesh that is chosen, the choice would take them for the program itself.
        is_given = not str(options["mesh"]).startswith("auto:")
        others = other_batches(workload, options, variants) if variants and is_given else []
        for one in [imported, *map(translate, others)]:
            graphs.append(os.path.join(folder, f"step{len(graphs) or ''}.mlir"))
            with open(graphs[-1], "w", encoding="utf-8") as file:
                file.write(one.text)
        program = run_compiler(graphs, imported.lines, options, cpu,
                               output or os.path.join(folder, "step.so"), variants=variants)
        result = Program(program, weights=imported.weights, folder=folder,
                         batch=list(imported.dataset), batch_kind=kind)
    if hasattr(getattr(workload, "model", None), "named_parameters"):
        result.bind(workload.model, workload.optimizer)
    return result


def default_mesh() -> str:
    """Data-parallel ranks, as many as the launcher says that there are."""
    for size in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"):
        if os.environ.get(size, "").isdigit():
            return f"dp:{os.environ[size]}"
    return "dp:1"


def workload_of(model, loss, optimizer, example_batch, inputs, targets, options):
    """The importer's Workload, and what kind of batches it takes. The graph is that of a
    micro-batch."""
    import torch
    for what, value in (("optimizer", optimizer), ("example_batch", example_batch)):
        if value is None:
            raise CompileError(f"expected {what} with a model")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise CompileError("expected `optimizer` to be a torch.optim.Optimizer, found "
                           f"{type(optimizer).__name__}")
    kind, dataset, samples = example_of(example_batch, to_torch, options)
    try:
        return tools.importer().Workload(
            model=model, loss=loss, optimizer=optimizer, batch=samples, dataset=dataset,
            inputs=selected(inputs, list(dataset)), targets=selected(targets, list(dataset))), kind
    except tools.importer().ImportFailure as error:
        raise CompileError(str(error)) from None


def workload_of_jax(step, state, example_batch, options):
    """The same for a step of JAX, which takes batches as the example is."""
    import numpy
    if not callable(step) or example_batch is None:
        raise CompileError("expected a step, step(state, batch), and an example_batch with "
                           "`state`")
    kind, dataset, samples = example_of(example_batch, lambda _, v: numpy.asarray(v), options)
    # What was traced before has no marks of gradients.
    body = step.__wrapped__ if hasattr(step, "lower") else step
    make = {"mapping": dict, "sequence": lambda b: type(example_batch)(b.values()),
            "tensor": lambda b: b["batch.0"]}[kind]
    return tools.importer().JaxWorkload(
        step=lambda state, batch: body(state, make(batch)), state=state, batch=samples,
        dataset=dataset), kind


def example_of(batch, convert, options):
    """(the kind of a batch, its tensors by name, samples of a micro-batch of a local step)."""
    kind, items = names_of_batch(batch)
    dataset = {k: convert(k, v) for k, v in items.items()}
    sizes = {k: len(t) for k, t in dataset.items() if t.ndim}
    if len(sizes) < len(dataset) or not dataset:
        raise CompileError("example_batch: expected tensors whose first dimension counts "
                           "samples, found " + (", ".join(
                               f"'{k}' of shape {list(t.shape)}" for k, t in dataset.items())
                               or "none"))
    if len(set(sizes.values())) > 1:
        raise CompileError("example_batch: numbers of samples differ: " + ", ".join(
            f"'{k}' has {n}" for k, n in sizes.items()))
    samples = next(iter(sizes.values()))
    for option, what in (("local-steps", "local steps"), ("micro-batches", "micro-batches")):
        parts = options.get(option, 1)
        if not isinstance(parts, int) or parts < 1 or samples % parts:
            raise CompileError(f"example_batch: expected a number of samples that {parts} {what} "
                               f"divide ({option.replace('-', '_')}), found {samples}")
        samples //= parts
    return kind, dataset, samples


def other_batches(workload, options, variants):
    """The workload with the batch of each variant that has other micro-batches or local steps."""
    def count_of(own):
        numbers = [own.get(key) or 1 for key in ("local-steps", "micro-batches")]
        return numbers[0] * numbers[1] if all(isinstance(n, int) for n in numbers) else 0

    samples, batches = workload.batch * count_of(options), [workload.batch]
    for name, own in variants.items():
        count = count_of({**options, **{k.replace("_", "-"): v for k, v in own.items()}})
        if count < 1 or samples % count:
            raise CompileError(f"variant '{name}': expected micro_batches and local_steps of which "
                               f"the product divides the {samples} samples of a step")
        if samples // count not in batches:
            batches.append(samples // count)
    return [dataclasses.replace(workload, batch=batch) for batch in batches[1:]]


def selected(selection: Selection, names: List[str]):
    """`inputs` or `targets` by names alone."""
    def one(key):
        if isinstance(key, int) and not -len(names) <= key < len(names):
            raise CompileError(f"expected positions of {len(names)} tensors, found {key}")
        return names[key] if isinstance(key, int) else key
    if isinstance(selection, (str, int)):
        selection = [selection]
    if isinstance(selection, Mapping):
        return {k: one(v) for k, v in selection.items()}
    return selection if selection is None else [one(k) for k in selection]


def to_torch(name: str, value: Any):
    """A tensor of an example batch, of whatever library, as one of PyTorch."""
    import torch
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if type(value).__module__.partition(".")[0] == "numpy":
        return torch.as_tensor(value)
    if type(value).__name__ == "PyCapsule" or hasattr(value, "__dlpack__"):
        return torch.from_dlpack(value) if hasattr(torch, "from_dlpack") else \
            torch.utils.dlpack.from_dlpack(value)
    raise CompileError(f"example_batch '{name}': expected a tensor, an array or a DLPack "
                       f"capsule, found {type(value).__name__}")


def translate(workload):
    """The importer's Program, as text that mpcomm-opt has verified."""
    importer = tools.importer()
    beside = os.path.dirname(tools.tool("mpcomm-compile"))
    path = os.environ.get("PATH", os.defpath)
    try:
        os.environ["PATH"] = os.pathsep.join([beside, path])  # where it seeks mpcomm-opt
        imported = importer.trace(workload)
        imported.text  # pylint: disable=pointless-statement
    except importer.ImportFailure as error:
        raise CompileError(str(error)) from None
    finally:
        os.environ["PATH"] = path
    for message in imported.warnings:
        warnings.warn(message, stacklevel=3)
    return imported


def spelled(key: str, value: Any) -> str:
    """An option as mpcomm-compile reads it."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    text = str(value)
    if not text or re.search(r"[\s{}]", text):
        raise CompileError(f"option {key}: expected a value without spaces, found '{text}'")
    return f"{key}={text}"


@contextlib.contextmanager
def temporary_folder():
    """A folder that a Program takes over; removed after an error."""
    folder = tempfile.mkdtemp(prefix="mpcomm-")
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def run_compiler(graphs: List[str], lines: Dict[str, List[str]], options: Dict[str, Any],
                 cpu: Optional[str], output: str, known_as: str = "step.mlir",
                 variants: Optional[Mapping[str, Mapping[str, Any]]] = None) -> str:
    """Runs mpcomm-compile, in one of the ranks that need the same program; returns the
    program's path. `graphs`: the step, and the same with other batches for variants; `lines`:
    lines of the model by location; `known_as`: the path of the graph, as far as it matters."""
    compiler = tools.tool("mpcomm-compile")
    given = [f"--options={spelled(k, v)}" for k, v in options.items() if v is not None]
    given += [f"--cpu={cpu}"] if cpu else []
    for name, own in (variants or {}).items():
        settings = " ".join(spelled(k.replace("_", "-"), v) for k, v in own.items())
        given.append(f"--variant={name}: {settings}")

    def make(path: str) -> None:
        result = subprocess.run([compiler, *graphs, "-o", path, *given],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                errors="replace")
        if result.returncode:
            raise CompileError(explained(result.stderr, lines) or
                               f"mpcomm-compile ended with status {result.returncode}")

    files = [str(v) for k, v in options.items() if os.path.isfile(str(v))]
    cache.shared(cache.digest(tools.identity(compiler), cpu or tools.processor(), known_as,
                              given, *(contents(f) for f in [*graphs, *files])), make, output)
    return output


def contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def explained(text: str, lines: Dict[str, List[str]]) -> str:
    """What mpcomm-compile prints, with the lines of the model beside its locations."""
    def mended(match):
        location = match.group(1)
        known = lines.get(location) or lines.get(re.sub(r"\.grad$", "", location)) or []
        return ": ".join([" or ".join(known), location] if known else [location])
    text = re.sub(r"^mpcomm-compile: error: ", "", text.strip(), flags=re.M)
    text = re.sub(r"(expected at least as many micro-batches as ranks of the pipeline, (\d+), .*)",
                  r"\1; the option micro_batches=\2 gives so many", text)
    return re.sub(r'(?:<unknown>:0: error: )?loc\("([^"]*)"\)', mended, text)
