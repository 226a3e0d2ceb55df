# SPDX-License-Identifier: Apache-2.0
"""Small files that ask for much: memory, time, or both, by what they say or by being
sparse. They are refused at once, or cost no more than what they are."""

import json
import struct

import pytest

import sparse_files
import weig_writer
from command import CORRUPT, LIMIT, NOT_FOUND
from safetensors_file import assemble, entry, f32
from weig_file import GROUPS, Tensor

SECOND = 1.0  # of CPUs, for a process that should need a tenth of it
SMALL = 64 << 20
GIB = 1 << 30
UNSEALED = "--accept-unsealed"


def refuse_cheaply(weig, refused, path, call, status, *words, memory=SMALL):
    refused(call, status, path, *words, kept=path.parent)
    run = weig.measured(*call)
    assert run.status == status and run.cpu_seconds < SECOND, run
    assert run.peak_bytes < memory, run


# --- Names that overlap ---------------------------------------------------------------


@pytest.mark.parametrize("order", ["<", ">"])
def test_names_that_overlap_do_not_fill_the_memory(weig, refused, tmp_path, order):
    """A file of 200 KB, whose names would take 190 MB, and the file made of it more."""
    path = tmp_path / "a.weig"
    path.write_bytes(sparse_files.names_that_overlap(3000, order))
    for call in (
        ["convert", path, "-o", tmp_path / "b.weig"],
        ["export", path, tmp_path / "b.safetensors"],
    ):
        words = ("names overlap", 64 << 20)
        refuse_cheaply(weig, refused, path, call, LIMIT, *words, memory=4 * SMALL)


def test_a_few_names_that_overlap_are_names(weig, tmp_path):
    path = tmp_path / "a.weig"
    path.write_bytes(sparse_files.names_that_overlap(10))
    weig.ok("convert", path, "-o", tmp_path / "b.weig")
    weig.ok("verify", tmp_path / "b.weig")
    listed = weig.ok("ls", "--json", tmp_path / "b.weig").json()["tensors"]
    assert sorted(len(t["name"]) for t in listed) == list(range(65_526, 65_536))


def test_names_of_groups_cannot_overlap(weig, refused, tmp_path):
    """2 MB, whose groups' names would take 10 GB."""
    count, length = 10_000, 1_000_000
    tensors = [Tensor(b"%d" % i, 4, (0,), b"") for i in range(count)]
    names = 8 + 16 * count
    section = struct.pack("<II", count, 0)
    section += b"".join(struct.pack("<QII", names, i, 1) for i in range(count))
    section += b"g" * length + b"\0"
    path = tmp_path / "a.weig"
    path.write_bytes(weig_writer.write(tensors, more={GROUPS: section}))
    for command in ("info", "residency", "warm"):
        words = ("groups section", "within the one before")
        refuse_cheaply(weig, refused, path, [command, path], CORRUPT, *words)
    run = weig.measured("verify", path)
    assert run.status == CORRUPT and b"within the one before" in run.out
    assert run.cpu_seconds < SECOND and run.peak_bytes < SMALL


# --- Sparse files ---------------------------------------------------------------------

TERA = 8 << 40
READING = ("info", "ls", "verify")


@pytest.mark.parametrize("order", ["<", ">"])
def test_billions_of_records_of_zeros(weig, refused, big_tmp, order):
    """4,294,967,294 records: the first is refused before memory is taken for all."""
    count = 2**32 - 2
    end = 64 + 48 * count
    header = {"count": count, "data_offset": end}
    path = sparse_files.minimal(big_tmp / "a.weig", end, order, **header)
    for command in READING:
        call = [command, UNSEALED, path]
        refuse_cheaply(weig, refused, path, call, CORRUPT, "record 0")
    if order == "<":
        call = ["convert", path, "-o", big_tmp / "b.weig"]
        refuse_cheaply(weig, refused, path, call, CORRUPT, "record 0")


def test_what_lies_before_big_endian_data_is_bounded(weig, refused, big_tmp):
    """It is read into memory, so that its length, too, must be allowed."""
    path = sparse_files.minimal(big_tmp / "a.weig", TERA, ">", data_offset=TERA)
    call = ["convert", path, "-o", big_tmp / "b.weig"]
    words = (TERA, GIB, "--max-header-bytes")
    refuse_cheaply(weig, refused, path, call, LIMIT, *words)
    path = sparse_files.minimal(big_tmp / "a.weig", 1 << 20, ">", data_offset=1 << 20)
    refuse_cheaply(weig, refused, path, [*call, "--max-header-bytes", "4096"], LIMIT)
    weig.ok(*call)
    weig.ok("verify", big_tmp / "b.weig")


def test_big_endian_data_that_does_not_fit_is_refused(refused, big_tmp):
    """They are swapped in memory: none is taken that is not there."""
    path = sparse_files.minimal(big_tmp / "a.weig", TERA, ">")
    for call in (["verify", UNSEALED, path], ["export", path, big_tmp / "b"]):
        words = (TERA, "does not fit into memory", "weig convert")
        refused(call, LIMIT, path, *words, kept=big_tmp)


def test_a_header_of_a_gigabyte_is_not_read_where_there_is_none(
    weig, refused, big_tmp
):
    """The length may be true, and the header a hole."""
    path = big_tmp / "a.safetensors"
    path.write_bytes(struct.pack("<Q", GIB + 1) + b'{"w":')
    with open(path, "r+b") as opened:
        opened.truncate(TERA)
    for call in (["info", path], ["convert", path, "-o", big_tmp / "b.weig"]):
        refuse_cheaply(weig, refused, path, call, LIMIT, GIB + 1, GIB)


@pytest.mark.parametrize("kind", ["sealed", "safetensors"])
def test_a_cut_of_a_large_file_is_told_before_its_data_is_read(
    weig, refused, big_tmp, kind
):
    """C36"""
    path = getattr(sparse_files, kind)(big_tmp / "a", 4 * GIB, cut=1)
    for command in READING:
        refuse_cheaply(weig, refused, path, [command, path], CORRUPT)
    call = ["convert", path, "-o", big_tmp / "b.weig"]
    refuse_cheaply(weig, refused, path, call, CORRUPT)


# --- Many of one kind -----------------------------------------------------------------


def test_metadata_of_many_keys_in_two_shards(weig, tmp_path):
    """Merging is not quadratic, and its warnings are not endless."""
    paths = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    for number, path in enumerate(paths):
        metadata = {f"key.{i}": f"{i * number}" for i in range(100_000)}
        tensor = {f"w{number}": entry("U8", [1], 0, 1)}
        path.write_bytes(assemble({"__metadata__": metadata} | tensor, b"x"))
    call = ["convert", *paths, "-o", tmp_path / "a.weig", "--json"]
    run = weig.measured(*call)
    assert run.status == 0 and run.cpu_seconds < 3 * SECOND
    warnings = run.json()["warnings"]
    assert len(warnings) == 21 and "and 99979 more" in warnings[-1]
    metadata = weig.ok("info", "--json", tmp_path / "a.weig").json()["metadata"]
    assert len(metadata) == 100_000 and set(metadata.values()) == {"0"}


def test_a_name_that_is_not_there_among_many_that_are_alike(weig, tmp_path):
    """Looking for what was meant comes to an end."""
    names = [f"{'ab' * i}{'cd' * (250 - i)}{j}" for i in range(100) for j in range(100)]
    path = tmp_path / "a.safetensors"
    path.write_bytes(assemble(dict.fromkeys(names, entry("U8", [0], 0, 0))))
    run = weig.measured("get", path, "dc" * 250)
    assert run.status == NOT_FOUND and run.cpu_seconds < 3 * SECOND
    run = weig("get", path, names[50] + "x")
    assert run.status == NOT_FOUND and "did you mean" in run.err


HARD = {
    "objects": "{}",
    "lists": "[]",
    "texts": '""',
    "commas": ",,",
    "quotes": '\\"',
}


@pytest.mark.parametrize("kind", HARD)
def test_a_header_that_is_hard_to_read(weig, tmp_path, kind):
    """8 MB each; the time is that of reading it once."""
    count = 4 << 20
    inside = HARD[kind] * count
    path = tmp_path / "a.safetensors"
    path.write_bytes(assemble('{"w":{"x":[%s' % inside, b"x"))
    run = weig.measured("info", path)
    assert run.status == CORRUPT, run.err
    assert run.cpu_seconds < 3 * SECOND and run.peak_bytes < 2 * SMALL


def test_a_shape_of_a_million_numbers(weig, refused, tmp_path):
    path = tmp_path / "a.safetensors"
    header = {"w": entry("U8", [1] * 1_000_000, 0, 1)}
    path.write_bytes(assemble(header, b"x"))
    call = ["info", path]
    refuse_cheaply(weig, refused, path, call, CORRUPT, "at most 64")
    header = json.dumps({"w": f32(1)}).replace("[0, 4]", json.dumps([0] * 1_000_000))
    path.write_bytes(assemble(header, bytes(4)))
    refuse_cheaply(weig, refused, path, call, CORRUPT, "at most 2")
