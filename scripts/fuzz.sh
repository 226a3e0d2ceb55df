#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes on all processors: fuzz.sh [SECONDS [TARGET...]], by default 15 seconds for each
# target. Corpora grow in build/asan/fuzz/corpus and are used again; what breaks a promise
# is left in build/asan/fuzz/crashes, and the script fails. For a night: fuzz.sh 4000.
# `fuzz.sh --keep [TARGET...]` puts the smallest inputs that reach all that the corpora
# reach into tests/fuzz/kept.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-15}
[[ $seconds =~ ^([0-9]+|--keep)$ ]] ||
  { echo "usage: $0 [SECONDS|--keep [TARGET...]]" >&2; exit 64; }
shift $(($# > 0))

./scripts/setup.sh test
build=build/asan
log=$({ cmake --preset asan && cmake --build "$build" --target weig_fuzz; } 2>&1) ||
  { echo "$log" >&2; exit 1; }
replay=$build/tests/fuzz/weig_fuzz_replay
targets=("$@")
(($#)) || mapfile -t targets < <("$replay" --list)
"$replay" --seeds "$build/fuzz/seeds"

# Inputs that are there for a reason of their own have names, and stay.
keep() {
  local target=$1 kept=tests/fuzz/kept/$1 new=$build/fuzz/new/$1
  local named=(-type f ! -regex '.*/[0-9a-f]+')
  rm -rf "$new"
  mkdir -p "$kept" "$new" "$build/fuzz/corpus/$target"
  find "$kept" "${named[@]}" -exec cp -t "$new" {} +
  "$build/tests/fuzz/weig_fuzz_$target" -set_cover_merge=1 -use_counters=0 \
    -max_len=16384 "$new" "$kept" "$build/fuzz/seeds/$target" \
    "$build/fuzz/corpus/$target" >"$build/fuzz/$target.log" 2>&1 ||
    { tail -n 40 "$build/fuzz/$target.log" >&2; return 1; }
  find "$kept" -type f ! "${named[@]:2}" -delete
  cp -n "$new"/* "$kept"
  echo "kept: $target: $(find "$kept" -type f | wc -l) inputs," \
    "$(du -sb "$kept" | cut -f1) bytes"
}
if [[ $seconds == --keep ]]; then
  for target in "${targets[@]}"; do keep "$target"; done
  exit
fi

cpus=$(nproc)
jobs=$(((cpus + ${#targets[@]} - 1) / ${#targets[@]}))
printf '%s\n' "${targets[@]}" |
  xargs -P "$cpus" -I {} tests/fuzz/run.sh "$build" {} "$seconds" \
    "$build/fuzz/corpus/{}" "$jobs"
