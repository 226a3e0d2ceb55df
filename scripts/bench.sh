#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures what the documentation claims, says of each target whether it is met, and
# leaves the texts in build/bench. All, or the parts named: open peers convert verify
# load. About half an hour, 20 GB of space under ${TMPDIR:-/var/tmp}, and a machine that
# does nothing else; as root also with fresh memory. Fails where a target is missed.
# ROUNDS and FRESH_ROUNDS say how often things are measured.
set -euo pipefail
cd "$(dirname "$0")/.."
(($#)) || set -- open peers convert verify load
for part in "$@"; do
  case $part in
    open|peers|convert|verify|load) ;;
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
stamp=$(sha256sum bench/requirements.txt)
if [[ $(cat "$results/venv/stamp" 2>/dev/null) != "$stamp" ]]; then
  .venv/bin/python -m venv --clear "$results/venv"
  "$results/venv/bin/pip" install -qq --disable-pip-version-check --no-deps \
    -r bench/requirements.txt
  echo "$stamp" >"$results/venv/stamp"
fi

scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/weig-bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
source=$scratch/model.safetensors
model=$scratch/model.weig
export TMPDIR=$scratch PYTHONDONTWRITEBYTECODE=1

python() { "$results/venv/bin/python" "$@"; }
need_source() { [[ -e $source ]] || python bench/make_model.py transformer "$source"; }
need_model() {
  need_source
  [[ -e $model ]] || build/release/bin/weig convert "$source" -o "$model" >/dev/null
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
    grep -hE '^(PASS|FAIL) ' "$results/$part.txt" || true
  done
} | tee "$results/targets.txt"
! grep -q '^FAIL' "$results/targets.txt"
