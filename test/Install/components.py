# Each component of an installation holds what it should and nothing twice; with the
# runtime's two alone, others' projects build by CMake and by pkg-config and load a
# compiled program; the runtime is small and needs no LLVM. (Others' projects are built plainly, without the symbols that sanitizers give
# a program.)

# REQUIRES: compiler, pkg-config
# UNSUPPORTED: sanitizer
# RUN: %python %s %t %mpcomm_obj_root %cmake %cc
import collections
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "..", "..")
FOLDER, BUILD, CMAKE, CC = sys.argv[1:]
COMPONENTS = ["runtime", "runtime-dnnl", "runtime-mpi", "runtime-gloo", "runtime-dev", "compiler",
              "compiler-dev", "python", "doc"]  # fmt: skip
# Of docs/examples/linear.mlir: f32, 4x2 and 2.
STATE = "weight: 32 bytes\nbias: 8 bytes\n"


def install(name, *components):
    """An installation in FOLDER/name; without components, of everything."""
    prefix = os.path.join(FOLDER, name)
    for component in components or [None]:
        subprocess.run(
            [CMAKE, "--install", BUILD, "--prefix", prefix]
            + (["--component", component] if component else []),
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return prefix


def files(prefix):
    return {
        os.path.relpath(os.path.join(folder, name), prefix)
        for folder, _, names in os.walk(prefix)
        for name in names
    }


def run(*command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **kwargs)  # fmt: skip
    if done.returncode:
        raise AssertionError("%s: status %d\n%s" % (command, done.returncode, done.stdout))
    return done.stdout


class Components(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)
        cls.parts = {name: install(name, name) for name in COMPONENTS}
        cls.step = os.path.join(FOLDER, "step.so")
        linear = os.path.join(SOURCES, "docs", "examples", "linear.mlir")
        run(os.path.join(cls.parts["compiler"], "bin/mpcomm-compile"), linear, "-o", cls.step,
            "--np", "1")  # fmt: skip

    def test_every_file_is_in_one_component(self):
        counts = collections.Counter(f for part in self.parts.values() for f in files(part))
        self.assertEqual([f for f, n in counts.items() if n > 1], [])
        self.assertEqual(set(counts), files(install("everything")))

    def test_the_runtime_is_small(self):
        size = sum(
            os.path.getsize(os.path.join(self.parts["runtime"], f))
            for f in files(self.parts["runtime"])
        )
        self.assertLess(size, 10e6)
        tool = os.path.join(self.parts["runtime"], "bin/mpcomm-run")
        self.assertIn("mpcomm-run 0.1", run(tool, "--version"))
        needs = run("ldd", tool)
        self.assertNotIn("not found", needs)
        for library in "LLVM", "MLIR", "dnnl", "mpi", "gloo":
            self.assertNotIn(library, needs)

    def test_documentation(self):
        found = files(self.parts["doc"])
        for name in "README.md", "LICENSE", "docs/index.md", "docs/examples/gpt.py":
            self.assertIn("share/doc/mpcomm/" + name, found)

    def test_find_package(self):
        prefix = install("runtime-only", "runtime", "runtime-dev")
        project = os.path.join(FOLDER, "project")
        run(CMAKE, "-G", "Ninja", "-S", os.path.join(HERE, "Inputs", "program"), "-B", project,
            "-DCMAKE_PREFIX_PATH=" + prefix, "-DCMAKE_C_COMPILER=" + CC)  # fmt: skip
        run(CMAKE, "--build", project)
        self.assertEqual(run(os.path.join(project, "list-state"), self.step), STATE)
        self.assertEqual(run(os.path.join(project, "load-program"), self.step),
                         "a program of ABI %s\n" % self.abi(prefix))  # fmt: skip

    def test_find_package_says_what_is_not_installed(self):
        prefix = install("runtime-only", "runtime", "runtime-dev")
        project = os.path.join(FOLDER, "consumer")
        with self.assertRaisesRegex(AssertionError, "not\\s+installed:\\s+Compiler"):
            run(CMAKE, "-G", "Ninja", "-S", os.path.join(HERE, "Inputs", "consumer"), "-B",
                project, "-DCMAKE_PREFIX_PATH=" + prefix)  # fmt: skip

    def test_pkg_config(self):
        # Also in a folder that was moved after the installation.
        prefix = install("moved-from", "runtime", "runtime-dev")
        moved = os.path.join(FOLDER, "moved")
        os.rename(prefix, moved)
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(moved, "lib/pkgconfig"))
        library = dict(os.environ, LD_LIBRARY_PATH=os.path.join(moved, "lib"))
        for name, package, output in [
            ("list-state", "mpcomm-session", STATE),
            ("load-program", "mpcomm-runtime", "a program of ABI %s\n" % self.abi(moved)),
        ]:
            flags = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
            program = os.path.join(FOLDER, name)
            run(CC, os.path.join(HERE, "Inputs/program", name + ".c"), "-o", program, *flags,
                "-ldl")  # fmt: skip
            self.assertEqual(run(program, self.step, env=library), output)

    def abi(self, prefix):
        """The version in the name of the library, which is that of the header."""
        (name,) = [f for f in files(prefix) if f.startswith("lib/libMPCommRuntime.so.")]
        return name.rsplit(".", 1)[1]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
