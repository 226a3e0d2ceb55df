#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Proves that a bare Debian is enough: makes one in a temporary folder, clones the
# committed tree into it, and runs demo and tests there. Needs root, debootstrap, and a
# Debian whose package sources also have RELEASE.
# Usage: bare_root.sh bookworm|trixie [COMMAND...] (by default ./scripts/demo.sh and
# ./scripts/test.sh)
set -euo pipefail

release=${1?usage: $0 RELEASE [COMMAND...]}
shift
(($#)) || set -- bash -c "./scripts/demo.sh && ./scripts/test.sh"

# In mount and process namespaces of its own, so that mounts and stray processes go with
# the script, however it ends.
if [[ -z ${WEIG_BARE_ROOT-} ]]; then
  WEIG_BARE_ROOT=$(mktemp -d)
  export WEIG_BARE_ROOT
  trap 'rm -rf --one-file-system "$WEIG_BARE_ROOT"' EXIT
  unshare --mount --pid --fork --kill-child "$0" "$release" "$@"
  exit
fi
root=$WEIG_BARE_ROOT
tree=$(cd "$(dirname "$0")/.." && pwd)

# This machine's way to the package registries, with the other release's name in it.
this_release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# shellcheck disable=SC2016  # the fields are apt-get's
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
            'Created-By: Packages' | sort -u | sed "s/ $this_release/ $release/")
mirror=$(awk -v release="$release" '$3 == release { print $2; exit }' <<<"$sources")

debootstrap --variant=minbase "$release" "$root" "$mirror" >"$root/log" ||
  { tail "$root/log"; exit 1; }
echo "$sources" >"$root/etc/apt/sources.list"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
grep -lsE '^ *Acquire::(http|https|Check)' /etc/apt/apt.conf.d/* |
  xargs -r cp -t "$root/etc/apt/apt.conf.d"
environment=("PATH=/usr/sbin:/usr/bin:/sbin:/bin" LC_ALL=C.UTF-8 HOME=/root)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY \
            PIP_INDEX_URL PIP_DEFAULT_TIMEOUT; do
  [[ -z ${!name-} ]] || environment+=("$name=${!name}")
done
index=$(python3 -m pip config get global.index-url 2>/dev/null || true)
[[ -z $index ]] || environment+=("PIP_INDEX_URL=$index")
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/host-certificates.crt" &&
  environment+=(PIP_CERT=/etc/host-certificates.crt)

# A root like any other: open to all users, and a mount of its own.
chmod 755 "$root"
mount --bind "$root" "$root"
git clone --quiet --no-local "$tree" "$root/weig"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"

echo "bare root: $release, $(cat "$root/etc/debian_version")"
chroot "$root" env -i "${environment[@]}" bash -c 'cd /weig && exec "$@"' - "$@"
