# SPDX-License-Identifier: Apache-2.0
# peers_load.py SAFETENSORS_FILE WEIG_FILE ROUNDS JSON_FILE [PEERS]: the same tensors
# loaded with weig and with other packages, each in a fresh process, to CPU tensors with
# every page touched, at the machine's read-ahead and at 128 KiB. The peers' files lie
# beside the safetensors file (bench/peers/files.py); PEERS names functions of
# bench/peers/peer.py, for a look at some. To be run by a Python that has what
# bench/peers/requirements.txt lists.
#
# cold    nothing of the file is in the page cache
# huge    all of it is, in huge folios as far as they go; at the machine's read-ahead
# again   a second start: the page cache is as the same way's cold load has left it; at
#         128 KiB
# small   all of it is, in small folios, as a plain mapping leaves it; at 128 KiB
import importlib.metadata
import json
import os
import subprocess
import sys
from collections import defaultdict, namedtuple
from pathlib import Path

from measure import (
    ROOT,
    back_memory,
    duration,
    in_turn,
    load,
    make_cold,
    mebibytes,
    median,
    print_table,
    print_verdict,
    program,
    resident_share,
    run,
)
from read_ahead import may_set_read_ahead, read_ahead, read_ahead_kib

safetensors_file, weig_file = map(os.path.realpath, sys.argv[1:3])
rounds, json_file = int(sys.argv[3]), Path(sys.argv[4])
threads = str(len(os.sched_getaffinity(0)))
size = os.path.getsize(safetensors_file)
SHORT = 128  # KiB; the usual default of kernels

# function: of bench/peers/peer.py; None for weig. alike: whether it does the same work
# as the others, which give tensors one can use.
Peer = namedtuple("Peer", "function kind alike", defaults=[True])
OURS = "weig (C++)"
PEERS = {
    OURS: Peer(None, "weig"),
    "weig (C++), safetensors file": Peer(None, "safetensors"),
    "safetensors load_file": Peer("safetensors_load_file", "safetensors"),
    "safetensors load_file, pread": Peer("safetensors_pread", "safetensors"),
    "safetensors load, of bytes": Peer("safetensors_bytes", "safetensors"),
    "torch.load, mmap": Peer("torch_mapped", "pt"),
    "torch.load": Peer("torch_read", "pt"),
    "ztensor": Peer("ztensor", "zt"),
    "ztensor, safetensors file": Peer("ztensor", "safetensors"),
    "runai-model-streamer": Peer("runai", "safetensors"),
    "fastsafetensors, nogds": Peer("fastsafetensors", "safetensors"),
    "flashpack, mapped": Peer("flashpack_mapped", "flashpack"),
    "flashpack, parallel read": Peer("flashpack_read", "flashpack"),
    "tensorizer": Peer("tensorizer", "tensors"),
    "numpy.load, mmap_mode": Peer("numpy_mapped", "npy"),
    "gguf": Peer("gguf", "gguf"),
    "llama-cpp-python": Peer("llama_cpp", "llama", alike=False),
}
if sys.argv[5:]:  # for a look at some of them
    wanted = {None, *sys.argv[5].split(",")}
    PEERS = {title: peer for title, peer in PEERS.items() if peer.function in wanted}


def path_of(peer):
    if peer.kind == "weig":
        return weig_file
    return str(Path(safetensors_file).with_suffix(f".{peer.kind}"))


def files_of(peer):
    path = Path(path_of(peer))
    return [str(file) for file in path.iterdir()] if path.is_dir() else [str(path)]


PEERS = {name: peer for name, peer in PEERS.items() if os.path.exists(path_of(peer))}


def output_of(peer, *arguments):
    script = str(ROOT / "bench" / "peers" / "peer.py")
    command = [sys.executable, script, peer.function, path_of(peer), *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return output.splitlines()[-1]


def check_same():
    """That all give tensors of the same names and bytes."""
    digests = {
        name: output_of(peer, "digest")
        for name, peer in PEERS.items()
        if peer.function and peer.alike
    }
    if len(set(digests.values())) != 1:
        raise SystemExit(f"not the same tensors: {digests}")


def load_once(peer):
    if peer.function is None:
        figures = load([program("claim_load"), path_of(peer), "auto", threads, "awake"])
        # As the others, from when its libraries are there, on a processor that was busy.
        started = figures["seconds"] - figures["inside"] - figures["waking"]
        return figures | {"seconds": figures["inside"], "imports": started}
    return json.loads(output_of(peer, program("libtouch.so"), threads))


def cached(peer):
    """Whether all of it, or nothing of it, is in the page cache; None if neither."""
    shares = {resident_share(file) for file in files_of(peer)}
    return {1: True, 0: False}.get(shares.pop()) if len(shares) == 1 else None


def evict(peer):
    for file in files_of(peer):
        make_cold(file)


def fill(peer, by):
    for file in files_of(peer):
        run([program(by), file])


def make_state(peer, state):
    """Returns whether it is proven. "again" is made by the cold run before it."""
    if state != "again":
        evict(peer)
    if state in ("huge", "small"):
        fill(peer, "limit_load" if state == "huge" else "plain_load")
    back_memory(size, 0 if state == "cold" else size)
    if state == "again" and not cached(peer):
        fill(peer, "raw_read")  # what was read past the page cache
    if state != "cold":
        # A host may have taken the pages' memory back: their next touch pays for it.
        fill(peer, "plain_load" if state == "small" else "limit_load")
    return cached(peer) == (state != "cold")


def measure_at(kib, states):
    """Runs of each peer in each state."""
    runs, unproven = defaultdict(list), 0
    for round_number in range(rounds):
        print(f"{kib} KiB, round {round_number + 1} of {rounds}", file=sys.stderr)
        for name in in_turn(PEERS, round_number):
            for state in states:
                unproven += not make_state(PEERS[name], state)
                runs[name, state].append(load_once(PEERS[name]))
            evict(PEERS[name])
    if unproven:
        print(f"  the state was not as said, or not known, in {unproven} runs")
    return runs


def middle(runs, name, state, figure="seconds"):
    return median(each[figure] for each in runs[name, state])


def print_runs(runs, states):
    head = ["to CPU tensors, touched"]
    for state in states:
        head += [state, "ours", "huge-mapped"]
    rows = []
    for name in PEERS:
        row = [name]
        for state in states:
            seconds = middle(runs, name, state)
            row += [
                duration(seconds),
                f"{seconds / middle(runs, OURS, state):.2f}",
                f"{middle(runs, name, state, 'huge'):.0%}",
            ]
        memory = mebibytes(middle(runs, name, states[-1], "anonymous"))
        imports = duration(middle(runs, name, states[-1], "imports"))
        rows.append([*row, memory, imports])
    print_table([*head, "memory", "imports"], rows)
    print()


def judge(runs, state, limit, what):
    rivals = {
        name: middle(runs, name, state)
        for name, peer in PEERS.items()
        if peer.function and peer.alike
    }
    best = min(rivals, key=rivals.get)
    ours = middle(runs, OURS, state)
    print_verdict(
        f"{what}, {state}, against the best peer",
        f"at most {limit} of its time",
        f"{ours / rivals[best]:.2f} ({duration(ours)} to {duration(rivals[best])} of "
        f"{best})",
        ours <= limit * rivals[best],
    )
    for name, seconds in rivals.items():
        if seconds < ours:
            print(
                f"lost  {what}, {state}: {name} takes {seconds / ours:.2f} of our time"
            )


def as_json(runs, states):
    figures = ("seconds", "huge", "anonymous", "major", "minor")
    return {
        name: {
            state: {figure: middle(runs, name, state, figure) for figure in figures}
            | {"all": [each["seconds"] for each in runs[name, state]]}
            for state in states
        }
        for name in PEERS
    }


PACKAGES = {
    *("fastsafetensors", "flashpack", "gguf", "llama_cpp_python", "numpy"),
    *("runai-model-streamer", "safetensors", "tensorizer", "torch", "ztensor"),
}


def versions():
    installed = importlib.metadata.distributions()
    found = {each.metadata["Name"]: each.version for each in installed}
    return {name: found[name] for name in sorted(PACKAGES & found.keys())}


own = read_ahead_kib(safetensors_file)
settings = {own: ("cold", "huge")}
if may_set_read_ahead(safetensors_file):
    settings[SHORT] = ("cold", "again", "small")
else:
    print(f"not root: only at the machine's read-ahead of {own} KiB")

print(
    f"{size / 1e9:.2f} GB, {threads} threads touch; memory backed; medians of {rounds} "
    "rounds\n"
)
print(", ".join(f"{name} {version}" for name, version in versions().items()), "\n")
check_same()
results = {}
for kib, states in settings.items():
    with read_ahead(safetensors_file, kib):
        runs = measure_at(kib, states)
    results[kib] = as_json(runs, states)
    print(f"read-ahead {kib} KiB\n")
    print_runs(runs, states)
    if kib == SHORT:
        judge(runs, "cold", 0.75, f"peers at {kib} KiB")
        judge(runs, "again", 0.2, f"peers at {kib} KiB")
    else:
        judge(runs, "cold", 1.05, f"peers at {kib} KiB")
        judge(runs, "huge", 1.05, f"peers at {kib} KiB")
    print()
json_file.write_text(
    json.dumps(
        {
            "bytes": size,
            "rounds": rounds,
            "threads": int(threads),
            "versions": versions(),
            "read_ahead_kib": results,
        },
        indent=1,
    )
)
