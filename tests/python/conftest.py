# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the command, folders, and what a refusal must look like.

The command is the one that the environment variable WEIG_COMMAND names.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import hypothesis
import pytest

import safetensors_file
from command import CODE_NAMES, MEMORY, SECOND, Weig, list_tree

# Programs that tests start, built with the unit tests.
PROGRAMS = Path(os.environ.get("WEIG_TEST_PROGRAMS", "build/release/tests")).resolve()

# The same examples in every run, and no folder of earlier ones.
hypothesis.settings.register_profile(
    "weig", derandomize=True, database=None, deadline=None, print_blob=False
)
hypothesis.settings.load_profile("weig")


@pytest.fixture(scope="session")
def weig():
    path = os.environ.get("WEIG_COMMAND")
    if not path or not os.access(path, os.X_OK):
        pytest.fail(f"WEIG_COMMAND must name the weig command, and is {path!r}")
    return Weig(os.path.abspath(path))


@pytest.fixture(scope="session")
def weig_for_all(weig):
    """The command where every user can start it."""
    folder = Path(tempfile.mkdtemp(prefix="weig-command-", dir="/var/tmp"))
    folder.chmod(0o755)
    shutil.copy(weig.path, folder / "weig")
    yield Weig(str(folder / "weig"))
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def folder():
    """One on a disk, for a whole file of tests, that every user may look into."""
    path = Path(tempfile.mkdtemp(prefix="weig-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def big_tmp():
    """A folder on a disk, for files too large for a /tmp in memory."""
    folder = tempfile.mkdtemp(prefix="weig-test-", dir="/var/tmp")
    yield Path(folder)
    shutil.rmtree(folder)


@contextlib.contextmanager
def mounted_slowly(folder, milliseconds, bad=()):
    """Shows a folder through FUSE, every request so late. Gives the mount point and a
    function that gives the (offset, size) of the requests so far. `bad`: (begin, end)
    of every file, which cannot be read."""
    point, log = folder / "slow", folder / "requests"
    point.mkdir()
    command = [PROGRAMS / "weig_slow_mount", folder, point, str(milliseconds), log]
    command += map(str, bad)
    with subprocess.Popen(command) as server:
        deadline = time.monotonic() + 10
        while not os.path.ismount(point):
            assert server.poll() is None and time.monotonic() < deadline, "cannot mount"
            time.sleep(0.01)

        def requests():
            lines = log.read_text().splitlines()
            os.truncate(log, 0)  # the server goes on writing to it
            return [tuple(map(int, line.split())) for line in lines]

        try:
            yield point, requests
        finally:
            subprocess.run(["umount", point], check=True)


@contextlib.contextmanager
def mounted(folder, *arguments):
    folder.mkdir()
    subprocess.run(["mount", *arguments, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def disk_in_a_file(file, size):
    with open(file, "wb") as opened:
        opened.truncate(size)
    command = ["losetup", "--direct-io=on", "--find", "--show", file]
    device = subprocess.run(command, check=True, capture_output=True, text=True)
    device = device.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        file.unlink()


@pytest.fixture
def slow_mount(big_tmp):
    """As network file systems are: 5 ms a request."""
    with mounted_slowly(big_tmp, 5) as mount:
        yield mount


@pytest.fixture
def very_slow_mount(big_tmp):
    """As a busy one is: 15 ms a request."""
    with mounted_slowly(big_tmp, 15) as mount:
        yield mount
@pytest.fixture
def memory_cgroup():
    """A cgroup with a memory limit, of whichever version there is."""
    version_1 = Path("/sys/fs/cgroup/memory")
    root = version_1 if version_1.is_dir() else Path("/sys/fs/cgroup")
    group = root / f"weig-test-{os.getpid()}"
    group.mkdir()

    class Group:
        def __call__(self, limit):
            name = "memory.limit_in_bytes" if root == version_1 else "memory.max"
            (group / name).write_text(str(limit))

        @staticmethod
        def enter():
            (group / "cgroup.procs").write_text(str(os.getpid()))

    yield Group()
    for _ in range(50):  # until the last process in it is gone for good
        try:
            group.rmdir()
            break
        except OSError:
            time.sleep(0.02)
    else:
        pytest.fail(f"{group} cannot be removed")


def source_of(folder, size):
    """A model of so many bytes, in one tensor."""
    folder.mkdir()
    tensors = {"w": ("U8", (size,), os.urandom(1 << 20) * (size >> 20))}
    (folder / "a.safetensors").write_bytes(safetensors_file.by_hand(tensors))
    return folder


@pytest.fixture(scope="module")
def sources(weig, folder):
    """Models of 24 MiB, readable by all."""
    path = source_of(folder / "sources", 24 << 20)
    weig.ok("convert", path / "a.safetensors")
    return path


@pytest.fixture(scope="module")
def small_sources(weig, folder):
    path = source_of(folder / "small", 2 << 20)
    weig.ok("convert", path / "a.safetensors")
    return path


@pytest.fixture(scope="session")
def sample():
    return safetensors_file.sample()


@pytest.fixture(scope="session")
def sample_weig(weig, sample, tmp_path_factory):
    """The sample's WEIG file, as bytes."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / "sample.safetensors").write_bytes(sample.raw)
    weig.ok("convert", folder / "sample.safetensors")
    return (folder / "sample.weig").read_bytes()


ANY = object()  # a tensor, or none


class Refusals:
    """Calls the command with what it must refuse, and looks at how it says so."""

    def __init__(self, weig):
        self.weig = weig

    def __call__(self, arguments, status, file, *words, tensor=ANY, kept=None):
        """`file`: what the message must start with; `words`: what it must hold; `kept`:
        a folder in which nothing may come or go. Returns the message."""
        before = list_tree(kept) if kept else {}
        run = self.weig(*arguments)
        where = f"{arguments}: {run.err!r}"
        assert run.status == status, f"status {run.status}; {where}"
        lines = run.err.splitlines()
        assert len(lines) == 1 and run.err.endswith("\n"), f"one line; {where}"
        assert lines[0].startswith("weig: "), where
        if file is not None:
            assert lines[0].startswith(f"weig: {file}: "), where
        for word in words:
            assert str(word) in lines[0], f"{word!r} in {where}"
        if tensor is not ANY and tensor is not None:
            assert f"tensor '{tensor}'" in lines[0], where
        if kept:
            assert list_tree(kept) == before, where
        if "--json" not in arguments:
            assert run.out == b"", where
        return lines[0]

    def as_json(self, arguments, status):
        """The same call with --json: the same message, in full. Returns the object."""
        message = self(arguments, status, None)
        run = self.weig(*arguments, "--json")
        assert run.status == status and run.err == message + "\n"
        error = run.json()["error"]
        assert error["code"] == CODE_NAMES[status] and error["status"] == status
        assert "weig: " + error["message"] == message
        return error

    def everywhere(self, path, status, *words, tensor=ANY, lenient=True):
        """One bad file through every command that reads: the same class of error, in
        words and in JSON, and nothing left behind. `tensor`: which one it names, None
        for none; `lenient`: --lenient changes nothing."""
        kept = os.path.dirname(path)
        target = Path(path).with_suffix(".out.weig")
        calls = [[command, path] for command in ("info", "ls", "verify")]
        calls += [["get", path, "no such tensor"], ["convert", path, "-o", target]]
        for call in calls:
            self(call, status, path, *words, kept=kept)
            error = self.as_json(call, status)
            assert error["file"] == str(path)
            assert tensor is ANY or error["tensor"] == tensor
        if lenient:
            call = ["convert", "--lenient", path, "-o", target]
            self(call, status, path, *words, kept=kept)


@pytest.fixture(scope="session")
def refused(weig):
    return Refusals(weig)


@pytest.fixture
def bad(tmp_path):
    """Writes what a file holds and returns its path."""

    def write(raw):
        path = tmp_path / "bad.safetensors"
        path.write_bytes(raw)
        return path

    return write


@pytest.fixture
def round_trip(weig, tmp_path):
    """Calls convert, verify, export; the result must be the very bytes that went in.
    Returns the path of the WEIG file."""

    def run(raw, *options):
        source, target = tmp_path / "in.safetensors", tmp_path / "in.weig"
        back = tmp_path / "back.safetensors"
        source.write_bytes(raw)
        weig.ok("convert", source, "-o", target, "--force", *options)
        assert "sound" in weig.ok("verify", target).text
        weig.ok("export", target, back, "--force")
        assert back.read_bytes() == raw
        return target

    return run


@pytest.fixture
def converted(weig, tmp_path):
    """Converts what a file holds; gives {name: what ls says}, the path of the WEIG
    file and the run. The file's ending says nothing: content decides."""

    def run(raw, *options, name="in"):
        source, target = tmp_path / f"{name}.file", tmp_path / "in.weig"
        source.write_bytes(raw)
        run = weig.ok("convert", source, "-o", target, "--force", *options)
        assert "sound" in weig.ok("verify", target).text
        tensors = weig.ok("ls", "--json", target).json()["tensors"]
        return {t["name"]: t for t in tensors}, target, run

    return run


@pytest.fixture
def refused_quickly(weig, refused, tmp_path):
    """Of what a file holds that is not converted: in little time and memory, and
    nothing is left behind. Gives the words."""

    def run(raw, status, *words, options=(), **more):
        source = tmp_path / "bad.file"
        source.write_bytes(raw)
        call = ["convert", source, *options, "-o", tmp_path / "out.weig"]
        refused(call, status, source, *words, kept=tmp_path, **more)
        run = weig.measured(*call)
        assert run.status == status
        assert run.seconds < SECOND and run.peak_bytes < MEMORY
        return run.err

    return run
