# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: gloo
#
# Over TCP the same program gives the same losses as over shared memory, whether
# the ranks are started here or by a launcher that tells them of each other as
# torchrun does; ranks that do not come, die or stop end the run in time, named.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import contextlib
import itertools
import resource
import socket

from toy import *


class Gloo(RegressionTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build("other2.so", RANKS=2, BATCH=8, COLLECTIVE_ID=9)
        cls.here = cls.common + ["--comm", "gloo"]

    def test_losses(self):
        losses, _, _ = twin(self.samples, 16, 30)
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                self.succeeds(
                    path("toy%d.so" % ranks), *self.here, "--steps", 30, "--log", path("log"),
                    "--evaluate", "--checkpoint", path("c"), "--trace", path("t.json"),
                )  # fmt: skip
                self.compare(log_of("log"), losses)
                with open(path("t.json")) as file:
                    events = json.load(file)["traceEvents"]
                self.assertEqual({e["pid"] for e in events}, set(range(ranks)))

    def test_same_bits_as_over_shared_memory(self):
        for comm in "gloo", "shm":
            self.succeeds(path("toy4.so"), *self.common, "--comm", comm, "--steps", 20,
                          "--checkpoint", path(comm))  # fmt: skip
        self.assertEqual(read_tensors("gloo")[0], read_tensors("shm")[0])

    def test_equal_replicas_are_no_news(self):
        self.succeeds(path("toy4.so"), *self.here, "--quiet", "--steps", 12,
                      "--check-replicas", 1, "--checkpoint", path("good"), "--checkpoint-every", 5)  # fmt: skip

    def launched(self, ranks, *arguments, port=None, fault=None, **changes):
        """Ranks as torchrun would start them: exit status and messages of each."""
        port = port or free_port()
        processes = []
        for rank in range(ranks):
            environment = dict(
                os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                MASTER_ADDR="localhost", MASTER_PORT=str(port), **changes,
            )  # fmt: skip
            if fault:
                environment["MPRT_FAULT"] = fault
            processes.append(subprocess.Popen(
                [RUN, *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE))  # fmt: skip
        try:
            outputs = [p.communicate(timeout=90) for p in processes]
        finally:
            for process in processes:
                process.kill()
        return [(p.returncode, o[0].decode(), o[1].decode()) for p, o in zip(processes, outputs)]

    def test_stopped_together_and_continued(self):
        # One rank waits for the other nearly always.
        build("lags.so", RANKS=2, BATCH=8, LAG=100, LAG_FILE='"%s"' % path("lag"))
        outcome = run_with_a_pause(path("lags.so"), *self.here)
        self.assertIn("stopped by signal 15", outcome.err, str(outcome))
        self.assertNotIn("timed out", outcome.err, str(outcome))

    def test_launched(self):
        losses, _, _ = twin(self.samples, 16, 10)
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                results = self.launched(ranks, path("toy%d.so" % ranks), *self.common, "--steps", 10,
                                        "--log", path("log"))  # fmt: skip
                for code, _, error in results:
                    self.assertEqual((code, error), (0, ""))
                self.assertEqual(sum("loss last" in out for _, out, _ in results), 1)
                self.compare(log_of("log"), losses)

    def test_a_port_in_use(self):
        with socket.socket() as other:
            other.bind(("0.0.0.0", 0))
            other.listen()
            port = other.getsockname()[1]
            results = self.launched(1, path("toy1.so"), *self.common, "--comm", "gloo", port=port)
            # One rank meets nobody, unless it is told to.
            alone = self.launched(1, path("toy1.so"), *self.common, port=port)
        self.assertEqual(alone[0][0], 0)
        self.assertEqual(results[0][0], 1)
        self.assertIn("rank 0 cannot listen on port %d of localhost: Address already in use" % port,
                      results[0][2])  # fmt: skip

    def start(self, rank, port, *options, **changes):
        variables = dict(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        with environment(**{**variables, **changes}):
            process = subprocess.Popen(
                [RUN, path("toy2.so"), *map(str, self.common), "--timeout", "60", "--quiet", *map(str, options)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def listening(port):
        """Addresses, in hexadecimal, on which somebody listens on `port`."""
        found = []
        for name in "/proc/net/tcp", "/proc/net/tcp6":
            with open(name) as file:
                for line in list(file)[1:]:
                    address, state = line.split()[1], line.split()[3]
                    if state == "0A" and int(address.split(":")[1], 16) == port:
                        found.append(address.split(":")[0])
        return found

    def until(self, condition):
        deadline = time.monotonic() + SLACK
        while not condition():
            self.assertLess(time.monotonic(), deadline, "that did not happen")
            time.sleep(0.01)

    def test_listens_where_it_is_told_and_only_as_long_as_needed(self):
        port, log = free_port(), path("listening.log")
        first = self.start(0, port, "--steps", 10**9, "--log", log)
        self.until(lambda: self.listening(port))
        self.assertEqual(self.listening(port), ["0100007F"])
        second = self.start(1, port, "--steps", 10**9, "--log", log)
        self.until(lambda: os.path.exists(log) and os.path.getsize(log))
        self.assertEqual(self.listening(port), [])
        self.assertEqual((first.poll(), second.poll()), (None, None))

    def test_nobody_listens_once_all_have_come(self):
        log = path("here.log")
        launcher = subprocess.Popen([RUN, path("toy2.so"), *map(str, self.here), "--quiet", "--steps",
                                     str(10**9), "--log", log])  # fmt: skip
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.terminate)
        self.until(lambda: os.path.exists(log) and os.path.getsize(log))
        with open("/proc/net/tcp") as file:
            sockets = {"socket:[%s]" % words[9] for words in map(str.split, file) if words[3] == "0A"}
        with open("/proc/%d/task/%d/children" % ((launcher.pid,) * 2)) as file:
            processes = [launcher.pid, *map(int, file.read().split())]
        self.assertEqual(len(processes), 3)
        for process in processes:
            folder = "/proc/%d/fd" % process
            held = {os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)}
            self.assertEqual(held & sockets, set())

    def test_all_ranks_here_meet_on_loopback(self):
        port = free_port()
        results = [self.start(rank, port, "--steps", 3, MASTER_ADDR="no.such.machine.invalid",
                              LOCAL_WORLD_SIZE=2) for rank in range(2)]  # fmt: skip
        for process in results:
            self.assertEqual(process.communicate(timeout=60)[1], b"")

    def test_addresses_that_cannot_be(self):
        for changes, message in (
            ({"MASTER_ADDR": "192.0.2.1"}, "cannot listen on MASTER_ADDR=192.0.2.1: Cannot assign"),
            ({"MPRT_LISTEN_ADDRESS": "192.0.2.1"}, "cannot listen on MPRT_LISTEN_ADDRESS=192.0.2.1: Cannot"),
            ({"LOCAL_WORLD_SIZE": 1}, "rank 0 cannot be reached on MASTER_ADDR=127.0.0.1 from other machines"),
        ):
            error = self.start(0, free_port(), **changes).communicate(timeout=SLACK)[1].decode()
            self.assertIn(message, error)
            self.assertEqual("; MPRT_LISTEN_ADDRESS is" in error, "MPRT_LISTEN_ADDRESS" not in changes)

    def succeed(self, *processes):
        for process in processes:
            error = process.communicate(timeout=60)[1]
            self.assertEqual((process.returncode, error), (0, b""))

    def test_rank_0_listens_elsewhere(self):
        # As where /etc/hosts of its machine has another address for MASTER_ADDR.
        port = free_port()
        self.succeed(self.start(0, port, "--steps", 3, MASTER_ADDR="127.0.0.2", MPRT_LISTEN_ADDRESS="127.0.0.3"),
                     self.start(1, port, "--steps", 3, MASTER_ADDR="127.0.0.3"))  # fmt: skip

    def test_rank_0_listens_everywhere(self):
        port = free_port()
        first = self.start(0, port, "--steps", 3, MPRT_LISTEN_ADDRESS="0.0.0.0")
        self.assertIn("MPRT_LISTEN_ADDRESS=0.0.0.0 does not say which address of rank 0 the data go to; "
                      "GLOO_SOCKET_IFNAME is", first.communicate(timeout=SLACK)[1].decode())  # fmt: skip
        more = dict(MPRT_LISTEN_ADDRESS="0.0.0.0", GLOO_SOCKET_IFNAME="lo")
        self.succeed(*[self.start(rank, port, "--steps", 3, **more) for rank in range(2)])

    def test_a_name_of_the_loopback_interface(self):
        names = []
        with open("/etc/hosts") as file:
            for address, *known in (line.split("#")[0].split() or [""] for line in file):
                names += known if address.startswith("127.") else []
        names = [n for n in names if n != "localhost" and socket.gethostbyname(n).startswith("127.")]
        if not names:
            self.skipTest("/etc/hosts has no name of the loopback interface but localhost")
        name = names[0]
        address, port = socket.gethostbyname(name), free_port()
        first = self.start(0, port, "--timeout", 1, MASTER_ADDR=name)
        error = first.communicate(timeout=SLACK)[1].decode()
        self.assertIn("mpcomm: warning: rank 0 cannot be reached on MASTER_ADDR=%s from other machines: here this "
                      "is %s, of the loopback interface; MPRT_LISTEN_ADDRESS is" % (name, address), error)  # fmt: skip
        self.assertIn("did not come within 1 s: 1; rank 0 listens on port %d of %s, %s (loopback)"
                      % (port, name, address), error)  # fmt: skip
        # Where the launcher says that all ranks are here, or the name does, there is nothing to tell.
        for changes in dict(MASTER_ADDR=name, LOCAL_WORLD_SIZE=2), dict(MASTER_ADDR="localhost"):
            port = free_port()
            self.succeed(*[self.start(rank, port, "--steps", 3, **changes) for rank in range(2)])

    def test_idle_strangers(self):
        # More than rank 0 may have descriptors, and all before rank 1 comes.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
        port, checkpoint = free_port(), path("strangers.c")
        first = self.start(0, port, "--steps", 5, "--checkpoint", checkpoint)
        self.until(lambda: self.listening(port))
        resource.prlimit(first.pid, resource.RLIMIT_NOFILE, (256, 256))
        strangers = []
        for _ in range(min(1500, limit[1] - 100)):
            strangers.append(socket.create_connection(("127.0.0.1", port), timeout=SLACK))
            self.addCleanup(strangers[-1].close)
        second = self.start(1, port, "--steps", 5, "--checkpoint", checkpoint)
        for process in second, first:
            self.assertEqual(process.communicate(timeout=60)[1], b"")
            self.assertEqual(process.returncode, 0)
        self.assertEqual(read_tensors("strangers.c")[1]["mpcomm.step"], "5")

    def test_no_descriptor_for_a_rank(self):
        port = free_port()
        first = self.start(0, port)
        def descriptors():
            """What the process has open, by number."""
            found = {}
            for number in os.listdir("/proc/%d/fd" % first.pid):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    found[int(number)] = os.readlink("/proc/%d/fd/%s" % (first.pid, number))
            return found

        # Three sockets: it listens, and its own connection has come; no file of which it reads.
        self.until(lambda: self.listening(port)
                   and sum(to.startswith("socket:") for to in descriptors().values()) == 3
                   and all(to.startswith(("socket:", "pipe:", "/dev/")) for to in descriptors().values()))  # fmt: skip
        taken = descriptors()
        free = next(number for number in itertools.count() if number not in taken)
        resource.prlimit(first.pid, resource.RLIMIT_NOFILE, (free, free))
        begin = time.monotonic()
        second = self.start(1, port)
        error = first.communicate(timeout=SLACK)[1].decode()
        self.assertIn("rank 0 cannot take another connection: Too many open files (see ulimit -n); "
                      "ranks still to come: 1", error)  # fmt: skip
        self.assertEqual(second.wait(timeout=SLACK), 1)
        self.assertLess(time.monotonic() - begin, SLACK)

    def test_ranks_that_never_come(self):
        outcome = self.fails(
            "ranks that did not come within %d s: 1" % TIMEOUT, path("toy2.so"), *self.here, "--timeout", TIMEOUT,
            fault="never-start:rank=1", lines=None,
        )  # fmt: skip
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_killed_in_a_step(self):
        for ranks, victim in (2, 0), (2, 1), (4, 2):
            with self.subTest(ranks=ranks, victim=victim):
                outcome = self.fails(
                    "rank %d was killed by signal 9 (Killed) in step 3" % victim,
                    path("toy%d.so" % ranks), *self.here, "--quiet", "--steps", 1000000,
                    "--timeout", 100, fault="kill:rank=%d,step=3" % victim, lines=None,
                )  # fmt: skip
                self.assertLess(outcome.seconds, 2 + SLACK)
                self.assertIn('"gradients" at toy.mlir:7:3', outcome.err)
                self.assertIn("rank %d died" % victim, outcome.err)

    def test_stopped_in_a_step(self):
        outcome = self.fails(
            "did not arrive: 1", path("toy2.so"), *self.here, "--quiet", "--timeout", TIMEOUT,
            "--steps", 100, fault="stop:rank=1,step=5", lines=None,
        )  # fmt: skip
        self.assertIn('"gradients" at toy.mlir:7:3', outcome.err)
        self.assertLess(outcome.seconds, TIMEOUT + 5 + SLACK)

    def test_another_program(self):
        self.fails("rank 1 runs another program file than rank 0", path("toy2.so"), *self.here,
                   fault="program:rank=1,file=" + path("other2.so"), lines=None)  # fmt: skip

    def test_one_of_rank_and_size(self):
        for given, missing in ("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK"):
            environment = {given: "1", "MASTER_ADDR": "127.0.0.1"}
            self.fails("MASTER_ADDR and %s are set, %s is not" % (given, missing), path("toy2.so"), *self.common, env=environment,
                       code=2)
        for size in "18446744073709551615", "4294967298", "4097":
            self.fails("WORLD_SIZE='%s' are no rank and number of ranks (at most 4096)" % size, path("toy2.so"), *self.common,
                       env={"RANK": "0", "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1"}, code=2)  # fmt: skip

    def test_half_an_environment(self):
        environment = dict(os.environ, RANK="0", WORLD_SIZE="2")
        done = subprocess.run([RUN, path("toy2.so"), *self.common], env=environment, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"MASTER_ADDR is not set", done.stderr)
        self.assertIn(b"--comm shm starts the ranks here", done.stderr)


if __name__ == "__main__":
    main()
