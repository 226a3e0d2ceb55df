# SPDX-License-Identifier: Apache-2.0
# convert.py SOURCE TARGET ROUNDS FRESH_ROUNDS: `weig convert` of a safetensors file
# against copying it with cp and dd, all to the point where the copy is on the device.
# Then how much memory it takes, and how the new file maps. TARGET stays.
import os
import sys

from measure import (
    WEIG,
    duration,
    in_turn,
    load,
    may_drop_caches,
    mebibytes,
    median,
    peak_anonymous,
    prepare,
    print_table,
    print_verdict,
    program,
    run,
)

source, target = sys.argv[1:3]
rounds, fresh_rounds = (int(count) for count in sys.argv[3:5])
size = os.path.getsize(source)

CONVERT = [WEIG, "convert", source, "-o", target]
WAYS = {
    "weig convert": CONVERT,
    "cp + sync": ["sh", "-c", 'cp "$0" "$1" && sync "$1"', source, target],
    "dd bs=2M conv=fsync": [
        *("dd", f"if={source}", f"of={target}"),
        *("bs=2M", "conv=fsync", "status=none"),
    ],
}
STATES = [("backed", "warm"), ("backed", "cold")]
if may_drop_caches():
    STATES += [("fresh", "warm"), ("fresh", "cold")]
else:
    print("not root: caches cannot be dropped, so there are no fresh figures")


def remove_target():
    if os.path.exists(target):
        os.remove(target)
    os.sync()  # what removing leaves to be written is not for the next run to pay


times = {(state, way): [] for state in STATES for way in WAYS}
unproven = 0
for memory, cache in STATES:
    for round_number in range(rounds if memory == "backed" else fresh_rounds):
        for way in in_turn(WAYS, round_number):
            remove_target()
            unproven += not prepare(source, cache, memory)
            times[(memory, cache), way].append(run(WAYS[way]).wall)

print(f"{size / 1e9:.2f} GB, medians of {rounds} rounds backed, {fresh_rounds} fresh\n")
rows = []
for way in WAYS:
    row = [way]
    for state in STATES:
        seconds = median(times[state, way])
        ratio = seconds / median(times[state, "cp + sync"])
        row.append(f"{duration(seconds)} {ratio:5.2f}")
    rows.append(row)
heads = [f"{memory}, source {cache}" for memory, cache in STATES]
print_table(["time, and by cp's", *heads], rows)
if unproven:
    print(f"  the source's state was not as said, or not known, in {unproven} runs")

remove_target()
peak = peak_anonymous(CONVERT)
unproven = not prepare(target, "cold")
cold = load([program("claim_load"), target])
warm = load([program("claim_load"), target])
print()
print_table(
    ["new file, every page touched", "time", "faults major / minor", "huge-mapped"],
    [
        [
            name,
            duration(figures["seconds"]),
            f"{figures['major']:,} / {figures['minor']:,}",
            f"{figures['huge']:.1%}",
        ]
        for name, figures in (("cold", cold), ("warm", warm))
    ],
)
if unproven:
    print("  the new file was not cold, or not known to be")
print()
for memory, cache in STATES[:2]:
    ours, cp, dd = (median(times[(memory, cache), way]) for way in WAYS)
    print_verdict(
        f"weig convert, {memory}, source {cache}",
        "no longer than cp and dd",
        f"{ours / cp:.2f} and {ours / dd:.2f} of their time",
        ours <= min(cp, dd),
    )
print_verdict(
    "anonymous memory of weig convert",
    "at most 64 MiB",
    mebibytes(peak),
    peak <= 64 << 20,
)
faults = warm["major"] + warm["minor"]
print_verdict(
    "page faults of loading the new file warm",
    "fewer than 4,000",
    f"{faults:,}",
    faults < 4000,
)
print_verdict(
    "huge-mapped share of the new file, warm",
    "more than 95 %",
    f"{warm['huge']:.1%}",
    warm["huge"] > 0.95,
)
