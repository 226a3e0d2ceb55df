# SPDX-License-Identifier: Apache-2.0
# The read-ahead of the device that a file lies on, to be set for a while. That concerns
# the whole machine: whatever ends the process (but SIGKILL), it is put back.
import contextlib
import os
import signal
from pathlib import Path


def _setting(path):
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return Path("/sys/class/bdi") / number / "read_ahead_kb"


def read_ahead_kib(path):
    return int(_setting(path).read_text())


def may_set_read_ahead(path):
    return os.access(_setting(path), os.W_OK)


@contextlib.contextmanager
def read_ahead(path, kib):
    """With `kib` of read-ahead. Without change if it is that already."""
    before = read_ahead_kib(path)
    if before == kib:
        yield
        return

    def stop(number, _frame):
        raise SystemExit(128 + number)

    handlers = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        _setting(path).write_text(str(kib))
        yield
    finally:
        _setting(path).write_text(str(before))
        for number, handler in handlers.items():
            signal.signal(number, handler)
