# SPDX-License-Identifier: Apache-2.0
"""A file's pages in the kernel's cache: looked at, dropped, and read in small folios; and
system settings that are put back whatever happens."""

import contextlib
import ctypes
import mmap
import os
import shutil
import time
from pathlib import Path

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    *3 * [ctypes.c_int],
    ctypes.c_long,
]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def resident_pages(path):
    """For each page of a file of ours: whether it is in memory, by mincore."""
    size = os.path.getsize(path)
    pages = ctypes.create_string_buffer((size + PAGE - 1) // PAGE)
    with open(path, "rb") as file:
        at = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    assert _libc.mincore(at, size, pages) == 0
    _libc.munmap(at, size)
    return [page & 1 for page in pages.raw[: (size + PAGE - 1) // PAGE]]


def resident_share(path):
    pages = resident_pages(path)
    return sum(pages) / len(pages)


def evict(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


_MADV_POPULATE_WRITE = 23


def back_memory(size):
    """Touches and frees so many bytes of anonymous memory: on a virtual machine whose
    host takes free memory back, their next user does not wait for the host."""
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(_MADV_POPULATE_WRITE)


def put_memory_together():
    """Frees what clean pages of other files hold and joins free memory, where we may:
    the kernel makes huge folios of what is free in one piece, and of nothing else."""
    for path in ("/proc/sys/vm/drop_caches", "/proc/sys/vm/compact_memory"):
        if os.access(path, os.W_OK):
            Path(path).write_text("1")


def copy_in_small_folios(source, target):
    """As cp does it: in pieces that leave small folios in the cache."""
    shutil.copyfile(source, target)
    with open(target, "r+b") as file:
        data = file.read()
        file.seek(0)
        for at in range(0, len(data), 16384):
            file.write(data[at : at + 16384])
            file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def setting(path, value):
    """Sets a file of /proc or /sys, and puts back what was there."""
    path = Path(path)
    before = path.read_text()
    if "[" in before:  # "always [madvise] never"
        before = before.partition("[")[2].partition("]")[0]
    path.write_text(str(value))
    try:
        yield path
    finally:
        path.write_text(before)


def read_ahead_of(path):
    """The setting, in KiB, of the device that a file lies on."""
    device = os.stat(path).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    return Path("/sys/class/bdi") / name / "read_ahead_kb"


@contextlib.contextmanager
def memory_cgroup(limit):
    """A cgroup with so much memory, version 1 or 2. Gives (folder, the file that holds
    its limit); processes enter by enter(folder)."""
    root = Path("/sys/fs/cgroup")
    first = (root / "memory").is_dir()
    folder = (root / "memory" if first else root) / f"weig-test-{os.getpid()}"
    folder.mkdir()
    try:
        file = folder / ("memory.limit_in_bytes" if first else "memory.max")
        file.write_text(str(limit))
        yield folder, file
    finally:
        for attempt in range(50):  # until the last process in it is gone for good
            try:
                folder.rmdir()
                break
            except OSError:
                if attempt == 49:
                    raise
                time.sleep(0.02)


def enter(folder):
    """To be called in the process that is to be in the cgroup."""
    (Path(folder) / "cgroup.procs").write_text(str(os.getpid()))
