# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Stages of a pipeline: each rank runs the function for its place in the mesh, samples go to data
# ranks, and a file has the state of all stages.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import resource

from stages import *


def read_bytes(name):
    with open(name, "rb") as file:
        return file.read()


class Stages(StageTest):
    def test_losses_are_those_of_one_rank(self):
        losses, w, b = twin(self.samples, 16, 30, seed=5)
        one = self.train("dp1.so", "--steps", 30, "--seed", 5)
        two = self.train("pp2.so", "--steps", 30, "--seed", 5, "--save-weights", path("out"))
        # The same sums in the same order.
        self.assertEqual(one, two)
        self.compare(log_of("log"), losses)
        self.compare_weights("out", w, b)

    def test_data_ranks_have_different_samples(self):
        # Two of 8 samples each see in a step what one of 16 does.
        two = self.train("dp2.so", "--steps", 30)
        four = self.train("pp2-dp2.so", "--steps", 30)
        self.assertEqual(two, four)
        self.compare(log_of("log"), twin(self.samples, 16, 30)[0])

    def test_gloo(self):
        shm = self.train("pp2-dp2.so", "--steps", 6)
        self.assertEqual(shm, self.train("pp2-dp2.so", "--steps", 6, "--comm", "gloo"))

    def test_checkpoint_is_the_union(self):
        self.train("pp2-dp2.so", "--steps", 10, "--checkpoint", path("c10"), "--checkpoint-every", 4)
        saved, metadata = read_tensors("c10")
        state = ["b", "b.momentum", "scale", "step", "w", "w.momentum"]
        self.assertEqual(sorted(saved), state)
        self.assertEqual(saved["step"], [10])
        self.assertEqual(metadata["mpcomm-run.global_batch"], "16")
        self.assertEqual(metadata["mpcomm.lr"], "0.05")
        self.train("dp2.so", "--steps", 10, "--checkpoint", path("c10-dp2"))
        self.assertEqual(saved, read_tensors("c10-dp2")[0])

    def test_resume_on_another_mesh(self):
        whole = self.train("dp1.so", "--steps", 20)
        for before, after in [
            ("pp2.so", "pp2.so"),
            ("pp2.so", "dp1.so"),
            ("dp1.so", "pp2.so"),
        ]:
            with self.subTest(before=before, after=after):
                first = self.train(before, "--steps", 12, "--checkpoint", path("c"))
                os.remove(path("log"))
                rest = self.train(after, "--steps", 20, start=["--resume", path("c")])
                self.assertEqual(first + rest, whole)
        # Another mesh with the same global batch: the same but for the order of sums.
        self.train("pp2-dp2.so", "--steps", 12, "--checkpoint", path("c"))
        os.remove(path("log"))
        for got, expected in zip(
            self.train("pp2.so", "--steps", 20, start=["--resume", path("c")]), whole[12:]
        ):
            self.assertAlmostEqual(got, expected, delta=TOLERANCE)

    def test_stages_that_disagree(self):
        build_stages("loose.so", staged(), LOOSE_STEP=1)
        old = read_bytes(write_tensors("kept", weights()))
        self.fails(
            "tensor 'step' is not the same on ranks 0 and 1, which both hold it",
            path("loose.so"), "--weights", self.weights, "--data", self.data,
            "--steps", 2, "--checkpoint", path("kept"), "--quiet",
        )  # fmt: skip
        self.assertEqual(read_bytes(path("kept")), old)

    def test_checkpoint_that_cannot_be_written(self):
        # The file may not be as long as its header, from when there is one on: before, the limit
        # would hit what ranks share.
        process = subprocess.Popen(
            [RUN, path("pp2.so"), "--weights", self.weights, "--data", self.data, "--quiet", "--steps", "1000000000",
             "--comm", "gloo", "--checkpoint", path("big"), "--checkpoint-every", "1"],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        deadline = time.monotonic() + SLACK
        while not os.path.exists(path("big")):
            self.assertLess(time.monotonic(), deadline, "no checkpoint was written")
            time.sleep(0.01)
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            for rank in file.read().split():
                resource.prlimit(int(rank), resource.RLIMIT_FSIZE, (64, 64))
        error = process.communicate(timeout=SLACK)[1].decode()
        self.assertEqual(process.returncode, 1, error)
        own = Outcome(1, "", error, 0).own
        self.assertEqual(len(own), 1, error)
        self.assertRegex(own[0], r"^mpcomm-run: error: .*big.*File too large; (the file of that name is as it was before|there is no file of that name)$")

    def test_a_large_part_of_another_stage(self):
        # It travels in more than one block, and the file may end in any of them.
        count = 700001
        program = build_stages("heavy.so", staged(ballast=count), BALLAST=1)
        ballast = [float(i % 4099) for i in range(count)]
        heavy = write_tensors("heavy", {**weights(), "ballast": ("F32", [count], ballast)})
        for comm in "shm", "gloo":
            self.succeeds(
                program, "--weights", heavy, "--data", self.data, "--steps", 2, "--quiet",
                "--comm", comm, "--checkpoint", path("whole"),
            )  # fmt: skip
            self.assertEqual(read_tensors("whole")[0]["ballast"], ballast)
        for limit in 1 << 16, 1 << 20, 2500000:
            outcome = run(
                program, "--weights", heavy, "--data", self.data, "--steps", 2, "--quiet",
                "--comm", "gloo", "--checkpoint", path("part"),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
            )  # fmt: skip
            self.assertEqual(outcome.code, 1, str(outcome))
            self.assertEqual(len(outcome.own), 1, str(outcome))
            self.assertRegex(outcome.own[0], "part.*File too large")
            self.assertFalse(os.path.exists(path("part")))

    def test_evaluation(self):
        out = self.succeeds(
            path("pp2-dp2.so"), "--weights", self.weights, "--data", self.data, "--steps", 60,
            "--evaluate",
        ).out  # fmt: skip
        self.assertRegex(out, r"evaluation +103 samples\n")
        self.assertRegex(out, r"top-1 accuracy +\d+\.\d+ % \(\d+ of 103\)")
        loss = float(re.search(r"evaluation loss +(\S+)", out).group(1))
        self.assertLess(loss, 0.02)
        self.assertIn("stages: 4 ranks (pp:2 x dp:2), steps 1 to 60, global batch 16", out)
        # The arenas of the stages are equal, their parameters are not.
        self.assertIn("memory a rank, at most", out)
        self.assertRegex(out, r"peak of rank 3 .*parameters 0\.0 kB, optimizer state 0\.0 kB")

    def test_gradients_of_other_stages(self):
        build_stages("flags.so", staged(dp=2, batch=8, flags=True), batch=8, FLAGS=1)
        out = self.succeeds(
            path("flags.so"), "--weights", self.weights, "--data", self.data, "--steps", 3,
            "--log", path("log"),
        ).out  # fmt: skip
        self.assertEqual(out.count("not finite"), 1)
        self.assertIn("step 2: the gradient of 'b' is not finite", out)
        self.assertEqual([e.get("nonfinite") for e in log_of("log")], [None, ["b"], None])

    def test_profile_and_timeline_show_all_stages(self):
        self.train(
            "pp2-dp2.so", "--steps", 5, "--profile", path("profile"), "--timeline", path("timeline")
        )
        with open(path("profile")) as file:
            places = [e["locations"] for e in json.load(file)["entries"]]
        # What both stages have is there once: the loss.
        self.assertEqual(len(places), len({tuple(p) for p in places}))
        for line in 10, 11, 12, 20, 21, 22, 30:
            self.assertIn(["stages.mlir:%d:3" % line], places)
        with open(path("timeline")) as file:
            timeline = json.load(file)
        # One rank of each stage: 0 and 2.
        self.assertEqual({s["rank"] for s in timeline["streams"]}, {0, 2})
        flows = [e["flow"] for s in timeline["streams"] for e in s["events"]
                 if "flow" in e and s["name"] != "compute"]
        self.assertEqual(sorted(flows), list(range(len(timeline["collectives"]))))
        # Each rank of one machine says when it came, so there is a reason for all.
        for collective in timeline["collectives"]:
            self.assertNotEqual(collective.get("reason", ""), "")
        self.assertEqual([(p["name"], p["rank"], p["ranks"]) for p in timeline["programs"]],
                         [("first", 0, 2), ("second", 2, 2)])
        # One figure: what ranks wait for collectives, and for others to begin and to end.
        seconds = timeline["seconds"]
        waited = [sum(c["exposed"] for c in timeline["collectives"] if c["rank"] == p["rank"])
                  + seconds - p["seconds"] for p in timeline["programs"]]
        self.assertAlmostEqual(timeline["exposed"], sum(waited) / 2, delta=1e-8)
        for stream in timeline["streams"]:
            for event in stream["events"]:
                self.assertLessEqual(event["end"], timeline["seconds"] * 1.0001)

    def test_trace_names_channels(self):
        self.train("pp2.so", "--steps", 2, "--trace", path("trace"))
        with open(path("trace")) as file:
            events = json.load(file)["traceEvents"]
        names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertIn("communicator 1 (pp, channel 2)", names)
        self.assertIn("communicator 2 (pp)", names)
        self.assertEqual({e["pid"] for e in events if e["name"] == "F0"}, {0, 1})


class Manifests(ToyTest):
    """One change at a time that makes the manifest of two stages wrong."""

    def refuses(self, message, change):
        manifest = staged()
        change(manifest)
        self.fails(message, build_stages("wrong.so", manifest), "--steps", 1)

    def test_coordinates(self):
        def at(index, coordinates):
            def change(manifest):
                manifest["functions"][index]["coordinates"] = coordinates

            return change

        self.refuses("functions[0].coordinates[0]: no mesh axis 'tp'", at(0, [{"tp": 0}]))
        self.refuses(
            "functions[1].coordinates[0]: there is no rank 2 along 'pp', which has 2",
            at(1, [{"pp": 2}]),
        )
        self.refuses("a second function 'train_step' for rank 0 (pp:0 x dp:0)", at(1, [{"dp": 0}]))
        self.refuses("expected a coordinate on at least one mesh axis", at(0, [{}]))
        self.refuses("functions[0].coordinates[0].pp: expected a natural number", at(0, [{"pp": -1}]))
        self.refuses("expected an object", at(0, ["pp"]))
        self.refuses(
            "a second function 'evaluate' for rank 0 (pp:0 x dp:0): entries 'evaluate_first' and "
            "'evaluate_second'",
            at(3, [{"pp": 0}, {"pp": 1}]),
        )

    def test_functions_of_one_name(self):
        def drop(manifest):
            del manifest["functions"][1]

        self.refuses("no function 'train_step' for rank 1 (pp:1 x dp:0)", drop)

        def resize(manifest):
            arguments = manifest["functions"][1]["arguments"]
            arguments[-1] = {**arguments[-1], "shape": [8]}

        self.refuses(
            "'train_step' (entry 'first') takes 16 samples, and 'train_step' (entry 'second') takes 8",
            resize,
        )

        def retype(manifest):
            for part in "arguments", "results":
                tensors = manifest["functions"][1][part]
                for i, tensor in enumerate(tensors):
                    if tensor["name"] == "step":
                        tensors[i] = {**tensor, "shape": [1]}

        self.refuses(
            "'step' is f32 [] in 'train_step' (entry 'first') and f32 [1] in 'train_step' (entry "
            "'second'), or its role differs",
            retype,
        )

        def lose_loss(manifest):
            manifest["functions"][1]["results"] = manifest["functions"][1]["results"][1:]

        self.refuses(
            "function 'train_step' has no result of role loss (entry 'second')", lose_loss
        )


if __name__ == "__main__":
    main()
