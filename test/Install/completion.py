# What bash and zsh complete for mpcomm-run, asked as users ask: by the tabulator.

# REQUIRES: bash-completion, zsh
# RUN: rm -rf %t
# RUN: %python %mpcomm_src_root/tools/dev/cli_docs.py --output %t --version 1 %mpcomm-run
# RUN: %python %s %t
import os
import pty
import re
import select
import subprocess
import sys
import time
import unittest

FOLDER = sys.argv[1]

ASK_BASH = r"""
source /usr/share/bash-completion/bash_completion
source "$1/bash-completion/completions/mpcomm-run"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
COMP_LINE=${COMP_LINE/ = /=} COMP_POINT=${#COMP_LINE}
_mpcomm_run
printf '%s\n' "${COMPREPLY[@]}"
"""


class Bash(unittest.TestCase):
    def ask(self, *words):
        return subprocess.run(
            ["bash", "--norc", "-c", ASK_BASH, "bash", FOLDER, "mpcomm-run", *words],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=FOLDER,
        ).stdout.split()  # fmt: skip

    def test_options(self):
        self.assertEqual(self.ask("--com"), ["--comm", "--compile-options"])

    def test_values(self):
        self.assertEqual(self.ask("--comm", "s"), ["shm"])
        self.assertEqual(self.ask("--comm", "=", "g"), ["gloo"])
        self.assertEqual(self.ask("--np", ""), [])

    def test_files(self):
        self.assertEqual(self.ask("--data", "ba"), ["bash-completion"])
        self.assertEqual(self.ask("ba"), ["bash-completion"])


class Zsh(unittest.TestCase):
    def ask(self, line):
        """The command line after the tabulator, which ^X prints."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvp("zsh", ["zsh", "-f", "-i"])
        try:
            self.send(terminal, "fpath=(%s/zsh $fpath); autoload -U compinit; compinit -D -u; "
                      "show() { print -r \"[$BUFFER]\" }; zle -N show; bindkey '^X' show; "
                      "PS1='rea''dy: '\n" % FOLDER, "ready: ")  # fmt: skip
            return self.send(terminal, line + "\t\x18", r"\[(.*?)\]")
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)

    def send(self, terminal, text, pattern):
        os.write(terminal, text.encode())
        seen, end = "", time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")
            found = re.findall(pattern, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen))
            if found:
                return found[-1]
        raise AssertionError("expected %s of zsh, found %r" % (pattern, seen))

    def test_options(self):
        self.assertIn("--flight-record", self.ask("mpcomm-run --flight-r"))

    def test_values(self):
        self.assertIn("--comm=gloo", self.ask("mpcomm-run --comm=g"))
        self.assertIn("--comm gloo", self.ask("mpcomm-run --comm g"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
