# SPDX-License-Identifier: Apache-2.0
"""GGUF files that must open, and ones that must be refused."""

import struct

from corpus import Accepted, Refused
from gguf_file import ARRAY, BOOL, F32, STRING, U8, U16, U32, U64, gguf
from safetensors_file import pattern

CORRUPT, UNSUPPORTED, LIMIT = "corrupt", "unsupported", "limit"
NAME = ("general.architecture", STRING, "llama")
# GGML's number; elements and bytes of a block.
PLAIN = {"f32": (0, 4), "f16": (1, 2), "i8": (24, 1), "i16": (25, 2), "i32": (26, 4),
         "i64": (27, 8), "f64": (28, 8), "bf16": (30, 2)}  # fmt: skip
BLOCKS = {
    "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24),
    "q8_0": (8, 32, 34), "q8_1": (9, 32, 36), "q2_k": (10, 256, 84),
    "q3_k": (11, 256, 110), "q4_k": (12, 256, 144), "q5_k": (13, 256, 176),
    "q6_k": (14, 256, 210), "q8_k": (15, 256, 292), "iq2_xxs": (16, 256, 66),
    "iq2_xs": (17, 256, 74), "iq3_xxs": (18, 256, 98), "iq1_s": (19, 256, 50),
    "iq4_nl": (20, 32, 18), "iq3_s": (21, 256, 110), "iq2_s": (22, 256, 82),
    "iq4_xs": (23, 256, 136), "iq1_m": (29, 256, 56), "tq1_0": (34, 256, 54),
    "tq2_0": (35, 256, 66), "mxfp4": (39, 32, 17),
}  # fmt: skip
# name, type, shape (the slowest first), bytes
TWO = [("a", "f32", (2, 3), pattern(24)), ("b", "i8", (5,), pattern(5, 2))]


def _number(dtype):
    return (PLAIN[dtype] if dtype in PLAIN else BLOCKS[dtype])[0]


def _inside(tensors):
    return [(name, list(shape[::-1]), _number(dtype), data)
            for name, dtype, shape, data in tensors]  # fmt: skip


def _made(name, about, tensors, keys=(NAME,), **how):
    raw = gguf(list(keys), _inside(tensors), **how)
    expected = [(n.encode(), dtype, shape, data) for n, dtype, shape, data in tensors]
    return Accepted(f"{name}.gguf", raw, "gguf", about, expected)


def accepted():
    yield _made("gguf_plain", "C22", TWO)
    yield _made("gguf_version_2", "C22", TWO, version=2)
    yield _made("gguf_nothing", "C02, C22", [], keys=[])
    yield _made("gguf_keys_alone", "C22", [])
    yield _made("gguf_no_keys", "C22", TWO, keys=[])
    yield _made("gguf_cut_padding", "none behind the last tensor", TWO, end_padding=False)
    for power in (0, 1, 3, 6, 12):
        yield _made(f"gguf_alignment_{1 << power}", "C22", TWO, alignment=1 << power)
    every = [(f"t.{t}", t, (2, 3), pattern(6 * size)) for t, (_, size) in PLAIN.items()]
    yield _made("gguf_every_plain_type", "C22", every)
    blocks = [(f"t.{t}", t, (3, 2 * elements), pattern(6 * size))
              for t, (_, elements, size) in BLOCKS.items()]  # fmt: skip
    yield _made("gguf_every_block", "C24", blocks)
    shapes = [("s", "f32", (), pattern(4)), ("e", "f32", (0, 4), b""),
              ("m", "f16", (0,), b""), ("q", "i8", (2, 1, 2, 1), pattern(4))]  # fmt: skip
    yield _made("gguf_shapes", "C01, C23", shapes)
    yield _made("gguf_name_of_65535", "", [("n" * 65_535, *TWO[0][1:])])
    yield _made("gguf_names", "UTF-8", [("\u00e9\U0001f600", *TWO[0][1:]), ("", *TWO[1][1:])])
    nested = (ARRAY, [(U8, [1, 2]), (ARRAY, [(F32, [1.5])]), (STRING, ["x", b"\xff"])])
    values = [("n", ARRAY, nested), ("h", STRING, b"\xff\0"), ("", U64, 2**64 - 1),
              ("nan", F32, float("nan")), ("z\0", BOOL, False)]  # fmt: skip
    yield _made("gguf_values", "C26", TWO, keys=values)
    parts = [("split.no", U16, 1), ("split.count", U16, 3), ("split.tensors.count", U16, 9)]
    yield _made("gguf_a_part", "C91: a file of its own where it is opened", TWO, parts)


def _deep(levels):
    value = (U8, [1])
    for _ in range(levels):
        value = (ARRAY, [value])
    return [("deep", ARRAY, value)]


def _rows():
    """name, about, code, words, bytes"""
    two = _inside(TWO)
    plain = gguf([NAME], two)
    for version in (0, 1, 4, 65_535):
        yield (f"version_{version}", "C22", UNSUPPORTED, f"version {version}",
               gguf([NAME], two, version=version))  # fmt: skip
    yield ("big_endian", "C21: converted, not opened", UNSUPPORTED, "big-endian",
           gguf([NAME], two, order=">"))  # fmt: skip
    for name, more in (("key_count", {"key_count": 2**60}), ("tensor_count", {"tensor_count": 2**60}),
                       ("one_key_more", {"key_count": 2**64 - 1})):  # fmt: skip
        yield name, "C36", CORRUPT, "ends inside its header", gguf([NAME], two, **more)
    yield ("string_length", "", CORRUPT, "ends inside its header",
           plain[:24] + struct.pack("<Q", 2**64 - 8) + plain[32:])  # fmt: skip
    for kind in (13, 14, 255, 2**32 - 1):
        raw = gguf([("k", U8, 7)], two)
        raw = raw[:33] + struct.pack("<I", kind) + raw[37:]
        yield f"value_type_{kind}", "C26", UNSUPPORTED, f"found {kind}", raw
    for number in (4, 5, 31, 32, 33, 36, 37, 38):
        raw = gguf([NAME], [("w", [32], number, bytes(64))])
        yield f"removed_type_{number}", "C24", UNSUPPORTED, f"GGML's type {number}", raw
    for number in (42, 255, 4096, 2**31, 2**32 - 1):
        raw = gguf([NAME], [("w", [32], number, bytes(64))])
        yield f"unknown_type_{number}", "C24", UNSUPPORTED, f"GGML's type {number}", raw
    row = gguf([NAME], [("w", [33, 2], 8, bytes(128))])
    yield "row_of_33", "C24", CORRUPT, "last dimension", row
    for rank in (5, 255):
        raw = gguf([NAME], [("w", [1] * rank, 0, bytes(4))])
        yield f"rank_{rank}", "", CORRUPT, "more dimensions", raw
    for dims in ([2**63, 2], [2**32, 2**32], [2**64 - 1]):
        raw = gguf([NAME], [("w", dims, 0, bytes(4))])
        yield f"dims_{'_'.join(map(str, dims))}", "", CORRUPT, "dimensions", raw
    for alignment in (0, 3, 48, 2**32 - 1):
        raw = gguf([("general.alignment", U32, alignment)], two)
        yield f"alignment_of_{alignment}", "C22", CORRUPT, "no power of two", raw
    raw = gguf([("general.alignment", U64, 32)], two)
    yield "alignment_type", "C22", CORRUPT, "no power of two", raw
    yield "keys_twice", "C55", CORRUPT, "a key is there twice", gguf([NAME, NAME], two)
    twice = gguf([NAME], [two[0], two[0]])
    yield "names_twice", "C55", CORRUPT, "the same name", twice
    yield "key_text", "", CORRUPT, "not UTF-8", gguf([(b"\xc0\xaf", U8, 1)], two)
    for name, what in ((b"\xed\xa0\x80", "surrogate"), (b"a\0b", "nul"), (b"\xc1\xbf", "overlong")):
        raw = gguf([NAME], [(name, *two[0][1:])])
        yield f"name_{what}", "", CORRUPT, "name is no text", raw
    long = gguf([NAME], [("n" * 65_536, *two[0][1:])])
    yield "name_of_65536", "", CORRUPT, "name is too long", long
    yield "deep_arrays", "C26", LIMIT, "nested more deeply", gguf(_deep(33), two)
    truth = gguf([("k", U8, 2)], two)
    truth = truth[:33] + struct.pack("<I", BOOL) + truth[37:]
    yield "truth_value", "C26", CORRUPT, "neither 0 nor 1", truth
    yield "off_alignment", "", CORRUPT, "alignment", gguf([NAME], two, offsets=[0, 24])
    yield "overlap", "", CORRUPT, "overlaps", gguf([NAME], two, offsets=[0, 0])
    far = gguf([NAME], two, offsets=[0, 2**64 - 32])
    yield "far_outside", "", CORRUPT, "outside the file", far
    for place in (4, 7, 8, 23, 24, 31, 60, 100, len(plain) - 33):
        words = "not a WEIG" if place < 4 else ""
        yield f"cut_at_{place}", "C36", CORRUPT, words, plain[:place]


def _lenient_rows():
    two = _inside(TWO)
    plain = gguf([NAME], two)
    yield "hole", "", "a hole of 32 bytes", gguf([NAME], two, offsets=[0, 64]) + bytes(32)
    yield "trailing", "", "1 byte after", plain + b"x"
    yield "joined_by_cat", "C90", "keep them apart", plain + plain
    same = [("a", *two[0][1:]), ("b", *two[0][1:])]
    yield "same_bytes", "", "has the same bytes", gguf([NAME], same, offsets=[0, 0])


def refused():
    for name, about, code, says, raw in _rows():
        yield Refused(f"gguf_{name}.gguf", raw, "gguf", about, code, says)
    for name, about, says, raw in _lenient_rows():
        yield Refused(f"gguf_{name}.gguf", raw, "gguf", about, CORRUPT, says, lenient=True)
