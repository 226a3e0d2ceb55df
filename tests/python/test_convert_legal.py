# SPDX-License-Identifier: Apache-2.0
"""Legal but unusual safetensors files go in and come out again, byte for byte."""

import hashlib
import json
import struct

import numpy as np
import pytest

import weig_file
import weig_writer
from command import LIMIT, assert_same_file
from safetensors_file import (
    DTYPES,
    assemble,
    by_hand,
    by_reference,
    byte_count,
    entry,
    pattern,
    read_by_reference,
)


def listed(weig, path):
    """{name: what ls says}"""
    return {t["name"]: t for t in weig.ok("ls", "--json", path).json()["tensors"]}


def get_npy(weig, path, name, folder, *options):
    weig.ok("get", path, name, "-o", folder / "out.npy", "--force", *options)
    return np.load(folder / "out.npy", allow_pickle=False)


EMPTY_AND_SCALAR = {
    "zero_rows": ("F32", (0, 4), b""),
    "flag": ("U8", (0,), b""),
    "zero_inside": ("F16", (2, 0, 3), b""),
    "scalar": ("F32", (), struct.pack("<f", 1.5)),
    "count": ("I64", (), struct.pack("<q", -3)),
    "one": ("F32", (1,), struct.pack("<f", 2.5)),
    "empty_at_the_end": ("F64", (0,), b""),
}


@pytest.mark.parametrize("make", [by_hand, by_reference])
def test_empty_and_scalar_tensors_keep_their_shapes(weig, round_trip, tmp_path, make):
    """C01"""
    target = round_trip(make(EMPTY_AND_SCALAR))
    shapes = {name: t["shape"] for name, t in listed(weig, target).items()}
    assert shapes == {n: list(shape) for n, (_, shape, _) in EMPTY_AND_SCALAR.items()}
    for name, (_, shape, data) in EMPTY_AND_SCALAR.items():
        array = get_npy(weig, target, name, tmp_path)
        assert array.shape == shape and array.tobytes() == data
        assert weig.ok("get", "--raw", target, name).out == data
    assert weig.ok("get", target, "scalar").text == "1.5\n"
    assert weig.ok("get", target, "count").text == "-3\n"
    assert weig.ok("get", target, "zero_inside").text == "[]\n"
    values = weig.ok("get", "--json", target, "zero_inside").json()
    assert values["shape"] == [2, 0, 3]


def test_two_empty_tensors_at_one_place_are_not_aliases(weig, round_trip):
    """C01"""
    raw = assemble(
        {"a": entry("F32", (0,), 0, 0), "b": entry("F32", (3, 0), 0, 0)}, pad=8
    )
    target = round_trip(raw)
    assert all(t["alias_of"] is None for t in listed(weig, target).values())
    assert weig.ok("info", "--json", target).json()["aliases"] == 0


@pytest.mark.parametrize(
    "raw",
    [
        assemble("{}"),
        assemble("{}", pad=8),
        assemble("{}\n \t "),
        assemble({"__metadata__": {}}),
        assemble({"__metadata__": {"format": "pt", "\u00e9\n": "\x7f\x00"}}, pad=8),
        by_reference({}, {"a": "b"}),
    ],
)
def test_metadata_without_tensors_is_a_file(weig, round_trip, raw):
    """C02"""
    target = round_trip(raw)
    file = weig_file.read(target)
    assert file.tensors == []
    info = weig.ok("info", "--json", target).json()
    assert info["tensors"] == 0
    expected = json.loads(raw[8:]).get("__metadata__")
    assert info["metadata"] == (expected or {})
    assert (weig_file.METADATA in file.sections) == (expected is not None)
    assert weig.ok("ls", target).out == b""
    assert target.read_bytes() == weig_writer.from_safetensors(raw)


def test_absent_and_empty_metadata_stay_what_they_are(weig, round_trip):
    """C04"""
    tensors = {"a": ("F32", (2,), pattern(8)), "b": ("F16", (3,), pattern(6))}
    seen = []
    for metadata in (None, {}, {"format": "pt"}):
        for raw in (by_hand(tensors, metadata), by_reference(tensors, metadata)):
            target = round_trip(raw)
            file = weig_file.read(target)
            assert file.sections.get(weig_file.METADATA) == (
                None
                if metadata is None
                else json.dumps(metadata).replace(" ", "").encode()
            )
            seen.append({t.name: t.data for t in file.tensors})
            assert weig.ok("info", "--json", target).json()["metadata"] == (
                metadata or {}
            )
    assert all(one == seen[0] for one in seen)


def test_long_metadata_is_kept(weig, round_trip):
    """C05"""
    value = 'long \u00fc\U0001f600"\\\n' * 80_000  # above 1 MiB
    target = round_trip(by_hand({}, {"license": value, "": ""}))
    metadata = weig.ok("info", "--json", target).json()["metadata"]
    assert metadata == {"license": value, "": ""}
    assert len(weig.ok("info", target).text) < 5000  # cut


@pytest.mark.parametrize("pad", range(8))
def test_unaligned_data_is_aligned(weig, round_trip, tmp_path, pad):
    """C08: the header's length gives every start of data modulo 8."""
    tensors = {
        "odd": ("U8", (3,), pattern(3)),
        "f32": ("F32", (5,), struct.pack("<5f", 1, -2, 3.5, 1e30, 0)),
        "f64": ("F64", (2,), struct.pack("<2d", 1 / 3, -1e300)),
        "bf16": ("BF16", (3,), pattern(6)),
    }
    raw = by_hand(tensors, pad=8)
    length = struct.unpack_from("<Q", raw)[0] + pad
    raw = (
        struct.pack("<Q", length)
        + raw[8 : 8 + length - pad]
        + b" " * pad
        + raw[8 + length - pad :]
    )
    target = round_trip(raw)
    for name, tensor in listed(weig, target).items():
        assert tensor["offset"] % 64 == 0, name
        assert weig.ok("get", "--raw", target, name).out == tensors[name][2]
    assert weig.ok("info", "--json", target).json()["alignment"]["bytes"] >= 64
    source = weig.ok("info", "--json", tmp_path / "in.safetensors").json()
    assert source["alignment"]["bytes"] == 1
    f32 = get_npy(weig, target, "f32", tmp_path)
    assert f32.tolist() == np.array([1, -2, 3.5, 1e30, 0], np.float32).tolist()
    # The source itself, as it is, gives the same values.
    for name in tensors:
        direct = weig.ok("get", "--raw", tmp_path / "in.safetensors", name)
        assert direct.out == tensors[name][2]


def test_8_bit_and_4_bit_floats_keep_type_shape_and_bytes(weig, round_trip):
    """C10"""
    tensors = {
        dtype: (dtype, (16, 16), bytes(range(256)))
        for dtype in DTYPES
        if dtype.startswith("F8_")
    }
    tensors["F4"] = ("F4", (2, 6), bytes.fromhex("1032547698BA"))
    tensors["F6_E2M3"] = ("F6_E2M3", (2, 4), pattern(6))
    for make in (by_hand, by_reference):
        if make is by_reference:
            del tensors["F6_E2M3"]
        target = round_trip(make(tensors))
        file = weig_file.read(target)
        for name, (dtype, shape, data) in tensors.items():
            assert file[name].dtype == weig_writer.safetensors_code(dtype)
            assert (file[name].shape, file[name].data) == (shape, data)
        assert listed(weig, target)["F4"]["shape"] == [2, 6]
        assert listed(weig, target)["F4"]["bytes"] == 6


@pytest.mark.parametrize("dtype", ["F4", "F6_E2M3", "F6_E3M2"])
def test_elements_that_do_not_fill_bytes_are_refused_by_convert(
    refused, tmp_path, dtype
):
    """C10: as the reference does."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(assemble({"half": entry(dtype, (3,), 0, 3)}, bytes(3)))
    refused.everywhere(path, 3, tensor="half")


def test_order_in_header_and_data_is_free(weig, round_trip):
    """C53: tensors listed in another order than stored."""
    data = pattern(40)
    raw = assemble(
        {
            "last": entry("U8", (10,), 30, 40),
            "first": entry("F32", (4,), 0, 16),
            "middle": entry("U8", (14,), 16, 30),
        },
        data,
    )
    target = round_trip(raw)
    assert target.read_bytes() == weig_writer.from_safetensors(raw)
    file = weig_file.read(target)
    assert file["first"].data == data[:16] and file["last"].data == data[30:]


@pytest.mark.parametrize(
    "header",
    [
        '{ "a" : { "shape" : [ 2 ] ,\n"data_offsets":[0,8],"dtype":"F32" } }\t\r\n ',
        '{"\\u0061\\/\\u00e9\\ud83d\\ude00":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":{"x":[1,null]}}}',
        '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"z":"1"}}',
        '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}}',
    ],
    ids=[
        "white_space_and_key_order",
        "escapes",
        "unknown_key",
        "metadata_last",
        "no_name",
    ],
)
def test_header_of_another_style_comes_back_byte_for_byte(weig, round_trip, header):
    raw = assemble(header, pattern(8))
    target = round_trip(raw)
    assert weig.ok("info", "--json", target).json()["source"]["file_size"] == len(raw)
    assert target.read_bytes() == weig_writer.from_safetensors(raw)


def test_convert_reports_what_it_did(weig, sample, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(sample.raw)
    report = weig.ok("convert", "--json", tmp_path / "m.safetensors").json()
    target = tmp_path / "m.weig"
    file = weig_file.read(target)
    assert report["output"] == str(target)
    assert report["sources"] == [str(tmp_path / "m.safetensors")]
    assert report["tensors"] == len(file.tensors) and report["aliases"] == 0
    assert report["data_bytes"] == sum(len(t.data) for t in file.tensors)
    assert report["file_size"] == file.file_size == target.stat().st_size
    assert report["file_id"] == file.file_id and report["exact_source"] is True
    assert report["warnings"] == [] and report["other_files"] == []
    info = weig.ok("info", "--json", target).json()
    assert info["file_id"] == file.file_id
    assert [(g["name"].encode(), g["first"], g["count"]) for g in info["groups"]] == (
        weig_file.groups(file)
    )
    assert len(info["groups"]) == 4


def test_sha256_is_recorded_and_left_out_again(weig, round_trip, sample, tmp_path):
    target = round_trip(sample.raw, "--sha256")
    info = weig.ok("info", "--json", target).json()
    assert info["metadata"] == {
        "format": "pt",
        "weig.source.sha256": hashlib.sha256(sample.raw).hexdigest(),
    }
    assert hashlib.sha256(sample.raw).hexdigest() in weig.ok("info", target).text
    assert (
        weig_file.read(target).sections[weig_file.SOURCE][4] == 0
    )  # the header itself


def test_converting_a_weig_file_again_changes_nothing(
    weig, round_trip, tmp_path, sample
):
    first = round_trip(sample.raw)
    weig.ok("convert", first, "-o", tmp_path / "again.weig")
    assert (tmp_path / "again.weig").read_bytes() == first.read_bytes()


def test_existing_mode_is_kept_and_a_new_one_is_plain(weig, sample, tmp_path):
    source, target = tmp_path / "m.safetensors", tmp_path / "m.weig"
    source.write_bytes(sample.raw)
    (tmp_path / "plain").touch()
    weig.ok("convert", source)
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
    target.chmod(0o640)
    weig.ok("convert", source, "--force")
    assert target.stat().st_mode & 0o777 == 0o640


def test_default_output_lies_beside_the_source(weig, sample, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(sample.raw)
    (tmp_path / "other").write_bytes(sample.raw)
    (tmp_path / "folder").mkdir()
    weig.ok("convert", "m.safetensors", cwd=tmp_path)
    weig.ok("convert", "other", cwd=tmp_path)
    weig.ok("convert", "m.safetensors", "-o", "folder", cwd=tmp_path)
    same = {
        (tmp_path / n).read_bytes() for n in ("m.weig", "other.weig", "folder/m.weig")
    }
    assert len(same) == 1


MILLION = 1_300_000


def million_tensors(path):
    """One F16 each, names of about 30 bytes: a header of some 115 MB."""
    with open(path, "wb") as out:
        out.write(bytes(8))
        out.write(b"{")
        step = 20_000
        for first in range(0, MILLION, step):
            entries = ",".join(
                f'"model.layers.{i % 97}.experts.{i:09d}.w":{{"dtype":"F16",'
                f'"shape":[1],"data_offsets":[{2 * i},{2 * i + 2}]}}'
                for i in range(first, min(first + step, MILLION))
            )
            out.write(("," if first else "").encode() + entries.encode())
        out.write(b"}")
        length = out.tell() - 8
        out.write(np.arange(MILLION, dtype="<u2").tobytes())
        out.seek(0)
        out.write(struct.pack("<Q", length))
    return length


def test_a_million_tensors_convert_and_open(weig, refused, big_tmp):
    """C07"""
    source, target = big_tmp / "m.safetensors", big_tmp / "m.weig"
    length = million_tensors(source)
    assert length > 110_000_000
    run = weig.measured("convert", source, "-o", target)
    assert run.status == 0, run.err
    assert run.seconds < 40 and run.peak_bytes < 1 << 30

    # The table, read as one array: all aligned, ascending, values in their places.
    count, _, _, _, _, _, _ = struct.unpack_from("<7Q", target.open("rb").read(64), 8)
    assert count == MILLION
    table = np.fromfile(
        target, dtype="<u8,<u4,<u4,<u8,<u8,<u8,<u8", count=MILLION, offset=64
    )
    offsets = table["f5"]
    assert np.all(offsets % 64 == 0) and np.all(np.diff(offsets.astype("i8")) > 0)
    values = np.fromfile(target, dtype="<u2")[offsets // 2]
    assert np.array_equal(np.sort(values), np.sort(np.arange(MILLION, dtype="<u2")))

    assert weig.ok("info", "--json", target).json()["tensors"] == MILLION
    for i in (0, 12345, MILLION - 1):
        name = f"model.layers.{i % 97}.experts.{i:09d}.w"
        assert weig.ok("get", "--raw", target, name).out == struct.pack(
            "<H", i & 0xFFFF
        )
    weig.ok("verify", target)
    weig.ok("export", target, big_tmp / "back.safetensors")
    assert_same_file(source, big_tmp / "back.safetensors")

    limit = [
        "convert",
        source,
        "-o",
        big_tmp / "x.weig",
        "--max-header-bytes",
        "1000000",
    ]
    refused(limit, LIMIT, source, length, 1_000_000, "--max-header-bytes", kept=big_tmp)


def test_reference_reads_what_export_makes(weig, tmp_path, sample):
    """Where the source cannot be given back, the file is the reference's own."""
    two = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    names = list(sample.tensors)
    parts = [{n: sample.tensors[n] for n in half} for half in (names[::2], names[1::2])]
    for path, part in zip(two, parts):
        path.write_bytes(by_reference(part, {"format": "pt"}))
    weig.ok("convert", *two, "-o", tmp_path / "both.weig")
    weig.ok("export", tmp_path / "both.weig", tmp_path / "both.safetensors")
    exported = (tmp_path / "both.safetensors").read_bytes()
    assert read_by_reference(exported) == sample.tensors
    assert exported == by_reference(sample.tensors, {"format": "pt"})


def test_canonical_export_orders_all_types_as_the_reference_does(weig, tmp_path):
    tensors = {
        f"{i}.{dtype}": (dtype, (2, 4), pattern(byte_count(dtype, (2, 4)), i))
        for i in (0, 1)
        for dtype, (reference, _) in DTYPES.items()
        if reference
    }
    names = list(tensors)
    two = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    two[0].write_bytes(by_hand({n: tensors[n] for n in names[::2]}))
    two[1].write_bytes(by_hand({n: tensors[n] for n in names[1::2]}))
    weig.ok("convert", *two, "-o", tmp_path / "both.weig")
    weig.ok("export", tmp_path / "both.weig", tmp_path / "both.safetensors")
    assert (tmp_path / "both.safetensors").read_bytes() == by_reference(tensors)


def test_metadata_that_is_null_is_none(round_trip, weig):
    header = {"__metadata__": None, "t": entry("F32", [2], 0, 8)}
    target = round_trip(assemble(header, bytes(8)))
    assert weig.ok("info", target, "--json").json()["metadata"] == {}


@pytest.mark.parametrize(
    "layers, line",
    [
        (1, "1: layers.0 (1 tensor)"),
        (2, "2: layers.0 (1 tensor), layers.1 (1 tensor)"),
        (3, "3: layers.0 (1 tensor), layers.1 (1 tensor), layers.2 (1 tensor)"),
        (5, "5: layers.0 (1 tensor), layers.1 (1 tensor), ..., layers.4 (1 tensor)"),
    ],
)
def test_info_names_the_first_groups_and_the_last(weig, tmp_path, layers, line):
    tensors = {f"layers.{i}.w": ("F32", (1,), bytes(4)) for i in range(layers)}
    source = tmp_path / "m.safetensors"
    source.write_bytes(by_hand(tensors))
    weig.ok("convert", source)
    assert f"groups        {line}\n" in weig.ok("info", tmp_path / "m.weig").text


def test_metadata_that_readers_do_not_take(weig, tmp_path):
    """What convert writes can be opened."""
    source = tmp_path / "m.safetensors"
    source.write_bytes(by_hand({}, {"a": "x" * (256 << 20)}))
    run = weig("convert", source)
    assert run.status == LIMIT and "larger than readers allow" in run.err
    assert not (tmp_path / "m.weig").exists()
