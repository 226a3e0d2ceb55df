# SPDX-License-Identifier: Apache-2.0
# window.py WEIG_FILE ROUNDS [MIB]: a model that is larger than memory, walked through in
# a window of one layer group, in a cgroup of MIB (512) MiB: against one cold sequential
# read of the same file in the same cgroup, and with computing that takes as long as the
# reading; then what the command does with that file in that cgroup. As root, since only
# root makes cgroups.
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import (
    WEIG,
    back_memory,
    duration,
    in_turn,
    make_cold,
    mebibytes,
    median,
    print_table,
    print_verdict,
    program,
    resident_share,
)

file, rounds = sys.argv[1], int(sys.argv[2])
limit = int(sys.argv[3] if len(sys.argv) > 3 else 512) << 20
size = os.path.getsize(file)
ROOT = Path("/sys/fs/cgroup")
V1 = (ROOT / "memory").is_dir()
group = (ROOT / "memory" if V1 else ROOT) / f"weig-bench-{os.getpid()}"


def oom_kills():
    name = "memory.oom_control" if V1 else "memory.events"
    for line in (group / name).read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    raise SystemExit(f"{group / name} tells no oom_kill")


def enter():
    (group / "cgroup.procs").write_text(str(os.getpid()))


def walk(ms_per_mb, times=1):
    command = [program("walk_window"), file, "1", str(times), str(ms_per_mb)]
    return json.loads(subprocess.check_output(command, preexec_fn=enter))


def read():
    command = [program("raw_read"), file]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, preexec_fn=enter)
    return {"seconds": time.perf_counter() - start}


def command(*arguments):
    """Runs the command, which must succeed. Its seconds, and what it printed."""
    start = time.perf_counter()
    run = subprocess.run(
        [WEIG, *arguments], preexec_fn=enter, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if run.returncode != 0:
        raise SystemExit(f"weig {' '.join(arguments)}: {run.returncode}\n{run.stderr}")
    return {"seconds": seconds, "printed": run.stdout + run.stderr}


def cold(way):
    make_cold(file)
    back_memory(limit, 0)
    if resident_share(file) != 0:
        raise SystemExit(f"{file} is not cold")
    return way()


group.mkdir()
try:
    (group / ("memory.limit_in_bytes" if V1 else "memory.max")).write_text(str(limit))
    pace = cold(read)["seconds"] / (size / 1e6) * 1e3  # ms per MB, of this machine now
    ways = {
        "read, 8 MiB at a time": read,
        "walk in a window": lambda: walk(0),
        "walk, computing as long": lambda: walk(pace),
    }
    found = {name: [] for name in ways}
    for round_number in range(rounds):
        for name in in_turn(ways, round_number):
            found[name].append(cold(ways[name]))
    twice = cold(lambda: walk(0, 2))
    with tempfile.TemporaryDirectory() as folder:
        calls = {
            "verify": ["verify", file],
            "warm (what will stay)": ["warm", file],
            "bench, in all ways that fit": ["bench", file, "--rounds", "1"],
            "convert to a set": ["convert", file, "-o", folder + "/set.weig"]
            + ["--shard-size", "1GB"],
            "merge the set": ["merge", folder, "-o", folder + "/one.weig"],
            "quantize to int8": ["convert", file, "-o", folder + "/int8.weig"]
            + ["--quantize", "int8"],
        }
        commands = {name: cold(lambda: command(*call)) for name, call in calls.items()}
    kills = oom_kills()
finally:
    group.rmdir()

seconds = {
    name: median(each["seconds"] for each in runs) for name, runs in found.items()
}
reading, walking, computing = seconds.values()
print(f"{size / 1e9:.2f} GB in {mebibytes(limit)}; medians of {rounds} rounds\n")
print_table(
    ["", "time", "GB/s"],
    [[name, duration(time), f"{size / time / 1e9:.2f}"] for name, time in seconds.items()],
)
print()
share = walking / reading
print_verdict(
    "a cold walk through all groups against a sequential read",
    "at most 1.15 times",
    f"{share:.2f}",
    share <= 1.15,
)
longer = max(reading, pace / 1e3 * size / 1e6)
share = computing / longer
print_verdict(
    "a walk with computing that takes as long as reading, against the longer of both",
    "at most 1.15 times",
    f"{share:.2f}",
    share <= 1.15,
)
most = max(twice["most_present"])
print_verdict(
    "two walks: the most of the file that is present",
    f"below {mebibytes(limit)}, nothing killed",
    f"{mebibytes(most)}, {kills} killed",
    most < limit and kills == 0,
)
print("\nIn the same cgroup:\n")
print_table(
    ["weig", "time"],
    [[name, duration(run["seconds"])] for name, run in commands.items()],
)
print("\n" + commands["warm (what will stay)"]["printed"])
print(commands["bench, in all ways that fit"]["printed"])
print_verdict(
    "verify, warm, bench, convert, merge and quantize in that cgroup",
    "all end well, nothing killed",
    f"{kills} killed",
    kills == 0,
)
