# SPDX-License-Identifier: Apache-2.0
"""safetensors files that must open, and ones that must be refused; and what is no
weights file at all."""

import json
import struct

from corpus import Accepted, Refused
from lookalikes import LOOKALIKES
from safetensors_broken import MISFITS, TEXTS, misfit
from safetensors_file import (
    DTYPES,
    assemble,
    by_hand,
    byte_count,
    entry,
    f32,
    pattern,
    sample,
)
from weig_writer import SAFETENSORS_TYPES

CORRUPT, UNSUPPORTED = "corrupt", "unsupported"
TWO = {"a": ("F32", (2, 3), pattern(24)), "b": ("U8", (5,), pattern(5, 2))}


def _expected(tensors):
    return [
        (name.encode("utf-8", "surrogatepass"), SAFETENSORS_TYPES[t], tuple(s), data)
        for name, (t, s, data) in tensors.items()
    ]


def accepted():
    def made(name, about, tensors, raw=None, **options):
        raw = by_hand(tensors, **options) if raw is None else raw
        expected = _expected(tensors)
        return Accepted(f"{name}.safetensors", raw, "safetensors", about, expected)

    yield made("plain", "two tensors", TWO)
    yield made(
        "of_the_reference", "made by the reference", sample().tensors, sample().raw
    )
    yield made("no_tensors", "C02", {}, b"\2\0\0\0\0\0\0\0{}")
    yield made("metadata_alone", "C02", {}, metadata={"format": "pt"})
    yield made("empty_metadata", "C04", TWO, metadata={})
    yield made("metadata", "C04", TWO, metadata={"format": "pt", "k": '\u00e9\n"\\'})
    null = by_hand(TWO).replace(b'{"a"', b'{"__metadata__":null,"a"')
    null = struct.pack("<Q", struct.unpack("<Q", null[:8])[0] + 20) + null[8:]
    yield made("metadata_null", "none, as the reference reads it", TWO, null)
    long = {"k": "x" * 100_000}
    yield made("metadata_long", "C05", TWO, metadata=long)
    some = {"s": ("F32", (), pattern(4)), "t": ("I64", (), pattern(8))}
    yield made("scalars", "C01", some)
    none = {
        "a": ("F32", (0, 4), b""),
        "b": ("F16", (2, 0, 3), b""),
        "c": ("U8", (0,), b""),
    }
    yield made("empties", "C01, C67", none)
    yield made(
        "empty_between", "C01", {"a": TWO["a"], "e": ("F32", (0,), b""), "b": TWO["b"]}
    )
    yield made("empty_at_the_end", "C67", {**TWO, "e": ("F64", (3, 0), b"")})
    every = {t: (t, (2, 4), pattern(byte_count(t, (2, 4)))) for t in DTYPES}
    yield made("every_type", "C10, C18", every)
    yield made("f4", "C10: two a byte", {"w": ("F4", (2, 6), pattern(6))})
    yield made("f6", "C10: four in three bytes", {"w": ("F6_E2M3", (4,), pattern(3))})
    for spaces in range(1, 8):
        text = by_hand(TWO, pad=0)[8:-29]
        raw = assemble(text + b" " * spaces, TWO["a"][2] + TWO["b"][2])
        yield made(f"spaces_{spaces}", "C08: data at any address", TWO, raw)
    odd = {
        "a": ("U8", (3,), pattern(3)),
        "b": ("F32", (1,), pattern(4)),
        "c": ("F64", (1,), pattern(8)),
    }
    yield made("odd_places", "C08", odd, pad=0)
    header = {"b": entry("U8", (5,), 24, 29), "a": f32(2, 3)}
    raw = assemble(header, TWO["a"][2] + TWO["b"][2])
    yield made("stored_in_another_order", "C53", TWO, raw)
    names = [
        "",
        " ",
        "a/b",
        "__metadata",
        "\u5c42.0.\u03b2",
        "e\u0301",
        "'\"\\",
        "\n\x1b[2J",
        "\U0001f600",
    ]
    yield made("names", "any name is a name", {n: ("U8", (1,), b"x") for n in names})
    escaped = assemble(
        b'{"\\u0061":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},'
        b'"\\ud83d\\ude00\\/":{"dtype":"U8","shape":[5],"data_offsets":[24,29]}}',
        TWO["a"][2] + TWO["b"][2],
    )
    spelled = {"a": TWO["a"], "\U0001f600/": TWO["b"]}
    yield made("names_by_escapes", "JSON's escapes", spelled, escaped)
    yield made("longest_name", "65,535 bytes", {"x" * 65_535: ("U8", (1,), b"x")})
    yield made("rank_64", "C40: the highest rank", {"w": ("U8", (1,) * 64, b"x")})
    yield made("huge_dimension_of_nothing", "C37", {"w": ("F32", (2**56, 0), b"")})
    loose = json.dumps({"a": f32(2, 3), "b": entry("U8", (5,), 24, 29)}, indent="\t")
    raw = assemble(loose + "\r\n", TWO["a"][2] + TWO["b"][2])
    yield made("white_space", "JSON's white space", TWO, raw)
    keys = (
        b'{"a":{"data_offsets":[0,24],"shape":[2,3],"dtype":"F32"},'
        b'"b":{"shape":[5],"data_offsets":[24,29],"dtype":"U8"}}'
    )
    yield made("keys_in_any_order", "", TWO, assemble(keys, TWO["a"][2] + TWO["b"][2]))
    more = keys.replace(b'"U8"}', b'"U8","x":{"y":[1,null,true,-1.5e3,"z"]}}')
    raw = assemble(more, TWO["a"][2] + TWO["b"][2])
    yield made("keys_to_pass_over", "as the reference does", TWO, raw)
    for what, length in (("gzip", 0x8B1F), ("zip", 0x4B50)):
        text = by_hand(TWO, pad=0)[8:-29]
        raw = assemble(text.ljust(length), TWO["a"][2] + TWO["b"][2])
        yield made(f"length_spells_{what}", "C93: the length is a mark", TWO, raw)
    many = {f"layer.{i}.w": ("U8", (1,), bytes([i % 256])) for i in range(500)}
    yield made("many", "500 tensors", many)


def headers():
    """(name, about, code, says, file)."""
    for kind, (what, size, words) in MISFITS.items():
        says = str(words[0]) if words else "tensor 'w'"
        yield kind, "C37, C39, C40", CORRUPT, says, misfit(what, bytes(size))
    for kind, text in TEXTS.items():
        yield f"text_{kind}", "C45", CORRUPT, "", assemble(text, bytes(4))
    good = by_hand(TWO, pad=0)
    size = len(good)
    for length in (
        0,
        1,
        2,
        size - 9,
        size - 8,
        size - 7,
        size,
        2**31,
        2**63,
        2**64 - 1,
    ):
        raw = struct.pack("<Q", length) + good[8:]
        yield f"length_{length}", "C45: a length that lies", CORRUPT, "", raw
    for depth, what in ((b"[", b"]"), (b'{"k":', b"}")):
        name = "lists" if what == b"]" else "objects"
        text = b'{"w":{"x":' + depth * 5000 + b"1" + what * 5000 + b"}}"
        yield f"deep_{name}", "C45: nested 5,000 deep", "", "", assemble(text)
    number = b'{"w":{"dtype":"U8","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,1]}}'
    yield "long_number", "C45", CORRUPT, "tensor 'w'", assemble(number, b"x")
    for dtype in ("F7_X", "f32", "", "F32\n"):
        shown = dtype.replace("\n", "\\n")
        raw = assemble({"w": entry(dtype, [1], 0, 4)}, bytes(4))
        name = f"type_{shown.strip().replace(chr(92), '_') or 'none'}"
        yield name, "C10", UNSUPPORTED, f"'{shown}'", raw
    one = json.dumps(f32(1))
    two = json.dumps(f32(1, begin=4))
    for name, other in (("w", "w"), ("w", "\\u0077")):
        raw = assemble('{"%s":%s,"%s":%s}' % (name, one, other, two), bytes(8))
        what = "name_twice" if other == "w" else "name_twice_by_escape"
        yield what, "C55", CORRUPT, "same name", raw
    raw = assemble('{"__metadata__":{"k":"1","k":"2"},"w":%s}' % one, bytes(4))
    yield "metadata_key_twice", "C55", CORRUPT, "'k'", raw
    raw = assemble('{"__metadata__":{},"w":%s,"__metadata__":{}}' % one, bytes(4))
    yield "metadata_twice", "C55", CORRUPT, "__metadata__ twice", raw
    for key in ("dtype", "shape", "data_offsets"):
        value = json.dumps(f32(1)[key])
        raw = assemble('{"w":%s,"%s":%s}}' % (one[:-1], key, value), bytes(4))
        yield f"{key}_twice", "C55", CORRUPT, f"{key} twice", raw
    raw = assemble('{"a\\u0000b":%s}' % one, bytes(4))
    yield "name_with_nul", "R1", CORRUPT, "NUL", raw
    raw = assemble('{"%s":%s}' % ("x" * 65_536, one), bytes(4))
    yield "name_too_long", "R1", CORRUPT, "too long", raw
    for what, value in {"list": "[1]", "text": '"x"', "number": "1"}.items():
        raw = assemble('{"__metadata__":%s,"w":%s}' % (value, one), bytes(4))
        yield f"metadata_is_a_{what}", "C05", CORRUPT, "no object", raw
    f4 = {"w": entry("F4", [3], 0, 2)}
    yield "half_a_byte", "C10", CORRUPT, "whole bytes", assemble(f4, bytes(2))
    inside = {"a": entry("U8", [4], 0, 4), "b": entry("U8", [0], 2, 2)}
    yield "empty_inside", "C53", CORRUPT, "inside another", assemble(inside, bytes(4))
    for by in (1, 2, 3):
        over = {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 4 - by, 8 - by)}
        raw = assemble(over, bytes(8 - by))
        yield f"overlap_by_{by}", "C53", CORRUPT, "overlaps", raw


def lenient_headers():
    """What --lenient takes: (name, about, says, file)."""
    hole = {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 8, 12)}
    yield "hole", "C53", "hole of 4 bytes", assemble(hole, bytes(12))
    yield (
        "hole_first",
        "C53",
        "hole of 4",
        assemble({"a": entry("U8", [4], 4, 8)}, bytes(8)),
    )
    same = {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 0, 4)}
    yield "same_range", "C53", "same bytes", assemble(same, bytes(4))
    for more in (1, 4096):
        raw = by_hand(TWO) + bytes(more)
        yield f"trailing_{more}", "C53", f"{more} byte{'s' if more > 1 else ''} after", raw
    for what, value in (
        ("number", "0"),
        ("null", "null"),
        ("list", "[1]"),
        ("object", '{"a":1}'),
    ):
        text = '{"__metadata__":{"k":%s},"w":%s}' % (value, json.dumps(f32(1)))
        yield (
            f"metadata_value_{what}",
            "C05",
            "'k' is not a string",
            assemble(text, bytes(4)),
        )


def cuts():
    """C36"""
    raw = sample().raw
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    places = {0, 1, 7, 8, 9, 63, 64, 65, end - 1, end, end + 1, end + 96, len(raw) - 1}
    for place in sorted(places | {len(raw) - 64}):
        says = "empty" if place == 0 else ""
        if 8 < place < end:
            says = str(end - 8)
        yield f"cut_at_{place}", "C36", CORRUPT, says, raw[:place]


def refused():
    for rows in (headers(), cuts()):
        for name, about, code, says, raw in rows:
            code = code or "limit"
            yield Refused(f"{name}.safetensors", raw, "safetensors", about, code, says)
    for name, about, says, raw in lenient_headers():
        yield Refused(
            f"{name}.safetensors",
            raw,
            "safetensors",
            about,
            CORRUPT,
            says,
            lenient=True,
        )
    for kind, (content, *words) in LOOKALIKES.items():
        yield Refused(f"no_weights_{kind}", content, "none", "C93", CORRUPT, words[0])
