# SPDX-License-Identifier: Apache-2.0
"""weig residency, warm and evict: what is in memory, brought there, kept there, and let
go; as root, and as a user on root's file."""

import json
import mmap
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import page_cache
import safetensors_file
from command import CANNOT_OPEN, CORRUPT, IO, LIMIT, NOT_FOUND, USAGE

MIB = 1 << 20
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def safetensors(big_tmp):
    """40 MB: an embedding and three groups of layers."""
    layer = ("U8", (10 * MIB,), os.urandom(MIB) * 10)
    tensors = {f"layers.{i}.w": layer for i in range(3)} | {"embed": layer}
    file = big_tmp / "m.safetensors"
    file.write_bytes(safetensors_file.by_reference(tensors))
    big_tmp.chmod(0o755)
    return file


@pytest.fixture
def model(weig, safetensors):
    weig.ok("convert", safetensors)
    return safetensors.with_suffix(".weig")


def warm_in_huge_folios(weig, file, small_copy_of=None, **options):
    """Warms until all between both ends is in huge folios, and gives the last run's
    report. For a moment, what else is in use may leave the kernel no free memory in
    pieces that large; so each try begins anew, with small_copy_of if it is given."""
    size = os.path.getsize(small_copy_of or file)
    best = (size // (2 * MIB) - 1) * 2 * MIB / size
    for _ in range(10):
        page_cache.put_memory_together()
        if small_copy_of:
            page_cache.copy_in_small_folios(small_copy_of, file)
        run = weig("warm", file, "--huge", "--json", **options)
        assert run.status == 0, run.err
        report = run.json()
        if report["huge_share"] >= best - 0.001:
            return report
    pytest.fail(f"of {file}, {report['huge_share']:.1%} in huge folios, not {best:.1%}")


def residency(weig, file):
    report = weig.ok("residency", file, "--json").json()
    return report, {part["name"]: part for part in report["parts"]}


# residency


def test_residency_of_nothing_and_of_everything(weig, model):
    page_cache.evict(model)
    report, parts = residency(weig, model)
    assert report["known"] and report["resident"] == 0 and report["reason"] is None
    assert all(part["resident"] == 0 for part in parts.values())
    model.read_bytes()
    report, parts = residency(weig, model)
    assert report["resident"] == report["bytes"] == os.path.getsize(model)
    assert all(part["resident"] == part["bytes"] for part in parts.values())


def test_looking_reads_nothing_but_the_front(weig, model):
    page_cache.evict(model)
    weig.ok("residency", model)
    assert page_cache.resident_share(model) < 0.1


def test_parts_are_the_whole_file(weig, model):
    report, parts = residency(weig, model)
    groups = [name for name, part in parts.items() if part["group"]]
    assert groups == ["layers.0", "layers.1", "layers.2"]
    assert sum(part["bytes"] for part in parts.values()) == os.path.getsize(model)
    assert all(parts[name]["bytes"] == 10 * MIB for name in groups)


def test_residency_agrees_with_mincore(weig, model):
    page_cache.evict(model)
    with open(model, "rb") as file:
        for at in (3 * MIB, 17 * MIB, 31 * MIB):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.pread(file.fileno(), 3 * MIB + 5000, at)
    pages = page_cache.resident_pages(model)  # before the front is read
    report, parts = residency(weig, model)
    assert 0 < report["resident"] < report["bytes"]
    assert report["resident"] == sum(pages) * mmap.PAGESIZE
    assert sum(part["resident"] for part in parts.values()) == report["resident"]


def test_small_and_huge_folios_are_told_apart(weig, model, big_tmp):
    copy = big_tmp / "copy.weig"
    page_cache.copy_in_small_folios(model, copy)
    report, _ = residency(weig, copy)
    assert report["in_huge_folios"] == 0 and report["in_small_folios"] > 38 * MIB
    text = weig.ok("residency", copy).text
    assert "layers.1" in text and "======" in text and "#####" not in text


def test_a_safetensors_file_is_one_part(weig, safetensors):
    _, parts = residency(weig, safetensors)
    assert list(parts) == ["all"]
    assert parts["all"]["bytes"] == os.path.getsize(safetensors)


@needs_root
@pytest.mark.parametrize("warm", [False, True])
def test_residency_of_others_files_is_unknown(weig_for_all, model, warm):
    """Neither 'warm' nor 'cold', and no failure."""
    model.read_bytes() if warm else page_cache.evict(model)
    run = weig_for_all("residency", model, **AS_NOBODY)
    assert run.status == 0 and "unknown" in run.text and "belongs to root" in run.text
    report = weig_for_all("residency", model, "--json", **AS_NOBODY).json()
    assert report["known"] is False and report["resident"] is None
    assert "root" in report["reason"]


def test_the_strip_suits_the_terminal(weig, model):
    model.read_bytes()
    text, _ = weig.on_terminal("residency", model)
    assert "\u2588" in text or "\u2593" in text
    for environment in ({"TERM": "dumb"}, {"LC_ALL": "C"}):
        text, _ = weig.on_terminal("residency", model, **environment)
        assert text.isascii() and ("####" in text or "====" in text)
    assert weig.ok("residency", model).text.isascii()


def test_residency_refuses_what_is_no_model(refused, tmp_path, weig):
    refused(["residency", tmp_path / "none"], CANNOT_OPEN, tmp_path / "none")
    (tmp_path / "zeros").write_bytes(bytes(1000))
    refused(["residency", tmp_path / "zeros"], CORRUPT, tmp_path / "zeros")


# warm


@pytest.mark.parametrize("options", [[], ["--threads", "1"], ["--huge"]])
def test_warm_brings_everything_into_memory(weig, model, options):
    page_cache.evict(model)
    page_cache.put_memory_together()
    report = weig.ok("warm", model, "--json", *options).json()
    assert page_cache.resident_share(model) == 1
    assert report["bytes"] == os.path.getsize(model) == report["resident_after"]
    assert report["resident_before"] < MIB  # what opening it has read
    assert report["bytes_left_out"] == 0 and report["warnings"] == []
    again = weig.ok("warm", model).text
    assert "were in memory already" in again and "/s" not in again
    page_cache.evict(model)
    assert "in memory after" in weig.ok("warm", model).text


def test_warm_takes_a_safetensors_file(weig, safetensors):
    page_cache.evict(safetensors)
    weig.ok("warm", safetensors)
    assert page_cache.resident_share(safetensors) == 1


def test_warm_takes_groups(weig, model):
    page_cache.evict(model)
    report = weig.ok("warm", model, "--groups", "layers.0", "*.2", "--json").json()
    assert report["bytes"] == 20 * MIB
    _, parts = residency(weig, model)
    assert parts["layers.0"]["resident"] == parts["layers.2"]["resident"] == 10 * MIB
    assert parts["rest of the file"]["resident"] < 10 * MIB  # but for read-ahead


def test_a_group_without_bytes_loads_nothing(weig, big_tmp):
    source = big_tmp / "empty.safetensors"
    tensors = {"a.0.w": ("U8", (0,), b""), "a.1.w": ("U8", (8 * MIB,), bytes(8 * MIB))}
    source.write_bytes(safetensors_file.by_reference(tensors))
    weig.ok("convert", source)
    file = source.with_suffix(".weig")
    page_cache.evict(file)
    report = weig.ok("warm", file, "--groups", "a.0", "--json").json()
    assert report["bytes"] == 0
    assert page_cache.resident_share(file) < 0.1


def test_a_wrong_group_is_refused(refused, model, safetensors):
    call = ["warm", model, "--groups", "layer.1"]
    refused(call, NOT_FOUND, model, "'layer.1'", "did you mean 'layers.1'?")
    call = ["warm", safetensors, "--groups", "layers.1"]
    refused(call, NOT_FOUND, safetensors, "no groups", "weig convert")


def test_huge_reads_small_folios_again(weig, model, big_tmp):
    copy = big_tmp / "copy.weig"
    report = warm_in_huge_folios(weig, copy, small_copy_of=model)
    assert report["huge_share_before"] == 0
    assert report["small_folios_held"] == 0
    between = os.path.getsize(copy) // (2 * MIB) - 1
    assert report["small_folios_dropped"] == between * 2 * MIB
    assert copy.read_bytes() == model.read_bytes()


def test_huge_leaves_what_is_huge(weig, model):
    warm_in_huge_folios(weig, model)
    report = weig.ok("warm", model, "--huge", "--json").json()
    assert report["small_folios_dropped"] == 0


def test_huge_leaves_what_others_map(weig, model, big_tmp):
    copy = big_tmp / "copy.weig"
    page_cache.copy_in_small_folios(model, copy)
    with (
        open(copy, "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
    ):
        assert sum(mapped[:: mmap.PAGESIZE]) > 0
        run = weig.ok("warm", copy, "--huge", "--json")
        assert run.json()["small_folios_held"] > 30 * MIB
        assert f"process {os.getpid()} " in run.err
        assert "stay in small folios" in run.err


def test_huge_blames_nobody_for_the_front(weig, model):
    """The first 2 MiB are in small folios whatever is done: who maps them is not why."""
    warm_in_huge_folios(weig, model)
    with (
        open(model, "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
    ):
        assert sum(mapped[:: mmap.PAGESIZE]) > 0
        run = weig.ok("warm", model, "--huge", "--json")
        report = run.json()
        assert run.err == "" and report["warnings"] == []
        assert report["small_folios_held"] == report["small_folios_dropped"] == 0


@needs_root
def test_huge_works_on_others_files(weig_for_all, model, big_tmp):
    """Their residency is unknown: how the mapping came out tells."""
    copy = big_tmp / "copy.weig"
    report = warm_in_huge_folios(weig_for_all, copy, small_copy_of=model, **AS_NOBODY)
    assert report["huge_share_before"] == 0
    assert report["resident_after"] is None  # not known to this user
    assert page_cache.resident_share(copy) == 1


@needs_root
def test_what_memory_cannot_hold_is_left_out_and_named(weig, model):
    page_cache.evict(model)
    with page_cache.memory_cgroup(28 * MIB) as (group, _):
        run = weig("warm", model, "--json", preexec_fn=lambda: page_cache.enter(group))
        assert run.status == 0, run.err
        report = run.json()
        assert 0 < report["bytes_left_out"] < os.path.getsize(model)
        assert report["bytes"] + report["bytes_left_out"] == os.path.getsize(model)
        assert report["memory_limit_of"] == str(group)
        assert report["left_out"] and report["left_out"][-1] in run.err
        assert [f"weig: warning: {model}: {w}" for w in report["warnings"]] == (
            run.err.splitlines()
        )
        assert str(group) in run.err and "would not stay in memory" in run.err
        # What was read has stayed.
        assert report["resident_after"] >= 0.9 * report["bytes"]
        refused = weig(
            "warm", model, "--lock", preexec_fn=lambda: page_cache.enter(group)
        )
        assert refused.status == LIMIT and "does not fit" in refused.err
        page_cache.evict(model)


@needs_root
def test_huge_names_a_limit_that_is_near(weig, model, big_tmp):
    """The kernel makes small folios where a cgroup has no room for huge ones."""
    copy = big_tmp / "copy.weig"
    page_cache.put_memory_together()
    page_cache.copy_in_small_folios(model, copy)
    page_cache.evict(copy)
    with page_cache.memory_cgroup(28 * MIB) as (group, _):
        run = weig(
            "warm", copy, "--huge", "--json", preexec_fn=lambda: page_cache.enter(group)
        )
        assert run.status == 0, run.err
        report = run.json()
        page_cache.evict(copy)
    told = f"too little is left: {group} had " in run.err
    assert told or report["huge_share"] > 0.85  # all but both ends


@needs_root
def test_residency_without_address_space_tells_so(weig, model):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (48 * MIB, 48 * MIB))

    run = weig("residency", model, preexec_fn=limit)
    assert "RLIMIT_AS" in run.text + run.err


def sparse_file(folder, size):
    """A safetensors file of zeros that take no space."""
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    file = folder / "sparse.safetensors"
    with open(file, "wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        out.truncate(8 + len(header) + size)
    return file


def stop_soon(weig, file, number):
    """Starts to warm a file, stops that, and returns how long it went on."""
    process = weig.start("warm", file)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(number)
    start = time.monotonic()
    _, err = process.communicate(timeout=30)
    seconds = time.monotonic() - start
    assert process.returncode == 128 + number
    assert err.endswith(b"weig: interrupted\n")  # after a warning, on small machines
    return seconds


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_warm_stops_within_a_tenth_of_a_second(weig, big_tmp, number):
    """On a file of 20 GiB: far more than can be read until it is stopped."""
    file = sparse_file(big_tmp, 20 << 30)
    seconds = stop_soon(weig, file, number)
    page_cache.evict(file)
    assert seconds < 0.1


def test_warm_stops_on_slow_storage(weig, big_tmp, very_slow_mount):
    point, _ = very_slow_mount
    file = sparse_file(big_tmp, 1 << 30)
    assert stop_soon(weig, point / file.name, signal.SIGINT) < 0.1


# warm --lock


def limited(bytes_, hard=None):
    def before():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (bytes_, hard or bytes_))

    return before


def locked_bytes(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmLck:")[2].split()[0]) * 1024


def lock(weig, *arguments, **options):
    """Starts it, waits until it has said all, and returns the process and its report."""
    process = subprocess.Popen(
        [weig.path, "warm", *map(str, arguments), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    text = ""
    while line := process.stdout.readline():
        text += line
        if line == "}\n":
            return process, json.loads(text)
    raise AssertionError(process.communicate()[1])


def stop(process, number=signal.SIGTERM):
    process.send_signal(number)
    _, err = process.communicate(timeout=10)
    return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_lock_holds_until_it_is_stopped(weig, model, number):
    process, report = lock(weig, model, "--lock", "--groups", "layers.1")
    assert report["locked"] == 10 * MIB == locked_bytes(process.pid)
    evicted = weig.ok("evict", model, "--json").json()
    assert evicted["resident_after"] >= 10 * MIB
    [holder] = evicted["held_by"]
    assert holder["process"] == process.pid and holder["locked"] == 10 * MIB
    text = weig.ok("evict", model).text
    assert f"process {process.pid} (weig) maps it and has locked" in text
    assert stop(process, number) == (0, "")
    weig.ok("evict", model)
    assert page_cache.resident_share(model) == 0


def test_lock_tells_systemd_when_it_is_ready(weig, model, tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        process, _ = lock(weig, model, "--lock", env=environment)
        assert manager.recv(100) == b"READY=1"
        assert stop(process) == (0, "")


@needs_root
def test_root_may_lock_beyond_the_limit(weig, model):
    """C62, as root."""
    process, report = lock(weig, model, "--lock", preexec_fn=limited(65536))
    assert report["locked"] >= os.path.getsize(model)
    assert locked_bytes(process.pid) == report["locked"]
    assert stop(process)[0] == 0


@needs_root
def test_lock_refuses_what_the_limit_forbids(weig_for_all, model):
    """C62, as a user: how much, the limit, how to raise it; and nothing is locked."""
    page_cache.evict(model)
    run = weig_for_all("warm", model, "--lock", preexec_fn=limited(65536), **AS_NOBODY)
    assert run.status == LIMIT and run.out == b""
    for words in ("nothing is locked", "65,536 bytes", "RLIMIT_MEMLOCK", "ulimit -l",
                  "LimitMEMLOCK", "memlock=-1", "--lock-what-fits"):  # fmt: skip
        assert words in run.err, words
    assert len(run.err.splitlines()) == 1
    assert page_cache.resident_share(model) < 0.1  # refused before it was read


@needs_root
def test_lock_that_cannot_be_had_again_is_told(weig_for_all, big_tmp):
    file = big_tmp / "locked.weig"
    weig_for_all.ok("convert", sparse_file(big_tmp, MIB), "-o", file)
    file.chmod(0o644)
    big_tmp.chmod(0o755)
    process, _ = lock(weig_for_all, file, "--lock", **AS_NOBODY)
    lower = ["prlimit", f"--pid={process.pid}", "--memlock=65536:65536"]
    subprocess.run(lower, check=True, **AS_NOBODY)
    with open(file, "r+b") as out:
        out.write(out.read(1))
    _, err = process.communicate(timeout=10)
    assert process.returncode == 8, err
    assert "was written to, and has to be locked again: cannot lock" in err
    assert "ulimit -l" in err


@needs_root
def test_lock_what_fits_goes_on_and_says_how_much(weig_for_all, model):
    """C62, as a user who wants to go on."""
    process, report = lock(
        weig_for_all, model, "--lock-what-fits", preexec_fn=limited(65536), **AS_NOBODY
    )
    assert report["locked"] == 65536 == locked_bytes(process.pid)
    assert page_cache.resident_share(model) == 1
    status, err = stop(process)
    assert status == 0
    [warning] = report["warnings"]
    assert warning in err
    for words in ("only 65.5 kB (65,536 bytes) of", "may lock 65.5 kB", "ulimit -l"):
        assert words in err, words


def test_lock_ends_when_the_file_is_replaced(weig, model, big_tmp):
    """By the new one that readers get: what is locked serves nobody."""
    file = Path(shutil.copy(model, big_tmp / "served.weig"))
    process, _ = lock(weig, file, "--lock")
    os.utime(file)  # written to in place, it is the same file
    time.sleep(1.5)
    assert process.poll() is None
    shutil.copy(model, big_tmp / "new.weig")
    os.rename(big_tmp / "new.weig", file)
    _, err = process.communicate(timeout=10)
    assert process.returncode == IO and "was replaced" in err and str(file) in err


def test_what_lost_its_pages_is_locked_again(weig, model, big_tmp):
    file = Path(shutil.copy(model, big_tmp / "punched.weig"))
    process, report = lock(weig, file, "--lock")

    def locked():
        text = Path(f"/proc/{process.pid}/smaps").read_text()
        return sum(int(kib) << 10 for kib in re.findall(r"^Locked: +(\d+) kB", text, re.M))

    before = locked()
    assert before >= report["locked"]
    hole = ["--punch-hole", "--offset", str(8 * MIB), "--length", str(4 * MIB)]
    subprocess.run(["fallocate", *hole, file], check=True)
    assert locked() <= before - 4 * MIB
    deadline = time.monotonic() + 10
    while locked() < before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert stop(process) == (0, "")


def test_lock_options_exclude_each_other(weig, model):
    run = weig("warm", model, "--lock", "--lock-what-fits")
    assert run.status == USAGE


# evict


def test_evict_drops_everything(weig, model):
    model.read_bytes()
    report = weig.ok("evict", model, "--json").json()
    assert report["resident_before"] == report["file_size"] == os.path.getsize(model)
    assert report["resident_after"] == 0 and report["reason"] is None
    assert page_cache.resident_share(model) == 0
    assert "none are now" in weig.ok("evict", model).text


def test_evict_writes_back_first(weig, big_tmp):
    file = big_tmp / "fresh"
    file.write_bytes(os.urandom(4 * MIB))  # not synced
    weig.ok("evict", file)
    assert page_cache.resident_share(file) == 0


def test_evict_names_who_maps_it(weig, model):
    with (
        open(model, "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
    ):
        assert mapped[20 * MIB] is not None
        report = weig.ok("evict", model, "--json").json()
        assert 0 < report["resident_after"]
        [holder] = report["held_by"]
        assert holder["process"] == os.getpid() and holder["locked"] == 0
        assert holder["mapped"] >= os.path.getsize(model)


@needs_root
def test_evict_of_others_files_says_what_it_cannot_know(weig_for_all, model):
    model.read_bytes()
    run = weig_for_all("evict", model, **AS_NOBODY)
    assert run.status == 0 and "unknown how much stays" in run.text
    report = weig_for_all("evict", model, "--json", **AS_NOBODY).json()
    assert report["resident_before"] is None and report["resident_after"] is None
    assert page_cache.resident_share(model) == 0  # it may drop all the same


def test_evict_refuses_what_is_not_there(refused, tmp_path):
    refused(["evict", tmp_path / "none"], CANNOT_OPEN, tmp_path / "none")
    refused(["evict", tmp_path], CANNOT_OPEN, tmp_path, "a folder")
