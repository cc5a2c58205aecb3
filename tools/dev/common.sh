# shellcheck shell=bash
# Shared by check.sh and quickstart.sh: sourced, not run. Knows how to install
# the packages of packages.txt and how many jobs this machine can take.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# split_equals args...: sets WORDS to them, each --name=value as two words.
split_equals() {
  local word
  WORDS=()
  for word in "$@"; do
    case $word in
    --*=*) WORDS+=("${word%%=*}" "${word#*=}") ;;
    *) WORDS+=("$word") ;;
    esac
  done
}

# build_folder path: the folder, made if it is not there, by its full name. Tests
# name files on command lines that split at white space.
build_folder() {
  local path
  mkdir -p "$1" || die "cannot make the folder $1"
  path=$(cd "$1" && pwd)
  case $ROOT$path in
  *[[:space:]]*) die "white space in the path of the sources ($ROOT) or of the" \
    "build ($path): tests cannot name their files; choose other folders" ;;
  esac
  printf '%s\n' "$path"
}

# packages required|optional: their names, one a line.
packages() {
  awk -v kind="$1" '$1 == kind { print $2 }' "$ROOT/tools/dev/packages.txt"
}

# Of the names it reads, those that are not installed.
missing() {
  local name
  while read -r name; do
    dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null |
      grep -qx installed || printf '%s\n' "$name"
  done
}

# apt_get args...: as root, through sudo where we are not; 1 where we cannot.
apt_get() {
  local run=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y "$@")
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || return 1
    run=(sudo "${run[@]}")
  fi
  "${run[@]}" </dev/null >/dev/null
}

# Installs what packages.txt lists and is not there. Touches the network only if
# something is missing; fails only if something required cannot be had.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this script installs Debian packages; elsewhere install what" \
        "tools/dev/packages.txt lists and build as README.md says under" \
        "\"Building it by hand\""
  local required optional name
  mapfile -t required < <(packages required | missing)
  mapfile -t optional < <(packages optional | missing)
  if [ ${#required[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ]; then
    say "packages: all of tools/dev/packages.txt are installed"
    return
  fi
  say "packages: installing ${required[*]} ${optional[*]}"
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    say "packages: not root and no sudo: nothing can be installed"
  else
    apt_get update || say "packages: apt-get update failed, going on without"
  fi
  if [ ${#required[@]} -gt 0 ]; then
    apt_get install --no-install-recommends "${required[@]}" ||
      die "cannot install ${required[*]}: install them by hand"
  fi
  for name in "${optional[@]}"; do
    apt_get install --no-install-recommends "$name" ||
      say "packages: $name cannot be installed; its tests will be skipped"
  done
}

# As many compile jobs as cores, and no more than one per 2 GiB of memory.
jobs_here() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemTotal:/ { print int($2 / 2097152) }' /proc/meminfo)
  if [ "$memory" -lt 1 ]; then memory=1; fi
  echo $((cores < memory ? cores : memory))
}

# configure preset build_dir [cmake args...]
configure() {
  local preset=$1 dir=$2
  shift 2
  local launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache
              -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  say "configure: preset $preset in $dir"
  (cd "$ROOT" && cmake --preset "$preset" -B "$dir" "${launcher[@]}" "$@") \
    </dev/null
}
