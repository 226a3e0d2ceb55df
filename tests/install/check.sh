#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program beside this file against an installed weig, found once by CMake and
# once by pkg-config, and runs it. Usage: check.sh PREFIX COMPILER
set -euo pipefail
prefix=$1 cxx=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake -G Ninja -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS=-Werror
cmake --build "$work/cmake"
"$work/cmake/outside" "$work/cmake.weig"

pc=$(find "$prefix" -name weig.pc)
export PKG_CONFIG_PATH=${pc%/*} LD_LIBRARY_PATH=${pc%/pkgconfig/*}
"$prefix/bin/weig" --version
read -ra flags < <(pkg-config --cflags --libs weig)
"$cxx" -std=c++20 -Werror "$here/main.cc" "${flags[@]}" -o "$work/outside"
"$work/outside" "$work/pkg-config.weig"

cmp "$work/cmake.weig" "$work/pkg-config.weig"
"$prefix/bin/weig" verify "$work/cmake.weig"
