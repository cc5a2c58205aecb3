# ===- session.py - training with a program -------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The Session: a rank of a training job, and the state that its program trains."""

import ctypes
import json
import os
import socket
import struct
import sys
import time
from typing import (Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple,
                    Union)

from . import library
from .batches import Batches, count_samples
from .callbacks import Callback, Record
from .errors import Error
from .names import STEP, from_pytorch, listed, to_pytorch
from .program import Program
from .pytrees import filled, to_arrays
from .schedules import Constant, Cosine, LearningRate, Linear, Rates
from .state import State, TensorInfo, arguments


class StepResult(NamedTuple):
    """What a step gave.

    milliseconds          of the step on the device
    exposed_milliseconds  that it waited for communication; -1: not known
    is_skipped            parameters kept their values, because gradients overflowed
    loss_scale            of the next step; None if the program does not scale its loss
    nonfinite             parameters whose gradients were not finite, with check_gradients
    """

    step: int
    loss: float
    metrics: Dict[str, float]
    milliseconds: float
    exposed_milliseconds: float
    is_skipped: bool
    loss_scale: Optional[float]
    nonfinite: List[str]


class Event(NamedTuple):
    """What a session reports: `kind` is "loaded", "saved", "warning", …"""

    kind: str
    step: int
    milliseconds: float
    value: float
    text: str


class Session:
    """Trains with a program, as one rank of a world.

    program    a Program, or the path of a program file
    lr         a number; a schedule (Constant, Cosine, Linear, or a function of the step,
               counted from 0); a torch.optim.Optimizer or a scheduler of
               torch.optim.lr_scheduler, whose rates are read before each step (the loop
               calls the scheduler's step(), as ever; other options of the optimizer have
               to stay as they were compiled); a list of these for several learning
               rates. Default: that of the optimizer that was compiled
    callbacks  functions of a Record, called on rank 0: JsonLines, TensorBoard, your own
    comm       "shm", "gloo", "mpi", "nccl" or "self"; default: by the launcher
    device     "host" or "cuda"; default: that of the program
    timeout    seconds after which a wait for other ranks in which nothing moves fails
    seed       of the random bits that a program takes (dropout)

    The world is that of the launcher: torchrun, mpirun, srun or mpcomm.launch; without
    one it has one rank. State starts as model and optimizer have it now; with several
    ranks all start with the values of rank 0. The model is not changed by training:
    `model.load_state_dict(session.state_dict())` brings back what was learned.

    A session is a context manager; an exception inside of it ends the other ranks too.
    """

    def __init__(self, program: Union[Program, str], *, lr: LearningRate = None,
                 callbacks: Union[Callback, Sequence[Callback]] = (),
                 comm: Optional[str] = None, device: Optional[str] = None,
                 timeout: float = 120.0, seed: int = 0):
        if not isinstance(program, Program):
            program = Program(program)
        self.program = program
        self._callbacks = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
        options = library.SessionOptions(timeout_seconds=timeout, seed=seed)
        options.comm = comm.encode() if comm else None
        options.device = device.encode() if device else None
        if library.inherited is not None and comm in (None, "auto", "shm"):
            # Ranks meet in shared memory once; a further session is over TCP.
            (self._ranks, options.rank), library.inherited = library.inherited, None
            options.ranks, options.size = self._ranks.pointer, self._ranks.size
        elif comm in (None, "auto", "gloo"):
            meet_by_process_group(options)
        self._handle = library.Handle(options)
        try:
            self._open(program, lr)
        except BaseException as error:
            self.abort(error)
            raise

    def _open(self, program: Program, lr: LearningRate) -> None:
        number = ctypes.c_uint32()
        self._handle("load", library.encoded(program.path), ctypes.byref(number))
        self._programs: Dict[int, Program] = {}
        self._add(program, number.value)
        self._resumed: Tuple[int, str] = (-1, "")  # after which step, from which file
        # Files of which the names of so many that will be kept are free.
        self._planned: Dict[str, int] = {}
        self._result, self._error = library.Result(), library.ErrorRecord()
        self._references = ctypes.byref(self._result), ctypes.byref(self._error)
        self._function = self._handle.library.mpcomm_session_step
        self._bind()
        initial = program.initial_state(self._state.table)
        self._state.write(initial)
        saved = program.optimizer_state()
        self._has_history = saved is not None and bool(saved["state"])
        if STEP in initial:
            self._handle("set_step", int(float(initial[STEP])))
        size = self.size
        if size > 1 and b"\1" in self._state.gather(bytes([bool(initial)]), size):
            self._state.broadcast(self.rank, size, initial)
        self._steps = int(self._describe().step)
        self.set_lr(lr)

    def _bind(self) -> None:
        """What depends on the current program."""
        self._state = State(self._handle)
        self._read_manifests()
        self._rates: Optional[Rates] = None
        self._batches: Dict[str, Batches] = {}
        self._samples: Dict[str, int] = {}
        self._rate_names = [a.name for a in arguments(self._handle, "train_step")
                            if a.role == "hyperparameter" and (a.name + ".").startswith("lr.")]
        self._train = self._batches_of("train_step")

    def _batches_of(self, function: str) -> Batches:
        if function not in self._batches:
            found = arguments(self._handle, function)
            if not found:
                raise Error(f"the program has no function '{function}'", code="not_found")
            self._batches[function] = Batches(
                [(a.name, a.dtype, a.shape) for a in found if a.role == "batch"],
                [] if self.program.batch_kind == "mapping" else self.program.batch,
                self.program.batch)
        return self._batches[function]

    def _describe(self) -> library.SessionInfo:
        info = library.SessionInfo()
        self._handle("describe", ctypes.byref(info))
        return info

    # --- the world ---

    @property
    def rank(self) -> int:
        return self._describe().rank

    @property
    def size(self) -> int:
        """Ranks of the world."""
        return self._describe().size

    @property
    def data_rank(self) -> int:
        """Which part of the global batch this rank takes; for a DistributedSampler."""
        return self._describe().data_rank

    @property
    def data_ranks(self) -> int:
        """Into how many parts the global batch is divided."""
        return self._describe().data_ranks

    @property
    def steps(self) -> int:
        """Steps done."""
        return self._steps

    @property
    def backend(self) -> str:
        """What carries messages: "self", "shm", "gloo", "mpi" or "nccl"."""
        return self._describe().backend.decode()

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """The state, by name."""
        return self._state.table

    # --- training ---

    def set_lr(self, lr: LearningRate) -> None:
        """Another learning rate from the next step on; see `lr` of the class."""
        names = self._rate_names
        if lr is None:
            lr = self.program.optimizer
            if lr is None:
                self._rates = None
                return
        if type(lr) in (Constant, Cosine, Linear) and names == ["lr"]:
            kind = library.DECAYS.index(type(lr).__name__.lower())
            self._handle("set_schedule", ctypes.byref(library.ScheduleRecord(
                decay=kind, base=lr.lr, warmup=lr.warmup, total=lr.total)))
            self._rates = None  # a checkpoint holds it
            return
        groups = self.program.optimizer_names
        self._rates = Rates(lr, names, list(groups.rates().values()) if groups else [],
                            groups.constants if groups else [])
        self._set: List[Optional[float]] = [None] * len(names)

    def lr(self) -> Dict[str, float]:
        """The learning rates that the next step takes, by name."""
        if self._rates is not None:
            return dict(zip(self._rates.names, self._rates.at(self._steps)))
        value, result = ctypes.c_double(), {}
        for name in self._rate_names:
            self._handle("get", name.encode(), ctypes.byref(value))
            result[name] = value.value
        return result

    def set(self, name: str, value: float) -> None:
        """The value of a hyperparameter of the program from the next step on."""
        self._handle("set", name.encode(), float(value))

    def step(self, batch: Any) -> float:
        """Makes a training step on this rank's samples (all ranks) and returns the loss,
        the mean over the global batch.

        batch   a dictionary, tuple or list of tensors as `example_batch` was; a single
                tensor if that is all. Tensors of PyTorch, arrays of NumPy and whatever
                has `__dlpack__` are used where they are: on the CPU, dense and at an
                address that is a multiple of 64, nothing is copied"""
        began = time.perf_counter() if self._callbacks else 0.0
        self._train.take(batch)
        if self._rates is not None:
            rates = self._rates.at(self._steps)
            if rates != self._set:
                for name, rate in zip(self._rates.names, rates):
                    self.set(name, rate)
                self._set = rates
        result, error = self._references
        if self._function(self._handle.pointer, self._train.arrays, self._train.count, None,
                          result, error):
            raise self._failure()
        self._steps = self._result.step
        if self._callbacks:
            self._report("step", self._result.loss, self._metrics(), began)
        return self._result.loss

    def _failure(self) -> Error:
        if not self._handle.pointer:
            return Error("the session is closed", code="not_ready")
        return library.failure(self._error)

    def _metrics(self) -> Dict[str, float]:
        found = self._result
        return {found.metrics[i].name.decode(): found.metrics[i].value
                for i in range(found.metric_count)}

    def _report(self, kind: str, loss: float, metrics: Dict[str, float], began: float,
                samples: int = 0) -> None:
        if self.rank == 0:
            record = Record(kind, self._steps, loss, metrics,
                            1000 * (time.perf_counter() - began), {}, samples=samples)
            if kind == "step":
                last = self.last
                record.rates = self._last_rates()
                if last.exposed_milliseconds >= 0:
                    record.exposed_ms = last.exposed_milliseconds
                record.loss_scale, record.is_skipped = last.loss_scale, last.is_skipped
                record.nonfinite = last.nonfinite
            for callback in self._callbacks:
                callback(record)

    def _last_rates(self) -> Dict[str, float]:
        """The learning rates of the step that was just made."""
        if self._rates is not None:
            return dict(zip(self._rates.names, self._set))
        return self.lr()

    @property
    def last(self) -> StepResult:
        """What the last step or evaluation gave beside the loss."""
        r = self._result
        return StepResult(r.step, r.loss, self._metrics(), r.milliseconds,
                          r.exposed_milliseconds, bool(r.is_skipped),
                          r.loss_scale if r.has_loss_scale else None,
                          [r.nonfinite[i].decode() for i in range(r.nonfinite_count)])

    def evaluate(self, batches: Any, function: str = "evaluate") -> Dict[str, float]:
        """The loss and the metrics of a batch, or the means over a loader of batches, and
        over the ranks, with the model in evaluation mode (all ranks). Each rank gives its
        own samples, in as many batches as the others, which may be of any size. Samples
        that do not fill a batch of the program are evaluated with copies of one of them,
        whose part is taken out again; that is exact for losses and metrics that are means
        over samples."""
        began = time.perf_counter()
        one = is_batch(batches)
        totals: Dict[str, float] = {}
        samples = 0
        taker = self._batches_of(function)
        size = self._samples_of(function)

        runs = 0

        def run(part: Any, weight: int) -> None:
            nonlocal runs
            runs += 1
            taker.take(part)
            self._handle("evaluate", function.encode(), taker.arrays, taker.count,
                         self._references[0])
            found = {"loss": self._result.loss, **self._metrics()}
            for name, value in found.items() if weight else ():
                totals[name] = totals.get(name, 0.0) + weight * value

        for batch in [batches] if one else batches:
            for part in taker.parts(batch, size):
                short = taker.filled(part, size)
                if short is None:
                    run(part, size or 1)
                    samples += size or 1
                    continue
                held = count_samples(part)
                run(short[1], held - size)
                run(short[0], size)
                samples += held
        if not samples:
            raise Error("expected at least one batch to evaluate, found none")
        # Where ranks communicate in an evaluation, all make as many.
        known = self._state.gather(struct.pack("<q", runs), self.size)
        for _ in range(max(struct.unpack("<q", k)[0] for k in known) - runs):
            run(short[0] if short else part, 0)
        means, everyone = self._over_ranks(totals, samples)
        if self._callbacks:
            metrics = {k: v for k, v in means.items() if k != "loss"}
            self._report("evaluate", means["loss"], metrics, began,
                         everyone * self.data_ranks // self.size if size else 0)
        return means

    def _samples_of(self, function: str) -> int:
        """Of one batch of a function, 0 without; of a pipeline, as the ranks know that take
        the batch (all ranks)."""
        if function not in self._samples:
            mine = self._batches_of(function).samples
            known = self._state.gather(struct.pack("<q", mine), self.size)
            self._samples[function] = max(struct.unpack("<q", k)[0] for k in known)
        return self._samples[function]

    def _over_ranks(self, totals: Dict[str, float],
                    samples: int) -> Tuple[Dict[str, float], int]:
        """The means over the samples of all ranks, and how many these are."""
        mine = (ctypes.c_double * (1 + len(totals)))(samples, *totals.values())
        everyone = [mine.__class__.from_buffer_copy(b)
                    for b in self._state.gather(bytes(mine), self.size)]
        count = sum(e[0] for e in everyone)
        return {name: sum(e[1 + i] for e in everyone) / count
                for i, name in enumerate(totals)}, int(count)

    def output(self, name: str = "output") -> Any:
        """A copy of a result of the last evaluation on this rank's samples: on the last
        ones where they were more than fill a batch of the program; behind fewer, copies of
        the last of them are evaluated, too."""
        try:
            return self._state.result(name)
        except Error as error:
            if error.code != "not_found":
                raise
            raise Error(f"{error}; {self._known_results()}", code="not_found") from None

    def _known_results(self) -> str:
        """What each function returns beside state, for a message."""
        text = ctypes.c_char_p()
        self._handle("manifest", self._describe().current, ctypes.byref(text))
        known: Dict[str, List[str]] = {}
        for function in json.loads(text.value.decode())["functions"]:
            names = known.setdefault(function["name"], [])
            names += [r["name"] for r in function["results"]
                      if r.get("argument") is None and r["name"] not in names]
        return "; ".join(f"{function} gives {listed(names, len(names))}"
                         for function, names in known.items() if names)

    # --- state ---

    def state_dict(self) -> Dict[str, Any]:
        """Copies of parameters and buffers, for `model.load_state_dict`: tensors of PyTorch
        if this process uses it, else arrays. If the program is a pipeline, or defers
        reductions (`defer_bytes`), all ranks call it, and all get everything."""
        self._settle()
        held = {n: self._state.read(n) for n in self._state.names("parameter", "buffer")}
        names = self.program.model_names
        if names is None:
            return held
        model = self.program.model_state()
        return {key: held[name] if name in held else model[name]
                for key, name in names.aliases.items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Sets parameters and buffers, from `model.state_dict()` for instance. All ranks
        give the same. If anything does not fit, nothing is changed.

        strict   refuse names that the model does not have, and a state that lacks some"""
        names = self.program.model_names
        aliases = names.aliases if names else {}
        own = set(self._state.names("parameter", "buffer"))
        values = {aliases.get(k, k): v for k, v in state.items() if aliases.get(k, k) in own}
        if strict:
            needed = own & set(aliases.values()) if names else own
            missing = sorted(needed - set(values))
            unknown = sorted(k for k in state if k not in aliases and k not in own)
            if missing or unknown:
                raise Error("; ".join(
                    (["the state lacks " + listed(missing)] if missing else []) +
                    (["the program has no " + listed(unknown)] if unknown else [])),
                    code="not_found")
        self._settle()
        self._state.write(values)

    def optimizer_state_dict(self) -> Dict[str, Any]:
        """What `optimizer.state_dict()` would be had PyTorch made the steps, for
        `optimizer.load_state_dict`; needs a program that was compiled from a model, or
        bound to one. As `state_dict` of a pipeline, to be called by all ranks. Of what ranks
        have each of their own (`local_steps`), the mean."""
        names = self._optimizer_names()
        self._settle()
        held = {n: self._state.mean(n) for n in self._kept("optimizer_state")}
        trained = self._state.names("parameter") if self._has_history or self._steps else []
        live = self.program.optimizer
        options = live and [{k: v for k, v in g.items() if k != "params"}
                            for g in live.param_groups]
        return to_pytorch(held, names, trained, self.lr(), options)

    def load_optimizer_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with the state of PyTorch's optimizer, `optimizer.state_dict()`, and with
        its count of steps. All ranks give the same."""
        names = self._optimizer_names()
        values = from_pytorch(state, names, self._state.table)
        if not values:
            text = ctypes.c_char_p()
            self._handle("manifest", self._describe().current, ctypes.byref(text))
            values = {n: self._state.initial(text.value.decode(), n)
                      for n in self._kept("optimizer_state")}
        self._settle()
        self._state.write(values)
        self._has_history = bool(state["state"])
        if STEP in values:
            self._steps = int(float(values[STEP]))
            self._handle("set_step", self._steps)
        if self._rates is None:
            for name, indices in names.rates().items():
                if name in self._rate_names:
                    self.set(name, state["param_groups"][indices[0]]["lr"])

    def _kept(self, *roles: str) -> List[str]:
        """State of these roles that is the model's or the optimizer's, not the compiler's."""
        return [n for n in self._state.names(*roles) if n not in self._added]

    def _read_manifests(self) -> None:
        """Notes the names of state that the compiler added, of that of which each rank has its
        own, and whether steps of the current program leave updates to the next."""
        self._added: Set[str] = set()
        described, text = self._describe(), ctypes.c_char_p()
        for number in range(int(described.programs)):
            self._handle("manifest", number, ctypes.byref(text))
            functions = json.loads((text.value or b"").decode())["functions"]
            for argument in (a for f in functions for a in f["arguments"]):
                if argument.get("added"):
                    self._added.add(argument["name"])
                if argument.get("sharding", {}).get("local"):
                    self._state.own.add(argument["name"])
            if number == described.current:
                self._defers = any(a.get("transient") for f in functions
                                   for a in f["arguments"])

    def _settle(self) -> None:
        """Makes the updates that a step has left for the next one (`defer_bytes`): then all
        ranks have to call what reads or writes state."""
        if self._defers:
            self._handle("evaluate", b"apply_pending", None, 0, None)

    def _optimizer_names(self):
        if self.program.optimizer_names is None:
            raise Error("the program was not compiled from a model of PyTorch in this process; "
                        "Program.bind(model, optimizer) tells it the names", code="not_ready")
        return self.program.optimizer_names

    def pytree(self, like: Any) -> Any:
        """The state of a step of JAX as it is now, in the structure of `like`, which is the
        state that was compiled or one like it. Of a pipeline, to be called by all ranks."""
        kept = self._kept("parameter", "optimizer_state", "buffer")
        self._settle()
        values = {n: self._state.mean(n) for n in kept}
        number = ctypes.c_double()
        for name in self._hyperparameters():
            self._handle("get", name.encode(), ctypes.byref(number))
            values[name] = number.value
        return filled(like, values, self._kept("parameter", "optimizer_state"))

    def load_pytree(self, tree: Any) -> None:
        """Goes on with a state of JAX. All ranks give the same. If anything does not fit,
        nothing is changed."""
        arrays = to_arrays(tree)
        missing = [n for n in self._kept("parameter", "optimizer_state")
                   if n not in arrays]
        if missing:
            raise Error("the tree has no " + listed(missing), code="not_found")
        self._settle()
        self._state.write({n: a for n, a in arrays.items() if n in self._state.table})
        for name in self._hyperparameters():
            if name in arrays:
                self.set(name, arrays[name])

    def _hyperparameters(self) -> List[str]:
        return [a.name for a in arguments(self._handle, "train_step")
                if a.role == "hyperparameter"]

    def read_state(self, path: str) -> None:
        """Takes state from a file of weights or a checkpoint (all ranks)."""
        self._handle("read_state", library.encoded(path))

    # --- checkpoints ---

    def save(self, path: str, *, blocking: bool = True, keep: int = 1,
             weights_only: bool = False, allow_nonfinite: bool = False,
             metadata: Optional[Mapping[str, str]] = None) -> None:
        """Writes a checkpoint (all ranks, after the same step), which replaces an older one
        at `path` when it is complete.

        path             a file; in a folder ("ckpt/") it is checkpoint.safetensors
        blocking         False: return as soon as the state is copied
        keep             how many checkpoints are kept, older ones as PATH.step-K. Files of
                         another run that have such names are an error of the first save,
                         or of `plan_saves`
        weights_only     parameters and buffers alone
        allow_nonfinite  even if the state has NaN in it
        metadata         texts to keep with it; `metadata()` reads them after `resume`"""
        path, keep = checkpoint_path(path, make=self.rank == 0), at_least_one("keep", keep)
        if keep > self._planned.get(os.path.abspath(path), 1) and not weights_only:
            self._check_copy(path, keep)
            self.plan_saves(path, keep=keep)
        pairs = list((metadata or {}).items())
        texts = (library.Text * max(1, len(pairs)))(
            *[library.Text(key=k.encode(), value=str(v).encode()) for k, v in pairs])
        self._handle("save", library.encoded(path), ctypes.byref(library.SaveOptions(
            background=not blocking, weights_only=weights_only, allow_nonfinite=allow_nonfinite,
            keep=keep, metadata_count=len(pairs), metadata=texts)))

    def plan_saves(self, path: str, *, keep: int = 1, every: int = 1,
                   last: Optional[int] = None) -> None:
        """Finds before training what would prevent checkpoints at `path` (all ranks):
        another run that writes there, and files that are neither this session's nor of the
        run that it has resumed where older checkpoints will be kept.

        path, keep   as of `save`
        every, last  a save after each so many steps, up to that step; default: after any"""
        path, keep = checkpoint_path(path, make=self.rank == 0), at_least_one("keep", keep)
        end = 2 ** 64 - 1 if last is None else last
        self._handle("plan_saves", library.encoded(path), ctypes.byref(library.SavePlan(
            keep=keep, every=at_least_one("every", every), last=end)))
        self._planned[os.path.abspath(path)] = keep

    def _check_copy(self, path: str, keep: int) -> None:
        """Refuses a first save of which the copy, under whose name a later one keeps it, is
        there already, and another's (all ranks)."""
        copy, (step, file) = f"{path}.step-{self._steps}", self._resumed
        clashes = self.rank == 0 and os.path.lexists(copy) and not (
            step == self._steps and (same_file(file, path) or same_file(file, copy)))
        if any(self._state.gather(bytes([clashes]), self.size)[0]):
            raise Error(f"{copy}: is there already, and is not of this run, which keeps {keep} "
                        f"checkpoints and gives that name to the one of step {self._steps}; "
                        "move it away, or choose another name for checkpoints")

    def wait(self) -> None:
        """Waits for a checkpoint that is written in the background."""
        self._handle("wait")

    def resume(self, path: str, anyway: bool = False) -> int:
        """Goes on where a checkpoint was written, on this mesh or on another one (all
        ranks); returns the steps done, to which the loop brings a scheduler of PyTorch and
        its place in the data. `anyway`: even if another program wrote it."""
        path = checkpoint_path(path)
        self._handle("resume", library.encoded(path),
                     ctypes.byref(library.ResumeOptions(anyway=anyway)))
        self._steps, self._has_history = int(self._describe().step), True
        self._resumed, self._planned = (self._steps, os.path.abspath(path)), {}
        return self._steps

    def metadata(self, key: str) -> Optional[str]:
        """A text of the checkpoint that was resumed; None if it has none of that name."""
        text = ctypes.c_char_p()
        try:
            self._handle("metadata", key.encode(), ctypes.byref(text))
        except Error as error:
            if error.code == "not_found":
                return None
            raise
        return text.value.decode()

    # --- programs, events, the end ---

    def load(self, program: Union[Program, str]) -> int:
        """Loads a further program that trains the same state (all ranks); its number."""
        number = ctypes.c_uint32()
        if not isinstance(program, Program):
            program = Program(program)
        self._handle("load", library.encoded(program.path), ctypes.byref(number))
        self._add(program, number.value)
        return number.value

    def _add(self, program: Program, number: int) -> None:
        """Knows the program, loaded under that number, and its variants behind it."""
        for other in range(number, int(self._describe().programs)):
            self._programs[other] = program

    @property
    def variants(self) -> List[str]:
        """The names of the plans in the file of the current program, "" for the first, which
        has none."""
        own = self.program
        return [self._variant(n) for n, p in sorted(self._programs.items()) if p is own]

    def _variant(self, number: int) -> str:
        name = ctypes.c_char_p()
        self._handle("variant", number, ctypes.byref(name))
        return (name.value or b"").decode()

    def switch(self, program: Union[int, str]) -> None:
        """Goes on with another loaded program, or with a variant of the current one by its
        name, "" for the program itself (all ranks, after the same step)."""
        if isinstance(program, str):
            own, name = self.program, program
            found = [n for n, p in self._programs.items()
                     if p is own and self._variant(n) == name]
            if not found:
                names = "', '".join(self.variants)
                raise Error(f"no variant '{name}', expected one of '{names}'",
                            code="not_found")
            program = found[0]
        self._handle("switch", program)
        rates, given = self._rates, getattr(self, "_set", [])
        self._bind()
        self._rates, self._set = rates, [None] * len(given)
        if rates is not None:
            names = self._programs.get(program, self.program).optimizer_names
            rates.constants = names.constants if names else []

    def adapt(self, every: int = 10, numerics: str = "exact", *, gain: float = 0.05,
              budget: int = 10, watch_only: bool = False,
              plan_command: Optional[str] = None) -> None:
        """From here on looks at the network every so many steps, and goes on with whichever
        plan that is loaded is the fastest there (all ranks, with the same values).

        every       steps between looks; 0: adapts no longer
        numerics    "exact": plans that compute the same. "bf16", "f16", "i8", "f8E4M3FN",
                    "f8E5M2", "i4", "i1": also those with gradients as narrow as that on
                    the wire; "low-rank": and those that send them as thin matrices, or
                    some of their elements ("top1of32")
        gain        the share of a step by which another plan has to be faster
        budget      switches in 1000 steps
        watch_only  looks, and stays with the plan
        plan_command  makes a plan for the network as it is measured, in the background: a
                    command for the shell of rank 0 that writes the program $MPCOMM_PLAN
                    for the cluster file $MPCOMM_CLUSTER

        What it does is told by events "adapted" and "network"; `network` has what it saw."""
        if every == 0:
            self._handle("adapt", None)
            return
        self._handle("adapt", ctypes.byref(library.AdaptOptions(
            every=every, numerics=numerics.encode(), gain=gain, budget=budget,
            only_watch=watch_only,
            plan_command=plan_command.encode() if plan_command else None)))

    @property
    def network(self) -> Optional[Dict[str, Any]]:
        """What the last look at the network saw, milliseconds of a step each; None before
        the first. docs/Runtime/Session.md has the keys."""
        text = ctypes.c_char_p()
        try:
            self._handle("network", ctypes.byref(text))
        except Error as error:
            if error.code == "not_ready":
                return None
            raise
        return json.loads(text.value or b"null")

    @property
    def plan(self) -> str:
        """The name of the plan in use, "" for the first of the program."""
        return self._variant(int(self._describe().current))

    def events(self) -> List[Event]:
        """What has happened since the last call: at most the last 1024 events."""
        records, result = (library.EventRecord * 64)(), []
        taken, dropped = ctypes.c_uint32(64), ctypes.c_uint64()
        while taken.value == 64:
            self._handle("events", records, 64, ctypes.byref(taken), ctypes.byref(dropped))
            result += [Event(library.EVENTS[r.kind], r.step, r.milliseconds, r.value,
                             r.text.decode(errors="replace")) for r in records[:taken.value]]
        return result

    def abort(self, reason: Any) -> None:
        """Ends the session; ranks that wait for this one fail, and say why."""
        text = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else reason
        try:
            self._handle("abort", str(text).splitlines()[0].encode())
        except Error:
            pass  # it has failed already
        try:
            self.close()
        except Error:
            pass  # the reason matters more

    def close(self) -> None:
        """Waits for checkpoints in the background and leaves the world."""
        for callback in self._callbacks:
            getattr(callback, "close", lambda: None)()
        self._handle.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort(error)

    def __del__(self) -> None:
        try:
            self._handle.close()
        except (AttributeError, Error):
            pass  # it was never opened, or has failed: nobody is left to hear of it


def meet_by_process_group(options: library.SessionOptions) -> None:
    """Where PyTorch's rank 0 itself listens on MASTER_PORT, because there is no agent of
    torchrun that does, ranks agree by their process group on another port."""
    group = sys.modules.get("torch.distributed")
    if group is None or not group.is_available() or not group.is_initialized() or \
            group.get_world_size() == 1 or "MPRT_MASTER_PORT" in os.environ or \
            os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or \
            not os.environ.get("MASTER_ADDR"):
        return
    host = os.environ["MASTER_ADDR"]
    place: List[Any] = [None]
    if group.get_rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            place = [f"{host}:{probe.getsockname()[1]}"]
    group.broadcast_object_list(place)
    options.rank, options.size = group.get_rank(), group.get_world_size()
    options.address = place[0].encode()


def is_batch(value: Any) -> bool:
    """Whether that is a batch, and no loader or list of batches."""
    if isinstance(value, (tuple, list)) and value:
        return not isinstance(value[0], (Mapping, tuple, list))
    return isinstance(value, Mapping) or hasattr(value, "__dlpack__") or \
        type(value).__name__ == "PyCapsule"


def at_least_one(name: str, value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise Error(f"expected `{name}` to be at least 1, found {value}")
    return value


def same_file(a: str, b: str) -> bool:
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)


def checkpoint_path(path: str, make: bool = False) -> str:
    """The file for a path that may be a folder."""
    text = os.fspath(path)
    if not (text.endswith(os.sep) or os.path.isdir(text)):
        return text
    if make:
        os.makedirs(text, exist_ok=True)
    return os.path.join(text, "checkpoint.safetensors")
