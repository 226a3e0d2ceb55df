# SPDX-License-Identifier: Apache-2.0
"""Is what `auto` chooses fast? For each state that it tells apart, the state is made, and
all ways to load are timed there, from opening to every page touched, in fresh processes
and in turn. `auto` must take at most 1.15 times the best of them.

`python -m pytest -s tests/python/test_auto.py` prints the figures; with WEIG_AUTO_BYTES
they are those of a larger model.
"""

import contextlib
import os
import shlex
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

import safetensors_file
from command import LIMIT
from conftest import disk_in_a_file, mounted, mounted_slowly
from page_cache import back_memory, evict, memory_cgroup, read_ahead_of, setting

MIB = 1 << 20
BYTES = int(os.environ.get("WEIG_AUTO_BYTES", 512 * MIB))
WAYS = ("auto", "map", "stream", "populate", "read")
MOST = 1.15
# Medians of so many rounds; of more where they do not show it, of a disturbed machine.
ROUNDS = (7, 21, 49)
# Seconds that choosing takes: limits are read, and threads begin.
JITTER = 0.001


def write_model(weig, file, size, tensors=48):
    """A WEIG file with so many bytes of weights."""
    rows = size // tensors // MIB or 1
    shape = [rows, min(MIB, size // tensors)]
    length = shape[0] * shape[1]
    entries = {
        f"layers.{i}.w": safetensors_file.entry("U8", shape, i * length, (i + 1) * length)
        for i in range(tensors)
    }
    source = file.with_suffix(".safetensors")
    with open(source, "wb") as target:
        target.write(safetensors_file.assemble(entries))
        for _ in range(tensors):
            target.write(os.urandom(length))
    weig.ok("convert", source, "-o", file)
    source.unlink()


@pytest.fixture(scope="module")
def model(weig, folder):
    file = folder / "m.weig"
    write_model(weig, file, BYTES)
    return file


def make_cold(file):
    evict(file)
    back_memory(os.path.getsize(file) * 3 // 2)


def read(file, size=None):
    """Into the page cache, through a plain descriptor."""
    with open(file, "rb") as opened:
        left = os.path.getsize(file) if size is None else size
        while left > 0 and (piece := opened.read(min(left, 8 * MIB))):
            left -= len(piece)


class Timing:
    """Times all ways in one state: `make` makes it before each run; `before` is a
    command that runs the rest of its line."""

    def __init__(self, weig, file, make, before=()):
        self.command = [*before, weig.path, "__bench_worker"]
        self.file, self.make = file, make
        self.seconds = {way: [] for way in WAYS}
        self.chosen = set()

    def once(self, way):
        self.make()
        command = [*self.command, way, self.file, "0", "0"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode == LIMIT and way == "read":
            self.seconds.pop(way)  # it does not fit, and says so before it begins
            return
        assert run.returncode == 0, run.stderr
        told = dict(line.split(" ", 1) for line in run.stdout.splitlines())
        parts = (int(told[part]) for part in ("open", "resident", "first_use"))
        self.seconds[way].append(sum(parts) / 1e9)
        if way == "auto":
            self.chosen.add(told["chosen"])

    def medians(self):
        return {way: statistics.median(times) for way, times in self.seconds.items()}

    def check(self, state, chosen):
        for number in range(max(ROUNDS)):
            ways = list(self.seconds)
            turn = 1 if number % 2 == 0 else -1  # none always follows the same one
            for i in range(len(ways)):
                self.once(ways[(number + turn * i) % len(ways)])
            if number + 1 not in ROUNDS:
                continue
            medians = self.medians()
            auto = medians.pop("auto")
            best = min(medians, key=medians.get)
            if auto <= MOST * medians[best] + JITTER:
                break
        else:
            pytest.fail(f"{state}: auto {auto:.4f} s, {medians}")
        assert self.chosen == {chosen}
        others = ", ".join(f"{way} {1e3 * s:.1f} ms" for way, s in medians.items())
        print(f"\n{state}: auto ({chosen}) {1e3 * auto:.1f} ms; {others}", end="")


def test_small(weig, folder):
    file = folder / "small.weig"
    write_model(weig, file, MIB, tensors=4)
    Timing(weig, file, lambda: read(file)).check("small, warm", "populate")


def test_cold(weig, model):
    Timing(weig, model, lambda: make_cold(model)).check("cold", "populate")


@pytest.fixture(scope="module")
def large_folios(weig, model):
    """Whether the file system has them."""
    evict(model)
    told = weig.ok("warm", model, "--json").json()["huge_share"]
    return told is not None and told > 0.5


def test_cold_with_a_short_read_ahead(weig, model, large_folios):
    chosen = "populate" if large_folios else "read"
    with setting(read_ahead_of(model), 128):
        Timing(weig, model, lambda: make_cold(model)).check(
            "cold, read-ahead 128 KiB", chosen
        )


def test_half_in_memory(weig, model):
    def make():
        make_cold(model)
        read(model, BYTES // 2)

    Timing(weig, model, make).check("half in memory", "populate")


def test_in_memory(weig, model):
    evict(model)
    Timing(weig, model, lambda: read(model)).check("in memory", "populate")


def test_in_memory_in_small_folios(weig, model, folder):
    copy = folder / "copy.weig"
    subprocess.run(["cp", model, copy], check=True)
    Timing(weig, copy, lambda: None).check("in memory, as cp left it", "populate")
    copy.unlink()


AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_cold_of_another_user(weig_for_all, model):
    timing = Timing(weig_for_all, model, lambda: make_cold(model), AS_NOBODY)
    timing.check("cold, another user's", "populate")


@pytest.mark.parametrize("cold", [True, False])
def test_what_unknown_residency_is_found_to_be(
    weig_for_all, model, large_folios, cold
):
    evict(model) if cold else read(model)
    with setting(read_ahead_of(model), 128):
        command = [*AS_NOBODY, weig_for_all.path, "__bench_worker", "auto", model]
        told = subprocess.run(
            [*command, "0", "0"], capture_output=True, text=True, check=True
        ).stdout
    tried = "2 places tried 0" if cold else "8 places tried 8"
    if cold and not large_folios:
        assert "gives no huge pages here" in told
    else:
        assert (
            f"reason residency is unknown (another user's file), of {tried} were in memory\n"
        ) in told


def test_in_memory_of_another_user(weig_for_all, model):
    timing = Timing(weig_for_all, model, lambda: read(model), AS_NOBODY)
    timing.check("in memory, another user's", "populate")


def test_a_small_memory_limit(weig, model):
    with memory_cgroup(BYTES // 3) as (group, _):
        enter = f'echo $$ >{shlex.quote(str(group))}/cgroup.procs; exec "$@"'
        before = ["sh", "-c", enter, "sh"]
        timing = Timing(weig, model, lambda: make_cold(model), before)
        timing.check("a third fits into memory", "map")


def test_a_remote_file_system(weig, model, big_tmp):
    shutil.copy(model, big_tmp)
    with mounted_slowly(big_tmp, 5) as (point, _):
        file = point / model.name
        Timing(weig, file, lambda: make_cold(file)).check("fuse, 5 ms a request", "read")
        Timing(weig, file, lambda: read(file)).check("fuse, in memory", "populate")


def test_a_file_system_in_memory(weig, model, folder):
    with mounted(folder / "memory", "-t", "tmpfs", "none") as point:
        file = Path(shutil.copy(model, point))
        Timing(weig, file, lambda: None).check("tmpfs", "populate")


def test_a_file_system_without_large_folios(weig, model, folder):
    """ext4 with the encryption feature has none. Its disk is a file that is read past
    the page cache, so that cold is cold."""
    point = folder / "small-folios"
    with disk_in_a_file(folder / "disk", BYTES + 128 * MIB) as device:
        subprocess.run(["mkfs.ext4", "-q", "-O", "encrypt", device], check=True)
        with mounted(point, device), setting(read_ahead_of(point), 128):
            file = Path(shutil.copy(model, point))
            Timing(weig, file, lambda: make_cold(file)).check(
                "without large folios, read-ahead 128 KiB", "read"
            )
