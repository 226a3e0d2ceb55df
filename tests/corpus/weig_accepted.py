# SPDX-License-Identifier: Apache-2.0
"""WEIG files that must open: sealed, minimal and big-endian."""

import struct

import weig_writer
from bent import Bent
from corpus import Accepted
from safetensors_file import sample
from weig_bases import (
    GGML,
    METADATA_TEXT,
    TIED,
    basic,
    basic_tensors,
    content,
    described,
    every_section,
    every_section_tensors,
    minimal,
    sealed,
    swapped,
)
from weig_file import CODES, DIGESTS, DTYPES, INDEX

PLAIN = [name for name, _ in DTYPES.values()]


def _sealed(name, about, specs, **options):
    tensors = described(specs)
    return Accepted(f"{name}.weig", sealed(tensors, **options), "weig", about, tensors)


def sealed_files():
    yield Accepted(
        "basic.weig", basic(), "weig", "groups, tied weights, blocks", basic_tensors()
    )
    yield _sealed("one_tensor", "one tensor", [("w", "f32", (2, 3))])
    yield _sealed("no_tensors", "C02: no tensor", [])
    yield _sealed(
        "metadata_alone", "C02: metadata, no tensor", [], metadata=METADATA_TEXT
    )
    yield _sealed(
        "empty_metadata", "C04: metadata {}", [("w", "u8", (1,))], metadata=b"{}"
    )
    yield _sealed("scalars", "C01", [("a", "f32", ()), ("b", "i64", ())])
    empties = [("a", "f32", (0, 4)), ("b", "f16", (2, 0, 3)), ("c", "u8", (0,))]
    yield _sealed("empties", "C01: no bytes at all", empties)
    yield _sealed("last_is_empty", "C67", [("a", "u8", (4096,)), ("z", "f32", (3, 0))])
    yield _sealed("every_type", "C10, C18", [(n, n, (3, 8)) for n in PLAIN])
    odd = [n for n in PLAIN if DTYPES[CODES[n]][1] < 8]
    yield _sealed(
        "part_of_a_byte", "the last byte is not full", [(n, n, (3,)) for n in odd]
    )
    blocks = [(n, n, (2, elements)) for n, (_, elements, _) in GGML.items()]
    yield _sealed("blocks", "C24: GGML blocks", blocks)
    names = [
        "",
        "a",
        " ",
        "A",
        "\n\t\x1b[31m",
        "'\"\\",
        "…",
        "é",
        "e\u0301",
        "x" * 65535,
    ]
    yield _sealed("names", "any name is a name", [(n, "u8", (1,)) for n in names])
    yield _sealed("rank_64", "C40: the highest rank", [("w", "u8", (1,) * 64)])
    yield _sealed("huge_dimension_of_nothing", "C37", [("w", "f32", (1 << 56, 0, 0))])
    many = [(f"layer.{i}", "u8", (1,)) for i in range(300)]
    yield _sealed("many_names", "collisions in the index", many)
    yield _sealed("page_aligned", "128 KiB take a page", [("w", "u8", (131072,))])
    raw = weig_writer.from_safetensors(sample().raw)
    tensors = [
        (n.encode(), weig_writer.SAFETENSORS_TYPES[t], shape, data)
        for n, (t, shape, data) in sample().tensors.items()
    ]
    yield Accepted("of_safetensors.weig", raw, "weig", "with its source", tensors)
    yield from bent_files()


def bent_files():
    """What no writer of ours makes, and the format allows."""
    tensors = every_section_tensors()

    def made(name, about, raw, options=()):
        return Accepted(f"{name}.weig", bytes(raw), "weig", about, tensors, options)

    yield made("all_sections", "every kind of section", every_section())
    private = every_section({0x80000001: b"private bytes", 77: b"of a newer writer"})
    yield made("unknown_sections", "kinds to pass over", private)
    yield made("no_digests", "digests are not required", every_section({DIGESTS: None}))
    names = [t[0] for t in tensors]
    for slots, seed in ((16, 7), (256, 0)):
        index = _index(names, slots, seed)
        what = every_section({INDEX: index})
        yield made(f"index_{slots}_slots", "another index that leads home", what)
    file = Bent(every_section()).put(40, 3 | 1 << 63 | 1 << 32)
    yield made("high_flags", "flags to ignore", file.reseal().raw)
    file = Bent(every_section()).put(len(every_section()) - 64 + 36, 9, 32)
    yield made("other_writer", "a later revision of the writer", file.reseal().raw)
    file = Bent(every_section())
    file.put(file.entry(DIGESTS) + 4, 1, 32)
    yield made("critical_and_known", "a section that must be known", file.reseal().raw)
    scalar = described([("a", "f32", ()), ("b", "u8", (1,))])
    file = Bent(sealed(scalar))
    file.put(file.record(b"a") + 16, 12345)
    yield Accepted(
        "scalar_with_a_shape_offset.weig",
        bytes(file.reseal().raw),
        "weig",
        "ignored for rank 0",
        scalar,
    )
    file = Bent(every_section())
    file.put(file.record(b"blk.0.q") + 8, 0x80000001, 32)
    unknown = [(tensors[0][0], "unknown:0x80000001", *tensors[0][2:]), *tensors[1:]]
    yield Accepted(
        "unknown_type.weig",
        bytes(file.reseal().raw),
        "weig",
        "opened on request",
        unknown,
        ("unknown_dtypes",),
    )


def _index(names, slots, seed):
    table = [(0, 0)] * slots
    for i, name in enumerate(names):
        assert weig_writer._insert(table, name, i, seed)
    entries = b"".join(struct.pack("<II", f, o) for f, o in table)
    return struct.pack("<QQ48x", seed, slots) + entries


def minimal_files():
    specs = [
        ("a", "f32", (5, 7)),
        ("b", "i16", (9,)),
        ("c", "u8", ()),
        ("d", "f64", (0, 2)),
    ]
    tensors = described(specs)

    def made(name, about, raw, tensors=tensors, kind="weig_minimal"):
        return Accepted(f"{name}.weig", raw, kind, about, tensors, ("unsealed",))

    yield made("minimal", "a simple writer's", minimal(tensors))
    yield made("minimal_no_tensors", "C02", minimal([]), [])
    for gap in (1, 3, 64):
        raw = minimal(tensors, gap=gap)
        yield made(f"minimal_gap_{gap}", "C08, C53: holes, any alignment", raw)
    yield made("minimal_reversed", "names in any order", minimal(tensors[::-1]))
    raw = Bent(minimal(tensors[:2] + [(b"e", "f32", (5, 7), tensors[0][3])]))
    # The third has the bytes of the first, which lie before those of the second.
    raw.put(64 + 2 * 48 + 32, raw.get(64 + 32))
    shared = [*tensors[:2], (b"e", "f32", (5, 7), tensors[0][3])]
    yield made("minimal_shared", "C12: two names, one range", bytes(raw.raw), shared)
    raw = minimal(tensors, strings=bytes(5000))
    yield made("minimal_late_data", "room before the data", raw)

    every = described([(n, n, (24,)) for n in PLAIN])
    big = "weig_big_endian"
    yield made("big_endian", "C21", minimal(tensors, ">"), tensors, big)
    yield made("big_endian_every_type", "C21", minimal(every, ">"), every, big)
    yield made("big_endian_gaps", "C21, C08", minimal(every, ">", gap=1), every, big)
    yield made("big_endian_no_tensors", "C02, C21", minimal([], ">"), [], big)


def files():
    yield from sealed_files()
    yield from minimal_files()
