# The lit suite of mpcomm: every test of the project but the GoogleTest binaries
# (those are the nested suite of test/unit/lit.cfg.py).
#
# Loaded through <build>/test/lit.site.cfg.py, in the full build and in the
# build of the runtime alone. What a machine lacks is a missing feature: tests
# name it in REQUIRES and are reported as unsupported. docs/Testing.md lists
# features and substitutions.

import os
import sys

import lit.formats

sys.path.insert(0, os.path.join(config.mpcomm_src_root, "test"))
sys.dont_write_bytecode = True
import lit_features

config.name = "mpcomm"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".py"]
config.excludes = ["CMakeLists.txt", "Inputs", "lib", "lit.cfg.py", "lit_features.py"]
config.test_source_root = os.path.join(config.mpcomm_src_root, "test")
config.test_exec_root = os.path.join(config.mpcomm_obj_root, "test")

lit_features.set_environment(config)
lit_features.set_features(config, lit_config)

bin_dir = os.path.join(config.mpcomm_obj_root, "bin")
lib_dir = os.path.join(config.mpcomm_obj_root, "lib")

# Longer names first: lit replaces in this order.
for tool in [
    "mpcomm-checkpoint",
    "mpcomm-lsp-server",
    "mpcomm-compile",
    "mpcomm-import",
    "mpcomm-reduce",
    "mpcomm-report",
    "mpcomm-opt",
    "mpcomm-run",
    "mpcomm-sim",
]:
    config.substitutions.append(("%" + tool, os.path.join(bin_dir, tool)))

config.substitutions += [
    ("%mpcomm_src_root", config.mpcomm_src_root),
    ("%mpcomm_obj_root", config.mpcomm_obj_root),
    ("%mprt_include", os.path.join(config.mpcomm_src_root, "include")),
    ("%shlibdir", lib_dir),
    (
        "%mpirun",
        # MPI's libraries keep memory to the end.
        ("env ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=0 "
         if config.mpcomm_sanitize else "")
        + "mpirun --oversubscribe"
        + (" --allow-run-as-root" if os.geteuid() == 0 else ""),
    ),
    ("%plugin", os.path.join(lib_dir, "MPCommPlugin.so")),
    ("%python-env", lit_features.python_env(config)),
    ("%python", config.python),
    ("%cmake", config.cmake),
    ("%cxx", config.cxx_compiler),
    ("%cc", config.c_compiler),
]

# Tests that run several ranks, or that measure, go one at a time
# (`config.parallelism_group = "ranks"` in a lit.local.cfg).
lit_config.parallelism_groups["ranks"] = 1

# Ten minutes a test, and fifteen with sanitizers; needs python3-psutil,
# which check.sh installs.
if not lit_config.maxIndividualTestTime:
    try:
        lit_config.maxIndividualTestTime = 900 if config.mpcomm_sanitize else 600
    except Exception as error:  # pylint: disable=broad-except
        lit_config.note("no limit on the time of a test: %s" % error)
