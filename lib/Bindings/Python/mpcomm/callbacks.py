# ===- callbacks.py - who is told of steps --------------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Callbacks of a Session: any function of a Record, and those below.

Callbacks run on rank 0 alone, where losses and metrics are those of all ranks.
"""

import dataclasses
import json
import math
import os
from typing import Any, Callable, Dict, Optional, Sequence

from .errors import Error


@dataclasses.dataclass
class Record:
    """What a callback is told of a step, or of an evaluation.

    kind        "step" or "evaluate"
    step        the number of steps done
    loss        the mean over the global batch, or over the evaluation
    metrics     what else the loss function returned, by name
    ms          milliseconds that the call took
    rates       learning rates by name, {} of an evaluation
    exposed_ms  of a step, that it waited for communication; None: not known
    loss_scale  of the next step; None if the program does not scale its loss
    is_skipped  parameters kept their values, because gradients overflowed
    nonfinite   parameters whose gradients were not finite, with check_gradients
    samples     of an evaluation, on all ranks
    """

    kind: str
    step: int
    loss: float
    metrics: Dict[str, float]
    ms: float
    rates: Dict[str, float]
    exposed_ms: Optional[float] = None
    loss_scale: Optional[float] = None
    is_skipped: bool = False
    nonfinite: Sequence[str] = ()
    samples: int = 0


#: A callback; one with a method `close` has it called at the session's end.
Callback = Callable[[Record], Any]


def json_number(value: float) -> Optional[float]:
    """JSON has no infinity and no NaN; they are null, as in mpcomm-run's log."""
    return value if math.isfinite(value) else None


class JsonLines:
    """Writes a line of JSON for each step and each evaluation, with the keys of
    `mpcomm-run --log` but `epoch`, `data_ms` and `accuracy`, which a session does not know;
    one that goes on from a checkpoint goes on with the file.

    path    the file
    every   how many steps a line is written
    """

    def __init__(self, path: str, every: int = 1):
        self.path, self.every = os.fspath(path), checked(every)
        self.file = None

    def __call__(self, record: Record) -> None:
        if self.file is None:  # with the first step, whether it is written or not
            self.file = self.open(record.step)
        if record.kind == "step" and record.step % self.every:
            return
        values: Dict[str, Any] = {"loss": json_number(record.loss)}
        if record.metrics:
            values["metrics"] = {k: json_number(v) for k, v in record.metrics.items()}
        line: Dict[str, Any] = {"step": record.step}
        if record.kind != "step":
            line["evaluation"] = {"samples": record.samples, **values}
        else:
            exposed = record.exposed_ms
            line.update(values, ms=round(record.ms, 4),
                        exposed_ms=None if exposed is None else round(exposed, 4),
                        **record.rates)
            if record.loss_scale is not None:
                line.update(loss_scale=record.loss_scale, skipped=record.is_skipped)
            if record.nonfinite:
                line["nonfinite"] = list(record.nonfinite)
        print(json.dumps(line, ensure_ascii=False), file=self.file, flush=True)

    def open(self, step: int):
        """The file, with the lines of steps before `step` and no other."""
        kept = b""
        if step > 1 and os.path.exists(self.path):
            with open(self.path, "rb") as file:
                for line in file:
                    try:
                        if not json.loads(line)["step"] < step or not line.endswith(b"\n"):
                            break
                    except (ValueError, KeyError, TypeError):
                        break
                    kept += line
        with open(self.path, "r+b" if kept else "wb") as file:
            file.truncate(len(kept))
        return open(self.path, "a", encoding="utf-8")

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class TensorBoard:
    """Writes event files for TensorBoard, by torch.utils.tensorboard or tensorboardX, of
    which one has to be installed.

    folder  where they go
    every   how many steps a point is written
    """

    def __init__(self, folder: str, every: int = 1):
        self.every = checked(every)
        self.writer = summary_writer()(os.fspath(folder))

    def __call__(self, record: Record) -> None:
        if record.kind == "step" and record.step % self.every:
            return
        where = "train" if record.kind == "step" else "evaluate"
        for name, value in {"loss": record.loss, **record.metrics}.items():
            self.writer.add_scalar(f"{where}/{name}", value, record.step)
        for name, value in record.rates.items():
            self.writer.add_scalar(name, value, record.step)
        if record.kind == "step":
            self.writer.add_scalar("step_ms", record.ms, record.step)

    def close(self) -> None:
        self.writer.close()


def summary_writer():
    """The class SummaryWriter of whichever library is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except Exception:  # what versions that do not fit each other raise
        try:
            from tensorboardX import SummaryWriter
        except Exception as error:
            raise Error("mpcomm.TensorBoard needs the package tensorboard (with PyTorch) or "
                        f"tensorboardX, which `pip install tensorboardX` gets: {error}",
                        code="unsupported") from None
    return SummaryWriter


def checked(every: int) -> int:
    if not isinstance(every, int) or every < 1:
        raise Error(f"expected `every` to be at least 1, found {every}")
    return every
