#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All C++ is formatted as .clang-format says. To format: the same with -i instead of
# --dry-run.
set -euo pipefail
find include src cli tests bench \( -name '*.cc' -o -name '*.h' \) -print0 |
  xargs -0 clang-format-19 --dry-run -Werror
