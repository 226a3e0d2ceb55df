#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The unit tests on other machines: built with the distribution's cross compilers, run
# under qemu-user.
# Usage: machines.sh [core] [aarch64|s390x]... (by default both; s390x is big-endian)
# `core`: the part that needs no library of those machines, which test.sh runs. Without
# it, all unit tests that emulation allows: for Debian 12 and 13, whose package sources
# have other architectures too. Their packages are unpacked into build/libraries-MACHINE
# by an apt that has all its state in build/: nothing foreign is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
part=
if [[ ${1-} == core ]]; then
  part=-core
  shift
fi
(($#)) || set -- aarch64 s390x
declare -A debian_names=([aarch64]=arm64 [s390x]=s390x)
packages=(libdeflate-dev libgtest-dev libhwy-dev libsimdjson-dev libxxhash-dev nettle-dev
          zlib1g-dev)

./scripts/setup.sh test

# The packages and what they need, unpacked, but for the C and C++ libraries, which the
# cross compilers bring.
get_libraries() {
  local name=$1 folder=$2 state=$PWD/$2.apt
  rm -rf "$folder" "$state"
  mkdir -p "$folder" "$state"/{lists,archives}/partial
  touch "$state/status"
  local private=(-o APT::Architecture="$name" -o APT::Architectures="$name"
                 -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1
                 -o Dir::State="$state" -o Dir::State::status="$state/status"
                 -o Dir::State::lists="$state/lists" -o Dir::Cache="$state"
                 -o Dir::Cache::archives="$state/archives")
  apt-get "${private[@]}" update
  apt-get "${private[@]}" install -y --download-only --no-install-recommends \
    "${packages[@]}"
  local package
  for package in "$state"/archives/lib{deflate,gtest,hwy,simdjson,xxhash,nettle}*.deb \
                 "$state"/archives/{nettle-dev,zlib1g}*.deb; do
    dpkg-deb -x "$package" "$folder"
  done
  rm -rf "$state"
}

release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
for machine in "$@"; do
  libraries=build/libraries-$machine
  stamp="$release ${packages[*]}"
  if [[ -z $part && $(cat "$libraries/stamp" 2>/dev/null) != "$stamp" ]]; then
    echo "machines: getting libraries for $machine"
    log=$(get_libraries "${debian_names[$machine]}" "$libraries" 2>&1) ||
      { echo "$log" >&2; exit 1; }
    echo "$stamp" >"$libraries/stamp"
  fi
  preset=$machine$part
  echo "machines: building $preset"
  log=$(cmake --preset "$preset" 2>&1) || { echo "$log" >&2; exit 1; }
  cmake --build "build/$preset" -- --quiet -j "$(nproc)"
  echo "machines: running $preset"
  ctest --preset "$preset" -j "$(nproc)" --no-label-summary
done
