# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir signals files programs limits differing kills junk
# REQUIRES: gloo
#
# Faults by kind, many of each: every run ends in time, and unless it is unharmed with a status
# and a message that names the cause; it leaves no process and no temporary file, and after a kill
# the checkpoint is a whole one, no older than the last that was seen. Kinds are arguments; MPCOMM_CASES multiplies
# the number of cases (fault-campaign-long.test), MPCOMM_SEED chooses others. docs/Testing/Faults.md says what is promised.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import resource
import signal
import threading

from toy import *

KINDS = sys.argv[5:]
TIMES = int(os.environ.get("MPCOMM_CASES", "1"))
SEED = int(os.environ.get("MPCOMM_SEED", "1"))
HAS_OPTIONS = "ASAN_OPTIONS" in os.environ
# A signal kills a rank, as it does without a sanitizer.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0:handle_abort=0:handle_sigfpe=0"
FOREVER = 10**9  # steps
counts, problems = {}, []


def counted(kind, how, wrong):
    """Notes a case; `wrong` is empty or says what did not hold."""
    ended = counts.setdefault(kind, {})
    ended[how] = ended.get(how, 0) + 1
    if wrong:
        problems.append("%s: %s" % (kind, wrong))
        print("WRONG", problems[-1], flush=True)


def is_ours(process):
    try:
        with open("/proc/%s/cmdline" % process, "rb") as file:
            words = file.read().split(b"\0")
        with open("/proc/%s/stat" % process) as file:
            return (words[0] == RUN.encode() and any(w.startswith(WORK.encode()) for w in words)
                    and file.read().rsplit(")", 1)[1].split()[0] != "Z")  # fmt: skip
    except OSError:
        return False


def wait_for(condition, seconds=SLACK):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def default_signals():
    """Whoever started this may have left some of them ignored."""
    for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT:
        signal.signal(number, signal.SIG_DFL)


class Case:
    """One run, which may be disturbed; `check` compares how it ended."""

    def __init__(self, kind, what, *arguments, environment=None, **settings):
        self.kind, self.what = kind, what
        self.process = subprocess.Popen(
            [RUN, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=dict(os.environ, **(environment or {})), start_new_session=True,
            **{"preexec_fn": default_signals, **settings})  # fmt: skip

    def ranks(self):
        try:
            with open("/proc/%d/task/%d/children" % ((self.process.pid,) * 2)) as file:
                return [int(word) for word in file.read().split()]
        except OSError:
            return []

    def end(self, limit):
        """The exit status, and what was printed; None after `limit` seconds."""
        try:
            error = self.process.communicate(timeout=limit)[1].decode(errors="replace")
            return self.process.returncode, error
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return None, self.process.communicate()[1].decode(errors="replace")

    def check(self, message, limit=SLACK, codes=(1,), silent=False):
        """The run ends with one of `codes` and a message that matches; with 0, unharmed."""
        code, error = self.end(limit)
        wrong = None
        if code is None:
            wrong = "did not end"
        elif code not in codes:
            wrong = "ended with %d" % code
        elif code != 0 and not silent and not re.search(message, error):
            wrong = "does not say '%s'" % message
        elif re.search("terminate called|runtime error:|AddressSanitizer", error):
            wrong = "died"
        if not wait_for(lambda: not any(is_ours(p) for p in os.listdir("/proc") if p.isdigit()), 5):
            wrong = "left a process"
        counted(self.kind, "hangs" if code is None else "goes on" if code == 0 else "is told",
                wrong and "%s: %s: %s" % (self.what, wrong, error[-600:]))  # fmt: skip
        return code


class Campaign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(64).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        for ranks in 1, 2, 4:
            build("toy%d.so" % ranks, RANKS=ranks, BATCH=4)
        build("other2.so", RANKS=2, BATCH=4, COLLECTIVE_ID=9)
        cls.common = ["--weights", cls.weights, "--data", cls.data, "--quiet"]
        cls.random = random.Random(SEED)
        print("seed", SEED, "times", TIMES)

    @classmethod
    def tearDownClass(cls):
        for kind, ended in counts.items():
            print("%-12s %5d cases:" % (kind, sum(ended.values())),
                  ", ".join("%d %s" % (n, how) for how, n in sorted(ended.items())))  # fmt: skip

    def setUp(self):
        if self._testMethodName[5:] not in KINDS:
            self.skipTest("not asked for")

    def tearDown(self):
        wrong = problems[:]
        problems.clear()
        self.assertEqual(wrong, [])

    #===- signals ----------------------------------------------------------===#

    def training(self, kind, what, program, *options):
        """A run that would not end, once it trains."""
        log = path("log")
        if os.path.exists(log):
            os.unlink(log)
        case = Case(kind, what, path(program), *self.common, "--steps", FOREVER, "--log", log,
                    "--timeout", TIMEOUT, *options)  # fmt: skip
        wait_for(lambda: os.path.exists(log) and os.path.getsize(log) or case.process.poll() is not None)
        return case

    def test_signals(self):
        rank_signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP,
                        signal.SIGQUIT, signal.SIGFPE]  # fmt: skip
        for comm in ["shm", "gloo"]:
            for number in rank_signals[: 4 + 3 * (TIMES > 1)]:
                for ranks in [1, 2, 4][: 1 + 2 * (TIMES > 1)] if number != signal.SIGSTOP else [2]:
                    victim = self.random.randrange(ranks)
                    what = "%s to rank %d of %d over %s" % (number.name, victim, ranks, comm)
                    case = self.training("signals", what, "toy%d.so" % ranks, "--comm", comm)
                    children = case.ranks()
                    if victim < len(children):
                        os.kill(children[victim], number)
                    # SIGTERM asks for the end of the run, whichever rank gets it.
                    asked = number == signal.SIGTERM
                    message = ("did not arrive: %d" % victim if number == signal.SIGSTOP else "stopped by signal 15" if asked
                               else "rank %d was killed by signal %d" % (victim, number))  # fmt: skip
                    case.check(message, TIMEOUT + 5 + SLACK, codes=(143 if asked else 1,))
            for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
                for group in False, True:
                    what = "%s to the launcher (group: %s) over %s" % (number.name, group, comm)
                    case = self.training("signals", what, "toy2.so", "--comm", comm)
                    (os.killpg if group else os.kill)(case.process.pid, number)
                    case.check("by signal %d" % number, codes=(128 + number,))
            case = self.training("signals", "SIGKILL to the launcher over " + comm, "toy2.so", "--comm", comm)
            case.process.kill()
            case.check("", codes=(-9,), silent=True)
            # A launcher that is stopped and goes on has missed nothing.
            case = self.training("signals", "SIGSTOP to the launcher over " + comm, "toy2.so", "--comm", comm)
            case.process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            for rank in case.ranks()[1:]:
                os.kill(rank, signal.SIGKILL)
            case.process.send_signal(signal.SIGCONT)
            case.check("rank 1 was killed by signal 9")
        # At any moment, also before the first step.
        for i in range(10 * TIMES):
            case = Case("signals", "at any moment", path("toy2.so"), *self.common, "--steps", FOREVER)
            time.sleep(self.random.random() * 0.2)
            victim = self.random.choice([case.process.pid, *case.ranks()])
            os.kill(victim, signal.SIGTERM)
            # Before it holds signals back, one ends it as it ends any program.
            case.check("by signal 15", codes=(1, 143) + ((-15,) if victim == case.process.pid else ()),
                       silent=victim == case.process.pid)  # fmt: skip

    #===- files ------------------------------------------------------------===#

    def test_files(self):
        checkpoint = path("resume")
        self.assertEqual(run(path("toy2.so"), *self.common, "--steps", 3, "--checkpoint", checkpoint).code, 0)
        inputs = {"weights": (self.weights, ["--data", self.data, "--weights"]),
                  "data": (self.data, ["--weights", self.weights, "--data"]),
                  "resume": (checkpoint, ["--data", self.data, "--resume"])}  # fmt: skip
        for kind, (name, options) in inputs.items():
            with open(name, "rb") as file:
                whole = file.read()
            (length,) = struct.unpack("<Q", whole[:8])
            header = json.loads(whole[8 : 8 + length])
            bad = path("bad." + kind)

            def refused(what, contents, codes=(1,)):
                with open(bad, "wb") as file:
                    file.write(contents)
                Case("files", "%s, %s" % (kind, what), path("toy2.so"), *options, bad, "--quiet",
                     "--steps", 5).check(re.escape(bad), codes=codes)  # fmt: skip

            def remade(change):
                changed = json.loads(json.dumps(header))
                tensors = sorted(set(changed) - {"__metadata__"})
                change(changed, "w" if kind != "data" else tensors[0])
                text = json.dumps(changed).encode()
                return struct.pack("<Q", len(text)) + text + whole[8 + length :]

            for cut in self.random.sample(range(len(whole)), 6 * TIMES):
                refused("cut after %d" % cut, whole[:cut])
            # Of a flipped bit in a header without a checksum, what is said may still be right.
            codes = (1,) if kind == "resume" else (0, 1)
            for at in self.random.sample(range(8 + length), 6 * TIMES):
                flipped = bytearray(whole)
                flipped[at] ^= 1 << self.random.randrange(8)
                refused("bit flipped in byte %d" % at, flipped, codes=codes)
            for number in 2**63, 2**64 - 1, 10**8 + 1, len(whole), 0:
                refused("header of %d bytes" % number, struct.pack("<Q", number) + whole[8:])
            refused("a header that is huge", struct.pack("<Q", 10**7) + b"[" * 10**7)
            refused("empty", b"")
            refused("noise", self.random.randbytes(5000))
            changes = {
                "another dtype": lambda h, t: h[t].update(dtype="F64"),
                "an unknown dtype": lambda h, t: h[t].update(dtype="Q8"),
                "another shape": lambda h, t: h[t].update(shape=[1, *h[t]["shape"]]),
                "a huge shape": lambda h, t: h[t].update(shape=[2**40, 2**40]),
                "a negative shape": lambda h, t: h[t].update(shape=[-1]),
                "another name": lambda h, t: h.update(elsewhere=h.pop(t)),
                "offsets outside": lambda h, t: h[t].update(data_offsets=[2**50, 2**50 + 16]),
                "no offsets": lambda h, t: h[t].pop("data_offsets"),
            }
            for what, change in changes.items():
                refused(what, remade(change))
            for other in "/", "/dev/null", path("none"):
                Case("files", kind + " is " + other, path("toy2.so"), *options, other, "--quiet").check(
                    re.escape(other) + ": ")  # fmt: skip

    #===- programs ---------------------------------------------------------===#

    def test_programs(self):
        with open(path("toy2.so"), "rb") as file:
            whole = file.read()
        bad = path("bad.so")

        def refused(what, contents):
            with open(bad, "wb") as file:
                file.write(contents)
            Case("programs", what, bad, *self.common, "--steps", 2).check(
                re.escape(bad) + ": (not a|damaged|malformed)")  # fmt: skip

        for at in self.random.sample(range(len(whole)), 15 * TIMES):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << self.random.randrange(8)
            refused("bit flipped in byte %d" % at, flipped)
        for cut in self.random.sample(range(len(whole)), 10 * TIMES):
            refused("cut after %d" % cut, whole[:cut])
        for begin in self.random.sample(range(len(whole) - 600), 2 * TIMES):
            refused("512 zeros at %d" % begin, whole[:begin] + b"\0" * 512 + b"\1" + whole[begin + 513 :])
        refused("noise", self.random.randbytes(5000))
        refused("noise with ELF's name", b"\177ELF" + self.random.randbytes(5000))

    #===- limits -----------------------------------------------------------===#

    def test_limits(self):
        def limited(what, number, value, message, *options, comm="shm"):
            def limit():
                resource.setrlimit(number, (value, value))

            folder = path("limited")
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            case = Case("limits", "%s of %d over %s" % (what, value, comm), path("toy2.so"), *self.common,
                        "--steps", 20, "--comm", comm, "--timeout", TIMEOUT, *options, "--checkpoint",
                        os.path.join(folder, "c"), "--checkpoint-every", 5, preexec_fn=limit)  # fmt: skip
            # 127 is the loader's, whom nobody is asked before.
            case.check(message, TIMEOUT + 5 + SLACK, codes=(0, 1, 127))
            left = [name for name in os.listdir(folder) if name != "c"]
            counted("limits", "leaves nothing", left and "%s leaves %s" % (case.what, left))

        descriptors = range(3, 40) if TIMES > 1 else (3, 5, 8, 12, 20, 28)
        for comm in "shm", "gloo":
            for value in descriptors:
                limited("RLIMIT_NOFILE", resource.RLIMIT_NOFILE, value, "Too many open files|loading shared|did not start|rank 0 died",
                        comm=comm)  # fmt: skip
        for value in (0, 16, 100, 1000, 4096) if TIMES == 1 else [0, *(7 * 2**i for i in range(14))]:
            limited("RLIMIT_FSIZE", resource.RLIMIT_FSIZE, value, "File too large")
        if not HAS_OPTIONS:
            for megabytes in (10, 40, 100, 400) if TIMES == 1 else range(5, 605, 25):
                limited("RLIMIT_AS", resource.RLIMIT_AS, megabytes << 20, "[Cc]annot (allocate|map)|[Mm]emory|loading shared")

    #===- ranks that differ ------------------------------------------------===#

    def test_differing(self):
        for comm in "shm", "gloo":
            for rank in 0, 1:
                for fault, message in (
                    ("program:rank=%d,file=%s" % (rank, path("other2.so")), "another program|different"),
                    ("program:rank=%d,file=/nowhere" % rank, "/nowhere: cannot open"),
                    ("program:rank=%d,file=%s" % (rank, self.weights), "not a program file"),
                    ("never-start:rank=%d" % rank, "did not (arrive|start)|did not come|cannot reach"),
                    ("kill:rank=%d,step=1" % rank, "rank %d was killed" % rank),
                    ("stop:rank=%d,step=2" % rank, "did not arrive: %d|does not answer" % rank),
                ):
                    waits = fault.startswith(("never", "stop"))
                    Case("differing", fault + " over " + comm, path("toy2.so"), *self.common, "--comm", comm,
                         "--steps", 50, "--timeout", TIMEOUT if waits else 60, environment={"MPRT_FAULT": fault}).check(
                        message, TIMEOUT + 6 + SLACK)  # fmt: skip

    #===- junk at the rendezvous -------------------------------------------===#

    def meeting(self, rank, port, program="toy2.so", size=2, **changes):
        return Case("junk", "rank %d" % rank, path(program), *self.common, "--steps", 20, "--timeout", 20,
                    environment=dict(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                                     MASTER_PORT=str(port), **changes))  # fmt: skip

    def test_junk(self):
        header = struct.pack("<II", 56, 0)  # a join request, before its contents
        junk = {
            "nothing": b"",
            "noise": self.random.randbytes(3000),
            "a web browser": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "a long frame": struct.pack("<II", 1 << 20, 0) + b"x" * 100000,
            "too long a frame": struct.pack("<II", 2**32 - 1, 0),
            "an unknown frame": struct.pack("<II", 0, 99),
            "half a request": header + b"x" * 10,
            "a request without its word": header + b"x" * 56,
            "another frame first": struct.pack("<II", 4, 1) + b"abcd",
            "half a header": b"\1\0",
        }
        for what, contents in junk.items():
            for connections in (3, 300)[: 1 + (TIMES > 1 or what == "nothing")]:
                for stays in (True, False):
                    port = free_port()
                    first = self.meeting(0, port)
                    sockets = []
                    for _ in range(connections):
                        def connect():
                            s = socket.socket()
                            s.settimeout(5)
                            try:
                                s.connect(("127.0.0.1", port))
                                s.sendall(contents)
                                sockets.append(s)
                                return True
                            except ConnectionRefusedError:
                                return False
                            except OSError:
                                return True

                        wait_for(connect)
                        if not stays and sockets:
                            sockets.pop().close()
                    second = self.meeting(1, port)
                    for case in second, first:
                        case.what = "%s, %d times, %s: %s" % (what, connections, stays, case.what)
                        case.check("", codes=(0,))
                    for s in sockets:
                        s.close()

    #===- kills around checkpoints -----------------------------------------===#

    def test_kills(self):
        folder = path("kills")
        os.makedirs(folder)
        target = os.path.join(folder, "target")
        os.makedirs(target)
        # Through a link, which stays one.
        checkpoint = os.path.join(folder, "link")
        os.symlink("target/c", checkpoint)
        seen = -1
        for i in range(30 * TIMES):
            comm = "gloo" if i % 5 == 4 else "shm"
            start = ["--resume", checkpoint, "--data", self.data, "--quiet"] if seen >= 0 else self.common
            case = Case("kills", "kill %d" % i, path("toy2.so"), *start, "--steps", FOREVER, "--comm", comm,
                        "--checkpoint", checkpoint, "--checkpoint-every", 1)  # fmt: skip
            before = os.stat(target + "/c").st_mtime_ns if seen >= 0 else None
            wait_for(lambda: case.process.poll() is not None or os.path.exists(target + "/c")
                     and os.stat(target + "/c").st_mtime_ns != before)  # fmt: skip
            time.sleep(self.random.random() * 0.05)
            how = self.random.choice(["rank", "launcher", "group", "asked"])
            if how == "group":
                os.killpg(case.process.pid, signal.SIGKILL)
            elif how == "rank":
                for rank in self.random.sample(case.ranks(), 1):
                    os.kill(rank, signal.SIGKILL)
            else:
                case.process.send_signal(signal.SIGKILL if how == "launcher" else signal.SIGTERM)
            case.what += " of the " + how
            killed = how in ("group", "launcher")
            case.check("by signal", codes=(-9,) if killed else (1, 143), silent=killed)
            wrong = None
            try:
                tensors, metadata = read_tensors("kills/target/c")
                step = int(metadata["mpcomm.step"])
                if sorted(tensors) != ["b", "scale", "step", "w", "w.momentum"] or tensors["step"] != [step]:
                    wrong = "is not whole"
                elif step < seen:
                    wrong = "is of step %d, after one of %d" % (step, seen)
                elif not os.path.islink(checkpoint):
                    wrong = "has taken the place of the link"
                elif not killed and os.listdir(target) != ["c"]:
                    wrong = "has beside it %s" % os.listdir(target)
                elif len(set(os.listdir(target)) - {"c.mpcomm-lock"}) > 2:
                    wrong = "has beside it what earlier runs left: %s" % os.listdir(target)
                seen = step
            except (OSError, ValueError, KeyError, struct.error) as error:
                wrong = "does not load: %s" % error
            counted("kills", "checkpoint is whole", wrong and "after %s the checkpoint %s" % (case.what, wrong))
        outcome = run(path("toy2.so"), "--data", self.data, "--quiet", "--resume", checkpoint, "--steps",
                      seen + 2, "--checkpoint", checkpoint)  # fmt: skip
        self.assertEqual((outcome.code, os.listdir(target)), (0, ["c"]), str(outcome))

    #===- disks ------------------------------------------------------------===#

    def test_disks(self):
        disk = path("disk")
        os.makedirs(disk)
        outputs = {"--checkpoint": [], "--save-weights": [], "--trace": [], "--timeline": [], "--profile": [],
                   "--log": []}  # fmt: skip
        for kilobytes in (4, 8) if TIMES == 1 else (4, 8, 12, 16, 32):
            for option in outputs:
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % kilobytes, "none", disk], check=True)
                try:
                    file = os.path.join(disk, "f")
                    with open(os.path.join(disk, "fill"), "wb") as fill:
                        fill.write(b"x" * (kilobytes * 1024 - 4096))
                    case = Case("disks", "%s to a disk of %d KB" % (option, kilobytes), path("toy2.so"),
                                *self.common, "--steps", 400, option, file)  # fmt: skip
                    case.check("%s.*No space left" % re.escape(file), codes=(0, 1))
                    left = sorted(os.listdir(disk))
                    counted("disks", "leaves nothing", left not in (["fill"], ["f", "fill"]) and str(left))
                finally:
                    subprocess.run(["umount", disk], check=True)
        for option in outputs:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "none", disk], check=True)
            try:
                file = os.path.join(disk, "f")
                Case("disks", option + " to a read-only disk", path("toy2.so"), *self.common, "--steps", 5, option,
                     file).check("%s.*Read-only" % re.escape(file))  # fmt: skip
            finally:
                subprocess.run(["umount", disk], check=True)
        # That becomes so while the run trains.
        for how, message in ("remount,ro", "Read-only|busy"), ("filled", "No space left"):
            for i in range(2 * TIMES):
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
                try:
                    file = os.path.join(disk, "c")
                    case = Case("disks", how, path("toy2.so"), *self.common, "--steps", FOREVER,
                                "--checkpoint", file, "--checkpoint-every", 1)  # fmt: skip
                    wait_for(lambda: os.path.exists(file))
                    time.sleep(self.random.random() * 0.05)
                    if how == "filled":
                        with open(os.path.join(disk, "fill"), "wb", buffering=0) as fill:
                            # What a checkpoint gives back is taken as well.
                            deadline = time.monotonic() + SLACK
                            while case.process.poll() is None and time.monotonic() < deadline:
                                try:
                                    fill.write(b"x" * 4096)
                                except OSError:
                                    pass
                    else:
                        wait_for(lambda: subprocess.run(["mount", "-o", how, disk], stderr=subprocess.DEVNULL)
                                 .returncode == 0 or case.process.poll() is not None)  # fmt: skip
                    case.check("%s.*(%s)" % (re.escape(file), message))
                    step = int(read_tensors("disk/c")[1]["mpcomm.step"])
                    counted("disks", "checkpoint is whole", None if step > 0 else "no step")
                finally:
                    subprocess.run(["umount", disk], check=True)


if __name__ == "__main__":
    del sys.argv[5:]
    main()
