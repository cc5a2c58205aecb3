# RUN: %python %s %mpcomm_src_root %t.dir
#
# What check.sh and quickstart.sh do before they build: arguments, folders, and
# packages on machines where nothing can be installed. Nothing is installed here:
# the programs that would are replaced.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import shutil
import subprocess
import sys
import unittest

ROOT, WORK = sys.argv[1:3]
ALL_HERE = "echo installed"
NONE_HERE = "exit 1"


class Scripts(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)
        self.tree = self.copy(os.path.join(WORK, "tree"))

    def copy(self, folder):
        """The scripts in a tree of their own, and what they call replaced."""
        shutil.copytree(os.path.join(ROOT, "tools/dev"), os.path.join(folder, "tools/dev"))
        self.bin = os.path.join(folder, "fake")
        os.makedirs(self.bin)
        for name in "bash awk cat dirname env grep id mkdir nproc python3 sed sh rm".split():
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        self.fake("apt-get", 'echo "apt-get $*" >> %s/called' % WORK)
        self.fake("cmake", 'echo "cmake $*" >> %s/called; exit 1' % WORK)
        self.packages(ALL_HERE)
        return folder

    def fake(self, name, body):
        path = os.path.join(self.bin, name)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n%s\n" % body)
        os.chmod(path, 0o755)

    def packages(self, body):
        self.fake("dpkg-query", body)

    def run_script(self, command, cwd=None):
        done = subprocess.run(
            ["bash", "-c", command], cwd=cwd or self.tree, env={"PATH": self.bin, "HOME": WORK},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip
        called = os.path.join(WORK, "called")
        self.called = ""
        if os.path.exists(called):
            with open(called) as file:
                self.called = file.read()
        return done.returncode, done.stdout.decode()

    def test_build_folders(self):
        # Relative to where the user is, which need not be the root.
        os.makedirs(os.path.join(self.tree, "some/where"))
        here = os.path.join(self.tree, "some/where")
        built = os.path.realpath(os.path.join(self.tree, "some/b"))
        for script in "check.sh", "quickstart.sh":
            for argument in "--build-dir ../b", "--build-dir=../b":
                with self.subTest(script=script, argument=argument):
                    code, out = self.run_script("../../tools/dev/%s %s" % (script, argument), here)
                    self.assertEqual(code, 1)
                    self.assertIn(" -B %s" % built, self.called, out)
                    self.assertTrue(os.path.isdir(built))
                    os.unlink(os.path.join(WORK, "called"))

    def test_numbers_with_equals_signs(self):
        code, out = self.run_script("tools/dev/quickstart.sh --steps=7")
        self.assertEqual(code, 1)
        self.assertIn("--steps: expected a number from 60", out)
        code, out = self.run_script("tools/dev/quickstart.sh --stops=7")
        self.assertIn("unknown argument '--stops'", out)

    def test_white_space(self):
        spaced = self.copy(os.path.join(WORK, "a tree"))
        for script in "check.sh", "quickstart.sh":
            code, out = self.run_script("tools/dev/" + script, spaced)
            self.assertEqual(code, 1)
            self.assertIn("error: white space in the path of the sources", out)
            self.assertEqual(self.called, "")
        code, out = self.run_script("tools/dev/check.sh --build-dir 'a build'")
        self.assertIn("error: white space", out)

    def install(self, user):
        self.fake("id", "echo %d" % user)
        return self.run_script(". tools/dev/common.sh; install_packages; echo went on")

    def test_all_is_there(self):
        code, out = self.install(1000)
        self.assertEqual(code, 0, out)
        self.assertIn("all of tools/dev/packages.txt are installed", out)
        self.assertEqual(self.called, "")

    def test_optional_without_root(self):
        # What can be left out is left out.
        self.packages('case "$*" in *ccache*) exit 1 ;; *) echo installed ;; esac')
        code, out = self.install(1000)
        self.assertEqual(code, 0, out)
        self.assertIn("not root and no sudo", out)
        self.assertIn("ccache cannot be installed; its tests will be skipped", out)
        self.assertIn("went on", out)
        self.assertEqual(self.called, "")

    def test_required_without_root(self):
        self.packages('case "$*" in *cmake*) exit 1 ;; *) echo installed ;; esac')
        code, out = self.install(1000)
        self.assertEqual(code, 1, out)
        self.assertIn("error: cannot install cmake: install them by hand", out)
        self.assertNotIn("went on", out)

    def test_root_installs(self):
        self.packages(NONE_HERE)
        code, out = self.install(0)
        self.assertEqual(code, 0, out)
        self.assertIn("apt-get -qq -y update", self.called)
        self.assertIn("cmake", self.called)
        self.assertIn("ccache", self.called)

    def test_not_debian(self):
        os.unlink(os.path.join(self.bin, "dpkg-query"))
        code, out = self.install(0)
        self.assertEqual(code, 1)
        name = out.split('"')[1]
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            self.assertIn("## " + name, file.read())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
