# SPDX-License-Identifier: Apache-2.0
# open.py REPETITIONS: runs open_bench and holds its figures against the targets.
import json
import subprocess
import sys
import tempfile
from collections import defaultdict

from measure import duration, median, print_table, print_verdict, program

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}

with tempfile.NamedTemporaryFile() as out:
    subprocess.run(
        [
            program("open_bench"),
            f"--benchmark_repetitions={sys.argv[1]}",
            "--benchmark_enable_random_interleaving=true",
            f"--benchmark_out={out.name}",
            "--benchmark_out_format=json",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    report = json.load(out)

times, cpu_times = defaultdict(list), defaultdict(list)
for result in report["benchmarks"]:
    if result["run_type"] == "iteration":
        what, count = result["name"].split("/")[:2]
        unit = SECONDS[result["time_unit"]]
        times[what, int(count)].append(result["real_time"] * unit)
        cpu_times[what, int(count)].append(result["cpu_time"] * unit)

TITLES = {
    "open_full": "open, checked",
    "open_lazy": "open, lazily",
    "find": "find a name",
    "iterate": "walk all",
}
print(f"By number of tensors, page cache warm; {sys.argv[1]} repetitions\n")
rows = []
for what, count in sorted(times, key=lambda key: (list(TITLES).index(key[0]), key[1])):
    seconds = times[what, count]
    each = median(seconds) / count if what == "iterate" else None
    rows.append(
        [
            TITLES[what],
            f"{count:,}",
            duration(median(seconds)),
            duration(min(seconds)),
            duration(median(cpu_times[what, count])),
            duration(each) if each else "",
        ]
    )
print_table(["", "tensors", "median", "fastest", "of CPU", "a tensor"], rows)
print()


def check(what, key, limit):
    middle = median(times[key])
    got = f"{duration(middle)} (fastest {duration(min(times[key]))})"
    print_verdict(what, f"at most {duration(limit)}", got, middle <= limit)


check("checked open of 100,000 tensors", ("open_full", 100_000), 3e-3)
check("checked open of 1,000,000 tensors", ("open_full", 1_000_000), 30e-3)
ratio = median(times["open_lazy", 1_000_000]) / median(times["open_lazy", 10])
print_verdict(
    "lazy open of 1,000,000 tensors against 10",
    "at most 3 times",
    f"{ratio:.2f} times",
    ratio <= 3,
)
check("finding one of 1,000 names", ("find", 1000), 50e-9)
