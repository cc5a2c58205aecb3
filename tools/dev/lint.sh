#!/usr/bin/env bash
# Checks the style of what changed: clang-format and clang-tidy on the diff
# against a base, and the rules of the house on each changed file (licence line,
# length, no trailing white space).
#
# Usage: tools/dev/lint.sh [--all | BASE] [--fix] [--build-dir DIR]
#   BASE             commit to compare with (origin/main, else HEAD~1)
#   --all            every file of the tree instead
#   --fix            let clang-format rewrite files
#   --build-dir DIR  where compile_commands.json is (build/dev); clang-tidy is
#                    left out, with a note, if there is none
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

all=0
fix=0
base=
build_dir=build/dev
while [ $# -gt 0 ]; do
  case $1 in
  --all) all=1 ;;
  --fix) fix=1 ;;
  --build-dir) build_dir=${2:?--build-dir needs a folder} && shift ;;
  --build-dir=*) build_dir=${1#*=} ;;
  -h | --help)
    sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  -*)
    echo "error: unknown argument '$1' (see --help)" >&2
    exit 2
    ;;
  *) base=$1 ;;
  esac
  shift
done

if [ $all -eq 1 ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard)
else
  if [ -z "$base" ]; then
    base=origin/main
    git rev-parse -q --verify "$base" >/dev/null || base=HEAD~1
  fi
  git rev-parse -q --verify "$base" >/dev/null || {
    echo "error: no commit '$base' to compare with" >&2
    exit 2
  }
  mapfile -t files < <(
    git diff --name-only --diff-filter=ACMR "$base" --
    git ls-files --others --exclude-standard
  )
fi

sources=() units=() texts=()
for file in "${files[@]}"; do
  [ -f "$file" ] || continue
  case $file in
  *.cpp | *.c) sources+=("$file") units+=("$file") ;;
  *.h) sources+=("$file") ;;
  esac
  case $file in
  *.cpp | *.c | *.h | *.td | *.py | *.sh) texts+=("$file") ;;
  esac
done
failures=0
fail() {
  printf '%s\n' "$*"
  failures=$((failures + 1))
}

for file in "${texts[@]}"; do
  case $file in
  test/*.py | docs/examples/*) ;; # lit tests and examples carry no header
  *) grep -q 'SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception' "$file" ||
    fail "$file: no licence line" ;;
  esac
  lines=$(wc -l <"$file")
  [ "$lines" -le 600 ] || fail "$file: $lines lines; look for the second idea"
  if grep -nE '[[:space:]]+$' "$file" >/dev/null; then
    fail "$file: trailing white space"
  fi
done

if [ ${#sources[@]} -gt 0 ]; then
  if [ $fix -eq 1 ]; then
    clang-format-22 -i "${sources[@]}"
  elif [ $all -eq 1 ]; then
    clang-format-22 --dry-run -Werror "${sources[@]}" ||
      fail "clang-format: see above (--fix rewrites)"
  else
    # Only the lines that changed; a file that git does not know changed whole.
    wrong=$(git diff -U0 --diff-filter=ACMR "$base" -- "${sources[@]}" |
      clang-format-diff-22 -p1 || true)
    if [ -n "$wrong" ]; then
      printf '%s\n' "$wrong" >&2
      fail "clang-format: see above (--fix rewrites)"
    fi
    mapfile -t unknown < <(
      git ls-files --others --exclude-standard -- "${sources[@]}")
    if [ ${#unknown[@]} -gt 0 ]; then
      clang-format-22 --dry-run -Werror "${unknown[@]}" ||
        fail "clang-format: see above (--fix rewrites)"
    fi
  fi
fi

if [ ! -f "$build_dir/compile_commands.json" ]; then
  echo "note: no $build_dir/compile_commands.json; clang-tidy left out"
elif [ ${#units[@]} -gt 0 ]; then
  # Only what the build compiles can be analysed.
  known=()
  for file in "${units[@]}"; do
    if grep -qF "\"$PWD/$file\"" "$build_dir/compile_commands.json"; then
      known+=("$file")
    fi
  done
  if [ ${#known[@]} -gt 0 ]; then
    printf '%s\n' "${known[@]}" |
      xargs -P "$(nproc)" -n 4 clang-tidy-22 -p "$build_dir" --quiet ||
      fail "clang-tidy: see above"
  fi
fi

echo "lint: ${#texts[@]} files, $failures complaints"
[ $failures -eq 0 ]
