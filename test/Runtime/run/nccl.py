# RUN: env MPRT_CUDA_LIBRARY=%mpcomm_obj_root/test/lib/FakeCuda/libcuda.so.1 \
# RUN:   MPRT_NCCL_LIBRARY=%mpcomm_obj_root/test/lib/FakeNccl/FakeNccl/libnccl.so.2 \
# RUN:   MPFAKE_OLD_NCCL=%mpcomm_obj_root/test/lib/FakeNccl/FakeNcclOld/libnccl.so.2 \
# RUN:   %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# --comm nccl on the fake CUDA driver and the fake NCCL: ranks with a device each
# train as the twin does, also with steps as graphs; what is missing, fails, hangs
# or dies ends all ranks with a message that says so.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *

os.environ["MPFAKE_DEVICES"] = "4"


class Nccl(CudaTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.common += ["--comm", "nccl"]

    def calls(self, *arguments, **settings):
        """What each rank called of NCCL: (rank, name) -> times."""
        with environment(MPFAKE_NCCL_LOG=path("calls")):
            run(*arguments, **settings)
        with open(path("calls")) as file:
            counts = collections.Counter(tuple(line.split()) for line in file)
        os.remove(path("calls"))
        return counts

    def test_ranks_agree_with_the_twin(self):
        losses, w, b = twin(self.samples, 16, 30, seed=5)
        for ranks in 1, 2, 4:
            for seed in 1, 2, 3:
                for graph in 0, 1:
                    with self.subTest(ranks=ranks, seed=seed, graph=graph):
                        with environment(MPFAKE_SEED=seed, MPRT_GRAPH=graph):
                            log, outcome = self.train("toy%d.so" % ranks, "--steps", 30, "--seed", 5,
                                                      "--save-weights", path("out"))  # fmt: skip
                        self.compare(log, losses)
                        self.compare_weights("out", w, b)
                        self.assertNotIn("through the host", outcome.out)
                        check = self.assertIn if graph else self.assertNotIn
                        check("1 graph of", outcome.out)

    def run_two(self, *options, **variables):
        """Two ranks as torchrun starts them, the second with these variables: (status, out, err) of each."""
        port = free_port()
        ranks = []
        for rank in 0, 1:
            torchrun = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            with environment(**torchrun, **(variables if rank == 1 else {})):
                ranks.append(subprocess.Popen(
                    [RUN, path("toy2.so"), *self.common, "--steps", "10", "--log", path("log"), *options],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))  # fmt: skip
        outcomes = [process.communicate(timeout=60) for process in ranks]
        return [(process.returncode, *outcome) for process, outcome in zip(ranks, outcomes)]

    def test_other_ways_to_meet(self):
        losses, _, _ = twin(self.samples, 16, 10)
        for status, out, err in self.run_two():
            self.assertEqual((status, err), (0, ""), out)
        self.compare(log_of("log"), losses)
        for status, _, err in self.run_two(MPFAKE_NCCL_VERSION=22005):
            self.assertEqual(status, 1)
            self.assertIn("rank 0 has NCCL 2.28.9, rank 1 has NCCL 2.20.5, expected the same", err)

    def test_ranks_that_want_another_backend(self):
        port, ranks = free_port(), []
        for rank, comm in enumerate(("nccl", "gloo")):
            torchrun = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            with environment(**torchrun):
                ranks.append(subprocess.Popen(
                    [RUN, path("toy2.so"), *self.common, "--comm", comm, "--timeout", "60"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))  # fmt: skip
        outcomes = [process.communicate(timeout=50) for process in ranks]
        self.assertEqual([process.returncode for process in ranks], [1, 1])
        self.assertIn("rank 1 has no --comm nccl where rank 0 has --comm nccl; start all", outcomes[0][1])

    def test_ranks_with_another_choice_of_attention(self):
        for value, message in [
            ("kernels", "rank 1 has MPRT_ATTENTION=kernels where rank 0 has MPRT_ATTENTION=auto; set it in the environment"),
            ("flash", "MPRT_ATTENTION is 'flash', expected auto, cudnn or kernels"),
        ]:
            with self.subTest(value=value):
                outcomes = self.run_two("--timeout", "20", MPRT_ATTENTION=value)
                self.assertEqual([status for status, _, _ in outcomes], [1, 1], str(outcomes))
                self.assertIn(message, "".join(err for _, _, err in outcomes))
        # The default by its name is no other choice.
        for status, out, err in self.run_two(MPRT_ATTENTION="auto"):
            self.assertEqual((status, err), (0, ""), out)

    def test_graphs_of_all_or_none(self):
        """Where one rank does without graphs, all do: NCCL wants a collective in a graph on all
        ranks or on none. A rank may not want them, or fail to make one that it has captured."""
        losses, _, _ = twin(self.samples, 16, 10)
        for variables, collectives, reason in [
            ({"MPRT_GRAPH": 0}, 10, "rank 1: its steps are to run call by call"),
            ({"MPFAKE_FAIL": "cuGraphInstantiateWithFlags:1:801"}, 11, "rank 1: cuGraphInstantiateWithFlags: CUDA_ERROR_NOT"),
        ]:
            with self.subTest(reason=reason):
                with environment(MPFAKE_NCCL_LOG=path("calls")):
                    (status, out, err), other = self.run_two("--timeout", "20", **variables)
                self.assertEqual((status, err, other[0], other[2]), (0, "", 0, ""), out)
                self.assertIn("not as a graph: " + reason, out)
                self.compare(log_of("log"), losses)
                with open(path("calls")) as file:
                    counts = collections.Counter(tuple(line.split()) for line in file)
                os.remove(path("calls"))
                for rank in "0", "1":
                    self.assertEqual(counts[rank, "ncclAllReduce"], collectives)

    def test_each_rank_writes_its_graph(self):
        with environment(MPRT_GRAPH_DOT=path("g")):
            self.succeeds(path("toy2.so"), *self.common, "--steps", 5)
        self.assertEqual(sorted(name for name in os.listdir(WORK) if name.endswith(".dot")), ["g.rank0.0.dot", "g.rank1.0.dot"])

    def test_calls(self):
        """One communicator for a group of all ranks; memory of NCCL's, known to it; once
        the step is a graph NCCL is no longer called."""
        run_it = [path("toy2.so"), *self.common, "--steps", 10]
        calls = self.calls(*run_it)
        for rank in "0", "1":
            self.assertEqual(calls[rank, "ncclCommInitRankConfig"], 1)
            self.assertEqual(calls[rank, "ncclCommSplit"], 0)
            self.assertEqual(calls[rank, "ncclCommRegister"], 1)
            self.assertEqual(calls[rank, "ncclCommDeregister"], 1)
            # Two steps call by call, and one that is captured.
            self.assertEqual(calls[rank, "ncclAllReduce"], 3)
            self.assertEqual(calls[rank, "ncclCommFinalize"], 1)
            self.assertEqual(calls[rank, "ncclCommDestroy"], 1)
            self.assertEqual(calls[rank, "ncclCommAbort"], 0)
        self.assertEqual(calls["-1", "ncclMemAlloc"], 2)
        self.assertEqual(calls["-1", "ncclMemFree"], 2)
        with environment(MPRT_NCCL_REGISTER=0):
            calls = self.calls(*run_it)
        self.assertEqual(calls["0", "ncclCommRegister"] + calls["-1", "ncclMemAlloc"], 0)
        self.assertEqual(calls["0", "ncclAllReduce"], 3)

    def test_launch_order(self):
        """NCCL is to keep to the order of the calls where ranks have the same one, which they
        need not have where stages run functions of their own; not against the user's will."""
        build_cuda("staged.so", RANKS=2, BATCH=8, STAGED=1)
        order = "NCCL_LAUNCH_ORDER_IMPLICIT"
        for program, wanted, found in ("toy2.so", None, "1"), ("staged.so", None, ""), ("toy2.so", "0", "0"):
            with self.subTest(program=program, wanted=wanted):
                with environment(**({order: wanted} if wanted else {})):
                    calls = self.calls(path(program), *self.common, "--steps", 2)
                for rank in "0", "1":
                    self.assertEqual(calls[rank, order + "=" + found], 1)
                    self.assertEqual(calls[rank, "ncclAllReduce"], 2)

    def test_older_nccl(self):
        losses, _, _ = twin(self.samples, 16, 10)
        with environment(MPRT_NCCL_LIBRARY=os.environ["MPFAKE_OLD_NCCL"]):
            for ranks in 1, 4:
                log, _ = self.train("toy%d.so" % ranks, "--steps", 10)
                self.compare(log, losses)
        with environment(MPFAKE_NCCL_VERSION=21705):
            self.fails("--comm nccl: NCCL 2.17.5 is too old", path("toy1.so"), *self.common)
            self.fails("expected 2.18 or newer", path("toy1.so"), *self.common)

    def test_no_nccl(self):
        with environment(MPRT_NCCL_LIBRARY="/nowhere/libnccl.so.2"):
            for ranks in 1, 4:
                outcome = self.fails("--comm nccl: no NCCL (/nowhere/libnccl.so.2: cannot open",
                                     path("toy%d.so" % ranks), *self.common, lines=0)  # fmt: skip
                self.assertEqual(outcome.err.count("\n"), ranks)
                self.assertIn("), as MPRT_NCCL_LIBRARY names it", outcome.err)

    def test_needs_a_device(self):
        self.fails("host.so: compiled for device 'host', and --comm nccl moves memory of GPUs", path("host.so"),
                   *self.common)  # fmt: skip
        self.fails("--comm nccl moves memory of GPUs: --calibrate needs --device cuda for it", "--calibrate", path("c.json"), "--np",
                   2, "--comm", "nccl", code=2)  # fmt: skip
        with environment(MPFAKE_DEVICES=1):
            outcome = self.fails("cannot connect rank", path("toy2.so"), *self.common, lines=0)
            self.assertIn("Duplicate GPU detected", outcome.err)

    def test_a_call_fails(self):
        for call, message in [
            ("ncclGetUniqueId:1:3", "--comm nccl: ncclGetUniqueId: NCCL says: internal error"),
            ("ncclCommInitRankConfig:1:2", "NCCL says: unhandled system error; ncclCommInitRankConfig was told"),
            ("ncclAllReduce:1:5", 'all_reduce "gradients" at toy.mlir:7:3 on rank 1: NCCL says: invalid usage'),
            ("ncclAllReduce:2:5", 'all_reduce "gradients" at toy.mlir:7:3 on rank 1: NCCL says: invalid usage'),
        ]:
            # It is not yet known which rank this is when the id is made.
            rank = -1 if call.startswith("ncclGetUniqueId") else 1
            with self.subTest(call=call), environment(MPFAKE_NCCL_FAIL=call, MPFAKE_NCCL_RANK=rank):
                run_it = [path("toy2.so"), *self.common, "--steps", 10, "--timeout", 20]
                with environment(MPRT_GRAPH=0):
                    outcome = self.fails(message, *run_it, lines=0)
                self.assertLess(outcome.seconds, 20)
        # In a capture, which is the third step: the communicator is of no use from there on.
        with environment(MPFAKE_NCCL_FAIL="ncclAllReduce:3:5", MPFAKE_NCCL_RANK=1):
            outcome = self.fails('all_reduce "gradients" at toy.mlir:7:3 on rank 1: NCCL says: invalid usage', *run_it, lines=0)
            self.assertLess(outcome.seconds, 20)

    def test_a_collective_ends_in_an_error(self):
        for graph in 0, 1:
            with self.subTest(graph=graph):
                with environment(MPFAKE_NCCL_ASYNC="5:6", MPFAKE_NCCL_RANK=1, MPRT_GRAPH=graph):
                    outcome = self.fails("NCCL says: remote process exited or there was a network error", path("toy2.so"),
                                         *self.common, "--steps", 10, "--timeout", 20, lines=0)  # fmt: skip
                self.assertIn('all_reduce "gradients" at toy.mlir:7:3 on rank 1', outcome.err)
                self.assertLess(outcome.seconds, 20)

    def test_a_collective_hangs(self):
        for graph in 0, 1:
            with self.subTest(graph=graph), environment(MPFAKE_NCCL_HANG=5, MPFAKE_NCCL_RANK=1, MPRT_GRAPH=graph):
                run_it = [path("toy4.so"), *self.common, "--steps", 10, "--timeout", 3]
                outcome = self.fails("timed out: ", *run_it, lines=0)
                self.assertIn('all_reduce "gradients" at toy.mlir:7:3 on rank ', outcome.err)
                self.assertRegex(outcome.err, "waits for some of ranks .*, NCCL does not tell for which")
                self.assertNotIn("did not end its communicators", outcome.err)
                self.assertLess(outcome.seconds, 3 + SLACK)
                calls = self.calls(*run_it)
                # Whoever noticed first has aborted, and told the others.
                self.assertGreater(sum(n for (_, name), n in calls.items() if name == "ncclCommAbort"), 0)

    def test_an_abort_hangs(self):
        with environment(MPFAKE_NCCL_HANG=5, MPFAKE_NCCL_STUCK=1):
            outcome = self.fails("NCCL did not end its communicators (ncclCommAbort) within 3 s", path("toy2.so"), *self.common,
                                 "--comm", "nccl", "--steps", 10, "--timeout", 3, lines=0)  # fmt: skip
        self.assertIn('all_reduce "gradients" at toy.mlir:7:3 on rank ', outcome.err)
        self.assertLess(outcome.seconds, 3 + 3 + SLACK)

    def test_a_rank_dies(self):
        for fault in "kill:rank=1,step=3", "kill:rank=2,step=1":
            with self.subTest(fault=fault):
                outcome = self.fails("rank " + fault.split("rank=")[1][0], path("toy4.so"), *self.common,
                                     "--steps", 50, "--timeout", 20, fault=fault, lines=0)  # fmt: skip
                self.assertLess(outcome.seconds, 20)


if __name__ == "__main__":
    main()
