# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session 30
#
# Jobs that save in the background are killed at random moments. The newest checkpoint that was
# reported complete is there, or a newer one; the next job continues from it; and what is trained
# in the end is, to the bit, what is trained without an interruption.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

KILLS, CLIENT = int(sys.argv.pop(6)), sys.argv.pop(5)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run", "Inputs"))
from toy import *


class Kills(unittest.TestCase):
    def campaign(self, case, program, sharded=False):
        folder = path(case)
        os.makedirs(folder)
        source = random.Random(7)
        stepOf = lambda: int(read_tensors(case + "/c")[1]["mpcomm.step"])
        saved = started = 0
        for kill in range(KILLS):
            job = subprocess.Popen([CLIENT, case, program, "1000000000"], cwd=folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
            # Every other one while it starts, the others at some time after their first checkpoint,
            # however busy the machine is.
            first = job.stdout.readline() if kill % 2 else ""
            time.sleep(source.uniform(0, 0.1))
            os.killpg(job.pid, signal.SIGKILL)
            out, err = job.communicate()
            out = first + out
            self.assertEqual(err, "")
            self.assertEqual(job.returncode, -signal.SIGKILL)
            # A line that was being written may be half there.
            lines = out.split("\n")[:-1]
            if lines:
                # What was told with step k + 2 is the checkpoint of step k.
                saved = int(lines[-1].split()[-1]) - 2
                started += 1
            if saved:
                self.assertGreaterEqual(stepOf(), saved)
        self.assertGreaterEqual(started, KILLS // 2)
        print("%s: %d kills, %d jobs that saved, step %d" % (case, KILLS, started, stepOf()))
        last = str(stepOf() + 10)
        resumed = subprocess.run([CLIENT, case, program, last], cwd=folder, capture_output=True, text=True)
        whole = subprocess.run([CLIENT, case, program, last], cwd=self.fresh(case), capture_output=True,
                               text=True)  # fmt: skip
        self.assertEqual(resumed.stderr + whole.stderr, "")
        self.assertEqual(resumed.stdout.split("\n")[-2], whole.stdout.split("\n")[-2])
        self.assertIn("step %s:" % last, whole.stdout)
        # What those that were killed had begun to write is gone.
        kept = [name for name in os.listdir(folder) if re.fullmatch(r"c|c\.step-\d+", name)]
        used = {shard for name in kept for shard in shards_of(read_tensors(os.path.join(case, name))[1])}
        self.assertEqual(set(os.listdir(folder)), used | set(kept))
        self.assertEqual(bool(used), sharded)

    @staticmethod
    def fresh(case):
        os.makedirs(path(case + "-whole"))
        return path(case + "-whole")

    def test_alone(self):
        self.campaign("until", build("plain.so", BATCH=8))

    def test_two_ranks(self):
        self.campaign("until-by-two", build("two.so", RANKS=2, BATCH=8, BULK=20000), sharded=True)


if __name__ == "__main__":
    main()
