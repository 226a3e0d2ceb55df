# SPDX-License-Identifier: Apache-2.0
# verify.py FILE ROUNDS: how fast `weig verify` checks a WEIG file: cold, against merely
# reading it; warm, on one thread. And what it costs to check digests while loading.
import os
import sys

from measure import (
    WEIG,
    duration,
    in_turn,
    median,
    prepare,
    print_table,
    print_verdict,
    program,
    run,
)

file, rounds = sys.argv[1], int(sys.argv[2])
size = os.path.getsize(file)

threads = str(len(os.sched_getaffinity(0)))
LOAD, CHECK = "load, auto", "load, auto, digests checked"
READ, COLD, WARM = "read, 8 MiB at a time", "weig verify", "weig verify --threads 1"
WAYS = {
    READ: ("cold", [program("raw_read"), file]),
    COLD: ("cold", [WEIG, "verify", file]),
    LOAD: ("cold", [program("claim_load"), file, "auto", threads]),
    CHECK: ("cold", [program("claim_load"), file, "auto", threads, "digests"]),
    WARM: ("warm", [WEIG, "verify", "--threads", "1", file]),
}
times = {way: [] for way in WAYS}
unproven = 0
for round_number in range(rounds):
    for way in in_turn([READ, COLD, LOAD, CHECK], round_number) + [WARM]:
        state, command = WAYS[way]
        unproven += not prepare(file, state)
        times[way].append(run(command))


def wall(way):
    return median(seconds.wall for seconds in times[way])


def rate(way):
    return size / wall(way) / 1e9


print(f"{size / 1e9:.2f} GB, memory backed; medians of {rounds} rounds\n")
print_table(
    ["", "state", "time", "of CPUs", "GB/s"],
    [
        [
            way,
            state,
            duration(wall(way)),
            duration(median(seconds.cpu for seconds in times[way])),
            f"{rate(way):.2f}",
        ]
        for way, (state, _) in WAYS.items()
    ],
)
if unproven:
    print(f"  the file's state was not as said, or not known, in {unproven} runs")
print()
share = rate(COLD) / rate(READ)
print_verdict(
    "cold weig verify against reading the file",
    "at least 0.9 of its rate",
    f"{share:.2f}",
    share >= 0.9,
)
cost = wall(CHECK) / wall(LOAD)
print_verdict(
    "a cold load with its digests checked",
    "at most 1.1 times one without",
    f"{cost:.2f}",
    cost <= 1.1,
)
fastest = size / min(seconds.wall for seconds in times[WARM]) / 1e9
print_verdict(
    "warm weig verify on one thread",
    "at least 12 GB/s",
    f"{rate(WARM):.1f} GB/s (fastest {fastest:.1f})",
    rate(WARM) >= 12,
)
