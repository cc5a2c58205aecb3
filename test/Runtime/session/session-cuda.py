# RUN: env MPRT_CUDA_LIBRARY=%mpcomm_obj_root/test/lib/FakeCuda/libcuda.so.1 \
# RUN:   MPRT_NCCL_LIBRARY=%mpcomm_obj_root/test/lib/FakeNccl/FakeNccl/libnccl.so.2 \
# RUN:   %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session
#
# Sessions with programs for a GPU, on the fake CUDA driver and the fake NCCL: one rank, and two
# with messages over NCCL and through the host, have the losses of the program for the CPU. Where
# the device of one fails, both do.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys
import time

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

    def test_a_device_that_fails(self):
        """On rank 1 the n-th copy or allocation fails, for each n that there is: no rank waits for the other, and a
        session that was loaded stays failed."""
        program = build_cuda("cuda2.so", RANKS=2, BATCH=8)
        seen = set()
        for function in "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync":
            for n in range(1, 200):
                begin = time.monotonic()
                port = free_port()
                jobs = [subprocess.Popen([CLIENT, "device-fails", program], cwd=WORK, text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE,
                                         env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r),
                                              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                                              "MPFAKE_FAIL": "%s:%d:2" % (function, n) if r else ""})
                        for r in range(2)]  # fmt: skip
                lines = [job.communicate(timeout=120)[0].split() for job in jobs]
                self.assertEqual([job.returncode for job in jobs], [0, 0], (function, n, lines))
                self.assertLess(time.monotonic() - begin, 30, (function, n, lines))
                call, status, rank = lines[1]
                if call == "none":
                    break
                seen.add(call)
                self.assertEqual((status, rank, lines[0][2]), ("MPRT_OUT_OF_MEMORY", "1", "1"), (function, n, lines))
                self.assertNotEqual(lines[0][0], "none", (function, n))
            else:
                self.fail("%s never succeeded" % function)
        self.assertGreaterEqual(seen, {"load", "write", "step", "read_global", "save", "resume"})


if __name__ == "__main__":
    main()
