# What mpcomm-compile and mpcomm-sim say of command lines that they do not take: the option,
# what was expected, what was found, and what may have been meant. Status 1, nothing printed
# to stdout and nothing written.
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %mpcomm-compile %mpcomm-sim %t/step.so

import os
import subprocess
import sys
import unittest

COMPILE, SIM, OUTPUT = sys.argv[1:]


class CommandLine(unittest.TestCase):
    def refused(self, tool, message, *arguments):
        done = subprocess.run([tool, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)
        expected = "%s: error: %s\n" % (os.path.basename(tool), message)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", expected))
        self.assertFalse(os.path.exists(OUTPUT))

    def compile(self, message, *arguments):
        self.refused(COMPILE, message, "step.mlir", "-o", OUTPUT, *arguments)

    def test_unknown_options(self):
        self.compile("unknown option --optins, did you mean '--options'?", "--optins=mesh=dp:2")
        self.compile("unknown option --reprot, did you mean '--report'?", "--reprot")
        self.compile("unknown option -quite-another", "-quite-another")
        self.compile('unknown option --mesh, expected as --options="mesh=..."', "--mesh=dp:2")
        self.compile('unknown option --micro-batches, expected as --options="micro-batches=..."',
                     "--micro-batches", "2")
        self.compile("--options: no option 'meh', did you mean 'mesh'?", "--options=meh=dp:2")
        self.refused(SIM, "unknown option --rank, did you mean '--ranks'?", "--rank=2")

    def test_values(self):
        self.compile("expected so, obj, llvm or mlir for --emit, got 'llvmir', did you mean "
                     "'llvm'?", "--emit=llvmir")
        self.compile("expected graph or programs for --from, got 'x'", "--from", "x")
        self.compile("expected an integer for --np, got 'two'", "--np=two")
        self.compile("expected an integer for --np, got '2147483648'", "--np=2147483648")
        self.compile("expected a natural number for -O, got 'fast'", "-Ofast")
        self.compile("expected true or false for --report, got 'yes'", "--report=yes")
        self.compile("expected a value for --np", "--np")
        self.compile("expected --np of at least 1", "--np", "-1")
        self.refused(SIM, "expected fluid or simgrid for --backend, got 'fluids', did you mean "
                     "'fluid'?", "--backend=fluids")

    def test_how_often(self):
        self.compile("expected --np once", "--np=2", "--np=4")
        self.compile("expected -o once", "-o", "other.so")
        self.refused(COMPILE, "expected a training graph, as in mpcomm-compile step.mlir -o step.so")
        self.refused(COMPILE, "expected the file to write, as in -o step.so", "step.mlir")

    def test_what_is_taken(self):
        for arguments in ["-O3"], ["-O", "3"], ["--O=3"], ["--report"], ["-report=1"], ["--"]:
            done = subprocess.run([COMPILE, "-o", OUTPUT, "--mlir-timing", *arguments, "none.mlir"],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertIn("cannot open input file 'none.mlir'", done.stderr, arguments)


unittest.main(argv=sys.argv[:1])
