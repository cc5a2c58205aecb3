# The structures and numbers that the package has of include/mpcomm/Runtime/Session.h are
# those that a C compiler sees there.
#
# REQUIRES: numpy
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t %cc %mprt_include

import ctypes
import subprocess
import sys

from mpcomm import library

folder, compiler, *include = sys.argv[1:]
STRUCTURES = {
    "mpcomm_error": library.ErrorRecord, "mpcomm_session_options": library.SessionOptions,
    "mpcomm_session_info": library.SessionInfo, "mpcomm_tensor": library.Tensor,
    "mpcomm_array": library.Array, "mpcomm_schedule": library.ScheduleRecord,
    "mpcomm_metric": library.Metric, "mpcomm_result": library.Result,
    "mpcomm_text": library.Text, "mpcomm_save_options": library.SaveOptions,
    "mpcomm_save_plan": library.SavePlan,
    "mpcomm_resume_options": library.ResumeOptions, "mpcomm_event": library.EventRecord}
NUMBERS = {"MPCOMM_SESSION_ABI": library.ABI}
NUMBERS.update({"MPRT_" + n.upper(): i for i, n in enumerate(library.STATUS)})
NUMBERS.update({"MPRT_" + n.upper().replace("FN", ""): i for i, n in enumerate(library.DTYPES)})
NUMBERS.update({"MPCOMM_" + n.upper(): i for i, n in enumerate(library.ROLES)})
NUMBERS.update({"MPCOMM_" + n.upper(): i for i, n in enumerate(library.DECAYS)})
NUMBERS.update({"MPCOMM_EVENT_" + n.upper(): i for i, n in enumerate(library.EVENTS)})

expected = {}
for name, structure in STRUCTURES.items():
    expected[f"sizeof({name})"] = ctypes.sizeof(structure)
    for field, _ in structure._fields_:
        expected[f"offsetof({name}, {field})"] = getattr(structure, field).offset
        expected[f"sizeof((({name} *)0)->{field})"] = getattr(structure, field).size
expected.update(NUMBERS)
lines = "".join(f'  printf("%ld\\n", (long)({e}));\n' for e in expected)
with open(folder + "/layout.c", "w") as file:
    file.write("#include <mpcomm/Runtime/Session.h>\n#include <stddef.h>\n#include <stdio.h>\n"
               f"int main(void) {{\n{lines}  return 0;\n}}\n")
subprocess.run([compiler, "-I", include[-1].removeprefix("-I"), folder + "/layout.c", "-o",
                folder + "/layout"], check=True)
found = subprocess.run([folder + "/layout"], check=True, capture_output=True,
                       text=True).stdout.split()
wrong = {e: (want, int(has)) for (e, want), has in zip(expected.items(), found)
         if want != int(has)}
assert not wrong, f"package and header differ: {wrong}"
print(len(expected), "numbers agree")

# Calls: as many arguments as in the header.
text = open(include[-1].removeprefix("-I") + "/mpcomm/Runtime/Session.h").read()
for name, arguments in library.CALLS.items():
    declaration = text[text.index(f"mpcomm_session_{name}("):]
    parameters = declaration[:declaration.index(")")].count(",") + 1
    assert parameters == 2 + len(arguments), (name, parameters)
