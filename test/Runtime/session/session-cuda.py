# RUN: env MPRT_CUDA_LIBRARY=%mpcomm_obj_root/test/lib/FakeCuda/libcuda.so.1 \
# RUN:   MPRT_NCCL_LIBRARY=%mpcomm_obj_root/test/lib/FakeNccl/FakeNccl/libnccl.so.2 \
# RUN:   %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session
#
# Sessions with programs for a GPU, on the fake CUDA driver and the fake NCCL: one rank, and two
# with messages over NCCL and through the host, have the losses of the program for the CPU.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

CLIENT = sys.argv.pop(5)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run", "Inputs"))
from toy import *

os.environ.update(MPFAKE_MEMORY="64M", MPFAKE_DEVICES="2")


class Devices(unittest.TestCase):
    def losses(self, program, ranks, *comm):
        """The lines of each rank, as torchrun starts it."""
        port = free_port()
        jobs = [subprocess.Popen([CLIENT, "launched", program, *comm], cwd=WORK, text=True, stdout=subprocess.PIPE,
                                 env={**os.environ, "RANK": str(r), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(r),
                                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
                for r in range(ranks)]  # fmt: skip
        lines = [job.communicate(timeout=120)[0] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0] * ranks)
        return lines

    def test_ranks_agree_with_the_cpu(self):
        for ranks in 1, 2:
            host = self.losses(build("host%d.so" % ranks, RANKS=ranks, BATCH=8), ranks)
            loss = host[0].split("loss ")[1]
            cuda = build_cuda("cuda%d.so" % ranks, RANKS=ranks, BATCH=8)
            for comm in "gloo", "nccl":
                with self.subTest(ranks=ranks, comm=comm):
                    lines = self.losses(cuda, ranks, comm)
                    self.assertEqual(lines, ["rank %d of %d over %s on cuda: loss %s" % (r, ranks, comm, loss)
                                             for r in range(ranks)])  # fmt: skip


if __name__ == "__main__":
    main()
