# SPDX-License-Identifier: Apache-2.0
# load.py SAFETENSORS_FILE WEIG_FILE ROUNDS: loads the same model the traditional way
# and by claiming, cold and warm, in turn. Loaded means that every page of every tensor
# is in memory and has been touched; time runs from before the process exists.
import os
import sys

from measure import (
    duration,
    in_turn,
    load,
    mebibytes,
    median,
    prepare,
    print_table,
    program,
)

safetensors_file, weig_file, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])

CLAIM = "claim (weig)"
COPY = "read, malloc, copy"
WAYS = {
    COPY: [program("classic_load"), safetensors_file],
    "read, malloc": [program("classic_load"), safetensors_file, "straight"],
    CLAIM: [program("claim_load"), weig_file],
    "bare read": [program("raw_read"), weig_file],
}
STATES = ["cold", "warm"]

runs = {(state, way): [] for state in STATES for way in WAYS}
unproven = dict.fromkeys(STATES, 0)
for round_number in range(rounds):
    for way in in_turn(WAYS, round_number):
        for state in STATES:
            unproven[state] += not prepare(WAYS[way][1], state)
            runs[state, way].append(load(WAYS[way]))


def middle(state, way, figure):
    return median(figures[figure] for figures in runs[state, way])


rows = []
for state in STATES:
    if rows:
        rows.append([""] * 7)
    for way in WAYS:
        seconds = middle(state, way, "seconds")
        rows.append(
            [
                way,
                state,
                duration(seconds),
                f"{middle(state, COPY, 'seconds') / seconds:.1f} x",
                " / ".join(f"{middle(state, way, n):,.0f}" for n in ("major", "minor")),
                mebibytes(middle(state, way, "anonymous")),
                f"{middle(state, way, 'huge'):.0%}" if way == CLAIM else "-",
            ]
        )

print(
    f"{os.path.getsize(weig_file) / 1e6:,.1f} MB, memory backed; "
    f"medians of {rounds} rounds\n"
)
print_table(["way", "state", "time", "speed", "faults", "memory", "huge"], rows)
print("""
  time    from before the process starts until all is loaded
  faults  page faults, major / minor
  memory  anonymous memory at its peak, when all is loaded
  huge    share of the file that is mapped in 2 MiB pieces""")
for state, what in (("cold", "nothing"), ("warm", "all")):
    proof = "proven before each run"
    if unproven[state]:
        proof = f"NOT proven in {unproven[state]} of {rounds * len(WAYS)} runs"
    print(f"  {state}    {what} of the file is in the page cache, {proof}")
times = [middle("warm", way, "seconds") for way in (COPY, CLAIM)]
memory = [middle("warm", way, "anonymous") for way in (COPY, CLAIM)]
print(
    f"\nWarm, claiming takes {duration(times[1])} instead of {duration(times[0])},\n"
    f"and {mebibytes(memory[1])} of anonymous memory instead of {mebibytes(memory[0])}."
)
