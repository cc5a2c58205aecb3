# Ranks that need the same program compile it once: one of them does, the others wait for it.
# Whatever else is asked for is compiled; a process that is killed leaves nothing that is
# half-written, and the next one compiles.
#
# REQUIRES: numpy, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %mpcomm_src_root

import glob
import os
import shutil
import signal
import subprocess
import sys
import time

import mpcomm
from mpcomm import cache, tools

FOLDER, ROOT = sys.argv[1:3]
GRAPH = os.path.join(ROOT, "docs", "examples", "linear.mlir")
PATIENCE = 300  # seconds, on however busy a machine
# Stands for mpcomm-compile: counts its calls, and is slow or never done where a file says so.
SCRIPT = f"""#!/bin/sh
echo $$ >> {FOLDER}/calls
[ -e {FOLDER}/slow ] && sleep 2
[ -e {FOLDER}/hang ] && exec sleep {PATIENCE}
exec {tools.find_tool("mpcomm-compile")} "$@"
"""
os.environ["MPCOMM_CACHE_DIR"] = where = os.path.join(FOLDER, "cache")
found = tools.find_tool
tools.find_tool = lambda name: os.path.join(FOLDER, "compiler") if name == "mpcomm-compile" \
    else found(name)


def calls():
    """Process ids of the compilers that ran since the last call."""
    path = os.path.join(FOLDER, "calls")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        lines = file.read().split()
    os.unlink(path)
    return [int(line) for line in lines]


def kept(kind="so"):
    return sorted(glob.glob(os.path.join(where, "*." + kind)))


def compiled(options):
    """The bytes of a program, or what is wrong with it."""
    try:
        program = mpcomm.compile(GRAPH, **options)
    except mpcomm.CompileError as error:
        return str(error)
    with open(program.path, "rb") as file:
        return file.read()


def refused(words, **options):
    try:
        mpcomm.compile(GRAPH, **options)
    except mpcomm.Error as error:
        assert all(word in str(error) for word in words), error
        return
    sys.exit(f"expected an error with {words}")


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def other_process(**environment):
    """Compiles in a process of its own, as another rank does."""
    return subprocess.Popen([sys.executable, __file__, FOLDER, ROOT, "compile"],
                            env={**os.environ, **environment}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    with open(os.path.join(FOLDER, "compiler"), "w") as file:
        file.write(SCRIPT)
    os.chmod(file.name, 0o755)

    # --- four ranks, one compiler; and none the next time ---

    slow, hang = (os.path.join(FOLDER, name) for name in ("slow", "hang"))
    open(slow, "w").close()
    programs = mpcomm.launch(compiled, np=4, args=({"mesh": "dp:4"},))
    assert len(set(programs)) == 1 and programs[0][:4] == b"\x7fELF"
    assert len(calls()) == 1 and len(kept()) == 1 and not kept("part")
    assert compiled({"mesh": "dp:4"}) == programs[0] and not calls()

    # --- an error is that of all who wait for it; who comes later tries again ---

    errors = mpcomm.launch(compiled, np=2, args=({"mesh": "dp:2", "cluster": "atlantis"},))
    assert errors[0] == errors[1] and "atlantis" in errors[0], errors
    assert len(calls()) == 1 and len(kept()) == 1
    os.unlink(slow)
    refused(["atlantis"], mesh="dp:2", cluster="atlantis")
    assert len(calls()) == 1

    # --- options, files that they name, the compiler itself: all make a difference ---

    policy = os.path.join(FOLDER, "policy.json")
    for rule in "bf16", "f16":
        with open(policy, "w") as file:
            file.write('{"schema": "mpcomm-precision-1", "policy": "%s"}' % rule)
        for _ in range(2):
            compiled({"precision_file": policy})
        assert len(calls()) == 1, rule
    compiled({"cpu": "x86-64-v3"})
    assert len(calls()) == 1
    os.utime(os.path.join(FOLDER, "compiler"), ns=(1, 1))
    assert compiled({"mesh": "dp:4"}) == programs[0]
    assert len(calls()) == 1

    # --- killed while it compiles: nothing is left, and the one that waits compiles ---

    shutil.rmtree(where)
    open(hang, "w").close()
    first = other_process()
    until(lambda: os.path.exists(os.path.join(FOLDER, "calls")))
    compiler, = calls()
    second = other_process()
    late = other_process(MPCOMM_COMPILE_TIMEOUT="0.1")
    said = late.communicate()[0]
    assert late.returncode == 1 and f"process {first.pid}" in said, said
    assert "MPCOMM_COMPILE_TIMEOUT" in said, said
    assert not calls() and not kept()
    os.unlink(hang)
    first.kill()
    said = second.communicate()[0]
    assert second.returncode == 0, said
    os.kill(compiler, signal.SIGKILL)
    first.communicate()
    assert len(calls()) == 1 and len(kept()) == 1 and not kept("part")

    # --- killed while it copies: half a copy is not taken for a program ---

    program, = kept()
    os.rename(program, program + cache.PART)
    os.truncate(program + cache.PART, 1000)
    whole = compiled({})
    assert len(calls()) == 1 and len(whole) > 1000 and not kept("part")
    with open(program, "rb") as file:
        assert file.read() == whole

    # --- what has not been used for longest goes ---

    cache.MOST_ENTRIES = 2
    for ranks in 2, 3, 4:
        compiled({"mesh": f"dp:{ranks}"})
    assert len(kept()) == len(kept("lock")) == 2 and program not in kept()
    assert len(calls()) == 3
    compiled({"mesh": "dp:3"})
    assert not calls()
    sizes = [os.stat(p).st_size for p in kept()]
    cache.MOST_BYTES = sum(sizes) - 1
    compiled({"mesh": "dp:3"})
    assert len(kept()) == 1 and not calls()

    # --- where programs come from ---

    target = os.path.join(FOLDER, "none", "step.so")
    refused([target, "No such file"], mesh="dp:3", output=target)
    os.chmod(where, 0o770)
    refused([where, "nobody else can write"], mesh="dp:3")
    os.chmod(where, 0o700)
    os.environ["MPCOMM_COMPILE_TIMEOUT"] = "soon"
    refused(["MPCOMM_COMPILE_TIMEOUT", "soon"], mesh="dp:3")
    del os.environ["MPCOMM_COMPILE_TIMEOUT"]
    os.environ["MPCOMM_CACHE_DIR"] = policy
    refused(["MPCOMM_CACHE_DIR", policy], mesh="dp:3")
    os.environ["MPCOMM_CACHE_DIR"] = ""
    assert not calls()
    for _ in range(2):
        compiled({"mesh": "dp:3"})
    assert len(calls()) == 2
    del os.environ["MPCOMM_CACHE_DIR"]
    os.environ["XDG_CACHE_HOME"] = FOLDER
    compiled({"mesh": "dp:3"})
    assert len(glob.glob(os.path.join(FOLDER, "mpcomm", "*.so"))) == 1
    assert os.stat(os.path.join(FOLDER, "mpcomm")).st_mode & 0o777 == 0o700


if __name__ == "__main__":
    if len(sys.argv) > 3:
        mpcomm.compile(GRAPH)
    else:
        main()
