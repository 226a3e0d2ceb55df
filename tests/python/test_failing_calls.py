# SPDX-License-Identifier: Apache-2.0
"""Whatever call fails while the command writes, and wherever it is killed: the old file
or the complete new one is there, and the message says what failed."""

import errno
import os
import random
import signal
import subprocess
import time

import pytest

from command import CANNOT_OPEN, CORRUPT, IO
from output_calls import CALLS, OLD, Target, make_sources
from safetensors_file import by_hand

ERRORS = [errno.ENOSPC, errno.EIO, errno.EDQUOT]


@pytest.fixture(params=["old", "none"])
def target(request, weig, tmp_path, command):
    folder = tmp_path / "here"
    folder.mkdir()
    make_sources(weig, folder)
    return Target(weig, folder, command, request.param == "old")


def counted_calls(target):
    """What each counted call of a run is, in order."""
    kinds = [words[0] for words in target.logged_calls() if words[0] != "unlink"]
    if kinds[-1] == "sync":
        kinds[-1] = "sync of the folder"
    assert len(kinds) >= 5 and "sync" in kinds
    return kinds


@pytest.mark.parametrize("then", ["once", "always"])
@pytest.mark.parametrize("command", CALLS)
def test_each_call_that_fails(target, then):
    """C96"""
    kinds = counted_calls(target)
    for at, kind in enumerate(kinds, 1):
        for error in ERRORS:
            run = target.run(at=at, error=error, then=then)
            where = f"call {at}, {kind}: {run.status}, {run.err!r}"
            if kind == "link" and then == "once":  # renamed instead
                assert run.status == 0 and target.is_new(), where
                continue
            assert run.status == (CANNOT_OPEN if kind == "create" else IO), where
            assert run.err.startswith(f"weig: {target.path}: "), where
            assert run.err.count("\n") == 1 and os.strerror(error) in run.err, where
            assert run.out == b"" and target.names() == set(), where
            last = kind == "sync of the folder"
            assert target.is_new() if last else target.is_old(), where
    run = target.run(at=len(kinds) + 1, error=errno.EIO, then=then)
    assert run.status == 0 and target.is_new(), run.err


@pytest.mark.parametrize("command", ["convert", "export"])
def test_each_call_that_writes_half(target):
    kinds = counted_calls(target)
    for at, kind in enumerate(kinds, 1):
        assert target.run(at=at, then="half").status == 0 and target.is_new(), kind
    for at, kind in enumerate(kinds[:-1], 1):
        run = target.run(at=at, then="half+fail", error=errno.ENOSPC)
        assert run.status == IO and os.strerror(errno.ENOSPC) in run.err, kind
        last = at == len(kinds) - 1 and kind != "write"
        assert target.is_new() if last else target.is_old(), kind
        assert target.names() == set()


@pytest.mark.parametrize("command", ["convert", "export"])
def test_each_call_of_a_poor_file_system(target):
    """No fallocate, no renaming that refuses, no folder that can be opened."""
    poor = {"fallocate": errno.EOPNOTSUPP, "no_replace": errno.EINVAL}
    poor["folder"] = errno.EACCES
    for at in range(1, 40):
        run = target.run(at=at, error=errno.ENOSPC, **poor)
        if run.status == 0:
            break
        assert os.strerror(errno.ENOSPC) in run.err and target.names() == set()
        assert target.is_old() or "folder" in run.err and target.is_new()
    assert at > 6 and target.is_new()


def check_parts(target):
    """What a kill leaves is recognisable, and no model unless it is the whole one."""
    names = target.names()
    for name in names:
        assert name.startswith(".out.") and name.endswith(".part")
        part = target.folder / name
        if target.is_sealed and part.read_bytes() != target.new:
            assert target.weig("info", part).status == CORRUPT
        part.unlink()
    return len(names)


@pytest.mark.parametrize("then", ["kill", "half+kill"])
@pytest.mark.parametrize("command", CALLS)
def test_a_kill_at_each_call(target, then):
    """C96"""
    parts = 0
    kinds = counted_calls(target)
    for at, kind in enumerate(kinds, 1):
        assert target.run(at=at, then=then).status == -signal.SIGKILL, kind
        named = kind in ("sync of the folder", "unlink")
        assert target.is_new() if named else target.is_old(), kind
        parts += check_parts(target)
    assert parts >= len(kinds) - 3
    assert target.run().status == 0 and target.is_new()


# --- Kills at any moment --------------------------------------------------------------

KILLS = 500


class KilledConversion:
    """A conversion of 8 MiB, started and killed after a while."""

    def __init__(self, weig, folder):
        self.weig, self.folder, self.target = weig, folder, folder / "out.weig"
        data = os.urandom(1 << 20) * 4
        tensors = {f"w.{i}": ("U8", (len(data),), data) for i in range(2)}
        (folder / "in.safetensors").write_bytes(by_hand(tensors))
        self.command = [
            weig.path, "convert", folder / "in.safetensors", "-o", self.target, "-f",
        ]  # fmt: skip
        times = []
        for _ in range(5):
            start = time.monotonic()
            subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.monotonic() - start)
        self.seconds = sorted(times)[2]
        weig.ok("verify", self.target)
        self.new = self.target.read_bytes()

    def kill_after(self, seconds):
        """Whether it was killed, and had not ended by itself."""
        with subprocess.Popen(self.command, stdout=subprocess.DEVNULL) as process:
            time.sleep(seconds)
            process.kill()
        assert process.returncode in (0, -signal.SIGKILL)
        return process.returncode != 0

    def parts(self):
        return set(os.listdir(self.folder)) - {"in.safetensors", "out.weig"}


@pytest.mark.parametrize("old", [OLD, None])
def test_kills_at_any_moment(weig, big_tmp, old):
    """C96: together, 500 kills that struck a running conversion."""
    conversion = KilledConversion(weig, big_tmp)
    chance = random.Random(7)
    kills = parts = new = 0
    while kills < KILLS // 2:
        conversion.target.unlink(missing_ok=True)
        if old:
            conversion.target.write_bytes(old)
        killed = conversion.kill_after(chance.uniform(0, 1.1 * conversion.seconds))
        kills += killed
        there = conversion.target.exists()
        if there and conversion.target.stat().st_size == len(conversion.new):
            assert conversion.target.read_bytes() == conversion.new
            new += killed
        else:
            assert killed
            assert conversion.target.read_bytes() == old if old else not there
        for name in conversion.parts():
            assert name.startswith(".out.weig.") and name.endswith(".part")
            parts += 1
            if kills % 10:  # the others lie there while the next one runs
                (big_tmp / name).unlink()
    # They struck before there was a file, while it was written, and after.
    assert parts >= KILLS // 20, (kills, parts, new)
    subprocess.run(conversion.command, check=True, stdout=subprocess.DEVNULL)
    assert conversion.target.read_bytes() == conversion.new
