# SPDX-License-Identifier: Apache-2.0
# ways.py SAFETENSORS_FILE WEIG_FILE ROUNDS FRESH_ROUNDS [table]: the same model loaded
# in every way of weig's, in the classical ways, and as fast as programs can that do
# nothing else, cold and warm, in turn. Loaded means that every page is in memory and
# has been touched; time runs from before the process exists. `table`: without the
# verdicts, which are meant for a file of 4 GiB.
import os
import subprocess
import sys
from collections import defaultdict, namedtuple

from measure import (
    available_memory,
    back_memory,
    duration,
    in_turn,
    load,
    make_cold,
    may_drop_caches,
    mebibytes,
    median,
    prepare,
    print_table,
    print_verdict,
    program,
    resident_share,
)

safetensors_file, weig_file = sys.argv[1:3]
rounds, fresh_rounds = (int(count) for count in sys.argv[3:5])
with_verdicts = sys.argv[5:] != ["table"]
size = os.path.getsize(weig_file)
copied_file = weig_file + ".copied"
threads = str(len(os.sched_getaffinity(0)))

# anonymous: whether it puts the file into memory of its own.
Way = namedtuple("Way", "command states anonymous", defaults=[False])
BOTH, COLD, COPIED = ["cold", "warm"], ["cold"], ["copied"]


def claim(way):
    return [program("claim_load"), weig_file, way, threads]


AUTO, LIMIT = "weig, auto", "bare C, the limit"
BUFFERED, DIRECT = "buffered read, forgotten", "direct read, forgotten"
COPY, PLAIN = "read, parse, malloc, copy", "plain map, as cp left it"
WAYS = {
    AUTO: Way(claim("auto"), BOTH),
    "weig, map": Way(claim("map"), BOTH),
    "weig, stream": Way(claim("stream"), BOTH),
    "weig, populate": Way(claim("populate"), BOTH),
    "weig, read": Way(claim("read"), BOTH, anonymous=True),
    LIMIT: Way([program("limit_load"), weig_file, threads], BOTH),
    BUFFERED: Way([program("raw_read"), weig_file], BOTH),
    DIRECT: Way([program("direct_read"), weig_file], COLD),
    COPY: Way([program("classic_load"), safetensors_file], BOTH, anonymous=True),
    "read, parse, malloc": Way(
        [program("classic_load"), safetensors_file, "straight"], BOTH, anonymous=True
    ),
    "plain map, touch": Way([program("plain_load"), weig_file], BOTH),
    PLAIN: Way([program("plain_load"), copied_file], COPIED),
    PLAIN + f", {threads} threads": Way(
        [program("plain_load"), copied_file, threads], COPIED
    ),
}


def needed(way, state):
    """Bytes of memory, page cache counted in, that a run takes."""
    cached = {"cold": 0, "warm": 1, "copied": 2}[state]
    return (cached + way.anonymous) * size + (1 << 30)


def prepare_copied():
    """Makes a copy of the file that is in the page cache as `cp` has written it.
    Returns whether it is proven to be there."""
    make_cold(safetensors_file)
    subprocess.run(["cp", weig_file, copied_file], check=True)
    os.sync()
    back_memory(size, 2 * size)
    return resident_share(copied_file) == 1


runs, unproven, too_large = defaultdict(list), 0, {}


def measure(name, state, memory):
    global unproven
    way = WAYS[name]
    if needed(way, state) > available_memory():
        too_large[name, state] = needed(way, state)
        return
    if state == "copied":
        proven = prepare_copied()
    else:
        proven = prepare(way.command[1], state, memory)
    unproven += not proven
    runs[memory, state, name].append(load(way.command))
    if state == "copied":
        os.remove(copied_file)


for round_number in range(rounds):
    for name in in_turn(WAYS, round_number):
        for state in WAYS[name].states:
            measure(name, state, "backed")
if may_drop_caches():
    for round_number in range(fresh_rounds):
        for name in in_turn(WAYS, round_number):
            if "cold" in WAYS[name].states:
                measure(name, "cold", "fresh")


def middle(name, state, figure="seconds", memory="backed"):
    return median(run[figure] for run in runs[memory, state, name])


def time_of(name, state, memory):
    if not runs[memory, state, name]:
        return "-"
    return duration(middle(name, state, memory=memory))


def row(name, state):
    if not runs["backed", state, name]:
        need = too_large[name, state]
        return [name, f"needs {need / 1e9:.0f} GB", *[""] * 6]
    chosen = {run["way"] for run in runs["backed", state, name]}
    return [
        name,
        time_of(name, state, "backed"),
        time_of(name, state, "fresh") if state == "cold" else "",
        f"{size / middle(name, state) / 1e9:.2f}",
        " / ".join(f"{middle(name, state, n):,.0f}" for n in ("major", "minor")),
        mebibytes(middle(name, state, "anonymous")),
        f"{middle(name, state, 'huge'):.0%}",
        ", ".join(sorted(chosen)),
    ]


print(
    f"{size / 1e9:.2f} GB, {threads} threads; medians of {rounds} rounds backed, "
    f"{fresh_rounds if may_drop_caches() else 0} fresh"
)
for state in ("cold", "warm"):
    print(f"\n{state}\n")
    rows = [row(name, state) for name in WAYS if state in WAYS[name].states]
    if state == "warm":
        rows += [row(name, "copied") for name in WAYS if "copied" in WAYS[name].states]
    print_table(
        ["way", "time", "fresh", "GB/s", "faults", "memory", "huge", "by"], rows
    )
print("""
  time    from before the process starts until all is loaded, memory backed
  fresh   the same after memory has lain idle
  faults  page faults, major / minor
  memory  anonymous memory when all is loaded
  huge    share of the file, or of the memory it is in, mapped in 2 MiB pages
  by      the way that weig took""")
if unproven:
    print(f"  the file's state was not as said, or not known, in {unproven} runs")
if not may_drop_caches():
    print("  not root: caches cannot be dropped, so there are no fresh figures")
if not with_verdicts:
    sys.exit()


def ratio(what, target, one, other, held):
    value = one / other
    got = f"{value:.3g} ({duration(one)} to {duration(other)})"
    print_verdict(what, target, got, held(value))


cold, warm = middle(AUTO, "cold"), middle(AUTO, "warm")
raw = min(middle(BUFFERED, "cold"), middle(DIRECT, "cold"))
print()
ratio(
    "cold, auto against the faster of buffered and direct read",
    *("at most 1.05", cold, raw, lambda value: value <= 1.05),
)
ratio(
    "cold, auto against read, parse, malloc, copy",
    *("at most 0.75", cold, middle(COPY, "cold"), lambda value: value <= 0.75),
)
ratio(
    "warm, auto against the limit",
    *("at most 1.15", warm, middle(LIMIT, "warm"), lambda value: value <= 1.15),
)
ratio(
    "warm, plain map of what cp left against auto",
    *("at least 15", middle(PLAIN, "copied"), warm, lambda value: value >= 15),
)
ratio(
    "warm, read, parse, malloc, copy against auto",
    *("at least 60", middle(COPY, "warm"), warm, lambda value: value >= 60),
)
