# SPDX-License-Identifier: Apache-2.0
# quantize.py SOURCE MODEL TARGET ROUNDS: int8 of a bf16 model, one scale a row. In
# memory, against a plain copy of the same tensors by as many threads; and as `weig
# convert --quantize`, against a plain `weig convert`, to the point where the new file is
# on the device. MODEL is a WEIG file of SOURCE; TARGET is made and removed.
import json
import os
import subprocess
import sys

from measure import (
    WEIG,
    duration,
    in_turn,
    mebibytes,
    median,
    peak_anonymous,
    prepare,
    print_table,
    print_verdict,
    program,
    run,
)

source, model, target = sys.argv[1:4]
rounds = int(sys.argv[4])
size = os.path.getsize(source)


def in_memory(what):
    prepare(model, "warm")
    command = [program("quantize_model"), model, what]
    return json.loads(subprocess.check_output(command))


CONVERT = [WEIG, "convert", source, "-o", target]
QUANTIZE = [*CONVERT, "--quantize", "int8"]


def as_file(command):
    if os.path.exists(target):
        os.remove(target)
    os.sync()
    prepare(source, "warm")
    return {"seconds": run(command).wall}


ways = {
    "in memory: plain copy": lambda: in_memory("copy"),
    "in memory: to int8": lambda: in_memory("quantize"),
    "weig convert": lambda: as_file(CONVERT),
    "weig convert --quantize int8": lambda: as_file(QUANTIZE),
}
found = {name: [] for name in ways}
for round_number in range(rounds):
    for name in in_turn(ways, round_number):
        found[name].append(ways[name]())
os.remove(target)
peak = peak_anonymous(QUANTIZE)
os.remove(target)

seconds = {
    name: median(each["seconds"] for each in runs) for name, runs in found.items()
}
print(f"{size / 1e9:.2f} GB, bf16; medians of {rounds} rounds\n")
print_table(
    ["", "time", "GB/s of the source"],
    [[name, duration(time), f"{size / time / 1e9:.2f}"] for name, time in seconds.items()],
)
print()
copy, quantize, convert, convert_quantize = seconds.values()
print_verdict(
    "int8 in memory, by the rate of a plain copy",
    "at least 0.70",
    f"{copy / quantize:.2f}",
    copy / quantize >= 0.7,
)
print_verdict(
    "convert --quantize int8, by the rate of a plain convert",
    "at least 0.70",
    f"{convert / convert_quantize:.2f}",
    convert / convert_quantize >= 0.7,
)
runs = found["in memory: to int8"]
beside = max(each["peak"] - each["result"] for each in runs)
print_verdict(
    "int8 in memory: anonymous memory beside the result",
    "at most 64 MiB",
    mebibytes(beside),
    beside <= 64 << 20,
)
print_verdict(
    "convert --quantize int8: anonymous memory",
    "at most 64 MiB",
    mebibytes(peak),
    peak <= 64 << 20,
)
