# SPDX-License-Identifier: Apache-2.0
# peers_small.py FOLDER ROUNDS JSON_FILE: opens the same 100,000 small tensors with weig
# and with other packages, each in a fresh process with the file in the page cache:
# open alone, to a dict of all tensors, and that touched. Imports are not on the clock.
# Adds its figures to the JSON file. To be run as bench/peers_load.py is.
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from measure import (
    ROOT,
    WEIG,
    duration,
    in_turn,
    make_warm,
    median,
    print_table,
    program,
)

COUNT = 100_000
# Not: tensorizer, whose writer refuses so many ("Metadata overflow"), and numpy.load,
# which maps one file a tensor.
PEERS = {
    "safetensors safe_open": ("safetensors_safe_open", "safetensors"),
    "safetensors load_file": ("safetensors_load_file", "safetensors"),
    "torch.load, mmap": ("torch_mapped", "pt"),
    "torch.load": ("torch_read", "pt"),
    "ztensor": ("ztensor", "zt"),
    "ztensor, safetensors file": ("ztensor", "safetensors"),
    "runai-model-streamer": ("runai", "safetensors"),
    "fastsafetensors, nogds": ("fastsafetensors", "safetensors"),
    "flashpack, mapped": ("flashpack_mapped", "flashpack"),
    "gguf": ("gguf", "gguf"),
}
OURS = "weig (C++)"

folder, rounds, json_file = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
threads = str(len(os.sched_getaffinity(0)))
source, weig_file = str(folder / "small.safetensors"), str(folder / "small.weig")


def make_files():
    make_model = str(ROOT / "bench" / "make_model.py")
    files = str(ROOT / "bench" / "peers" / "files.py")
    kinds = sorted({kind for _, kind in PEERS.values()} - {"safetensors"})
    subprocess.run(
        [sys.executable, make_model, "small", str(COUNT), source], check=True
    )
    subprocess.run(
        [WEIG, "convert", "-f", source, "-o", weig_file],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        [sys.executable, files, source, str(folder), *kinds],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def weig():
    output = subprocess.run(
        [program("open_once"), weig_file], check=True, capture_output=True
    ).stdout.split()
    opened, mapped = float(output[0]), float(output[3])
    assert int(output[2]) == COUNT
    return {"open": opened, "dict": opened + mapped, "seconds": None}


def peer(function, path):
    script = str(ROOT / "bench" / "peers" / "peer.py")
    command = [sys.executable, script, function, path, program("libtouch.so"), threads]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    figures = json.loads(output.splitlines()[-1])
    assert figures["count"] == COUNT
    return figures


def file_of(name):
    return weig_file if name == OURS else str(folder / f"small.{PEERS[name][1]}")


make_files()
runs = defaultdict(list)
for round_number in range(rounds):
    print(f"small, round {round_number + 1} of {rounds}", file=sys.stderr)
    for name in in_turn([OURS, *PEERS], round_number):
        make_warm(file_of(name))
        if name == OURS:
            runs[name].append(weig())
        else:
            runs[name].append(peer(PEERS[name][0], file_of(name)))


def middle(name, figure):
    figures = [each[figure] for each in runs[name]]
    return None if None in figures else median(figures)


def cell(name, figure):
    seconds, ours = middle(name, figure), middle(OURS, figure)
    if seconds is None:
        return ["-", ""]
    return [duration(seconds), f"{seconds / ours:.0f}" if ours else ""]


print(f"{COUNT:,} tensors, page cache warm; medians of {rounds} rounds\n")
print_table(
    ["", "open", "times ours", "to a dict", "times ours", "and touched", "file, MB"],
    [
        [
            name,
            *cell(name, "open"),
            *cell(name, "dict"),
            cell(name, "seconds")[0],
            f"{os.path.getsize(file_of(name)) / 1e6:,.0f}",
        ]
        for name in runs
    ],
)
print("""
  open   only where the package can open without making the tensors
  dict   of torch's CPU tensors; of weig's own tensors by name in C++""")
results = json.loads(json_file.read_text()) if json_file.exists() else {}
results["small"] = {
    name: {figure: middle(name, figure) for figure in ("open", "dict", "seconds")}
    for name in runs
}
json_file.write_text(json.dumps(results, indent=1))
