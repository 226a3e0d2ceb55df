#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must hold before a change lands: the optimized build with all tests,
# then the unit tests under the sanitizers, those of threads under theirs, and the core
# part on other machines. Builds are incremental.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

./scripts/setup.sh test

for preset in release asan; do
  echo "test: building $preset"
  log=$(cmake --preset "$preset" 2>&1) || { echo "$log"; exit 1; }
  cmake --build "build/$preset" -- --quiet -j "$jobs"
done

echo "test: running release"
ctest --preset release -j "$jobs" --output-junit results.xml
# Tests of system calls that this kernel does not have skip themselves.
echo "missing on this kernel: $(grep -c '<skipped' build/release/results.xml || true)"

echo "test: running asan"
ctest --preset asan -j "$jobs" --no-label-summary
targets=$(build/asan/tests/fuzz/weig_fuzz_replay --list | wc -l)
fuzzed=$(ctest --preset asan -N -L '^fuzz$' | grep -c ': fuzz_' || true)
echo "fuzz targets without libFuzzer: $((targets - fuzzed)) of $targets"

./scripts/tsan.sh threads
./scripts/machines.sh core
