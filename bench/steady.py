# SPDX-License-Identifier: Apache-2.0
# steady.py WEIG_FILE FOLDER ROUNDS: what must hold besides speed. Opening again and
# again does not drift, mapping takes no memory, huge pages make random reads faster, a
# load can be cancelled, and opening does not load. FOLDER is for a sparse file.
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from measure import (
    ROOT,
    WEIG,
    duration,
    make_cold,
    make_warm,
    mebibytes,
    median,
    peak_anonymous,
    prepare,
    print_verdict,
    program,
    resident_share,
)

weig_file, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
threads = str(len(os.sched_getaffinity(0)))
MAPPED = ("map", "stream", "populate")
OPENS = 100
READS = 20_000_000
SPARSE = 20 << 30
CANCEL_AFTER = 0.1  # seconds


def output_of(*command):
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()


def drift(values):
    """How much a line through the values rises from first to last: the median of the
    slopes between any two of them (Theil and Sen), which outliers do not move."""
    pairs = itertools.combinations(enumerate(values), 2)
    slope = median((later - value) / (j - i) for (i, value), (j, later) in pairs)
    return slope * (len(values) - 1)


def open_many_times():
    for way in MAPPED:
        make_warm(weig_file)
        lines = output_of(
            program("many_opens"), weig_file, way, threads, str(OPENS + 1)
        )
        # The first makes what a process makes once: thread stacks, heap.
        seconds, memory, mappings, files = zip(
            *(map(float, line.split()) for line in lines[1:]), strict=True
        )
        share = drift(seconds) / median(seconds)
        print_verdict(
            f"{OPENS} warm loads in a row by {way}, drift of time",
            f"at most 10 % of {duration(median(seconds))}",
            f"{share:+.1%}",
            share <= 0.1,
        )
        grown = max(drift(memory), memory[-1] - memory[0])
        print_verdict(
            f"{OPENS} warm loads in a row by {way}, growth of memory",
            "at most 0.1 MiB, no mapping, no open file",
            f"{mebibytes(grown)}, {mappings[-1] - mappings[0]:.0f}, "
            f"{files[-1] - files[0]:.0f}",
            grown <= 0.1 * 2**20
            and mappings[-1] <= mappings[0]
            and files[-1] <= files[0],
        )


def take_no_memory():
    for way in MAPPED:
        make_cold(weig_file)
        peak = peak_anonymous([program("claim_load"), weig_file, way, threads])
        print_verdict(
            f"anonymous memory at its peak by {way}, cold",
            "under 8 MiB",
            mebibytes(peak),
            peak < 8 << 20,
        )


def read_at_random():
    # In huge folios, as weig leaves a file that it has loaded cold.
    make_cold(weig_file)
    output_of(program("claim_load"), weig_file, "populate")
    *lines, shares = output_of(
        program("random_reads"), weig_file, str(READS), str(rounds)
    )
    ours, small = (median(float(line.split()[i]) for line in lines) for i in range(2))
    huge, not_huge = map(float, shares.split())
    print_verdict(
        f"{READS // 10**6} million random reads against a view in 4 KiB pages",
        "at most 0.65 of its time",
        f"{ours / small:.3f} ({duration(ours)} to {duration(small)}; "
        f"{huge:.0%} and {not_huge:.0%} in 2 MiB pages)",
        ours <= 0.65 * small and not_huge == 0,
    )


def cancelled_load(way):
    line = output_of(
        program("cancel_load"), weig_file, way, str(int(CANCEL_AFTER * 1000))
    )[0]
    return float(line.split()[0])


def interrupted_warm(_):
    with subprocess.Popen([WEIG, "warm", weig_file], stderr=subprocess.DEVNULL) as warm:
        time.sleep(CANCEL_AFTER)
        if warm.poll() is not None:
            raise SystemExit(f"weig warm: ended early, exit status {warm.returncode}")
        start = time.perf_counter()
        warm.send_signal(signal.SIGINT)
        status = warm.wait()
        taken = time.perf_counter() - start
    if status != 128 + signal.SIGINT:
        raise SystemExit(f"weig warm: exit status {status}, not that of an interrupt")
    return taken


def stop_when_asked():
    for what, stop in (
        ("populate", cancelled_load),
        ("stream", cancelled_load),
        ("weig warm", interrupted_warm),
    ):
        taken = []
        for _ in range(rounds):
            prepare(weig_file, "cold")
            taken.append(stop(what))
        print_verdict(
            f"{what}, cold, from a cancel to its end",
            "at most 100 ms each time",
            f"at most {duration(max(taken))}, median {duration(median(taken))}",
            max(taken) <= 0.1,
        )


def open_sparse_file():
    path = str(folder / "sparse.safetensors")
    make_model = str(ROOT / "bench" / "make_model.py")
    subprocess.run(
        [sys.executable, make_model, "sparse", str(SPARSE), path], check=True
    )
    taken, resident = [], []
    for _ in range(rounds):
        make_cold(path)
        taken.append(float(output_of(program("open_once"), path)[0].split()[0]))
        share = resident_share(path)
        if share is None:
            raise SystemExit(f"{path}: the kernel does not tell what is resident")
        resident.append(share * os.path.getsize(path))
    os.remove(path)
    print_verdict(
        "opening a sparse file of 20 GiB, cold",
        "under 5 ms",
        f"{duration(median(taken))}, at most {duration(max(taken))}",
        median(taken) < 5e-3,
    )
    print_verdict(
        "what opening it leaves resident",
        "under 1 MiB",
        mebibytes(max(resident)),
        max(resident) < 1 << 20,
    )


open_many_times()
take_no_memory()
read_at_random()
open_sparse_file()
stop_when_asked()
