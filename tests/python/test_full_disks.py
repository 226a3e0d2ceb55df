# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, limits on sizes, folders that may not be written to: the
old file stays, nothing else is left, and the message says why."""

import os
import resource
import shutil
import subprocess

import pytest

from command import CANNOT_OPEN, IO
from conftest import mounted
from full_disk import check_refusal, fill
from output_calls import CALLS, interfering

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
MIB = 1 << 20
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
NO_SPACE = "No space left on device"


@pytest.fixture(scope="module")
def full_tmpfs(folder):
    with mounted(folder / "tmpfs", "-t", "tmpfs", "-o", "size=16m", "none") as point:
        yield point


both = pytest.mark.parametrize("reserves", [True, False])
each = pytest.mark.parametrize("command", CALLS)


@needs_root
@both
@each
def test_a_full_disk(weig, sources, small_sources, full_tmpfs, command, reserves):
    """C96: whether space can be reserved, or is found to be missing while writing."""
    fill(weig, sources, small_sources, full_tmpfs, command, reserves, NO_SPACE)


@needs_root
def test_other_files_that_do_not_fit(weig, small_sources, full_tmpfs, tmp_path):
    """The model is there, whole; of the file that is not, nothing."""
    source = tmp_path / "model"
    shutil.copytree(small_sources, source)
    (source / "a.weig").unlink()
    (source / "tokenizer.json").write_bytes(b"x" * (20 * MIB))
    target = full_tmpfs / "out.weig"
    run = weig("convert", "--copy-others", source, "-o", target)
    copy = full_tmpfs / "tokenizer.json"
    assert run.status == IO and run.err.startswith(f"weig: {copy}: ")
    assert NO_SPACE in run.err and run.err.count("\n") == 1
    assert f"the model is complete: {target}" in run.err
    assert os.listdir(full_tmpfs) == ["out.weig"]
    weig.ok("verify", target)
    target.unlink()


# --- Folders that may not be written to -----------------------------------------------


def check_not_writable(run, folder, reason):
    assert run.status == CANNOT_OPEN, run.err
    assert str(folder) in run.err and reason in run.err and run.err.count("\n") == 1


@needs_root
@each
def test_a_folder_of_others(weig_for_all, small_sources, folder, command):
    """Neither a new file, nor over an old one, though that may be written to."""
    closed = folder / f"closed-{command}"
    closed.mkdir()
    old = closed / "old"
    old.write_bytes(b"old")
    old.chmod(0o666)
    for target in (closed / "out", old):
        call = [*CALLS[command](small_sources, target), "--force"]
        run = weig_for_all(*call, **AS_NOBODY)
        check_not_writable(run, closed, "Permission denied")
    assert os.listdir(closed) == ["old"] and old.read_bytes() == b"old"


@needs_root
@each
def test_a_read_only_mount(weig, small_sources, tmp_path, command):
    point = tmp_path / "mounted"
    point.mkdir()
    (point / "old").write_bytes(b"old")
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    for name in ("out", "old"):
        call = [*CALLS[command](small_sources, point / name), "--force"]
        words = ["unshare", "--mount", "sh", "-c", script, point, weig.path, *call]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        assert done.returncode == CANNOT_OPEN, done.stderr
        assert "Read-only file system" in done.stderr and str(point) in done.stderr
        assert done.stderr.count("\n") == 1
    assert os.listdir(point) == ["old"] and (point / "old").read_bytes() == b"old"


@needs_root
def test_a_folder_that_cannot_be_listed(weig_for_all, small_sources, folder):
    """It may be written to all the same."""
    drop = folder / "drop"
    drop.mkdir()
    drop.chmod(0o333)
    call = CALLS["convert"](small_sources, drop / "out")
    assert weig_for_all(*call, **AS_NOBODY).status == 0
    assert os.listdir(drop) == ["out"]
    weig_for_all.ok("verify", drop / "out")


# --- Limits on the size of files ------------------------------------------------------


def limited_to(size):
    # Python, too, ignores SIGXFSZ, but gives the signals back to what it starts.
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))}


@both
@each
def test_a_limit_on_the_size_of_files(weig, small_sources, tmp_path, command, reserves):
    """C96: `ulimit -f` kills a process that takes no care."""
    target = tmp_path / "out"
    env = {} if reserves else {"env": interfering(fallocate=95)}
    call = CALLS[command](small_sources, target)
    weig.ok(*call)
    size = target.stat().st_size
    for limit in (0, 4096, size // 2, size - 1):
        options = {**env, **limited_to(limit)}
        check_refusal(
            weig, [*call, "--force"], tmp_path, target, "File too large", **options
        )
    assert weig(*call, "--force", **env, **limited_to(size)).status == 0


def test_a_limit_on_what_is_printed(weig, small_sources, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        run = subprocess.run(
            [weig.path, "get", small_sources / "a.weig", "w", "--raw"],
            stdout=out, stderr=subprocess.PIPE, text=True, **limited_to(MIB),
        )  # fmt: skip
    assert run.returncode == IO and run.stderr.count("\n") == 1
    assert "standard output" in run.stderr and "File too large" in run.stderr
