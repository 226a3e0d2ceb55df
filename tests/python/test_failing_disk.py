# SPDX-License-Identifier: Apache-2.0
"""A disk that cannot read some bytes in the middle of a file, whose ends it can: what
does not need them works, all else ends with a status and one line that names the file,
never by a signal, and leaves nothing behind."""

import os
import shutil

import pytest

from command import CORRUPT, IO
from conftest import mounted_slowly
from safetensors_file import by_hand, pattern

MIB = 1 << 20
LOST = (5 * MIB, 5 * MIB + 4096)  # inside tensor w.2 of both files
WAYS = ("map", "stream", "populate", "read", "auto")


@pytest.fixture(scope="module")
def sound(weig, folder):
    """Two files of 8 MiB in four tensors."""
    data = pattern(4096) * 512
    tensors = {f"w.{i}": ("U8", (len(data),), data) for i in range(4)}
    (folder / "a.safetensors").write_bytes(by_hand(tensors))
    weig.ok("convert", folder / "a.safetensors")
    return folder


@pytest.fixture(params=["a.weig", "a.safetensors"])
def file(request, sound, big_tmp):
    """One of them on such a disk, of which nothing is in memory."""
    shutil.copy(sound / request.param, big_tmp)
    with mounted_slowly(big_tmp, 0, bad=LOST) as (point, _):
        yield point / request.param


def check(run, file, *statuses):
    assert run.status in statuses, run.err
    lines = run.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("weig: "), run.err
    assert file.name in lines[0] or "a file could not be read" in lines[0]


def test_what_needs_other_bytes_works(weig, file):
    for command in ("info", "ls", "residency", "evict"):
        weig.ok(command, file)
    for name in ("w.0", "w.3"):
        raw = weig.ok("get", "--raw", file, name).out
        assert raw == pattern(4096) * 512


@pytest.mark.parametrize("way", WAYS)
def test_verify_says_so(weig, file, way):
    check(weig("verify", "--load", way, file), file, IO, CORRUPT)


def test_warm_says_so(weig, file):
    check(weig("warm", file), file, IO, CORRUPT)
    check(weig("warm", "--huge", file), file, IO, CORRUPT)


@pytest.mark.parametrize(
    "options", [["--raw"], ["--json"], ["--raw", "--slice", "-9:"]]
)
def test_get_says_so_if_it_needs_them(weig, file, options):
    if "--slice" in options:
        assert weig.ok("get", file, "w.2", *options).out == pattern(4096)[-9:]
        return
    run = weig("get", file, "w.2", *options)
    assert run.status == IO and "could not be read" in run.err


@pytest.mark.parametrize("command", ["convert", "export", "get"])
def test_no_output_is_left(weig, file, tmp_path, command):
    out = tmp_path / "out"
    call = {
        "convert": ["convert", file, "-o", out],
        "export": ["export", file, out],
        "get": ["get", file, "w.2", "--raw", "-o", out],
    }[command]
    check(weig(*call), file, IO)
    assert os.listdir(tmp_path) == []
    out.write_bytes(b"old")
    check(weig(*call, "--force"), file, IO)
    assert os.listdir(tmp_path) == ["out"] and out.read_bytes() == b"old"
