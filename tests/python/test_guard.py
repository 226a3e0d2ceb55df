# SPDX-License-Identifier: Apache-2.0
"""The guard against what a neighbour does, in states of the system that a test must make:
a short lease, too little memory, another user's file, a reader that sleeps. And a model
that is replaced under a running server.

Unit tests of the guard are in guard_test.cc.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import safetensors_file
from conftest import PROGRAMS
from page_cache import enter, memory_cgroup, setting

MIB = 1 << 20
LEASE_BREAK_TIME = "/proc/sys/fs/lease-break-time"


def model_bytes(size, seed=1):
    data = bytes(range(256)) * (size // 256)
    data = bytes([seed]) + data[1:]
    return safetensors_file.by_reference({"w": ("U8", [len(data)], data)})


@pytest.fixture
def file(big_tmp):
    path = big_tmp / "m.safetensors"
    path.write_bytes(model_bytes(8 * MIB))
    return path


class Holder:
    """A process that has opened a guarded model."""

    def __init__(self, process):
        self.process = process

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def report(self):
        return json.loads(self.ask("report"))

    def wait_for(self, *states):
        deadline = time.monotonic() + 20
        while (report := self.report())["state"] not in states:
            assert time.monotonic() < deadline, report
            time.sleep(0.01)
        return report


@contextlib.contextmanager
def killed_if_wrong(command, **options):
    """A process that a failed test does not wait for."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@contextlib.contextmanager
def holding(file, *before, **options):
    command = [*before, PROGRAMS / "weig_guard_hold", file]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with killed_if_wrong(command, text=True, **pipes, **options) as process:
        yield Holder(process)
        process.stdin.close()
        assert process.wait(timeout=20) == 0


def test_copies_before_cp_goes_on(file, big_tmp):
    other = big_tmp / "other"
    other.write_bytes(model_bytes(8 * MIB, seed=7))
    with holding(file) as holder:
        before = holder.ask("sum")
        assert holder.report()["state"] == "holding"
        subprocess.run(["cp", other, file], check=True)
        assert holder.report()["state"] == "copied"
        assert holder.ask("sum") == before
        assert holder.ask("changed") == "modified"
    assert file.read_bytes() == other.read_bytes()


def test_deleting_needs_no_copy(file):
    with holding(file) as holder:
        before = holder.ask("sum")
        file.unlink()
        assert holder.ask("sum") == before
        assert holder.ask("changed") == "removed"
        assert holder.report()["state"] == "holding"


def test_a_sleeping_reader_learns_that_the_writer_was_let_in(file):
    with setting(LEASE_BREAK_TIME, 1), holding(file) as holder:
        report = holder.report()
        assert report["seconds_allowed"] == 1 and report["reason"] == ""
        holder.process.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        with open(file, "r+b") as writer:
            waited = time.monotonic() - start
            writer.write(b"x" * 100)
        assert 0.5 < waited < 10
        holder.process.send_signal(signal.SIGCONT)
        report = holder.wait_for("lost")
        assert "let the writer in before" in report["reason"]


def sparse(path, size):
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + size)


def test_says_at_once_that_the_time_will_not_do(big_tmp):
    file = big_tmp / "m.safetensors"
    sparse(file, 2 << 30)
    with setting(LEASE_BREAK_TIME, 2), holding(file) as holder:
        report = holder.report()
        assert report["state"] == "holding" and report["seconds_expected"] > 2
        assert "fs.lease-break-time" in report["reason"]


def test_too_little_memory_for_a_copy(big_tmp):
    """It says so at once, and the writer waits as long as the system makes him."""
    file = big_tmp / "m.safetensors"
    sparse(file, 256 * MIB)
    with memory_cgroup(128 * MIB) as (group, _), setting(LEASE_BREAK_TIME, 1):
        with holding(file, preexec_fn=lambda: enter(group)) as holder:
            report = holder.report()
            assert report["state"] == "holding" and "a copy needs" in report["reason"]
            start = time.monotonic()
            os.truncate(file, 5)
            assert 0.5 < time.monotonic() - start < 10
            report = holder.wait_for("lost")
            assert "no memory for a copy" in report["reason"]


AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_another_users_file_has_no_lease(file, big_tmp):
    """An unprivileged server on root's file, which is no danger to it unless to root."""
    big_tmp.chmod(0o755)
    file.chmod(0o644)
    program = big_tmp / "weig_guard_hold"
    shutil.copy(PROGRAMS / "weig_guard_hold", program)
    command = [*AS_NOBODY, program, file]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        report = json.loads(process.communicate("report\n", timeout=20)[0])
    assert report["state"] == "off" and "another user's" in report["reason"]


def test_a_remote_file_has_no_lease(slow_mount, file):
    point, _ = slow_mount
    with holding(point / file.name) as holder:
        report = holder.report()
        assert report["state"] == "off" and "other hosts" in report["reason"]


def test_leases_may_be_forbidden(file):
    with setting("/proc/sys/fs/leases-enable", 0), holding(file) as holder:
        report = holder.report()
        assert report["state"] == "off" and "leases-enable" in report["reason"]


def test_many_rounds(big_tmp):
    """The long run, which the documentation names, has 1,000 rounds and 256 MiB."""
    run = subprocess.run(
        [PROGRAMS / "weig_guard_stress", big_tmp, "40", "32"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, (run.returncode, run.stderr)
    rounds, during = [int(word) for word in run.stdout.split() if word.isdigit()]
    assert rounds == 40 and during > 0


def test_a_model_is_replaced_under_a_running_server(weig, big_tmp):
    """Readers go on all the time; one bad file on the way changes nothing."""
    model = big_tmp / "m.weig"
    source = big_tmp / "s.safetensors"
    sums = {}
    for seed in range(6):
        data = bytes([seed]) * (4 * MIB)
        source.write_bytes(
            safetensors_file.by_reference({"w": ("U8", [len(data)], data)})
        )
        weig.ok("convert", source, "-o", big_tmp / f"{seed}.weig")
        sums[seed] = sum(data)
    os.replace(big_tmp / "0.weig", model)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with killed_if_wrong([PROGRAMS / "weig_reload", model], **pipes) as server:
        assert server.stdout.readline() == f"serving {sums[0]}\n"
        for seed in range(1, 6):
            if seed == 3:
                bad = big_tmp / "bad"
                bad.write_bytes(b"half")
                os.replace(bad, model)
                assert "m.weig" in server.stderr.readline()
            os.replace(big_tmp / f"{seed}.weig", model)
            assert server.stdout.readline() == f"serving {sums[seed]}\n"
        maps = Path(f"/proc/{server.pid}/maps")
        deadline = time.monotonic() + 10
        while "(deleted)" in maps.read_text():  # the last request of an old one
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "m.weig" in maps.read_text()
        server.terminate()
        out, _ = server.communicate(timeout=20)
    assert server.returncode == 0
    assert int(out.split()[1]) > 100
