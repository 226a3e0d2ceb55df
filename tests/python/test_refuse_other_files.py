# SPDX-License-Identifier: Apache-2.0
"""Files that are cut, have more behind them, are empty, or are no weights at all: every
command says what it sees, at once, and in the same words."""

import os
import struct

import pytest

import minimal_file
import weig_file
import weig_writer
from bent import Bent
from command import (
    CANNOT_OPEN,
    CHECKSUM,
    CORRUPT,
    INVALID_ARGUMENT,
    LIMIT,
    NOT_FOUND,
    UNSUPPORTED,
    USAGE,
)
from lookalikes import GOOD, LOOKALIKES
from safetensors_file import assemble, by_hand, by_reference, entry, pattern

SECOND, SMALL = 1.0, 64 << 20
READING = ("info", "ls", "verify")


def cut_places(raw, borders):
    places = set(range(min(65, len(raw))))
    for border in borders:
        places |= {border - 1, border, border + 1}
    places |= {len(raw) - 1, len(raw) - 4096}
    return sorted(p for p in places if 0 <= p < len(raw))


def assert_every_cut_is_refused(weig, path, raw, borders, *options):
    """Each command says so, and all say the same. Yields (place, message)."""
    target = path.with_suffix(".out.weig")
    for place in cut_places(raw, borders):
        path.write_bytes(raw[:place])
        said = set()
        for command in (*READING, "convert"):
            more = ["-o", target] if command == "convert" else options
            run = weig(command, path, *more)
            where = f"cut at {place}: {command}: {run.err!r}"
            assert run.status == CORRUPT and run.out == b"", where
            assert run.err.count("\n") == 1, where
            assert run.err.startswith(f"weig: {path}: "), where
            assert not target.exists(), where
            said.add(run.err)
        assert len(said) == 1, f"cut at {place}: {said}"
        yield place, said.pop()
    assert os.listdir(path.parent) == [path.name]


def test_cut_weig_file(weig, sample_weig, tmp_path):
    """C36"""
    file = weig_file._read(sample_weig)
    sections_at, count = struct.unpack_from("<QQ", sample_weig, 48)
    borders = [64 + 48 * i for i in range(len(file.tensors) + 1)]
    borders += [sections_at, sections_at + 32 * count, file.data_offset]
    borders += [
        weig_file.u64(sample_weig, sections_at + 32 * i + 8) for i in range(count)
    ]
    borders += [t.offset for t in file.tensors]
    borders += [t.offset + len(t.data) for t in file.tensors]
    borders += [len(sample_weig) - 64, len(sample_weig) - 8]
    for place, said in assert_every_cut_is_refused(
        weig, tmp_path / "a.weig", sample_weig, borders
    ):
        if place == 0:
            assert "empty" in said
        elif place >= 4:
            assert str(place) in said
        if place >= 64:
            assert str(len(sample_weig)) in said


def test_cut_safetensors_file(weig, sample, tmp_path):
    """C36"""
    header_end = 8 + struct.unpack_from("<Q", sample.raw)[0]
    borders = [8, header_end]
    borders += [header_end + n for n in range(0, len(sample.raw) - header_end, 96)]
    for place, said in assert_every_cut_is_refused(
        weig, tmp_path / "a.safetensors", sample.raw, borders
    ):
        if place == 0:
            assert "empty" in said
        elif 8 < place < header_end:
            assert str(header_end - 8) in said and str(place - 8) in said
        elif place >= header_end:
            assert str(place - header_end) in said  # how much data there is


MINIMAL = [(b"a", 0, (5, 7), pattern(140)), (b"b", 1, (9,), pattern(18))]


@pytest.mark.parametrize("order", ["<", ">"])
def test_cut_minimal_file(weig, tmp_path, order):
    """C36"""
    raw = minimal_file.build(MINIMAL, order)
    borders = [64, 112, 160, *struct.unpack_from(f"{order}Q", raw, 24)]
    for place, said in assert_every_cut_is_refused(
        weig, tmp_path / "a.weig", raw, borders, "--accept-unsealed"
    ):
        if place >= 64:
            assert str(place) in said and str(len(raw)) in said


def test_file_with_more_behind_it(weig, refused, sample, sample_weig, tmp_path):
    """C90: whole files joined with cat, and bytes after the end."""
    path = tmp_path / "joined"
    for more in (b"x", bytes(4096), sample_weig):
        path.write_bytes(sample_weig + more)
        size = len(sample_weig)
        refused.everywhere(path, CORRUPT, size + len(more), size)
    for more in (b"x", bytes(4096), sample.raw):
        path.write_bytes(sample.raw + more)
        refused.everywhere(
            path, CORRUPT, len(more), "after the last tensor", lenient=False
        )
    path.write_bytes(minimal_file.build(MINIMAL) + b"x")
    refused(["info", "--accept-unsealed", path], CORRUPT, path)


def test_part_of_a_split_weig_file(weig, refused, sample_weig, tmp_path):
    """C90: as `split -b` makes them."""
    half = len(sample_weig) // 2
    (tmp_path / "part").write_bytes(sample_weig[:half])
    refused.everywhere(tmp_path / "part", CORRUPT, half, len(sample_weig))
    (tmp_path / "part").write_bytes(sample_weig[half:])
    refused.everywhere(tmp_path / "part", CORRUPT)


# --- Nothing there --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.safetensors", "a.weig", "a"])
def test_file_of_no_bytes(weig, refused, tmp_path, name):
    """C67, C93"""
    (tmp_path / name).write_bytes(b"")
    refused.everywhere(tmp_path / name, CORRUPT, "the file is empty")
    refused(["info", "--accept-unsealed", tmp_path / name], CORRUPT, tmp_path / name)


def test_tensor_of_no_bytes_alone(weig, round_trip):
    """C67: the region of data has no bytes at all."""
    target = round_trip(by_hand({"only": ("F32", (3, 0), b"")}))
    file = weig_file.read(target)
    assert file.file_size - 64 == file.data_offset == file["only"].offset
    for command in READING:
        weig.ok(command, target)
    assert weig.ok("get", "--json", target, "only").json()["shape"] == [3, 0]


def test_tensor_of_no_bytes_at_the_end_on_a_page_border(weig, round_trip, tmp_path):
    """C67"""
    target = round_trip(
        by_hand({"a": ("U8", (4096,), bytes(4096)), "z": ("U8", (0,), b"")})
    )
    file = weig_file.read(target)
    assert file["z"].offset % 4096 == 0
    assert weig.ok("get", target, "z").text == "[]\n"

    # In a minimal file it lies at the very end of the file.
    raw = minimal_file.build([(b"a", 4, (4096,), bytes(4096)), (b"z", 4, (0, 2), b"")])
    raw = minimal_file.build(
        [(b"a", 4, (4096,), bytes(4096)), (b"z", 4, (0, 2), b"")],
        strings=bytes(-len(raw) % 4096),
    )
    assert len(raw) % 4096 == 0
    (tmp_path / "m.weig").write_bytes(raw)
    accept = "--accept-unsealed"
    for command in READING:
        weig.ok(command, accept, tmp_path / "m.weig")
    assert weig.ok("get", accept, tmp_path / "m.weig", "z").text == "[]\n"
    weig.ok("convert", tmp_path / "m.weig", "-o", tmp_path / "s.weig")
    assert weig_file.read(tmp_path / "s.weig")["z"].shape == (0, 2)

    # In a safetensors file too: the end of the data is where the file ends.
    raw = assemble(
        {"a": entry("U8", (4000,), 0, 4000), "z": entry("U8", (0,), 4000, 4000)}
    )
    raw = assemble(raw[8:], bytes(4000), pad=4096)
    (tmp_path / "z.safetensors").write_bytes(raw)
    for command in READING:
        weig.ok(command, tmp_path / "z.safetensors")
    assert weig.ok("get", tmp_path / "z.safetensors", "z").text == "[]\n"


# --- Not weights ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", LOOKALIKES)
def test_what_is_no_weights_at_all_is_recognised(weig, refused, tmp_path, kind):
    """C93"""
    content, *words = LOOKALIKES[kind]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    refused.everywhere(path, CORRUPT, *words)
    for call in (["info", path], ["convert", path]):
        run = weig.measured(*call)
        assert run.status == CORRUPT
        assert run.seconds < SECOND and run.peak_bytes < SMALL


def test_what_cannot_be_opened(refused, tmp_path):
    """C93, C50: a pipe or a device is never waited for."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    cases = {
        tmp_path / "folder": "folder",
        tmp_path / "dangling": "No such file",
        tmp_path / "missing": "No such file",
        tmp_path / "missing/below": "No such file",
        tmp_path / "dangling/below": "",
        tmp_path / "pipe": "pipe",
        "/dev/zero": "device",
        "/dev/null": "device",
    }
    for path, word in cases.items():
        for command in READING:
            refused([command, path], CANNOT_OPEN, path, word, kept=tmp_path)
            refused.as_json([command, path], CANNOT_OPEN)
        call = ["convert", path, "-o", tmp_path / "out.weig"]
        if word != "folder":
            refused(call, CANNOT_OPEN, path, word, kept=tmp_path)
        else:
            refused(call, CANNOT_OPEN, path, "no weights file", kept=tmp_path)
        refused(["export", path, tmp_path / "out"], CANNOT_OPEN, path, kept=tmp_path)


def test_export_takes_weig_files_only_where_it_says_so(weig, refused, tmp_path):
    """A safetensors file opens everywhere; exporting it gives its tensors again."""
    (tmp_path / "a.safetensors").write_bytes(GOOD)
    weig.ok("export", tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    expected = by_reference({"w": ("F32", (64,), pattern(256))})
    assert (tmp_path / "b.safetensors").read_bytes() == expected


# --- Damage ---------------------------------------------------------------------------


def test_verify_tells_damage_of_data_from_damage_of_structure(
    weig, sample_weig, tmp_path
):
    """C56"""
    file = weig_file._read(sample_weig)
    path = tmp_path / "a.weig"
    for tensor in file.tensors:
        damaged = bytearray(sample_weig)
        damaged[tensor.offset + len(tensor.data) - 1] ^= 0x10
        path.write_bytes(damaged)
        run = weig("verify", "--json", path)
        assert run.status == CHECKSUM
        report = run.json()
        assert report["sound"] is False and report["status"] == 4
        (damage,) = report["damages"]
        assert damage["code"] == "checksum" and damage["tensor"].encode() == tensor.name
        assert damage["begin"] == tensor.offset
        assert damage["end"] == tensor.offset + len(tensor.data)
        assert weig("verify", path).status == CHECKSUM
        export = weig("export", path, tmp_path / "out.safetensors")
        assert export.status == CHECKSUM and tensor.name.decode() in export.err
        assert not (tmp_path / "out.safetensors").exists()
    padding = bytearray(sample_weig)
    padding[len(padding) - 65] = 1
    if not file.tensors[-1].offset + len(file.tensors[-1].data) > len(padding) - 65:
        path.write_bytes(padding)
        run = weig("verify", "--json", path)
        assert run.status == CORRUPT and run.json()["damages"][0]["code"] == "corrupt"
    for at in (0, 4, 8, 41, 70, len(sample_weig) - 1, len(sample_weig) - 64):
        damaged = bytearray(sample_weig)
        damaged[at] ^= 0x20
        path.write_bytes(damaged)
        assert weig("verify", path).status in (CORRUPT, UNSUPPORTED)
        assert weig("info", path).status in (CORRUPT, UNSUPPORTED)


def test_verify_tells_what_it_cannot_check_from_damage(weig, sample_weig, tmp_path):
    """A section of a later version is no damage, and hides none."""
    file = Bent(sample_weig)
    file.put(file.section(weig_file.SOURCE)[0] + 4, 2, 32)  # its encoding
    file.reseal()
    path = tmp_path / "a.weig"
    path.write_bytes(file.raw)
    for options in ([], ["--quick"]):
        run = weig("verify", path, *options)
        assert run.status == UNSUPPORTED, run.text
        assert run.text.startswith("not checked: bytes [")
        assert "no damage found, 1 place that cannot be checked" in run.text
    report = weig("verify", "--json", path).json()
    assert report["status"] == UNSUPPORTED and report["sound"] is False
    assert [d["code"] for d in report["damages"]] == ["unsupported"]

    begin = file.get(file.record(b"model.embed.weight") + 32)
    file.raw[begin] ^= 1
    path.write_bytes(file.raw)
    run = weig("verify", path)
    assert run.status == CHECKSUM
    assert "1 damaged place, 1 place that cannot be checked" in run.text
    file.put(file.section(weig_file.DIGESTS)[0], 0)
    path.write_bytes(file.raw)
    assert weig("verify", path).status == CORRUPT


def test_verify_lists_a_source_header_that_cannot_be_given_back(
    weig, sample_weig, tmp_path
):
    """Its section is sound as bytes are, and yet export would refuse."""
    file = Bent(sample_weig)
    begin, size = file.section(weig_file.SOURCE)
    file.put(begin + 24, file.get(begin + 24) ^ 1)  # the digest of the header
    file.reseal()
    path = tmp_path / "a.weig"
    path.write_bytes(file.raw)
    for options in ([], ["--quick"]):
        run = weig("verify", path, *options)
        assert run.status == CORRUPT and "1 damaged place" in run.text, run.text
        assert run.text.startswith(f"damaged: bytes [{begin}, {begin + size})")
    (damage,) = weig("verify", "--json", path).json()["damages"]
    assert (damage["begin"], damage["end"]) == (begin, begin + size)
    assert weig("export", path, tmp_path / "b.safetensors").status == CORRUPT


def test_verify_tells_the_same_with_any_number_of_threads(weig, sample_weig, tmp_path):
    file = weig_file._read(sample_weig)
    damaged = bytearray(sample_weig)
    for tensor in file.tensors[::2]:
        damaged[tensor.offset] ^= 1
    path = tmp_path / "a.weig"
    path.write_bytes(damaged)
    told = []
    for threads in (0, 1, 2, 7, 1024):
        report = weig("verify", "--json", "--threads", str(threads), path).json()
        told.append(report["damages"])
    assert len(told[0]) == len(file.tensors[::2])
    assert all(damages == told[0] for damages in told)
    begins = [damage["begin"] for damage in told[0]]
    assert begins == sorted(begins)


def test_verify_looks_at_chosen_tensors_or_none(weig, sample_weig, tmp_path):
    file = weig_file._read(sample_weig)
    whole = [tensor for tensor in file.tensors if len(tensor.data) > 0]
    bad, good = whole[0], whole[-1]
    damaged = bytearray(sample_weig)
    damaged[bad.offset] ^= 1
    path = tmp_path / "a.weig"
    path.write_bytes(damaged)
    run = weig("verify", "--json", "--tensors", bad.name.decode(), path)
    assert run.status == CHECKSUM and run.json()["tensors"] == 1
    assert run.json()["checked"] == "some tensors"
    assert [d["tensor"] for d in run.json()["damages"]] == [bad.name.decode()]
    report = weig.ok("verify", "--json", "--tensors", good.name.decode(), path).json()
    assert report["tensors"] == report["tensors_with_digest"] == 1
    assert report["bytes"] == len(good.data)
    quick = weig.ok("verify", "--quick", path).text
    assert quick == (
        f"{path}: structure, sections and metadata are sound; weights were not checked\n"
    )
    some = weig.ok("verify", "--tensors", good.name.decode(), path).text
    assert f": sound, 1 of {len(file.tensors)} tensors checked; " in some
    name, begin, end = bad.name.decode(), bad.offset, bad.offset + len(bad.data)
    found = weig("verify", path).text
    assert found.startswith(f"damaged: tensor '{name}', bytes [{begin}, {end}), ")
    line = found.splitlines()[0]
    assert line.endswith(": they differ from their digest") and len(line) < 120
    assert "expected " in run.json()["damages"][0]["message"]  # both digests
    quick = weig.ok("verify", "--quick", "--load", "read", "--json", path).json()
    assert quick["bytes"] == 0 and quick["checked"] == "structure"
    none = weig("verify", "--tensors", "no*such", path)
    assert none.status == NOT_FOUND and "no*such" in none.err
    both = weig("verify", "--quick", "--tensors", "*", path)
    assert both.status == USAGE
    damaged[70] ^= 1  # of the tensor table
    path.write_bytes(damaged)
    assert weig("verify", "--quick", path).status == CORRUPT


def test_convert_does_not_seal_damage(refused, weig, sample_weig, tmp_path):
    """C56: a WEIG file written anew gets new digests; of damaged data it must not."""
    file = weig_file._read(sample_weig)
    tensor = file.tensors[3]
    damaged = bytearray(sample_weig)
    damaged[tensor.offset] ^= 1
    path = tmp_path / "a.weig"
    path.write_bytes(damaged)
    call = ["convert", path, "-o", tmp_path / "b.weig"]
    refused(call, CHECKSUM, path, tensor=tensor.name.decode(), kept=tmp_path)


@pytest.mark.parametrize(
    "text, code",
    [
        (b'{"k":"1","k":"2"}', CORRUPT),
        (b'{"k":"1","\\u006b":"2"}', CORRUPT),
        (b'{"k":1}', CORRUPT),
        (b'{"k":{"type":"u128","value":1}}', CORRUPT),
        (b'{"k":"1"}{}', CORRUPT),
        (b'{"k":"1",}', CORRUPT),
        (b'{"k":{"type":"json","value":' + b"[" * 99 + b"]" * 99 + b"}}", LIMIT),
    ],
)
def test_metadata_that_cannot_be_read_is_not_copied(refused, tmp_path, text, code):
    """C55: convert writes nothing that its own readers refuse."""
    path = tmp_path / "a.weig"
    tensor = weig_file.Tensor(b"t", 4, (1,), b"x")
    path.write_bytes(weig_writer.write([tensor], metadata=text))
    refused(["info", path], code, path, kept=tmp_path)
    refused(["convert", path, "-o", tmp_path / "b.weig"], code, path, kept=tmp_path)
    refused(["export", path, tmp_path / "b"], code, path, kept=tmp_path)


def test_folder_and_file_together_are_no_sources(refused, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.safetensors").write_bytes(GOOD)
    call = ["convert", tmp_path / "folder", tmp_path / "a.safetensors"]
    refused([*call, "-o", tmp_path / "x.weig"], INVALID_ARGUMENT, None, kept=tmp_path)
