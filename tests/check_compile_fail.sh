#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Misuse that must not compile: each file of tests/compile_fail/ fails with the message
# that its line "// expect: REGEX" gives, and compiles with -DWEIG_CONTROL, so that it
# fails for that reason alone. "// clang: FLAGS" marks files only for clang.
# Usage: check_compile_fail.sh COMPILER...
set -euo pipefail

failures=0
fail() { echo "FAIL $file with $cxx: $1"; failures=$((failures + 1)); }

for file in tests/compile_fail/*.cc; do
  expect=$(sed -n 's|^// expect: ||p' "$file")
  clang_flags=$(sed -n 's|^// clang: ||p' "$file")
  for cxx in "$@"; do
    [[ -z $clang_flags || $cxx == *clang* ]] || continue
    compile=("$cxx" -std=c++20 -Iinclude -fsyntax-only -Werror=unused-result)
    # shellcheck disable=SC2206  # flags are words
    compile+=($clang_flags "$file")
    "${compile[@]}" -DWEIG_CONTROL || fail "the control does not compile"
    if output=$("${compile[@]}" 2>&1); then
      fail "it compiles"
    elif ! grep -qE -- "$expect" <<<"$output"; then
      fail "another message than '$expect':"
      echo "$output"
    fi
  done
done
exit $((failures > 0))
