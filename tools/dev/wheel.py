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
the machine's own). The licences of all of it are in the wheel, too: those of libraries as
Debian's packages have them.

Needs the modules setuptools, wheel and auditwheel, and patchelf.
"""

import argparse
import glob
import importlib.util
import os
import re
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


def linker():
    path = shutil.which("ld.lld-22") or shutil.which("ld.lld")
    if not path:
        sys.exit("wheel.py: error: found no ld.lld in PATH (Debian: lld-22)")
    return path


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
    shutil.copy(linker(), os.path.join(package, "mpcomm", "bin", "ld.lld"))
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


def linked(files):
    """The shared libraries that programs and libraries load: {name: path}, also by the name
    of the file that a link leads to, which auditwheel takes."""
    result = {}
    for file in files:
        done = subprocess.run(["ldd", file], stdout=subprocess.PIPE, text=True, check=False)
        for name, path in re.findall(r"(\S+) => (/\S+)", done.stdout):
            result[name] = result[os.path.basename(os.path.realpath(path))] = path
    return result


def notice_of(path):
    """(name, file) of the copyright of the Debian package that a file is of."""
    real = os.path.realpath(path)
    for name in {path, real, path.removeprefix("/usr"), real.removeprefix("/usr")}:
        done = subprocess.run(["dpkg-query", "-S", name], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        package = done.stdout.split(":")[0]
        notice = "/usr/share/doc/%s/copyright" % package
        if package and os.path.exists(notice):
            return package, notice
    sys.exit("wheel.py: error: found no copyright of %s, expected it in a Debian package" % path)


def add_licences(wheel, libraries, work):
    """Puts what has to be with the wheel's contents into its licences."""
    run(sys.executable, "-m", "wheel", "unpack", "--dest", work, wheel, stdout=subprocess.DEVNULL)
    (folder,) = glob.glob(os.path.join(work, "mpcomm-*"))
    (info,) = glob.glob(os.path.join(folder, "*.dist-info"))
    target = os.path.join(info, "licenses")
    os.makedirs(target, exist_ok=True)
    shutil.copy(os.path.join(ROOT, "LICENSE"), target)
    # auditwheel puts a digest into names: libLLVM-0a1b2c3d.so.22.1.
    held = [re.sub(r"-[0-9a-f]{8}(?=\.)", "", os.path.basename(f))
            for f in glob.glob(os.path.join(folder, "*.libs", "*"))]  # fmt: skip
    for name in held:
        if name not in libraries:
            sys.exit("wheel.py: error: the wheel has %s, which nothing was linked with" % name)
    for path in [linker(), *(libraries[name] for name in held)]:
        package, notice = notice_of(path)
        shutil.copy(notice, os.path.join(target, package + ".txt"))
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", os.path.dirname(wheel), folder,
        stdout=subprocess.DEVNULL)  # fmt: skip
    print("licences: %s" % ", ".join(sorted(os.listdir(target))))


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
    own = [f for d in ("bin", "lib") for f in glob.glob(os.path.join(package, "mpcomm", d, "*"))]
    libraries = linked(own)
    plain, whole = os.path.join(work, "plain"), os.path.join(work, "whole")
    run(sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", "--no-build-isolation",
        "--wheel-dir", plain, package)  # fmt: skip
    run(sys.executable, "-m", "auditwheel", "repair", "--exclude", "libmpi.so.*",
        "--wheel-dir", whole, *glob.glob(os.path.join(plain, "*.whl")),
        env={**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep
             + os.environ["PATH"]})  # fmt: skip
    (wheel,) = glob.glob(os.path.join(whole, "*.whl"))
    add_licences(wheel, libraries, os.path.join(work, "licences"))
    os.makedirs(arguments.output, exist_ok=True)
    shutil.move(wheel, os.path.join(arguments.output, os.path.basename(wheel)))
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
