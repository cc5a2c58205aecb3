# What the tests of overlap share: a program whose kernels run beside a collective,
# and in how many of its steps it shows.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

from toy import *

os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
STEPS = 6


class OverlapTest(ToyTest):
    def program(self, kernels, milliseconds):
        target = path("overlap%d.so" % kernels)
        if not os.path.exists(target):
            compile_c("overlap-step.c", target, RANKS=2, KERNELS=kernels, MILLISECONDS=milliseconds)
        return target

    def hidden_steps(self, program, *options, prefix=(), progress=None):
        """In how many steps rank 0's all_reduce ended while its kernels ran.

        One that ends before the first kernel begins does not count: ranks that arrive
        at the same moment may finish it in the calls that start it.
        """
        if progress:
            os.environ["MPRT_PROGRESS"] = progress
        try:
            outcome = run(program, "--steps", STEPS, "--quiet", "--trace", path("t.json"),
                          "--timeline", path("timeline.json"), *options, prefix=prefix)  # fmt: skip
        finally:
            os.environ.pop("MPRT_PROGRESS", None)
        self.assertEqual(outcome.code, 0, str(outcome))
        with open(path("t.json")) as file:
            events = [e for e in json.load(file)["traceEvents"] if e["pid"] == 0 and e["ph"] == "X"]
        times = lambda category: [(e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == category]
        collectives, kernels = times("collective"), times("kernel")
        self.assertEqual((len(collectives), len(kernels) % STEPS), (STEPS, 0))
        steps = [kernels[i : i + len(kernels) // STEPS]
                 for i in range(0, len(kernels), len(kernels) // STEPS)]  # fmt: skip
        return sum(step[0][0] < end < step[-1][1] for (_, end), step in zip(collectives, steps))
