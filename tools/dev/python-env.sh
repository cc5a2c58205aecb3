#!/usr/bin/env bash
# Makes a virtual environment with the packages of tools/dev/python-packages.txt: PyTorch
# 2.13 beside Debian's 1.13, JAX, transformers, timm. Tests with the features torch2, jax,
# transformers or timm run in it; without it they are unsupported. Does nothing where the
# environment is up to date.
#
# Usage: tools/dev/python-env.sh [--engines] [DIR]
#   --engines  also Ray and Optuna (features ray and optuna), 570 MB more
#   DIR        where (MPCOMM_PYTHON_ENV, else build/python-env)
#
# Any build of PyTorch will do. For a small one without CUDA, where pip's own indexes have
# none, set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

lists=("$ROOT/tools/dev/python-packages.txt")
case ${1:-} in
-h | --help)
  sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 0
  ;;
--engines)
  lists+=("$ROOT/tools/dev/python-engines.txt")
  shift
  ;;
esac
dir=${1:-${MPCOMM_PYTHON_ENV:-$ROOT/build/python-env}}
stamp=$dir/mpcomm-packages.txt

if cat "${lists[@]}" | cmp -s - "$stamp" && [ -x "$dir/bin/python" ]; then
  say "python: $dir has what ${lists[*]##*/} list"
  exit 0
fi
mkdir -p "$dir"
say "python: making $dir; pip installs what ${lists[*]##*/} list"
# Debian has venv without pip in a package of its own, which is not needed: a pip that is
# there installs into the environment.
if python3 -c 'import ensurepip' 2>/dev/null; then
  python3 -m venv "$dir"
  pip=("$dir/bin/python" -m pip)
else
  python3 -m venv --without-pip "$dir"
  python3 -m pip --version >/dev/null 2>&1 ||
    die "found no pip; install python3-pip or python3-venv"
  pip=(python3 -m pip --python "$dir/bin/python")
fi
"${pip[@]}" install --quiet "${lists[@]/#/--requirement=}" ||
  die "pip cannot install what ${lists[*]} list; is there a network?"

# The C++ operators of torchvision load beside the build of PyTorch that it was made for
# alone. Models need the schemas of these operators, not the operators.
site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat >"$site/mpcomm_torchvision.py" <<'END'
"""Declares torchvision's C++ operators before it is imported where they cannot be loaded."""
import importlib.util
import os
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "torchvision":
            return None
        sys.meta_path.remove(Finder)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            declare(os.path.join(os.path.dirname(spec.origin), "_C.so"))
        return None


def declare(library):
    import torch
    try:
        torch.ops.load_library(library)
    except OSError:
        schemas = torch.library.Library("torchvision", "DEF")
        schemas.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        schemas.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.ops.torchvision.mpcomm_schemas = schemas  # kept alive


sys.meta_path.insert(0, Finder)
END
echo "import mpcomm_torchvision" >"$site/mpcomm_torchvision.pth"

"$dir/bin/python" -c 'import torch, torchvision, transformers, timm, jax, flax, optax
print("== python: torch", torch.__version__, "jax", jax.__version__)' ||
  die "what pip installed in $dir does not load"
cat "${lists[@]}" >"$stamp"
