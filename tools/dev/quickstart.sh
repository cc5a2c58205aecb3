#!/usr/bin/env bash
# The whole way, from a bare Debian 12 to a model that trains: installs what is
# missing, builds the release preset, imports a byte-level GPT from PyTorch,
# compiles its training step for 2 ranks, and trains it on the texts of
# /usr/share/common-licenses over shared memory. Ends with a table; fails if
# the loss does not fall.
#
# Usage: tools/dev/quickstart.sh [--steps N] [--np N] [--build-dir DIR]
#   --steps N        training steps (100, at least 60)
#   --np N           ranks (2)
#   --build-dir DIR  a build to use or make (build/release)
#
# Everything it writes lies in build/quickstart.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

steps=100
ranks=2
build_dir=$ROOT/build/release
split_equals "$@"
set -- "${WORDS[@]}"
while [ $# -gt 0 ]; do
  case $1 in
  --steps) steps=${2:?--steps needs a number} && shift ;;
  --np) ranks=${2:?--np needs a number} && shift ;;
  --build-dir) build_dir=${2:?--build-dir needs a folder} && shift ;;
  -h | --help)
    sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *) die "unknown argument '$1' (see --help)" ;;
  esac
  shift
done
[ "$steps" -ge 60 ] 2>/dev/null || die "--steps: expected a number from 60"
build_dir=$(build_folder "$build_dir")

install_packages
configure release "$build_dir" -DMPCOMM_BUILD_TESTS=OFF >/dev/null
say "build: release"
cmake --build "$build_dir" --parallel "$(jobs_here)" </dev/null

work=$ROOT/build/quickstart
rm -rf "$work"
mkdir -p "$work"
cd "$work"
PATH=$build_dir/bin:$PATH "$ROOT/tools/dev/try.sh" "$ROOT/docs/examples/gpt.py" "$ranks" "$steps"
say "it trains: $work has the graph, the program, the data and the log"
