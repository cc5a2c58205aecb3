# RUN: env MPRT_CUDA_LIBRARY=%mpcomm_obj_root/test/lib/FakeCuda/libcuda.so.1 \
# RUN:   %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A program for a GPU on the fake CUDA driver: it trains as its twin does, on 1, 2
# and 4 ranks that share a device, call by call and as a graph; state comes back
# for checkpoints and evaluation; what fails is told in one line.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class Cuda(CudaTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.few = Samples(16).write("few.safetensors")
        build_cuda("alone.so", BATCH=16, NO_COMM=1)
        build_cuda("loose.so", BATCH=16, NO_COMM=1, LOOSE_STATE=1)

    def test_ranks_agree_with_the_twin(self):
        losses, w, b = twin(self.samples, 16, 30, seed=5)
        for ranks in 1, 2, 4:
            for seed in 1, 2, 3:
                for progress in "poll", "thread":
                    with self.subTest(ranks=ranks, seed=seed, progress=progress):
                        with environment(MPFAKE_SEED=seed, MPRT_PROGRESS=progress):
                            log, outcome = self.train("toy%d.so" % ranks, "--steps", 30, "--seed", 5,
                                                      "--save-weights", path("out"))  # fmt: skip
                        self.compare(log, losses)
                        self.compare_weights("out", w, b)
                        self.assertIn("its collectives go through the host", outcome.out)
                        self.assertRegex(outcome.out, r"launches per step +10 calls\n")

    def test_graph(self):
        losses, _, _ = twin(self.samples, 16, 40)
        for program in "alone.so", "loose.so":
            for seed in 1, 2, 3, 4:
                with self.subTest(program=program, seed=seed), environment(MPFAKE_SEED=seed):
                    log, outcome = self.train(program, "--steps", 40)
                    self.compare(log, losses)
                    # Zero, which is a kernel, backward, copy, update; the bucket is not traded.
                    self.assertRegex(outcome.out, r"launches per step +1 graph of 4 nodes, 4 calls before")
                    self.assertRegex(outcome.out, r" of its nodes +3 kernels, 1 copies, 0 fills\n")
                    self.assertRegex(outcome.out, r"host time per step +[\d.]+ us as a graph, [\d.]+ us call")
                    parts = re.search(r" of a replay +launch ([\d.]+) us \(first ([\d.]+) us\), inputs ([\d.]+) us, "
                                      r"wait ([\d.]+) us, rest ([\d.]+) us; device idle ([\d.]+) us\n", outcome.out)  # fmt: skip
                    launch, first, inputs, wait, _, idle = map(float, parts.groups())
                    self.assertGreater(min(launch, first, inputs, wait), 0)
                    self.assertGreater(idle, launch)
                    self.assertNotIn("note:", outcome.out)

    def test_evaluations_are_no_idle_time(self):
        # An evaluation after each step takes longer than all that the host does between two steps.
        program = build_cuda("slow-evaluation.so", BATCH=16, NO_COMM=1, EVALUATE_MS=200)
        _, outcome = self.train(program, "--steps", 8, "--evaluate-every", 1, "--eval-data", self.few)
        idle = float(re.search(r"device idle ([\d.]+) us\n", outcome.out).group(1))
        self.assertLess(idle, 200e3)

    def test_what_was_not_timed_is_no_zero(self):
        # Two steps call by call, of which the first loads; one graph, whose first replay loads it.
        _, outcome = self.train("alone.so", "--steps", 3)
        self.assertRegex(outcome.out, r"host time per step +not timed as a graph, [\d.]+ us call by call\n")
        self.assertRegex(outcome.out, r" of a replay +launch \(first [\d.]+ us\); there was no later one to time\n")
        _, outcome = self.train("alone.so", "--steps", 1)
        self.assertNotIn("host time per step", outcome.out)

    def test_graph_calls(self):
        """One graph for each set of buffers, and one launch of it a step."""
        for program, sets in ("alone.so", 1), ("loose.so", 2):
            with environment(MPFAKE_LOG=path("calls")):
                self.train(program, "--steps", 20)
            with open(path("calls")) as file:
                calls = dict(line.split() for line in file)
            os.remove(path("calls"))
            self.assertEqual(int(calls["cuGraphInstantiateWithFlags"]), sets)
            self.assertEqual(int(calls["cuGraphUpload"]), sets)
            self.assertEqual(int(calls["cuGraphLaunch"]), 18)
            # The eager steps and the captured ones.
            self.assertEqual(int(calls["cuLaunchKernel"]), 2 * (2 + sets))

    def test_calls_of_a_replay(self):
        """What a step costs the driver: a copy to the device and its event, their place, the launch, the loss."""
        calls = []
        for steps in 20, 40:
            with environment(MPFAKE_LOG=path("calls")):
                self.train("alone.so", "--steps", steps)
            with open(path("calls")) as file:
                calls.append({name: int(count) for name, count in map(str.split, file)})
            os.remove(path("calls"))
        each = {name: (count - calls[0].get(name, 0)) / 20 for name, count in calls[1].items()}
        each.pop("cuStreamQuery", 0)  # as long as it takes
        self.assertEqual({name: count for name, count in each.items() if count},
                         {"cuMemcpyHtoDAsync_v2": 1, "cuEventRecord": 1, "cuStreamWaitEvent": 1, "cuMemcpyDtoDAsync_v2": 1,
                          "cuGraphLaunch": 1, "cuMemcpyDtoHAsync_v2": 1})  # fmt: skip

    def test_graphs_are_written(self):
        with environment(MPRT_GRAPH_DOT=path("g")):
            self.train("alone.so", "--steps", 5)
        with open(path("g.rank0.0.dot")) as file:
            text = file.read()
        self.assertEqual(re.findall(r'label="(\w+)"', text).count("update"), 1, text)
        # What cannot be written changes nothing.
        with environment(MPRT_GRAPH_DOT="/nowhere/g"):
            outcome = run(path("alone.so"), *self.common, "--steps", 5)
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertIn("1 graph of 4 nodes", outcome.out)
        self.assertIn("MPRT_GRAPH_DOT: /nowhere/g.rank0.0.dot: cuGraphDebugDotPrint: CUDA_ERROR_INVALID_VALUE", outcome.err)

    def test_kernels_that_do_nothing(self):
        """The driver is called as often as by kernels that compute."""
        with environment(MPFAKE_EMPTY=1):
            log, outcome = self.train("alone.so", "--steps", 5)
        self.assertEqual({entry["loss"] for entry in log}, {0.0})
        self.assertIn("1 graph of 4 nodes, 4 calls before", outcome.out)

    def test_no_graph(self):
        losses, _, _ = twin(self.samples, 16, 20)
        with environment(MPRT_GRAPH=0):
            log, outcome = self.train("alone.so", "--steps", 20)
        self.compare(log, losses)
        self.assertRegex(outcome.out, r"launches per step +4 calls")
        # A capture that fails is no failure.
        with environment(MPFAKE_FAIL="cuGraphInstantiateWithFlags:1:801"):
            log, outcome = self.train("alone.so", "--steps", 20)
        self.compare(log, losses)
        self.assertRegex(outcome.out, r"note: .*not as a graph: cuGraphInstantiateWithFlags: CUDA_ERROR_NOT")

    def test_state_is_checked(self):
        kept = ["--checkpoint", path("kept"), "--checkpoint-every", 2, "--checkpoint-keep", 2]
        self.train("toy2.so", "--steps", 6, "--check-replicas", 1, *kept)
        self.assertEqual(read_tensors("kept.step-4")[1]["mpcomm.step"], "4")
        # What the host has is older than what the device has made of it.
        for program in "toy2.so", "alone.so":
            self.fails("step 1: rank 0: tensor 'w': ", path(program), *self.common, "--steps", 1, "--lr", 3e38,
                       "--quiet", *kept[:2])  # fmt: skip
        self.assertEqual(read_tensors("kept")[1]["mpcomm.step"], "6")

    def test_checkpoint(self):
        for program in "alone.so", "loose.so", "toy2.so":
            with self.subTest(program=program):
                whole, _ = self.train(program, "--steps", 12)
                self.train(program, "--steps", 5, "--checkpoint", path("c"), "--checkpoint-every", 2)
                self.succeeds(path(program), "--data", self.data, "--resume", path("c"), "--steps", 12,
                              "--log", path("log"))  # fmt: skip
                self.assertEqual([e["loss"] for e in log_of("log")], [e["loss"] for e in whole])

    def test_evaluate(self):
        on_device = self.succeeds(path("alone.so"), *self.common, "--steps", 20, "--evaluate").out
        on_host = self.succeeds(path("host.so"), *self.common, "--steps", 20, "--evaluate").out
        def find(text):
            return re.search(r"top-1 accuracy.*", text).group(0)
        self.assertEqual(find(on_device), find(on_host))
        self.assertIn("evaluation loss", on_device)

    def test_evaluate_while_it_trains(self):
        # The batch that was sent ahead is sent again.
        for program in "alone.so", "toy2.so":
            plain, _ = self.train(program, "--steps", 20, "--evaluate")
            often, _ = self.train(program, "--steps", 20, "--evaluate-every", 3)
            steps = lambda log: [(e["step"], e["loss"]) for e in log if "loss" in e]
            self.assertEqual(steps(often), steps(plain))
            self.assertEqual([e["step"] for e in often if "evaluation" in e], [3, 6, 9, 12, 15, 18, 20])

    def test_numbers_are_checked(self):
        self.fails("the loss is", path("alone.so"), *self.common, "--steps", 300, "--lr", "1e30", lines=1)
        self.fails("tensor 'w'", path("alone.so"), *self.common, "--steps", 300, "--lr", "1e38",
                   "--check-numerics")  # fmt: skip

    def test_memory_is_reported(self):
        _, outcome = self.train("alone.so", "--steps", 2)
        self.assertRegex(outcome.out, r"rank 0 computes on .+, sm_90, 0\.06\d+ GB\n")
        self.assertRegex(outcome.out, r"memory a rank .*, on the device in all \d")

    def test_trace(self):
        for program in "alone.so", "toy2.so":
            with self.subTest(program=program):
                self.train(program, "--steps", 4, "--trace", path("t"), "--timeline", path("tl"), "--profile",
                           path("p"))  # fmt: skip
                with open(path("t")) as file:
                    events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
                updates = [e for e in events if e["name"] == "update"]
                backwards = [e for e in events if e["name"] == "backward"]
                self.assertEqual((len(updates), len(backwards)), (4, 4))
                for before, after in zip(backwards, updates):
                    self.assertEqual(before["tid"], 0)
                    self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + after["dur"])
                collectives = [e for e in events if e["cat"] == "collective"]
                self.assertEqual([e["tid"] for e in collectives], [1] * (4 if program == "toy2.so" else 0))
                waits = [e for e in events if e["cat"] == "wait"]
                self.assertEqual(len(waits), len(collectives))
                # The host's clock and the device's are compared to within the time that it takes.
                slack = updates[-1]["ts"] + updates[-1]["dur"] - backwards[0]["ts"]
                for collective, update in zip(collectives, updates):
                    self.assertLess(collective["ts"], update["ts"] + update["dur"] + slack)
                with open(path("p")) as file:
                    profile = json.load(file)
                self.assertIn("toy.mlir:9:3", json.dumps(profile))

    def test_no_driver(self):
        with environment(MPRT_CUDA_LIBRARY="/nowhere/libcuda.so.1"):
            for program in "alone.so", "toy4.so":
                outcome = self.fails("--device cuda: no CUDA driver (/nowhere/libcuda.so.1: cannot open", path(program), *self.common)
                self.assertIn("), as MPRT_CUDA_LIBRARY names it\n", outcome.err)
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            with environment(MPRT_CUDA_LIBRARY=""):
                outcome = self.fails("--device cuda: no CUDA driver (libcuda.so.1: cannot open", path("alone.so"), *self.common)
                self.assertIn("); MPRT_CUDA_LIBRARY in the environment can name the file\n", outcome.err)

    def test_failures(self):
        program = path("alone.so")
        run_it = [program, *self.common, "--steps", 5]
        with environment(MPFAKE_DEVICES=0):
            self.fails("--device cuda: no CUDA device: the driver finds none", *run_it)
        with environment(MPFAKE_CHIP=80):
            self.fails("the program has no kernels for sm_80, only: sm_90, PTX for sm_100", *run_it)
        with environment(MPFAKE_CHIP=120):
            self.fails("the program has no kernels for sm_120, only: sm_90, PTX for sm_100a, which runs on no other chip",
                       build_cuda("one-chip.so", BATCH=16, NO_COMM=1, PTX_TARGET='"sm_100a"'), *self.common)  # fmt: skip
        with environment(MPFAKE_FAIL="cuMemAlloc_v2:1"):
            self.fails("of device memory", *run_it)
        with environment(MPFAKE_FAIL="cuLaunchKernel:2"):
            self.fails('mprt_launch "update" at toy.mlir:9:3 on rank 0: cuLaunchKernel: CUDA_ERROR_UNKNOWN', *run_it)
        with environment(MPFAKE_FAIL="cuGraphLaunch:2"):
            self.fails("cuGraphLaunch: CUDA_ERROR_UNKNOWN", *run_it)
        self.fails('mprt_launch "backward" at toy.mlir:5:3 on rank 0: its symbol \'missing\' is not in the',
                   build_cuda("symbol.so", BATCH=16, NO_COMM=1, SYMBOL='"missing"'), *self.common)  # fmt: skip
        self.fails("it wants 4 bytes of scratch, but the manifest's scratch_bytes is only 0",
                   build_cuda("scratch.so", BATCH=16, NO_COMM=1, SCRATCH=0), *self.common)  # fmt: skip
        self.fails("arena of 1000000000000 bytes: no 1000.0 GB of device memory",
                   build_cuda("arena.so", BATCH=16, NO_COMM=1, ARENA=1000000000000), *self.common)  # fmt: skip

    def test_images_are_checked(self):
        for name, message, macros in [
            ("cut.so", "image 1 of symbol 'mpcomm_images' is neither a cubin nor PTX", {"PTX_CUT": 1}),
            ("code.so", "image 0 of symbol 'mpcomm_images' is neither a cubin nor PTX", {"CODE": "ptx"}),
            ("end.so", "symbol 'mpcomm_images' does not end with a chip 0", {"NO_END": 1}),
        ]:
            with self.subTest(name):
                self.fails(message, build_cuda(name, BATCH=16, NO_COMM=1, **macros), *self.common)

    def stray(self, pause):
        program = build_cuda("stray-%d.so" % pause, BATCH=16, NO_COMM=1, STRAY=pause)
        outcome = self.fails("the device stopped:", program, *self.common, "--steps", 5, lines=0)
        self.assertIn("MPRT_CUDA_SYNC=1 tells which call it was", outcome.err)
        with environment(MPRT_CUDA_SYNC=1):
            self.fails('mprt_launch "stray" at toy.mlir:30:3 on rank 0:', program, *self.common, lines=0)
        return outcome.err

    def test_stray_writes(self):
        self.assertIn("the last call on stream 0 was mprt_", self.stray(0))

    def test_stray_writes_are_met_by_the_next_call(self):
        # The device runs beside the host; on a busy machine it may take its time.
        last = 'the last call on stream 0 was mprt_launch "stray"'
        self.assertTrue(any(last in self.stray(pause) for pause in (50, 200, 900)))

    def test_a_rank_dies(self):
        for fault, message in [
            ("kill:rank=1,step=3", "rank 1"),
            ("stop:rank=1,step=5", "did not arrive: 1 (last called"),
        ]:
            with self.subTest(fault=fault):
                outcome = self.fails(message, path("toy4.so"), *self.common, "--steps", 50, "--timeout", TIMEOUT,
                                     fault=fault, lines=0)  # fmt: skip
                self.assertLess(outcome.seconds, TIMEOUT + SLACK)

    def test_devices(self):
        self.fails("host.so: compiled for device 'host', running on 'cuda'", path("host.so"), *self.common,
                   "--device", "cuda")  # fmt: skip
        self.fails("alone.so: compiled for device 'cuda', running on 'host'", path("alone.so"), *self.common,
                   "--device", "host")  # fmt: skip
        self.succeeds(path("alone.so"), *self.common, "--device", "cuda", "--steps", 2)
        self.succeeds(path("toy4.so"), *self.common, "--device", "auto", "--steps", 2)
        with environment(MPFAKE_DEVICES=3):
            self.succeeds(path("toy4.so"), *self.common, "--steps", 2)


if __name__ == "__main__":
    main()
