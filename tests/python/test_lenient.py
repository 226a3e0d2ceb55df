# SPDX-License-Identifier: Apache-2.0
"""safetensors files on which readers disagree: holes, bytes behind, names that share
bytes, metadata that is no text. Refused with the reason; --lenient takes them, with a
warning and the right values. Partial overlap is refused by both."""

import json

import pytest

import weig_file
import weig_writer
from command import CORRUPT, UNSUPPORTED
from safetensors_file import assemble, by_hand, by_reference, entry, f32, pattern


def lenient(weig, path, *words):
    """Converts with --lenient; each word must be in a warning. Returns the file."""
    target = path.with_suffix(".weig")
    run = weig.ok("convert", "--lenient", "--json", path, "-o", target, "--force")
    warnings = run.json()["warnings"]
    assert len(warnings) == len(run.err.splitlines())
    assert all(line.startswith("weig: warning: ") for line in run.err.splitlines())
    for word in words:
        assert any(str(word) in warning for warning in warnings), (word, warnings)
    assert run.json()["exact_source"] is False
    weig.ok("verify", target)
    return weig_file.read(target)


A, B = pattern(8, 1), pattern(6, 2)
LENIENT = {
    "hole_between": (
        {"a": f32(2), "b": entry("U8", [6], 12, 18)},
        A + b"hole" + B,
        ("4 bytes", "'b'"),
    ),
    "hole_before_the_first": (
        {"a": f32(2, begin=3), "b": entry("U8", [6], 11, 17)},
        b"xxx" + A + B,
        ("3 bytes", "'a'"),
    ),
    "one_trailing_byte": (
        {"a": f32(2), "b": entry("U8", [6], 8, 14)},
        A + B + b"x",
        ("1 byte",),
    ),
    "trailing_page": (
        {"a": f32(2), "b": entry("U8", [6], 8, 14)},
        A + B + bytes(4096),
        ("4096 bytes",),
    ),
}


@pytest.mark.parametrize("kind", LENIENT)
def test_bytes_of_no_tensor_are_accepted_with_lenient_only(weig, refused, bad, kind):
    """C53"""
    header, data, words = LENIENT[kind]
    path = bad(assemble(header, data))
    refused.everywhere(path, CORRUPT, *words, "--lenient", lenient=False)
    lenient(weig, path, *words)
    expected = weig_writer.write(
        [weig_file.Tensor(b"a", 0, (2,), A), weig_file.Tensor(b"b", 4, (6,), B)]
    )
    assert path.with_suffix(".weig").read_bytes() == expected


def test_many_warnings_are_cut_and_the_rest_is_counted(weig, bad):
    header = {f"t{i:03d}": entry("U8", (1,), 2 * i, 2 * i + 1) for i in range(1000)}
    path = bad(assemble(header, bytes(1999)))
    run = weig.ok("convert", "--lenient", path, "-o", path.with_suffix(".weig"))
    lines = run.err.splitlines()
    assert len(lines) < 100
    assert any("more" in line for line in lines), lines[-1]


def test_lenient_export_is_a_strict_file(weig, bad, tmp_path):
    header, data, _ = LENIENT["hole_between"]
    path = bad(assemble(header, data))
    lenient(weig, path)
    weig.ok("export", tmp_path / "bad.weig", tmp_path / "good.safetensors")
    assert (tmp_path / "good.safetensors").read_bytes() == by_reference(
        {"a": ("F32", (2,), A), "b": ("U8", (6,), B)}
    )


# Header, the tensor that the message is about, the one that it overlaps.
OVERLAPS = {
    "by_two_bytes": ({"a": f32(2), "b": entry("U8", [6], 6, 12)}, "b", "'a'"),
    "one_inside_the_other": ({"a": f32(3), "b": f32(1, begin=4)}, "b", "'a'"),
    "same_begin": ({"a": f32(3), "b": f32(2)}, "a", "'b'"),
    "same_end": ({"a": f32(3), "b": f32(2, begin=4)}, "b", "'a'"),
    "third_over_two_that_share": (
        {"a": f32(2), "b": f32(2), "c": f32(2, begin=4)},
        "c",
        "",
    ),
    "first_over_all": (
        {"a": entry("U8", [12], 0, 12), "b": f32(1), "c": f32(1, begin=4)},
        "a",
        "'b'",
    ),
    "empty_inside": ({"a": f32(3), "b": entry("F32", [0], 4, 4)}, "b", ""),
}


@pytest.mark.parametrize("kind", OVERLAPS)
def test_partial_overlap_is_always_refused(refused, bad, kind):
    """C53"""
    header, tensor, other = OVERLAPS[kind]
    refused.everywhere(bad(assemble(header, bytes(12))), CORRUPT, other, tensor=tensor)


def test_names_that_share_bytes_are_stored_once_with_lenient(
    weig, refused, bad, tmp_path
):
    """C12, C53"""
    data = pattern(24)
    header = {
        "lm_head.weight": f32(2, 2, begin=8),
        "other": f32(2),
        "embed.weight": f32(2, 2, begin=8),
        "flat": f32(4, begin=8),
    }
    path = bad(assemble(header, data))
    refused.everywhere(path, CORRUPT, "same bytes", "--lenient", lenient=False)
    file = lenient(weig, path, "'flat'", "'embed.weight'")
    shared = {"shares": 1, "data": data[8:]}
    expected = weig_writer.write(
        [
            weig_file.Tensor(b"lm_head.weight", 0, (2, 2), **shared),
            weig_file.Tensor(b"other", 0, (2,), data[:8]),
            weig_file.Tensor(b"embed.weight", 0, (2, 2), **shared),
            weig_file.Tensor(b"flat", 0, (4,), **shared),
        ]
    )
    target = tmp_path / "bad.weig"
    assert target.read_bytes() == expected
    assert [t.name for t in file.tensors] == [
        b"embed.weight",
        b"flat",
        b"lm_head.weight",
        b"other",
    ]
    listed = {t["name"]: t for t in weig.ok("ls", "--json", target).json()["tensors"]}
    assert {n: t["alias_of"] for n, t in listed.items()} == {
        "embed.weight": None,
        "flat": "embed.weight",
        "lm_head.weight": "embed.weight",
        "other": None,
    }
    assert listed["flat"]["shape"] == [4] and listed["lm_head.weight"]["shape"] == [
        2,
        2,
    ]
    for name in header:
        begin, end = header[name]["data_offsets"]
        assert weig.ok("get", "--raw", target, name).out == data[begin:end]
    info = weig.ok("info", "--json", target).json()
    assert info["aliases"] == 2
    assert "-> embed.weight" in weig.ok("ls", target).text

    # safetensors cannot say it: export writes them again, and says so.
    run = weig.ok("export", "--json", target, tmp_path / "back.safetensors")
    assert "2 tensors" in run.json()["warnings"][0] and run.json()["exact"] is False
    assert (tmp_path / "back.safetensors").read_bytes() == by_reference(
        {
            n: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])])
            for n, e in header.items()
        }
    )
    # Aliases survive being converted again.
    weig.ok("convert", target, "-o", tmp_path / "again.weig")
    assert (tmp_path / "again.weig").read_bytes() == expected


def test_equal_tensors_are_not_made_aliases(round_trip):
    """C12"""
    target = round_trip(by_hand({"a": ("F32", (2,), A), "b": ("F32", (2,), A)}))
    file = weig_file.read(target)
    assert file["b"].alias_of is None and file["a"].offset != file["b"].offset


def test_sharing_tensors_lie_in_their_owner_s_group(weig, bad):
    """C12"""
    header = {
        "h.1.a": f32(2),
        "h.0.x": f32(2),
        "h.0.b": f32(2, begin=8),
        "a_tied": f32(2, begin=16),
        "h.2.w": f32(2, begin=16),
        "z_tied": f32(2, begin=8),
    }
    data = pattern(24)
    file = lenient(weig, bad(assemble(header, data)))
    expected = weig_writer.write(
        [
            weig_file.Tensor(
                n.encode(),
                0,
                (2,),
                data[slice(*e["data_offsets"])],
                shares=e["data_offsets"][0],
            )
            for n, e in header.items()
        ]
    )
    assert bad(b"x").with_suffix(".weig").read_bytes() == expected
    assert [t.name for t in file.tensors] == [
        b"a_tied",
        b"h.2.w",
        b"h.0.b",
        b"z_tied",
        b"h.0.x",
        b"h.1.a",
    ]
    assert weig_file.groups(file) == [(b"h.0", 2, 4)]


# --- Metadata -------------------------------------------------------------------------

VALUES = {
    "number": "0",
    "null": "null",
    "object": '{"a":1}',
    "list": "[1]",
    "fraction": "1.50e-3",
    "big_number": "18446744073709551615",
    "true": "true",
    "deep": '[{"x":["\u00e9\\n",[null,false]]}]',
}


@pytest.mark.parametrize("kind", VALUES)
def test_metadata_that_is_no_text(weig, refused, bad, tmp_path, kind):
    """C05: strict names the key, lenient keeps the value."""
    header = '{"__metadata__":{"good":"1","the key":%s,"more":"2"},"w":%s}' % (
        VALUES[kind],
        json.dumps(f32(1)),
    )
    path = bad(assemble(header, bytes(4)))
    refused.everywhere(path, CORRUPT, "'the key'", "--lenient", lenient=False)

    target = tmp_path / "kept.weig"
    run = weig.ok("convert", "--lenient", path, "-o", target)
    assert "'the key'" in run.err
    metadata = weig_file.read(target).sections[weig_file.METADATA].decode()
    assert metadata == (
        '{"good":"1","the key":{"type":"json","value":%s},"more":"2"}' % VALUES[kind]
    )
    assert json.loads(weig.ok("info", "--json", target).out)["metadata"]["the key"] == {
        "type": "json",
        "value": json.loads(VALUES[kind]),
    }
    # A source header is kept: export can still give the file back, as it is.
    weig.ok("export", target, tmp_path / "back.safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == path.read_bytes()


def test_export_refuses_metadata_that_safetensors_cannot_hold(
    weig, refused, bad, tmp_path
):
    """C05"""
    header = '{"__metadata__":{"the key":7},"w":%s}' % json.dumps(f32(1))
    path = bad(assemble(header, bytes(5)))  # a trailing byte: no exact source
    weig.ok("convert", "--lenient", path, "-o", tmp_path / "a.weig")
    export = ["export", tmp_path / "a.weig", tmp_path / "b.safetensors"]
    refused(export, UNSUPPORTED, tmp_path / "a.weig", "'the key'", kept=tmp_path)
    refused.as_json(export, UNSUPPORTED)


@pytest.mark.parametrize("value", ["1", "[]", '"x"', "true"])
def test_metadata_that_is_no_map(refused, bad, value):
    path = bad(
        assemble('{"__metadata__":%s,"w":%s}' % (value, json.dumps(f32(1))), bytes(4))
    )
    refused.everywhere(path, CORRUPT, "__metadata__")
