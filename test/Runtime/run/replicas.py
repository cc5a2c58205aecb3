# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# Ranks that hold the same state compare it before it is kept, and as often as they are told to: a
# rank with another bit ends the run, named, and the last checkpoint stays.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from stages import *


class Replicas(RegressionTest):
    def refused(self, message, program, *options, fault, start=None, **settings):
        return self.fails(message, path(program), *(start or self.common), "--quiet", *options,
                          fault="flip:" + fault, **settings)  # fmt: skip

    def test_before_a_checkpoint(self):
        kept = ["--steps", 9, "--checkpoint", path("c"), "--checkpoint-every", 2]
        error = self.refused("step 4: tensor 'w' is not the same on ranks 0 and 1, which both hold it: checksum ",
                             "toy2.so", *kept, fault="rank=1,step=3").err  # fmt: skip
        self.assertIn("; %s keeps the checkpoint of step 2\n" % path("c"), error)
        self.assertEqual(read_tensors("c")[1]["mpcomm.step"], "2")
        # The one that is there from another run stays, too.
        error = self.refused("step 2: tensor 'w'", "toy2.so", *kept, fault="rank=1,step=1").err
        self.assertIn("; %s is as it was before\n" % path("c"), error)
        self.assertEqual(read_tensors("c")[1]["mpcomm.step"], "2")

    def test_the_odd_one_of_four(self):
        for rank, groups in (2, r"on ranks 0, 1, 3, \w+ on rank 2"), (0, r"on rank 0, \w+ on ranks 1, 2, 3"):
            error = self.refused("step 3: tensor 'w' is not the same on ranks 0 and ", "toy4.so", "--steps", 3,
                                 "--checkpoint", path("four"), fault="rank=%d,step=3" % rank).err  # fmt: skip
            self.assertRegex(error, groups)
        self.assertFalse(os.path.exists(path("four")))

    def test_before_weights(self):
        self.refused("step 3: tensor 'w' is not the same", "toy2.so", "--steps", 3, "--save-weights",
                     path("saved"), fault="rank=1,step=2")  # fmt: skip
        self.assertFalse(os.path.exists(path("saved")))

    def test_also_where_what_is_not_finite_goes_on(self):
        kept = ["--steps", 4, "--lr", 3e38, "--allow-nonfinite", "--checkpoint", path("nan"), "--checkpoint-every", 2]
        error = self.refused("step 2: tensor 'w' is not the same on ranks 0 and 1, which both hold it: checksum ",
                             "toy2.so", *kept, fault="rank=1,step=2").err  # fmt: skip
        self.assertRegex(error, r"; rank 0: tensor 'w': \d of 4 elements (are|is) not finite")
        self.assertIn("; %s does not exist\n" % path("nan"), error)

    def test_as_often_as_told(self):
        self.refused("step 3: tensor 'w'", "toy2.so", "--steps", 9, "--check-replicas", 1, fault="rank=1,step=3")
        self.refused("step 6: tensor 'w'", "toy2.so", "--steps", 9, "--check-replicas", 3, fault="rank=1,step=4")
        for options in ["--check-replicas", 0, "--checkpoint", path("no")], ["--check-replicas", 100], []:
            self.succeeds(path("toy2.so"), *self.common, "--quiet", "--steps", 4, *options, fault="flip:rank=1,step=3")

    def test_equal_replicas_are_no_news(self):
        self.succeeds(path("toy4.so"), *self.common, "--quiet", "--steps", 12,
                      "--check-replicas", 1, "--checkpoint", path("good"), "--checkpoint-every", 5)  # fmt: skip


class Stages(StageTest):
    def test_replicas_of_each_stage(self):
        # Ranks 0 and 1 have w, ranks 2 and 3 have b.
        for rank, name, others in (1, "w", "0 and 1"), (3, "b", "2 and 3"):
            self.fails("step 2: tensor '%s' is not the same on ranks %s, which both hold it" % (name, others),
                       path("pp2-dp2.so"), "--weights", self.weights, "--data", self.data, "--quiet",
                       "--steps", 3, "--check-replicas", 1, fault="flip:rank=%d,step=2" % rank)  # fmt: skip


if __name__ == "__main__":
    main()
