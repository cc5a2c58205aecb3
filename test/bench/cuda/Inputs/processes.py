# ===- processes.py - programs that a measurement runs ----------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Everything that touches the GPU is a process of its own, with a limit: what hangs is killed,
with all that it has started."""

import glob
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

from schedule import Late

HERE = os.path.dirname(os.path.abspath(__file__))


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def execute(command, limit, environment, fails=False):
    """Its status and what it printed; an error if it fails, unless that `fails` is looked at."""
    command = list(map(str, command))
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
    try:
        text, _ = process.communicate(timeout=limit)
    except BaseException as error:
        kill(process)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        try:
            text, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:  # something in a session of its own still holds the pipe
            text = ""
        raise Late("%s took longer than %.0f s: %s" % (os.path.basename(command[0]), limit, text[-1000:]))
    if process.returncode and not fails:
        raise RuntimeError("%s: status %d\n%s" % (" ".join(command)[:400], process.returncode, text[-2500:]))
    return process.returncode, text


def result_of(text):
    found = [line for line in text.splitlines() if line.startswith("RESULT ")]
    if not found:
        raise RuntimeError("no answer: " + text[-2000:])
    answer = json.loads(found[-1][len("RESULT ") :])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


class Worker:
    """A process that answers jobs one after the other, so that PyTorch starts once."""

    def __init__(self, command, environment):
        self.command, self.environment, self.process = command, environment, None

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
        self.lines = queue.Queue()

        def read(stream, lines):
            for line in stream:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, args=(self.process.stdout, self.lines), daemon=True).start()

    def ask(self, job, limit):
        end, seen = time.monotonic() + limit, []
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            while True:
                left = end - time.monotonic()
                if left <= 0:
                    raise queue.Empty
                line = self.lines.get(timeout=left)
                if line is None:
                    raise RuntimeError("the worker ended: " + "".join(seen)[-2000:])
                if line.startswith("RESULT "):
                    return result_of(line)
                seen.append(line)
        except queue.Empty:
            self.end()
            raise Late("%s took longer than %.0f s: %s" % (job["job"], limit, "".join(seen)[-1000:]))
        except BaseException:
            self.end()
            raise

    def end(self):
        if self.process:
            kill(self.process)
            self.process = None


def find_libraries():
    """Where Python's packages have NVIDIA's libraries, unless the loader finds them."""
    found = {}
    for variable, name in [("CUBLASLT", "libcublasLt.so.*"), ("CUDNN", "libcudnn.so.*"), ("NCCL", "libnccl.so.*")]:
        if "MPRT_%s_LIBRARY" % variable in os.environ:
            continue
        for folder in sys.path:
            paths = sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", name)))
            if paths:
                found["MPRT_%s_LIBRARY" % variable] = paths[-1]
                break
    return found


class Runner:
    """What pack.py has packed. MEASURE_SANITIZER: the command of compute-sanitizer."""

    def __init__(self, folder, out):
        self.folder, self.work = folder, os.environ.get("MEASURE_WORK", "/tmp/mpcomm-measure")
        os.makedirs(self.work, exist_ok=True)
        with open(os.path.join(folder, "programs.json")) as file:
            packed = json.load(file)
        self.programs, self.left_out = packed["programs"], packed["left out"]
        self.tool = os.path.join(folder, "mpcomm-run")
        self.sanitizer = os.environ.get("MEASURE_SANITIZER", "compute-sanitizer")
        self.environment = dict(os.environ, LD_LIBRARY_PATH=folder + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
        self.environment.update(find_libraries())
        self.locks, self.lock = {}, threading.Lock()

    def has(self, name):
        return name in self.programs and os.path.exists(os.path.join(self.folder, name + ".so"))

    def peer_command(self):
        return [sys.executable, os.path.join(HERE, "peer_jobs.py")]

    def peer_environment(self):
        # JAX would take all memory; compilers share the cores and a cache, and processes that torch.compile starts find
        # the modules of models.
        modules = [HERE, os.path.join(HERE, *[".."] * 4, "docs", "examples"), os.environ.get("PYTHONPATH", "")]
        return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TORCHINDUCTOR_COMPILE_THREADS": "4",
                "TORCHINDUCTOR_CACHE_DIR": os.path.join(self.work, "inductor"), **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, modules))}  # fmt: skip

    def peer(self, job, limit):
        """A job in a process of its own."""
        _, text = execute(self.peer_command() + [json.dumps(job)], limit, self.peer_environment(), fails=True)
        return result_of(text)

    def stem(self, name, steps, ranks=1):
        """Of the files of inputs, and the file of constants that the program has beside them."""
        model, batch, _ = self.programs[name]
        stem = os.path.join(self.work, "%s-%d-%d" % (model, batch * ranks, steps))
        made = os.path.join(self.folder, name + ".constants")
        return stem + ("-" + name if os.path.exists(made) else ""), made

    def inputs(self, name, steps, ranks=1, limit=120):
        """Files of weights and data, of `steps` batches, which are made where they are missing."""
        model, batch, _ = self.programs[name]
        stem, made = self.stem(name, steps, ranks)
        with self.lock:
            lock = self.locks.setdefault(stem, threading.Lock())
        with lock:
            if not os.path.exists(stem + ".d"):
                self.peer({"job": "inputs", "model": model, "batch": batch * ranks, "steps": steps, "stem": stem,
                           "constants": made if os.path.exists(made) else ""}, limit)  # fmt: skip
        return stem + ".w", stem + ".d"

    def has_inputs(self, name, steps):
        return os.path.exists(self.stem(name, steps)[0] + ".d")

    def has_compiled(self):
        """Whether there is what torch.compile leaves for later processes."""
        folder = self.peer_environment()["TORCHINDUCTOR_CACHE_DIR"]
        return os.path.isdir(folder) and bool(os.listdir(folder))

    def prepare(self, name, steps, limit):
        return {"files": self.inputs(name, steps, limit=limit)}

    def run(self, name, steps, *options, ranks=1, batches=4, environment={}, limit=240, fails=False):
        """The log's lines, or the status if it `fails`, and what the run printed."""
        begin = time.monotonic()
        weights, data = self.inputs(name, batches, ranks, limit)
        limit = max(1, limit - (time.monotonic() - begin))
        log = os.path.join(self.work, "%s-%d.jsonl" % (name, threading.get_ident()))
        if os.path.exists(log):
            os.remove(log)
        command = [self.tool, os.path.join(self.folder, name + ".so"), "--device", "cuda", "--np", ranks, "--weights", weights,
                   "--data", data, "--steps", steps, "--no-shuffle", "--log", log, *options]  # fmt: skip
        code, text = execute(command, limit, dict(self.environment, **environment), fails)
        if fails:
            return code, text
        with open(log) as lines:
            return [json.loads(line) for line in lines], text
