#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over library and command, with the checks of .clang-tidy. It takes minutes,
# so what passed once is not checked again until a file changes.
set -euo pipefail

sources() { find src cli -name '*.cc' -print0 | sort -z; }
state=$({ clang-tidy-19 --version
          find .clang-tidy CMakeLists.txt cmake include src cli -type f -print0 | sort -z |
            xargs -0 sha256sum; } | sha256sum)
passed=build/clang/tidy-passed
[[ $(cat "$passed" 2>/dev/null) != "$state" ]] || { echo "unchanged"; exit 0; }

cmake --preset clang >/dev/null
sources | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 -p build/clang --quiet
echo "$state" >"$passed"
