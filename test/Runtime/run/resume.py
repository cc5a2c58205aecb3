# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A resumed run gives the losses of the uninterrupted one, bit for bit, and
# ends in the same file; what contradicts the checkpoint is refused.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class Resume(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(103).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        for ranks in 1, 2:
            build("toy%d.so" % ranks, RANKS=ranks, BATCH=8)
        build("loose2.so", RANKS=2, BATCH=8, LOOSE_STATE=1)

    def compare(self, program, first, last):
        common = [path(program), "--data", self.data, "--quiet"]
        schedule = ["--lr-schedule", "linear", "--lr-warmup", 3]
        self.succeeds(
            *common, "--weights", self.weights, "--steps", last, "--seed", 3, *schedule,
            "--log", path("whole"), "--checkpoint", path("whole.ckpt"),
        )  # fmt: skip
        # The same run, cut off by a death some steps after its checkpoint.
        run(
            *common, "--weights", self.weights, "--steps", last, "--seed", 3, *schedule,
            "--log", path("parts"), "--checkpoint", path("part.ckpt"), "--checkpoint-every", first,
            fault="kill:rank=0,step=%d" % (first + 4),
        )  # fmt: skip
        self.assertEqual([e["step"] for e in log_of("parts")], list(range(1, first + 4)))
        # A line of which the death has left a part.
        with open(path("parts"), "a") as log:
            log.write('{"step": %d, "ep' % (first + 4))
        _, metadata = read_tensors("part.ckpt")
        self.assertEqual(metadata["mpcomm.step"], str(first))
        self.assertEqual(metadata["mpcomm.seed"], "3")
        self.succeeds(
            *common, "--resume", path("part.ckpt"), "--steps", last, *schedule,
            "--log", path("parts"), "--checkpoint", path("part.ckpt"),
        )  # fmt: skip
        keep = lambda log: [(e["step"], e["epoch"], e["loss"], e["lr"]) for e in log]
        self.assertEqual(keep(log_of("parts")), keep(log_of("whole")))
        with open(path("whole.ckpt"), "rb") as whole, open(path("part.ckpt"), "rb") as part:
            self.assertEqual(whole.read(), part.read())

    def test_one_rank(self):
        self.compare("toy1.so", 17, 40)

    def test_two_ranks_across_an_epoch(self):
        self.compare("toy2.so", 9, 23)

    def test_state_in_a_buffer_of_its_own(self):
        self.compare("loose2.so", 7, 15)

    def test_what_of_a_log_stays(self):
        common = [path("toy1.so"), "--data", self.data, "--quiet"]
        self.succeeds(*common, "--weights", self.weights, "--steps", 3, "--checkpoint", path("c3"))
        resume = [*common, "--resume", path("c3"), "--log", path("notes")]
        note = "# not of this program\n"
        text = note + "".join('{"step": %d, "mine": 0}\n' % step for step in (2, 3, 4, 5, 4))
        for steps, kept in (5, 3), (3, 6):
            with open(path("notes"), "w") as log:
                log.write(text)
            self.succeeds(*resume, "--steps", steps)
            with open(path("notes")) as log:
                lines = log.readlines()
            # What trains nothing leaves it as it is.
            self.assertEqual(lines[:kept], text.splitlines(keepends=True)[:kept])
            self.assertEqual([json.loads(line)["step"] for line in lines[kept:]], [4, 5][: steps - 3])
        # No file, and one that is not there yet.
        self.succeeds(*common, "--resume", path("c3"), "--steps", 4, "--log", "/dev/null")
        os.remove(path("notes"))
        self.succeeds(*resume, "--steps", 4)
        self.assertEqual([e["step"] for e in log_of("notes")], [4])

    def test_a_checkpoint_that_was_never_renamed(self):
        # What somebody rescues is not abandoned, whatever it is called.
        rescued = "rescued.mpcomm-tmp-0123456789abcdef"
        common = [path("toy1.so"), "--data", self.data, "--quiet"]
        self.succeeds(*common, "--weights", self.weights, "--steps", 2, "--checkpoint", path(rescued))
        with open(path(rescued), "rb") as file:
            before = file.read()
        self.succeeds(*common, "--resume", path(rescued), "--steps", 3, "--checkpoint", path("rescued"))
        with open(path(rescued), "rb") as file:
            self.assertEqual(file.read(), before)

    def test_refusals(self):
        common = [path("toy2.so"), "--data", self.data]
        self.succeeds(
            *common, "--weights", self.weights, "--steps", 5, "--checkpoint", path("c"), "--quiet"
        )
        self.fails("this run has --seed 1 where the checkpoint has 0; --resume-anyway goes on",
                   *common, "--resume", path("c"), "--seed", 1)  # fmt: skip
        self.fails("--resume-anyway requires --resume", *common, "--weights", self.weights,
                   "--resume-anyway", code=2)  # fmt: skip
        self.fails(
            "written after step 5, beyond the last step 4",
            *common, "--resume", path("c"), "--steps", 4,
        )  # fmt: skip
        self.fails(
            "not a checkpoint: metadata 'mpcomm.step'", *common, "--resume",
            write_tensors(
                "w-all.safetensors",
                {**weights(), "w.momentum": ("F32", [5], [0.0] * 5), "step": ("F32", [], [0.0])},
            ),
        )  # fmt: skip
        self.fails("no tensor 'w.momentum'", *common, "--resume", self.weights)

    def told(self, *differences, start, **values):
        """Refused but with a word, which is then said of what it goes on with."""
        for difference in differences:
            error = self.fails("%s: this run has " % path("c2"), *start).err
            self.assertIn(difference % values, error)
            self.assertIn("; --resume-anyway goes on\n", error)
        out = self.succeeds(*start, "--resume-anyway").out
        for difference in differences:
            self.assertIn(difference % values, out)
        self.assertIn("warning: %s: this run has " % path("c2"), out)

    def test_other_data_are_told(self):
        common = [path("toy2.so"), "--weights", self.weights, "--quiet"]
        self.succeeds(*common, "--data", self.data, "--steps", 2, "--checkpoint", path("c2"))
        resume = [path("toy2.so"), "--resume", path("c2"), "--steps", 3, "--data"]
        tensors = Samples(103).tensors()
        tensors["y"][2][5] += 1
        changed = write_tensors("changed.safetensors", tensors)
        before = read_tensors("c2")[1]["mpcomm-run.data"]
        for other in changed, Samples(64).write("other.safetensors"):
            self.told("data with checksum ", " where the checkpoint has %s" % before, start=[*resume, other])
        self.told("samples as in the file where the checkpoint has shuffled",
                  start=[*resume, self.data, "--no-shuffle"])  # fmt: skip
        self.told("--seed 4 where the checkpoint has 0", start=[*resume, self.data, "--seed", 4])
        # The same data under another name.
        same = Samples(103).write("same.safetensors")
        self.assertNotIn("warning", self.succeeds(*resume, same).out)

    def graph(self, name, **changes):
        """The toy program, with a graph of its own."""
        graph = {"digest": "a" * 16, "structure": "b" * 16, "batch": 8, "optimizer": ["sgd_update momentum = 0.9"],
                 "options": {"precision": "none", "clip-norm": "0"}, **changes}  # fmt: skip
        return build(name, RANKS=2, BATCH=8, GRAPH=json.dumps('"graph":%s,' % json.dumps(graph)))

    def test_other_graphs_are_told(self):
        rest = ["--data", self.data, "--steps"]
        first = self.graph("graph.so")
        self.succeeds(first, *rest, 2, "--weights", self.weights, "--quiet", "--checkpoint", path("c2"))
        metadata = read_tensors("c2")[1]
        self.assertEqual(metadata["mpcomm.graph"], "a" * 16)
        self.assertEqual(metadata["mpcomm.option.precision"], "none")
        resume = [*rest, 3, "--resume", path("c2")]
        self.assertNotIn("warning", self.succeeds(first, *resume).out)
        other = {"digest": "c" * 16}
        self.told("a graph with checksum cccccccccccccccc where the checkpoint has aaaaaaaaaaaaaaaa",
                  start=[self.graph("g1.so", **other), *resume])  # fmt: skip
        self.told("a graph with checksum ",
                  start=[self.graph("g2.so", **other, structure="d" * 16, batch=4), *resume])  # fmt: skip
        constants = self.graph("g3.so", **other, optimizer=["sgd_update momentum = 0.5"])
        self.told("this run has optimizer sgd_update momentum = 0.5 where the checkpoint has sgd_update momentum = 0.9",
                  start=[constants, *resume])  # fmt: skip
        # Of two groups one differs, beyond what a short message would show.
        groups = ["adamw_update beta1 = 0.9, beta2 = 0.999, epsilon = 1e-08, weight_decay = %s" % decay for decay in (0, 0.1, 0.2)]
        self.succeeds(self.graph("g6.so", optimizer=groups[:2]), *rest, 2, "--weights", self.weights, "--quiet",
                      "--checkpoint", path("c2"))  # fmt: skip
        self.told("this run has optimizer %s where the checkpoint has %s" % (groups[2], groups[1]),
                  start=[self.graph("g7.so", optimizer=[groups[0], groups[2]]), *resume])  # fmt: skip
        self.assertNotIn("warning", self.succeeds(self.graph("g6.so"), *resume).out)
        self.succeeds(first, *rest, 2, "--weights", self.weights, "--quiet", "--checkpoint", path("c2"))
        self.told("clip-norm 1 where the checkpoint has 0", "precision bf16 where the checkpoint has none",
                  start=[self.graph("g4.so", options={"precision": "bf16", "clip-norm": "1", "new": "x"}), *resume])  # fmt: skip
        # The same model, imported with batches of another size; a program that does not tell.
        for name in self.graph("g5.so", **other, batch=4), path("toy2.so"):
            self.assertNotIn("warning", self.succeeds(name, *resume).out)

    def test_what_is_only_evaluated(self):
        common = ["--weights", self.weights, "--data", self.data, "--quiet"]
        self.succeeds(self.graph("graph.so"), *common, "--steps", 2, "--checkpoint", path("c4"))
        held_out = Samples(64, seed=2).write("held-out.safetensors")
        out = self.succeeds(self.graph("g1.so", digest="c" * 16), "--resume", path("c4"), "--data", held_out,
                            "--steps", 0, "--evaluate", "--no-shuffle", "--seed", 5).out  # fmt: skip
        self.assertNotIn("warning", out)

    def test_another_global_batch_is_told(self):
        self.succeeds(path("toy2.so"), "--weights", self.weights, "--data", self.data, "--steps", 2,
                      "--quiet", "--checkpoint", path("c2"))  # fmt: skip
        out = self.succeeds(path("toy1.so"), "--data", self.data, "--resume", path("c2"), "--steps", 3).out
        self.assertIn("warning: %s: written with a global batch of 16, going on with 8" % path("c2"), out)

    def test_hyperparameters_are_kept(self):
        # 0.03 is no power of two: it comes back to the last bit, or the losses differ.
        program, rest = path("toy2.so"), ["--data", self.data, "--quiet"]
        given = ["--lr", 0.03, "--lr-warmup", 5, "--lr-schedule", "cosine"]
        self.succeeds(program, *rest, "--weights", self.weights, "--steps", 20, *given,
                      "--log", path("all"))  # fmt: skip
        run(program, *rest, "--weights", self.weights, "--steps", 20, *given, "--log", path("some"),
            "--checkpoint", path("h"), "--checkpoint-every", 8, fault="kill:rank=0,step=10")  # fmt: skip
        self.succeeds(program, *rest, "--resume", path("h"), "--steps", 20, "--log", path("rest"))
        keep = lambda name: {e["step"]: (e["loss"], e["lr"]) for e in log_of(name)}
        rest_of, whole = keep("rest"), keep("all")
        self.assertEqual(rest_of, {step: whole[step] for step in range(9, 21)})

    def test_other_hyperparameters_are_told(self):
        common = [path("toy2.so"), "--data", self.data]
        self.succeeds(*common, "--weights", self.weights, "--steps", 4, "--checkpoint", path("o"),
                      "--set", "lr=0.03", "--lr-schedule", "linear", "--quiet")  # fmt: skip
        resume = [*common, "--resume", path("o"), "--steps"]
        self.assertNotIn("warning", self.succeeds(*resume, 4).out)
        out = self.succeeds(*resume, 6, "--log", path("other"), "--lr", 0.5, "--lr-warmup", 1).out
        self.assertIn("warning: %s: written with --lr 0.03, going on with 0.5\n" % path("o"), out)
        self.assertIn("written with --lr-warmup 0, going on with 1\n", out)
        self.assertIn("its learning rate was to fall until step 4, now until step 6\n", out)
        self.assertNotIn("--lr-schedule", out)
        self.assertAlmostEqual(log_of("other")[0]["lr"], 0.5 * (1 - 3 / 5))
        out = self.succeeds(*resume, 5, "--lr-schedule", "constant").out
        self.assertIn("written with --lr-schedule linear, going on with constant\n", out)
        tensors = {**weights(), "w.momentum": ("F32", [5], [0.0] * 5), "step": ("F32", [], [0.0])}
        for key, value in ("mpcomm.lr", "nan"), ("mpcomm.lr_schedule", "steep"), ("mpcomm.lr", "1x"):
            file = write_tensors("bad", tensors, {"mpcomm.step": "1", "mpcomm.seed": "0", key: value})
            self.fails("metadata '%s' is missing or not a number" % key, *common, "--resume", file)

    def test_nothing_left_to_do(self):
        common = [path("toy2.so"), "--data", self.data, "--quiet", "--checkpoint", path("c3")]
        self.succeeds(*common, "--weights", self.weights, "--steps", 2)
        with open(path("c3"), "rb") as file:
            before = file.read()
        self.succeeds(*common, "--resume", path("c3"), "--steps", 2)
        with open(path("c3"), "rb") as file:
            self.assertEqual(file.read(), before)


if __name__ == "__main__":
    main()
