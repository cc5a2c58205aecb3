# The help of the tools that are MLIR's is the project's: short, without MLIR's passes; what it
# lists the tools take. --version names the project first.
# RUN: %python %s mpcomm-opt mpcomm-reduce mpcomm-lsp-server %mpcomm-compile mpcomm-sim

import re
import subprocess
import sys
import unittest

OPT, REDUCE, LSP, *OTHERS = sys.argv[1:]


def call(*command, status=0):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != status:
        raise AssertionError("%s: status %d\n%s" % (command, done.returncode, done.stderr))
    return done.stdout or done.stderr


def options(text):
    """The names of options in a text, of the lines before the lists of passes."""
    return set(re.findall(r"(?m)(?:^  |, )(-{1,2}[a-z][\w-]*)", text.split("\nPipelines:")[0]))


class Help(unittest.TestCase):
    def check(self, tool, most):
        text = call(tool, "--help")
        self.assertEqual(text, call(tool, "-h"))
        self.assertLessEqual(len(text.splitlines()), most)
        self.assertLessEqual(max(map(len, text.splitlines())), 160)
        self.assertNotIn("aarch64", text)
        # Nothing that the tool would not take.
        hidden = call(tool, "--help-hidden")
        for option in options(text) - {"--help-hidden"}:
            self.assertRegex(hidden, r"(?m)^ *%s\b" % re.escape(option))
        return text

    def test_opt(self):
        text = self.check(OPT, 150)
        self.assertRegex(text, r"(?m)^  --mpcomm-compile +The whole way")
        self.assertRegex(text, r"(?m)^  --mpcomm-data-parallel +\S")
        self.assertRegex(text, r"(?m)^  --convert-mpcomm-to-linalg +\S")
        self.assertNotRegex(text, r"(?m)^  --(canonicalize|convert-scf-to-cf)\b")

    def test_reduce(self):
        self.assertIn("--reduction-tree", self.check(REDUCE, 150))

    def test_lsp(self):
        self.check(LSP, 20)

    def test_one_pass(self):
        text = call(OPT, "--help=mpcomm-data-parallel")
        self.assertRegex(text, r"--size=<\w+>")
        self.assertNotIn("mpcomm-make-async", text)
        self.assertIn("--micro-batches=", call(OPT, "--help=mpcomm-compile"))
        for name in "mpcomm-make-async", "mpcomm-verify-rank-programs", "cse":  # without options
            self.assertRegex(call(OPT, "--help=" + name), r"\A  --%s +- [^\n]+\n\Z" % name)
        self.assertEqual(call(OPT, "--help=mpcomm-compil", status=1),
                         "mpcomm-opt: error: no pass or pipeline 'mpcomm-compil', did you mean "
                         "'mpcomm-compile'?\n")

    def test_version(self):
        for tool in OPT, REDUCE, LSP, *OTHERS:
            self.assertRegex(call(tool, "--version"),
                             r"^mpcomm-[a-z-]+ \d+\.\d+\.\d+, ABI \d+, MLIR \d+\.\d+\.\d+\n$")


unittest.main(argv=sys.argv[:1])
