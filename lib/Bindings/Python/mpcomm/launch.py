# ===- launch.py - ranks as processes of this machine ---------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""`launch`: runs a function as N ranks, each a process, without torchrun or mpirun.

A process of its own makes the shared memory and forks the ranks, and watches them: if one
fails, the others are given a moment to notice and are then ended; none outlives the
caller.
"""

import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from . import library
from .errors import Error

#: Seconds that ranks have to stop by themselves once one of them has failed.
GRACE = 2.0
PR_SET_PDEATHSIG = 1


def launch(function: Callable, np: int = 2, args: Sequence[Any] = (),
           kwargs: Optional[Mapping[str, Any]] = None) -> List[Any]:
    """Runs `function(*args, **kwargs)` in `np` new processes, which are the ranks of a
    world over shared memory, and returns what each returned.

    As with torch.multiprocessing.spawn, `function` and what it takes and returns are
    pickled: the function is defined at the top of a module, and a script calls `launch`
    under `if __name__ == "__main__":`. In each process RANK, WORLD_SIZE, LOCAL_RANK,
    MASTER_ADDR and MASTER_PORT are set as torchrun sets them.

        def train(program):
            with mpcomm.Session(program) as session:
                ...

        if __name__ == "__main__":
            mpcomm.launch(train, np=2, args=(program,))

    Raises Error with the traceback of the first rank that failed."""
    if not isinstance(np, int) or np < 1:
        raise Error(f"expected at least one rank, found np={np}")
    try:
        pickle.dumps(function)
    except Exception as error:
        raise Error("expected a function at the top of a module, which other processes can "
                    f"import: {error}") from None
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    starter = context.Process(target=start_ranks, name="mpcomm.launch",
                              args=(theirs, os.getpid(), np, function, args, kwargs or {}))
    with environment(variables(np)):  # a new interpreter reads it as it starts
        starter.start()
    theirs.close()
    try:
        error, results = ours.recv()
    except EOFError:
        starter.join()
        error, results = Error(f"the process that starts the ranks {ending(starter)}",
                               code="internal"), []
    finally:
        end([starter])
    if error is not None:
        raise error
    return [pickle.loads(r) for r in results]


def start_ranks(pipe, parent: int, np: int, function, args, kwargs) -> None:
    """The life of the process that makes the world and forks the ranks. It is a new
    interpreter without threads, which a fork would not survive."""
    follow(parent)
    ranks: List[Rank] = []
    try:
        world = library.Ranks(np) if np > 1 else None
        ranks += [Rank(world, index, function, args, kwargs) for index in range(np)]
        pipe.send((None, watch(ranks, world)))
    except Exception as error:
        pipe.send((error if isinstance(error, Error) else Error(traceback.format_exc()), []))
    finally:
        end([r.process for r in ranks])


class Rank:
    """A process that is a rank, as the one that has forked it sees it."""

    def __init__(self, world: Optional[library.Ranks], index: int, function, args, kwargs):
        self.index, self.result, self.error = index, None, None
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=run, name=f"rank {index}",
            args=(theirs, os.getpid(), world, index, function, args, kwargs))
        self.process.start()
        theirs.close()

    def receive(self) -> None:
        """Takes what the process sends before it ends."""
        try:
            self.error, self.result = self.pipe.recv()
        except EOFError:
            self.process.join()
            self.error = f"rank {self.index} {ending(self.process)}"
        self.pipe.close()


def ending(process) -> str:
    code = process.exitcode or 0
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    return f"ended {how} before it returned"


def watch(ranks: List[Rank], world: Optional[library.Ranks]) -> List[bytes]:
    """Waits until all have returned or one has failed; what they returned, pickled."""
    waiting = {r.pipe: r for r in ranks}
    first, deadline = None, None
    while waiting:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = multiprocessing.connection.wait(list(waiting), left)
        if not ready:
            break
        for pipe in ready:
            rank = waiting.pop(pipe)
            rank.receive()
            if rank.error is not None:
                if world is not None:
                    world.mark_dead(rank.index, str(rank.error).strip().splitlines()[-1])
                if first is None:
                    first, deadline = rank, time.monotonic() + GRACE
    if first is not None:
        raise Error(f"rank {first.index} failed:\n{first.error}", code="peer_failed",
                    rank=first.index)
    return [r.result for r in ranks]


def end(processes) -> None:
    for stop in ("terminate", "kill"):
        deadline = time.monotonic() + GRACE
        for process in processes:
            process.join(0.1)
            if process.is_alive():
                getattr(process, stop)()
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))


def follow(parent: int) -> None:
    """Ends this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def run(pipe, parent: int, world, index: int, function, args, kwargs) -> None:
    """The life of a rank."""
    follow(parent)
    os.environ.update(RANK=str(index), LOCAL_RANK=str(index))
    library.inherited = world and (world, index)
    try:
        # As bytes: multiprocessing would share the memory of tensors, which ends with this
        # process.
        pipe.send((None, pickle.dumps(function(*args, **kwargs))))
    except KeyboardInterrupt:
        sys.exit(130)
    except BaseException:  # SystemExit too: the parent reports it
        pipe.send((traceback.format_exc(), None))
        sys.exit(1)


@contextlib.contextmanager
def environment(variables: Dict[str, str]) -> Iterator[None]:
    """Variables of this process for as long as children start."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def variables(np: int) -> Dict[str, str]:
    """What torchrun tells ranks, without their own numbers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result = {"WORLD_SIZE": str(np), "LOCAL_WORLD_SIZE": str(np), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(port)}
    if np > 1 and "OMP_NUM_THREADS" not in os.environ:
        result["OMP_NUM_THREADS"] = "1"
    return result
