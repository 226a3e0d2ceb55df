#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures what the documentation claims, says of each target whether it is met, and
# leaves the texts in build/bench. The parts named, or: open peers convert verify load
# ways steady window quantize formats (window and formats as root alone). About an hour,
# 25 GB of space under ${TMPDIR:-/var/tmp}, and a machine that does nothing else; as root
# also with fresh memory. Fails where a target is missed.
# ROUNDS and FRESH_ROUNDS say how often things are measured, LAYERS how large the model is
# (10: 4.6 GB).
#
# Only if named: peers-load, the same model loaded by other packages (an hour and a half,
# 45 GB; WITH_LLAMA=1 also compiles llama-cpp-python; PEERS names some functions of
# bench/peers/peer.py, to measure no others); seven-billion, a model of 13.5
# GB loaded once in every way (30 GB), and larger, a model of 30 GB walked through in a
# window (60 GB).
set -euo pipefail
cd "$(dirname "$0")/.."
(($#)) || set -- open peers convert verify load ways steady window quantize formats
for part in "$@"; do
  case $part in
    open|peers|convert|verify|load|ways|steady|window|quantize|formats|peers-load|seven-billion|larger) ;;
    *) echo "bench: no such part: $part" >&2; exit 64 ;;
  esac
done
rounds=${ROUNDS:-5}
fresh_rounds=${FRESH_ROUNDS:-3}

./scripts/setup.sh test

echo "bench: building"
log=$({ cmake --preset release -DWEIG_BUILD_BENCH=ON &&
        cmake --build build/release --target weig_cli bench; } 2>&1) ||
  { echo "$log" >&2; exit 1; }

results=build/bench
mkdir -p "$results"
# A Python environment of its own in a folder, with what files of requirements list.
make_venv() {
  local venv=$1 stamp
  shift
  stamp=$(cat "$@" | sha256sum)
  if [[ $(cat "$venv/stamp" 2>/dev/null) != "$stamp" ]]; then
    echo "bench: making $venv"
    .venv/bin/python -m venv --clear "$venv"
    "$venv/bin/pip" install -qq --disable-pip-version-check --no-deps "${@/#/-r}"
    echo "$stamp" >"$venv/stamp"
  fi
}
make_venv "$results/venv" bench/requirements.txt

scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/weig-bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
source=$scratch/model.safetensors
model=$scratch/model.weig
export TMPDIR=$scratch PYTHONDONTWRITEBYTECODE=1

python() { "$results/venv/bin/python" "$@"; }
need_source() {
  [[ -e $source ]] ||
    python bench/make_model.py transformer "${LAYERS:-10}" "$source"
}
need_model() {
  need_source
  [[ -e $model ]] || build/release/bin/weig convert "$source" -o "$model" >/dev/null
}

seven_billion() {
  local large=$scratch/large
  rm -f "$source" "$model"
  python bench/make_model.py transformer "${LAYERS:-32}" "$large.safetensors"
  build/release/bin/weig convert "$large.safetensors" -o "$large.weig" >/dev/null
  python bench/ways.py "$large.safetensors" "$large.weig" "${ROUNDS:-1}" \
    "${FRESH_ROUNDS:-1}" table
  rm -f "$large".*
}

# A model of numbers that can be quantized: the other's are any bits.
brain=$scratch/brain
need_brain() {
  [[ -e $brain.weig ]] && return
  python bench/make_model.py brain "${LAYERS:-10}" "$brain.safetensors"
  build/release/bin/weig convert "$brain.safetensors" -o "$brain.weig" >/dev/null
}

# One of which two groups fit into the window's cgroup, as the next comes in while one is
# worked on.
narrow=$scratch/narrow
need_narrow() {
  [[ -e $narrow.weig ]] && return
  python bench/make_model.py narrow "${LAYERS:-27}" "$narrow.safetensors"
  build/release/bin/weig convert "$narrow.safetensors" -o "$narrow.weig" >/dev/null
  rm "$narrow.safetensors"
}

quantize() {
  need_brain
  python bench/quantize.py "$brain.safetensors" "$brain.weig" "$scratch/int8.weig" \
    "$rounds"
}

larger() {
  local large=$scratch/large
  rm -f "$source" "$model"
  python bench/make_model.py transformer "${LAYERS:-72}" "$large.safetensors"
  build/release/bin/weig convert "$large.safetensors" -o "$large.weig" >/dev/null
  rm "$large.safetensors"
  python bench/larger.py "$large.weig"
  rm "$large.weig"
}

peers_load() {
  local lists=(bench/peers/requirements.txt) kinds=(zt pt flashpack tensors npy gguf)
  local peers=$results/peers-venv json=$results/peers.json
  if [[ ${WITH_LLAMA:-} ]]; then
    lists+=(bench/peers/requirements-compiled.txt)
    kinds+=(llama)
  fi
  make_venv "$peers" "${lists[@]}" >&2
  need_model
  "$peers/bin/python" bench/peers/files.py "$source" "$scratch" "${kinds[@]}" >&2
  "$peers/bin/python" bench/peers_load.py "$source" "$model" "$rounds" "$json" \
    ${PEERS:+"$PEERS"}
  mkdir "$scratch/small"
  "$peers/bin/python" bench/peers_small.py "$scratch/small" "$rounds" "$json"
  "$peers/bin/python" bench/peers_plot.py "$json" "$results/peers.svg"
  rm -rf "$scratch"/{small,model.{zt,pt,flashpack,tensors,npy,gguf,llama}}
}

measure() {
  case $1 in
    open) python bench/open.py $((3 * rounds)) ;;
    peers) python bench/peers_open.py "$scratch" $((3 * rounds)) ;;
    convert) need_source
             python bench/convert.py "$source" "$model" "$rounds" "$fresh_rounds" ;;
    verify) need_model
            python bench/verify.py "$model" "$rounds" ;;
    load) need_model
          python bench/load.py "$source" "$model" "$rounds" ;;
    ways) need_model
          python bench/ways.py "$source" "$model" "$rounds" "$fresh_rounds" ;;
    steady) need_model
            python bench/steady.py "$model" "$scratch" "$rounds" ;;
    window) need_narrow
            python bench/window.py "$narrow.weig" "$rounds" ;;
    quantize) quantize ;;
    formats) need_model
             mkdir -p "$scratch/formats"
             python bench/formats.py "$source" "$model" "$scratch/formats" "$fresh_rounds" ;;
    peers-load) peers_load ;;
    seven-billion) seven_billion ;;
    larger) larger ;;
  esac
}

for part in "$@"; do
  printf '\n== %s\n\n' "$part"
  measure "$part" | tee "$results/$part.txt"
done

printf '\n== targets\n\n'
{
  echo "$(uname -srm), $(nproc) CPUs, $(stat -f -c %T "$scratch"), $(date -u +%F)"
  for part in "$@"; do
    grep -hE '^(PASS|FAIL|lost) ' "$results/$part.txt" || true
  done
} | tee "$results/targets.txt"
! grep -q '^FAIL' "$results/targets.txt"
