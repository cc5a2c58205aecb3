#!/usr/bin/env python3
# ===- wheel.py - a wheel with the compiler and the runtime in it ----------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Makes a wheel of the Python package with the tools and libraries of a build inside:
those that the components `compiler` and `runtime` install, the linker lld, and by
auditwheel what they are linked with (LLVM, MLIR, oneDNN, Gloo; not MPI, which has to be
the machine's own).

Needs the modules setuptools, wheel and auditwheel, and patchelf.
"""

import argparse
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = "lib/Bindings/Python"
COMPONENTS = ["runtime", "runtime-dnnl", "runtime-gloo", "runtime-mpi", "compiler"]
# Commands of the wheel, all that the package starts; the other tools on IR come with an
# installation.
TOOLS = ["mpcomm-run", "mpcomm-compile", "mpcomm-opt"]
# A package of its own: to import mpcomm takes NumPy, and time.
COMMANDS = '''"""Becomes the program of mpcomm/bin that has the name of the command."""
import os
import sys


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(root, "mpcomm", "bin", os.path.basename(sys.argv[0]))
    os.execv(path, [path, *sys.argv[1:]])
'''


def run(*command, **kwargs):
    done = subprocess.run(command, **kwargs)
    if done.returncode:
        sys.exit("wheel.py: error: '%s' ended with status %d"
                 % (" ".join(command), done.returncode))  # fmt: skip


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def stage(folder, build, cmake):
    """The sources of the wheel: the package's own, and what is built in bin/ and lib/."""
    shutil.rmtree(folder, ignore_errors=True)
    prefix = os.path.join(folder, "prefix")
    for component in COMPONENTS:
        run(cmake, "--install", build, "--prefix", prefix, "--component", component, "--strip",
            stdout=subprocess.DEVNULL)  # fmt: skip
    for part in PACKAGE, "tools/mpcomm-import":
        shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part),
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    package = os.path.join(folder, PACKAGE)
    for pattern in [*(f"bin/{tool}" for tool in TOOLS), "lib/lib*.so*"]:
        found = glob.glob(os.path.join(prefix, pattern))
        if not found:
            sys.exit("wheel.py: error: the installation has no %s" % pattern)
        for path in found:
            target = os.path.join(package, "mpcomm", os.path.relpath(path, prefix))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(path, target)
    # mpcomm-compile links programs by what is beside it or in PATH.
    linker = shutil.which("ld.lld-22") or shutil.which("ld.lld")
    if not linker:
        sys.exit("wheel.py: error: found no ld.lld in PATH (Debian: lld-22)")
    shutil.copy(linker, os.path.join(package, "mpcomm", "bin", "ld.lld"))
    os.mkdir(os.path.join(package, "mpcomm_commands"))
    write(os.path.join(package, "mpcomm_commands", "__init__.py"), COMMANDS)
    project = os.path.join(package, "pyproject.toml")
    with open(project, encoding="utf-8") as file:
        text = file.read()
    section = "[project.scripts]\n"
    if section not in text:
        sys.exit("wheel.py: error: expected %s in %s" % (section.strip(), project))
    commands = "".join(f'{tool} = "mpcomm_commands:main"\n' for tool in TOOLS)
    write(project, text.replace(section, section + commands))
    # Nothing of it is compiled for one Python.
    write(os.path.join(package, "setup.cfg"), "[bdist_wheel]\nplat_name = %s\n"
          % sysconfig.get_platform().replace("-", "_"))  # fmt: skip
    return package


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True, metavar="FOLDER", help="build of mpcomm")
    p.add_argument("--cmake", default="cmake", metavar="FILE", help="CMake's command")
    p.add_argument("--output", required=True, metavar="FOLDER", help="where the wheel is put")
    arguments = p.parse_args()
    for module in "setuptools", "wheel", "auditwheel":
        if not importlib.util.find_spec(module):
            sys.exit("wheel.py: error: %s has no module %s" % (sys.executable, module))
    if not os.path.exists(os.path.join(ROOT, PACKAGE, "pyproject.toml")):
        sys.exit("wheel.py: error: there is no Python package in %s" % PACKAGE)
    build = os.path.abspath(arguments.build)
    work = os.path.join(build, "wheel")
    package = stage(work, build, arguments.cmake)
    plain = os.path.join(work, "plain")
    run(sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", "--no-build-isolation",
        "--wheel-dir", plain, package)  # fmt: skip
    run(sys.executable, "-m", "auditwheel", "repair", "--exclude", "libmpi.so.*",
        "--wheel-dir", arguments.output, *glob.glob(os.path.join(plain, "*.whl")),
        env={**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep
             + os.environ["PATH"]})  # fmt: skip
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
