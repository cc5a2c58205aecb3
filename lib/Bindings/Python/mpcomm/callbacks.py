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
from typing import Any, Callable, Dict, Union

from .errors import Error


@dataclasses.dataclass
class Record:
    """What a callback is told of a step, or of an evaluation.

    kind      "step" or "evaluate"
    step      the number of steps done
    loss      the mean over the global batch
    metrics   what else the loss function returned, by name
    ms        milliseconds that it took
    rates     learning rates by name, {} of an evaluation
    """

    kind: str
    step: int
    loss: float
    metrics: Dict[str, float]
    ms: float
    rates: Dict[str, float]


#: A callback; one with a method `close` has it called at the session's end.
Callback = Callable[[Record], Any]


def json_number(value: float) -> Union[float, str]:
    """JSON has no infinity and no NaN; they are written as text."""
    return value if math.isfinite(value) else str(value)


class JsonLines:
    """Writes a line of JSON a step, with the keys of `mpcomm-run --log`; a session that
    goes on from a checkpoint goes on with the file.

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
        line: Dict[str, Any] = {"step": record.step, "loss": json_number(record.loss)}
        if record.kind != "step":
            line = {"step": record.step, "eval_loss": json_number(record.loss)}
        if record.metrics:
            line["metrics"] = {k: json_number(v) for k, v in record.metrics.items()}
        line["ms"] = round(record.ms, 4)
        line.update(record.rates)
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
    """Writes event files for TensorBoard, by torch.utils.tensorboard or tensorboardX.

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
    except ImportError:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise Error("TensorBoard needs the package tensorboard (with PyTorch) or "
                        "tensorboardX", code="unsupported") from None
    return SummaryWriter


def checked(every: int) -> int:
    if not isinstance(every, int) or every < 1:
        raise Error(f"expected `every` to be at least 1, found {every}")
    return every
