# SPDX-License-Identifier: Apache-2.0
"""Loading on systems that are not as one would wish: calls that are refused, slow and
remote file systems, memory limits, files of others. Each test makes the state, and
looks at what was chosen, at the one warning, and at the bytes."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import safetensors_file
import sparse_files
from command import CORRUPT, IO, LIMIT, USAGE

MIB = 1 << 20
PROGRAMS = Path(os.environ.get("WEIG_TEST_PROGRAMS", "build/release/tests")).resolve()
MADV_HUGEPAGE, MADV_POPULATE_READ = 14, 22
EINVAL, ENODEV, ENOSYS, ENOTTY, EACCES = 22, 19, 38, 25, 13
NOBODY = 65534


@pytest.fixture
def model(weig, big_tmp):
    """40 MB of weights as a WEIG file, readable by all."""
    tensors = {
        name: ("F32", [rows, MIB], safetensors_file.pattern(4096, seed) * (rows * 1024))
        for seed, (name, rows) in enumerate({"a.0.w": 6, "a.1.w": 4}.items())
    }
    file = big_tmp / "m.safetensors"
    file.write_bytes(safetensors_file.by_reference(tensors))
    weig.ok("convert", file)
    big_tmp.chmod(0o755)
    return big_tmp / "m.weig"


def load(file, way="auto", *arguments, refuse="", before=None, user=None):
    """Loads in a process of its own. Returns the report, or the failed process."""
    environment = dict(os.environ)
    if refuse:
        environment["LD_PRELOAD"] = str(PROGRAMS / "libweig_refuse_calls.so")
        environment["WEIG_REFUSE"] = refuse
    command = [PROGRAMS / "weig_load_file", file, way, *arguments]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60,
        preexec_fn=before, user=user, group=user, extra_groups=[] if user else None,
    )  # fmt: skip
    return json.loads(run.stdout) if run.returncode == 0 else run


def evict(file):
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# Old kernels and refused calls: one warning, never an error.


def test_without_refusals_there_are_no_warnings(model):
    for way in ("map", "stream", "populate", "read", "auto"):
        assert load(model, way)["warnings"] == []


@pytest.mark.parametrize("way", ["stream", "populate"])
def test_a_kernel_that_cannot_populate_touches(model, way):
    expected = load(model)["sum"]
    evict(model)
    report = load(model, way, refuse=f"madvise-{MADV_POPULATE_READ}={EINVAL}")
    assert report["way"] == way and report["sum"] == expected
    assert report["warnings"] == [
        "this kernel cannot populate mappings (before Linux 5.14): pages are touched "
        "one by one"
    ]
    assert report["resident_after"] == os.path.getsize(model)


@pytest.mark.parametrize("way", ["map", "stream", "populate"])
def test_huge_pages_may_be_refused(model, way):
    report = load(model, way, refuse=f"madvise-{MADV_HUGEPAGE}={EINVAL}")
    assert report["way"] == way
    assert report["warnings"] == ["the system refuses huge pages (MADV_HUGEPAGE)"]
    assert report["sum"] == load(model)["sum"]


def test_without_cachestat_mincore_tells(model):
    report = load(model, "populate", refuse=f"cachestat={ENOSYS}")
    assert report["resident_before"] == os.path.getsize(model)
    evict(model)
    report = load(model, "populate", refuse=f"cachestat={ENOSYS}")
    assert report["resident_before"] < MIB  # what telling the format reads
    assert report["resident_after"] == os.path.getsize(model)


def test_without_pagemap_scan_smaps_tells(model):
    usual = load(model, "populate")["huge_mapped"]
    told = load(model, "populate", refuse=f"pagemap-scan={ENOTTY}")["huge_mapped"]
    assert told == usual


def test_without_direct_io_reading_is_buffered(model):
    evict(model)
    report = load(model, "read", refuse=f"direct={EINVAL}")
    assert report["direct_io"] is False
    assert report["warnings"] == [
        "there is no direct I/O here: the file is read through the page cache"
    ]
    assert report["sum"] == load(model)["sum"]


@pytest.mark.parametrize("number", [ENODEV, EACCES])
@pytest.mark.parametrize("way", ["map", "stream", "populate", "auto"])
def test_a_file_that_cannot_be_mapped_is_read(model, way, number):
    report = load(model, way, refuse=f"mmap-file={number}")
    assert report["way"] == "read" and report["sum"] == load(model)["sum"]
    assert report["resident_before"] is not None
    assert len(report["warnings"]) == 1
    assert re.fullmatch(
        r"cannot map the file: (No such device|Permission denied): it is read into "
        r"memory instead",
        report["warnings"][0],
    )


def test_unless_mapping_is_demanded(model):
    run = load(model, "populate", "refuse", refuse=f"mmap-file={ENODEV}")
    assert run.returncode == IO
    assert run.stderr == f"{model}: cannot map the file: No such device\n"


def test_shared_mappings_are_not_needed(model):
    assert load(model, "populate", refuse=f"mmap-shared={ENODEV}")["warnings"] == []


def test_the_command_reads_what_it_cannot_map(weig, model):
    environment = os.environ | {
        "LD_PRELOAD": str(PROGRAMS / "libweig_refuse_calls.so"),
        "WEIG_REFUSE": f"mmap-file={ENODEV}",
    }
    run = weig.ok("verify", model, env=environment)
    assert "sound" in run.text
    assert run.err.count("warning") == 1 and "No such device" in run.err


# A file that shrinks while it is checked, and one that its file system has made longer.


def wait_for_reading(process, requests):
    """Until its data, too, is being read through a slow mount."""
    deadline = time.monotonic() + 20
    while not any(offset > MIB for offset, _ in requests()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)


def cut_while_verifying(weig, file, mount, *options):
    """Cuts a file behind a slow mount when `weig verify` has begun to read it."""
    point, requests = mount
    command = [weig.path, "verify", point / file.name, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for_reading(process, requests)
        os.truncate(file, 5 * MIB)
        message = process.stderr.read()
    return process.returncode, message


@pytest.mark.parametrize("way", ["read", "populate"])
def test_a_file_cut_while_it_is_loaded_to_be_verified(
    weig, model, very_slow_mount, way
):
    options = ["--load", way]
    status, message = cut_while_verifying(weig, model, very_slow_mount, *options)
    assert status == CORRUPT and message.count("\n") == 1, message
    assert "was cut while" in message and model.name in message


@pytest.mark.parametrize("way", ["read", "populate", "stream"])
def test_verify_stops_while_it_loads(weig, model, very_slow_mount, way):
    point, requests = very_slow_mount
    process = weig.start("verify", point / model.name, "--load", way)
    wait_for_reading(process, requests)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGINT
    assert err.endswith(b"weig: interrupted\n")


def test_a_file_cut_while_it_is_mapped_and_verified(weig, model, very_slow_mount):
    """Whether a signal tells it or a byte that is missing, it ends with a message."""
    status, message = cut_while_verifying(weig, model, very_slow_mount)
    assert status in (IO, CORRUPT) and message.count("\n") == 1, message
    assert "cut" in message


def test_every_way_verifies(weig, model):
    for way in ("map", "stream", "populate", "read", "auto"):
        assert "sound" in weig.ok("verify", model, "--load", way).text
    run = weig("verify", model, "--load", "magic")
    assert run.status == USAGE and "no way is called magic" in run.err


@pytest.mark.parametrize("size", [10, 40 * MIB, 41 * MIB])
def test_a_length_rounded_up_is_named(weig, refused, tmp_path, size):
    """As file systems of huge pages leave it."""
    source, file = tmp_path / "m.safetensors", tmp_path / "m.weig"
    source.write_bytes(
        safetensors_file.by_reference({"t": ("U8", [size], bytes(size))})
    )
    weig.ok("convert", source)
    length = os.path.getsize(file)
    rounded = -(-length // (2 * MIB)) * 2 * MIB
    os.truncate(file, rounded)
    words = (f"found {rounded}", f"expected {length}")
    message = refused(["verify", file], CORRUPT, file, *words)
    assert f"'head -c {length} FILE >COPY'" in message
    copy = tmp_path / "copy.weig"
    copy.write_bytes(file.read_bytes()[:length])
    assert "sound" in weig.ok("verify", copy).text


# States that `auto` tells apart.


def test_a_cold_local_file_is_populated(model):
    evict(model)
    report = load(model)
    assert report["way"] == "populate" and report["reason"] == (
        "the file is local and not in memory"
    )
    assert report["resident_before"] < MIB  # what telling the format reads
    assert report["resident_after"] == report["bytes"] == os.path.getsize(model)


def test_a_half_resident_file_is_populated(model):
    evict(model)
    with open(model, "rb") as file:
        file.read(30 * MIB)
    report = load(model)
    assert report["way"] == "populate"
    assert 20 * MIB < report["resident_before"] < 42 * MIB
    assert "are in memory already" in report["reason"]


def test_a_file_in_small_pages_is_looked_at_in_places(weig, big_tmp):
    """Then the load itself tells whether all was there."""
    source, model = big_tmp / "m.safetensors", big_tmp / "m.weig"
    tensors = {"w": ("U8", [96, MIB], os.urandom(96 * MIB))}
    source.write_bytes(safetensors_file.by_reference(tensors))
    weig.ok("convert", source, "-o", model)
    size = os.path.getsize(model)
    with open(model, "r+b", buffering=0) as file:
        data = file.read()
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        for at in range(0, size, 4096):
            file.write(data[at : at + 4096])
        os.fsync(file.fileno())
    report = load(model)
    assert report["reason"] == "all of 128 places looked at are in memory already"
    assert report["resident_before"] == report["resident_after"] == size

    with open(model, "rb") as file:
        for page in (7, 1000, 1001):
            os.posix_fadvise(file.fileno(), 4096 * page, 4096, os.POSIX_FADV_DONTNEED)
    report = load(model, "populate")
    assert size - 3 * 4096 <= report["resident_before"] < size
    assert report["resident_after"] == size


def test_explicit_reading_is_direct_where_cold(model):
    evict(model)
    report = load(model, "read")
    assert report["direct_io"] is True and report["resident_after"] < 4 * MIB
    load(model, "populate")
    assert load(model, "read")["direct_io"] is False


def test_the_tightest_memory_limit_counts(model, memory_cgroup):
    memory_cgroup(24 * MIB)
    evict(model)
    report = load(model, before=memory_cgroup.enter)
    assert report["way"] == "map"
    assert "do not fit into" in report["reason"] and "/weig-test-" in report["reason"]
    run = load(model, "read", before=memory_cgroup.enter)
    assert run.returncode == LIMIT
    assert "found 420" in run.stderr and "has available" in run.stderr


def test_a_thread_count_follows_the_cpus(model):
    def on_one_cpu():
        os.sched_setaffinity(0, {next(iter(os.sched_getaffinity(0)))})

    assert load(model, "populate", before=on_one_cpu)["threads"] == 1
    usual = min(len(os.sched_getaffinity(0)), 64)
    assert load(model, "populate")["threads"] <= usual


# A file of another user: nothing is called warm that may not be.


@pytest.fixture
def program_for_all(big_tmp):
    """The loading program where a user without rights may start it."""
    big_tmp.chmod(0o755)
    return shutil.copy(PROGRAMS / "weig_load_file", big_tmp / "load_file")


def load_as_nobody(program, file, way="auto"):
    run = subprocess.run(
        [program, file, way], capture_output=True, text=True, user=NOBODY,
        group=NOBODY, extra_groups=[],
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("cold", [True, False])
def test_residency_of_others_files_is_unknown(model, program_for_all, cold):
    expected = load(model)["sum"]
    model.chmod(0o444)
    if cold:
        evict(model)
    for way in ("populate", "stream", "read", "auto"):
        report = load_as_nobody(program_for_all, model, way)
        assert report["resident_before"] is None and report["resident_after"] is None
        assert report["sum"] == expected and report["warnings"] == []
    assert "residency is unknown (another user's file)" in report["reason"]


# A slow, remote file system.


def test_a_remote_file_is_read_by_large_requests(model, slow_mount):
    point, requests = slow_mount
    report = load(point / model.name)
    assert report["way"] == "read" and report["sum"] == load(model)["sum"]
    assert "fuse is remote" in report["reason"]
    sizes = sorted(size for _, size in requests())
    assert sizes[len(sizes) // 2] >= MIB, sizes
    assert sum(sizes) < os.path.getsize(model) * 1.1


def test_a_remote_file_in_memory_is_mapped(model, slow_mount):
    point, requests = slow_mount
    load(point / model.name, "populate")
    requests()
    report = load(point / model.name)
    assert report["way"] == "populate" and requests() == []


# A plain open is cheap, whatever the size.


@pytest.mark.parametrize("kind", ["sealed", "safetensors"])
def test_opening_a_huge_file_reads_next_to_nothing(big_tmp, kind):
    """C63"""
    file = getattr(sparse_files, kind)(big_tmp / "huge", 50 << 30)
    evict(file)
    report = load(file, "map", "open")
    assert report["open_seconds"] < 0.005
    assert report["resident"] < MIB
