# The suite of GoogleTest binaries, loaded through
# <build>/test/unit/lit.site.cfg.py. lit runs each of their tests as its own.

import os
import sys

import lit.formats

sys.path.insert(0, os.path.join(config.mpcomm_src_root, "test"))
sys.dont_write_bytecode = True
import lit_features

config.name = "mpcomm-unit"
config.test_format = lit.formats.GoogleTest(".", "Tests")
config.suffixes = []
config.excludes = ["CMakeFiles"]
config.test_source_root = os.path.join(config.mpcomm_obj_root, "test", "unit")
config.test_exec_root = config.test_source_root

lit_features.set_environment(config)
lit_features.set_features(config, lit_config)

if not lit_config.maxIndividualTestTime:
    try:
        lit_config.maxIndividualTestTime = 300
    except Exception as error:  # pylint: disable=broad-except
        lit_config.note("no limit on the time of a test: %s" % error)
