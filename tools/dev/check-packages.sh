#!/usr/bin/env bash
# Installs packages in a bare Debian 12 and trains the quickstart's model and the
# README's there with what they have; then a wheel, if there is one, in another, without LLVM.
# Needs root, debootstrap and a mirror of Debian.
#
# Usage: tools/dev/check-packages.sh [--folder DIR] [--mirror URL] PACKAGES
#   PACKAGES         folder with the .deb files (build/package/packages)
#   --folder DIR     where systems are made and left (a temporary folder, removed)
#   --mirror URL     http://deb.debian.org/debian; security updates come from
#                    URL-security
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=
mirror=http://deb.debian.org/debian
split_equals "$@"
set -- "${WORDS[@]}"
while [ $# -gt 1 ]; do
  case $1 in
  --folder) folder=${2:?--folder needs a folder} && shift ;;
  --mirror) mirror=${2:?--mirror needs an address} && shift ;;
  *) break ;;
  esac
  shift
done
case ${1:-} in
-h | --help | "")
  sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 0
  ;;
esac
[ $# -eq 1 ] || die "unknown argument '$2' (see --help)"
packages=$(cd "$1" 2>/dev/null && pwd) || die "no folder $1"
compgen -G "$packages/*.deb" >/dev/null || die "no .deb in $packages"
[ "$(id -u)" -eq 0 ] || die "a system can be made by root only"
command -v debootstrap >/dev/null || die "debootstrap not found (Debian: debootstrap)"
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi

# inside command...: in the system, in namespaces that end with the command, so
# that nothing stays mounted.
inside() {
  unshare --mount --pid --fork bash -c '
    mount --make-rprivate /
    mount -t proc proc "$0/proc"
    mount -t tmpfs tmpfs "$0/dev/shm"
    exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
      LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' "$root" "$@" </dev/null
}

# used: MiB that the system takes.
used() { du -smx "$root" | cut -f1; }

# system name: makes a bare one, of the one that debootstrap made before.
system() {
  local bare=$folder/bare
  root=$folder/$1
  if [ ! -e "$bare/etc/debian_version" ]; then
    say "debootstrap: bookworm from $mirror"
    debootstrap --variant=minbase bookworm "$bare" "$mirror" >"$folder/debootstrap.log" ||
      die "debootstrap failed, see $folder/debootstrap.log"
  fi
  rm -rf "$root"
  cp -ax "$bare" "$root" # what debootstrap mounts is no part of it
  printf 'deb %s bookworm main\ndeb %s-security bookworm-security main\n' "$mirror" "$mirror" \
    >"$root/etc/apt/sources.list"
  cp -L /etc/resolv.conf "$root/etc/"
  inside apt-get -qq update
  inside apt-get clean
  cp "$ROOT"/docs/examples/{gpt,first_steps}.py "$ROOT/tools/dev/try.sh" "$root/root/"
  mkdir "$root/packages"
  find "$packages" -maxdepth 1 -name '*.deb' -exec cp -t "$root/packages" {} +
  find "$packages" -maxdepth 1 -name '*.whl' -exec cp -t "$root/packages" {} +
}

# apt_install files or names...
apt_install() {
  inside apt-get -qq -y install --no-install-recommends "$@" >"$folder/apt.log" 2>&1 ||
    { tail -20 "$folder/apt.log" >&2 && die "cannot install $*"; }
  inside apt-get clean
}

# ours names...: packages of ours with what they depend on.
ours() {
  local before name files=()
  before=$(used)
  for name; do files+=("/packages/$(basename "$packages/${name}"_*.deb)"); done
  apt_install "${files[@]}"
  say "$*: $(($(used) - before)) MiB with all that they depend on"
}

system debs
ours mpcomm-runtime
inside mpcomm-run --version
ours mpcomm-compiler
ours python3-mpcomm mpcomm-runtime-dnnl mpcomm-runtime-gloo mpcomm-runtime-mpi
apt_install python3-torch # what the example's model is written in
inside bash -c 'cd && ./try.sh gpt.py 2 100'
inside bash -c 'cd && python3 first_steps.py'
train="mpcomm-run step.so --weights weights.safetensors --data data.safetensors --steps 5"
inside bash -c "cd && $train --np 2 --comm gloo"
apt_install openmpi-bin
inside bash -c "cd && mpirun --allow-run-as-root --oversubscribe -np 2 $train --comm mpi"
ours mpcomm-runtime-dev mpcomm-doc

if compgen -G "$packages/*.whl" >/dev/null; then
  system wheel
  apt_install python3-torch python3-venv
  before=$(used)
  inside bash -c 'python3 -m venv --system-site-packages /venv &&
    /venv/bin/pip -q install --no-index --no-deps /packages/*.whl'
  say "wheel: $(($(used) - before)) MiB with its environment"
  inside bash -c '! ldconfig -p | grep -E "libLLVM.so.22|libMLIR"' || die "LLVM is installed"
  inside bash -c 'cd && PATH=/venv/bin:$PATH ./try.sh gpt.py 2 100'
  inside bash -c 'cd && /venv/bin/python first_steps.py'
  inside bash -c 'ls /venv/lib/python3*/site-packages/mpcomm-*/licenses/{LICENSE,libllvm22.txt}' ||
    die "the wheel lacks licences"
fi

say "sizes of the packages, packed and installed"
for file in "$packages"/*.deb; do
  printf '%-28s %6d kB  %7d kB\n' "$(dpkg-deb -f "$file" Package)" \
    $(($(stat -c %s "$file") / 1024)) "$(dpkg-deb -f "$file" Installed-Size)"
done
