# SPDX-License-Identifier: Apache-2.0
# peers_open.py FOLDER ROUNDS: opens the same 100,000 tensors with weig and with other
# packages, each in a fresh process with the file in the page cache; imports are not on
# the clock. To be run by a Python that has what bench/requirements.txt lists.
import subprocess
import sys
from pathlib import Path

import ztensor
from measure import (
    ROOT,
    WEIG,
    duration,
    in_turn,
    make_warm,
    median,
    print_table,
    print_verdict,
    program,
)

COUNT = 100_000

# Seconds to open, seconds to get at all names, how many there are: as open_once prints.
PEER = """
import sys, time
{imports}
start = time.perf_counter()
model = {open}
opened = time.perf_counter()
names = list(model.keys())
print(opened - start, time.perf_counter() - opened, len(names))
"""


def peer(imports, open):
    return [sys.executable, "-c", PEER.format(imports=imports, open=open)]


SAFETENSORS = peer(
    "from safetensors import safe_open\nimport numpy",
    "safe_open(sys.argv[1], framework='numpy')",
)
ZTENSOR = peer("import ztensor", "ztensor.open(sys.argv[1])")

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
safetensors_file, weig_file, ztensor_file = (
    str(folder / f"small.{ending}") for ending in ("safetensors", "weig", "zt")
)
make_model = [sys.executable, str(ROOT / "bench" / "make_model.py")]
subprocess.run([*make_model, "small", str(COUNT), safetensors_file], check=True)
subprocess.run(
    [WEIG, "convert", "-f", safetensors_file, "-o", weig_file],
    check=True,
    stdout=subprocess.DEVNULL,
)
ztensor.convert(safetensors_file, ztensor_file)

OURS = "weig, checked"
WAYS = {
    OURS: [program("open_once"), weig_file],
    "safetensors": [*SAFETENSORS, safetensors_file],
    "ztensor, safetensors file": [*ZTENSOR, safetensors_file],
    "ztensor, its own file": [*ZTENSOR, ztensor_file],
}
opened = {way: [] for way in WAYS}
named = {way: [] for way in WAYS}
for round_number in range(rounds):
    for way in in_turn(WAYS, round_number):
        make_warm(WAYS[way][-1])
        output = subprocess.run(WAYS[way], check=True, capture_output=True, text=True)
        open_seconds, name_seconds, count = output.stdout.split()[:3]
        assert int(count) == COUNT
        opened[way].append(float(open_seconds))
        named[way].append(float(open_seconds) + float(name_seconds))

print(
    f"Opening {COUNT:,} tensors, page cache warm; medians of {rounds} fresh processes\n"
)
rows = []
for way in WAYS:
    row = [way]
    for times in (opened, named):
        seconds = median(times[way])
        row += [duration(seconds), f"{seconds / median(times[OURS]):.1f}"]
    rows.append(row)
print_table(["", "open", "times ours", "open + all names", "times ours"], rows)
print()
for way in WAYS:
    if way != OURS:
        ratio = median(opened[way]) / median(opened[OURS])
        with_names = median(named[way]) / median(named[OURS])
        print_verdict(
            f"opening {COUNT:,} tensors against {way}",
            "at least 30 times faster",
            f"{ratio:.1f} times ({with_names:.1f} with all names)",
            ratio >= 30,
        )
