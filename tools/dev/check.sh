#!/usr/bin/env bash
# Builds everything from what is checked out and runs every test. The last line
# is `N passed, N failed, N skipped`; the exit status is 0 only if none failed
# (a failed configure or build counts as one failure).
#
# Usage: tools/dev/check.sh [--sanitize] [--long] [--python-env] [--build-dir DIR]
#   --sanitize       with AddressSanitizer and UndefinedBehaviorSanitizer
#   --long           also the campaigns that take longer than minutes
#   --python-env     also makes what tests with PyTorch 2, JAX and collections of
#                    models run in (tools/dev/python-env.sh), from PyPI
#   --build-dir DIR  instead of build/dev (--sanitize: build/sanitize)
#
# Installs missing Debian packages (tools/dev/packages.txt) through apt-get, as
# root or by sudo; needs no network once they are there. Without --python-env nothing
# comes from PyPI, and tests that need it are skipped unless it is there.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=dev
build_dir=
lit_args=()
python_env=0
env_job=
split_equals "$@"
set -- "${WORDS[@]}"
while [ $# -gt 0 ]; do
  case $1 in
  --sanitize) preset=sanitize ;;
  --long) lit_args+=(--param long=1 --timeout 3600) ;;
  --python-env) python_env=1 ;;
  --build-dir)
    [ $# -ge 2 ] || die "--build-dir needs a folder"
    build_dir=$2
    shift
    ;;
  -h | --help)
    sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *) die "unknown argument '$1' (see --help)" ;;
  esac
  shift
done
build_dir=$(build_folder "${build_dir:-$ROOT/build/$preset}")

# Whatever ends this script early is one failure.
summary="0 passed, 1 failed, 0 skipped"
finish() {
  local status=$?
  if [ -n "$env_job" ]; then kill -- "-$env_job" 2>/dev/null || true; fi
  if [ $status -eq 0 ] && [[ $summary != *" 0 failed,"* ]]; then status=1; fi
  printf '%s\n' "$summary"
  exit $status
}
trap finish EXIT

start=$SECONDS
install_packages
# Beside the build, which waits for no network.
if [ $python_env -eq 1 ]; then
  set -m # a group of its own, to be stopped together
  "$ROOT/tools/dev/python-env.sh" </dev/null &
  env_job=$!
  set +m
fi
# The dev preset asks for ccache.
if [ $preset = dev ] && ! command -v ccache >/dev/null; then
  preset=release
fi
jobs=$(jobs_here)
configure "$preset" "$build_dir" -DMPCOMM_BUILD_TESTS=ON
say "build: $jobs jobs"
cmake --build "$build_dir" --parallel "$jobs" </dev/null
if [ -n "$env_job" ] && ! wait "$env_job"; then
  say "python: no environment; its tests will be skipped"
fi
env_job=
say "build: done after $((SECONDS - start)) s; testing"

lit=$(sed -n 's/^MPCOMM_LIT:FILEPATH=//p' "$build_dir/CMakeCache.txt")
results=$build_dir/test/results.xml
rm -f "$results"
# In a random order, so that those that run one at a time are among others and no job waits.
# lit's own exit status says no more than the results do.
"$lit" -sv -j "$jobs" --order=random "${lit_args[@]}" \
  --xunit-xml-output "$results" "$build_dir/test" \
  </dev/null || true
summary=$(python3 "$ROOT/tools/dev/summarize.py" "$results")
say "all of it took $((SECONDS - start)) s"
