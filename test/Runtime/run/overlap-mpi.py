# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
# REQUIRES: mpi
#
# Over MPI, too, a collective makes progress while the program computes: as overlap.py.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from overlapping import *


class OverlapMpi(OverlapTest):
    def test_between_kernels(self):
        self.assertGreater(self.hidden_steps(self.program(400, 400), prefix=mpirun(2)), 0)

    def test_within_a_kernel(self):
        program = self.program(1, 400)
        self.assertEqual(self.hidden_steps(program, prefix=mpirun(2), progress="poll"), 0)
        self.assertGreater(self.hidden_steps(program, prefix=mpirun(2), progress="thread"), 0)


if __name__ == "__main__":
    main()
