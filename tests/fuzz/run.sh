#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one fuzz target under libFuzzer: run.sh BUILD TARGET SECONDS [CORPUS [JOBS]]. It
# begins with the kept inputs, and those of CORPUS, where what it finds new is added; by
# default that is forgotten. An input that breaks a promise is left in
# BUILD/fuzz/crashes, with a word on how to see it again. One line when all is well.
set -euo pipefail
build=$1 target=$2 seconds=$3 corpus=${4-} jobs=${5:-1}
here=$(cd "$(dirname "$0")" && pwd)
program=$build/tests/fuzz/weig_fuzz_$target
kept=$here/kept/$target crashes=$build/fuzz/crashes log=$build/fuzz/$target.log

# Files that a target makes, and a corpus that is not asked for.
memory=/dev/shm
[[ -w $memory ]] || memory=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d -p "$memory" weig-fuzz-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
folders=("${corpus:-$TMPDIR/corpus}" "$kept")
[[ -z $corpus || ! -d $build/fuzz/seeds/$target ]] || folders+=("$build/fuzz/seeds/$target")
mkdir -p "${folders[0]}" "$crashes"

case $target in
  safetensors|index|metadata|roundtrip) dictionary=$here/json.dict ;;
  *) dictionary=$here/weig.dict ;;
esac
# 16 KiB hold three dozen tensors. 256 MiB at once are more than any input of that size
# may ask for. A slow unit is no failure until it takes a minute: machines are shared.
options=(-max_len=16384 -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=256
         -max_total_time="$seconds" -dict="$dictionary" -print_final_stats=1
         -artifact_prefix="$crashes/$target-")
((jobs == 1)) || options+=(-fork="$jobs")
if "$program" "${options[@]}" "${folders[@]}" >"$log" 2>&1; then
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  echo "fuzz: $target: ${runs:-all} runs, nothing found"
  exit
fi
tail -n 60 "$log"
echo "fuzz: $target found something; to see it again:"
for input in "$crashes/$target"-*; do
  echo "  $program $input"
  echo "  build/release/tests/fuzz/weig_fuzz_replay $target $input"
done
exit 1
