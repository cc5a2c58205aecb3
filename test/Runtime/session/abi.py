# REQUIRES: abidiff
# RUN: %python %s %cxx %mpcomm_src_root %t.dir
#
# The interface of libmpcomm_session.so is the one that is recorded in Inputs/session.abi for its
# SOVERSION. Functions may be added; what is there may not change. After a change that is meant,
# with another MPCOMM_SESSION_ABI, `MPCOMM_RECORD_ABI=1` records the new one.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import re
import shutil
import subprocess
import sys

CXX, ROOT, WORK = sys.argv[1:4]
RECORD = os.path.join(ROOT, "test/Runtime/session/Inputs/session.abi")
HEADERS = os.path.join(ROOT, "include/mpcomm/Runtime")

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
library = os.path.join(WORK, "libmpcomm_session.so")
# With debug information, by which the types are known, whatever the build has.
subprocess.run([CXX, "-std=c++20", "-g", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", '-DMPCOMM_VERSION="0"',
                "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(ROOT, "runtime"),
                os.path.join(ROOT, "runtime/session/SessionABI.cpp"), "-o", library], check=True)  # fmt: skip
header = open(os.path.join(HEADERS, "Session.h"), encoding="utf-8").read()
number = re.search(r"define MPCOMM_SESSION_ABI (\d+)u", header).group(1)
cmake = open(os.path.join(ROOT, "runtime/CMakeLists.txt"), encoding="utf-8").read()
if "SOVERSION %s " % number not in cmake:
    sys.exit("runtime/CMakeLists.txt: expected SOVERSION %s, which is MPCOMM_SESSION_ABI" % number)
if os.environ.get("MPCOMM_RECORD_ABI"):
    subprocess.run(["abidw", "--headers-dir", HEADERS, "--drop-private-types", "--no-show-locs", "--no-corpus-path",
                    "--no-comp-dir-path", "--out-file", RECORD, library], check=True)  # fmt: skip
# Everything the header declares is there, and nothing else.
exported = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
exported = {line.split()[2] for line in exported.stdout.splitlines() if " T " in line}
declared = set(re.findall(r"\b(mpcomm_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
if exported != declared:
    sys.exit("exported and not declared: %s; declared and not exported: %s"
             % (sorted(exported - declared), sorted(declared - exported)))  # fmt: skip
sys.exit(subprocess.run(["abidiff", "--headers-dir2", HEADERS, "--drop-private-types", "--no-added-syms",
                         RECORD, library]).returncode)  # fmt: skip
