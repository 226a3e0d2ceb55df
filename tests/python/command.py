# SPDX-License-Identifier: Apache-2.0
"""The weig command as a program to run: status, output, time, and memory on request."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass

# The exit statuses that tests name.
CANNOT_OPEN, CORRUPT, CHECKSUM, UNSUPPORTED, NOT_FOUND, EXISTS = 2, 3, 4, 5, 6, 7
IO, INVALID_ARGUMENT, LIMIT, USAGE = 8, 9, 10, 64
# What a refusal, and what is read in parts, may take at most: seconds, bytes.
SECOND, MEMORY = 1.0, 256 << 20
CODE_NAMES = {
    CANNOT_OPEN: "cannot_open",
    CORRUPT: "corrupt",
    CHECKSUM: "checksum",
    UNSUPPORTED: "unsupported",
    NOT_FOUND: "not_found",
    EXISTS: "exists",
    IO: "io",
    INVALID_ARGUMENT: "invalid_argument",
    LIMIT: "limit",
}

# Runs a program and reports its peak memory. A child of pytest itself would count the
# pages that it shares with pytest before it becomes the program; this one is small.
_MEASURE = """
import os, resource, sys, time
report = int(sys.argv[1])
start = time.monotonic()
child = os.fork()
if child == 0:
    os.close(report)
    os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
line = f"{time.monotonic() - start} {usage.ru_maxrss * 1024}"
line += f" {usage.ru_utime + usage.ru_stime}"
os.write(report, line.encode())
os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
"""


@dataclass
class Run:
    """How a call of the command ended."""

    status: int
    out: bytes
    err: str
    seconds: float
    peak_bytes: int = 0  # of memory, files' pages included; measured() only
    cpu_seconds: float = 0  # which a busy machine does not change; measured() only

    @property
    def text(self):
        return self.out.decode()

    def json(self):
        return json.loads(self.out)


class Weig:
    """Calls the command."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, timeout=60, **options):
        """Runs it to its end, whatever that is; a signal fails the test."""
        start = time.monotonic()
        run = self._run([self.path, *map(os.fspath, arguments)], timeout, **options)
        run.seconds = time.monotonic() - start
        return run

    def ok(self, *arguments, **options):
        """Runs it and expects success."""
        run = self(*arguments, **options)
        assert run.status == 0, f"{arguments}: status {run.status}, {run.err}"
        return run

    def measured(self, *arguments, timeout=60):
        """Runs it and measures its own time and peak memory."""
        reading, writing = os.pipe()
        with open(reading) as report:
            small = [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _MEASURE,
                str(writing),
                self.path,
            ]
            run = self._run(
                small + list(map(os.fspath, arguments)), timeout, pass_fds=[writing]
            )
            os.close(writing)
            seconds, peak, cpu = report.read().split()
        run.seconds, run.peak_bytes = float(seconds), int(peak)
        run.cpu_seconds = float(cpu)
        return run

    def start(self, *arguments):
        """Starts it and returns the Popen."""
        return subprocess.Popen(
            [self.path, *map(os.fspath, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def on_terminal(self, *arguments, columns=80, **environment):
        """Runs it on a terminal, and returns what that shows and the status."""
        ours, theirs = pty.openpty()
        size = struct.pack("4H", 24, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        environment = {"TERM": "xterm", "LC_ALL": "C.UTF-8"} | environment
        process = subprocess.Popen(
            [self.path, *map(os.fspath, arguments)],
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
            env=os.environ | environment,
        )  # fmt: skip
        os.close(theirs)
        out = b""
        try:
            while piece := os.read(ours, 65536):
                out += piece
        except OSError:  # how a terminal ends
            pass
        os.close(ours)
        return out.decode().replace("\r\n", "\n"), process.wait()

    @staticmethod
    def _run(command, timeout, **options):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            **options,
        )
        assert 0 <= done.returncode < 128 or done.returncode == 141, (
            f"{command}: ended by a signal, {done.returncode}: {done.stderr}"
        )
        return Run(done.returncode, done.stdout, done.stderr.decode(), 0)


def list_tree(folder):
    """Everything in a folder, with sizes: to see that nothing came or went."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(root, name)
            found[os.path.relpath(path, folder)] = os.lstat(path).st_size
    return found


def assert_same_file(one, other):
    """Byte for byte, whatever the size."""
    assert os.stat(one).st_size == os.stat(other).st_size
    with open(one, "rb") as a, open(other, "rb") as b:
        while chunk := a.read(8 << 20):
            assert chunk == b.read(8 << 20)
