# SPDX-License-Identifier: Apache-2.0
"""A real quota, of a folder of btrfs: as with a full disk, the old file stays, nothing
else is left, and the message says why. Where the kernel has no btrfs, the whole test is
left out, and counted as such."""

import subprocess
from pathlib import Path

import pytest

from conftest import disk_in_a_file, mounted
from full_disk import fill
from output_calls import CALLS

LEFT_OUT = 77  # what tests/CMakeLists.txt takes for it
if "\tbtrfs\n" not in Path("/proc/filesystems").read_text():
    pytest.exit("this kernel has no btrfs", returncode=LEFT_OUT)


def _run(*command):
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def full_quota(folder):
    """A folder of a file system with room, which may hold 16 MiB."""
    with disk_in_a_file(folder / "disk", 256 << 20) as device:
        _run("mkfs.btrfs", "-q", device)
        with mounted(folder / "btrfs", device) as point:
            _run("btrfs", "-q", "quota", "enable", point)
            _run("btrfs", "-q", "subvolume", "create", point / "limited")
            _run("btrfs", "-q", "qgroup", "limit", "16M", point / "limited")
            yield point / "limited"


@pytest.mark.parametrize("reserves", [True, False])
@pytest.mark.parametrize("command", CALLS)
def test_a_quota(weig, sources, small_sources, full_quota, command, reserves):
    reason = "Disk quota exceeded"
    fill(weig, sources, small_sources, full_quota, command, reserves, reason)
