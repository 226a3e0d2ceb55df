# SPDX-License-Identifier: Apache-2.0
# formats.py SAFETENSORS WEIG FOLDER ROUNDS: the same model as a file of each format that
# convert reads. Each is converted in a cgroup of 512 MiB, where its most anonymous memory
# is looked at and what it becomes is compared with WEIG, tensor by tensor. Those that
# store elements as they are, are then converted in turn with cp and a sync of the same
# file. As root, since only root makes cgroups.
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from measure import (
    WEIG,
    duration,
    in_turn,
    make_cold,
    mebibytes,
    median,
    prepare,
    print_table,
    print_verdict,
    run,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))
import onnx_file
import torch_file

source, model, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
rounds = int(sys.argv[4])
LIMIT = 512 << 20
MEMORY = 128 << 20
PIECE = 32 << 20
ROOT = Path("/sys/fs/cgroup")
V1 = (ROOT / "memory").is_dir()
group = (ROOT / "memory" if V1 else ROOT) / f"weig-bench-{os.getpid()}"
target = folder / "converted.weig"


def header():
    """(name, shape, begin, end) of the tensors, by place in the file."""
    with open(source, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        entries = json.loads(file.read(length))
    base = 8 + length
    found = [
        (name, entry["shape"], *(base + at for at in entry["data_offsets"]))
        for name, entry in entries.items()
        if name != "__metadata__"
    ]
    return sorted(found, key=lambda tensor: tensor[2])


def pieces(begin, end):
    """The source's bytes between these."""
    with open(source, "rb") as file:
        file.seek(begin)
        while begin < end:
            piece = file.read(min(PIECE, end - begin))
            begin += len(piece)
            yield piece


def export(path, *options):
    run([WEIG, "export", model, str(path), *options])


class Bytes:
    """Stands for the bytes of a tensor, which are never all in memory."""

    def __init__(self, begin, end):
        self.begin, self.end = begin, end

    def __len__(self):
        return self.end - self.begin


def make_stream(path):
    """A checkpoint as torch wrote it before version 1.6."""
    tensors = {
        name: torch_file.raw_tensor("float16", shape, Bytes(begin, end))
        for name, shape, begin, end in header()
    }
    raw, storages = torch_file.pickled(tensors, 2, (None,))
    with path.open("wb") as file:
        file.write(torch_file.stream_of(raw, [], keys=[s.key for s in storages]))
        for storage in storages:
            file.write(struct.pack("<q", len(storage.data) // 2))
            file.writelines(pieces(storage.data.begin, storage.data.end))


def make_onnx(path):
    data = path.with_suffix(".data")
    shutil.copyfile(source, data)
    tensors = [
        onnx_file.external(name, 10, shape, location=data.name, offset=begin,
                           length=end - begin)
        for name, shape, begin, end in header()
    ]  # fmt: skip
    path.write_bytes(onnx_file.of(*tensors))


def make_deflated(path):
    """Arrays that deflate well, so that making them does not take all day."""
    block = bytes(range(256)) * 4096
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for i in range(4):
            with archive.open(f"array.{i}.npy", "w", force_zip64=True) as member:
                member.write(npy_header([1 << 30], False))
                for _ in range((1 << 30) // len(block)):
                    member.write(block)


def npy_header(shape, fortran, descr="|u1"):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)})
    text = text.ljust(-(-(len(text) + 11) // 64) * 64 - 11) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()


def make_npy(path, fortran):
    """One matrix of all bytes of the model."""
    end = header()[-1][3]
    rows, columns = 4096, (end - header()[0][2]) // 4096
    with path.open("wb") as file:
        file.write(npy_header([rows, columns], fortran))
        file.writelines(pieces(end - rows * columns, end))


# By name: what makes the file, the file, and whether its elements are stored as they are.
FORMATS = {
    "safetensors": (lambda path: os.symlink(source, path), "m.safetensors", True),
    "GGUF": (lambda path: export(path, "--architecture", "llama"), "m.gguf", True),
    "PyTorch, archive": (export, "m.pt", True),
    "PyTorch, stream": (make_stream, "m.old.pt", True),
    "NumPy, archive": (export, "m.npz", True),
    "NumPy, archive, deflated": (make_deflated, "m.deflated.npz", False),
    "NumPy, one array": (lambda path: make_npy(path, False), "m.npy", True),
    "NumPy, one array, column-major": (lambda path: make_npy(path, True), "m.f.npy", False),
    "ONNX, data beside it": (make_onnx, "m.onnx", True),
}


def data_of(path):
    beside = path.with_suffix(".data")
    return beside if beside.exists() else path


def oom_kills():
    name = "memory.oom_control" if V1 else "memory.events"
    for line in (group / name).read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    raise SystemExit(f"{group / name} tells no oom_kill")


def enter():
    (group / "cgroup.procs").write_text(str(os.getpid()))


def remove_target():
    target.unlink(missing_ok=True)
    os.sync()  # what removing leaves to be written is not for the next run to pay


def in_little_memory(path):
    """Seconds, and the most anonymous memory."""
    remove_target()
    make_cold(data_of(path))
    command = [WEIG, "convert", str(path), "-o", str(target)]
    peak, start = 0, time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=enter) as process:
        while process.poll() is None:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
            time.sleep(0.002)
    if process.returncode != 0:
        raise SystemExit(f"{command}: exit status {process.returncode}")
    return time.perf_counter() - start, peak


def differences():
    """Of what was converted and the model, by their digests."""
    compared = subprocess.run(
        [WEIG, "diff", "--json", model, str(target)], capture_output=True, text=True
    )
    found = json.loads(compared.stdout)
    return sum(len(found[what]) for what in ("added", "removed", "changed"))


group.mkdir()
peaks, different, rows, compared = {}, {}, [], {}
try:
    (group / ("memory.limit_in_bytes" if V1 else "memory.max")).write_text(str(LIMIT))
    for name, (make, file_name, is_stored) in FORMATS.items():
        path = folder / file_name
        make(path)
        seconds, peaks[name] = in_little_memory(path)
        if target.stat().st_size > 0 and file_name in ("m.safetensors", "m.gguf", "m.pt",
                                                       "m.old.pt", "m.npz", "m.onnx"):  # fmt: skip
            different[name] = differences()
        size = data_of(path).stat().st_size
        rows.append([name, f"{size / 1e9:.2f} GB", duration(seconds), mebibytes(peaks[name])])
        if is_stored:
            ways = {
                "convert": [WEIG, "convert", str(path), "-o", str(target)],
                "cp": ["sh", "-c", 'cp "$0" "$1" && sync "$1"', str(data_of(path)), str(target)],
            }
            times = {way: [] for way in ways}
            for round_number in range(rounds):
                for way in in_turn(ways, round_number):
                    remove_target()
                    prepare(data_of(path), "cold")
                    times[way].append(run(ways[way]).wall)
            compared[name] = [median(times[way]) for way in ways]
        for made in (path, path.with_suffix(".data")):
            made.unlink(missing_ok=True)
    kills = oom_kills()
finally:
    remove_target()
    group.rmdir()

print(f"In a cgroup of {mebibytes(LIMIT)}:\n")
print_table(["convert, from", "file", "time", "anonymous memory"], rows)
print(f"\nCold, memory backed, medians of {rounds} rounds:\n")
print_table(
    ["from", "weig convert", "cp + sync", "ratio"],
    [
        [name, duration(ours), duration(cp), f"{ours / cp:.2f}"]
        for name, (ours, cp) in compared.items()
    ],
)
print()
print_verdict(
    "convert of each format in that cgroup",
    "nothing killed, and all tensors equal",
    f"{kills} killed, {sum(different.values())} of {len(different)} files' tensors differ",
    kills == 0 and not any(different.values()),
)
print_verdict(
    "anonymous memory of convert, of any format",
    f"at most {mebibytes(MEMORY)}",
    mebibytes(max(peaks.values())),
    max(peaks.values()) <= MEMORY,
)
worst = max(compared, key=lambda name: compared[name][0] / compared[name][1])
ratio = compared[worst][0] / compared[worst][1]
print_verdict(
    "convert of what is stored as it is, against cp and sync",
    "at most 1.00 of the time",
    f"{ratio:.2f} ({worst})",
    ratio <= 1.0,
)
