# SPDX-License-Identifier: Apache-2.0
"""The guard against what a neighbour does, in states of the system that a test must make:
a short lease, too little memory, another user's file, a reader that sleeps, several of
them, rights given up. And a model that is replaced under a running server.

Unit tests of the guard are in guard_test.cc.
"""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import safetensors_file
from command import CORRUPT, UNSUPPORTED
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

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().strip()

    def ask(self, line):
        self.tell(line)
        return self.hear()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=20) == 0

    def report(self, which=0):
        return json.loads(self.ask(f"report {which}"))

    def wait_for(self, *states, which=0):
        deadline = time.monotonic() + 20
        while (report := self.report(which))["state"] not in states:
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


HOLD = PROGRAMS / "weig_guard_hold"
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


@contextlib.contextmanager
def holding(*arguments, **options):
    with killed_if_wrong([HOLD, *arguments], **PIPES, **options) as process:
        holder = Holder(process)
        yield holder
        holder.close()


def refused(*arguments, **options):
    """The status and the message of a holder that cannot open its file."""
    command = [HOLD, *arguments]
    run = subprocess.run(
        command, input="", capture_output=True, text=True, timeout=20, **options
    )
    return run.returncode, run.stderr


@contextlib.contextmanager
def cutting(file):
    """A process that truncates a file, and so waits for its guards: it does already, or
    is through. (truncate(1) would not: it opens with O_NONBLOCK.)"""
    command = ["dd", "if=/dev/null", f"of={file}", "bs=1", "seek=5", "status=none"]
    with killed_if_wrong(command) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        deadline = time.monotonic() + 20
        waits = f"{process.pid} (dd) S"
        while process.poll() is None and not stat.read_text().startswith(waits):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        yield process


def write_into(file):
    """Returns how many seconds that had to wait."""
    start = time.monotonic()
    with open(file, "r+b") as writer:
        waited = time.monotonic() - start
        writer.write(b"x" * 100)
    return waited


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
        assert 0.5 < write_into(file) < 10
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


def test_memory_for_one_of_two_models(big_tmp):
    """In one process: the second says at once that both do not fit, and the copy of the
    first is counted when the second is to be copied."""
    files = [big_tmp / "a.safetensors", big_tmp / "b.safetensors"]
    for file in files:
        sparse(file, 64 * MIB)
    with memory_cgroup(112 * MIB) as (group, _):
        with holding(*files, preexec_fn=lambda: enter(group)) as holder:
            assert holder.report(0)["reason"] == ""
            reason = holder.report(1)["reason"]
            assert "the process's other guarded models needs" in reason
            os.truncate(files[0], 5)
            assert holder.report(0)["state"] == "copied"
            with cutting(files[1]):
                report = holder.wait_for("lost", which=1)
                assert "no memory for a copy" in report["reason"]
                assert holder.ask("sum 0") == "0"
                holder.close()  # which lets the writer in


def test_memory_for_one_of_two_processes(file, big_tmp):
    """Neither knows of the other. The system kills none, and who gets a copy has all."""
    file.write_bytes(model_bytes(64 * MIB))
    with memory_cgroup(112 * MIB) as (group, _), contextlib.ExitStack() as stack:
        held = [
            stack.enter_context(holding(file, preexec_fn=lambda: enter(group)))
            for _ in range(2)
        ]
        before = [holder.ask("sum") for holder in held][0]
        with cutting(file):
            reports = [holder.wait_for("copied", "lost") for holder in held]
            for holder, report in zip(held, reports, strict=True):
                if report["state"] == "copied":
                    assert holder.ask("sum") == before
                else:
                    assert "no memory for" in report["reason"]
                holder.close()
        assert [report["state"] for report in reports] != ["copied", "copied"]


def test_every_process_that_reads_a_file_is_saved(file):
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(holding(file)) for _ in range(3)]
        before = [holder.ask("sum") for holder in held][0]
        os.truncate(file, 5)
        for holder in held:
            assert holder.report()["state"] == "copied"
            assert holder.ask("sum") == before


# Memory of one's own, which is read while writers are held off.


def test_a_writer_waits_for_a_read(file):
    with contextlib.ExitStack() as stack:
        holder = stack.enter_context(holding("--way=read", "--pause", file))
        assert holder.hear() == "loading"
        writer = stack.enter_context(cutting(file))
        assert writer.poll() is None
        holder.tell("go on")
        assert writer.wait(timeout=20) == 0
        report = holder.report()
        assert report["state"] == "off" and "own memory" in report["reason"]


def test_a_writer_let_in_during_a_read_is_noticed(file):
    with setting(LEASE_BREAK_TIME, 1):
        command = [HOLD, "--way=read", "--pause", file]
        with killed_if_wrong(command, stderr=subprocess.PIPE, **PIPES) as process:
            assert Holder(process).hear() == "loading"
            assert 0.5 < write_into(file) < 10
            _, err = process.communicate("go on\n", timeout=20)
            assert process.returncode == CORRUPT
            assert "changed while it was read" in err


def test_a_writer_waits_for_a_later_read(big_tmp):
    """There is no memory for the guard's own copy, since the load has claimed it; what the
    load has read does as well."""
    file = big_tmp / "m.safetensors"
    file.write_bytes(model_bytes(64 * MIB))
    with memory_cgroup(112 * MIB) as (group, _):
        options = {"preexec_fn": lambda: enter(group)}
        with (
            holding("--pause", file, **options) as holder,
            contextlib.ExitStack() as stack,
        ):
            before = holder.ask("sum")
            assert holder.ask("load read") == "loading"
            writer = stack.enter_context(cutting(file))
            assert writer.poll() is None
            assert holder.ask("go on") == "loaded"
            assert writer.wait(timeout=20) == 0
            assert holder.report()["state"] == "copied"
            assert holder.ask("sum") == before


def test_a_writer_let_in_during_a_later_read_is_noticed(big_tmp):
    file = big_tmp / "m.safetensors"
    file.write_bytes(model_bytes(64 * MIB))
    with memory_cgroup(112 * MIB) as (group, _), setting(LEASE_BREAK_TIME, 1):
        with holding("--pause", file, preexec_fn=lambda: enter(group)) as holder:
            assert holder.ask("load read") == "loading"
            assert 0.5 < write_into(file) < 10
            assert "changed while it was read" in holder.ask("go on")
            report = holder.report()
            assert report["state"] == "lost" and "let the writer in" in report["reason"]


def test_a_load_of_a_lost_file_says_so(file):
    """The writer was let in, and there was no memory for a copy; now there is."""
    sparse(file, 64 * MIB)
    with memory_cgroup(32 * MIB) as (group, limit), setting(LEASE_BREAK_TIME, 1):
        with holding(file, preexec_fn=lambda: enter(group)) as holder:
            assert holder.report()["state"] == "holding"
            assert 0.5 < write_into(file) < 10
            holder.wait_for("lost")
            limit.write_text(str(128 * MIB))
            assert "changed while it was read" in holder.ask("load read")
            assert holder.report()["state"] == "lost"


AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_rights_that_are_given_up_later(file):
    """As a server does that is started by root. The lease stays, and is given up when
    the copy is made: the writer does not wait for the system to let him in."""
    with holding(file) as holder:
        before = holder.ask("sum")
        assert holder.ask("setuid 65534") == "dropped"
        start = time.monotonic()
        os.truncate(file, 5)
        assert time.monotonic() - start < 10
        assert holder.report()["state"] == "copied"
        assert holder.ask("sum") == before


def test_a_sleeping_reader_without_rights_learns_that_the_writer_was_let_in(file):
    with setting(LEASE_BREAK_TIME, 1), holding(file) as holder:
        assert holder.ask("setuid 65534") == "dropped"
        holder.process.send_signal(signal.SIGSTOP)
        assert 0.5 < write_into(file) < 10
        holder.process.send_signal(signal.SIGCONT)
        assert "let the writer in before" in holder.wait_for("lost")["reason"]


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
    remote = point / file.name
    with holding(remote) as holder:
        report = holder.report()
        assert report["state"] == "off" and "other hosts" in report["reason"]
    status, err = refused("--required", remote)
    assert status == UNSUPPORTED and "other hosts" in err
    for way in ("read", "auto"):  # which need none
        with holding("--required", f"--way={way}", remote) as holder:
            report = holder.report()
            assert report["way"] == "read" and "own memory" in report["reason"]


def with_refusals(text):
    library = PROGRAMS / "libweig_refuse_calls.so"
    return {"env": {**os.environ, "LD_PRELOAD": str(library), "WEIG_REFUSE": text}}


def test_a_file_system_that_is_not_known(file):
    """The kernel gives a lease, and whether it holds off all writers cannot be told."""
    options = with_refusals("file-system=4711")
    with holding(file, **options) as holder:
        before = holder.ask("sum")
        report = holder.report()
        assert report["state"] == "holding"
        assert "does not know this file system (type 4711)" in report["reason"]
        os.truncate(file, 5)
        assert holder.report()["state"] == "copied" and holder.ask("sum") == before


def test_a_file_system_that_is_not_known_is_not_what_is_required(file):
    status, err = refused("--required", file, **with_refusals("file-system=4711"))
    assert status == UNSUPPORTED and "(type 4711)" in err


def test_a_process_that_is_not_told_of_forks_has_no_lease(file):
    with holding(file, **with_refusals("atfork=12")) as holder:
        report = holder.report()
        assert report["state"] == "off" and "be told of forks" in report["reason"]


def test_too_little_address_space_is_told(file):
    file.write_bytes(model_bytes(64 * MIB))

    def limit():
        most = (64 * 3 // 2 + 40) * MIB  # for one mapping and the program, not for two
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    with holding(file, preexec_fn=limit) as holder:
        report = holder.report()
        assert report["state"] == "holding"
        assert "a copy: cannot reserve" in report["reason"]


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
