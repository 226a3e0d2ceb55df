# SPDX-License-Identifier: Apache-2.0
# larger.py WEIG_FILE: a model that is larger than this machine's memory, walked through
# twice in a window of one layer group, every page touched: how much of it is in memory
# at most.
import json
import os
import subprocess
import sys

from measure import (
    duration,
    make_cold,
    mebibytes,
    print_table,
    print_verdict,
    program,
    resident_share,
)

file = sys.argv[1]
size = os.path.getsize(file)
memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
if size <= memory:
    raise SystemExit(f"{file} is no larger than this machine's memory")

make_cold(file)
walk = subprocess.check_output([program("walk_window"), file, "1", "2", "0"])
found = json.loads(walk)
left = resident_share(file) * size
first, second = found["most_present"]

print(f"{size / 1e9:.2f} GB, twice, in {memory / 1e9:.2f} GB of memory\n")
print_table(
    ["", ""],
    [
        ["time", duration(found["seconds"])],
        ["rate", f"{2 * size / found['seconds'] / 1e9:.2f} GB/s"],
        ["present at most, first walk", mebibytes(first)],
        ["present at most, second walk", mebibytes(second)],
        ["in the page cache when it is over", mebibytes(left)],
    ],
)
print()
print_verdict(
    "a second walk has no more in memory than the first",
    "at most 1.05 times",
    f"{second / first:.2f}",
    second <= 1.05 * first,
)
