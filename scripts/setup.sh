#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing: `setup.sh build` for building and the demo, `setup.sh test`
# for the tests too. For Debian 12 and 13 and Ubuntu 24.04. Does nothing, and asks for
# no rights, where all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

build=(g++ cmake ninja-build pkg-config python3-venv
       libxxhash-dev libsimdjson-dev nettle-dev libhwy-dev zlib1g-dev
       libdeflate-dev libfmt-dev libcli11-dev libgtest-dev libbenchmark-dev
       libprotozero-dev)
test=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev g++-i686-linux-gnu
      g++-aarch64-linux-gnu g++-s390x-linux-gnu qemu-user googletest
      libfuse3-dev fuse3 chromium time mount e2fsprogs btrfs-progs)
case "${1-}" in
  build) packages=("${build[@]}") ;;
  test) packages=("${build[@]}" "${test[@]}") ;;
  *) echo "usage: $0 build|test" >&2; exit 64 ;;
esac

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n')
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup: installing ${missing[*]}"
  as_root=()
  ((EUID == 0)) || as_root=(sudo)
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  { "${as_root[@]}" apt-get update &&
    "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi

# The distribution's own Python, past version managers that put theirs first.
python=/usr/bin/python3
[[ -x $python ]] || python=python3
stamp=$({ "$python" --version; pwd; cat scripts/requirements.txt; } | sha256sum)
if [[ $(cat .venv/stamp 2>/dev/null) != "$stamp" ]]; then
  echo "setup: making .venv"
  "$python" -m venv --clear .venv
  .venv/bin/pip install -qq --disable-pip-version-check --no-deps \
    -r scripts/requirements.txt
  echo "$stamp" >.venv/stamp
fi
