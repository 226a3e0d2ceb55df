#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which lines of the core and of the readers do the kept fuzz inputs reach? Holds the
# answer against docs/fuzzing.md, and fails where it is less than 95 %. With --write: puts
# it there. An annotated listing is left in build/coverage/kept.lines.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/coverage
for tool in llvm-cov-19 llvm-profdata-19; do
  command -v "$tool" >/dev/null ||
    { echo "coverage: no $tool: apt-get install llvm-19" >&2; exit 69; }
done

./scripts/setup.sh test
log=$({ cmake --preset clang -B "$build" -DCMAKE_BUILD_TYPE=Debug -DWEIG_BUILD_CLI=OFF \
          -DCMAKE_CXX_FLAGS="-O1 -fprofile-instr-generate -fcoverage-mapping" &&
        cmake --build "$build" --target weig_fuzz_replay; } 2>&1) ||
  { echo "$log" >&2; exit 1; }

replay=$build/tests/fuzz/weig_fuzz_replay
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT
for target in $("$replay" --list); do
  LLVM_PROFILE_FILE=$profiles/$target "$replay" "$target" "tests/fuzz/kept/$target"
done
llvm-profdata-19 merge -o "$build/kept.profile" "$profiles"/*
llvm-cov-19 show "$replay" -show-instantiations=false -instr-profile "$build/kept.profile" \
  src/core src/formats src/store/metadata.cc >"$build/kept.lines"
exec .venv/bin/python -B tests/fuzz/coverage.py "$build/kept.lines" "$@"
