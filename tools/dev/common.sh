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

# apt_get args...: as root, through sudo where we are not.
apt_get() {
  local run=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y "$@")
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "not root and no sudo: install the packages above by hand"
    run=(sudo "${run[@]}")
  fi
  "${run[@]}" </dev/null >/dev/null
}

# Installs what packages.txt lists and is not there. Touches the network only if
# something is missing; fails only if something required cannot be had.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this script installs Debian packages; elsewhere install what" \
        "tools/dev/packages.txt lists and build by README.md"
  local required optional name
  mapfile -t required < <(packages required | missing)
  mapfile -t optional < <(packages optional | missing)
  if [ ${#required[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ]; then
    say "packages: all of tools/dev/packages.txt are installed"
    return
  fi
  say "packages: installing ${required[*]} ${optional[*]}"
  apt_get update || say "packages: apt-get update failed, going on without"
  if [ ${#required[@]} -gt 0 ]; then
    apt_get install --no-install-recommends "${required[@]}" ||
      die "apt-get could not install: ${required[*]}"
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
