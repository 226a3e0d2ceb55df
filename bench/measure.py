# SPDX-License-Identifier: Apache-2.0
# How the benchmarks measure: a fresh process a run, the state of page cache and memory
# made and proven before it, medians and plain-text tables after it.
#
# Cold: none of the file's pages are in the page cache; warm: all of them. Backed: the
# machine's free memory has just been in use; fresh: it has lain idle for some seconds,
# and on a virtual machine its first touch may cost the host's time.
import ctypes
import json
import os
import resource
import statistics
import subprocess
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("WEIG_BUILD", ROOT / "build" / "release"))
WEIG = str(BUILD / "bin" / "weig")

median = statistics.median


def program(name):
    return str(BUILD / "bench" / name)


# States, and their proof.


def resident_share(path):
    """The share of the file that is in the page cache, by mincore. None if the kernel
    would not tell us: it tells owners, and who may write."""
    if os.stat(path).st_uid != os.geteuid() and not os.access(path, os.W_OK):
        return None
    size = os.path.getsize(path)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
    )
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    page = os.sysconf("SC_PAGESIZE")
    pages = ctypes.create_string_buffer((size + page - 1) // page)
    with open(path, "rb") as file:
        read, shared = 1, 1
        address = libc.mmap(None, size, read, shared, file.fileno(), 0)
    failed = libc.mincore(address, size, pages)
    libc.munmap(address, size)
    return None if failed else pages.raw.count(1) / len(pages)


def available_memory():
    """Bytes that can be had without swapping, page cache counted in."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/meminfo tells no MemAvailable")


def make_cold(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())  # pages not yet written cannot be dropped
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_warm(path):
    for _ in range(3):  # the kernel may drop some pages while it reads others
        if resident_share(path) == 1:
            break
        run([program("raw_read"), path])


def may_drop_caches():
    return os.access("/proc/sys/vm/drop_caches", os.W_OK)


def back_memory(size, kept):
    """Makes free memory backed: one and a half times `size`, or as much as there is
    beside `kept` bytes of page cache."""
    most = available_memory() - kept - (1 << 30)
    run([program("back_memory"), str(max(1 << 20, min(size * 3 // 2, most)))])


def prepare(path, state, memory="backed"):
    """Makes the file cold or warm and free memory backed or fresh. Returns whether the
    file's state is proven."""
    if memory == "fresh":
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    make = make_warm if state == "warm" else make_cold
    make(path)
    if memory == "fresh":
        time.sleep(5)
    else:
        size = os.path.getsize(path)
        back_memory(size, size if state == "warm" else 0)
    make(path)  # backing memory can cost a warm file some pages
    if state == "warm":
        # A host may have taken the pages' memory back: their next touch pays for it.
        run([program("limit_load"), path, "2"])
    return resident_share(path) == (1 if state == "warm" else 0)


# Runs.


Seconds = namedtuple("Seconds", "wall cpu")  # from start to exit; user and system


def run(command):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Seconds(wall, cpu)


def load(command):
    """Runs a program that says "loaded" and then at what cost (bench/loaded.h). Returns
    its figures with `seconds`, from before the process exists to "loaded"; `inside` is
    what of it the program ran, once the system had started it."""
    read_end, write_end = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write_end, 1)]
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    os.close(write_end)
    first = os.read(read_end, len("loaded\n"))
    seconds = time.perf_counter() - start
    with open(read_end) as rest:
        figures = rest.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0 or first != b"loaded\n":
        raise SystemExit(f"{command}: exit status {status}")
    return {"seconds": seconds, **json.loads(figures)}


def peak_anonymous(command):
    """The most anonymous memory that a command ever has, looked at every ms."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
            time.sleep(0.001)
    if process.returncode != 0:
        raise SystemExit(f"{command}: exit status {process.returncode}")
    return peak


def in_turn(ways, round_number):
    """The ways in an order that no way is always first in."""
    ways = list(ways)
    shift = round_number % len(ways)
    return ways[shift:] + ways[:shift]


# Text.


def duration(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if seconds * factor >= 1 or unit == "ns":
            return f"{seconds * factor:#.3g}".rstrip(".") + f" {unit}"


def mebibytes(count):
    return f"{count / 2**20:,.1f} MiB"


def print_table(head, rows):
    """Columns, the first to the left, others to the right. Of empty cells: a gap."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print(("  " + "  ".join(cells)).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def print_verdict(what, target, got, held):
    print(f"{'PASS' if held else 'FAIL'}  {what}: {target}: got {got}", flush=True)
