# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: can-mount
#
# On a full file system the last good checkpoint survives, and the run says why
# it ended.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from toy import *


class FullDisk(ToyTest):
    def test_full_disk(self):
        data = Samples(64).write("d.safetensors")
        start = write_tensors("w.safetensors", weights())
        program = build("toy2.so", RANKS=2, BATCH=8)
        disk = path("disk")
        os.makedirs(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
        try:
            checkpoint = os.path.join(disk, "c")
            common = [program, "--data", data, "--quiet", "--checkpoint", checkpoint]
            self.succeeds(*common, "--weights", start, "--steps", 2)
            with open(checkpoint, "rb") as file:
                before = file.read()
            with open(os.path.join(disk, "fill"), "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
            outcome = self.fails(
                "c: cannot write: No space left on device; the file of that name is as it was",
                *common, "--resume", checkpoint, "--steps", 50, "--checkpoint-every", 3,
            )  # fmt: skip
            self.assertLess(outcome.seconds, SLACK)
            self.assertEqual(sorted(os.listdir(disk)), ["c", "fill"])
            with open(checkpoint, "rb") as file:
                self.assertEqual(file.read(), before)
            os.unlink(os.path.join(disk, "fill"))
            self.succeeds(*common, "--resume", checkpoint, "--steps", 4)
        finally:
            subprocess.run(["umount", disk], check=True)


if __name__ == "__main__":
    main()
