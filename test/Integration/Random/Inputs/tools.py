# ===- tools.py - compiling and running one graph --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""A trial: one graph, compiled with some options, run, and held against the interpreter."""

import json
import os
import random
import re
import signal
import subprocess

import numpy as np

import interpreter
from formats import FLOATS, read_tensors, write_tensors
from generator import dataset
from graph import STATE_ROLES

REFUSED_STATE = "the checkpoint is not written"  # where an element is not finite
SECONDS = 60  # of the processor's time to compile, and ten times that to run


# Builds with sanitizers end with a signal where they find something, not with a status of their own. LLVM's
# libraries are built without, and leave memory of its allocators poisoned that they hand out.
os.environ.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0:abort_on_error=1:detect_leaks=0")
os.environ.setdefault("UBSAN_OPTIONS", "abort_on_error=1:print_stacktrace=1")


def start_compiler(folder):
    return Server(os.path.join(folder, "mpcomm-compile-server"))


class Server:
    """mpcomm-compile-server, as a child."""

    HANGS = ["signal %d" % signal.SIGXCPU, "signal %d" % signal.SIGALRM]

    def __init__(self, path):
        self.child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, mode, source, output, options, level=0, seconds=SECONDS):
        """(how it ended, its messages): "exit 0", "exit 1", "signal 11"; those in HANGS took too long."""
        self.child.stdin.write("%s\t%d\t%d\t%s\t%s\t%s\n" % (mode, level, seconds, source, output, options))
        self.child.stdin.flush()
        answer = self.child.stdout.readline().strip()
        if not answer:
            raise RuntimeError("the compile server ended")
        with open(output + ".err", errors="replace") as file:
            return answer, file.read()

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class Setting:
    """Options of the compiler and of a run."""

    def __init__(self, ranks=1, stages=1, micro_batches=1, precision="none", others="", level=0, steps=2):
        self.ranks, self.stages, self.micro_batches = ranks, stages, micro_batches
        self.schedule, self.chunks = "", 1
        self.precision, self.others, self.level, self.steps = precision, others, level, steps

    def text(self):
        mesh = "dp:%d" % self.ranks if self.stages == 1 else "pp:%d,dp:%d" % (self.stages, self.ranks)
        words = ["mesh=" + mesh]
        if self.micro_batches > 1:
            words.append("micro-batches=%d" % self.micro_batches)
        if self.precision != "none":
            words.append("precision=" + self.precision)
        return " ".join(words + [w for w in (self.others, self.schedule) if w])

    def suit(self, graph):
        """Which state other than buffers and what varies moves once a micro-batch is not documented, and
        only buffers of floats have a mean over ranks."""
        state = [a for a in graph.arguments if a.role in STATE_ROLES]
        updates = sum(op.name in ("mpcomm.sgd_update", "mpcomm.adamw_update", "mpcomm.update") for op in graph.ops)
        if updates < 2 * self.stages * self.chunks:
            self.stages = 1  # a stage without parameters is refused
        if self.stages == 1:
            self.schedule = ""
        if graph.kind in ("state", "ops"):
            if any(a.role != "buffer" or not a.donated for a in state):
                self.micro_batches = self.ranks = 1
            if any(a.value.dtype not in FLOATS for a in state):
                self.ranks = 1

    def semantics(self):
        return interpreter.Options(self.ranks, self.micro_batches, self.precision, self.stages,
                                   "average=before" in self.others.split())  # fmt: skip


BUCKETS = ("", "", "", "buckets=one", "buckets=ddp max-bucket-bytes=64", "buckets=none overlap=false", "overlap=false",
           "numerics=exact", "average=before", "buckets=megatron", "buckets=horovod", "buckets=xla", "buckets=mg-wfbp")  # fmt: skip


# And stages on each rank.
SCHEDULES = (("", 1), ("schedule=gpipe", 1), ("schedule=1f1b", 1), ("schedule=zb-h1", 1), ("schedule=auto", 1),
             ("schedule=interleaved", 2), ("schedule=zb-v", 2), ("recompute=selective", 1), ("recompute=stage", 1))  # fmt: skip


def choose_setting(seed, kind):
    r = random.Random("setting %d" % seed)
    # -O2 is what users get, and takes longest.
    s = Setting(level=r.choice((0, 0, 0, 0, 1, 2)), steps=r.choice((1, 2, 2, 3)))
    if kind in ("train", "network"):
        s.ranks, s.stages = r.choice(((1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (1, 2), (1, 2), (1, 3), (2, 2)))
        if kind == "train":  # has no backward pass that stages could share
            s.stages = 1
        s.micro_batches = r.choice((1, 1, 2, 3)) if s.stages == 1 else max(s.stages, r.choice((2, 2, 3, 4)))
        s.precision = r.choice(("none",) * 5 + ("bf16", "f16", "fp8"))
        if s.precision == "f16":
            s.others = "loss-scale=none"
        if s.precision == "fp8":
            s.steps = 1
        if s.ranks > 1:
            s.others = (s.others + " " + r.choice(BUCKETS)).strip()
        if s.stages > 1:
            s.schedule, s.chunks = r.choice(SCHEDULES)
    elif kind == "state":
        s.micro_batches = r.choice((1,) * 7 + (2, 2, 3))
        s.ranks = r.choice((1,) * 9 + (2,))
    else:
        s.ranks, s.micro_batches = r.choice(((1, 1),) * 6 + ((2, 1), (1, 2), (2, 2)))
        s.precision = r.choice(("none",) * 8 + ("bf16", "f16"))
        if s.precision == "f16":
            s.others = "loss-scale=none"
        if r.random() < 0.1:
            s.others = (s.others + " numerics=exact").strip()
    return s


class Trial:
    def __init__(self, server, runner, folder, prefix="t"):
        self.server, self.runner = server, runner
        self.base = os.path.join(folder, prefix)

    def path(self, end):
        return self.base + end

    def clean(self):
        for end in (".so", ".ckpt", ".log"):
            if os.path.exists(self.path(end)):
                os.unlink(self.path(end))

    def __call__(self, case, setting, seed=0):
        """(outcome, details): outcome is ok, refused, crash, hang, failed, differs or unsupported."""
        self.clean()
        with open(self.path(".mlir"), "w") as file:
            file.write(str(case.graph))
        batch = [s[0] for _, s in case.samples.values()]
        count = (batch[0] if batch else 1) * setting.ranks * setting.micro_batches * setting.steps
        data = dataset(case, seed, count)
        write_tensors(self.path(".w"), case.weights)
        write_tensors(self.path(".d"), data)
        how, text = self.server.ask("program", self.path(".mlir"), self.path(".so"), setting.text(), setting.level)
        if how.startswith("signal"):
            return ("hang" if how in Server.HANGS else "crash"), how + "\n" + text
        if how != "exit 0":
            return "refused", text
        status, text = self.execute(setting)
        refuses = status == 1 and REFUSED_STATE in text
        if status != 0 and not refuses:
            return ("hang" if status is None else "failed"), "status %s\n%s" % (status, text)
        try:
            want = interpreter.run(case.graph, setting.semantics(), {n: v for n, (_, v) in case.weights.items()},
                                   {n: v for n, (_, v) in data.items()}, setting.steps)  # fmt: skip
        except interpreter.Unsupported as error:
            return "unsupported", str(error)
        if refuses and all(interpreter.is_finite(value) for value in want[1].values()):
            return "differs", text
        return self.compare(want, hasState=not refuses)

    def command(self, setting):
        return [self.runner, self.path(".so"), "--np", str(setting.ranks * setting.stages), "--weights", self.path(".w"),
                "--data", self.path(".d"), "--steps", str(setting.steps), "--no-shuffle", "--quiet", "--allow-nonfinite",
                "--log", self.path(".log"), "--checkpoint", self.path(".ckpt"), "--timeout", str(2 * SECONDS)]  # fmt: skip

    def execute(self, setting):
        try:
            done = subprocess.run(self.command(setting), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * SECONDS)
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stdout.decode(errors="replace")

    def compare(self, want, hasState):
        losses, state = want
        with open(self.path(".log")) as file:
            logged = [json.loads(line)["loss"] for line in file]
        got = {}
        if hasState:
            got = {name: values for name, (_, values) in read_tensors(self.path(".ckpt")).items()}
        lines, counts = [], np.zeros(3, np.int64)
        if len(logged) != len(losses):
            lines.append("%d steps, expected %d" % (len(logged), len(losses)))
        for i, (a, b) in enumerate(zip(logged, losses)):
            # The log has as many digits as tell numbers of f32 from each other.
            a = FLOATS[b.format].round(np.nan if a is None else float(a))
            if interpreter.differences(a, b).any() and not (np.isnan(a) and not np.isfinite(b.v)):
                lines.append("loss of step %d: got %r, expected %r +- %g" % (i, a.item(), b.v.item(), b.e.item()))
        for name, b in state.items() if hasState else ():
            if name not in got:
                lines.append("no '%s' in the checkpoint" % name)
                continue
            wrong = interpreter.differences(got[name], b)
            counts += [np.sum(b.e == 0), np.sum((b.e > 0) & np.isfinite(b.e)), np.sum(~np.isfinite(b.e))]
            if wrong.any():
                at = np.unravel_index(np.argmax(wrong), wrong.shape) if wrong.shape else ()
                lines.append("'%s': %d of %d elements differ, first at %s: got %r, expected %r +- %g\n  got %s\n  expected %s" % (
                    name, wrong.sum(), wrong.size, list(map(int, at)), got[name][at].item(), b.v[at].item(), b.e[at].item(),
                    brief(got[name]), brief(b.v)))  # fmt: skip
        if lines:
            return "differs", "\n".join(lines)
        return "ok", counts.tolist()


def brief(values):
    return np.array2string(values.reshape(-1)[:32], max_line_width=10000, separator=", ")


def kind_of_message(outcome, details):
    """Messages that differ in names and numbers are one."""
    if outcome == "differs":
        return "differs"
    lines = [line for line in details.splitlines() if "error:" in line] or details.splitlines()[:1]
    text = lines[0] if lines else ""
    text = re.sub(r"^.*?error: ", "", text)
    text = re.sub(r"(tensor|memref|vector)<[^ ]*>", "T", text)
    text = re.sub(r"(/[\w.-]+)+", "FILE", re.sub(r"[%@#][\w.]+", "V", text))
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)[:160]
