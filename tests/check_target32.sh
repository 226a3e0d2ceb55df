#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A 32-bit target is refused in one plain sentence, not in pages of consequences.
set -euo pipefail

if output=$(i686-linux-gnu-g++ -std=c++20 -Iinclude -fsyntax-only -x c++ \
            -include weig/weig.h /dev/null 2>&1); then
  echo "compiles for a 32-bit target"
  exit 1
fi
errors=$(grep 'error: ' <<<"$output")
if [[ $(wc -l <<<"$errors") != 1 || $errors != *"64-bit target"* ]]; then
  echo "want one error with '64-bit target'; got:"
  echo "$errors"
  exit 1
fi
