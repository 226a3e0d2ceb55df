# SPDX-License-Identifier: Apache-2.0
"""PyTorch checkpoints that break a rule are refused, what would do harm does nothing,
and archives that say two things are none."""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

import torch_file
from command import CORRUPT, LIMIT, MEMORY, SECOND, UNSUPPORTED
from numpy_file import assert_same
from torch_file import Called, Named, Persistent, Storage, of

WRITERS = torch_file.WRITERS.values()


def calls(marker):
    """Every way in which a pickle makes Python call something: what each would run, if
    anybody ran it, leaves a file behind."""
    command = f"touch {marker}"
    text = b"X" + struct.pack("<I", len(command)) + command.encode()
    short = b"\x8c" + bytes([len(command)]) + command.encode()
    system = b"cos\nsystem\n"
    posix = b"\x8c\5posix\x8c\6system\x93"
    evil = f"open({str(marker)!r}, 'w')"
    python = b"X" + struct.pack("<I", len(evil)) + evil.encode()
    return {
        "GLOBAL": b"\x80\2" + system + text + b"\x85R.",
        "STACK_GLOBAL": b"\x80\4" + posix + short + b"\x85R.",
        "INST": b"(" + text + b"ios\nsystem\n.",
        "OBJ": b"(" + system + text + b"o.",
        "NEWOBJ": b"\x80\2" + system + text + b"\x85\x81.",
        "NEWOBJ_EX": b"\x80\4" + posix + short + b"\x85}\x92.",
        "BUILD": b"\x80\2csubprocess\nPopen\n)\x81}X\1\0\0\0a" + text + b"sb.",
        "setstate": b"\x80\2cfunctools\npartial\n" + system + b"\x85R(" + system
        + text + b"\x85}NtbN\x85R.",
        "eval": b"\x80\2cbuiltins\neval\n" + python + b"\x85R.",
        "eval of Python 2": b"\x80\2c__builtin__\neval\n" + python + b"\x85R.",
        "exec": b"\x80\2cbuiltins\nexec\n" + python + b"\x85R.",
        "torch.load": b"\x80\2ctorch.serialization\nload\n" + text + b"\x85R.",
        "torch.hub.load": b"\x80\2ctorch.hub\nload\n" + text + b"\x85R.",
        "load_from_bytes": b"\x80\2ctorch.storage\n_load_from_bytes\n" + text
        + b"\x85R.",
        "nested pickle": b"\x80\2c_pickle\nloads\n" + text + b"\x85R.",
        "EXT1": b"\x80\2\x82\1" + text + b"\x85R.",
        "EXT2": b"\x80\2\x83\1\1" + text + b"\x85R.",
        "EXT4": b"\x80\2\x84\1\1\1\1" + text + b"\x85R.",
        "PERSID": b"P" + command.encode() + b"\n.",
        "BINPERSID of a call": b"\x80\2" + system + text + b"\x85RQ.",
        "dropped": b"\x80\2" + system + text + b"\x85R0}.",
        "below another name": b"\x80\4\x8c\x02os\x8c\x0bpath.system\x93" + short
        + b"\x85R.",
    }  # fmt: skip


@pytest.mark.parametrize("kind", calls("m"))
@pytest.mark.parametrize("writer", [torch_file.archive_of, torch_file.stream_of])
def test_nothing_is_ever_called(refused_quickly, tmp_path, kind, writer):
    """C46"""
    marker = tmp_path / "MARK"
    raw = writer(calls(marker)[kind], [])
    refused_quickly(raw, UNSUPPORTED)
    assert not marker.exists()


@pytest.mark.parametrize("kind", calls("m"))
def test_nothing_beside_tensors_is_ever_called(weig, tmp_path, kind):
    """C46: in a dict that holds a good tensor too. It is refused, or converted without
    what was called."""
    marker = tmp_path / "MARK"
    raw, storages = torch_file.pickled({"w": of(np.arange(2, dtype=np.float32))})
    payload = calls(marker)[kind].removeprefix(b"\x80\2").removeprefix(b"\x80\4")[:-1]
    both = raw[:-1] + b"X\1\0\0\0e" + payload + b"s."
    for name, writer in (("a", torch_file.archive_of), ("s", torch_file.stream_of)):
        storages[0].key = "0"
        source = tmp_path / f"{name}.pt"
        source.write_bytes(writer(both, storages))
        run = weig.measured("convert", source)
        assert run.status in (0, UNSUPPORTED), run.err
        assert run.seconds < SECOND and run.peak_bytes < MEMORY
        if run.status == 0:
            assert kind.startswith(("EXT", "PERSID"))
        else:
            assert "nothing was run" in run.err
        assert not marker.exists()


def test_second_pickle_is_not_looked_at(weig, converted, tmp_path):
    """C46"""
    marker = tmp_path / "MARK"
    array = np.arange(3, dtype=np.float32)
    raw, storages = torch_file.pickled({"w": of(array)})
    evil = calls(marker)["GLOBAL"]
    for pickle_bytes, records in ((raw, {"extra/evil.pkl": evil}), (raw + evil, {})):
        made = torch_file.archive_of(pickle_bytes, storages, records=records)
        tensors, path, _ = converted(made)
        assert_same(weig, tensors, path, {"w": array})
        assert not marker.exists()


BOMBS = {
    "doubled lists": b"\x80\2]" + b"q\1" + b"0](h\1h\1eq\1" * 60 + b".",
    "deep lists": b"\x80\2" + b"]" * 100_000 + b"N" + b"a" * 100_000 + b".",
    "deep tuples": b"\x80\2N" + b"\x85" * 100_000 + b".",
    "many marks": b"\x80\2" + b"(" * 30_000_000 + b"N.",
    "many lists": b"\x80\2" + b"]" * 30_000_000 + b".",
    "one far memo": b"\x80\2Nr\xff\xff\xff\xff.",
    "a long text": b"\x80\4\x8d" + struct.pack("<Q", 1 << 62) + b"x.",
    "a long number": b"\x80\2\x8b\xff\xff\xff\x7f.",
    "a long frame": b"\x80\4\x95" + struct.pack("<Q", (1 << 64) - 1) + b"N.",
    "itself": b"\x80\2]q\1h\1a.",
}


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("writer", [torch_file.archive_of, torch_file.stream_of])
def test_pickles_that_grow(weig, tmp_path, kind, writer):
    """C46: what is small stays small. A list in itself holds no tensors, which is no
    crime."""
    (tmp_path / "a.pt").write_bytes(writer(BOMBS[kind], []))
    run = weig.measured("convert", tmp_path / "a.pt")
    assert run.status in ((0,) if kind == "itself" else (CORRUPT, LIMIT)), run.err
    assert run.seconds < SECOND and run.peak_bytes < MEMORY


def test_expansion_has_a_limit(weig, converted, refused_quickly):
    """C52"""
    three = np.arange(3, dtype=np.float32)
    storage = torch_file.storage_of(three)
    small = {"w": torch_file.Tensor(storage[0], (4, 3), (0, 1))}
    tensors, path, _ = converted(torch_file.archive(small))
    assert_same(weig, tensors, path, {"w": np.tile(three, (4, 1))})
    huge = torch_file.Tensor(storage[0], (1 << 20, 1 << 20), (0, 0))
    words = ("--max-expansion", "4398046511104 bytes")
    refused_quickly(torch_file.archive({"w": huge}), LIMIT, *words, tensor="w")
    large = torch_file.archive({"w": torch_file.Tensor(storage[0], (1 << 18,), (0,))})
    refused_quickly(large, LIMIT, "--max-expansion", tensor="w")
    tensors, path, _ = converted(large, "--max-expansion", "1000000")
    assert_same(weig, tensors, path, {"w": np.zeros(1 << 18, np.float32)})


def test_sizes_that_disagree(refused_quickly):
    """C39"""
    array = np.arange(10, dtype=np.float32)
    raw, storages = torch_file.pickled({"w": of(array)})
    for data in (array.tobytes()[:-1], array.tobytes() + b"four", b""):
        storages[0].data = data
        refused_quickly(torch_file.archive_of(raw, storages), CORRUPT, "another size")
    wide = torch_file.Tensor(Storage("float32", bytes(16)), (2, 2), (3, 1))
    for writer in WRITERS:
        refused_quickly(writer({"w": wide}), CORRUPT, "beyond its storage", tensor="w")
        many = torch_file.Tensor(Storage("uint8", b"x"), (1,) * 65, (1,) * 65)
        refused_quickly(writer({"w": many}), CORRUPT, "at most 64", tensor="w")


def test_other_kinds_of_tensors_are_named(refused_quickly):
    quantized = Called(Named("torch._utils", "_rebuild_qtensor"), (1,))
    words = ("_rebuild_qtensor",)
    refused_quickly(torch_file.archive({"a": quantized}), UNSUPPORTED, *words, tensor="a")
    odd = torch_file.Tensor(Persistent(7), (1,), (1,))
    odd.storage.untyped = False
    refused_quickly(torch_file.archive({"a": odd}), CORRUPT, "no tuple", tensor="a")


def test_names_that_meet(refused_quickly):
    """C55"""
    one = of(np.zeros(1))
    for writer in WRITERS:
        raw = writer({"a.b": one, "a": {"b": of(np.ones(1))}})
        refused_quickly(raw, CORRUPT, "same name", tensor="a.b")


@pytest.mark.parametrize("writer", WRITERS)
def test_cut_file(weig, tmp_path, writer):
    """C36"""
    raw = writer({"w": of(np.arange(2000, dtype=np.float32))})
    source = tmp_path / "a.pt"
    sizes = {*range(1, 65), *range(64, len(raw) - 1, 97), len(raw) - 1, len(raw) - 4096}
    for size in sorted(sizes):
        source.write_bytes(raw[:size])
        run = weig("convert", source)
        assert run.status == CORRUPT, (size, run.err)
        assert not (tmp_path / "a.weig").exists()


def test_files_in_one(weig, refused_quickly):
    """C90"""
    raw = torch_file.stream({"w": of(np.zeros(3))})
    refused_quickly(raw + raw, CORRUPT, "after the last storage", "--lenient")
    raw = torch_file.archive({"w": of(np.zeros(3))})
    refused_quickly(raw + raw, CORRUPT)
    refused_quickly(b"x" * 10 + raw, CORRUPT)


def test_pickle_that_is_no_checkpoint(refused, tmp_path):
    path = tmp_path / "a.pkl"
    for protocol in (2, 3, 4, 5):
        path.write_bytes(pickle.dumps({"a": [1, 2.5, "x"] * 10}, protocol))
        refused.everywhere(path, CORRUPT, "a pickle of Python")


@pytest.mark.parametrize("writer", WRITERS)
def test_other_commands_say_to_convert_it_first(refused, tmp_path, writer):
    path = tmp_path / "a.pt"
    path.write_bytes(writer({"w": of(np.zeros(3))}))
    for command in ("info", "ls", "verify"):
        refused([command, path], UNSUPPORTED, path, f"weig convert {path}")


# --- The zip archive ------------------------------------------------------------------


def bombs():
    zeros = bytes(64 << 20)
    raw, storages = torch_file.pickled({"w": of(np.zeros(4, np.float32))})
    deflated = {"packing": zipfile.ZIP_DEFLATED}
    storages[0].data = zeros
    yield "more than the shape", torch_file.archive_of(raw, storages, **deflated), CORRUPT
    storages[0].data = bytes(16)
    large = torch_file.archive_of(zeros * 2, storages, **deflated)
    yield "a pickle of zeros", large, LIMIT
    lies = torch_file.archive_of(raw, storages, **deflated).replace(
        struct.pack("<I", 16), struct.pack("<I", 1 << 30)
    )
    yield "a size that lies", lies, CORRUPT
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for i in range(200_000):
            file.writestr(f"a/{i}", b"")
    yield "200,000 members", out.getvalue(), CORRUPT


@pytest.mark.parametrize("kind", range(4))
def test_zip_bombs(refused_quickly, kind):
    """C49"""
    _, raw, status = list(bombs())[kind]
    refused_quickly(raw, status)


def test_honest_zeros_pass(weig, converted):
    """C49"""
    for size in (64 << 10, 8 << 20):
        raw = torch_file.archive(
            {"w": of(np.zeros(size, np.uint8))}, packing=zipfile.ZIP_DEFLATED
        )
        tensors, path, _ = converted(raw)
        assert_same(weig, tensors, path, {"w": np.zeros(size, np.uint8)})


def changed(raw, name, entry_offset=None, local_offset=None, value=b"\1"):
    """An archive with bytes of a member's two headers changed."""
    raw, name = bytearray(raw), f"archive/{name}"
    with zipfile.ZipFile(io.BytesIO(bytes(raw))) as file:
        local = file.getinfo(name).header_offset
    entry = raw.rindex(name.encode()) - 46
    if local_offset is not None:
        raw[local + local_offset : local + local_offset + len(value)] = value
    if entry_offset is not None:
        raw[entry + entry_offset : entry + entry_offset + len(value)] = value
    return bytes(raw)


BROKEN = {
    "encrypted": ({"entry_offset": 8, "local_offset": 6}, UNSUPPORTED, "encrypted"),
    "another method": ({"entry_offset": 10, "local_offset": 8, "value": b"\x0c"},
                       UNSUPPORTED, "not read: 12"),
    "local method": ({"local_offset": 8, "value": b"\x08"}, CORRUPT, "the method"),
    "local name": ({"local_offset": 30, "value": b"A"}, CORRUPT, "the name"),
    "local checksum": ({"local_offset": 14}, CORRUPT, "the checksum"),
    "local size": ({"local_offset": 22}, CORRUPT, "the size"),
    "local mark": ({"name": "data/0", "local_offset": 0}, CORRUPT, "the mark"),
    "two sizes": ({"entry_offset": 24}, CORRUPT, "two sizes"),
    "other disk": ({"entry_offset": 34}, UNSUPPORTED, "several parts"),
    "place": ({"name": "data/0", "entry_offset": 42, "value": bytes(4)}, CORRUPT,
              "overlap"),
    "place far behind": ({"name": "data/0", "entry_offset": 44}, CORRUPT, "no member"),
    "checksum": ({"entry_offset": 16, "local_offset": 14, "value": b"abcd"}, CORRUPT,
                 "another checksum"),
    "name with NUL": ({"entry_offset": 46, "local_offset": 30, "value": b"\0"}, CORRUPT,
                      "NUL"),
    "entry mark": ({"entry_offset": 0}, CORRUPT, "directory is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_archives(refused_quickly, kind):
    """C49, C31"""
    where, status, words = BROKEN[kind]
    where = {"name": "data.pkl"} | where
    raw = torch_file.archive({"w": of(np.arange(4, dtype=np.float32))})
    refused_quickly(changed(raw, **where), status, words)


def test_member_twice(refused_quickly):
    """C55"""
    raw = torch_file.archive({"w": of(np.zeros(4))}, records={"data/x": b"12345678"})
    refused_quickly(raw.replace(b"data/x", b"data/0"), CORRUPT, "same name")


def test_bytes_of_no_member(refused_quickly):
    raw = torch_file.archive({"w": of(np.zeros(4))})
    at = raw.index(b"PK\1\2")
    end = bytearray(raw[-22:])
    struct.pack_into("<I", end, 16, at + 4)
    refused_quickly(raw[:at] + b"four" + raw[at:-22] + end, CORRUPT, "no member")


def test_forced_zip64_and_streamed_members(weig, converted):
    """C31"""
    array = np.arange(100, dtype=np.float32)
    raw, storages = torch_file.pickled({"w": of(array)})

    class Unseekable(io.RawIOBase):
        def __init__(self):
            self.bytes = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.bytes += bytes(data)
            return len(data)

    for zip64 in (False, True):
        for sink in (io.BytesIO(), Unseekable()):
            with zipfile.ZipFile(sink, "w") as file:
                for name, data in (("data.pkl", raw), ("data/0", storages[0].data)):
                    info = zipfile.ZipInfo(f"archive/{name}")
                    with file.open(info, "w", force_zip64=zip64) as member:
                        member.write(data)
            made = sink.getvalue() if isinstance(sink, io.BytesIO) else bytes(sink.bytes)
            tensors, path, _ = converted(made)
            assert_same(weig, tensors, path, {"w": array})
