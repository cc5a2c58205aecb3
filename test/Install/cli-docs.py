# Man pages and completions are what --help says: for each manner of printing it, each
# option is in all three, with what it takes; text that looks like an option is none.

# RUN: %python %s %t %mpcomm_src_root %mpcomm_obj_root
import gzip
import os
import subprocess
import sys
import unittest

FOLDER, SOURCES, BUILD = sys.argv[1:]
SCRIPT = os.path.join(SOURCES, "tools/dev/cli_docs.py")

CLI11 = """\
Trains things. Run only what
you trust

Usage: tool-a [OPTIONS] [program]

Positionals:
  program FILE              what to run, or --np of it

Where it runs:
  --np N                    ranks; with many,
                            --comm counts
  --comm shm|mpi            a communicator
  --set NAME=X              a value; may be repeated
  -h,--help                 print this text

Ways to start it:
  tool-a step.so \\\\
      --false 3

Exit status: 0 success, 1 failure.
"""
LLVM = """\
OVERVIEW: tool-b: compiles things

Options of others are taken too:
--false-one, ...

USAGE: tool-b [options] <step.mlir>

OPTIONS:

Generic Options:

  --help                    - Display (--help-hidden for more)

tool-b options:

  --emit=<value>            - What to write
    =so                     -   a program
    =obj                    -   an object
  -o <file>                 - Where
  --options=<key=value ...> - Options - all of them
      --pass                -   A pass
        --false-two=<long>  - An option of the pass
"""
ARGPARSE = """\
usage: tool-c [-h] [-o FILE]
              model

tool-c: writes things.

positional arguments:
  model                 a file

options:
  -h, --help            show this
  -O NAME=VALUE, --option NAME=VALUE
                        an option of it's
  --kind {a,b}          a kind

optimizer:
  replaces things

  --lr LR
"""


def make(name, text):
    path = os.path.join(FOLDER, "bin", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("#!/bin/sh\ncat <<'END'\n%sEND\n" % text.replace("\\\\", "\\"))
    os.chmod(path, 0o755)
    return path


def read(path):
    path = os.path.join(FOLDER, path)
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        return file.read()


class CliDocs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tools = [make("tool-a", CLI11), make("tool-b", LLVM), make("tool-c", ARGPARSE)]
        subprocess.run([sys.executable, SCRIPT, "--output", FOLDER, "--version", "1.2", *tools],
                       check=True)  # fmt: skip

    def man(self, name):
        return read("man/man1/%s.1.gz" % name).replace("\\-", "-")

    def flags(self, name):
        text = read("bash-completion/completions/" + name)
        return text.split("\n    COMPREPLY=($(compgen -W '")[1].split("'")[0].split()

    def test_flags(self):
        for name, flags in [
            ("tool-a", "--np --comm --set -h --help"),
            ("tool-b", "--help --emit -o --options"),
            ("tool-c", "-h --help -O --option --kind --lr"),
        ]:
            with self.subTest(name):
                self.assertEqual(self.flags(name), flags.split())
                zsh = read("zsh/_" + name)
                for flag in flags.split():
                    self.assertIn(flag, self.man(name))
                    self.assertRegex(zsh, "'[^[]*(?<![a-z-])%s=?\\[" % flag)
                self.assertNotRegex(zsh, r"--false[a-z-]*=?\[")

    def test_values(self):
        a, b = (read("bash-completion/completions/tool-" + x) for x in "ab")
        self.assertIn("--comm) COMPREPLY=($(compgen -W 'shm mpi'", a)
        self.assertIn("--np|--set) :;", a)
        self.assertIn("--emit) COMPREPLY=($(compgen -W 'so obj'", b)
        self.assertIn("-o) _filedir;", b)
        self.assertIn("'--emit=[What to write. so\\: a program. obj\\: an object.]:value:(so obj)'",
                      read("zsh/_tool-b"))  # fmt: skip
        self.assertIn("'*--set=[a value; may be repeated]:NAME=X: '", read("zsh/_tool-a"))
        self.assertIn("it'\\''s", read("zsh/_tool-c"))

    def test_pages(self):
        a, b, c = (self.man("tool-" + x) for x in "abc")
        self.assertIn("tool-a - trains things\n", a)
        self.assertIn("\n.nf\n  tool-a step.so \\e\n      --false 3\n.fi\n", a)
        self.assertIn(".SH EXIT STATUS\n0 success, 1 failure.\n", a)
        self.assertIn("ranks; with many, --comm counts\n", a)
        self.assertIn("tool-b - compiles things\n", b)
        self.assertIn("Options - all of them\n", b)
        self.assertIn(".SH SYNOPSIS\ntool-c [-h] [-o FILE] model\n", c)
        self.assertIn(".SS optimizer\n", c)

    def test_of_the_tools(self):
        for name in os.listdir(os.path.join(BUILD, "bin")):
            path = os.path.join(BUILD, "bin", name)
            if name not in ("mpcomm-run", "mpcomm-checkpoint", "mpcomm-compile", "mpcomm-report", "mpcomm-sim"):
                continue
            with self.subTest(name):
                subprocess.run([sys.executable, SCRIPT, "--output", FOLDER, "--version", "1.2",
                                path], check=True)  # fmt: skip
                self.assertGreater(len(self.flags(name)), 4)
                self.assertIn("--help", self.flags(name))
                self.assertIn("%s - " % name, self.man(name))

    def test_a_tool_without_options_is_an_error(self):
        done = subprocess.run([sys.executable, SCRIPT, "--output", FOLDER, "--version", "1",
                               make("tool-d", "what\n")], stderr=subprocess.PIPE)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"found no options in what", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
