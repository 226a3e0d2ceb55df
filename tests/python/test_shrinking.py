# SPDX-License-Identifier: Apache-2.0
"""A file that is cut while a command uses it, after each of the command's system calls
in turn: the command ends with a status and one line that names the file, never by a
signal, and leaves nothing behind."""

import json
import os
import shutil
import subprocess

import pytest

from command import CANNOT_OPEN, CHECKSUM, CODE_NAMES, CORRUPT, IO
from conftest import PROGRAMS
from safetensors_file import by_reference, pattern

PAGE = 4096
# What may be said of a file that is no longer what it was.
STATUSES = {CANNOT_OPEN, CORRUPT, CHECKSUM, IO}

OUT = "{folder}/out"
CALLS = {
    "info": ["info", "{file}"],
    "info_json": ["info", "{file}", "--json"],
    "ls": ["ls", "{file}"],
    "ls_json": ["ls", "{file}", "--json"],
    "get": ["get", "{file}", "a.1.w", "--slice", ":3"],
    "get_json": ["get", "{file}", "a.1.w", "--slice", ":3", "--json"],
    "get_raw": ["get", "{file}", "a.1.w", "--raw"],
    "get_npy": ["get", "{file}", "a.1.w", "--widen", "-o", "{folder}/out.npy"],
    "get_widened": ["get", "{file}", "a.1.w", "--raw", "--widen", "-o", OUT],
    "convert": ["convert", "{file}", "-o", OUT],
    "export": ["export", "{file}", OUT],
    "residency": ["residency", "{file}"],
    "warm": ["warm", "{file}"],
    "warm_huge": ["warm", "--huge", "{file}"],
    "evict": ["evict", "{file}"],
    "doctor": ["doctor", "{file}"],
    "verify_json": ["verify", "{file}", "--json"],
    **{
        f"verify_{way}": ["verify", "{file}", "--load", way]
        for way in ("map", "stream", "populate", "read", "auto")
    },
}


@pytest.fixture(scope="module")
def models(weig, folder):
    """The same weights of 240 KiB as a file of each kind."""
    tensors = {
        f"a.{i}.w": ("BF16", (240, 128), pattern(4096, i) * 15) for i in range(4)
    }
    (folder / "m.safetensors").write_bytes(by_reference(tensors))
    weig.ok("convert", folder / "m.safetensors")
    return {"weig": folder / "m.weig", "safetensors": folder / "m.safetensors"}


class Cutting:
    """Calls a command with a copy of a model that is cut meanwhile."""

    def __init__(self, weig, model, folder, call):
        self.weig, self.model, self.folder = weig, model, folder
        self.file = folder / model.name
        words = (word.format(file=self.file, folder=folder) for word in call)
        self.command = [weig.path, *words]
        # 'weig doctor' succeeds in telling that the file is no model any more.
        self.finding = 1 if call[0] == "doctor" else 0

    def run(self, at, size):
        """Cuts it after call `at`. Returns the ended process, or None where the command
        made fewer calls."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        shutil.copy(self.model, self.file)
        environment = {
            **os.environ,
            "LD_PRELOAD": str(PROGRAMS / "libweig_shrink_file.so"),
            "WEIG_SHRINK": f"{at} {size} {self.file}",
        }
        done = subprocess.run(
            self.command, env=environment, capture_output=True, timeout=60
        )
        return done if os.path.getsize(self.file) == size else None

    def check(self, done, where):
        err = done.stderr.decode()
        where = f"{where}: status {done.returncode}, {err!r}"
        names = set(os.listdir(self.folder)) - {self.file.name}
        if done.returncode in (0, self.finding):
            return
        assert done.returncode in STATUSES, where
        told = [line for line in err.splitlines() if not self.is_ordinary(line)]
        assert len(told) == 1 and told[0].startswith("weig: "), where
        assert self.file.name in told[0] or "a file could not be read" in told[0], where
        assert names == set(), where
        if "--json" in self.command:
            self.check_json(done, told[0], where)

    @staticmethod
    def check_json(done, told, where):
        """All that is printed is one object: the error, or what was printed before it."""
        printed = json.loads(done.stdout)
        if "error" in printed:
            error = printed["error"]
            assert error["status"] == done.returncode, where
            assert error["code"] == CODE_NAMES[done.returncode], where
            assert f"weig: {error['message']}" == told, where

    @staticmethod
    def is_ordinary(line):
        """What 'weig get' says of every tensor, and warnings."""
        return line.startswith(("a.1.w: bf16 ", "weig: warning: "))


def cut_everywhere(cutting, sizes):
    """How many runs there were, and how many of them failed."""
    runs = failed = 0
    for size in sizes:
        for at in range(1, 1000):
            done = cutting.run(at, size)
            if not done:
                break
            cutting.check(done, f"cut to {size} after call {at}")
            runs += 1
            failed += done.returncode != 0
    return runs, failed


@pytest.mark.parametrize("kind", ["weig", "safetensors"])
@pytest.mark.parametrize("call", CALLS)
def test_a_cut_after_each_call(weig, models, tmp_path, call, kind):
    """C57"""
    cutting = Cutting(weig, models[kind], tmp_path / "here", CALLS[call])
    (tmp_path / "here").mkdir()
    half = models[kind].stat().st_size // 2 // PAGE * PAGE
    runs, failed = cut_everywhere(cutting, [0, half] if kind == "weig" else [0])
    # 'weig evict' wants nothing of what is in the file.
    assert runs >= 10 and (failed >= 1 or call == "evict")


def last_row_in_a_page(weig, model):
    """Of "a.1.w": its number, and where in the file it begins."""
    tensors = weig.ok("ls", model, "--json").json()["tensors"]
    begin = next(tensor["offset"] for tensor in tensors if tensor["name"] == "a.1.w")
    row_bytes = 128 * 2
    row = (begin // PAGE * PAGE + 2 * PAGE - begin) // row_bytes - 1
    return row, begin + row * row_bytes


@pytest.mark.parametrize("kind", ["weig", "safetensors"])
@pytest.mark.parametrize("how", [[], ["--json"], ["--raw"], ["--raw", "-o", OUT]])
def test_zeros_behind_a_cut_are_no_values(weig, models, tmp_path, how, kind):
    """The rest of a page that the cut went through reads as zeros."""
    here = tmp_path / "here"
    here.mkdir()
    row, size = last_row_in_a_page(weig, models[kind])
    call = ["get", "{file}", "a.1.w", "--slice", str(row), *how]
    cutting = Cutting(weig, models[kind], here, call)

    def result(done):
        target = here / "out"
        return done.stdout, target.read_bytes() if target.exists() else None

    shutil.copy(models[kind], cutting.file)
    whole = result(subprocess.run(cutting.command, capture_output=True))
    failed = 0
    for at in range(1, 1000):
        done = cutting.run(at, size)
        if not done:
            break
        cutting.check(done, f"cut after call {at}")
        failed += done.returncode != 0
        assert done.returncode != 0 or result(done) == whole
    assert failed >= 5


@pytest.mark.parametrize("kind", ["weig", "safetensors"])
def test_a_cut_file_is_never_sound(weig, models, tmp_path, kind):
    """Not even without digests, where zeros are as good as any bytes."""
    (tmp_path / "here").mkdir()
    cutting = Cutting(weig, models[kind], tmp_path / "here", ["verify", "{file}"])
    told = []
    for at in range(1, 1000):
        done = cutting.run(at, models[kind].stat().st_size - 100)
        if not done:
            break
        cutting.check(done, f"cut after call {at}")
        told.append((done.returncode, done.stderr))
    # Cut when all has been looked at: what is left is to print it, and to unmap.
    statuses = [status for status, _ in told]
    sound = len(statuses) - statuses.index(0)
    assert sound <= 6 and statuses[-sound:] == [0] * sound, told
    assert any(b"changed while it was read" in err for _, err in told)


def test_a_lost_page_is_told_as_json(weig, models, tmp_path):
    model = tmp_path / 'a "quoted" \\ \u00e9.weig'
    shutil.copy(models["weig"], model)
    (tmp_path / "here").mkdir()
    call = ["verify", "{file}", "--json"]
    cutting = Cutting(weig, model, tmp_path / "here", call)
    lost = 0
    for at in range(1, 1000):
        done = cutting.run(at, PAGE)
        if not done:
            break
        err = done.stderr.decode()
        if "could not be read: it was cut short" not in err:
            continue
        lost += 1
        cutting.check_json(done, err.rstrip("\n"), f"cut after call {at}")
        error = json.loads(done.stdout)["error"]
        assert error["code"] == "io" and error["what"].startswith("could not be read")
        assert error["file"].endswith('/a "quoted" \\ \\xc3\\xa9.weig')
        nothing = ("tensor", "offset", "found", "expected", "hint")
        assert all(error[name] is None for name in nothing)
    assert lost > 0


def test_the_name_in_the_message_is_harmless(weig, models, tmp_path):
    """It comes from the kernel, as it is, to the handler of a signal."""
    model = tmp_path / "\x1b[31m\u00e9.weig"
    shutil.copy(models["weig"], model)
    call = ["verify", "{file}", "--threads", "4"]
    cutting = Cutting(weig, model, tmp_path / "here", call)
    (tmp_path / "here").mkdir()
    told = []
    for at in range(1, 1000):
        done = cutting.run(at, PAGE)
        if not done:
            break
        assert b"\x1b" not in done.stderr and done.stderr.count(b"\n") <= 1
        told.append(done.stderr.decode())
    signals = [line for line in told if "could not be read: it was cut short" in line]
    assert signals and all(r"/\x1b[31m\xc3\xa9.weig: could" in line for line in signals)


@pytest.mark.parametrize("at", [2, 5, 10, 20, 40, 80])
def test_a_cut_while_it_is_measured(weig, models, tmp_path, at):
    """In the command and in each of the processes that it starts."""
    call = ["bench", "{file}", "--rounds", "1", "--states", "warm"]
    cutting = Cutting(weig, models["weig"], tmp_path / "here", call)
    (tmp_path / "here").mkdir()
    done = cutting.run(at, 0)
    assert done, "it made fewer calls"
    if done.returncode == 0:  # it goes on to the end, and tells which ways failed
        assert b"failed:" in done.stdout and done.stderr == b""
    else:
        assert done.returncode in STATUSES and done.stderr.startswith(b"weig: ")
    assert os.listdir(tmp_path / "here") == [cutting.file.name]


def test_a_cut_while_it_is_locked(weig, models, tmp_path):
    file = shutil.copy(models["weig"], tmp_path)
    process = weig.start("warm", "--lock", file)
    assert b"in memory" in process.stdout.readline()
    os.truncate(file, 0)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 8
    size = models["weig"].stat().st_size
    told = f"the file was cut while it was locked: found 0 bytes, expected {size} bytes"
    assert err.decode() == f"weig: {file}: {told}\n"
