# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir %mpcomm_obj_root/test/lib/Session/mpcomm-test-session-fuzz 3000
#
# Random calls of Session.h in any order, with arguments of every kind, crash nothing and leave
# nothing open.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

SEQUENCES, FUZZER = sys.argv.pop(6), sys.argv.pop(5)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run", "Inputs"))
from toy import *

shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
programs = build("plain.so", BATCH=8), build("larger.so", BATCH=16)
first = os.environ.get("MPCOMM_FUZZ_SEED", "1")
done = subprocess.run([FUZZER, SEQUENCES, first, *programs], cwd=WORK, stdout=subprocess.PIPE, text=True)
print(done.stdout)
sys.exit(done.returncode)
