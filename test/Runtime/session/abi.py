# REQUIRES: abidiff
# RUN: %python %s %cc %mpcomm_src_root %shlibdir %t.dir
#
# The interface of libmpcomm_session.so is the one that is recorded in Inputs/session.abi for its
# SOVERSION, and the library exports what Session.h declares and nothing else. After a change that
# is meant, MPCOMM_RECORD_ABI=1 records the interface.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import re
import shutil
import subprocess
import sys

CC, ROOT, LIBRARIES, WORK = sys.argv[1:5]
RECORD = os.path.join(ROOT, "test/Runtime/session/Inputs/session.abi")


def contents(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


header = re.sub(r"/\*.*?\*/", "", contents("include/mpcomm/Runtime/Session.h"), flags=re.S)
declarations = re.findall(r"^MPCOMM_SESSION_API\s+([^;]+);", header, flags=re.M)
number = re.search(r"define MPCOMM_SESSION_ABI (\d+)u", header).group(1)
if "SOVERSION %s " % number not in contents("runtime/CMakeLists.txt"):
    sys.exit("runtime/CMakeLists.txt: expected SOVERSION %s, which is MPCOMM_SESSION_ABI" % number)

library = os.path.join(LIBRARIES, "libmpcomm_session.so.%s" % number)
symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
exported = {line.split()[2] for line in symbols.splitlines()}
declared = {re.search(r"(\w+)\(", text).group(1) for text in declarations}
if exported != declared:
    sys.exit("exported and not declared: %s; declared and not exported: %s"
             % (sorted(exported - declared), sorted(declared - exported)))  # fmt: skip

# A library of the same interface, with the types as debug information and no insides.
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
source, hollow = os.path.join(WORK, "hollow.c"), os.path.join(WORK, "hollow.so")
with open(source, "w", encoding="utf-8") as file:
    file.write('#include "mpcomm/Runtime/Session.h"\n')
    file.writelines("%s { __builtin_trap(); }\n" % text for text in declarations)
# By its name alone, which is what the record then has.
subprocess.run([CC, "-std=c11", "-g", "-O0", "-fPIC", "-shared", "-I" + os.path.join(ROOT, "include"), "hollow.c",
                "-o", "hollow.so"], cwd=WORK, check=True)  # fmt: skip
if os.environ.get("MPCOMM_RECORD_ABI"):
    os.makedirs(os.path.dirname(RECORD), exist_ok=True)
    subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--no-write-default-sizes",
                    "--out-file", RECORD, hollow], check=True)  # fmt: skip
sys.exit(subprocess.run(["abidiff", "--no-added-syms", RECORD, hollow]).returncode)
