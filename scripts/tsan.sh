#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The unit tests that start threads, under the thread sanitizer.
# Usage: tsan.sh [threads]
# `threads`: only those of tests/threads_test.cc, which test.sh runs: threads on one
# model, on many and on guarded ones, each doing what it likes.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=(weig_tests weig_threads_tests)
tests=.
if [[ ${1-} == threads ]]; then
  targets=(weig_threads_tests)
  tests='^Threads\.'
fi

./scripts/setup.sh test
echo "tsan: building"
log=$(cmake --preset tsan 2>&1) || { echo "$log" >&2; exit 1; }
cmake --build build/tsan --target "${targets[@]}" -- --quiet -j "$(nproc)"
echo "tsan: running"
ctest --preset tsan -R "$tests" -j "$(nproc)" --no-label-summary
